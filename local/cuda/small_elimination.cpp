// Elimination of small matrices in shared memory: factors, solutions, determinants.
#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/driver.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/small_families.h"
#include "quarry/local/cuda/small_matrices.h"

namespace quarry::local::cuda {

// put(e, x) for each element of a matrix, with many reads under way at a time.
const char* const small_loading_text = R"cuda(
template <class T, class Put> QUARRY_FN void load_elements(const T* from, int elements, const Put& put) {
  constexpr int kAtOnce = 8;
  const int step = static_cast<int>(blockDim.x);
  for (int first = static_cast<int>(threadIdx.x); first < elements; first += kAtOnce * step) {
    T x[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) x[u] = first + u * step < elements ? from[first + u * step] : number(T(), 0);
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (first + u * step < elements) put(first + u * step, x[u]);
  }
}
// e / n by lines = 1 / n, of less than 2^14 elements and n up to 2^7: the nearest quotients are 1 / 2n away.
QUARRY_FN int line_of(int e, float lines) { return static_cast<int>((static_cast<float>(e) + 0.5f) * lines); }
)cuda";

// Elimination with partial pivoting of a square matrix in shared memory, by panels of kWidth columns; 2/3 n^3
// operations. A block takes a matrix of at most 32 kRows rows. Its first warp eliminates a panel in registers, lane l
// with the rows l, l + 32, ..., so that a step waits for no barrier; then threads solve for the pivots' rows of the
// other columns, and all update the rest. Right-hand sides are further columns. Rows stay where they are: `order` has
// the pivots' rows, `places` where LAPACK's exchanges bring each row. NaN counts as the largest number, so that what it
// reaches becomes NaN. A column of zeros is left as it is.
const char* const small_panels_text = R"cuda(
enum class Wanted { factors, solution, logarithm };
QUARRY_FN float logarithm(float x) { return logf(x); }
QUARRY_FN double logarithm(double x) { return log(x); }
// x / |x|, of infinities too where x is real; 0 of 0.
QUARRY_FN float sign_of(float x) { return x < 0 ? -1.0f : x > 0 ? 1.0f : x; }
QUARRY_FN double sign_of(double x) { return x < 0 ? -1.0 : x > 0 ? 1.0 : x; }
template <class T> QUARRY_FN cx<T> sign_of(cx<T> x) {
  const T size = length(x);
  return {x.re / size, x.im / size};
}
QUARRY_FN bool is_nan(float x) { return x != x; }
QUARRY_FN bool is_nan(double x) { return x != x; }
template <class T> QUARRY_FN bool is_nan(cx<T> x) { return x.re != x.re || x.im != x.im; }

// `count` columns of n elements in a line, to columns of `stride`; `by_rows`: what stands there are rows. Whether there
// is NaN.
template <class T>
QUARRY_FN bool load_columns(const T* from, int n, int count, bool by_rows, T* to, int stride) {
  const float lines = 1.0f / static_cast<float>(n);
  bool unknown = false;
  load_elements(from, n * count, [&](int e, const T& x) {
    const int line = line_of(e, lines), at = e - line * n;
    to[by_rows ? at * stride + line : line * stride + at] = x;
    unknown = unknown || is_nan(x);
  });
  return unknown;
}

template <class T, int kRows, Wanted kWanted> QUARRY_FN void panels(const Params& p) {
  using R = Real<T>;
  constexpr int kWidth = 8, kMost = 32 * kRows, kBits = 8;
  QUARRY_DYNAMIC_SHARED(memory);
  __shared__ T pivots[kMost], inverses[kMost];
  __shared__ int order[kMost], places[kMost], waiting[kMost];
  T* const a = reinterpret_cast<T*>(memory);
  const int64_t count = p.s[4];
  const int n = static_cast<int>(p.s[5]), sides = static_cast<int>(p.s[6]), stride = static_cast<int>(p.s[8]);
  const bool by_rows = p.s[7] != 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int columns = n + sides;
  for (int64_t matrix = blockIdx.x; matrix < count; matrix += gridDim.x) {
    const bool found = load_columns(reinterpret_cast<const T*>(p.s[0]) + matrix * n * n, n, n, by_rows, a, stride);
    T* const b = reinterpret_cast<T*>(p.s[1]) + matrix * n * sides;
    if (kWanted == Wanted::solution) load_columns(b, n, sides, false, a + n * stride, stride);
    const bool unknown = __syncthreads_or(found) != 0;
    // Of the first warp's rows.
    bool waits[kRows];
    int place[kRows], failed = 0;
    bool odd = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) place[r] = lane + 32 * r, waits[r] = place[r] < n;
#pragma unroll 1
    for (int k = 0; k < n; k += kWidth) {
      const int width = n - k < kWidth ? n - k : kWidth, next = k + width;
      if (warp == 0) {
        T v[kRows][kWidth];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int c = 0; c < kWidth; ++c)
            v[r][c] = lane + 32 * r < n && c < width ? a[(k + c) * stride + lane + 32 * r] : number(T(), 0);
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
          if (c >= width) continue;
          uint32_t high = 0, low = 0, code = 0;
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            uint32_t own_high = 0, own_low = 0;
            if (waits[r]) make_key(weight(v[r][c]), own_high, own_low);
            const int own = (kMost - place[r]) << kBits | (lane + 32 * r);
            const uint32_t own_code = waits[r] ? static_cast<uint32_t>(own) : 0;
            const bool before = own_high != high ? own_high > high : own_low != low ? own_low > low : own_code > code;
            if (before) high = own_high, low = own_low, code = own_code;
          }
          const uint32_t most_high = most_of_warp(high);
          const uint32_t most_low = sizeof(R) == 4 ? 0 : most_of_warp(high == most_high ? low : 0);
          const uint32_t chosen = most_of_warp(high == most_high && low == most_low ? code : 0);
          const int row = static_cast<int>(chosen & ((1u << kBits) - 1)), part = row / 32;
          const int pivot_place = kMost - static_cast<int>(chosen >> kBits);
          T u[kWidth];
#pragma unroll
          for (int d = c; d < kWidth; ++d) {
            T own = v[0][d];
#pragma unroll
            for (int r = 1; r < kRows; ++r)
              if (part == r) own = v[r][d];
            u[d] = from_lane(own, row % 32);
          }
          const bool zero = most_high <= 1 && most_low == 0;
          if (zero && failed == 0) failed = k + c + 1;
          const T factor = zero ? number(T(), 0) : inverse(u[c]);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            if (lane + 32 * r == row) {
              waits[r] = false;
              place[r] = k + c;
            } else {
              if (place[r] == k + c) place[r] = pivot_place;
              if (waits[r]) {
                const T multiple = product(v[r][c], factor);
                v[r][c] = multiple;
#pragma unroll
                for (int d = c + 1; d < kWidth; ++d) v[r][d] = without(v[r][d], multiple, u[d]);
              }
            }
          }
          odd = odd != (pivot_place != k + c);
          if (lane == 0) {
            order[k + c] = row, pivots[k + c] = u[c], inverses[k + c] = factor;
            if (kWanted == Wanted::factors) reinterpret_cast<int32_t*>(p.s[2])[matrix * n + k + c] = pivot_place + 1;
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const int i = lane + 32 * r;
          waiting[i] = waits[r], places[i] = place[r];
#pragma unroll
          for (int c = 0; c < kWidth; ++c)
            if (i < n && c < width) a[(k + c) * stride + i] = v[r][c];
        }
      }
      __syncthreads();
      if (next == columns) break;
      // L x = a for the pivots' rows of the columns behind.
      for (int j = next + static_cast<int>(threadIdx.x); j < columns; j += static_cast<int>(blockDim.x)) {
        T u[kWidth];
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
          if (c >= width) continue;
          const int row = order[k + c];
          u[c] = a[j * stride + row];
#pragma unroll
          for (int d = 0; d < c; ++d) u[c] = without(u[c], a[(k + d) * stride + row], u[d]);
          a[j * stride + row] = u[c];
        }
      }
      __syncthreads();
      if (next == n) break;
      T l[kRows][kWidth];
      bool active[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int i = lane + 32 * r;
        active[r] = i < n && waiting[i];
#pragma unroll
        for (int c = 0; c < kWidth; ++c) l[r][c] = active[r] ? a[(k + c) * stride + i] : number(T(), 0);
      }
      for (int j = next + warp; j < columns; j += warps) {
        T x[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) x[r] = active[r] ? a[j * stride + lane + 32 * r] : number(T(), 0);
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
          const T u = a[j * stride + order[k + c]];
#pragma unroll
          for (int r = 0; r < kRows; ++r) x[r] = without(x[r], l[r][c], u);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          if (active[r]) a[j * stride + lane + 32 * r] = x[r];
      }
      __syncthreads();
    }
    if (kWanted == Wanted::factors) {
      T* const out = reinterpret_cast<T*>(p.s[1]) + matrix * n * n;
      for (int j = warp; j < n; j += warps)
        for (int i = lane; i < n; i += 32) out[j * n + places[i]] = a[j * stride + i];
    }
    if (kWanted == Wanted::solution) {
      // U x = y; a warp takes a side, lane l of it the rows of U l, l + 32, ...
      for (int side = warp; side < sides; side += warps) {
        T y[kRows];
        int row[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          row[r] = lane + 32 * r < n ? order[lane + 32 * r] : 0;
          y[r] = lane + 32 * r < n ? a[(n + side) * stride + row[r]] : number(T(), 0);
        }
#pragma unroll
        for (int part = kRows - 1; part >= 0; --part) {
          const int last = n - 1 < 32 * part + 31 ? n - 1 : 32 * part + 31;
#pragma unroll 2
          for (int k = last; k >= 32 * part; --k) {
            const T known = product(from_lane(y[part], k - 32 * part), inverses[k]);
            if (lane == k - 32 * part) y[part] = known;
#pragma unroll
            for (int r = 0; r <= part; ++r)
              if (lane + 32 * r < k) y[r] = without(y[r], a[k * stride + row[r]], known);
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          if (lane + 32 * r < n) b[side * n + lane + 32 * r] = y[r];
      }
    }
    if (kWanted == Wanted::logarithm && warp == 0) {
      T sign = number(T(), odd ? -1 : 1);
      R size = 0;
      for (int i = lane; i < n; i += 32) size += logarithm(length(pivots[i]));
      size = warp_sum(size);
      T own = number(T(), 1);
      for (int i = lane; i < n; i += 32) own = product(own, sign_of(pivots[i]));
      for (int step = 16; step > 0; step /= 2) own = product(own, across(own, step));
      sign = product(sign, own);
      if (lane == 0) {
        const R nothing = fn::infinity<R>() - fn::infinity<R>();
        if (failed != 0 && unknown) sign = scaled(number(T(), 1), nothing), size = nothing;
        if (failed != 0 && !unknown) sign = number(T(), 0), size = -fn::infinity<R>();
        reinterpret_cast<T*>(p.s[1])[matrix] = sign;
        reinterpret_cast<R*>(p.s[2])[matrix] = size;
      }
    }
    if (kWanted != Wanted::logarithm && threadIdx.x == 0) reinterpret_cast<int32_t*>(p.s[3])[matrix] = failed;
    __syncthreads();
  }
}
template <class T> QUARRY_FN void factors_32(const Params& p) { panels<T, 1, Wanted::factors>(p); }
template <class T> QUARRY_FN void factors_64(const Params& p) { panels<T, 2, Wanted::factors>(p); }
template <class T> QUARRY_FN void factors_128(const Params& p) { panels<T, 4, Wanted::factors>(p); }
template <class T> QUARRY_FN void solution_32(const Params& p) { panels<T, 1, Wanted::solution>(p); }
template <class T> QUARRY_FN void solution_64(const Params& p) { panels<T, 2, Wanted::solution>(p); }
template <class T> QUARRY_FN void solution_128(const Params& p) { panels<T, 4, Wanted::solution>(p); }
template <class T> QUARRY_FN void logarithm_32(const Params& p) { panels<T, 1, Wanted::logarithm>(p); }
template <class T> QUARRY_FN void logarithm_64(const Params& p) { panels<T, 2, Wanted::logarithm>(p); }
template <class T> QUARRY_FN void logarithm_128(const Params& p) { panels<T, 4, Wanted::logarithm>(p); }
)cuda";

// Cholesky's factors of Hermitian positive definite matrices by the same panels, without pivots: 1/3 n^3 operations.
// Shared memory has a lower triangle; an upper one comes and goes as its conjugate transpose, and zeros stand in the
// rest of what is written. A pivot that is not positive, NaN included, ends up in info.
const char* const small_cholesky_text = R"cuda(
template <class T, int kRows> QUARRY_FN void cholesky(const Params& p) {
  using R = Real<T>;
  constexpr int kWidth = 8;
  QUARRY_DYNAMIC_SHARED(memory);
  T* const a = reinterpret_cast<T*>(memory);
  const int64_t count = p.s[4];
  const int n = static_cast<int>(p.s[5]), stride = static_cast<int>(p.s[8]), elements = n * n;
  const bool by_rows = p.s[7] != 0, upper = p.s[6] != 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int step = static_cast<int>(blockDim.x);
  const float lines = 1.0f / static_cast<float>(n);
  for (int64_t matrix = blockIdx.x; matrix < count; matrix += gridDim.x) {
    const T* const from = reinterpret_cast<const T*>(p.s[0]) + matrix * elements;
    T* const to = reinterpret_cast<T*>(p.s[1]) + matrix * elements;
    load_elements(from, elements, [&](int e, const T& x) {
      const int line = line_of(e, lines), at = e - line * n;
      const int row = by_rows ? line : at, column = by_rows ? at : line;
      if (!upper && row >= column) a[column * stride + row] = x;
      if (upper && column >= row) a[row * stride + column] = conj(x);
    });
    int failed = 0;  // the first warp knows
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < n; k += kWidth) {
      const int width = n - k < kWidth ? n - k : kWidth, next = k + width, part = k / 32;
      if (warp == 0) {
        T v[kRows][kWidth];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int c = 0; c < kWidth; ++c) {
            const int i = lane + 32 * r;
            v[r][c] = i < n && c < width && i >= k + c ? a[(k + c) * stride + i] : number(T(), 0);
          }
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
          if (c >= width) continue;
          // The panel's square is in rows of one part.
          T own = v[0][c];
#pragma unroll
          for (int r = 1; r < kRows; ++r)
            if (part == r) own = v[r][c];
          const R pivot = real_part(from_lane(own, (k + c) % 32));
          if (!(pivot > 0) && failed == 0) failed = k + c + 1;
          const R size = root(pivot), factor = 1 / size;
#pragma unroll
          for (int r = 0; r < kRows; ++r)
            v[r][c] = lane + 32 * r == k + c ? scaled(number(T(), 1), size) : scaled(v[r][c], factor);
          own = scaled(own, factor);
#pragma unroll
          for (int d = c + 1; d < kWidth; ++d) {
            const T other = conj(from_lane(own, (k + d) % 32));
#pragma unroll
            for (int r = 0; r < kRows; ++r) v[r][d] = without(v[r][d], v[r][c], other);
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int c = 0; c < kWidth; ++c) {
            const int i = lane + 32 * r;
            if (i < n && c < width && i >= k + c) a[(k + c) * stride + i] = v[r][c];
          }
      }
      __syncthreads();
      if (next == n) break;
      T l[kRows][kWidth];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
          const int i = lane + 32 * r;
          l[r][c] = i < n && i >= next ? a[(k + c) * stride + i] : number(T(), 0);
        }
      for (int j = next + warp; j < n; j += warps) {
        T x[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const int i = lane + 32 * r;
          x[r] = i < n && i >= j ? a[j * stride + i] : number(T(), 0);
        }
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
          const T other = conj(a[(k + c) * stride + j]);
#pragma unroll
          for (int r = 0; r < kRows; ++r) x[r] = without(x[r], l[r][c], other);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const int i = lane + 32 * r;
          if (i < n && i >= j) a[j * stride + i] = x[r];
        }
      }
      __syncthreads();
    }
    for (int e = static_cast<int>(threadIdx.x); e < elements; e += step) {
      const int row = line_of(e, lines), column = e - row * n;
      T x = number(T(), 0);
      if (!upper && row >= column) x = a[column * stride + row];
      if (upper && column >= row) x = conj(a[row * stride + column]);
      to[e] = x;
    }
    if (threadIdx.x == 0) reinterpret_cast<int32_t*>(p.s[3])[matrix] = failed;
    __syncthreads();
  }
}
template <class T> QUARRY_FN void cholesky_32(const Params& p) { cholesky<T, 1>(p); }
template <class T> QUARRY_FN void cholesky_64(const Params& p) { cholesky<T, 2>(p); }
template <class T> QUARRY_FN void cholesky_128(const Params& p) { cholesky<T, 4>(p); }
)cuda";

namespace {

// The distance of columns in shared memory: odd, so that neither rows nor columns meet in a bank.
int64_t stride_of(int64_t n) { return n | 1; }
int64_t shared_bytes(DType dtype, int64_t n, int64_t sides) { return (n + sides) * stride_of(n) * itemsize(dtype); }

// What a block of the device may have, beside what the kernels declare.
int64_t most_shared_bytes(int device) {
  constexpr int kDeclared = 8 << 10;
  int bytes = 0;
  QUARRY_CUDA_CALL(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes - kDeclared;
}

// Lets a kernel have what most_shared_bytes() says.
void allow_shared(CUfunction kernel, int device) {
  static std::mutex mutex;
  static std::set<std::pair<CUfunction, int>> allowed;
  const std::lock_guard lock(mutex);
  if (allowed.contains({kernel, device})) return;
  CUdevice handle = 0;
  QUARRY_CUDA_CALL(driver().device_get(&handle, device));
  const auto set = [&](CUfunction_attribute attribute, int64_t value) {
    QUARRY_CUDA_CALL(
        driver().kernel_set_attribute(attribute, static_cast<int>(value), reinterpret_cast<CUkernel>(kernel), handle));
  };
  set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most_shared_bytes(device));
  set(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, CU_SHAREDMEM_CARVEOUT_MAX_SHARED);
  allowed.emplace(kernel, device);
}

void launch_panels(SmallMatrices kernels, DType dtype, int64_t count, int64_t n, int64_t sides,
                   std::vector<int64_t> slots, CudaStream& stream) {
  constexpr int64_t kMostBlocks = 1 << 20;
  const int device = stream.device().index;
  const CUfunction kernel = module_of(kernels, dtype, stream).kernel(0);
  allow_shared(kernel, device);
  const int threads = n > 64 ? 128 : n > 32 ? 64 : 32;
  slots.resize(kSmallSlots);
  launch_kernel(kernel, std::min(count, kMostBlocks), 1, threads, slots, stream, /*grid_z=*/1,
                shared_bytes(dtype, n, sides));
}

SmallMatrices family_for(int64_t n, SmallMatrices by_32, SmallMatrices by_64, SmallMatrices by_128) {
  return n > 64 ? by_128 : n > 32 ? by_64 : by_32;
}

}  // namespace

bool by_panels(DType dtype, int64_t n, int64_t sides, const CudaStream& stream) {
  constexpr int64_t kMostRows = 128, kMostSides = 32;
  return n <= kMostRows && sides <= kMostSides &&
         shared_bytes(dtype, n, sides) <= most_shared_bytes(stream.device().index);
}

void factor_by_panels(const Lu& task, CudaStream& stream) {
  const int64_t n = task.a.rows;
  const SmallMatrices kernels =
      family_for(n, SmallMatrices::factors_32, SmallMatrices::factors_64, SmallMatrices::factors_128);
  launch_panels(kernels, task.dtype, task.a.count, n, /*sides=*/0,
                {address(task.a.data), address(task.a.data), address(task.pivots), address(task.info), task.a.count, n,
                 /*sides=*/0, /*by_rows=*/0, stride_of(n)},
                stream);
}

void solve_by_panels(const Solve& task, CudaStream& stream) {
  const int64_t n = task.a.rows, sides = task.b.columns;
  const SmallMatrices kernels =
      family_for(n, SmallMatrices::solution_32, SmallMatrices::solution_64, SmallMatrices::solution_128);
  launch_panels(kernels, task.dtype, task.a.count, n, sides,
                {address(task.a.data), address(task.b.data), 0, address(task.info), task.a.count, n, sides,
                 static_cast<int64_t>(task.by_rows), stride_of(n)},
                stream);
}

void cholesky_by_panels(const CholeskyFactor& task, CudaStream& stream) {
  const int64_t n = task.a.rows;
  const SmallMatrices kernels =
      family_for(n, SmallMatrices::cholesky_32, SmallMatrices::cholesky_64, SmallMatrices::cholesky_128);
  launch_panels(
      kernels, task.dtype, task.a.count, n, /*sides=*/0,
      {address(task.a.data), address(task.out.data), 0, address(task.info), task.a.count, n,
       static_cast<int64_t>(task.triangle == Triangle::upper), static_cast<int64_t>(task.by_rows), stride_of(n)},
      stream);
}

void log_determinant_by_panels(const LogDeterminant& task, CudaStream& stream) {
  const int64_t n = task.a.rows;
  const SmallMatrices kernels =
      family_for(n, SmallMatrices::logarithm_32, SmallMatrices::logarithm_64, SmallMatrices::logarithm_128);
  launch_panels(kernels, task.dtype, task.a.count, n, /*sides=*/0,
                {address(task.a.data), address(task.sign), address(task.logarithm), 0, task.a.count, n, /*sides=*/0,
                 /*by_rows=*/0, stride_of(n)},
                stream);
}

}  // namespace quarry::local::cuda
