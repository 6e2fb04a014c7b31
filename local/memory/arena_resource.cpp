#include "local/memory/arena_resource.h"

#include <fmt/format.h>

#include <algorithm>

#include "local/base/error.h"

namespace quarry::local {

ArenaResource::ArenaResource(void* data, int64_t bytes, Device device)
    : data_(static_cast<char*>(data)), bytes_(bytes), device_(device) {
  QUARRY_CHECK(bytes >= 0 && (data || bytes == 0));
}

void* ArenaResource::allocate(int64_t bytes, Stream*) {
  QUARRY_CHECK(bytes >= 0);
  const int64_t rounded = rounded_allocation(bytes);
  if (rounded > bytes_ - used_) {
    throw OutOfMemory(
        fmt::format("{} arena: {} bytes do not fit: {} of {} are in use", to_string(device_), bytes, used_, bytes_));
  }
  void* result = data_ + used_;
  used_ += rounded;
  peak_ = std::max(peak_, used_);
  return result;
}

void ArenaResource::deallocate(void* data, int64_t bytes, Stream*) noexcept {
  const int64_t rounded = rounded_allocation(bytes);
  if (static_cast<char*>(data) + rounded == data_ + used_) used_ -= rounded;
}

}  // namespace quarry::local
