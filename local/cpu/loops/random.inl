// Random numbers by element index. Runs of consecutive indices, which is what an index generator along the last axis
// gives, evaluate whole Philox blocks side by side; other indices one by one. The values are the same.
#include "local/cpu/loops/map.inl"

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

constexpr int64_t kBlocks = 64;  // evaluated side by side

struct Bits {
  template <class T>
  static void of_block(const fn::philox_block& block, T* out) {
    for (int i = 0; i < fn::values_per_block<T>; ++i) out[i] = fn::bits_of_block<T>(block, i);
  }
  template <class T>
  static T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_bits<T>(index, seed, stream);
  }
};
struct Uniform {
  template <class T>
  static void of_block(const fn::philox_block& block, T* out) {
    for (int i = 0; i < fn::values_per_block<T>; ++i) out[i] = fn::uniform_of_block<T>(block, i);
  }
  template <class T>
  static T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_uniform<T>(index, seed, stream);
  }
};
struct Normal {
  template <class T>
  static void of_block(const fn::philox_block& block, T* out) {
    for (int i = 0; i < fn::values_per_block<T> / 2; ++i) {
      const fn::sincos_pair<T> pair = fn::normals_of_block<T>(block, i);
      out[2 * i] = pair.cosine;
      out[2 * i + 1] = pair.sine;
    }
  }
  template <class T>
  static T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_normal<T>(index, seed, stream);
  }
};

template <class Kind, class T>
void random_loop(void* out, const void* const* args, int64_t n) {
  constexpr int per_block = fn::values_per_block<T>;
  const int64_t* index = static_cast<const int64_t*>(args[0]);
  const uint64_t* seeds = static_cast<const uint64_t*>(args[1]);
  const uint64_t* streams = static_cast<const uint64_t*>(args[2]);
  T* r = static_cast<T*>(out);
  int64_t i = 0;
  while (i < n) {
    const int64_t first = index[i];
    const uint64_t seed = seeds[i], stream = streams[i];
    int64_t run = 1;
    while (i + run < n && index[i + run] == first + run && seeds[i + run] == seed && streams[i + run] == stream) ++run;
    int64_t done = 0;
    while (done < run && (first + done) % per_block != 0) {
      r[i + done] = Kind::template of_index<T>(first + done, seed, stream);
      ++done;
    }
    while (run - done >= per_block) {
      const int64_t blocks = (run - done) / per_block < kBlocks ? (run - done) / per_block : kBlocks;
      const uint64_t block = static_cast<uint64_t>(first + done) / per_block;
      uint32_t w[4][kBlocks];
      for (int64_t b = 0; b < kBlocks; ++b) {
        const fn::philox_block x = fn::random_block(block + static_cast<uint64_t>(b), seed, stream);
        for (int k = 0; k < 4; ++k) w[k][b] = x.w[k];
      }
      T values[kBlocks * per_block];
      for (int64_t b = 0; b < kBlocks; ++b)
        Kind::template of_block<T>(fn::philox_block{{w[0][b], w[1][b], w[2][b], w[3][b]}}, values + b * per_block);
      std::memcpy(r + i + done, values, static_cast<size_t>(blocks * per_block) * sizeof(T));
      done += blocks * per_block;
    }
    for (; done < run; ++done) r[i + done] = Kind::template of_index<T>(first + done, seed, stream);
    i += run;
  }
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
      map_loop<row_random_hypergeometric, int64_t, uint64_t, int64_t, int64_t>;
  entry(Op::random_hypergeometric, DType::uint64) =
      map_loop<row_random_hypergeometric, uint64_t, uint64_t, uint64_t, uint64_t>;
  entry(Op::random_gamma, DType::float64) = map_loop<row_random_gamma, double, uint64_t, double, double>;
  entry(Op::random_log_gamma, DType::float64) = map_loop<row_random_log_gamma, double, uint64_t, double, double>;
  entry(Op::random_poisson, DType::float64) = map_loop<row_random_poisson, double, uint64_t, double, double>;
  entry(Op::random_binomial, DType::float64) = map_loop<row_random_binomial, double, uint64_t, double, double>;
  entry(Op::random_zipf, DType::float64) = map_loop<row_random_zipf, double, uint64_t, double, double>;
  entry(Op::random_von_mises, DType::float64) = map_loop<row_random_von_mises, double, uint64_t, double, double>;
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
