#include "quarry/local/cuda/bit_generators.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/scrambled_sobol.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local::cuda {
namespace {

using Kind = BitGenerator::Kind;
using Ordering = BitGenerator::Ordering;

constexpr int64_t kMostDimensions = 20000;  // of cuRAND's direction vectors

curandRngType_t vendor_type(Kind kind) {
  switch (kind) {
    case Kind::philox:
      return CURAND_RNG_PSEUDO_PHILOX4_32_10;
    case Kind::xorwow:
      return CURAND_RNG_PSEUDO_XORWOW;
    case Kind::mrg32k3a:
      return CURAND_RNG_PSEUDO_MRG32K3A;
    case Kind::mt19937:
      return CURAND_RNG_PSEUDO_MT19937;
    case Kind::mtgp32:
      return CURAND_RNG_PSEUDO_MTGP32;
    case Kind::sobol32:
      return CURAND_RNG_QUASI_SOBOL32;
    case Kind::sobol64:
      return CURAND_RNG_QUASI_SOBOL64;
    case Kind::scrambled_sobol32:
    case Kind::scrambled_sobol64:
      break;  // scrambled_sobol.h
  }
  return CURAND_RNG_TEST;
}

struct OrderingRow {
  curandOrdering_t value;
  const char* name;
};
OrderingRow vendor_ordering(Ordering ordering) {
  switch (ordering) {
    case Ordering::standard:
      return {CURAND_ORDERING_PSEUDO_DEFAULT, "default"};
    case Ordering::best:
      return {CURAND_ORDERING_PSEUDO_BEST, "best"};
    case Ordering::seeded:
      return {CURAND_ORDERING_PSEUDO_SEEDED, "seeded"};
    case Ordering::legacy:
      return {CURAND_ORDERING_PSEUDO_LEGACY, "legacy"};
    case Ordering::dynamic:
      return {CURAND_ORDERING_PSEUDO_DYNAMIC, "dynamic"};
  }
  return {CURAND_ORDERING_PSEUDO_DEFAULT, "default"};
}

}  // namespace

VendorGenerator::VendorGenerator(const BitGenerator& bits, Side side) : kind_(bits.kind), dimensions_(bits.dimensions) {
  const curandRngType_t type = vendor_type(kind_);
  if (side == Side::host)
    check(curandCreateGeneratorHost(&generator_, type), "curandCreateGeneratorHost");
  else
    check(curandCreateGenerator(&generator_, type), "curandCreateGenerator");
  try {
    if (is_quasi_random(kind_)) {
      check(curandSetQuasiRandomGeneratorDimensions(generator_, static_cast<unsigned>(dimensions_)),
            "curandSetQuasiRandomGeneratorDimensions");
      return;
    }
    const OrderingRow ordering = vendor_ordering(bits.ordering);
    if (bits.ordering != Ordering::standard &&
        curandSetGeneratorOrdering(generator_, ordering.value) != CURAND_STATUS_SUCCESS)
      throw NotSupported(fmt::format("{} has no ordering '{}'", name(kind_), ordering.name));
    check(curandSetPseudoRandomGeneratorSeed(generator_, bits.seed), "curandSetPseudoRandomGeneratorSeed");
  } catch (...) {
    curandDestroyGenerator(generator_);
    throw;
  }
}

VendorGenerator::~VendorGenerator() { curandDestroyGenerator(generator_); }

void VendorGenerator::set_stream(cudaStream_t stream) { check(curandSetStream(generator_, stream), "curandSetStream"); }

bool VendorGenerator::can_skip() const { return kind_ != Kind::mt19937 && kind_ != Kind::mtgp32; }

void VendorGenerator::skip_to(uint64_t offset) {
  check(curandSetGeneratorOffset(generator_, offset), "curandSetGeneratorOffset");
  offset_ = offset;
}

void VendorGenerator::fill(void* words, int64_t count) {
  const auto many = static_cast<size_t>(count);
  if (word_size(kind_) == 4)
    check(curandGenerate(generator_, static_cast<unsigned*>(words), many), "curandGenerate");
  else
    check(curandGenerateLongLong(generator_, static_cast<unsigned long long*>(words), many), "curandGenerateLongLong");
  offset_ += static_cast<uint64_t>(count / (is_quasi_random(kind_) ? dimensions_ : 1));
}

namespace {

// A generator's state belongs to a stream; the position in the sequence is looked up at every call.
using Key = std::tuple<int, cudaStream_t, Kind, uint64_t, int64_t, Ordering>;

struct Entry {
  std::mutex mutex;
  std::unique_ptr<VendorGenerator> generator;
  int device = 0;

  ~Entry() {
    // Destroying waits for what the generator still writes.
    int current = 0;
    if (cudaGetDevice(&current) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) return;
    generator.reset();
    cudaSetDevice(current);
  }
};

// The generators used last.
class Generators {
 public:
  std::shared_ptr<Entry> get(const Key& key) {
    std::shared_ptr<Entry> dropped;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      found->second.last_use = ++clock_;
      return found->second.entry;
    }
    if (entries_.size() >= kMostGenerators) {
      const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& x, const auto& y) {
        return x.second.last_use < y.second.last_use;
      });
      dropped = std::move(oldest->second.entry);
      entries_.erase(oldest);
    }
    auto entry = std::make_shared<Entry>();
    entry->device = std::get<0>(key);
    entries_[key] = {entry, ++clock_};
    return entry;
  }

 private:
  static constexpr size_t kMostGenerators = 8;
  struct Used {
    std::shared_ptr<Entry> entry;
    uint64_t last_use = 0;
  };
  std::mutex mutex_;
  std::map<Key, Used> entries_;
  uint64_t clock_ = 0;
};

Generators& generators() {
  static auto* const instance = new Generators();  // never destroyed: as the backend
  return *instance;
}

class CudaRandomWords final : public RandomWords {
 public:
  void check(const BitGenerator& bits) override {
    if (bits.dimensions > kMostDimensions) {
      throw NotSupported(fmt::format("{} of {} dimensions: cuRAND has direction vectors of {}", name(bits.kind),
                                     bits.dimensions, kMostDimensions));
    }
  }

  void fill(const BitGenerator& bits, void* words, int64_t count, const ExecContext& context) override {
    check(bits);
    if (count == 0) return;
    CudaStream& stream = cuda_stream(context.stream);
    const int device = stream.device().index;
    use_device(device);
    if (is_scrambled(bits.kind)) return fill_scrambled(bits, words, count, context);
    const std::shared_ptr<Entry> entry =
        generators().get({device, stream.handle(), bits.kind, bits.seed, bits.dimensions, bits.ordering});
    const std::lock_guard lock(entry->mutex);
    std::unique_ptr<VendorGenerator>& generator = entry->generator;
    try {
      if (!generator || (generator->offset() > bits.offset && !generator->can_skip())) {
        generator = std::make_unique<VendorGenerator>(bits, VendorGenerator::Side::device);
        generator->set_stream(stream.handle());
      }
      if (generator->offset() != bits.offset) {
        if (generator->can_skip())
          generator->skip_to(bits.offset);
        else
          drop(*generator, bits.offset, context);
      }
      generator->fill(words, count);
    } catch (...) {
      generator.reset();  // whatever state it is in
      throw;
    }
  }

 private:
  static void drop(VendorGenerator& generator, uint64_t offset, const ExecContext& context) {
    constexpr uint64_t kWords = uint64_t{1} << 22;
    const auto most = static_cast<int64_t>(std::min(kWords, offset - generator.offset()));
    const Scratch unused(most * 4, context);
    while (generator.offset() < offset) {
      const auto left = static_cast<int64_t>(std::min(kWords, offset - generator.offset()));
      generator.fill(unused.data(), left);
    }
  }
};

}  // namespace

RandomWords& cuda_random_words() {
  static auto* const instance = new CudaRandomWords();
  return *instance;
}

}  // namespace quarry::local::cuda
