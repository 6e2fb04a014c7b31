#include "quarry/scheduler/blocks/scratch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "quarry/local/base/error.h"
#include "quarry/scheduler/graph.h"

namespace quarry::scheduler {

void Scratch::open(void* data, int64_t bytes) {
  data_ = data;
  bytes_ = bytes;
  owned_ = false;
  used_ = peak_ = 0;
  pieces_.clear();
}

void Scratch::close() {
  const std::lock_guard lock(mutex_);
  if (owned_) host_memory_.deallocate(data_, bytes_);
  owned_ = false;
  data_ = nullptr;
  pieces_.clear();
}

void* Scratch::allocate(int64_t bytes, local::DeviceStream* /*stream*/) {
  QUARRY_CHECK(bytes >= 0);
  // Not null, and nothing to give back: a task may leave its pieces to close().
  if (bytes == 0) return &nothing_;
  const std::lock_guard lock(mutex_);
  if (!data_ && bytes_ > 0) {
    data_ = host_memory_.allocate(bytes_);
    owned_ = true;
  }
  // A task has a few pieces at a time: looking at all of them is faster than keeping order.
  const int64_t charge = charged_bytes(bytes);
  int64_t best_length = std::numeric_limits<int64_t>::max(), best_offset = 0, from = 0;
  auto place = pieces_.end();
  for (auto next = pieces_.begin();; ++next) {
    const int64_t to = next == pieces_.end() ? bytes_ : next->first;
    if (to - from >= charge && to - from < best_length) {
      best_length = to - from;
      best_offset = from;
      place = next;
    }
    if (next == pieces_.end()) break;
    from = next->first + next->second;
  }
  if (best_length == std::numeric_limits<int64_t>::max()) {
    throw local::OutOfMemory(
        fmt::format("scratch memory: {} bytes do not fit: {} of the task's {} are in use", bytes, used_, bytes_));
  }
  pieces_.insert(place, {best_offset, charge});
  used_ += charge;
  peak_ = std::max(peak_, used_);
  return static_cast<char*>(data_) + best_offset;
}

void Scratch::deallocate(void* data, int64_t bytes, local::DeviceStream* /*stream*/) noexcept {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  if (pieces_.empty()) return;  // the task has ended
  const int64_t offset = static_cast<char*>(data) - static_cast<char*>(data_);
  const auto piece = std::ranges::find(pieces_, offset, &std::pair<int64_t, int64_t>::first);
  if (piece == pieces_.end()) return;
  used_ -= piece->second;
  pieces_.erase(piece);
}

int64_t Scratch::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

int64_t Scratch::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace quarry::scheduler
