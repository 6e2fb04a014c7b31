// Every vendor call of local/cuda goes through one of these: the exception names the call and gives the library's
// message.
#pragma once

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cufft.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusparse.h>
#include <nvrtc.h>

namespace quarry::local::cuda {

[[noreturn]] void fail(cudaError_t status, const char* call);  // OutOfMemory or DeviceError
[[noreturn]] void fail(CUresult status, const char* call);
[[noreturn]] void fail(cublasStatus_t status, const char* call);
[[noreturn]] void fail(cusolverStatus_t status, const char* call);
[[noreturn]] void fail(cusparseStatus_t status, const char* call);
[[noreturn]] void fail(cufftResult status, const char* call);
[[noreturn]] void fail(curandStatus_t status, const char* call);
[[noreturn]] void fail(nvrtcResult status, const char* call);

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) fail(status, call);
}
inline void check(CUresult status, const char* call) {
  if (status != CUDA_SUCCESS) fail(status, call);
}
inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(status, call);
}
inline void check(cusolverStatus_t status, const char* call) {
  if (status != CUSOLVER_STATUS_SUCCESS) fail(status, call);
}
inline void check(cusparseStatus_t status, const char* call) {
  if (status != CUSPARSE_STATUS_SUCCESS) fail(status, call);
}
inline void check(cufftResult status, const char* call) {
  if (status != CUFFT_SUCCESS) fail(status, call);
}
inline void check(curandStatus_t status, const char* call) {
  if (status != CURAND_STATUS_SUCCESS) fail(status, call);
}
inline void check(nvrtcResult status, const char* call) {
  if (status != NVRTC_SUCCESS) fail(status, call);
}

}  // namespace quarry::local::cuda

// QUARRY_CUDA_CALL(cudaEventRecord(event, stream)): the call's text up to its arguments goes into the message.
#define QUARRY_CUDA_CALL(call) ::quarry::local::cuda::check((call), #call)
