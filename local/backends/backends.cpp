#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <future>
#include <string>
#include <system_error>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/cpu_backend.h"
#include "quarry/local/device/sharing.h"
#include "quarry/local/device/stream_decoding.h"
#include "quarry/local/emulated/backend.h"
#include "quarry/local/emulated/sharing.h"
#include "quarry/local/emulated/stream_decoder.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/trial/backend.h"

namespace quarry::local {
namespace {

std::string own_directory() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&own_directory), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

// Why no GPU can be used, or nothing. Starts the driver, which takes 0.2 s where there is a GPU.
std::string why_no_gpu(void* driver) {
  const auto initialise = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (!initialise || !count) return "libcuda.so.1 is no NVIDIA driver";
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  int devices = 0;
  int error = initialise(0);
  if (error == 0) error = count(&devices);
  if (error != 0 && error != kNoDevice) return fmt::format("the NVIDIA driver cannot be used (error {})", error);
  return devices > 0 ? std::string() : "no CUDA device is present";
}

// Whether the driver's own list names a GPU. Where it has none, cuInit() decides.
bool lists_a_gpu() {
  std::error_code error;
  return !std::filesystem::is_empty("/proc/driver/nvidia/gpus", error) && !error;
}

// libquarry_cuda, with hundreds of megabytes of CUDA's libraries, or why not.
struct EngineLibrary {
  void* handle = nullptr;
  std::string reason;

  static EngineLibrary load() {
    std::string tried;
    for (const std::string& path : {own_directory() + "libquarry_cuda.so", std::string("libquarry_cuda.so")}) {
      if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, ""};
      const char* error = dlerror();
      if (tried.empty()) tried = error ? error : path;
    }
    return {nullptr, fmt::format("libquarry_cuda cannot be loaded: {}", tried)};
  }
};

// The outcome of the one attempt to load the library: a backend or why there is none.
struct CudaLibrary {
  Backend* backend = nullptr;
  MemorySharing* sharing = nullptr;
  StreamDecoder* decoder = nullptr;
  std::string reason;

  CudaLibrary() {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver) {
      reason = "there is no NVIDIA driver (libcuda.so.1 cannot be loaded)";
      return;
    }
    // Only where there is a GPU: then while the driver starts.
    constexpr auto kAtOnce = std::launch::async | std::launch::deferred;  // deferred where no thread can be started
    std::future<EngineLibrary> loading;
    if (lists_a_gpu()) loading = std::async(kAtOnce, &EngineLibrary::load);
    reason = why_no_gpu(driver);
    if (!reason.empty()) return;
    const EngineLibrary engine = loading.valid() ? loading.get() : EngineLibrary::load();
    reason = engine.reason;
    if (!engine.handle) return;
    using Factory = Backend* (*)();
    const auto factory = reinterpret_cast<Factory>(dlsym(engine.handle, "quarry_cuda_backend"));
    const auto sharing_factory = reinterpret_cast<MemorySharing* (*)()>(dlsym(engine.handle, "quarry_cuda_sharing"));
    const auto decoder_factory =
        reinterpret_cast<StreamDecoder* (*)()>(dlsym(engine.handle, "quarry_cuda_stream_decoder"));
    if (!factory || !sharing_factory || !decoder_factory) {
      reason = "libquarry_cuda lacks functions of this version: it is of another one";
      return;
    }
    try {
      Backend* made = factory();
      if (!made) {
        reason = "libquarry_cuda made no backend";
      } else if (made->device_count() <= 0) {
        reason = "no CUDA device is present";
      } else {
        backend = made;
        sharing = sharing_factory();
        decoder = decoder_factory();
      }
    } catch (const std::exception& error) {
      reason = error.what();
    }
  }
};

const CudaLibrary& cuda_library() {
  static const CudaLibrary library;
  if (!library.backend) throw DeviceError(fmt::format("device kind cuda cannot be used: {}", library.reason));
  return library;
}

}  // namespace

Backend& detail::backend(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return cpu_backend();
    case DeviceKind::cuda:
      return *cuda_library().backend;
    case DeviceKind::emulated:
      return emulated_backend();
    case DeviceKind::trial:
      return trial_backend();
  }
  throw InvalidArgument(fmt::format("{} is no device kind", static_cast<int>(kind)));
}

MemorySharing* memory_sharing(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return nullptr;
    case DeviceKind::cuda:
      return cuda_library().sharing;
    case DeviceKind::emulated:
      return &emulated_sharing();
    case DeviceKind::trial:
      return nullptr;
  }
  throw InvalidArgument(fmt::format("{} is no device kind", static_cast<int>(kind)));
}

StreamDecoder* stream_decoder(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
    case DeviceKind::trial:
      return nullptr;
    case DeviceKind::cuda:
      return cuda_library().decoder;
    case DeviceKind::emulated:
      return &emulated_stream_decoder();
  }
  throw InvalidArgument(fmt::format("{} is no device kind", static_cast<int>(kind)));
}

int device_count(DeviceKind kind) {
  try {
    return backend(kind).device_count();
  } catch (const std::exception&) {
    return 0;
  }
}

bool available(DeviceKind kind) { return device_count(kind) > 0; }

Engine& engine(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu:
    case DeviceKind::cuda:
    case DeviceKind::emulated:
      return backend(device.kind).engine();
    case DeviceKind::trial:
      return trial_engine(acts_as(device));
  }
  __builtin_unreachable();
}

}  // namespace quarry::local
