#include "quarry/local/cuda/scrambled_sobol.h"

#include <curand.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/sobol.h"

namespace quarry::local::cuda {
namespace {

// Point i is the exclusive or of the direction numbers of the bits of i ^ (i >> 1), and a shift. A thread keeps the
// part of the lowest 8 bits of its points; that of the others is its block's, and changes by two numbers from 256
// points to the next.
constexpr const char* kPoints = R"cuda(
namespace quarry::local::sobol {
struct Params { int64_t s[4]; };
template <class T> QUARRY_FN void write(const Params& p) {
  constexpr int kLowBits = 8, kBits = sizeof(T) * 8;
  constexpr uint64_t kLow = 1 << kLowBits, kTile = 8192;
  const uint64_t offset = p.s[2], count = p.s[3];
  const T* const v = reinterpret_cast<const T*>(p.s[0]) + static_cast<uint64_t>(blockIdx.y) * (kBits + 1);
  T* const out = reinterpret_cast<T*>(p.s[1]) + static_cast<uint64_t>(blockIdx.y) * count;
  const uint32_t thread = threadIdx.x, gray = thread ^ (thread >> 1);
  T low = v[kBits];
#pragma unroll
  for (int bit = 0; bit < kLowBits; ++bit)
    if ((gray >> bit & 1) != 0) low ^= v[bit];
  uint64_t above = offset / kLow + static_cast<uint64_t>(blockIdx.x) * (kTile / kLow);
  for (int bit = 0; bit + kLowBits < kBits; ++bit)
    if (((above ^ (above >> 1)) >> bit & 1) != 0) low ^= v[bit + kLowBits];
  if ((above & 1) != 0) low ^= v[kLowBits - 1];
  for (uint64_t k = 0; k < kTile / kLow; ++k, ++above) {
    const uint64_t i = above * kLow + thread - offset;  // large before the first point
    if (i < count) out[i] = low;
    if ((above + 1) * kLow - offset >= count) return;
    int bit = 0;
    while (((above + 1) >> bit & 1) == 0) ++bit;
    low ^= v[bit + kLowBits] ^ v[kLowBits - 1];
  }
}
)cuda";

// cuRAND's, which are not scrambled.
template <class T>
const T* vendor_directions() {
  void* numbers = nullptr;
  if constexpr (sizeof(T) == 4) {
    curandDirectionVectors32_t* vectors = nullptr;
    check(curandGetDirectionVectors32(&vectors, CURAND_DIRECTION_VECTORS_32_JOEKUO6), "curandGetDirectionVectors32");
    numbers = vectors;
  } else {
    curandDirectionVectors64_t* vectors = nullptr;
    check(curandGetDirectionVectors64(&vectors, CURAND_DIRECTION_VECTORS_64_JOEKUO6), "curandGetDirectionVectors64");
    numbers = vectors;
  }
  return static_cast<const T*>(numbers);
}

template <class T>
std::vector<char> directions(const BitGenerator& bits) {
  constexpr size_t kBits = sizeof(T) * 8;
  const T* const vendor = vendor_directions<T>();
  std::vector<char> all;
  for (int64_t d = 0; d < bits.dimensions; ++d) {
    std::array<T, kBits + 1> words{};
    std::copy_n(vendor + d * static_cast<int64_t>(kBits), kBits, words.begin());
    words[kBits] = scramble_directions(std::span<T, kBits>(words.data(), kBits), bits.seed, d);
    const auto* const bytes = reinterpret_cast<const char*>(words.data());
    all.insert(all.end(), bytes, bytes + sizeof(words));
  }
  return all;
}

// The last ones made: those of many dimensions take milliseconds.
std::shared_ptr<const std::vector<char>> kept_directions(const BitGenerator& bits) {
  struct Kept {
    std::mutex mutex;
    std::tuple<BitGenerator::Kind, uint64_t, int64_t> key;
    std::shared_ptr<const std::vector<char>> numbers;
  };
  static Kept& kept = *new Kept;
  const std::lock_guard lock(kept.mutex);
  const std::tuple key{bits.kind, bits.seed, bits.dimensions};
  if (!kept.numbers || kept.key != key) {
    kept.numbers = std::make_shared<const std::vector<char>>(scrambled_directions(bits));
    kept.key = key;
  }
  return kept.numbers;
}

}  // namespace

std::vector<char> scrambled_directions(const BitGenerator& bits) {
  return word_size(bits.kind) == 4 ? directions<uint32_t>(bits) : directions<uint64_t>(bits);
}

ModuleSource sobol_source(int64_t word_size) {
  ModuleSource source{kPoints, {"scrambled_points"}};
  source.text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(256) scrambled_points(const __grid_constant__ Params p) {{ "
      "write<{}>(p); }}\n}}\n",
      word_size == 4 ? "uint32_t" : "uint64_t");
  return source;
}

void fill_scrambled(const BitGenerator& bits, void* words, int64_t count, const ExecContext& context) {
  constexpr int kLow = 256;
  CudaStream& stream = cuda_stream(context.stream);
  const int64_t size = word_size(bits.kind), points = count / bits.dimensions;
  const Module& module = module_cache().get(fmt::format("scrambled_sobol {}", size), stream.device().index,
                                            [=] { return sobol_source(size); });
  // Copied from memory that is not pinned: when the call is back, it has been read.
  const std::shared_ptr<const std::vector<char>> numbers = kept_directions(bits);
  const Scratch table(static_cast<int64_t>(numbers->size()), context);
  QUARRY_CUDA_CALL(
      cudaMemcpyAsync(table.data(), numbers->data(), numbers->size(), cudaMemcpyHostToDevice, stream.handle()));
  std::vector<int64_t> slots = {address(table.data()), address(words), static_cast<int64_t>(bits.offset), points};
  const auto before = static_cast<int64_t>(bits.offset % kLow);
  launch_kernel(module.kernel(0), ceil_divide(before + points, kSobolTile), bits.dimensions, kBlockThreads, slots,
                stream);
}

}  // namespace quarry::local::cuda
