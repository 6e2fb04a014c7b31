#include "quarry/local/memory/pools.h"

#include <fmt/format.h>

#include <map>

#include "quarry/local/base/error.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/policy.h"

namespace quarry::local {

SlabPool& default_memory_pool(Device device) {
  static std::mutex& mutex = *new std::mutex;
  // Never destroyed: arrays may live in static objects.
  static auto& pools = *new std::map<std::pair<DeviceKind, int>, std::unique_ptr<SlabPool>>;
  const std::lock_guard lock(mutex);
  auto& pool = pools[{device.kind, device.index}];
  if (!pool) {
    Backend& owner = backend(device.kind);
    if (device.index < 0 || device.index >= owner.device_count()) {
      throw DeviceError(fmt::format("there is no device {}: {} {} present", to_string(device), owner.device_count(),
                                    owner.device_count() == 1 ? "is" : "are"));
    }
    pool = SlabPool::growing(device);
  }
  return *pool;
}

MemoryResource& default_pool(Device device) { return default_memory_pool(device); }

SlabPool& default_pinned_pool(DeviceKind kind) {
  static std::mutex& mutex = *new std::mutex;
  static auto& pools = *new std::map<DeviceKind, std::unique_ptr<SlabPool>>;  // as those of devices
  const std::lock_guard lock(mutex);
  auto& pool = pools[kind];
  if (!pool) pool = SlabPool::pinned(kind, SlabPool::kNoLimit, memory_policy::kPinnedSlabBytes);
  return *pool;
}

}  // namespace quarry::local
