#include "quarry/local/memory/adaptors.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"

namespace quarry::local {

void* StatisticsResource::allocate(int64_t bytes, DeviceStream* stream) {
  void* data = behind_.allocate(bytes, stream);
  const int64_t rounded = rounded_allocation(bytes);
  const int64_t now = used_.fetch_add(rounded) + rounded;
  int64_t peak = peak_.load();
  while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
  }
  ++allocations_;
  total_ += rounded;
  return data;
}

void StatisticsResource::deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept {
  behind_.deallocate(data, bytes, stream);
  used_ -= rounded_allocation(bytes);
  ++deallocations_;
}

void* LimitResource::allocate(int64_t bytes, DeviceStream* stream) {
  const int64_t rounded = rounded_allocation(bytes);
  {
    const std::lock_guard lock(mutex_);
    if (rounded > limit_ - used_) {
      throw OutOfMemory(fmt::format("{} memory limit: {} bytes do not fit: {} of {} are in use", to_string(device()),
                                    bytes, used_, limit_));
    }
    used_ += rounded;
  }
  try {
    void* data = behind_.allocate(bytes, stream);
    const std::lock_guard lock(mutex_);
    peak_ = std::max(peak_, used_);
    return data;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    used_ -= rounded;
    throw;
  }
}

void LimitResource::deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept {
  behind_.deallocate(data, bytes, stream);
  const std::lock_guard lock(mutex_);
  used_ -= rounded_allocation(bytes);
}

int64_t LimitResource::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

int64_t LimitResource::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void* FaultResource::allocate(int64_t bytes, DeviceStream* stream) {
  if (++allocations_ == fail_at_) {
    throw OutOfMemory(fmt::format("{} memory: injected failure of allocation {} ({} bytes): {} of {} are in use",
                                  to_string(device()), fail_at_, bytes, behind_.used_bytes(),
                                  behind_.acquired_bytes()));
  }
  return behind_.allocate(bytes, stream);
}

}  // namespace quarry::local
