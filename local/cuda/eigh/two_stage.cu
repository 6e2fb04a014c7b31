#include "quarry/local/cuda/eigh/two_stage.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "quarry/local/cuda/eigh/machine.cuh"
#include "quarry/local/cuda/eigh/tridiagonal.h"
#include "quarry/local/cuda/matrix.h"

namespace quarry::local::cuda {
namespace {

// ---- Before and after ----

// The matrix is worked on with a norm of about 1: divided by a power of two, which loses nothing.
struct Largest {
  unsigned long long bits;  // of the largest magnitude: bits of numbers from 0 on grow with them
};
__device__ inline int exponent_of(const Largest* largest) {
  const double value = __longlong_as_double(static_cast<long long>(largest->bits));
  return value > 0 && isfinite(value) ? ilogb(value) : 0;
}

constexpr int kTile = 32;

// Blocks: tiles of the triangle that is there, `is_upper` or the other one; 32 x 8 threads.
template <class T>
__global__ void largest_kernel(const T* a, int64_t n, bool is_upper, Largest* largest) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  double most = 0;
  for (int64_t j = static_cast<int64_t>(blockIdx.y) * kTile + threadIdx.y, k = 0; k < kTile; k += blockDim.y) {
    const int64_t column = j + k;
    if (i < n && column < n && (is_upper ? i <= column : i >= column))
      most = fmax(most, fabs(static_cast<double>(a[i + column * n])));
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2) most = fmax(most, __shfl_xor_sync(~0u, most, distance));
  if (threadIdx.x == 0 && most > 0)
    atomicMax(&largest->bits, static_cast<unsigned long long>(__double_as_longlong(most)));
}

// Both triangles of `a`, from the one that is there in `from`, scaled. Blocks: tiles of the lower triangle. The two may
// be the same matrix.
template <class T>
__global__ void mirror_kernel(const T* from, double* a, int64_t n, bool is_upper, const Largest* largest) {
  __shared__ double tile[kTile][kTile + 1];
  if (blockIdx.x < blockIdx.y) return;
  const int exponent = exponent_of(largest);
  const int x = static_cast<int>(threadIdx.x);
  const int64_t below = static_cast<int64_t>(blockIdx.x) * kTile, above = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t row = is_upper ? above : below, column = is_upper ? below : above;
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += static_cast<int>(blockDim.y)) {
    const int64_t i = row + x, j = column + y;
    if (i < n && j < n) tile[y][x] = scalbn(static_cast<double>(from[i + j * n]), -exponent);
  }
  __syncthreads();
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += static_cast<int>(blockDim.y)) {
    // On the diagonal a tile is its own mirror.
    const int64_t i = row + x, j = column + y;
    const bool is_missing = row == column && (is_upper ? x > y : x < y);
    if (i < n && j < n) a[i + j * n] = is_missing ? tile[x][y] : tile[y][x];
    const int64_t mirrored_i = column + x, mirrored_j = row + y;
    if (row != column && mirrored_i < n && mirrored_j < n) a[mirrored_i + mirrored_j * n] = tile[x][y];
  }
}

template <class T>
__global__ void values_kernel(const double* from, T* values, int64_t n, const Largest* largest) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) values[i] = static_cast<T>(scalbn(from[i], exponent_of(largest)));
}
template <class T>
__global__ void vectors_kernel(const double* from, T* vectors, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) vectors[i] = static_cast<T>(from[i]);
}

// ---- The whole ----

using Steps = Tridiagonalization<CudaMachine>;

// Where things lie in scratch. What only one step needs shares its place with the others'.
struct Places {
  Places(void* scratch, DType dtype, int64_t n, bool vectors) : Places(Pieces(scratch), dtype, n, vectors) {}
  int64_t bytes() const { return std::max({reducing.bytes(), solving.bytes(), transforming.bytes()}); }

 private:
  Places(Pieces all, DType dtype, int64_t n, bool vectors)
      : largest(all.take<Largest>(1)),
        d(all.take<double>(n)),
        e(all.take<double>(n)),
        values(all.take<double>(n)),
        kept(all, n),
        a(dtype == DType::float64 ? nullptr : all.take<double>(n * n)),
        z(vectors ? all.take<double>(n * n) : nullptr),
        workspace_size(workspace_bytes(DType::float64, n, n, n)),
        workspace(all.take<char>(workspace_size)),
        reducing(all),
        solving(all),
        transforming(all),
        for_reduction(reducing, n),
        tridiagonal(
            solving.take<char>(vectors ? tridiagonal_vectors_scratch_bytes(n) : tridiagonal_values_scratch_bytes(n))) {
    if (vectors) for_vectors.emplace(transforming, n);
  }

 public:
  Largest* const largest;
  double *const d, *const e, *const values;
  const Steps::Kept kept;
  double* const a;  // of a matrix that has another dtype
  double* const z;
  const int64_t workspace_size;  // of cuBLAS
  char* const workspace;

 private:
  Pieces reducing, solving, transforming;

 public:
  const Steps::ForReduction for_reduction;
  char* const tridiagonal;
  std::optional<Steps::ForVectors> for_vectors;
};

// Numbers of eigenvalues that are wanted.
struct Wanted {
  int64_t first, count;
};
// Those in (low, high], of values on the device that ascend. Blocks.
template <class T>
Wanted wanted_by_value(const ByValue& range, const T* values, int64_t n, CudaStream& stream) {
  std::vector<T> on_host(static_cast<size_t>(n));
  QUARRY_CUDA_CALL(
      cudaMemcpyAsync(on_host.data(), values, on_host.size() * sizeof(T), cudaMemcpyDeviceToHost, stream.handle()));
  stream.synchronize();
  const auto begin = std::upper_bound(on_host.begin(), on_host.end(), range.low);
  const auto end = std::upper_bound(begin, on_host.end(), range.high);
  return {begin - on_host.begin(), end - begin};
}

template <class T>
void decompose(const Eigh& task, T* given, T* values, int32_t* info, int32_t* found, void* scratch,
               CudaStream& stream) {
  const int64_t n = task.a.rows;
  const bool is_upper = task.triangle == Triangle::upper;
  const Places places(scratch, task.dtype, n, task.vectors);
  double* a = places.a;
  if constexpr (std::is_same_v<T, double>) a = given;
  const cublasHandle_t blas = stream.blas();
  QUARRY_CUDA_CALL(cublasSetWorkspace(blas, places.workspace, static_cast<size_t>(places.workspace_size)));
  const CudaMachine machine(blas, stream.handle());
  constexpr int kThreadsEach = 256;
  const auto each = [&](const char* what, auto kernel, int64_t count, auto... arguments) {
    if (count == 0) return;
    machine.launch(what, kernel, {(count + kThreadsEach - 1) / kThreadsEach}, kThreadsEach, 0, arguments...);
  };
  const auto rescale = [&](Wanted some) {
    each("scaling eigenvalues", values_kernel<T>, some.count, places.values + some.first, values, some.count,
         places.largest);
  };

  const int64_t tiles = (n + kTile - 1) / kTile;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(tiles)), threads(kTile, 8);
  machine.zero(places.largest, sizeof(Largest));
  largest_kernel<<<grid, threads, 0, stream.handle()>>>(given, n, is_upper, places.largest);
  mirror_kernel<<<grid, threads, 0, stream.handle()>>>(given, a, n, is_upper, places.largest);
  check(cudaGetLastError(), "mirroring a triangle");

  const Steps steps(machine, a, n, places.kept);
  steps.to_band(places.for_reduction);
  steps.chase(places.for_reduction, places.d, places.e);
  if (task.vectors)
    tridiagonal_vectors(n, places.d, places.e, places.values, places.z, places.tridiagonal, info, stream);
  else
    tridiagonal_values(n, places.d, places.e, places.values, places.tridiagonal, info, stream);
  Wanted wanted{0, n};
  if (task.subset) {
    if (const auto* range = std::get_if<ByIndex>(&*task.subset)) {
      wanted = {range->first, range->last - range->first + 1};
    } else {
      rescale(wanted);
      wanted = wanted_by_value(std::get<ByValue>(*task.subset), values, n, stream);
    }
    const auto count = static_cast<int32_t>(wanted.count);
    QUARRY_CUDA_CALL(cudaMemcpyAsync(found, &count, sizeof count, cudaMemcpyHostToDevice, stream.handle()));
  }
  rescale(wanted);
  if (!task.vectors || wanted.count == 0) return;
  const View<double> z{places.z + wanted.first * n, n};
  steps.transform_by_chase(*places.for_vectors, z, wanted.count);
  steps.transform_by_band(*places.for_vectors, z, wanted.count);
  each("copying eigenvectors", vectors_kernel<T>, n * wanted.count, z.data, given, n * wanted.count);
}

}  // namespace

bool is_two_stage(DType dtype, int64_t n, bool vectors) {
  if (dtype != DType::float32 && dtype != DType::float64) return false;
  if (n < (vectors ? 3584 : 2560)) return false;
  return n <= std::min<int64_t>(multiprocessor_count(), kMostPanelBlocks) * kPanelRows;
}

int64_t two_stage_scratch_bytes(DType dtype, int64_t n, bool vectors) {
  return Places(nullptr, dtype, n, vectors).bytes();
}

void two_stage_eigh(const Eigh& task, int64_t p, void* scratch, CudaStream& stream) {
  const int64_t n = task.a.rows;
  const auto run = [&]<class T>(T) {
    decompose(task, static_cast<T*>(task.a.data) + p * n * n, static_cast<T*>(task.values) + p * n, task.info + p,
              task.subset ? task.found + p : nullptr, scratch, stream);
  };
  if (task.dtype == DType::float32)
    run(float{});
  else
    run(double{});
}

}  // namespace quarry::local::cuda
