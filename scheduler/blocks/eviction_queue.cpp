#include <algorithm>

#include "quarry/scheduler/blocks/block_table.h"

namespace quarry::scheduler {

bool EvictionQueue::is_stale(const Candidate& candidate) const {
  const BlockRecord& r = table_[candidate.record];
  return r.generation != candidate.generation || !r.is_evictable() || table_.next_use(r) != candidate.next_use;
}

void EvictionQueue::add(int32_t index) {
  const BlockRecord& r = table_[index];
  if (!kept_ || r.charge() == 0) return;
  if (heap_.size() > 4 * static_cast<size_t>(table_.used_count()) + 1024) {
    std::erase_if(heap_, [this](const Candidate& candidate) { return is_stale(candidate); });
    std::make_heap(heap_.begin(), heap_.end());
  }
  heap_.push_back({table_.next_use(r), index, r.generation});
  std::push_heap(heap_.begin(), heap_.end());
}

void EvictionQueue::begin() {
  kept_ = true;
  heap_.clear();
  table_.for_each([this](int32_t index, const BlockRecord& r) {
    if (r.charge() > 0 && r.is_evictable()) heap_.push_back({table_.next_use(r), index, r.generation});
  });
  std::make_heap(heap_.begin(), heap_.end());
}

int32_t EvictionQueue::pop_farthest(int64_t before_order) {
  if (!kept_) begin();
  while (!heap_.empty()) {
    const Candidate top = heap_.front();
    const bool valid = !is_stale(top);
    // What the next task needs itself stays, and all others are needed no later.
    if (valid && top.next_use <= before_order) return -1;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    if (valid) return top.record;
  }
  return -1;
}

void EvictionQueue::clear() {
  kept_ = false;
  heap_.clear();
}

}  // namespace quarry::scheduler
