// What a piece of work takes from pools.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quarry/local/memory/hook.h"

namespace quarry::local {

// Counts, during its lifetime, what the calling thread takes from the pools of some devices, as it asked for it.
class AllocationCount final : public MemoryHook {
 public:
  // `also_cpu`: the CPU's pools too, pinned memory among them.
  AllocationCount(Device device, bool also_cpu) : device_(device), also_cpu_(also_cpu), scope_(*this) {}
  int64_t used_bytes() const { return used_; }
  int64_t peak_bytes() const { return peak_; }
  int64_t allocations() const { return allocations_; }

  void after_allocate(const MemoryEvent& event) override {
    if (!counts(event)) return;
    ++allocations_;
    used_ += event.requested_bytes;
    peak_ = std::max(peak_, used_);
  }
  void before_free(const MemoryEvent& event) noexcept override {
    if (counts(event)) used_ -= event.requested_bytes;
  }

 private:
  bool counts(const MemoryEvent& event) const { return event.device == device_ || (also_cpu_ && event.device == kCpu); }
  const Device device_;
  const bool also_cpu_;
  int64_t used_ = 0, peak_ = 0, allocations_ = 0;
  const MemoryHookScope scope_;  // last: begins when all is there
};

}  // namespace quarry::local
