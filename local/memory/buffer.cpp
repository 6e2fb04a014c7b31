#include <fmt/format.h>

#include <map>

#include "local/base/error.h"
#include "local/memory/memory_resource.h"
#include "local/memory/slab_pool.h"

namespace quarry::local {

Buffer::Buffer(int64_t bytes, MemoryResource& memory, Stream* stream)
    : data_(memory.allocate(bytes, stream)),
      bytes_(bytes),
      device_(memory.device()),
      memory_(&memory),
      stream_(stream) {}

Buffer::Buffer(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Buffer::~Buffer() {
  if (memory_)
    memory_->deallocate(data_, bytes_, stream_);
  else if (release_)
    release_();
}

MemoryResource& default_pool(Device device) {
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

}  // namespace quarry::local
