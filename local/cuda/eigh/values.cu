// Eigenvalues of a symmetric tridiagonal matrix by counting (local/cuda/eigh/sturm.h): kPoints threads cut the interval
// of one eigenvalue, and every thread runs through the whole matrix once per cut. Rows come through shared memory.
//
// kStages * kPoints * n^2 steps, each of about two dependent instructions.
#include <algorithm>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/eigh/sturm.h"
#include "quarry/local/cuda/eigh/tridiagonal.h"

namespace quarry::local::cuda {
namespace {

using namespace eigh;

constexpr int kThreads = 128, kValuesOfBlock = kThreads / kPoints, kWarp = 32;
constexpr int kRows = 1024;  // in shared memory at a time
static_assert(kRows % kStepsOfScale == 0 && kWarp % kPoints == 0);

struct Header {
  int32_t exponent;  // the matrix is scaled by 2^-exponent
  bool is_finite, is_zero;
};
constexpr int64_t kHeaderBytes = 256;

// By one block: x is the diagonal element of a row, y the square of the one that couples it to the row before.
__global__ void prepare_kernel(int64_t n, const double* d, const double* e, Header* header, double2* rows) {
  constexpr int kMostWarps = 32;
  __shared__ double of_warps[kMostWarps];
  double largest = 0;
  bool is_finite = true;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const double on = d[i], beside = i + 1 < n ? e[i] : 0;
    is_finite = is_finite && isfinite(on) && isfinite(beside);
    largest = fmax(largest, fmax(fabs(on), fabs(beside)));
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    largest = fmax(largest, __shfl_xor_sync(~0u, largest, distance));
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = largest;
  is_finite = __syncthreads_and(is_finite) != 0;
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) largest = fmax(largest, of_warps[warp]);
  int exponent = 0;
  if (is_finite) frexp(largest, &exponent);
  if (threadIdx.x == 0) *header = {exponent, is_finite, largest == 0};
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const double before = i > 0 ? ldexp(e[i - 1], -exponent) : 0;
    rows[i] = {ldexp(d[i], -exponent), before * before};
  }
}

__global__ void __launch_bounds__(kThreads)
    values_kernel(int64_t n, const Header* header, const double2* rows, double* values) {
  __shared__ double2 piece[kRows];
  const int64_t number = static_cast<int64_t>(blockIdx.x) * kValuesOfBlock + threadIdx.x / kPoints;
  const int own = static_cast<int>(threadIdx.x) % kPoints;
  if (!header->is_finite) {
    if (own == 0 && number < n) values[number] = NAN;
    return;
  }
  Interval interval = all_values(header->is_zero);
  for (int stage = 0; stage < kStages; ++stage) {
    const double x = point(interval, own);
    Sturm sturm;
    for (int64_t first = 0; first < n; first += kRows) {
      const int count = static_cast<int>(min(static_cast<int64_t>(kRows), n - first));
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) piece[i] = rows[first + i];
      __syncthreads();
      int i = 0;
      for (; i + kStepsOfScale <= count; i += kStepsOfScale) {
#pragma unroll
        for (int j = 0; j < kStepsOfScale; ++j) count_row(sturm, piece[i + j].x, piece[i + j].y, x);
        rescale(sturm);
      }
      for (; i < count; ++i) count_row(sturm, piece[i].x, piece[i].y, x);
    }
    const unsigned passed = __ballot_sync(~0u, sturm.below <= number) >> (threadIdx.x % kWarp - own);
    interval = section(interval, __popc(passed & ((1u << kPoints) - 1)));
  }
  if (own == 0 && number < n) values[number] = ldexp((interval.low + interval.high) / 2, header->exponent);
}

}  // namespace

int64_t tridiagonal_values_scratch_bytes(int64_t n) { return kHeaderBytes + n * static_cast<int64_t>(sizeof(double2)); }

void tridiagonal_values(int64_t n, const double* d, const double* e, double* values, void* scratch, int32_t* info,
                        CudaStream& stream) {
  stream.fill(info, 0, sizeof(*info));
  if (n == 0) return;
  constexpr int kPrepareThreads = 1024;
  auto* const header = static_cast<Header*>(scratch);
  auto* const rows = reinterpret_cast<double2*>(static_cast<char*>(scratch) + kHeaderBytes);
  prepare_kernel<<<1, kPrepareThreads, 0, stream.handle()>>>(n, d, e, header, rows);
  check(cudaGetLastError(), "scaling a tridiagonal matrix");
  const auto blocks = static_cast<unsigned>((n + kValuesOfBlock - 1) / kValuesOfBlock);
  values_kernel<<<blocks, kThreads, 0, stream.handle()>>>(n, header, rows, values);
  check(cudaGetLastError(), "counting eigenvalues");
}

}  // namespace quarry::local::cuda
