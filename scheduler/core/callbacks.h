// Calls to others that are made when the executor's lock has been released.
#pragma once

#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quarry/scheduler/task.h"

namespace quarry::scheduler {

// The executor's lock guards it.
class Callbacks {
 public:
  using Call = std::function<void()>;
  void add(Call call) { due_.push_back(std::move(call)); }
  // When on_ready() names the block.
  void add_when_ready(BlockId block, Call call) { waiting_[block].push_back(std::move(call)); }
  void on_ready(BlockId block) {
    if (waiting_.empty()) return;
    if (auto calls = waiting_.extract(block)) {
      for (Call& call : calls.mapped()) due_.push_back(std::move(call));
    }
  }
  // Those of blocks that are not ready are never made.
  void drop_waiting() { waiting_.clear(); }
  std::vector<Call> take_due() { return std::exchange(due_, {}); }

 private:
  std::vector<Call> due_;
  std::unordered_map<BlockId, std::vector<Call>> waiting_;
};

}  // namespace quarry::scheduler
