// A GPU's stream as what runs kernels and products of a Tridiagonalization.
#pragma once

#include <cublas_v2.h>

#include <tuple>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/eigh/reduction.cuh"
#include "quarry/local/cuda/kernel_memory.cuh"
#include "quarry/local/cuda/multiprocessors.h"

namespace quarry::local::cuda {
namespace {

// The handle's stream is this one.
class CudaMachine {
 public:
  CudaMachine(cublasHandle_t blas, cudaStream_t stream) : blas_(blas), stream_(stream) {
    QUARRY_CUDA_CALL(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST));
  }

  // Blocks of a kernel that takes most of a multiprocessor.
  int64_t blocks_at_once() const { return multiprocessor_count(); }
  void zero(void* data, int64_t bytes) const {
    QUARRY_CUDA_CALL(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), stream_));
  }
  template <class... P, class... A>
  void launch(const char* what, void (*kernel)(P...), Extents blocks, int threads, size_t bytes, A... arguments) const {
    allow_launch_memory(reinterpret_cast<const void*>(kernel), bytes);
    kernel<<<extent(blocks), static_cast<unsigned>(threads), bytes, stream_>>>(arguments...);
    check(cudaGetLastError(), what);
  }
  // Its blocks wait for each other.
  template <class... P, class... A>
  void launch_together(const char* what, void (*kernel)(P...), Extents blocks, int threads, size_t bytes,
                       A... arguments) const {
    allow_launch_memory(reinterpret_cast<const void*>(kernel), bytes);
    std::tuple<P...> values{arguments...};
    std::apply(
        [&](auto&... each) {
          void* addresses[] = {&each...};
          check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), extent(blocks),
                                            dim3(static_cast<unsigned>(threads)), addresses, bytes, stream_),
                what);
        },
        values);
  }

  // c = alpha op(a) op(b) + beta c, of m rows, n columns, and sums of k.
  void gemm(MatrixOp of_a, MatrixOp of_b, int64_t m, int64_t n, int64_t k, double alpha, View<const double> a,
            View<const double> b, double beta, View<double> c) const {
    QUARRY_CUDA_CALL(cublasDgemm_64(blas_, named(of_a), named(of_b), m, n, k, &alpha, a.data, a.distance, b.data,
                                    b.distance, &beta, c.data, c.distance));
  }
  // b = a^-1 b, of an upper triangle with ones on its diagonal.
  void solve_unit_upper(int64_t n, View<const double> a, View<double> b) const {
    const double one = 1;
    constexpr auto kLeft = CUBLAS_SIDE_LEFT;
    constexpr auto kUpper = CUBLAS_FILL_MODE_UPPER;
    QUARRY_CUDA_CALL(cublasDtrsm_64(blas_, kLeft, kUpper, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, n, n, &one, a.data, a.distance,
                                    b.data, b.distance));
  }

 private:
  static dim3 extent(Extents blocks) { return {static_cast<unsigned>(blocks.x), static_cast<unsigned>(blocks.y)}; }
  static cublasOperation_t named(MatrixOp op) { return op == MatrixOp::none ? CUBLAS_OP_N : CUBLAS_OP_T; }

  cublasHandle_t blas_;
  cudaStream_t stream_;
};

}  // namespace
}  // namespace quarry::local::cuda
