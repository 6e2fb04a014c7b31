#include "quarry/local/ops/random/words.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <random>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/program/bit_generators.h"

namespace quarry::local {

namespace {

constexpr int64_t kMostDimensions = 20000;  // cuRAND's

uint64_t seed_of(std::optional<int64_t> seed) {
  if (!seed) {
    std::random_device entropy;
    const uint64_t high = entropy();
    return (high << 32) | entropy();
  }
  if (*seed < 0) throw InvalidArgument(fmt::format("expected non-negative integer, got the seed {}", *seed));
  return static_cast<uint64_t>(*seed);
}

uint64_t offset_of(int64_t offset) {
  if (offset < 0) throw InvalidArgument(fmt::format("offset must not be negative, got {}", offset));
  return static_cast<uint64_t>(offset);
}

BitGenerator::Ordering ordering_of(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames{"default", "best", "seeded", "legacy", "dynamic"};
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<BitGenerator::Ordering>(i);
  throw InvalidArgument(
      fmt::format("ordering must be one of {{'default', 'best', 'seeded', 'legacy', 'dynamic'}}, not '{}'", name));
}

BitGenerator pseudo_random(BitGenerator::Kind kind, std::optional<int64_t> seed, int64_t offset,
                           std::string_view ordering) {
  return {kind, seed_of(seed), offset_of(offset), 1, ordering_of(ordering)};
}

BitGenerator quasi_random(BitGenerator::Kind kind, int64_t dimensions, int64_t seed, int64_t offset) {
  if (dimensions < 1 || dimensions > kMostDimensions) {
    throw InvalidArgument(fmt::format("{} has 1 to {} dimensions, not {}", name(kind), kMostDimensions, dimensions));
  }
  return {kind, seed_of(seed), offset_of(offset), dimensions, BitGenerator::Ordering::standard};
}

// Numerator and denominator, lowest power first.
struct Quotient {
  std::array<double, 8> above, below;
};

Term value_of(const Quotient& quotient, Term x) {
  Term above = x.like(quotient.above[7]), below = x.like(quotient.below[7]);
  for (size_t i = 7; i-- > 0;) {
    above = above * x + quotient.above[i];
    below = below * x + quotient.below[i];
  }
  return above / below;
}

// The normal distribution's quantile of u in (0, 1): M. J. Wichura, Algorithm AS 241: The Percentage Points of the
// Normal Distribution (1988), PPND16. `digits`: no u is closer than 2^-digits to 0 or 1.
Term normal_quantile(Term u, int digits) {
  static constexpr Quotient kMiddle{
      {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
       4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3},
      {1, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
       3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3}};
  static constexpr Quotient kTail{
      {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
       1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
      {1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
       1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9}};
  static constexpr Quotient kFarTail{
      {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
       2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
      {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
       1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}};
  constexpr double kEdge = 5;  // of the tails, in sqrt(-log(u))
  const Term q = u - 0.5, middle = q * value_of(kMiddle, 0.180625 - q * q);
  const Term r = map("sqrt"_op, -map("log"_op, map("minimum"_op, u, 1.0 - u)));
  Term tail = value_of(kTail, r - 1.6);
  if (digits * std::log(2) > kEdge * kEdge) tail = where(r <= r.like(kEdge), tail, value_of(kFarTail, r - kEdge));
  return where(map("absolute"_op, q) <= q.like(0.425), middle, where(q < 0, -tail, tail));
}

}  // namespace

BitGenerator XORWOW(std::optional<int64_t> seed, int64_t offset, std::string_view ordering) {
  return pseudo_random(BitGenerator::Kind::xorwow, seed, offset, ordering);
}
BitGenerator MRG32k3a(std::optional<int64_t> seed, int64_t offset, std::string_view ordering) {
  return pseudo_random(BitGenerator::Kind::mrg32k3a, seed, offset, ordering);
}
BitGenerator MT19937(std::optional<int64_t> seed, int64_t offset, std::string_view ordering) {
  return pseudo_random(BitGenerator::Kind::mt19937, seed, offset, ordering);
}
BitGenerator MTGP32(std::optional<int64_t> seed, int64_t offset, std::string_view ordering) {
  return pseudo_random(BitGenerator::Kind::mtgp32, seed, offset, ordering);
}
BitGenerator Philox(std::optional<int64_t> seed, int64_t offset) {
  return pseudo_random(BitGenerator::Kind::philox, seed, offset, "default");
}
BitGenerator Sobol32(int64_t dimensions, int64_t offset) {
  return quasi_random(BitGenerator::Kind::sobol32, dimensions, /*seed=*/0, offset);
}
BitGenerator Sobol64(int64_t dimensions, int64_t offset) {
  return quasi_random(BitGenerator::Kind::sobol64, dimensions, /*seed=*/0, offset);
}
BitGenerator ScrambledSobol32(int64_t dimensions, int64_t seed, int64_t offset) {
  return quasi_random(BitGenerator::Kind::scrambled_sobol32, dimensions, seed, offset);
}
BitGenerator ScrambledSobol64(int64_t dimensions, int64_t seed, int64_t offset) {
  return quasi_random(BitGenerator::Kind::scrambled_sobol64, dimensions, seed, offset);
}

Generator default_rng(std::optional<int64_t> seed) { return Generator(Philox(seed)); }
Generator default_rng(const SeedSequence& sequence) { return {Philox(0), sequence}; }

std::vector<Generator> Generator::spawn(int64_t n_children) {
  if (is_quasi_random(bits_.kind) && !is_scrambled(bits_.kind))
    throw TypeError(fmt::format("{} has no seed, so there is nothing to spawn from", name(bits_.kind)));
  if (!sequence_) sequence_.emplace(bits_.seed);
  BitGenerator fresh = bits_;
  fresh.offset = 0;
  std::vector<Generator> children;
  for (SeedSequence& child : sequence_->spawn(n_children)) children.emplace_back(fresh, std::move(child));
  return children;
}

void Generator::advance(int64_t delta) {
  const uint64_t back = delta < 0 ? uint64_t{0} - static_cast<uint64_t>(delta) : 0;
  if (back > bits_.offset) {
    throw InvalidArgument(fmt::format("cannot go back by {} from {}, before the first number", back, bits_.offset));
  }
  bits_.offset += static_cast<uint64_t>(delta);
}

DType Words::word_type(DType of) const {
  if (is_quasi_random(bits_.kind)) return word_size(bits_.kind) == 4 ? DType::uint32 : DType::uint64;
  return of == DType::float32 ? DType::uint32 : DType::uint64;
}

Term Words::take(DType dtype) {
  Generator& generator = recipe_.generator_;
  const int64_t count = element_count(recipe_.shape_);
  const int64_t words = count * (itemsize(dtype) / word_size(bits_.kind));
  RandomWords& source = engine(recipe_.device_).random_words();
  source.check(bits_);
  int64_t steps = words;
  if (is_quasi_random(bits_.kind)) {
    if (recipe_.has_words_) {
      throw NotSupported(fmt::format("{}: this distribution takes more than one number per element", name(bits_.kind)));
    }
    if (count % bits_.dimensions != 0) {
      throw InvalidArgument(fmt::format("{} numbers are no whole points of {} dimensions", count, bits_.dimensions));
    }
    steps = count / bits_.dimensions;
    constexpr uint64_t kPoints32 = uint64_t{1} << 32;
    if (word_size(bits_.kind) == 4 &&
        (bits_.offset > kPoints32 || static_cast<uint64_t>(steps) > kPoints32 - bits_.offset))
      throw InvalidArgument(
          fmt::format("{} has 2^32 points, not {} from {} on", name(bits_.kind), steps, bits_.offset));
  }
  recipe_.has_words_ = true;
  const ExecContext context = context_for(recipe_.device_);
  const NdArray array(Dims{count}, dtype, context);
  source.fill(bits_, array.raw(), words, context);
  generator.advance(steps);
  recipe_.inputs_.push_back(recipe_.flat_ ? array : array.reshape(recipe_.shape_));
  return {&recipe_, recipe_.program_.input(dtype)};
}

Term Words::highest(Term word, int digits, DType dtype) {
  const DType type = word.dtype();
  const int shift = static_cast<int>(itemsize(type)) * 8 - digits;
  if (shift > 0) word = map("right_shift"_op, word, word.like(shift));
  return word.as(dtype);
}

Term Words::uniform() {
  const DType dtype = recipe_.dtype_;
  const Term word = take(word_type(dtype));
  if (dtype == DType::float32) return highest(word, 24, dtype) * 0x1p-24;
  if (word.dtype() == DType::uint32) return highest(word, 32, dtype) * 0x1p-32;
  return highest(word, 53, dtype) * 0x1p-53;
}

// The middles of 2^23, 2^32 or 2^52 equal parts.
Term Words::open_uniform(DType dtype) {
  const Term word = take(word_type(dtype));
  if (dtype == DType::float32) return (highest(word, 23, dtype) + 0.5) * 0x1p-23;
  if (word.dtype() == DType::uint32) return (highest(word, 32, dtype) + 0.5) * 0x1p-32;
  return (highest(word, 52, dtype) + 0.5) * 0x1p-52;
}

Term Words::open_uniform() { return open_uniform(recipe_.dtype_); }

Term Words::normal() {
  const Term u = open_uniform(DType::float64);
  return normal_quantile(u, word_type(DType::float64) == DType::uint32 ? 33 : 53).as(recipe_.dtype_);
}

Term Words::bits() {
  const Term word = take(word_type(DType::uint64));
  if (word.dtype() == DType::uint64) return word;
  const Term wide = word.as(DType::uint64);
  return map("left_shift"_op, wide, wide.like(32));
}

}  // namespace quarry::local
