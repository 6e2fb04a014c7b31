#include "quarry/chunked/exec/bodies/scratch_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "quarry/local/base/error.h"

namespace quarry::exec {

using local::rounded_allocation;

ScratchPool::ScratchPool(const local::ExecContext& context, int64_t bytes) : context_(context), bytes_(bytes) {
  if (bytes_ == 0) return;
  data_ = static_cast<char*>(context_.memory->allocate(bytes_, context_.stream));
  free_.emplace(0, bytes_);
}

ScratchPool::~ScratchPool() {
  if (data_ != nullptr) context_.memory->deallocate(data_, bytes_, context_.stream);
}

void* ScratchPool::allocate(int64_t bytes, local::DeviceStream* /*stream*/) {
  const int64_t wanted = rounded_allocation(bytes);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(free_, [&](const auto& piece) { return piece.second >= wanted; });
  if (found == free_.end()) {
    throw local::OutOfMemory(fmt::format(
        "asked for {} bytes more while {} of the {} bytes that its task reserved are in use", bytes, used_, bytes_));
  }
  const auto [offset, size] = *found;
  free_.erase(found);
  if (size > wanted) free_.emplace(offset + wanted, size - wanted);
  used_ += wanted;
  peak_ = std::max(peak_, used_);
  return data_ + offset;
}

void ScratchPool::deallocate(void* data, int64_t bytes, local::DeviceStream* /*stream*/) noexcept {
  const std::lock_guard lock(mutex_);
  int64_t offset = static_cast<char*>(data) - data_;
  int64_t size = rounded_allocation(bytes);
  used_ -= size;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_.emplace(offset, size);
}

}  // namespace quarry::exec
