// Memory: resources that compose as stacked adaptors, the budget with its reservations, and reference-counted buffers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "quarry/local/device/device.h"

namespace quarry::local {

inline constexpr int64_t kAllocationAlignment = 256;  // bytes, of every allocation
// What a request of that size takes from a pool or an arena: the next multiple of the alignment, at least one.
constexpr int64_t rounded_allocation(int64_t bytes) {
  return bytes <= 0 ? kAllocationAlignment
                    : (bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
}

// Stream-ordered: memory given back is reused only by work that runs after what was queued on `stream` before the call.
// Thread-safe. A null stream means that the memory is idle.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;
  virtual Device device() const = 0;
  // Never null: a 0-byte request gives a valid unique pointer. Throws OutOfMemory that names the request, the limit and
  // what is in use.
  virtual void* allocate(int64_t bytes, DeviceStream* stream) = 0;
  virtual void deallocate(void* data, int64_t bytes, DeviceStream* stream) noexcept = 0;
  virtual int64_t used_bytes() const = 0;      // handed out now
  virtual int64_t acquired_bytes() const = 0;  // taken from the device now
  virtual int64_t peak_bytes() const = 0;      // largest used_bytes() so far
  virtual void free_unused() {}                // gives unused slabs back to the device
};

// The growing pool of a device for programs without a Runtime; made at first use.
MemoryResource& default_pool(Device device);

// A reference-counted allocation on one device. An adopted one calls `release` instead of a resource.
//
// A buffer knows the streams that it was used on, so that work on one stream sees what another one wrote and the memory
// is given back only when all are done with it. Use on one stream costs nothing; a change of stream blocks the host.
class Buffer {
 public:
  // Throws OutOfMemory. `stream` is also the stream that the memory is given back on, unless set_stream() changes it.
  Buffer(int64_t bytes, MemoryResource& memory, DeviceStream* stream);
  Buffer(void* data, int64_t bytes, Device device, std::function<void()> release);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  // Before work with the buffer is queued on `stream`: waits for the other streams that used it. No-op for adopted
  // buffers and on the CPU. Thread-safe. Throws what failed there.
  void use(DeviceStream* stream);
  // From now on only this stream counts: the caller has made it wait for every earlier use.
  void set_stream(DeviceStream* stream);

 private:
  void* data_;
  int64_t bytes_;
  Device device_;
  MemoryResource* memory_ = nullptr;
  std::atomic<DeviceStream*> only_stream_{nullptr};  // the stream of all uses so far; null if there were several
  std::mutex mutex_;
  std::vector<DeviceStream*> streams_;  // of uses, if there were several
  std::function<void()> release_;
};

}  // namespace quarry::local
