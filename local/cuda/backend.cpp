#include "quarry/local/cuda/backend.h"

#include <cuda_profiler_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <atomic>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/engine.h"
#include "quarry/local/cuda/pinned.h"
#include "quarry/local/cuda/stream.h"

namespace quarry::local::cuda {
namespace {

constexpr int kMaxDevices = 64;

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// Free bytes of a device by NVML, which needs no context on it (one costs half a gigabyte); -1 where NVML cannot say.
int64_t nvml_free_bytes(const std::string& uuid) {
  struct Memory {  // nvmlMemory_t
    unsigned long long total, free, used;
  };
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return -1;
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto find = reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByUUID"));
  const auto info = reinterpret_cast<int (*)(void*, Memory*)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
  if (init == nullptr || find == nullptr || info == nullptr) return -1;
  static const bool ready = init() == 0;
  void* device = nullptr;
  Memory memory{};
  if (!ready || find(uuid.c_str(), &device) != 0 || info(device, &memory) != 0) return -1;
  return static_cast<int64_t>(memory.free);
}

class CudaBackend final : public Backend {
 public:
  DeviceKind kind() const override { return DeviceKind::cuda; }

  int device_count() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {  // no driver, an old driver, no device
      cudaGetLastError();
      return 0;
    }
    return std::min(count, kMaxDevices);
  }

  DeviceInfo identity(int index) override {
    check_index(index);
    cudaDeviceProp properties;
    QUARRY_CUDA_CALL(cudaGetDeviceProperties(&properties, index));
    DeviceInfo info;
    info.name = properties.name;
    info.uuid = uuid_text(properties.uuid);
    info.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    return info;
  }

  DeviceInfo info(int index) override {
    DeviceInfo info = identity(index);
    info.free_bytes = in_use_[static_cast<size_t>(index)] ? -1 : nvml_free_bytes(info.uuid);
    if (info.free_bytes < 0) {
      begin_use(index);
      size_t free = 0, total = 0;
      QUARRY_CUDA_CALL(cudaMemGetInfo(&free, &total));
      info.free_bytes = static_cast<int64_t>(free);
      info.total_bytes = static_cast<int64_t>(total);
    }
    return info;
  }

  void open(int index) override { begin_use(index); }

  void* allocate_slab(int index, int64_t bytes) override {
    refuse_slab_in_capture(bytes);
    begin_use(index);
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(bytes));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      size_t free = 0, total = 0;
      if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = total = 0;
      throw OutOfMemory(
          fmt::format("cudaMalloc: {} bytes asked for on cuda:{}, {} of {} bytes free", bytes, index, free, total));
    }
    check(status, "cudaMalloc");
    return data;
  }

  void free_slab(int index, void* data, int64_t) noexcept override {
    if (data != nullptr && cudaSetDevice(index) == cudaSuccess) cudaFree(data);
  }

  void* allocate_pinned(int64_t bytes) override {
    refuse_slab_in_capture(bytes);
    // Pinned memory belongs to a context: that of the device this process already works on.
    begin_use(last_used_);
    return pinned_.allocate(bytes);
  }

  void free_pinned(void* data, int64_t) noexcept override { pinned_.free(data); }

  std::unique_ptr<DeviceStream> create_stream(int index, StreamRole role) override {
    begin_use(index);
    return std::make_unique<CudaStream>(index, role);
  }

  std::unique_ptr<DeviceStream> create_stream_of_priority(int index, int priority) override {
    begin_use(index);
    return std::make_unique<CudaStream>(index, priority);
  }

  std::unique_ptr<DeviceStream> wrap_stream(int index, void* native) override {
    begin_use(index);
    const auto stream = static_cast<cudaStream_t>(native);
#if CUDART_VERSION >= 12080
    // The default streams are of whatever device is current.
    if (stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread) {
      int owner = -1;
      QUARRY_CUDA_CALL(cudaStreamGetDevice(stream, &owner));
      if (owner != index)
        throw InvalidArgument(fmt::format("the stream is one of cuda:{}, not of cuda:{}", owner, index));
    }
#endif
    return std::make_unique<CudaStream>(index, stream);
  }

  std::pair<int, int> stream_priorities(int index) override {
    begin_use(index);
    int least = 0, greatest = 0;
    QUARRY_CUDA_CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    return {least, greatest};
  }

  std::unique_ptr<DeviceEvent> create_event(int index) override {
    begin_use(index);
    return std::make_unique<CudaEvent>(index, CudaEvent::Timing::off);
  }

  std::unique_ptr<DeviceEvent> create_timer(int index) override {
    begin_use(index);
    return std::make_unique<CudaEvent>(index, CudaEvent::Timing::on);
  }

  void push_range(const char* name) override { nvtxRangePushA(name); }
  void pop_range() override { nvtxRangePop(); }
  void start_profiler() override { QUARRY_CUDA_CALL(cudaProfilerStart()); }
  void stop_profiler() override { QUARRY_CUDA_CALL(cudaProfilerStop()); }

  Engine& engine() override { return cuda_engine(); }

 private:
  void check_index(int index) {
    const int count = device_count();
    if (count == 0) throw DeviceError("no CUDA device can be used here (cudaGetDeviceCount finds none)");
    if (index < 0 || index >= count)
      throw InvalidArgument(fmt::format("no device cuda:{}: this process sees {}", index, count));
  }

  void begin_use(int index) {
    if (index < 0 || index >= kMaxDevices || !in_use_[static_cast<size_t>(index)]) check_index(index);
    use_device(index);
    in_use_[static_cast<size_t>(index)] = true;
    last_used_ = index;
  }

  std::array<std::atomic<bool>, kMaxDevices> in_use_{};  // has a context of this process
  std::atomic<int> last_used_ = 0;
  PinnedMemory pinned_;
};

}  // namespace
}  // namespace quarry::local::cuda

// Never destroyed: streams and pools with static lifetime may outlive any order of destruction we could choose, and the
// driver is torn down before them.
extern "C" quarry::local::Backend* quarry_cuda_backend() {
  static auto* const backend = new quarry::local::cuda::CudaBackend();
  return backend;
}
