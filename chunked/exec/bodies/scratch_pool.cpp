#include "quarry/chunked/exec/bodies/scratch_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "quarry/local/base/error.h"

namespace quarry::exec {

using local::rounded_allocation;

ScratchPool::ScratchPool(const local::ExecContext& context, int64_t bytes)
    : context_(context), bytes_(bytes), places_(bytes) {
  if (bytes_ > 0) data_ = static_cast<char*>(context_.memory->allocate(bytes_, context_.stream));
}

ScratchPool::~ScratchPool() {
  if (data_ != nullptr) context_.memory->deallocate(data_, bytes_, context_.stream);
}

void* ScratchPool::allocate(int64_t bytes, local::DeviceStream* /*stream*/) {
  const int64_t wanted = rounded_allocation(bytes);
  const std::lock_guard lock(mutex_);
  const std::optional<int64_t> offset = places_.take(wanted);
  if (!offset) {
    throw local::OutOfMemory(fmt::format(
        "asked for {} bytes more while {} of the {} bytes that its task reserved are in use", bytes, used_, bytes_));
  }
  used_ += wanted;
  peak_ = std::max(peak_, used_);
  return data_ + *offset;
}

void ScratchPool::deallocate(void* data, int64_t bytes, local::DeviceStream* /*stream*/) noexcept {
  const std::lock_guard lock(mutex_);
  const int64_t size = rounded_allocation(bytes);
  used_ -= size;
  places_.give_back(static_cast<char*>(data) - data_, size);
}

}  // namespace quarry::exec
