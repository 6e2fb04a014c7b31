// Counting in bins. Counts and sums of few bins are kept in shared memory, in as many copies as fit so that the threads
// of a block seldom meet, and added to the result at the end; those of many bins go to memory at once.
#include <algorithm>

#include "quarry/local/cuda/multiprocessors.h"
#include "quarry/local/cuda/sorting/dispatch.cuh"

namespace quarry::local::cuda {
namespace {

constexpr int64_t kSharedBytes = 48 << 10;
constexpr int kMostCopies = 32;
constexpr int kLoads = 8;                    // that a thread has in flight
constexpr int64_t kSharedOfAll = 200 << 10;  // of a multiprocessor
// A block clears and adds up its copies: elements of a thread that are worth it, where that leaves so many blocks.
constexpr int64_t kWorthwhile = 4 * kLoads, kFewBlocks = 264;

// bin(x): of an element bin.load(i), outside [0, bins) for none; bin.prepare() reads what all elements need. A block
// sees fewer than 2^32 elements, so that its counts fit.
template <class Sum, class Shared, class Bin>
__global__ void __launch_bounds__(kSortThreads)
    count_kernel(int64_t count, int64_t bins, int copies, const double* weights, Sum* out, Bin bin) {
  constexpr bool weighted = sizeof(Shared) == 8;
  extern __shared__ double shared_memory[];
  bin.prepare();
  auto* const shared = reinterpret_cast<Shared*>(shared_memory);
  const auto slots = static_cast<int>(copies == 0 ? 0 : bins * copies);
  for (int s = threadIdx.x; s < slots; s += kSortThreads) shared[s] = Shared{0};
  __syncthreads();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kSortThreads;
  const int copy = copies == 0 ? 0 : static_cast<int>(threadIdx.x) % copies;
  const auto add = [&](int64_t at, [[maybe_unused]] double weight) {
    const auto b = static_cast<uint64_t>(at);
    if (b >= static_cast<uint64_t>(bins)) return;
    if constexpr (weighted) {
      if (copies != 0)
        atomicAdd(&shared[static_cast<int>(b) * copies + copy], weight);
      else
        atomicAdd(&out[b], weight);
    } else {
      if (copies != 0)
        atomicAdd(&shared[static_cast<int>(b) * copies + copy], 1u);
      else
        atomicAdd(reinterpret_cast<unsigned long long*>(&out[b]), 1ull);
    }
  };
  const auto add_loads = [&]<bool whole>(int64_t i) {
    decltype(bin.load(i)) x[kLoads];
    [[maybe_unused]] double w[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int64_t at = whole ? i + u * step : min(i + u * step, count - 1);
      x[u] = bin.load(at);
      if constexpr (weighted) w[u] = weights[at];
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u)
      if (whole || i + u * step < count) add(bin(x[u]), weighted ? w[u] : 0);
  };
  int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  for (; i + (kLoads - 1) * step < count; i += kLoads * step) add_loads.template operator()<true>(i);
  if (i < count) add_loads.template operator()<false>(i);
  if (copies == 0) return;
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += kSortThreads) {
    Sum sum{0};
    // Neighbouring threads begin with neighbouring copies, so that they read different banks.
    for (int c = 0; c < copies; ++c) sum += static_cast<Sum>(shared[b * copies + (c + b) % copies]);
    if (sum == Sum{0}) continue;
    if constexpr (weighted)
      atomicAdd(&out[b], sum);
    else
      atomicAdd(reinterpret_cast<unsigned long long*>(&out[b]), static_cast<unsigned long long>(sum));
  }
}

template <class Bin>
void count(int64_t elements, int64_t bins, const double* weights, void* out, cudaStream_t stream, Bin bin) {
  if (elements == 0) return;
  const auto launch = [&]<class Sum, class Shared>() {
    const int64_t bytes = bins * static_cast<int64_t>(sizeof(Shared));
    const int copies = static_cast<int>(std::min<int64_t>(kMostCopies, kSharedBytes / bytes));
    const int64_t least = std::min((elements + kSortThreads - 1) / kSortThreads, kFewBlocks);
    // More blocks than fit at a time would come in a second wave that leaves most of the device idle.
    static const int by_registers = [] {
      int found = 0;
      QUARRY_CUDA_CALL(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&found, count_kernel<Sum, Shared, Bin>, kSortThreads, 0));
      return found;
    }();
    const int64_t resident = std::clamp<int64_t>(kSharedOfAll / (bytes * copies + 1), 1, by_registers);
    const int64_t most = resident * multiprocessor_count();
    const int64_t blocks = std::max(least, std::min<int64_t>(elements / (kSortThreads * kWorthwhile), most));
    // With more bins than a block's elements, writing all of the shared counts would cost more than they save.
    const bool use_shared = copies > 0 && bins * copies <= 16 * ((elements + blocks - 1) / blocks) + 1024;
    count_kernel<Sum, Shared>
        <<<static_cast<unsigned>(blocks), kSortThreads, use_shared ? static_cast<size_t>(bytes * copies) : 0, stream>>>(
            elements, bins, use_shared ? copies : 0, weights, static_cast<Sum*>(out), bin);
    QUARRY_CUDA_CALL(cudaGetLastError());
  };
  if (weights)
    launch.template operator()<double, double>();
  else
    launch.template operator()<int64_t, unsigned>();
}

struct PositionBin {
  const int64_t* positions;
  __device__ void prepare() {}
  __device__ int64_t load(int64_t i) const { return positions[i]; }
  __device__ int64_t operator()(int64_t position) const { return position; }
};

template <class T>
__device__ auto number(const T& x) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
    return static_cast<float>(x);
  else
    return x;
}

template <class T, class Edge>
struct EdgesBin {
  const T* values;
  const Edge* edges;
  int64_t bins;
  Edge lowest{}, highest{};
  __device__ void prepare() {
    lowest = edges[0];
    highest = edges[bins];
  }
  __device__ Edge load(int64_t i) const { return static_cast<Edge>(number(values[i])); }
  __device__ int64_t operator()(Edge x) const {
    if (!(x >= lowest && x <= highest)) return -1;
    int64_t first = 0, n = bins;
    while (n > 1) {
      const int64_t half = n / 2;
      first = edges[first + half] <= x ? first + half : first;
      n -= half;
    }
    return first;
  }
};

// From 1 to the next number of the dtype that edges between such values have; 1: of any dtype.
template <class T>
constexpr double edge_epsilon() {
  return std::is_same_v<T, double> ? 0x1p-52 : std::is_same_v<T, float> ? 0x1p-23 : 1;
}

// The bin by arithmetic, put right by its edges where one of them may be near.
template <class T>
struct UniformBin {
  const T* values;
  const double* edges;
  int64_t bins;
  double lowest = 0, highest = 0, scale = 0;
  double margin = 0;  // of a place among the bins: how far it and the edges may be from where they are exactly
  __device__ void prepare() {
    lowest = edges[0];
    highest = edges[bins];
    scale = static_cast<double>(bins) / (highest - lowest);
    margin = 16 * edge_epsilon<T>() * (fmax(fabs(lowest), fabs(highest)) * scale + static_cast<double>(bins));
  }
  __device__ double load(int64_t i) const { return static_cast<double>(number(values[i])); }
  __device__ int64_t operator()(double x) const {
    if (!(x >= lowest && x <= highest)) return -1;
    const double place = (x - lowest) * scale;
    auto b = static_cast<int64_t>(place);
    const double inside = place - static_cast<double>(b);
    if (inside > margin && inside < 1 - margin && b < bins) return b;
    b = b < 0 ? 0 : b < bins ? b : bins - 1;
    while (b > 0 && x < edges[b]) --b;
    while (b < bins - 1 && x >= edges[b + 1]) ++b;
    return b;
  }
};

}  // namespace

void count_bins(const int64_t* positions, int64_t elements, const double* weights, int64_t bins, void* out,
                cudaStream_t stream) {
  count(elements, bins, weights, out, stream, PositionBin{positions});
}

void count_histogram(DType dtype, const void* values, int64_t elements, DType edges_dtype, const void* edges,
                     int64_t bins, bool uniform, const double* weights, void* out, cudaStream_t stream) {
  dispatch(dtype, [&]<class T>() {
    if constexpr (std::is_convertible_v<T, double>) {
      const auto* data = static_cast<const T*>(values);
      if (uniform) {
        count(elements, bins, weights, out, stream, UniformBin<T>{data, static_cast<const double*>(edges), bins});
      } else if (edges_dtype == DType::float64) {
        count(elements, bins, weights, out, stream, EdgesBin<T, double>{data, static_cast<const double*>(edges), bins});
      } else if constexpr (std::is_integral_v<T>) {
        if (edges_dtype == DType::int64)
          count(elements, bins, weights, out, stream,
                EdgesBin<T, int64_t>{data, static_cast<const int64_t*>(edges), bins});
        else
          count(elements, bins, weights, out, stream,
                EdgesBin<T, uint64_t>{data, static_cast<const uint64_t*>(edges), bins});
      } else {
        throw InternalError("histogram of floats between integer edges");
      }
    } else {
      throw InternalError("histogram of complex values");
    }
  });
}

}  // namespace quarry::local::cuda
