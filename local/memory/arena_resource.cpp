#include "quarry/local/memory/arena_resource.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"

namespace quarry::local {

ArenaResource::ArenaResource(void* data, int64_t bytes, Device device)
    : data_(static_cast<char*>(data)), bytes_(bytes), device_(device) {
  QUARRY_CHECK(bytes >= 0 && (data || bytes == 0));
}

void* ArenaResource::allocate(int64_t bytes, DeviceStream*) {
  QUARRY_CHECK(bytes >= 0);
  if (bytes > bytes_ - used_ || (bytes == 0 && used_ == bytes_)) {
    throw OutOfMemory(
        fmt::format("{} arena: {} bytes do not fit: {} of {} are in use", to_string(device_), bytes, used_, bytes_));
  }
  void* result = data_ + used_;
  used_ = std::min(used_ + rounded_allocation(bytes), bytes_);
  peak_ = std::max(peak_, used_);
  return result;
}

void ArenaResource::deallocate(void* data, int64_t bytes, DeviceStream*) noexcept {
  const int64_t offset = static_cast<char*>(data) - data_;
  if (std::min(offset + rounded_allocation(bytes), bytes_) == used_) used_ = offset;
}

}  // namespace quarry::local
