// What the executor's blocks and scratch have in the budget of the compute tier.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "quarry/local/memory/budget.h"
#include "quarry/local/memory/policy.h"

namespace quarry::scheduler {

// Most rounds of tasks need as much again as they give back: what is given back stays reserved for the next ones,
// without a call to the budget. When the lock is released there is little of it during a run, and else none. Not
// thread-safe: the executor's lock guards it, and only under that lock is anything reserved in the budget.
class ReservedBytes {
 public:
  explicit ReservedBytes(local::Budget& budget) : budget_(budget), least_free_(budget.limit_bytes()) {}
  // First of what was given back; false where it does not fit.
  bool reserve(int64_t bytes) {
    if (bytes > unused_ && !reserve_more(bytes - unused_)) return false;
    unused_ -= bytes;
    return true;
  }
  void release(int64_t bytes) { unused_ += bytes; }
  void return_unused() {
    least_free_ += unused_;
    while (unused_ > 0) {
      local::Reservation& last = reservations_.back();
      if (last.bytes() > unused_) {
        const local::Reservation part = last.split(unused_);
        unused_ = 0;
      } else {
        unused_ -= last.bytes();
        reservations_.pop_back();
      }
    }
  }
  void return_most_unused() {
    if (unused_ > local::memory_policy::kKeptReservedBytes) return_unused();
  }
  // In use.
  int64_t bytes() const { return budget_.reserved_bytes() - unused_; }
  int64_t free_bytes() const { return budget_.limit_bytes() - bytes(); }
  // free_bytes() is no less, found without asking the budget.
  int64_t least_free_bytes() const { return least_free_ + unused_; }
  // After somebody else has reserved something.
  void note_free_bytes() { least_free_ = budget_.limit_bytes() - budget_.reserved_bytes(); }

 private:
  bool reserve_more(int64_t bytes) {
    local::Reservation more = budget_.try_reserve(bytes);
    if (!more) return false;
    unused_ += more.bytes();
    reservations_.push_back(std::move(more));
    note_free_bytes();
    return true;
  }

  local::Budget& budget_;
  std::vector<local::Reservation> reservations_;
  int64_t unused_ = 0;
  int64_t least_free_;  // that the budget has at least
};

}  // namespace quarry::scheduler
