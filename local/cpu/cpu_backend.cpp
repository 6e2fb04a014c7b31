#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/cpu_backend.h"
#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/program/engine.h"

namespace quarry::local {
namespace {

// Everything queued here has been done when the call returns, so an event is always done.
class CpuEvent final : public DeviceEvent {
 public:
  bool done() override { return true; }
  void synchronize() override {}
  double seconds_since(DeviceEvent& earlier) override {
    const auto* begin = dynamic_cast<CpuEvent*>(&earlier);
    if (!begin || !begin->time_ || !time_) throw InvalidArgument("cpu: a time needs two events that were recorded");
    return std::chrono::duration<double>(*time_ - *begin->time_).count();
  }
  void reach() { time_ = std::chrono::steady_clock::now(); }

 private:
  std::optional<std::chrono::steady_clock::time_point> time_;
};

class CpuStream final : public DeviceStream {
 public:
  ~CpuStream() override { retire(); }
  Device device() const override { return kCpu; }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
  }
  void copy_to_peer(void* to, Device, const void* from, int64_t bytes) override { copy(to, from, bytes); }
  void fill(void* to, uint8_t value, int64_t bytes) override {
    if (bytes > 0) std::memset(to, value, static_cast<size_t>(bytes));
  }
  void record(DeviceEvent& event) override {
    if (auto* own = dynamic_cast<CpuEvent*>(&event)) own->reach();
  }
  void wait(DeviceEvent& event) override { event.synchronize(); }
  void host_callback(std::function<void()> function) override { function(); }
  void synchronize() override {}
};

int64_t physical_bytes() { return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

int64_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    meminfo.ignore(256, '\n');
  }
  return physical_bytes();
}

class CpuBackend final : public Backend {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  int device_count() override { return 1; }
  DeviceInfo info(int) override { return {"cpu", physical_bytes(), available_bytes(), ""}; }
  void* allocate_slab(int, int64_t bytes) override {
    void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
      throw OutOfMemory(fmt::format("cpu: no address space for {} bytes: {}", bytes, std::strerror(errno)));
    return data;
  }
  void free_slab(int, void* data, int64_t bytes) noexcept override { munmap(data, static_cast<size_t>(bytes)); }
  void* allocate_pinned(int64_t bytes) override { return allocate_slab(0, bytes); }
  void free_pinned(void* data, int64_t bytes) noexcept override { free_slab(0, data, bytes); }
  std::unique_ptr<DeviceStream> create_stream(int, StreamRole) override { return std::make_unique<CpuStream>(); }
  std::unique_ptr<DeviceEvent> create_event(int) override { return std::make_unique<CpuEvent>(); }
  std::unique_ptr<DeviceEvent> create_timer(int index) override { return create_event(index); }
  Engine& engine() override { return cpu_engine(); }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend& instance = *new CpuBackend;  // never destroyed: buffers may outlive static objects
  return instance;
}

}  // namespace quarry::local
