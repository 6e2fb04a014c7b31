#include <fmt/format.h>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {
namespace {

// The stream whose order holds for the buffer: on the CPU work is done when it is called, the uses of a graph's memory
// are those of its launches, and a trial is to hear of every use.
DeviceStream* ordering(Device device, DeviceStream* stream) {
  if (device.kind == DeviceKind::cpu || (stream != nullptr && stream->capture_log() != nullptr)) return nullptr;
  return device.kind == DeviceKind::trial ? nullptr : stream;
}

// A trial knows values that came from the host until their memory is written to: nobody knows what a kernel writes.
void overwritten(void* data, int64_t bytes, DeviceStream* stream) {
  if (stream != nullptr) stream->fill(data, 0, bytes);
}

}  // namespace

Buffer::Buffer(int64_t bytes, MemoryResource& memory, DeviceStream* stream)
    : data_(memory.allocate(bytes, stream)),
      bytes_(bytes),
      device_(memory.device()),
      memory_(&memory),
      order_(ordering(device_, stream)) {
  if (CaptureLog* log = stream != nullptr ? stream->capture_log() : nullptr) log->made(*this);
  if (device_.kind == DeviceKind::trial) overwritten(data_, bytes_, stream);
}

Buffer::Buffer(void* data, int64_t bytes, Device device, std::function<void()> release, DeviceStream* stream,
               std::shared_ptr<DeviceStream> producer)
    : data_(data),
      bytes_(bytes),
      device_(device),
      order_(ordering(device_, stream)),
      release_(std::move(release)),
      producer_(std::move(producer)) {}

Buffer::~Buffer() {
  if (memory_ != nullptr) {
    const StreamPin last = device_.kind == DeviceKind::cpu ? StreamPin() : order_.last();
    memory_->deallocate(data_, bytes_, last.get());
    return;
  }
  if (!release_) return;
  try {
    if (producer_)
      order_.order_before(*producer_);
    else
      order_.synchronize();
  } catch (...) {  // the failure of work whose result nobody holds
  }
  release_();
}

void Buffer::use_on(DeviceStream& stream, Access access) {
  if (stream.device() != device_) {
    throw InvalidArgument(
        fmt::format("a stream of {} cannot work on memory of {}", to_string(stream.device()), to_string(device_)));
  }
  if (device_.kind == DeviceKind::trial) {
    if (access == Access::write) overwritten(data_, bytes_, &stream);
    return;
  }
  if (CaptureLog* log = stream.capture_log()) return log->used(*this, access);
  access == Access::read ? order_.read(stream) : order_.write(stream);
}

}  // namespace quarry::local
