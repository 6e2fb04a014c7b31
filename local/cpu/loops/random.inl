// Random numbers by element index, and samples by rejection. Runs of consecutive indices, which is what an index
// generator along the last axis gives, evaluate whole Philox blocks side by side; other indices one by one. Samples
// whose parameters repeat share what depends on those, and try their first block side by side. The values are those of
// local/program/op_functions.h.
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <array>
#include <optional>

#include "quarry/local/cpu/loops/map.inl"

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

// ---- Philox blocks side by side ----

// Lanes of 64 bits that hold 32-bit words; what is above them is not used.
#if defined(__AVX512F__)
constexpr int kLanes = 8;
#elif defined(__AVX2__)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif
typedef uint64_t Lanes __attribute__((vector_size(kLanes * 8)));

inline Lanes products(Lanes words, uint64_t factor) {
  const Lanes factors = Lanes{} + factor;
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(words), reinterpret_cast<__m512i>(factors)));
#elif defined(__AVX2__)
  return reinterpret_cast<Lanes>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(words), reinterpret_cast<__m256i>(factors)));
#elif defined(__SSE2__)
  return reinterpret_cast<Lanes>(_mm_mul_epu32(reinterpret_cast<__m128i>(words), reinterpret_cast<__m128i>(factors)));
#else
  return (words & 0xffffffffu) * factors;  // the factor has 32 bits
#endif
}

inline Lanes load(const uint64_t* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
inline void store(uint64_t* to, Lanes lanes) { std::memcpy(to, &lanes, sizeof lanes); }

constexpr int kBlocks = 64;  // evaluated side by side

// word64(block, 0) and word64(block, 1) of kBlocks blocks.
struct Blocks {
  alignas(64) uint64_t first[kBlocks];
  alignas(64) uint64_t second[kBlocks];
};

// Ten rounds of two groups of lanes, whose multiplications overlap. key(round, word, group) is a key's word.
template <class Key>
inline void philox_rounds(Lanes (&c)[4][2], const Key& key) {
  for (int round = 0; round < 10; ++round) {
    for (int g = 0; g < 2; ++g) {
      const Lanes p0 = products(c[0][g], 0xD2511F53u), p1 = products(c[2][g], 0xCD9E8D57u);
      c[0][g] = (p1 >> 32) ^ c[1][g] ^ key(round, 0, g);
      c[2][g] = (p0 >> 32) ^ c[3][g] ^ key(round, 1, g);
      c[1][g] = p1;
      c[3][g] = p0;
    }
  }
}
inline void store_words(const Lanes (&c)[4][2], int at, Blocks& blocks) {
  const Lanes low = Lanes{} + 0xffffffffu;
  for (int g = 0; g < 2; ++g) {
    store(blocks.first + at + g * kLanes, (c[0][g] & low) | (c[1][g] << 32));
    store(blocks.second + at + g * kLanes, (c[2][g] & low) | (c[3][g] << 32));
  }
}

constexpr uint32_t kKeySteps[2] = {0x9E3779B9u, 0xBB67AE85u};

// fn::random_block() of kBlocks successive numbers.
void stream_blocks(uint64_t block, uint64_t seed, uint64_t stream, Blocks& blocks) {
  uint64_t keys[10][2];
  for (uint32_t round = 0; round < 10; ++round) {
    keys[round][0] = static_cast<uint32_t>(seed) + round * kKeySteps[0];
    keys[round][1] = static_cast<uint32_t>(stream) + round * kKeySteps[1];
  }
  Lanes count{};
  for (int i = 0; i < kLanes; ++i) count[i] = static_cast<uint64_t>(i);
  for (int at = 0; at < kBlocks; at += 2 * kLanes) {
    Lanes c[4][2];
    for (int g = 0; g < 2; ++g) {
      c[0][g] = count + (block + static_cast<uint64_t>(at + g * kLanes));
      c[1][g] = c[0][g] >> 32;
      c[2][g] = Lanes{} + (seed >> 32);
      c[3][g] = Lanes{} + (stream >> 32);
    }
    philox_rounds(c, [&](int round, int word, int) { return Lanes{} + keys[round][word]; });
    store_words(c, at, blocks);
  }
}

// Block number `draw` of kBlocks elements with keys of their own (fn::next_block()).
void element_blocks(const uint64_t* elements, uint32_t draw, Blocks& blocks) {
  for (int at = 0; at < kBlocks; at += 2 * kLanes) {
    Lanes c[4][2], keys[2][2];
    for (int g = 0; g < 2; ++g) {
      const Lanes element = load(elements + at + g * kLanes);
      keys[0][g] = element & 0xffffffffu;
      keys[1][g] = element >> 32;
      c[0][g] = Lanes{} + draw;
      c[1][g] = c[2][g] = c[3][g] = Lanes{};
    }
    philox_rounds(c, [&](int round, int word, int g) {
      return keys[word][g] + static_cast<uint64_t>(static_cast<uint32_t>(round) * kKeySteps[word]);
    });
    store_words(c, at, blocks);
  }
}

// ---- Numbers by index ----

// The values of the blocks, in their order.
struct Bits {
  template <class T>
  static void of_blocks(const Blocks& blocks, T* out) {
    uint64_t words[2 * kBlocks];
    for (int b = 0; b < kBlocks; ++b) {
      words[2 * b] = blocks.first[b];
      words[2 * b + 1] = blocks.second[b];
    }
    std::memcpy(out, words, sizeof words);
  }
  template <class T>
  static T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_bits<T>(index, seed, stream);
  }
};
struct Uniform {
  template <class T>
  static void of_blocks(const Blocks& blocks, T* out) {
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr int kCount = kBlocks * fn::values_per_block<T>;
    Word words[kCount];
    Bits::of_blocks(blocks, words);
    for (int i = 0; i < kCount; ++i) {
      if constexpr (sizeof(T) == 4)
        out[i] = fn::uniform32(words[i]);
      else
        out[i] = fn::uniform64(words[i]);
    }
  }
  template <class T>
  static T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_uniform<T>(index, seed, stream);
  }
};
struct Normal {
  template <class T>
  static void of_blocks(const Blocks& blocks, T* out) {
    constexpr int kPairs = kBlocks * fn::values_per_block<T> / 2;
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    Word u[kPairs], v[kPairs];
    if constexpr (sizeof(T) == 4) {
      uint64_t words[kPairs];
      Bits::of_blocks(blocks, words);
      for (int i = 0; i < kPairs; ++i) u[i] = static_cast<uint32_t>(words[i]);
      for (int i = 0; i < kPairs; ++i) v[i] = static_cast<uint32_t>(words[i] >> 32);
    } else {
      std::memcpy(u, blocks.first, sizeof u);
      std::memcpy(v, blocks.second, sizeof v);
    }
    T radius[kPairs], first[kPairs], second[kPairs];
    for (int i = 0; i < kPairs; ++i) radius[i] = fn::normal_radius(u[i]);
    for (int i = 0; i < kPairs; ++i) {
      const fn::normal_pair<T> pair = fn::normals_at(radius[i], fn::shared_sincos(fn::normal_angle(v[i])), v[i]);
      first[i] = pair.first;
      second[i] = pair.second;
    }
    for (int i = 0; i < kPairs; ++i) {
      out[2 * i] = first[i];
      out[2 * i + 1] = second[i];
    }
  }
  template <class T>
  static T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_normal<T>(index, seed, stream);
  }
};

// How many elements from the first on have successive indices of one stream.
int64_t run_of(const int64_t* index, const uint64_t* seeds, const uint64_t* streams, int64_t n) {
  const auto first = static_cast<uint64_t>(index[0]);
  uint64_t other = 0;
  for (int64_t i = 0; i < n; ++i) {
    other |= (static_cast<uint64_t>(index[i]) ^ (first + static_cast<uint64_t>(i))) | (seeds[i] ^ seeds[0]) |
             (streams[i] ^ streams[0]);
  }
  if (other == 0) return n;
  int64_t run = 1;
  while (static_cast<uint64_t>(index[run]) == first + static_cast<uint64_t>(run) && seeds[run] == seeds[0] &&
         streams[run] == streams[0])
    ++run;
  return run;
}

template <class Kind, class T>
void random_run(T* out, int64_t first, uint64_t seed, uint64_t stream, int64_t run) {
  constexpr int kPerBlock = fn::values_per_block<T>;
  constexpr int64_t kValues = kBlocks * kPerBlock;
  int64_t done = 0;
  for (; done < run && (first + done) % kPerBlock != 0; ++done)
    out[done] = Kind::template of_index<T>(first + done, seed, stream);
  Blocks blocks;
  while (run - done >= kPerBlock) {
    const int64_t many = run - done < kValues ? (run - done) / kPerBlock * kPerBlock : kValues;
    stream_blocks(static_cast<uint64_t>(first + done) / kPerBlock, seed, stream, blocks);
    if (many == kValues) {
      Kind::template of_blocks<T>(blocks, out + done);
    } else {
      T values[kValues];
      Kind::template of_blocks<T>(blocks, values);
      std::memcpy(out + done, values, static_cast<size_t>(many) * sizeof(T));
    }
    done += many;
  }
  for (; done < run; ++done) out[done] = Kind::template of_index<T>(first + done, seed, stream);
}

template <class Kind, class T>
void random_loop(void* out, const void* const* args, int64_t n) {
  const int64_t* index = static_cast<const int64_t*>(args[0]);
  const uint64_t* seeds = static_cast<const uint64_t*>(args[1]);
  const uint64_t* streams = static_cast<const uint64_t*>(args[2]);
  T* r = static_cast<T*>(out);
  for (int64_t i = 0; i < n;) {
    const int64_t run = run_of(index + i, seeds + i, streams + i, n - i);
    random_run<Kind>(r + i, index[i], seeds[i], streams[i], run);
    i += run;
  }
}

// ---- Samples by rejection ----
//
// A sampler is made for parameters. Where it `fits` them, sample() gives the values of kBlocks elements.

// The first attempt of a gamma and its squeeze; `log`: the logarithms.
template <bool log>
class GammaSampler {
 public:
  using Value = double;

  GammaSampler(double shape, double) : fits(shape > 0 && !fn::isinf(shape)) { fn::make(sampler_, shape); }

  const bool fits;

  void sample(const uint64_t* keys, double* out) const {
    const double shape = sampler_.shape;
    const bool small = shape < 1;
    Blocks blocks;
    double below[kBlocks];  // of a small shape: the uniform that takes the sample of shape + 1 there
    if (small) {
      element_blocks(keys, 0, blocks);
      for (int i = 0; i < kBlocks; ++i) below[i] = fn::positive_uniform(blocks.first[i]);
    }
    element_blocks(keys, small ? 1 : 0, blocks);
    attempt(keys, blocks, out);
    if constexpr (log) {
      for (int i = 0; i < kBlocks; ++i) out[i] = fn::shared_log(out[i]);
      for (int i = 0; small && i < kBlocks; ++i) out[i] += fn::shared_log(below[i]) / shape;
    } else {
      for (int i = 0; small && i < kBlocks; ++i) out[i] *= math::pow(below[i], 1 / shape);
    }
  }

 private:
  void attempt(const uint64_t* keys, const Blocks& blocks, double* out) const {
    const double c = sampler_.c, d = sampler_.d;
    double x[kBlocks], u[kBlocks];
    uint64_t open[kBlocks];
    for (int i = 0; i < kBlocks; ++i) x[i] = fn::normal_radius(blocks.first[i]);
    for (int i = 0; i < kBlocks; ++i) {
      const uint32_t angle = static_cast<uint32_t>(blocks.second[i]);
      x[i] = fn::normals_at(x[i], fn::shared_sincos(fn::angle_of(angle)), static_cast<uint64_t>(angle) << 32).first;
    }
    for (int i = 0; i < kBlocks; ++i) u[i] = fn::open_uniform(static_cast<uint32_t>(blocks.second[i] >> 32));
    for (int i = 0; i < kBlocks; ++i) {
      const double t = 1 + c * x[i], v = t * t * t, x2 = x[i] * x[i];
      open[i] = t > 0 && u[i] < 1 - 0.0331 * x2 * x2 ? 0 : 1;
      out[i] = d * v;
    }
    for (int i = 0; i < kBlocks; ++i) {
      if (open[i] == 0) continue;
      const double t = 1 + c * x[i];
      fn::element_draws draws{keys[i], sampler_.shape < 1 ? 2u : 1u};
      if (!fn::accepts(sampler_, x[i], t, u[i])) out[i] = fn::sample_of_large_shape(sampler_, draws);
    }
  }

  fn::random_gamma_sampler sampler_{};
};

// Masses of counts by fn::first_mass() and its relatives: of an inversion those of 0, 1, ... up to the last one that it
// looks at; of a hat those around its centre, computed when first asked for.
class Masses {
 public:
  Masses() { known_.fill(fn::quiet_nan<double>()); }

  // Whether the masses of the inversion are few enough.
  template <class S>
  bool fill(const S& s) {
    double mass = fn::first_mass(s);
    for (last_ = 0; last_ < kMost; ++last_) {
      if (last_ > 0) mass *= fn::mass_factor(s, static_cast<double>(last_));
      known_[static_cast<size_t>(last_)] = mass;
      if (fn::is_last(s, static_cast<double>(last_), mass)) return true;
    }
    return false;
  }
  void centre(double centre) { first_ = centre > kMost / 2 ? math::floor(centre) - kMost / 2 : 0; }

  template <class S>
  friend double invert(const Masses& masses, const S&, double u) {
    int k = 0;
    for (; k < masses.last_ && u >= masses.known_[static_cast<size_t>(k)]; ++k)
      u -= masses.known_[static_cast<size_t>(k)];
    return k;
  }
  template <class S>
  friend double hat_mass(Masses& masses, const S& s, double k) {
    const double place = k - masses.first_;
    if (!(place >= 0 && place < kMost)) return fn::hat_mass(s, k);
    double& value = masses.known_[static_cast<size_t>(place)];
    if (fn::isnan(value)) value = fn::hat_mass(s, k);
    return value;
  }

 private:
  static constexpr int kMost = 256;
  int last_ = 0;
  double first_ = 0;
  std::array<double, kMost> known_;
};

// Counts of S, by inversion or transformed rejection.
template <class S>
class CountSampler {
 public:
  using Value = double;

  template <class... Parameters>
  explicit CountSampler(Parameters... parameters) {
    fn::make(sampler_, parameters...);
    fits = sampler_.valid;
    if (!fits) return;
    if (sampler_.inverts)
      fits = masses_.fill(sampler_);
    else
      masses_.centre(fn::hat_centre(sampler_));
  }

  bool fits = false;

  void sample(const uint64_t* keys, double* out) {
    Blocks blocks;
    element_blocks(keys, 0, blocks);
    if (sampler_.inverts) {
      for (int i = 0; i < kBlocks; ++i) out[i] = invert(masses_, sampler_, fn::uniform64(blocks.first[i]));
      return;
    }
    const fn::transformed_rejection t = sampler_.hat;
    uint64_t open[kBlocks];
    for (int i = 0; i < kBlocks; ++i) {
      const double u = fn::open_unit(blocks.first[i]) - 0.5, v = fn::open_unit(blocks.second[i]);
      const double us = 0.5 - (u < 0 ? -u : u), k = fn::count_at(t, u, us);
      open[i] = us >= 0.07 && v <= t.squeeze && k >= 0 && k <= t.most ? 0 : 1;
      out[i] = k;
    }
    for (int i = 0; i < kBlocks; ++i) {
      if (open[i] == 0) continue;
      uint64_t first = blocks.first[i], second = blocks.second[i];
      for (fn::element_draws draws{keys[i], 1}; !fn::attempt(t, first, second, sampler_, masses_, out[i]);) {
        const fn::philox_block block = fn::next_block(draws);
        first = fn::word64(block, 0);
        second = fn::word64(block, 1);
      }
    }
  }

 protected:
  S sampler_{};

 private:
  Masses masses_;
};

class PoissonSampler : public CountSampler<fn::random_poisson_sampler> {
 public:
  PoissonSampler(double mean, double) : CountSampler(mean) {}
};

class BinomialSampler : public CountSampler<fn::random_binomial_sampler> {
 public:
  BinomialSampler(double n, double p) : CountSampler(n, p) { fits = fits && !sampler_.none; }

  void sample(const uint64_t* keys, double* out) {
    CountSampler::sample(keys, out);
    for (int i = 0; sampler_.p > 0.5 && i < kBlocks; ++i) out[i] = sampler_.n - out[i];
  }
};

// fn::random_hypergeometric().
template <class T>
class HypergeometricSampler {
 public:
  using Value = T;

  HypergeometricSampler(T good_bad, T sample) {
    fn::make(sampler_, good_bad, sample);
    fits = sampler_.valid;
    masses_.centre(fn::hat_centre(sampler_));
  }

  bool fits = false;

  void sample(const uint64_t* keys, T* out) {
    if (sampler_.fewer < kFew) return draw_one_by_one(keys, out);
    Blocks tries[2];
    for (uint32_t draw = 0; draw < 2; ++draw) element_blocks(keys, draw, tries[draw]);
    for (int i = 0; i < kBlocks; ++i) {
      double x = 0;
      bool done =
          accepted(tries[0].first[i], tries[0].second[i], x) || accepted(tries[1].first[i], tries[1].second[i], x);
      for (fn::element_draws draws{keys[i], 2}; !done;) {
        const fn::philox_block block = fn::next_block(draws);
        done = accepted(fn::word64(block, 0), fn::word64(block, 1), x);
      }
      uint64_t k = static_cast<uint64_t>(x);
      if (sampler_.good > sampler_.bad) k = sampler_.fewer - k;
      out[i] = static_cast<T>(sampler_.drawn > sampler_.rest ? sampler_.good - k : k);
    }
  }

 private:
  static constexpr uint64_t kFew = 10;

  void draw_one_by_one(const uint64_t* keys, T* out) const {
    uint64_t left_good[kBlocks];
    for (uint64_t& left : left_good) left = sampler_.good;
    Blocks blocks;
    for (uint64_t draw = 0; draw < sampler_.fewer; ++draw) {
      element_blocks(keys, static_cast<uint32_t>(draw), blocks);
      const uint64_t left = sampler_.good + sampler_.bad - draw;
      for (int i = 0; i < kBlocks; ++i) left_good[i] -= math::umulhi(blocks.first[i], left) < left_good[i] ? 1 : 0;
    }
    for (int i = 0; i < kBlocks; ++i) {
      const uint64_t k = sampler_.good - left_good[i];
      out[i] = static_cast<T>(sampler_.drawn > sampler_.rest ? sampler_.good - k : k);
    }
  }
  bool accepted(uint64_t first, uint64_t second, double& x) { return fn::attempt(sampler_, first, second, masses_, x); }

  fn::random_hypergeometric_sampler sampler_{};
  Masses masses_;
};

class ZipfSampler {
 public:
  using Value = double;

  ZipfSampler(double a, double) : fits(a > 1 && a < 1025), e_(a - 1) {
    if (!fits) return;
    b1_ = math::expm1(e_ * 0.69314718055994530942);
    span_ = math::expm1(-e_ * 43.66827237527655449);
    for (size_t x = 1; x < kKnown; ++x) known_[x] = rise(static_cast<double>(x));
  }

  const bool fits;

  void sample(const uint64_t* keys, double* out) const {
    Blocks blocks;
    element_blocks(keys, 0, blocks);
    for (int i = 0; i < kBlocks; ++i) {
      uint64_t first = blocks.first[i], second = blocks.second[i];
      for (fn::element_draws draws{keys[i], 1}; !accepted(first, second, out[i]);) {
        const fn::philox_block block = fn::next_block(draws);
        first = fn::word64(block, 0);
        second = fn::word64(block, 1);
      }
    }
  }

 private:
  static constexpr size_t kKnown = 32;
  double rise(double x) const { return math::expm1(e_ * math::log1p(1 / x)); }
  bool accepted(uint64_t first, uint64_t second, double& x) const {
    constexpr double kMost = 9223372036854774784.0;
    const double t = fn::uniform64(first), v = fn::uniform64(second);
    x = math::floor(math::exp(-math::log1p(t * span_) / e_));
    if (!(x >= 1 && x <= kMost)) return false;
    const double t1 = x < kKnown ? known_[static_cast<size_t>(x)] : rise(x);
    return v * x * t1 / b1_ <= (t1 + 1) / (b1_ + 1);
  }

  const double e_;
  double b1_ = 0, span_ = 0;
  std::array<double, kKnown> known_{};
};

// fn::random_von_mises() between its limits.
class VonMisesSampler {
 public:
  using Value = double;

  VonMisesSampler(double kappa, double) : fits(kappa >= 1e-5 && kappa <= 1e6), kappa_(kappa) {
    const double r = 1 + math::sqrt(1 + 4 * kappa * kappa), rho = (r - math::sqrt(2 * r)) / (2 * kappa);
    s_ = (1 + rho * rho) / (2 * rho);
  }

  const bool fits;

  void sample(const uint64_t* keys, double* out) const {
    Blocks blocks;
    element_blocks(keys, 0, blocks);
    const double s = s_, kappa = kappa_;
    double z[kBlocks], w[kBlocks], y[kBlocks], v[kBlocks];
    for (int i = 0; i < kBlocks; ++i) z[i] = 0.5 * fn::uniform64(blocks.first[i]);
    for (int i = 0; i < kBlocks; ++i) z[i] = fn::shared_sincos_turns(z[i]).cosine;
    for (int i = 0; i < kBlocks; ++i) v[i] = fn::open_uniform(static_cast<uint32_t>(blocks.second[i]));
    for (int i = 0; i < kBlocks; ++i) {
      w[i] = (1 + s * z[i]) / (s + z[i]);
      y[i] = kappa * (s - w[i]);
    }
    for (int i = 0; i < kBlocks; ++i) {
      uint64_t second = blocks.second[i];
      for (fn::element_draws draws{keys[i], 1}; !accepts(y[i], v[i]);) {
        const fn::philox_block block = fn::next_block(draws);
        second = fn::word64(block, 1);
        z[i] = fn::shared_sincos_turns(0.5 * fn::uniform64(fn::word64(block, 0))).cosine;
        w[i] = (1 + s * z[i]) / (s + z[i]);
        y[i] = kappa * (s - w[i]);
        v[i] = fn::open_uniform(block.w[2]);
      }
      const double angle = math::acos(w[i] < -1 ? -1.0 : w[i] > 1 ? 1.0 : w[i]);
      out[i] = second >> 32 & 1 ? -angle : angle;
    }
  }

 private:
  static bool accepts(double y, double v) { return y * (2 - y) - v >= 0 || math::log(y / v) + 1 - y >= 0; }

  const double kappa_;
  double s_ = 0;
};

template <class T>
bool all_equal(const T* values) {
  uint64_t bits[kBlocks], other = 0;
  static_assert(sizeof(T) == 8);
  std::memcpy(bits, values, sizeof bits);
  for (const uint64_t value : bits) other |= value ^ bits[0];
  return other == 0;
}
template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class Row, class Sampler>
void sampler_loop(void* out, const void* const* args, int64_t n) {
  using T = typename Sampler::Value;
  const uint64_t* keys = static_cast<const uint64_t*>(args[0]);
  const T* y = static_cast<const T*>(args[1]);
  const T* z = static_cast<const T*>(args[Row::arity == 3 ? 2 : 1]);
  T* r = static_cast<T*>(out);
  std::optional<Sampler> sampler;
  T made_y{}, made_z{};
  int64_t i = 0;
  for (; i + kBlocks <= n; i += kBlocks) {
    const T this_y = y[i], this_z = z[i];
    if (!all_equal(y + i) || !all_equal(z + i)) {
      sampler.reset();
    } else if (!sampler || !same_bits(made_y, this_y) || !same_bits(made_z, this_z)) {
      sampler.emplace(this_y, this_z);
      made_y = this_y;
      made_z = this_z;
    }
    if (!sampler || !sampler->fits) {
      for (int64_t j = i; j < i + kBlocks; ++j) r[j] = Row::template apply<T>(keys[j], y[j], z[j]);
      continue;
    }
    sampler->sample(keys + i, r + i);
  }
  for (; i < n; ++i) r[i] = Row::template apply<T>(keys[i], y[i], z[i]);
}

}  // namespace

void register_random(Loops& loops) {
  const auto entry = [&](Op op, DType dtype) -> MapLoop& {
    return loops.op[static_cast<int>(op)][static_cast<int>(dtype)];
  };
  entry(Op::random_bits, DType::uint32) = random_loop<Bits, uint32_t>;
  entry(Op::random_bits, DType::uint64) = random_loop<Bits, uint64_t>;
  entry(Op::random_uniform, DType::float32) = random_loop<Uniform, float>;
  entry(Op::random_uniform, DType::float64) = random_loop<Uniform, double>;
  entry(Op::random_normal, DType::float32) = random_loop<Normal, float>;
  entry(Op::random_normal, DType::float64) = random_loop<Normal, double>;
  entry(Op::random_integers, DType::int64) = map_loop<row_random_integers, int64_t, uint64_t, int64_t, int64_t>;
  entry(Op::random_integers, DType::uint64) = map_loop<row_random_integers, uint64_t, uint64_t, uint64_t, uint64_t>;
  entry(Op::random_hypergeometric, DType::int64) =
      sampler_loop<row_random_hypergeometric, HypergeometricSampler<int64_t>>;
  entry(Op::random_hypergeometric, DType::uint64) =
      sampler_loop<row_random_hypergeometric, HypergeometricSampler<uint64_t>>;
  entry(Op::random_gamma, DType::float64) = sampler_loop<row_random_gamma, GammaSampler<false>>;
  entry(Op::random_log_gamma, DType::float64) = sampler_loop<row_random_log_gamma, GammaSampler<true>>;
  entry(Op::random_poisson, DType::float64) = sampler_loop<row_random_poisson, PoissonSampler>;
  entry(Op::random_binomial, DType::float64) = sampler_loop<row_random_binomial, BinomialSampler>;
  entry(Op::random_zipf, DType::float64) = sampler_loop<row_random_zipf, ZipfSampler>;
  entry(Op::random_von_mises, DType::float64) = sampler_loop<row_random_von_mises, VonMisesSampler>;
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
