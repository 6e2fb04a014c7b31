// Binary search, one thread per value: neighbouring values of most data share the cache lines of the first steps. Short
// rows are ranked once into shared memory, by blocks that go through many values.
#include <algorithm>

#include "quarry/local/cuda/multiprocessors.h"
#include "quarry/local/cuda/sorting/dispatch.cuh"

namespace quarry::local::cuda {
namespace {

// How many of n ascending elements `before` holds for. Index: of a type that holds n.
template <class Index, class Before>
__device__ Index count_before(Index n, Before before) {
  Index first = 0;
  while (n > 0) {
    const Index half = n / 2;
    const bool beyond = before(first + half);
    first = beyond ? first + half + 1 : first;
    n = beyond ? n - half - 1 : half;
  }
  return first;
}
template <class Index, class Row, class Value>
__device__ Index position_of(Index n, const Row& row, const Value& value, bool right) {
  return right ? count_before(n, [&](Index j) { return !(value < row(j)); })
               : count_before(n, [&](Index j) { return row(j) < value; });
}

// Each is called as each(i, value, position, found), where found() says whether the row has an equal element.
template <class Rank, class Each>
struct Search {
  Rank sorted, values;
  int64_t length, values_per_row;
  bool one_row, right;
  Each each;
  __device__ void operator()(int64_t i) const {
    const auto value = values(i);
    const int64_t start = one_row ? 0 : i / values_per_row * length;
    const auto row = [&](int64_t j) { return sorted(start + j); };
    const int64_t position = length < (int64_t{1} << 31)
                                 ? static_cast<int64_t>(position_of(static_cast<uint32_t>(length), row, value, right))
                                 : position_of(length, row, value, right);
    each(i, position, [&] { return position < length && !(value < row(position)) && !values.is_nan(i); });
  }
};

constexpr int64_t kShortBytes = 16 << 10;
template <class Rank, class Each>
__global__ void search_short_kernel(int64_t count, Search<Rank, Each> search) {
  using Word = decltype(search.sorted(0));
  __shared__ Word table[kShortBytes / sizeof(Word)];
  const auto length = static_cast<uint32_t>(search.length);
  for (uint32_t k = threadIdx.x; k < length; k += kSortThreads) table[k] = search.sorted(k);
  __syncthreads();
  const auto row = [&](uint32_t j) { return table[j]; };
  const int64_t step = static_cast<int64_t>(gridDim.x) * kSortThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x; i < count; i += step) {
    const auto value = search.values(i);
    const uint32_t position = position_of(length, row, value, search.right);
    search.each(i, static_cast<int64_t>(position),
                [&] { return position < length && !(value < table[position]) && !search.values.is_nan(i); });
  }
}

template <class Rank, class Each>
void search(const Search<Rank, Each>& task, int64_t count, cudaStream_t stream) {
  using Word = typename Rank::Word;
  constexpr int64_t kMost = kShortBytes / static_cast<int64_t>(sizeof(Word));
  constexpr int64_t kBlocks = 8;  // of a multiprocessor
  const int64_t fill = kBlocks * multiprocessor_count();
  // A block shall go through more values than it ranks elements.
  if (!task.one_row || task.length > kMost || count < 4 * fill * kSortThreads)
    return for_each_element(count, stream, task);
  search_short_kernel<<<static_cast<unsigned>(fill), kSortThreads, 0, stream>>>(count, task);
  QUARRY_CUDA_CALL(cudaGetLastError());
}

struct WritePosition {
  int64_t* out;
  template <class Found>
  __device__ void operator()(int64_t i, int64_t position, const Found&) const {
    out[i] = position;
  }
};
struct WriteFound {
  bool* out;
  bool invert;
  template <class Found>
  __device__ void operator()(int64_t i, int64_t, const Found& found) const {
    out[i] = found() != invert;
  }
};
struct Interpolate {
  Interpolation task;
  template <class Found>
  __device__ void operator()(int64_t i, int64_t position, const Found&) const {
    task.out[i * task.out_step] = interpolation::value_at(task, task.places[i], position);
  }
};

template <class Class>
struct RealRank {
  using Word = typename Class::Bits;
  const Word* data;
  __device__ Word operator()(int64_t i) const { return Class::rank(data[i]); }
  __device__ bool is_nan(int64_t i) const {
    if constexpr (requires(Word x) { Class::is_nan(x); }) return Class::is_nan(data[i]);
    return false;
  }
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
  using Word = Words;
  const Bits* data;
  __device__ bool is_nan(int64_t i) const { return Part::is_nan(data[2 * i]) || Part::is_nan(data[2 * i + 1]); }
  __device__ Words operator()(int64_t i) const {
    const auto words = keys::ComplexKey<Part>::rank(data[2 * i], data[2 * i + 1]);
    return {words.high, words.low};
  }
};

// f.operator()<Rank, Bits>()
template <class F>
void with_ranks(DType dtype, F&& f) {
  if (dtype == DType::complex64) return f.template operator()<ComplexRank<keys::Float32Key>, uint32_t>();
  if (dtype == DType::complex128) return f.template operator()<ComplexRank<keys::Float64Key>, uint64_t>();
  with_key(dtype, [&]<class Class>() { f.template operator()<RealRank<Class>, typename Class::Bits>(); });
}

}  // namespace

void search_sorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row, bool right,
                   int64_t* out, cudaStream_t stream) {
  with_ranks(dtype, [&]<class Rank, class Bits>() {
    search(Search<Rank, WritePosition>{{static_cast<const Bits*>(sorted)},
                                       {static_cast<const Bits*>(values)},
                                       rows.length,
                                       values_per_row,
                                       rows.rows == 1,
                                       right,
                                       {out}},
           rows.rows * values_per_row, stream);
  });
}

void contains_sorted(DType dtype, const void* sorted, int64_t length, const void* values, int64_t count, bool invert,
                     bool* out, cudaStream_t stream) {
  with_ranks(dtype, [&]<class Rank, class Bits>() {
    search(Search<Rank, WriteFound>{{static_cast<const Bits*>(sorted)},
                                    {static_cast<const Bits*>(values)},
                                    length,
                                    count,
                                    /*one_row=*/true,
                                    /*right=*/false,
                                    {out, invert}},
           count, stream);
  });
}

void interpolate_points(const Interpolation& task, cudaStream_t stream) {
  using Rank = RealRank<keys::Float64Key>;
  search(Search<Rank, Interpolate>{{reinterpret_cast<const uint64_t*>(task.points)},
                                   {reinterpret_cast<const uint64_t*>(task.places)},
                                   task.length,
                                   task.count,
                                   /*one_row=*/true,
                                   /*right=*/true,
                                   {task}},
         task.count, stream);
}

}  // namespace quarry::local::cuda
