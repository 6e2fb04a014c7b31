// Loads, stores, index arithmetic and shuffles of generated kernels. Embedded after local/program/op_functions.h.
namespace quarry::local {

constexpr int kBlock = 256;  // threads of every generated kernel but the tiled one (kBlockThreads in plan.h)

// n / d by the multiplier and shift that make_divider() packed; n < 2^31.
QUARRY_FN uint32_t divide_by(uint32_t n, int64_t packed) {
  return (__umulhi(n, static_cast<uint32_t>(packed)) + n) >> static_cast<uint32_t>(packed >> 32);
}
// 64-bit indices divide by the plain divisor.
QUARRY_FN uint64_t divide_by(uint64_t n, int64_t divisor) { return n / static_cast<uint64_t>(divisor); }

// ---- N consecutive elements ----

template <int Bytes>
struct word;
template <>
struct word<1> {
  using type = uint8_t;
};
template <>
struct word<2> {
  using type = uint16_t;
};
template <>
struct word<4> {
  using type = uint32_t;
};
template <>
struct word<8> {
  using type = uint2;
};
template <>
struct word<16> {
  using type = uint4;
};
template <class T, int N>
inline constexpr int access_bytes = sizeof(T) * N >= 16 ? 16 : sizeof(T) * N;

// From an address aligned to access_bytes.
template <class T, int N>
QUARRY_FN void load_vector(const char* from, T (&to)[N]) {
  constexpr int bytes = access_bytes<T, N>, count = static_cast<int>(sizeof(T)) * N / bytes;
  using Word = typename word<bytes>::type;
  Word words[count];
#pragma unroll
  for (int i = 0; i < count; ++i) words[i] = reinterpret_cast<const Word*>(from)[i];
  memcpy(&to, &words, sizeof(T) * N);
}
template <class T, int N>
QUARRY_FN void store_vector(char* to, const T (&from)[N]) {
  constexpr int bytes = access_bytes<T, N>, count = static_cast<int>(sizeof(T)) * N / bytes;
  using Word = typename word<bytes>::type;
  Word words[count];
  memcpy(&words, &from, sizeof(T) * N);
#pragma unroll
  for (int i = 0; i < count; ++i) reinterpret_cast<Word*>(to)[i] = words[i];
}

// One element at any address that its scalar parts are aligned to.
template <class T>
QUARRY_FN T load_one(const char* from) {
  return *reinterpret_cast<const T*>(from);
}
template <class T>
QUARRY_FN void store_one(char* to, T value) {
  *reinterpret_cast<T*>(to) = value;
}

template <class T, int N>
QUARRY_FN void load_strided(const char* from, int64_t stride, int count, T (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) to[i] = load_one<T>(from + i * stride);
}
template <class T, int N>
QUARRY_FN void store_strided(char* to, int64_t stride, int count, const T (&from)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) store_one<T>(to + i * stride, from[i]);
}

// The other byte order; of each part of a complex number.
template <class T>
QUARRY_FN T swapped(T x) {
  if constexpr (sizeof(T) == 1)
    return x;
  else if constexpr (sizeof(T) == 2)
    return bit_copy<T>(fn::byte_swap(bit_copy<uint16_t>(x)));
  else if constexpr (sizeof(T) == 4)
    return bit_copy<T>(fn::byte_swap(bit_copy<uint32_t>(x)));
  else
    return bit_copy<T>(fn::byte_swap(bit_copy<uint64_t>(x)));
}
template <class T>
QUARRY_FN cx<T> swapped(cx<T> x) {
  return {swapped(x.re), swapped(x.im)};
}

// A value among kernel parameters.
template <class T>
QUARRY_FN T parameter(const int64_t* slots) {
  T value;
  memcpy(&value, slots, sizeof(T));
  return value;
}

// ---- Random numbers of a thread's lanes ----

// The values of a Philox block, and that of an index alone.
struct lanes_of_random_bits {
  template <class T>
  QUARRY_FN void of_block(const fn::philox_block& block, T* out) {
#pragma unroll
    for (int i = 0; i < fn::values_per_block<T>; ++i) out[i] = fn::bits_of_block<T>(block, i);
  }
  template <class T>
  QUARRY_FN T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_bits<T>(index, seed, stream);
  }
};
struct lanes_of_random_uniform {
  template <class T>
  QUARRY_FN void of_block(const fn::philox_block& block, T* out) {
#pragma unroll
    for (int i = 0; i < fn::values_per_block<T>; ++i) out[i] = fn::uniform_of_block<T>(block, i);
  }
  template <class T>
  QUARRY_FN T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_uniform<T>(index, seed, stream);
  }
};
struct lanes_of_random_normal {
  template <class T>
  QUARRY_FN void of_block(const fn::philox_block& block, T* out) {
#pragma unroll
    for (int i = 0; i < fn::values_per_block<T>; i += 2) {
      const fn::normal_pair<T> pair = fn::normals_of_block<T>(block, i / 2);
      out[i] = pair.first;
      out[i + 1] = pair.second;
    }
  }
  template <class T>
  QUARRY_FN T of_index(int64_t index, uint64_t seed, uint64_t stream) {
    return fn::random_normal<T>(index, seed, stream);
  }
};
// Of N indices from each `first` on. Whole blocks where they begin some: of a row, all threads do or none does, for
// they begin N indices apart.
template <class Kind, class T, int U, int N>
QUARRY_FN void draw_lanes(const int64_t (&first)[U], uint64_t seed, uint64_t stream, T (&out)[U][N]) {
  constexpr int count = fn::values_per_block<T>;
  bool whole = N % count == 0;
#pragma unroll
  for (int u = 0; u < U; ++u) whole = whole && static_cast<uint64_t>(first[u]) % count == 0;
  if (whole) {
#pragma unroll
    for (int u = 0; u < U; ++u) {
#pragma unroll
      for (int i = 0; i + count <= N; i += count)
        Kind::template of_block<T>(fn::random_block(static_cast<uint64_t>(first[u]) / count + i / count, seed, stream),
                                   out[u] + i);
    }
  } else {
#pragma unroll
    for (int u = 0; u < U; ++u) {
#pragma unroll
      for (int i = 0; i < N; ++i) out[u][i] = Kind::template of_index<T>(first[u] + i, seed, stream);
    }
  }
}

// ---- Samplers whose parameters are the same for all elements ----

// Masses of counts: by inversion those of 0, 1, ... up to `last`; of a hat those from `first` on.
constexpr int kMasses = 1024;
struct mass_table {
  double values[kMasses];
  double first;
  int last;
};
template <class S>
QUARRY_FN double invert(const mass_table& table, const S&, double u) {
  int k = 0;
  for (; k < table.last; ++k) {
    const double mass = table.values[k];
    if (u < mass) break;
    u -= mass;
  }
  return k;
}
// A call: long, and rare.
template <class S>
QUARRY_LONG_FN double computed_mass(const S& s, double k) {
  return hat_mass(s, k);
}
template <class S>
QUARRY_FN double hat_mass(const mass_table& table, const S& s, double k) {
  const double place = k - table.first;
  return place >= 0 && place < kMasses ? table.values[static_cast<int>(place)] : computed_mass(s, k);
}
template <class S>
QUARRY_FN void fill(mass_table& table, const S& s) {
  const int thread = threadIdx.x;
  if (s.inverts) {
    if constexpr (requires { first_mass(s); }) {
      for (int k = thread; k < kMasses; k += kBlock)
        table.values[k] = k == 0 ? first_mass(s) : mass_factor(s, static_cast<double>(k));
      __syncthreads();
      if (thread == 0) {
        double mass = table.values[0];
        int last = 0;
        while (last < kMasses - 1 && !is_last(s, last, mass)) {
          ++last;
          mass *= table.values[last];
          table.values[last] = mass;
        }
        table.last = last;
      }
    }
  } else {
    const double centre = hat_centre(s), first = centre > kMasses / 2 ? math::floor(centre) - kMasses / 2 : 0;
    for (int k = thread; k < kMasses; k += kBlock) table.values[k] = computed_mass(s, first + k);
    if (thread == 0) table.first = first;
  }
  __syncthreads();
}

// In shared memory; prepare() is called by all threads of the block.
template <class S>
struct prepared {
  S sampler;
};
template <class S>
requires requires(const S& s) { s.inverts; }
struct prepared<S> {
  S sampler;
  mass_table table;
};
template <class S, class... Parameters>
QUARRY_FN void prepare(prepared<S>& p, Parameters... parameters) {
  if (threadIdx.x == 0) make(p.sampler, parameters...);
  __syncthreads();
  if constexpr (requires { p.table; }) fill(p.table, p.sampler);
}
template <class S>
QUARRY_FN auto draw(const prepared<S>& p, uint64_t key) {
  if constexpr (requires { p.table; })
    return sample(p.sampler, key, p.table);
  else
    return sample(p.sampler, key);
}

// ---- Exchange between lanes of a warp ----

template <class T>
QUARRY_FN T shuffle_down(T x, int distance, int width) {
  if constexpr (sizeof(T) < 4) {
    uint32_t w = 0;
    memcpy(&w, &x, sizeof(T));
    w = __shfl_down_sync(0xffffffffu, w, distance, width);
    T y;
    memcpy(&y, &w, sizeof(T));
    return y;
  } else {
    uint32_t w[sizeof(T) / 4];
    memcpy(&w, &x, sizeof(T));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
      w[i] = __shfl_down_sync(0xffffffffu, w[i], distance, width);
    T y;
    memcpy(&y, &w, sizeof(T));
    return y;
  }
}

// ---- Starting values of reductions ----

template <class T>
struct extreme {
  QUARRY_FN T lowest() {
    if constexpr (fn::Integer<T>)
      return fn::traits<T>::lowest;
    else
      return -fn::infinity<T>();
  }
  QUARRY_FN T highest() {
    if constexpr (fn::Integer<T>)
      return static_cast<T>(~fn::traits<T>::lowest);
    else
      return fn::infinity<T>();
  }
};
template <>
struct extreme<bool> {
  QUARRY_FN bool lowest() { return false; }
  QUARRY_FN bool highest() { return true; }
};
template <fn::Half T>
struct extreme<T> {
  QUARRY_FN T lowest() { return T(-fn::infinity<float>()); }
  QUARRY_FN T highest() { return T(fn::infinity<float>()); }
};
template <class T>
struct extreme<cx<T>> {
  QUARRY_FN cx<T> lowest() { return {-fn::infinity<T>(), -fn::infinity<T>()}; }
  QUARRY_FN cx<T> highest() { return {fn::infinity<T>(), fn::infinity<T>()}; }
};

}  // namespace quarry::local
