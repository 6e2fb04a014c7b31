// Partial results of a stage that are of use one by one: saved, and read where an earlier run has saved them
// (chunked/exec/saved_states.h).
#pragma once

#include <cstdint>
#include <optional>

#include "quarry/chunked/exec/bodies/state.h"
#include "quarry/chunked/exec/lowering/builder.h"

namespace quarry::exec {

class SavedValues {
 public:
  // Of the builder's stage; nothing where the run saves no states.
  explicit SavedValues(Builder& builder);

  bool is_on() const { return states_ != nullptr; }
  // Adds the task that reads value `index` in place of those that make it, which nobody needs then; none where it is
  // not saved.
  std::optional<scheduler::BlockId> restore(int64_t index, int64_t bytes, Builder::Priority priority,
                                            bool keep = false);
  // Adds the task that saves it, behind the one that makes it, of the same priority.
  void save(int64_t index, int64_t bytes, Builder::Priority priority, scheduler::BlockId block);

 private:
  Builder& builder_;
  SavedStates* const states_;
  const int stage_;
  int32_t save_ = -1, restore_ = -1;
  SaveBody* save_body_ = nullptr;
  RestoreBody* restore_body_ = nullptr;
};

}  // namespace quarry::exec
