#include "local/cuda/check.h"

#include <fmt/format.h>

#include <string_view>

#include "local/base/error.h"
#include "local/cuda/driver.h"

namespace quarry::local::cuda {
namespace {

// "cudaEventRecord(event, stream)" -> "cudaEventRecord"; arguments say nothing to a reader of the message.
std::string_view function_name(std::string_view call) { return call.substr(0, call.find('(')); }

}  // namespace

void fail(cudaError_t status, const char* call) {
  cudaGetLastError();  // a non-sticky error must not show up again in a later, innocent call
  const std::string message =
      fmt::format("{}: {} ({})", function_name(call), cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail(CUresult status, const char* call) {
  const char* text = nullptr;
  if (driver().get_error_string(status, &text) != CUDA_SUCCESS || text == nullptr) text = "unknown error";
  const std::string message = fmt::format("{}: {} ({})", function_name(call), text, static_cast<int>(status));
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

void fail(nvrtcResult status, const char* call) {
  throw DeviceError(fmt::format("{}: {}", function_name(call), nvrtcGetErrorString(status)));
}

}  // namespace quarry::local::cuda
