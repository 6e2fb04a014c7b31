// What waits for a thread, lowest plan position first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace quarry::scheduler {

// Items with a member `order`. What comes in ascending order, as most tasks become ready, waits in a line; a heap holds
// the rest.
template <class Item>
class ReadyQueue {
 public:
  bool empty() const { return size() == 0; }
  size_t size() const { return line_.size() - first_ + heap_.size(); }
  const Item& front() const { return from_heap() ? heap_.front() : line_[first_]; }
  void push(const Item& item) {
    if (first_ == line_.size() || item.order >= line_.back().order) {
      line_.push_back(item);
    } else {
      heap_.push_back(item);
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
  }
  Item pop() {
    if (from_heap()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const Item item = heap_.back();
      heap_.pop_back();
      return item;
    }
    const Item item = line_[first_++];
    if (first_ == line_.size()) {
      line_.clear();
      first_ = 0;
    } else if (first_ >= kMostGone && 2 * first_ >= line_.size()) {
      line_.erase(line_.begin(), line_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    return item;
  }
  void clear() {
    line_.clear();
    heap_.clear();
    first_ = 0;
  }
  void for_each(const auto& call) const {
    std::for_each(line_.begin() + static_cast<std::ptrdiff_t>(first_), line_.end(), call);
    std::ranges::for_each(heap_, call);
  }

 private:
  static constexpr size_t kMostGone = 64;
  static bool later(const Item& a, const Item& b) { return a.order > b.order; }
  bool from_heap() const {
    return !heap_.empty() && (first_ == line_.size() || heap_.front().order < line_[first_].order);
  }

  std::vector<Item> line_;  // from first_ on
  std::vector<Item> heap_;
  size_t first_ = 0;
};

}  // namespace quarry::scheduler
