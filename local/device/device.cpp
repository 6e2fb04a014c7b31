#include "local/device/device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "local/base/error.h"
#include "local/device/backends.h"
#include "local/device/emulated_sharing.h"
#include "local/program/engine.h"

namespace quarry::local {
namespace {

constexpr std::array kKinds = {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::emulated};

std::string own_directory() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&own_directory), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

// The outcome of the one attempt to load the library: a backend or why there is none.
struct CudaLibrary {
  Backend* backend = nullptr;
  MemorySharing* sharing = nullptr;
  std::string reason;

  CudaLibrary() {
    void* library = nullptr;
    std::string tried;
    for (const std::string& path : {own_directory() + "libquarry_cuda.so", std::string("libquarry_cuda.so")}) {
      library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library) break;
      const char* error = dlerror();
      if (tried.empty()) tried = error ? error : path;
    }
    if (!library) {
      reason = fmt::format("libquarry_cuda cannot be loaded: {}", tried);
      return;
    }
    using Factory = Backend* (*)();
    const auto factory = reinterpret_cast<Factory>(dlsym(library, "quarry_cuda_backend"));
    const auto sharing_factory = reinterpret_cast<MemorySharing* (*)()>(dlsym(library, "quarry_cuda_sharing"));
    if (!factory || !sharing_factory) {
      reason = "libquarry_cuda has no quarry_cuda_backend or quarry_cuda_sharing: it is of another version";
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

Backend& cuda_backend() { return *cuda_library().backend; }
MemorySharing& cuda_sharing() { return *cuda_library().sharing; }

const char* name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::emulated:
      return "emulated";
  }
  return "unknown";
}

std::string to_string(const Device& device) {
  return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("{}:{}", name(device.kind), device.index);
}

std::optional<DeviceKind> parse_device_kind(std::string_view text) {
  for (DeviceKind kind : kKinds)
    if (text == name(kind)) return kind;
  return std::nullopt;
}

Backend& backend(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return cpu_backend();
    case DeviceKind::cuda:
      return cuda_backend();
    case DeviceKind::emulated:
      return emulated_backend();
  }
  throw InvalidArgument(fmt::format("{} is no device kind", static_cast<int>(kind)));
}

MemorySharing* memory_sharing(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return nullptr;
    case DeviceKind::cuda:
      return &cuda_sharing();
    case DeviceKind::emulated:
      return &emulated_sharing();
  }
  throw InvalidArgument(fmt::format("{} is no device kind", static_cast<int>(kind)));
}

bool available(DeviceKind kind) {
  try {
    return backend(kind).device_count() > 0;
  } catch (const std::exception&) {
    return false;
  }
}

Engine& engine(Device device) { return backend(device.kind).engine(); }

namespace {

struct LiveStreams {
  std::mutex mutex;
  std::unordered_map<uint64_t, Stream*> by_id;
  static LiveStreams& instance() {
    static LiveStreams& streams = *new LiveStreams;  // some streams live as long as the process
    return streams;
  }
};

uint64_t next_stream_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Stream::Stream() : id_(next_stream_id()) {
  LiveStreams& live = LiveStreams::instance();
  const std::lock_guard lock(live.mutex);
  live.by_id.emplace(id_, this);
}

void Stream::retire() noexcept {
  LiveStreams& live = LiveStreams::instance();
  const std::lock_guard lock(live.mutex);
  live.by_id.erase(id_);
}

bool Stream::with_live(uint64_t id, const std::function<void(Stream&)>& use) {
  LiveStreams& live = LiveStreams::instance();
  const std::lock_guard lock(live.mutex);
  const auto found = live.by_id.find(id);
  if (found == live.by_id.end()) return false;
  use(*found->second);
  return true;
}

}  // namespace quarry::local
