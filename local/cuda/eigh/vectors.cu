// Divide and conquer on the GPU: what the host decides is in local/cuda/eigh/merges.h, what a thread does for one
// element in leaf.h and secular.h; kernels here are loops over them. One launch serves all merges of a level.
//
// 4/3 n^3 multiplications and additions where nothing deflates, three quarters of them in the last merge; everything
// else is n^2. Three matrices of n x n: the vectors, those columns permuted, and the vectors of the secular equations.
// All merges lie on the diagonals of these.
#include <algorithm>
#include <vector>

#include "quarry/local/base/sizes.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/eigh/leaf.h"
#include "quarry/local/cuda/eigh/merges.h"
#include "quarry/local/cuda/eigh/places.h"
#include "quarry/local/cuda/eigh/secular.h"
#include "quarry/local/cuda/eigh/tridiagonal.h"
#include "quarry/local/cuda/matrix.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/pools.h"

namespace quarry::local::cuda {
namespace {

using namespace eigh;

constexpr int kWarp = 32;
constexpr unsigned kAll = ~0u;
constexpr int64_t kInt = sizeof(int32_t), kDouble = sizeof(double);

// ---- Leaves ----

// A block for each, a thread for each row.
__global__ void __launch_bounds__(kMostLeaf)
    leaves_kernel(int64_t n, int level, const double* diagonal, const double* beside, double* vectors, double* values,
                  int32_t* info) {
  __shared__ double rows[kMostLeaf][kMostLeaf + 1], d[kMostLeaf], e[kMostLeaf], cosines[kMostLeaf], sines[kMostLeaf];
  __shared__ Sweep sweep;
  __shared__ bool goes_on;
  const int64_t begin = part_begin(n, level, blockIdx.x);
  const int size = static_cast<int>(part_begin(n, level, int64_t{blockIdx.x} + 1) - begin);
  const int row = static_cast<int>(threadIdx.x);
  if (row < size) {
    d[row] = diagonal[begin + row];
    e[row] = row + 1 < size ? beside[begin + row] : 0;
    for (int j = 0; j < size; ++j) rows[row][j] = row == j ? 1 : 0;
  }
  int next = 0;
  for (int sweeps = 0;; ++sweeps) {
    __syncthreads();
    if (row == 0) {
      goes_on = next_sweep(size, d, e, next, cosines, sines, sweep);
      if (goes_on && sweeps == kMostSweeps) {
        goes_on = false;
        atomicMax(info, static_cast<int32_t>(blockIdx.x) + 1);
      }
    }
    __syncthreads();
    if (!goes_on) break;
    if (row < size) apply_sweep(sweep, cosines, sines, rows[row]);
  }
  if (row >= size) return;
  values[begin + row] = d[row];
  for (int j = 0; j < size; ++j) vectors[begin + row + (begin + j) * n] = rows[row][j];
}

// ---- Merges ----

// What a level's kernels read of its plan.
struct DevicePlan {
  const Merge* merges;
  const double* poles;
  const double* weights;
  const int32_t* rows;
  const int32_t* sources;
  const Rotation* rotations;
  const int32_t* chains;
};
struct Parts {
  int64_t n;
  int level;
  __device__ int32_t of(int64_t column) const { return part_of(n, level, column); }
  __device__ int32_t begin(int64_t part) const { return part_begin(n, level, part); }
};

__global__ void couplings_kernel(Parts parts, const double* vectors, double* z) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column < parts.n) z[column] = vectors[coupled_row(parts.n, parts.level, column) + column * parts.n];
}

// Block (x, y) is for chain x and rows from y on.
__global__ void rotations_kernel(Parts parts, const Rotation* rotations, const int32_t* chains, double* vectors) {
  const int32_t first = chains[blockIdx.x], last = chains[blockIdx.x + 1], part = parts.of(rotations[first].x);
  const int64_t row = parts.begin(part) + static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (row >= parts.begin(part + 1)) return;
  double x = vectors[row + rotations[first].x * parts.n];
  for (int32_t i = first; i < last; ++i) {
    const Rotation r = rotations[i];
    const double y = vectors[row + r.y * parts.n];
    vectors[row + r.x * parts.n] = r.cosine * x - r.sine * y;
    x = r.sine * x + r.cosine * y;  // the next one's
  }
  vectors[row + rotations[last - 1].y * parts.n] = x;
}

// A block for each column: where it has elements, if it takes part.
__global__ void permute_kernel(Parts parts, DevicePlan plan, const double* vectors, double* permuted) {
  const int64_t column = blockIdx.x;
  const Merge merge = plan.merges[parts.of(column)];
  const int64_t place = column - merge.begin;
  const bool stays = place >= merge.kept();
  const int64_t first = stays || place < merge.above + merge.both ? merge.begin : merge.cut;
  const int64_t last = stays || place >= merge.above ? merge.end : merge.cut;
  const double* const from = vectors + (merge.begin + plan.sources[column]) * parts.n;
  double* const to = permuted + column * parts.n;
  for (int64_t row = first + threadIdx.x; row < last; row += blockDim.x) to[row] = from[row];
}
__global__ void return_kernel(Parts parts, DevicePlan plan, const double* permuted, double* vectors) {
  const int64_t column = blockIdx.x;
  const Merge merge = plan.merges[parts.of(column)];
  if (column - merge.begin < merge.kept()) return;
  const double* const from = permuted + column * parts.n;
  double* const to = vectors + column * parts.n;
  for (int64_t row = merge.begin + threadIdx.x; row < merge.end; row += blockDim.x) to[row] = from[row];
}

// A warp shares a sum, whose order is fixed.
struct WarpLanes {
  static constexpr int count = kWarp;
  int number = static_cast<int>(threadIdx.x) % kWarp;
  __device__ double sum(double x) const {
    for (int distance = 1; distance < kWarp; distance *= 2) x += __shfl_xor_sync(kAll, x, distance);
    return x;
  }
  __device__ double product(double x) const {
    for (int distance = 1; distance < kWarp; distance *= 2) x *= __shfl_xor_sync(kAll, x, distance);
    return x;
  }
};
constexpr int kSecularThreads = 128, kSecularElements = kSecularThreads / kWarp;

__device__ inline Secular secular_problem(const Merge& merge, const DevicePlan& plan) {
  return {merge.kept(), plan.poles + merge.begin, plan.weights + merge.begin, merge.rho};
}
struct Zeros {
  double *origins, *offsets;
  double *poles, *weights;  // in the order of the permuted columns, and exact
  double* values;
};

__global__ void __launch_bounds__(kSecularThreads)
    zeros_kernel(Parts parts, DevicePlan plan, Zeros zeros, int32_t* info) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSecularElements + threadIdx.x / kWarp;
  if (column >= parts.n) return;
  const Merge merge = plan.merges[parts.of(column)];
  const auto i = static_cast<int32_t>(column - merge.begin);
  if (i >= merge.kept()) return;
  const WarpLanes lanes;
  const Zero zero = secular_zero(secular_problem(merge, plan), i, lanes);
  if (lanes.number != 0) return;
  zeros.origins[column] = zero.origin;
  zeros.offsets[column] = zero.offset;
  zeros.values[column] = zero.origin + zero.offset;
  if (!zero.converged) atomicMax(info, static_cast<int32_t>(column) + 1);
}

__global__ void __launch_bounds__(kSecularThreads) weights_kernel(Parts parts, DevicePlan plan, Zeros zeros) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSecularElements + threadIdx.x / kWarp;
  if (column >= parts.n) return;
  const Merge merge = plan.merges[parts.of(column)];
  const auto j = static_cast<int32_t>(column - merge.begin);
  if (j >= merge.kept()) return;
  const WarpLanes lanes;
  const Secular problem = secular_problem(merge, plan);
  const double weight = exact_weight(problem, zeros.origins + merge.begin, zeros.offsets + merge.begin, j, lanes);
  if (lanes.number != 0) return;
  const int32_t row = merge.begin + plan.rows[column];
  zeros.poles[row] = problem.poles[j];
  zeros.weights[row] = weight;
}

// A block for each vector.
constexpr int kVectorThreads = 128;
__global__ void __launch_bounds__(kVectorThreads)
    secular_vectors_kernel(Parts parts, DevicePlan plan, Zeros zeros, double* secular) {
  __shared__ double of_warps[kVectorThreads / kWarp];
  const int64_t column = blockIdx.x;
  const Merge merge = plan.merges[parts.of(column)];
  if (column - merge.begin >= merge.kept()) return;
  const double origin = zeros.origins[column], offset = zeros.offsets[column];
  const int64_t last = merge.begin + merge.kept();
  double squares = 0;
  for (int64_t row = merge.begin + threadIdx.x; row < last; row += kVectorThreads) {
    const double element = vector_element(zeros.poles[row], zeros.weights[row], origin, offset);
    squares += element * element;
  }
  squares = WarpLanes().sum(squares);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = squares;
  __syncthreads();
  squares = 0;
  for (const double part : of_warps) squares += part;
  const double factor = 1 / sqrt(squares);
  for (int64_t row = merge.begin + threadIdx.x; row < last; row += kVectorThreads) {
    secular[row + column * parts.n] = vector_element(zeros.poles[row], zeros.weights[row], origin, offset) * factor;
  }
}

// ---- Products ----

// Larger parts are cuBLAS's: several launches for each, but at a better rate. Measured on an H200.
constexpr int64_t kMostGrouped = 512;
constexpr int kTile = 64, kDepth = 16, kProductThreads = 256;
constexpr int kSide = 16, kOwn = kTile / kSide;  // a thread has kOwn x kOwn elements of a tile, kSide apart
// Blocks: x and y are for a tile, z for half z % 2 of merge z / 2.
__global__ void __launch_bounds__(kProductThreads)
    products_kernel(Parts parts, DevicePlan plan, const double* permuted, const double* secular, double* vectors) {
  __shared__ double left[kDepth][kTile], right[kDepth][kTile + 1];
  const Merge merge = plan.merges[blockIdx.z / 2];
  const Half half = half_of(merge, blockIdx.z % 2 != 0);
  const int row = half.first_row + static_cast<int>(blockIdx.x) * kTile;
  const int column = merge.begin + static_cast<int>(blockIdx.y) * kTile, last_column = merge.begin + merge.kept();
  if (row >= half.last_row || column >= last_column) return;
  const int thread = static_cast<int>(threadIdx.x), x = thread % kSide, y = thread / kSide;
  const int64_t n = parts.n;
  double sums[kOwn][kOwn] = {};
  for (int k = half.first; k < half.last; k += kDepth) {
#pragma unroll
    for (int i = 0; i < kTile * kDepth / kProductThreads; ++i) {
      const int at = thread + i * kProductThreads;
      const int left_row = row + at % kTile, left_k = k + at / kTile;
      const int right_k = k + at % kDepth, right_column = column + at / kDepth;
      left[at / kTile][at % kTile] =
          left_row < half.last_row && left_k < half.last ? permuted[left_row + left_k * n] : 0;
      right[at % kDepth][at / kDepth] =
          right_k < half.last && right_column < last_column ? secular[right_k + right_column * n] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      double a[kOwn], b[kOwn];
#pragma unroll
      for (int j = 0; j < kOwn; ++j) a[j] = left[i][x + j * kSide], b[j] = right[i][y + j * kSide];
#pragma unroll
      for (int j = 0; j < kOwn; ++j)
#pragma unroll
        for (int l = 0; l < kOwn; ++l) sums[j][l] += a[j] * b[l];
    }
    __syncthreads();
  }
#pragma unroll
  for (int l = 0; l < kOwn; ++l) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int to_row = row + x + j * kSide;
      const int64_t to_column = column + y + l * kSide;
      if (to_row < half.last_row && to_column < last_column) vectors[to_row + to_column * n] = sums[j][l];
    }
  }
}

__global__ void order_kernel(int64_t n, const int32_t* order, const double* from, double* to) {
  const int64_t column = blockIdx.x;
  const double* const source = from + order[column] * n;
  for (int64_t row = threadIdx.x; row < n; row += blockDim.x) to[row + column * n] = source[row];
}
__global__ void nan_kernel(int64_t count, double* x) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) x[i] = NAN;
}

// ---- The host's side ----

// What goes to the device for one level, in pinned memory and on the device alike.
struct PlanPlaces {
  explicit PlanPlaces(int64_t n) {
    Places places;
    merges = places.take((int64_t{1} << level_count(n)) * static_cast<int64_t>(sizeof(Merge)));
    poles = places.take(n * kDouble);
    weights = places.take(n * kDouble);
    rows = places.take(n * kInt);
    sources = places.take(n * kInt);
    chains = places.take((n + 1) * kInt);
    rotations = places.take(n * static_cast<int64_t>(sizeof(Rotation)));  // last: often few or none
    bytes = places.bytes();
  }
  int64_t merges, poles, weights, rows, sources, rotations, chains, bytes;
};

// The scratch.
struct DevicePlaces {
  explicit DevicePlaces(int64_t n) {
    Places places;
    const int64_t matrix = n * n * kDouble;
    plan = places.take(PlanPlaces(n).bytes);
    values = places.take(2 * n * kDouble);
    diagonal = places.take(n * kDouble);
    beside = places.take(n * kDouble);
    origins = places.take(n * kDouble);
    offsets = places.take(n * kDouble);
    poles = places.take(n * kDouble);
    weights = places.take(n * kDouble);
    permuted = places.take(matrix);
    secular = places.take(level_count(n) > 0 ? matrix : 0);
    bytes = places.bytes();
  }
  int64_t plan, values, diagonal, beside, origins, offsets, poles, weights, permuted, secular, bytes;
};

class Solver {
 public:
  Solver(int64_t n, double* z, void* scratch, int32_t* info, CudaStream& stream)
      : n_(n),
        z_(z),
        scratch_(static_cast<char*>(scratch)),
        info_(info),
        stream_(stream),
        places_(n),
        plan_places_(n),
        host_(plan_places_.bytes + 2 * n * kDouble, default_pinned_pool(DeviceKind::cuda),
              /*stream=*/nullptr) {}

  void run(const double* d, const double* e, double* values) {
    stream_.copy(host_values(), d, n_ * kDouble);
    stream_.copy(host_values() + n_, e, (n_ - 1) * kDouble);
    stream_.synchronize();
    const double* const given = host_values();
    std::vector<double> diagonal(given, given + n_), beside(given + n_, given + 2 * n_ - 1);
    const Scaling scaling = scale(diagonal, beside);
    if (!scaling.is_finite) {
      fill_nan(values, n_);
      fill_nan(z_, n_ * n_);
      return;
    }
    Merges merges(beside);
    merges.cut(diagonal);
    upload(diagonal, 0, places_.diagonal);
    upload(beside, n_ * kDouble, places_.beside);
    divide_and_conquer(merges, *this);
    finish(merges, scaling.exponent, values);
    stream_.synchronize();  // host_ goes
  }

  // ---- For divide_and_conquer() ----

  void leaves() {
    const int level = level_count(n_);
    stream_.fill(z_, 0, n_ * n_ * kDouble);
    leaves_kernel<<<1u << level, kMostLeaf, 0, stream_.handle()>>>(
        n_, level, device(places_.diagonal), device(places_.beside), z_, device(places_.values), info_);
    check(cudaGetLastError(), "eigenvectors of leaves");
  }
  void read(int level) {
    if (level >= 0) {
      couplings_kernel<<<blocks(n_, kThreads), kThreads, 0, stream_.handle()>>>(Parts{n_, level}, z_,
                                                                                device(places_.values) + n_);
      check(cudaGetLastError(), "rows beside the cuts");
    }
    stream_.copy(host_values(), device(places_.values), (level >= 0 ? 2 : 1) * n_ * kDouble);
    stream_.synchronize();
  }
  const double* values() const { return host_values(); }
  const double* z() const { return values() + n_; }

  void merge(int level, const MergePlan& plan) {
    const Parts parts{n_, level};
    const DevicePlan on_device = upload(plan);
    const cudaStream_t stream = stream_.handle();
    const auto columns = static_cast<unsigned>(n_);
    const int64_t largest = (n_ + (int64_t{1} << level) - 1) >> level;
    const auto threads = static_cast<unsigned>(std::min<int64_t>(align_up(largest, kWarp), kThreads));
    if (!plan.rotations.empty()) {
      const dim3 grid(static_cast<unsigned>(plan.chains.size() - 1), blocks(largest, threads));
      rotations_kernel<<<grid, threads, 0, stream>>>(parts, on_device.rotations, on_device.chains, z_);
      check(cudaGetLastError(), "rotating eigenvectors");
    }
    permute_kernel<<<columns, threads, 0, stream>>>(parts, on_device, z_, permuted());
    check(cudaGetLastError(), "permuting eigenvectors");
    const Zeros zeros{device(places_.origins), device(places_.offsets), device(places_.poles), device(places_.weights),
                      device(places_.values)};
    const unsigned secular_blocks = blocks(n_, kSecularElements);
    zeros_kernel<<<secular_blocks, kSecularThreads, 0, stream>>>(parts, on_device, zeros, info_);
    check(cudaGetLastError(), "zeros of secular equations");
    weights_kernel<<<secular_blocks, kSecularThreads, 0, stream>>>(parts, on_device, zeros);
    check(cudaGetLastError(), "weights of secular equations");
    secular_vectors_kernel<<<columns, kVectorThreads, 0, stream>>>(parts, on_device, zeros, secular());
    check(cudaGetLastError(), "vectors of secular equations");
    if (largest <= kMostGrouped) {
      const dim3 grid(blocks((largest + 1) / 2, kTile), blocks(largest, kTile), 2u << level);
      products_kernel<<<grid, kProductThreads, 0, stream>>>(parts, on_device, permuted(), secular(), z_);
    } else {
      for (const Merge& merge : plan.merges)
        for (const bool is_lower : {false, true}) multiply(merge, half_of(merge, is_lower));
    }
    check(cudaGetLastError(), "products of eigenvectors");
    return_kernel<<<columns, threads, 0, stream>>>(parts, on_device, permuted(), z_);
    check(cudaGetLastError(), "returning eigenvectors");
  }

 private:
  static constexpr int kThreads = 256;

  static unsigned blocks(int64_t count, int64_t each) { return static_cast<unsigned>((count + each - 1) / each); }
  double* device(int64_t place) const { return reinterpret_cast<double*>(scratch_ + place); }
  double* permuted() const { return device(places_.permuted); }
  double* secular() const { return device(places_.secular); }
  // In pinned memory: what goes to the device, and behind it what comes from there.
  char* host_plan() const { return static_cast<char*>(host_.data()); }
  double* host_values() const { return reinterpret_cast<double*>(host_plan() + plan_places_.bytes); }

  void upload(const std::vector<double>& x, int64_t by, int64_t to) {
    std::ranges::copy(x, reinterpret_cast<double*>(host_plan() + by));
    stream_.copy(scratch_ + to, host_plan() + by, std::ssize(x) * kDouble);
  }
  DevicePlan upload(const MergePlan& plan) {
    char* const from = scratch_ + places_.plan;
    const auto put = [&]<class U>(const std::vector<U>& elements, int64_t place) {
      std::ranges::copy(elements, reinterpret_cast<U*>(host_plan() + place));
      return reinterpret_cast<const U*>(from + place);
    };
    const DevicePlan on_device{put(plan.merges, plan_places_.merges),   put(plan.poles, plan_places_.poles),
                               put(plan.weights, plan_places_.weights), put(plan.rows, plan_places_.rows),
                               put(plan.sources, plan_places_.sources), put(plan.rotations, plan_places_.rotations),
                               put(plan.chains, plan_places_.chains)};
    const int64_t rotations = std::ssize(plan.rotations) * static_cast<int64_t>(sizeof(Rotation));
    stream_.copy(from, host_plan(), plan_places_.rotations + rotations);
    return on_device;
  }

  void multiply(const Merge& merge, const Half& half) {
    const int64_t rows = half.last_row - half.first_row, k = half.last - half.first, columns = merge.kept();
    if (columns == 0) return;
    double* const c = z_ + half.first_row + merge.begin * n_;
    if (k == 0) {
      QUARRY_CUDA_CALL(cudaMemset2DAsync(c, static_cast<size_t>(n_ * kDouble), 0, static_cast<size_t>(rows * kDouble),
                                         static_cast<size_t>(columns), stream_.handle()));
      return;
    }
    const MatrixView a{permuted() + half.first_row + half.first * n_, rows, k, 1, n_};
    const MatrixView b{secular() + half.first + merge.begin * n_, k, columns, 1, n_};
    blas_product({DType::float64, /*alpha=*/1, a, b, /*beta=*/0, {c, rows, columns, 1, n_}}, {}, stream_.blas());
  }

  void finish(const Merges& merges, int exponent, double* values) {
    auto* const sorted = reinterpret_cast<double*>(host_plan());
    const std::vector<int32_t>& order = merges.order();
    std::ranges::transform(order, sorted, [&](int32_t from) { return std::ldexp(merges.value(from), exponent); });
    stream_.copy(values, sorted, n_ * kDouble);
    if (std::ranges::is_sorted(order)) return;
    char* const from = host_plan() + plan_places_.sources;  // behind the values
    std::ranges::copy(order, reinterpret_cast<int32_t*>(from));
    char* const on_device = scratch_ + places_.plan + plan_places_.sources;
    stream_.copy(on_device, from, n_ * kInt);
    order_kernel<<<static_cast<unsigned>(n_), kThreads, 0, stream_.handle()>>>(
        n_, reinterpret_cast<const int32_t*>(on_device), z_, permuted());
    check(cudaGetLastError(), "ordering eigenvectors");
    stream_.copy(z_, permuted(), n_ * n_ * kDouble);
  }
  void fill_nan(double* x, int64_t count) {
    constexpr int64_t kMostBlocks = 1024;
    const unsigned grid = blocks(std::min(count, kMostBlocks * kThreads), kThreads);
    nan_kernel<<<grid, kThreads, 0, stream_.handle()>>>(count, x);
    check(cudaGetLastError(), "filling with NaN");
  }

  const int64_t n_;
  double* const z_;
  char* const scratch_;
  int32_t* const info_;
  CudaStream& stream_;
  const DevicePlaces places_;
  const PlanPlaces plan_places_;
  const detail::Buffer host_;
};

}  // namespace

int64_t tridiagonal_vectors_scratch_bytes(int64_t n) { return n == 0 ? 0 : DevicePlaces(n).bytes; }

void tridiagonal_vectors(int64_t n, const double* d, const double* e, double* values, double* z, void* scratch,
                         int32_t* info, CudaStream& stream) {
  stream.fill(info, 0, sizeof(*info));
  if (n > 0) Solver(n, z, scratch, info, stream).run(d, e, values);
}

}  // namespace quarry::local::cuda
