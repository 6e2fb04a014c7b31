#include "quarry/local/cuda/check.h"

#include <fmt/format.h>

#include <string_view>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/driver.h"

namespace quarry::local::cuda {
namespace {

// "cudaEventRecord(event, stream)" -> "cudaEventRecord"; arguments say nothing to a reader of the message.
std::string_view function_name(std::string_view call) { return call.substr(0, call.find('(')); }

// For libraries that have no texts of their own.
template <class Status>
struct StatusText {
  Status status;
  const char* text;
};
constexpr StatusText<cufftResult> kFftTexts[] = {{CUFFT_INVALID_PLAN, "invalid plan"},
                                                 {CUFFT_ALLOC_FAILED, "no memory"},
                                                 {CUFFT_INVALID_TYPE, "invalid type"},
                                                 {CUFFT_INVALID_VALUE, "invalid value"},
                                                 {CUFFT_INTERNAL_ERROR, "internal error"},
                                                 {CUFFT_EXEC_FAILED, "execution failed"},
                                                 {CUFFT_SETUP_FAILED, "the library failed to initialise"},
                                                 {CUFFT_INVALID_SIZE, "invalid size"},
                                                 {CUFFT_UNALIGNED_DATA, "unaligned data"},
                                                 {CUFFT_INVALID_DEVICE, "invalid device"},
                                                 {CUFFT_NO_WORKSPACE, "no workspace"},
                                                 {CUFFT_NOT_IMPLEMENTED, "not implemented"},
                                                 {CUFFT_NOT_SUPPORTED, "not supported"}};
constexpr StatusText<curandStatus_t> kRandomTexts[] = {
    {CURAND_STATUS_VERSION_MISMATCH, "header and library differ in version"},
    {CURAND_STATUS_NOT_INITIALIZED, "generator not initialised"},
    {CURAND_STATUS_ALLOCATION_FAILED, "no memory"},
    {CURAND_STATUS_TYPE_ERROR, "generator of the wrong type"},
    {CURAND_STATUS_OUT_OF_RANGE, "argument out of range"},
    {CURAND_STATUS_LENGTH_NOT_MULTIPLE, "length is no multiple of the dimensions"},
    {CURAND_STATUS_DOUBLE_PRECISION_REQUIRED, "the device has no double precision"},
    {CURAND_STATUS_LAUNCH_FAILURE, "kernel launch failed"},
    {CURAND_STATUS_PREEXISTING_FAILURE, "an earlier failure"},
    {CURAND_STATUS_INITIALIZATION_FAILED, "CUDA failed to initialise"},
    {CURAND_STATUS_ARCH_MISMATCH, "the device lacks a feature"},
    {CURAND_STATUS_INTERNAL_ERROR, "internal error"}};

template <class Status, size_t N>
[[noreturn]] void fail_by_table(const StatusText<Status> (&table)[N], Status status, Status no_memory,
                                const char* call) {
  const char* text = "error";
  for (const StatusText<Status>& row : table)
    if (row.status == status) text = row.text;
  const std::string message = fmt::format("{}: {} ({})", function_name(call), text, static_cast<int>(status));
  if (status == no_memory) throw OutOfMemory(message);
  throw DeviceError(message);
}

// What a call says of streams, memory and kernels that went with their context. The numbers are those of CUresult too.
const char* reset_hint(int status) {
  const bool stale = status == cudaErrorContextIsDestroyed || status == cudaErrorInvalidResourceHandle ||
                     status == cudaErrorDeviceUninitialized;
  return stale ? "; after a reset of the device (cudaDeviceReset) its arrays, streams and kernels are lost" : "";
}

}  // namespace

void fail(cudaError_t status, const char* call) {
  cudaGetLastError();  // a non-sticky error must not show up again in a later, innocent call
  const std::string message = fmt::format("{}: {} ({}){}", function_name(call), cudaGetErrorString(status),
                                          cudaGetErrorName(status), reset_hint(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail(CUresult status, const char* call) {
  const char* text = nullptr;
  if (driver().get_error_string(status, &text) != CUDA_SUCCESS || text == nullptr) text = "unknown error";
  const std::string message =
      fmt::format("{}: {} ({}){}", function_name(call), text, static_cast<int>(status), reset_hint(status));
  if (status == CUDA_ERROR_OUT_OF_MEMORY) throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail(cublasStatus_t status, const char* call) {
  const std::string message = fmt::format("{}: {}", function_name(call), cublasGetStatusString(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail(cusolverStatus_t status, const char* call) {
  const std::string message = fmt::format("{}: cuSOLVER status {}", function_name(call), static_cast<int>(status));
  if (status == CUSOLVER_STATUS_ALLOC_FAILED) throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail(cusparseStatus_t status, const char* call) {
  const std::string message = fmt::format("{}: {}", function_name(call), cusparseGetErrorString(status));
  if (status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES)
    throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail(cufftResult status, const char* call) { fail_by_table(kFftTexts, status, CUFFT_ALLOC_FAILED, call); }

void fail(curandStatus_t status, const char* call) {
  fail_by_table(kRandomTexts, status, CURAND_STATUS_ALLOCATION_FAILED, call);
}

void fail(nvrtcResult status, const char* call) {
  throw DeviceError(fmt::format("{}: {}", function_name(call), nvrtcGetErrorString(status)));
}

}  // namespace quarry::local::cuda
