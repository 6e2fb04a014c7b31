// Slabs shared between processes by CUDA IPC.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/backend.h"
#include "quarry/local/cuda/box_copies.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/stream.h"

namespace quarry::local::cuda {
namespace {

// Whether NVML says that the two devices are connected by NVLink; "" where it does not say.
std::string nvml_link(const std::string& first, const std::string& second) {
  constexpr int kNvlinkCapability = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto find = reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByUUID"));
  const auto status = reinterpret_cast<int (*)(void*, void*, int, int*)>(dlsym(library, "nvmlDeviceGetP2PStatus"));
  if (init == nullptr || find == nullptr || status == nullptr) return "";
  static const bool ready = init() == 0;
  void* devices[2] = {};
  int result = -1;
  if (!ready || find(first.c_str(), &devices[0]) != 0 || find(second.c_str(), &devices[1]) != 0) return "";
  if (status(devices[0], devices[1], kNvlinkCapability, &result) != 0) return "";
  return result == 0 ? "NVLink" : "PCIe";
}

class CudaSharing final : public MemorySharing {
 public:
  std::string export_slab(int index, void* slab, int64_t /*bytes*/) override {
    use_device(index);
    cudaIpcMemHandle_t handle;
    QUARRY_CUDA_CALL(cudaIpcGetMemHandle(&handle, slab));
    return {reinterpret_cast<const char*>(&handle), sizeof handle};
  }

  void* open(int index, const std::string& text) override {
    cudaIpcMemHandle_t handle;
    if (text.size() != sizeof handle) throw DeviceError("CUDA IPC: not the handle of a slab");
    std::memcpy(&handle, text.data(), sizeof handle);
    use_device(index);
    void* mapped = nullptr;
    const cudaError_t status = cudaIpcOpenMemHandle(&mapped, handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) cudaGetLastError();  // must not show up in a later call
    check(status, "cudaIpcOpenMemHandle");
    return mapped;
  }

  void close(int index, void* mapped) noexcept override {
    if (cudaSetDevice(index) == cudaSuccess) cudaIpcCloseMemHandle(mapped);
  }

  void copy_boxes(std::span<const BoxCopy> boxes, DeviceStream& stream, CopyBy by) override {
    CudaStream& queue = cuda_stream(&stream);
    use_device(queue.device().index);
    if (by == CopyBy::kernel) {
      copy_boxes_by_kernel(boxes, queue.handle());
    } else {
      for (const BoxCopy& box : boxes) copy_box_by_engines(box, queue.handle());
    }
  }

  std::string link(int index, const std::string& uuid) override {
    const std::string own = quarry_cuda_backend()->identity(index).uuid;
    if (own == uuid) return "the same GPU";
    const std::string link = nvml_link(own, uuid);
    return link.empty() ? "peer access" : link;
  }
};

}  // namespace
}  // namespace quarry::local::cuda

// Never destroyed, as the backend.
extern "C" quarry::local::MemorySharing* quarry_cuda_sharing() {
  static auto* const sharing = new quarry::local::cuda::CudaSharing();
  return sharing;
}
