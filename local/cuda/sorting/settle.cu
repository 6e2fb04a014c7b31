// What a sort by value leaves to be done for floats: where NaNs stand, and which of the elements that are equal though
// they differ comes first. Both read the row once more and write what is seldom there.
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/reverse_iterator.h>

#include <algorithm>
#include <cub/device/device_partition.cuh>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/multiprocessors.h"
#include "quarry/local/cuda/sorting/dispatch.cuh"

namespace quarry::local::cuda {
namespace {

template <class Bits>
struct IsZero {
  __host__ __device__ bool operator()(Bits x) const { return static_cast<Bits>(x << 1) == 0; }
};
template <class Bits>
struct IsNan {
  Bits infinity;  // its bits
  __host__ __device__ bool operator()(Bits x) const {
    return static_cast<Bits>(static_cast<Bits>(x << 1) >> 1) > infinity;
  }
};

template <class Bits>
__device__ bool is_signed(Bits x) {
  return (x >> (8 * sizeof(Bits) - 1)) != 0;
}

// The first of `count` elements that is not `before` any more.
template <class Bits, class Before>
__device__ int64_t first_not(const Bits* elements, int64_t count, Before before) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (before(elements[middle]))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The same for all threads of a block.
template <class Bits, class Before>
__device__ int64_t first_not_of_block(const Bits* elements, int64_t count, Before before) {
  __shared__ int64_t found;
  if (threadIdx.x == 0) found = first_not(elements, count, before);
  __syncthreads();
  return found;
}

__device__ int64_t first_of_thread() { return static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x; }
__device__ int64_t threads_of_grid() { return static_cast<int64_t>(gridDim.x) * kSortThreads; }

// The row turned so that what has a sign and is NaN comes last; nothing but `turned` = 0 where there is none.
template <class Bits>
__global__ void turn_kernel(const Bits* sorted, int64_t count, IsNan<Bits> is_nan, Bits* parts, int64_t* turned) {
  const int64_t first = first_not_of_block(sorted, count, [&](Bits x) { return is_signed(x) && is_nan(x); });
  if (blockIdx.x == 0 && threadIdx.x == 0) *turned = first;
  if (first == 0) return;
  for (int64_t i = first_of_thread(); i < count; i += threads_of_grid())
    parts[i] = sorted[i < count - first ? i + first : i - (count - first)];
}
template <class Bits>
__global__ void take_turned_kernel(const Bits* parts, int64_t count, const int64_t* turned, Bits* sorted) {
  if (*turned == 0) return;
  for (int64_t i = first_of_thread(); i < count; i += threads_of_grid()) sorted[i] = parts[i];
}

// Where zeros and NaNs are in a row that is sorted.
struct Places {
  int64_t zeros, zeros_end, nans;
};
template <class Bits>
__device__ Places places_of_block(const Bits* sorted, int64_t count, IsNan<Bits> is_nan) {
  const IsZero<Bits> is_zero;
  __shared__ Places found;
  if (threadIdx.x == 0) {
    found.nans = first_not(sorted, count, [&](Bits x) { return !is_nan(x); });
    found.zeros = first_not(sorted, found.nans, [&](Bits x) { return is_signed(x) && !is_zero(x); });
    found.zeros_end = first_not(sorted, found.nans, [&](Bits x) { return is_signed(x) || is_zero(x); });
  }
  __syncthreads();
  return found;
}

// Adds up how many zeros have a sign.
template <class Bits>
__global__ void count_signs_kernel(const Bits* sorted, int64_t count, IsNan<Bits> is_nan, unsigned long long* signs) {
  const Places places = places_of_block(sorted, count, is_nan);
  unsigned long long found = 0;
  for (int64_t i = places.zeros + first_of_thread(); i < places.zeros_end; i += threads_of_grid())
    found += is_signed(sorted[i]) ? 1 : 0;
  if (found > 0) atomicAdd(signs, found);
}
// They come first; and every NaN is the usual one.
template <class Bits>
__global__ void order_signs_kernel(Bits* sorted, int64_t count, IsNan<Bits> is_nan, const unsigned long long* signs) {
  constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const Places places = places_of_block(sorted, count, is_nan);  // zeros of either sign may be written meanwhile
  const int64_t positive = places.zeros + static_cast<int64_t>(*signs);
  for (int64_t i = places.zeros + first_of_thread(); i < places.zeros_end; i += threads_of_grid())
    sorted[i] = i < positive ? kSign : Bits{0};
  const auto nan = static_cast<Bits>(is_nan.infinity | (is_nan.infinity & -is_nan.infinity) >> 1);
  for (int64_t i = places.nans + first_of_thread(); i < count; i += threads_of_grid()) sorted[i] = nan;
}

// counts: of zeros, which `parts` begins with, and of NaNs, with which it ends, the last one first.
template <class Bits>
__global__ void settle_kernel(const Bits* parts, int64_t count, const int64_t* counts, Bits* out) {
  const int64_t zeros = counts[0], nans = counts[1];
  if (zeros > 0) {
    // Other blocks may be writing zeros of either sign: all of them are at or behind the first one.
    const int64_t first =
        first_not_of_block(out, count - nans, [](Bits x) { return is_signed(x) && !IsZero<Bits>{}(x); });
    for (int64_t i = first_of_thread(); i < zeros; i += threads_of_grid()) out[first + i] = parts[i];
  }
  for (int64_t i = first_of_thread(); i < nans; i += threads_of_grid()) out[count - nans + i] = parts[count - 1 - i];
}

unsigned blocks_for(int64_t count) {
  constexpr int64_t kOfMultiprocessor = 8;
  const int64_t most = kOfMultiprocessor * multiprocessor_count();
  return static_cast<unsigned>(std::clamp<int64_t>((count + kSortThreads - 1) / kSortThreads, 1, most));
}

// f.operator()<Bits>(bits of infinity) of a float dtype.
template <class F>
void with_float(DType dtype, F&& f) {
  with_key(dtype, [&]<class Class>() {
    if constexpr (requires { Class::kInfinity; }) {
      using Bits = typename Class::Bits;
      f.template operator()<Bits>(static_cast<Bits>(Class::kInfinity & static_cast<Bits>(~Class::kSign)));
    } else {
      throw InternalError("zeros and NaNs of a dtype that has none");
    }
  });
}

}  // namespace

void order_signs(DType dtype, void* sorted, int64_t count, void* parts, int64_t* counts, cudaStream_t stream) {
  with_float(dtype, [&]<class Bits>(Bits infinity) {
    auto* const row = static_cast<Bits*>(sorted);
    auto* const other = static_cast<Bits*>(parts);
    auto* const signs = reinterpret_cast<unsigned long long*>(counts + 1);
    const IsNan<Bits> is_nan{infinity};
    const unsigned blocks = blocks_for(count);
    QUARRY_CUDA_CALL(cudaMemsetAsync(signs, 0, sizeof *signs, stream));
    turn_kernel<Bits><<<blocks, kSortThreads, 0, stream>>>(row, count, is_nan, other, counts);
    take_turned_kernel<Bits><<<blocks, kSortThreads, 0, stream>>>(other, count, counts, row);
    count_signs_kernel<Bits><<<blocks, kSortThreads, 0, stream>>>(row, count, is_nan, signs);
    order_signs_kernel<Bits><<<blocks, kSortThreads, 0, stream>>>(row, count, is_nan, signs);
    QUARRY_CUDA_CALL(cudaGetLastError());
  });
}

void settle_equal(void* temporary, size_t& temporary_bytes, DType dtype, const void* in, int64_t count, void* parts,
                  int64_t* counts, void* out, cudaStream_t stream) {
  with_float(dtype, [&]<class Bits>(Bits infinity) {
    auto* const apart = static_cast<Bits*>(parts);
    QUARRY_CUDA_CALL(cub::DevicePartition::If(
        temporary, temporary_bytes, static_cast<const Bits*>(in), apart, thrust::make_reverse_iterator(apart + count),
        thrust::make_discard_iterator(), counts, count, IsZero<Bits>{}, IsNan<Bits>{infinity}, stream));
    if (temporary == nullptr) return;
    settle_kernel<Bits><<<blocks_for(count), kSortThreads, 0, stream>>>(apart, count, counts, static_cast<Bits*>(out));
    QUARRY_CUDA_CALL(cudaGetLastError());
  });
}

}  // namespace quarry::local::cuda
