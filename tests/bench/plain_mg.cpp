// NVIDIA's libraries for several GPUs of one process, cuSOLVERMg and cuBLASXt, as a peer of scripts/bench/linalg: a
// random float64 matrix of n rows and columns, with n on its diagonal (eigh: without), on the GPUs in blocks of columns
// that are dealt to them; a product from pinned host memory to pinned host memory.
//
// usage: plain_mg matmul|cholesky|solve|eigh N GPUS BLOCK CALLS; prints {"seconds": [of each call]}.
#include <cublasXt.h>
#include <cuda_runtime.h>
#define DISABLE_CUSOLVERMG_DEPRECATED  // no other library factorises on the GPUs of one process
#include <cusolverMg.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace {

void check(int status, const char* what) {
  if (status == 0) return;
  std::fprintf(stderr, "plain_mg: %s failed with status %d\n", what, status);
  std::exit(1);
}

double* pinned(int64_t elements) {
  void* data = nullptr;
  check(cudaHostAlloc(&data, static_cast<size_t>(elements) * sizeof(double), cudaHostAllocPortable), "cudaHostAlloc");
  return static_cast<double*>(data);
}

void fill(double* data, int64_t elements) {
  uint64_t state = 1;
  for (int64_t i = 0; i < elements; ++i) {  // xorshift64*
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    data[i] = static_cast<double>((state * 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-53;
  }
}

void synchronize(const std::vector<int>& devices) {
  for (const int device : devices) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
}

double seconds_of(const std::vector<int>& devices, const std::function<void()>& call) {
  synchronize(devices);
  const auto begin = std::chrono::steady_clock::now();
  call();
  synchronize(devices);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Memory on each device; freed with the process.
std::vector<void*> on_each(const std::vector<int>& devices, int64_t bytes) {
  std::vector<void*> all;
  for (const int device : devices) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaMalloc(&all.emplace_back(), static_cast<size_t>(std::max<int64_t>(bytes, 1))), "cudaMalloc");
  }
  return all;
}

double multiplied(const std::vector<int>& devices, cublasXtHandle_t handle, int64_t n, const double* a, double* c) {
  const double one = 1, zero = 0;
  const auto rows = static_cast<size_t>(n);
  return seconds_of(devices, [&] {
    check(cublasXtDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, rows, rows, rows, &one, a, rows, a, rows, &zero, c, rows),
          "cublasXtDgemm");
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::string what = argv[1];
  const int64_t n = std::atoll(argv[2]), block = std::atoll(argv[4]);
  const int count = std::atoi(argv[3]), calls = std::atoi(argv[5]);
  std::vector<int> devices(static_cast<size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  double* const given = pinned(n * n);
  fill(given, n * n);
  std::vector<double> seconds;
  if (what == "matmul") {
    double* const product = pinned(n * n);
    cublasXtHandle_t handle = nullptr;
    check(cublasXtCreate(&handle), "cublasXtCreate");
    check(cublasXtDeviceSelect(handle, count, devices.data()), "cublasXtDeviceSelect");
    check(cublasXtSetBlockDim(handle, static_cast<int>(block)), "cublasXtSetBlockDim");
    for (int call = 0; call < calls; ++call) seconds.push_back(multiplied(devices, handle, n, given, product));
  } else {
    for (int64_t i = 0; what != "eigh" && i < n; ++i) given[i * n + i] += static_cast<double>(n);
    for (const int device : devices) {
      check(cudaSetDevice(device), "cudaSetDevice");
      for (const int other : devices)
        if (other != device) check(cudaDeviceEnablePeerAccess(other, 0), "cudaDeviceEnablePeerAccess");
    }
    cusolverMgHandle_t handle = nullptr;
    cudaLibMgGrid_t grid = nullptr;
    cudaLibMgMatrixDesc_t matrix = nullptr, sides = nullptr;
    check(cusolverMgCreate(&handle), "cusolverMgCreate");
    check(cusolverMgDeviceSelect(handle, count, devices.data()), "cusolverMgDeviceSelect");
    check(cusolverMgCreateDeviceGrid(&grid, 1, count, devices.data(), CUDALIBMG_GRID_MAPPING_COL_MAJOR),
          "cusolverMgCreateDeviceGrid");
    check(cusolverMgCreateMatrixDesc(&matrix, n, n, n, block, CUDA_R_64F, grid), "cusolverMgCreateMatrixDesc");
    check(cusolverMgCreateMatrixDesc(&sides, n, 1, n, block, CUDA_R_64F, grid), "cusolverMgCreateMatrixDesc");
    const int64_t blocks = (n + block - 1) / block, of_device = (blocks + count - 1) / count;
    const std::vector<void*> a = on_each(devices, of_device * block * n * 8), b = on_each(devices, block * n * 8),
                             pivots = on_each(devices, of_device * block * 4);
    auto* const columns = const_cast<void**>(a.data());
    auto* const right = const_cast<void**>(b.data());
    auto* const rows = reinterpret_cast<int**>(const_cast<void**>(pivots.data()));
    std::vector<double> values(static_cast<size_t>(n));
    const int size = static_cast<int>(n);
    int64_t work_size = 0, more = 0;
    if (what == "cholesky") {
      check(cusolverMgPotrf_bufferSize(handle, CUBLAS_FILL_MODE_LOWER, size, columns, 1, 1, matrix, CUDA_R_64F,
                                       &work_size),
            "cusolverMgPotrf_bufferSize");
    } else if (what == "solve") {
      check(cusolverMgGetrf_bufferSize(handle, size, size, columns, 1, 1, matrix, rows, CUDA_R_64F, &work_size),
            "cusolverMgGetrf_bufferSize");
      check(cusolverMgGetrs_bufferSize(handle, CUBLAS_OP_N, size, 1, columns, 1, 1, matrix, rows, right, 1, 1, sides,
                                       CUDA_R_64F, &more),
            "cusolverMgGetrs_bufferSize");
    } else {
      check(cusolverMgSyevd_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, size, columns, 1, 1,
                                       matrix, values.data(), CUDA_R_64F, CUDA_R_64F, &work_size),
            "cusolverMgSyevd_bufferSize");
    }
    work_size = std::max(work_size, more);
    const std::vector<void*> scratch = on_each(devices, work_size * 8);
    auto* const work = const_cast<void**>(scratch.data());
    for (int call = 0; call < calls; ++call) {
      for (int64_t j = 0; j < blocks; ++j) {
        const auto device = static_cast<size_t>(j % count);
        const int64_t elements = std::min(block, n - j * block) * n;
        check(cudaMemcpy(static_cast<double*>(a[device]) + j / count * block * n, given + j * block * n,
                         static_cast<size_t>(elements) * 8, cudaMemcpyHostToDevice),
              "cudaMemcpy");
      }
      int info = 0;
      const double taken = seconds_of(devices, [&] {
        if (what == "cholesky") {
          check(cusolverMgPotrf(handle, CUBLAS_FILL_MODE_LOWER, size, columns, 1, 1, matrix, CUDA_R_64F, work,
                                work_size, &info),
                "cusolverMgPotrf");
        } else if (what == "solve") {
          check(cusolverMgGetrf(handle, size, size, columns, 1, 1, matrix, rows, CUDA_R_64F, work, work_size, &info),
                "cusolverMgGetrf");
          check(cusolverMgGetrs(handle, CUBLAS_OP_N, size, 1, columns, 1, 1, matrix, rows, right, 1, 1, sides,
                                CUDA_R_64F, work, work_size, &info),
                "cusolverMgGetrs");
        } else {
          check(cusolverMgSyevd(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, size, columns, 1, 1, matrix,
                                values.data(), CUDA_R_64F, CUDA_R_64F, work, work_size, &info),
                "cusolverMgSyevd");
        }
      });
      check(info, "the computation");
      seconds.push_back(taken);
    }
  }
  std::printf("{\"seconds\": [");
  for (size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.6f", i > 0 ? ", " : "", seconds[i]);
  std::printf("]}\n");
  return 0;
}
