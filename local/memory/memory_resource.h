// Memory: resources that compose as stacked adaptors.
#pragma once

#include <cstdint>

#include "quarry/local/device/kind.h"

namespace quarry::local {
namespace detail {

class DeviceStream;  // local/device/device.h

inline constexpr int64_t kAllocationAlignment = 256;  // bytes, of every allocation
// What a request of that size takes from a pool or an arena: the next multiple of the alignment, at least one.
constexpr int64_t rounded_allocation(int64_t bytes) {
  return bytes <= 0 ? kAllocationAlignment
                    : (bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
}

}  // namespace detail

// Stream-ordered: memory given back is reused only by work that runs after what was queued on `stream` before the call.
// Thread-safe. A null stream means that the memory is idle.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;
  virtual Device device() const = 0;
  // Never null: a 0-byte request gives a valid unique pointer. Throws OutOfMemory that names the request, the limit and
  // what is in use.
  virtual void* allocate(int64_t bytes, detail::DeviceStream* stream) = 0;
  virtual void deallocate(void* data, int64_t bytes, detail::DeviceStream* stream) noexcept = 0;
  virtual int64_t used_bytes() const = 0;      // handed out now
  virtual int64_t acquired_bytes() const = 0;  // taken from the device now
  virtual int64_t peak_bytes() const = 0;      // largest used_bytes() so far
  virtual void free_unused() {}                // gives unused slabs back to the device
};

// The growing pool of a device for programs without a Runtime; made at first use.
MemoryResource& default_pool(Device device);

}  // namespace quarry::local
