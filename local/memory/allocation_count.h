// What a piece of work takes from pools.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "quarry/local/memory/first_fit.h"
#include "quarry/local/memory/hook.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {

// Counts, during its lifetime, what the calling thread takes from the pools of some devices, as it asked for it.
class AllocationCount final : public MemoryHook {
 public:
  // `also_cpu`: the CPU's pools too, pinned memory among them.
  AllocationCount(Device device, bool also_cpu) : device_(device), also_cpu_(also_cpu), scope_(*this) {}
  int64_t used_bytes() const { return used_; }
  int64_t peak_bytes() const { return peak_; }
  int64_t allocations() const { return allocations_; }
  // The bytes of a piece of memory in which all of it has room, where each finds the lowest place (FirstFit): more than
  // peak_bytes() by what lies between pieces.
  int64_t extent_bytes() const { return extent_; }

  void after_allocate(const MemoryEvent& event) override {
    if (!counts(event)) return;
    ++allocations_;
    used_ += event.requested_bytes;
    peak_ = std::max(peak_, used_);
    const int64_t bytes = detail::rounded_allocation(event.requested_bytes);
    const int64_t offset = *line_.take(bytes);
    places_[event.data] = offset;
    extent_ = std::max(extent_, offset + bytes);
  }
  void before_free(const MemoryEvent& event) noexcept override {
    if (!counts(event)) return;
    used_ -= event.requested_bytes;
    const auto place = places_.find(event.data);
    if (place == places_.end()) return;  // taken before
    line_.give_back(place->second, detail::rounded_allocation(event.requested_bytes));
    places_.erase(place);
  }

 private:
  bool counts(const MemoryEvent& event) const { return event.device == device_ || (also_cpu_ && event.device == kCpu); }
  const Device device_;
  const bool also_cpu_;
  int64_t used_ = 0, peak_ = 0, allocations_ = 0, extent_ = 0;
  FirstFit line_;
  std::unordered_map<void*, int64_t> places_;
  const MemoryHookScope scope_;  // last: begins when all is there
};

}  // namespace quarry::local
