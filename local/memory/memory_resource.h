// Memory: resources that compose as stacked adaptors, the budget with its reservations, and reference-counted buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/use_order.h"

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

class Buffer;
enum class Access : uint8_t { read, write };  // what reads and writes is a write

// Is told what captured work uses, whose order is that of the graph's launches.
class CaptureLog {
 public:
  virtual ~CaptureLog() = default;
  virtual void used(Buffer& buffer, Access access) = 0;
  virtual void made(Buffer& buffer) = 0;
};

// A reference-counted allocation on one device. An adopted one calls `release` instead of a resource.
//
// A buffer orders the streams that it is used on (use_order.h): a change of stream does not block the host, and the
// memory is given back in the order of the last uses. Streams need not live as long.
class Buffer : public std::enable_shared_from_this<Buffer> {
 public:
  // Throws OutOfMemory. `stream` is where the first work with the memory is queued, or earlier work was; null: idle.
  Buffer(int64_t bytes, MemoryResource& memory, DeviceStream* stream);
  // `release` is called when work queued on the buffer is done, for which the destructor blocks; with a `producer`,
  // whose stream the memory came from and goes back to, it is called at once, and the producer's stream waits.
  Buffer(void* data, int64_t bytes, Device device, std::function<void()> release, DeviceStream* stream = nullptr,
         std::shared_ptr<DeviceStream> producer = nullptr);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  const MemoryResource* memory() const { return memory_; }  // null: adopted
  // Nobody may write to it, through any array.
  bool read_only() const { return read_only_; }
  void set_read_only() { read_only_ = true; }
  // Before work with the buffer is queued on `stream`: makes it wait for other streams' work that has to come first.
  // No-op on the CPU. Thread-safe. Throws InvalidArgument for a stream of another device.
  void use(DeviceStream* stream, Access access) {
    if (device_.kind == DeviceKind::cpu || stream == nullptr || order_.only_on(*stream)) return;
    use_on(*stream, access);
  }
  // Makes the stream, which may be someone else's, wait for all work queued on the buffer.
  void order_before(DeviceStream& stream) { order_.order_before(stream); }
  // Blocks until that is done. Throws what failed there.
  void synchronize() { order_.synchronize(); }

 private:
  void use_on(DeviceStream& stream, Access access);
  void* data_;
  int64_t bytes_;
  Device device_;
  bool read_only_ = false;
  MemoryResource* memory_ = nullptr;
  UseOrder order_;
  std::function<void()> release_;
  std::shared_ptr<DeviceStream> producer_;
};

}  // namespace quarry::local
