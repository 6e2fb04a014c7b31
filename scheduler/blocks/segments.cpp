#include "quarry/scheduler/blocks/segments.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/memory/policy.h"

namespace quarry::scheduler {

namespace policy = local::memory_policy;

DeviceSegments::DeviceSegments(Source source, int64_t limit_bytes)
    : source_(std::move(source)),
      limit_(std::min(limit_bytes, int64_t{1} << kSlotShift) / local::kAllocationAlignment *
             local::kAllocationAlignment) {}

DeviceSegments::~DeviceSegments() {
  for (const Segment& segment : slots_) {
    if (segment.data != nullptr) source_.give_back(segment.data, segment.bytes);
  }
}

size_t DeviceSegments::slot_of(const void* data) const {
  const auto after =
      std::ranges::upper_bound(by_address_, static_cast<const char*>(data), {}, &std::pair<const char*, size_t>::first);
  QUARRY_CHECK(after != by_address_.begin());
  return std::prev(after)->second;
}

bool DeviceSegments::is_empty(size_t slot) const {
  const Segment& segment = slots_[slot];
  return segment.data != nullptr && !segment.recalled && gaps_of(slot).is_gap(position_of(slot), segment.bytes);
}

void* DeviceSegments::address_of(int64_t position) const {
  return slots_[static_cast<size_t>(position >> kSlotShift)].data + (position & ((int64_t{1} << kSlotShift) - 1));
}

void* DeviceSegments::allocate(int64_t bytes, bool at_top, bool may_grow) {
  if (bytes <= policy::small_piece_bytes(limit_)) {
    if (void* const data = allocate_small(bytes, may_grow)) return data;
  }
  int64_t at = gaps_.take(bytes, at_top);
  if (at < 0) {
    if (!may_grow || !grow(bytes)) return nullptr;
    at = gaps_.take(bytes, at_top);
  }
  return address_of(at);
}

// Null where small pieces have no room of their own, and nothing is free for it.
void* DeviceSegments::allocate_small(int64_t bytes, bool may_grow) {
  int64_t at = small_gaps_.take(bytes, /*at_top=*/false);
  if (at < 0) {
    const int64_t size = local::align_up(policy::small_segment_bytes(limit_), source_.granule_bytes);
    if (!may_grow || limit_ - taken_ < size) return nullptr;
    std::string refusal;
    void* const data = try_take(size, refusal);
    if (data == nullptr) return nullptr;
    add_segment(data, size, /*small=*/true);
    at = small_gaps_.take(bytes, /*at_top=*/false);
  }
  return address_of(at);
}

void DeviceSegments::deallocate(void* data, int64_t bytes) {
  const size_t slot = slot_of(data);
  gaps_of(slot).add(position_of(slot) + (static_cast<char*>(data) - slots_[slot].data), bytes);
}

int64_t DeviceSegments::segment_bytes(int64_t bytes, int64_t rest) const {
  const int64_t first = local::align_up(policy::first_segment_bytes(limit_), source_.granule_bytes);
  const int64_t target = std::clamp(taken_, first, std::max(first, policy::most_segment_bytes(limit_)));
  const int64_t size = local::align_up(std::max<int64_t>(target / bytes, 1) * bytes, source_.granule_bytes);
  // A rest that is too small for a segment is no use alone.
  return rest - size < first ? rest : size;
}

bool DeviceSegments::grow(int64_t bytes) {
  if (!return_for(bytes)) return false;
  const int64_t rest = limit_ - taken_;
  std::string refusal;
  int64_t size = segment_bytes(bytes, rest);
  void* data = try_take(size, refusal);
  if (data == nullptr) {
    // Others have taken what was free at the start: as little as will do, and that without what is kept in vain.
    size = std::min(local::align_up(bytes, source_.granule_bytes), rest);
    data = try_take(size, refusal);
    for (size_t slot = 0; slot < slots_.size() && data == nullptr; ++slot) {
      if (!is_empty(slot) || slots_[slot].shared) continue;
      return_segment(slot);
      data = try_take(size, refusal);
    }
  }
  if (data == nullptr) {
    throw local::OutOfMemory(
        fmt::format("{} refuses {} bytes more for blocks: {} of the budget of {} bytes are taken, and other programs "
                    "or libraries use memory that was free at the start ({}); a smaller budget (--memory) leaves "
                    "them more",
                    source_.name, size, taken_, limit_, refusal));
  }
  add_segment(data, size);
  return true;
}

void* DeviceSegments::try_take(int64_t bytes, std::string& refusal) {
  try {
    return source_.take(bytes);
  } catch (const local::OutOfMemory& error) {
    refusal = error.what();
    return nullptr;
  }
}

void DeviceSegments::add_segment(void* data, int64_t bytes, bool small) {
  size_t slot = 0;
  while (slot < slots_.size() && slots_[slot].data != nullptr) ++slot;
  if (slot == slots_.size()) slots_.emplace_back();
  slots_[slot] = {next_number_++, static_cast<char*>(data), bytes, small};
  const std::pair<const char*, size_t> at{slots_[slot].data, slot};
  by_address_.insert(std::ranges::upper_bound(by_address_, at), at);
  gaps_of(slot).add(position_of(slot), bytes);
  taken_ += bytes;
  ++count_;
}

void DeviceSegments::return_segment(size_t slot) {
  Segment& segment = slots_[slot];
  gaps_of(slot).remove(position_of(slot));
  std::erase_if(by_address_, [&](const auto& at) { return at.second == slot; });
  source_.give_back(segment.data, segment.bytes);
  taken_ -= segment.bytes;
  --count_;
  segment = {};
}

void DeviceSegments::recall(size_t slot) {
  gaps_of(slot).remove(position_of(slot));
  slots_[slot].recalled = true;
  ++recalled_;
  recalls_.push_back(slots_[slot].number);
}

bool DeviceSegments::return_for(int64_t bytes) {
  if (limit_ - taken_ >= bytes) return true;
  std::vector<size_t> own, shared;
  int64_t own_bytes = 0, all_bytes = 0;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const Segment& segment = slots_[slot];
    if (segment.recalled) all_bytes += segment.bytes;
    if (!is_empty(slot) || (segment.shared && !may_recall_)) continue;
    (segment.shared ? shared : own).push_back(slot);
    all_bytes += segment.bytes;
    if (!segment.shared) own_bytes += segment.bytes;
  }
  const int64_t missing = bytes - (limit_ - taken_);
  if (all_bytes < missing) return false;
  const auto size = [this](size_t slot) { return slots_[slot].bytes; };
  if (own_bytes >= missing) {
    // The shortest one that will do, else the longest ones.
    std::ranges::sort(own, {}, size);
    while (limit_ - taken_ < bytes) {
      auto next = std::ranges::lower_bound(own, bytes - (limit_ - taken_), {}, size);
      if (next == own.end()) --next;
      return_segment(*next);
      own.erase(next);
    }
    return true;
  }
  // Until they are closed, what can go at once stays: it may serve another one.
  int64_t coming = own_bytes;
  for (const Segment& segment : slots_) coming += segment.recalled ? segment.bytes : 0;
  std::ranges::sort(shared, std::ranges::greater(), size);
  for (const size_t slot : shared) {
    if (coming >= missing) break;
    coming += slots_[slot].bytes;
    recall(slot);
  }
  return false;
}

bool DeviceSegments::make_room(int64_t bytes) {
  if (!return_for(bytes)) return false;
  std::string refusal;
  const int64_t size = std::min(local::align_up(bytes, source_.granule_bytes), limit_ - taken_);
  void* const data = try_take(size, refusal);
  if (data == nullptr) {
    throw local::OutOfMemory(fmt::format("{} refuses {} bytes for blocks: {} of the budget of {} bytes are taken ({})",
                                         source_.name, size, taken_, limit_, refusal));
  }
  add_segment(data, size);
  return true;
}

SharedSegment DeviceSegments::share(const void* data) {
  Segment& segment = slots_[slot_of(data)];
  QUARRY_CHECK(!segment.recalled);
  segment.shared = true;
  return {segment.number, segment.data, segment.bytes};
}

void DeviceSegments::end_sharing(int64_t number) {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    Segment& segment = slots_[slot];
    if (segment.data == nullptr || segment.number != number) continue;
    segment.shared = false;
    if (!segment.recalled) return;
    segment.recalled = false;
    --recalled_;
    gaps_of(slot).add(position_of(slot), segment.bytes);
  }
}

void DeviceSegments::cancel_recalls() {
  recalls_.clear();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].recalled) continue;
    slots_[slot].recalled = false;
    --recalled_;
    gaps_of(slot).add(position_of(slot), slots_[slot].bytes);
  }
}

}  // namespace quarry::scheduler
