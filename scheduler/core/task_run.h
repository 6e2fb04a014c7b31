// What a task sees while it runs.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "quarry/scheduler/blocks/block_table.h"
#include "quarry/scheduler/blocks/scratch.h"
#include "quarry/scheduler/task.h"

namespace quarry::scheduler {

class Core;

// Ends a deferred task.
class TaskCompletion final : public Completion {
 public:
  TaskCompletion(Core& core, int32_t live) : core_(core), live_(live) {}
  ~TaskCompletion() override;
  void finish() override;
  void fail(std::exception_ptr error) override;
  // Whether nobody has ended the task yet; the caller does now.
  bool claim() { return !used_.exchange(true); }

 private:
  Core& core_;
  const int32_t live_;
  std::atomic<bool> used_{false};
};

class ExecutorTaskRun final : public TaskRun {
 public:
  explicit ExecutorTaskRun(Core& core);
  std::shared_ptr<Completion> defer() override;
  bool is_cancelled() const override;
  void read_visited(size_t input, int64_t offset, int64_t bytes, void* to) override;

  Core& core;
  Scratch scratch;
  std::vector<BlockView> input_views, output_views;
  std::vector<const BlockRecord*> visited;  // per input that is visited: where it is on disk only, else null
  int64_t visited_bytes = 0;                // read from there
  std::vector<std::pair<std::shared_ptr<local::DeviceEvent>, int>> waits;  // events of the inputs and their streams
  std::shared_ptr<TaskCompletion> completion;
  bool deferred = false;
  int32_t live = -1;
  TaskId task = -1;
  int64_t begin_ns = 0, end_ns = 0;  // of run()
};

// Made once and used again. Not thread-safe: the executor's lock guards it.
class TaskRunPool {
 public:
  explicit TaskRunPool(Core& core) : core_(core) {}
  ExecutorTaskRun* acquire() {
    if (idle_.empty()) return &all_.emplace_back(core_);
    ExecutorTaskRun* const run = idle_.back();
    idle_.pop_back();
    return run;
  }
  void recycle(ExecutorTaskRun* run) { idle_.push_back(run); }

 private:
  Core& core_;
  std::deque<ExecutorTaskRun> all_;
  std::vector<ExecutorTaskRun*> idle_;  // those that no slot and no task has
};

}  // namespace quarry::scheduler
