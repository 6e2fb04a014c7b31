// Bodies that save blocks to a state and bring them back (chunked/exec/saved_states.h).
#pragma once

#include <string>
#include <vector>

#include "quarry/chunked/exec/saved_states.h"
#include "quarry/scheduler/executor.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// Writes blocks to the state's file. A task with an output passes its input on, in its own memory; one with none visits
// it on the CPU; one with no input only says that a state has been reached.
class SaveBody : public scheduler::TaskBody {
 public:
  SaveBody(SavedStates& states, int stage, std::string label, scheduler::Executor* executor)
      : states_(states), stage_(stage), label_(std::move(label)), executor_(executor) {}
  struct Work {
    int64_t state = 0;
    int64_t entry = 0;
    int64_t bytes = 0;
    bool is_kept = false;
  };
  static constexpr int64_t kValue = -1;  // in place of a state: a value of `stage`, whose index is `entry`
  // The index of the task. Before the run only.
  int64_t add(const Work& work) {
    works_.push_back(work);
    return static_cast<int64_t>(works_.size()) - 1;
  }
  // Of a task that visits a block of so many bytes, on the CPU.
  static int64_t visit_scratch_bytes(int64_t bytes);
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;

 private:
  void save(const Work& work, scheduler::TaskRun& run);

  SavedStates& states_;
  const int stage_;
  const std::string label_;
  scheduler::Executor* const executor_;
  std::vector<Work> works_;
};

// Reads saved blocks.
class RestoreBody : public scheduler::TaskBody {
 public:
  RestoreBody(const SavedStates& states, std::string label, scheduler::Executor* executor)
      : states_(states), label_(std::move(label)), executor_(executor) {}
  int64_t add(const io::SavedBlock& block) {
    blocks_.push_back(block);
    return static_cast<int64_t>(blocks_.size()) - 1;
  }
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;

 private:
  const SavedStates& states_;
  const std::string label_;
  scheduler::Executor* const executor_;
  std::vector<io::SavedBlock> blocks_;
};

}  // namespace quarry::exec
