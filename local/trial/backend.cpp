#include "quarry/local/trial/backend.h"

#include <fmt/format.h>

#include <atomic>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "quarry/local/base/error.h"
#include "quarry/local/device/range.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {
namespace {

// Addresses between those of programs (below 2^57) and those of the system's kernel.
constexpr uintptr_t kFirstAddress = uintptr_t{1} << 60;
constexpr uintptr_t kAddresses = uintptr_t{1} << 61;
bool is_of_trial(const void* data) { return reinterpret_cast<uintptr_t>(data) - kFirstAddress < kAddresses; }

// All of the past and the future is now.
class TrialEvent final : public DeviceEvent {
 public:
  bool done() override { return true; }
  void synchronize() override {}
  double seconds_since(DeviceEvent&) override { throw NotSupported("work that is only tried takes no time"); }
};

class TrialStream final : public DeviceStream {
 public:
  explicit TrialStream(int index) : index_(index) {}
  ~TrialStream() override { retire(); }
  Device device() const override { return {DeviceKind::trial, index_}; }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0 || !is_of_trial(from) || is_of_trial(to)) return;
    const std::string function = to_string(current_ranges());
    throw NeedsValue(fmt::format("{} reads values of an array: a trial has its shape and dtype alone",
                                 function.empty() ? "an element or a copy to the host" : function));
  }
  void copy_to_peer(void*, Device, const void*, int64_t) override {}
  void fill(void*, uint8_t, int64_t) override {}
  void record(DeviceEvent&) override {}
  void wait(DeviceEvent&) override {}
  void host_callback(std::function<void()> function) override { function(); }
  void synchronize() override {}

 private:
  const int index_;
};

class TrialBackend final : public Backend {
 public:
  DeviceKind kind() const override { return DeviceKind::trial; }
  int device_count() override { return static_cast<int>(DeviceKind::trial); }
  DeviceInfo info(int) override {
    constexpr int64_t kBytes = std::numeric_limits<int64_t>::max();
    return {"trial", kBytes, kBytes, {}};
  }
  void* allocate_slab(int, int64_t bytes) override {
    const auto size = static_cast<uintptr_t>(rounded_allocation(bytes));
    if (size > kAddresses / 2) throw OutOfMemory(fmt::format("trial: {} bytes are beyond all addresses", bytes));
    // What wraps around meets addresses of so long ago that nobody has them any more.
    uintptr_t place = next_.load();
    for (;;) {
      const uintptr_t first = place + size > kAddresses ? 0 : place;
      if (next_.compare_exchange_weak(place, first + size)) return reinterpret_cast<void*>(kFirstAddress + first);
    }
  }
  void free_slab(int, void*, int64_t) noexcept override {}
  void* allocate_pinned(int64_t bytes) override {
    return ::operator new(static_cast<size_t>(bytes), std::align_val_t(kAllocationAlignment));
  }
  void free_pinned(void* data, int64_t) noexcept override {
    ::operator delete(data, std::align_val_t(kAllocationAlignment));
  }
  std::unique_ptr<DeviceStream> create_stream(int index, StreamRole) override {
    return std::make_unique<TrialStream>(index);
  }
  std::unique_ptr<DeviceEvent> create_event(int) override { return std::make_unique<TrialEvent>(); }
  std::unique_ptr<DeviceEvent> create_timer(int) override { return std::make_unique<TrialEvent>(); }
  Engine& engine() override { throw InternalError("trial: every device has an engine of its own"); }

 private:
  std::atomic<uintptr_t> next_ = 0;
};

}  // namespace

Backend& trial_backend() {
  static TrialBackend& instance = *new TrialBackend;  // never destroyed: as cpu_backend()
  return instance;
}

}  // namespace quarry::local
