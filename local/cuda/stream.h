// Streams and events of a GPU, with the library handles that belong to a stream.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <cusparse.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

#include "quarry/local/device/device.h"
#include "quarry/local/device/unique_handle.h"

namespace quarry::local::cuda {

// Makes `index` the calling thread's current device; nothing but a thread-local read where it is already.
void use_device(int index);

struct Destroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
  void operator()(cusolverDnHandle_t handle) const { cusolverDnDestroy(handle); }
  void operator()(cusparseHandle_t handle) const { cusparseDestroy(handle); }
};
template <class T>
using Handle = unique_handle<T, Destroy>;

class CudaEvent final : public DeviceEvent {
 public:
  enum class Timing : uint8_t { off, on };  // a timer costs a little more to record
  CudaEvent(int index, Timing timing);
  bool done() override;
  void synchronize() override;
  double seconds_since(DeviceEvent& earlier) override;
  cudaEvent_t native() const { return event_.get(); }

 private:
  const int index_;
  Handle<cudaEvent_t> event_;
};

class CudaStream final : public DeviceStream {
 public:
  CudaStream(int index, StreamRole role);
  CudaStream(int index, int priority);
  // A stream of someone else, who destroys it later than this object.
  CudaStream(int index, cudaStream_t foreign);
  ~CudaStream() override;
  Device device() const override { return {DeviceKind::cuda, index_}; }
  void copy(void* to, const void* from, int64_t bytes) override;
  void copy_to_peer(void* to, Device target, const void* from, int64_t bytes) override;
  void fill(void* to, uint8_t value, int64_t bytes) override;
  void record(DeviceEvent& event) override;
  void wait(DeviceEvent& event) override;
  void host_callback(std::function<void()> function) override;
  void synchronize() override;
  void* native() const override { return stream_.get(); }
  void begin_capture() override;
  std::unique_ptr<DeviceGraph> end_capture() override;

  // 8 bytes of pinned memory that kernels of this stream reach; one operation uses them at a time, and waits for its
  // end.
  uint64_t* host_word();
  // 8 bytes to the host, through host_word(). Blocks until what was queued before is done.
  uint64_t read_word(const void* from);

  cudaStream_t handle() {
    used_ = true;
    return stream_.get();
  }
  // This stream's library handles, made at first use. A BLAS call needs begin_blas() (matrix.h) first.
  cublasHandle_t blas();
  cusolverDnHandle_t solver();
  cusparseHandle_t sparse();

 private:
  struct Callback {
    CudaStream* stream;
    std::function<void()> function;
  };
  static void run_callback(void* callback);
  void rethrow();

  struct FreePinned {
    void operator()(void* data) const noexcept { cudaFreeHost(data); }
  };

  const int index_;
  const bool foreign_ = false;
  std::atomic<bool> used_ = false;  // has queued work of its own, not only waits and events
  Handle<cudaStream_t> stream_;
  std::unique_ptr<uint64_t, FreePinned> word_;
  Handle<cublasHandle_t> blas_;
  Handle<cusolverDnHandle_t> solver_;
  Handle<cusparseHandle_t> sparse_;
  std::mutex mutex_;
  std::exception_ptr callback_error_;  // first exception of a callback, thrown by synchronize()
};

// The context's stream as one of ours; throws InvalidArgument for another device kind's.
CudaStream& cuda_stream(DeviceStream* stream);

}  // namespace quarry::local::cuda
