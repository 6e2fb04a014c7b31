// Reference-counted memory of arrays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/memory/use_order.h"

namespace quarry::local::detail {

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

}  // namespace quarry::local::detail
