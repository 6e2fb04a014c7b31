#include "quarry/local/trial/backend.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
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

// What came from the host, so that a function reads its own constants: widths, positions, quantiles. Thread-safe.
class KnownValues {
 public:
  void set(const void* to, const void* from, int64_t bytes) {
    constexpr int64_t kMost = int64_t{64} << 10;
    const std::lock_guard lock(mutex_);
    forget_locked(to, bytes);
    if (bytes <= kMost) values_.emplace(number(to), std::string(static_cast<const char*>(from), size_t(bytes)));
  }
  void forget(const void* data, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    forget_locked(data, bytes);
  }
  std::optional<std::string> at(const void* data, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto found = values_.upper_bound(number(data));
    if (found == values_.begin()) return std::nullopt;
    --found;
    const uintptr_t offset = number(data) - found->first;
    if (offset + static_cast<uintptr_t>(bytes) > found->second.size()) return std::nullopt;
    return found->second.substr(offset, static_cast<size_t>(bytes));
  }

 private:
  static uintptr_t number(const void* data) { return reinterpret_cast<uintptr_t>(data); }
  void forget_locked(const void* data, int64_t bytes) {
    if (values_.empty()) return;
    const uintptr_t end = number(data) + static_cast<uintptr_t>(bytes);
    for (auto last = values_.lower_bound(end); last != values_.begin();) {
      --last;
      if (last->first + last->second.size() <= number(data)) return;
      last = values_.erase(last);
    }
  }
  std::mutex mutex_;
  std::map<uintptr_t, std::string> values_;  // disjoint
};

// All of the past and the future is now.
class TrialEvent final : public DeviceEvent {
 public:
  bool done() override { return true; }
  void synchronize() override {}
  double seconds_since(DeviceEvent&) override { throw NotSupported("work that is only tried takes no time"); }
};

class TrialStream final : public DeviceStream {
 public:
  TrialStream(int index, KnownValues& known) : index_(index), known_(known) {}
  ~TrialStream() override { retire(); }
  Device device() const override { return {DeviceKind::trial, index_}; }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0) return;
    if (!is_of_trial(from)) return known_.set(to, from, bytes);
    if (const std::optional<std::string> values = known_.at(from, bytes)) {
      if (is_of_trial(to)) return known_.set(to, values->data(), bytes);
      std::memcpy(to, values->data(), values->size());
      return;
    }
    if (is_of_trial(to)) return known_.forget(to, bytes);
    const std::string function = to_string(current_ranges());
    throw NeedsValue(fmt::format("{} reads values of an array: a trial has its shape and dtype alone",
                                 function.empty() ? "an element or a copy to the host" : function));
  }
  void copy_to_peer(void* to, Device, const void* from, int64_t bytes) override { copy(to, from, bytes); }
  void fill(void* to, uint8_t, int64_t bytes) override { known_.forget(to, bytes); }
  void record(DeviceEvent&) override {}
  void wait(DeviceEvent&) override {}
  void host_callback(std::function<void()> function) override { function(); }
  void synchronize() override {}

 private:
  const int index_;
  KnownValues& known_;
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
    return std::make_unique<TrialStream>(index, known_);
  }
  std::unique_ptr<DeviceEvent> create_event(int) override { return std::make_unique<TrialEvent>(); }
  std::unique_ptr<DeviceEvent> create_timer(int) override { return std::make_unique<TrialEvent>(); }
  Engine& engine() override { throw InternalError("trial: every device has an engine of its own"); }

 private:
  std::atomic<uintptr_t> next_ = 0;
  KnownValues known_;
};

}  // namespace

Backend& trial_backend() {
  static TrialBackend& instance = *new TrialBackend;  // never destroyed: as cpu_backend()
  return instance;
}

}  // namespace quarry::local
