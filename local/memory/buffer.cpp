#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {

Buffer::Buffer(int64_t bytes, MemoryResource& memory, DeviceStream* stream)
    : data_(memory.allocate(bytes, stream)),
      bytes_(bytes),
      device_(memory.device()),
      memory_(&memory),
      only_stream_(stream) {}

Buffer::Buffer(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Buffer::~Buffer() {
  DeviceStream* last = only_stream_;
  for (DeviceStream* stream : streams_) {
    try {
      if (stream != streams_.back()) stream->synchronize();
    } catch (...) {  // the memory is no longer used; the failure was that of work whose result nobody holds
    }
    last = stream;
  }
  if (memory_)
    memory_->deallocate(data_, bytes_, last);
  else if (release_)
    release_();
}

void Buffer::use(DeviceStream* stream) {
  if (!memory_ || device_.kind == DeviceKind::cpu || only_stream_.load() == stream) return;
  const std::lock_guard lock(mutex_);
  if (streams_.empty()) {
    if (DeviceStream* only = only_stream_.exchange(nullptr)) {
      streams_.push_back(only);
    } else {
      only_stream_ = stream;
      return;
    }
  }
  bool known = false;
  for (DeviceStream* other : streams_) {
    if (other == stream)
      known = true;
    else
      other->synchronize();
  }
  if (!known) streams_.push_back(stream);
}

void Buffer::set_stream(DeviceStream* stream) {
  const std::lock_guard lock(mutex_);
  streams_.clear();
  only_stream_ = stream;
}

}  // namespace quarry::local
