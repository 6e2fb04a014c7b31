// Numbered things that come and go: a number that is free is used again.
#pragma once

#include <cstdint>
#include <vector>

#include "quarry/scheduler/graph.h"

namespace quarry::scheduler {

// Of things with a member `used`, which stay where they are.
template <class T>
class Numbered {
 public:
  int32_t add() {
    int32_t index;
    if (free_.empty()) {
      index = static_cast<int32_t>(all_.size());
      all_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    (*this)[index].used = true;
    ++used_count_;
    return index;
  }
  // The caller has reset what it was.
  void remove(int32_t index) {
    free_.push_back(index);
    --used_count_;
  }
  T& operator[](int32_t index) { return all_[static_cast<size_t>(index)]; }
  const T& operator[](int32_t index) const { return all_[static_cast<size_t>(index)]; }
  int64_t used_count() const { return used_count_; }
  // Every one in use, with its number; `call` may remove it.
  void for_each(const auto& call) {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].used) call(static_cast<int32_t>(i), all_[i]);
    }
  }
  void for_each(const auto& call) const {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].used) call(static_cast<int32_t>(i), all_[i]);
    }
  }

 private:
  Parts<T, 256> all_;
  std::vector<int32_t> free_;
  int64_t used_count_ = 0;
};

}  // namespace quarry::scheduler
