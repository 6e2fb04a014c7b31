// Binary search, one thread per value: neighbouring values of most data share the cache lines of the first steps.
#include "quarry/local/cuda/sorting/dispatch.cuh"

namespace quarry::local::cuda {
namespace {

// How many of n ascending elements `before` holds for.
template <class Before>
__device__ int64_t count_before(int64_t n, Before before) {
  int64_t first = 0;
  while (n > 0) {
    const int64_t half = n / 2;
    const bool beyond = before(first + half);
    first = beyond ? first + half + 1 : first;
    n = beyond ? n - half - 1 : half;
  }
  return first;
}

template <class Rank>
struct Search {
  Rank sorted, values;
  int64_t length, values_per_row;
  bool one_row, right;
  int64_t* out;
  __device__ void operator()(int64_t i) const {
    const auto value = values(i);
    const int64_t start = one_row ? 0 : i / values_per_row * length;
    out[i] = right ? count_before(length, [=, this](int64_t j) { return !(value < sorted(start + j)); })
                   : count_before(length, [=, this](int64_t j) { return sorted(start + j) < value; });
  }
};

template <class Class>
struct RealRank {
  const typename Class::Bits* data;
  __device__ typename Class::Bits operator()(int64_t i) const { return Class::rank(data[i]); }
};
template <class Part>
struct ComplexRank {
  using Bits = typename Part::Bits;
  struct Words {
    Bits high, low;
    __device__ friend bool operator<(const Words& a, const Words& b) {
      return a.high < b.high || (a.high == b.high && a.low < b.low);
    }
  };
  const Bits* data;
  __device__ Words operator()(int64_t i) const {
    const auto words = keys::ComplexKey<Part>::rank(data[2 * i], data[2 * i + 1]);
    return {words.high, words.low};
  }
};

}  // namespace

void search_sorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row, bool right,
                   int64_t* out, cudaStream_t stream) {
  const auto by = [&]<class Rank>(const auto* first) {
    using Bits = std::remove_pointer_t<decltype(first)>;
    for_each_element(
        rows.rows * values_per_row, stream,
        Search<Rank>{{first}, {static_cast<Bits*>(values)}, rows.length, values_per_row, rows.rows == 1, right, out});
  };
  if (dtype == DType::complex64)
    return by.operator()<ComplexRank<keys::Float32Key>>(static_cast<const uint32_t*>(sorted));
  if (dtype == DType::complex128)
    return by.operator()<ComplexRank<keys::Float64Key>>(static_cast<const uint64_t*>(sorted));
  with_key(dtype, [&]<class Class>() {
    by.template operator()<RealRank<Class>>(static_cast<const typename Class::Bits*>(sorted));
  });
}

}  // namespace quarry::local::cuda
