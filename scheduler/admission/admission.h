// Which task is next, and whether memory allows it: strictly in plan order, evicting blocks by farthest next use.
#pragma once

#include <chrono>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/scheduler/admission/live_tasks.h"
#include "quarry/scheduler/admission/patience.h"
#include "quarry/scheduler/blocks/blocks.h"

namespace quarry::scheduler {

// Not thread-safe: the executor's lock guards it.
class Admission {
 public:
  // `busy_tasks`: admitted tasks that keep every thread at work. `patience`: ExecutorConfig's.
  Admission(Tiers& tiers, Blocks& blocks, LiveTasks& live, int64_t busy_tasks, std::chrono::milliseconds patience)
      : tiers_(tiers),
        blocks_(blocks),
        live_(live),
        on_device_(tiers.on_device()),
        busy_tasks_(busy_tasks),
        patience_limit_(patience) {}

  // `order`: of the graph's tasks; empty where it is the one in which they were added.
  void begin_run(const Graph& graph, std::vector<TaskId> order);
  void end_run();
  // Admits what fits now. Returns an error, OutOfMemory, where the next task will never fit, or the device's where it
  // gives no memory; else null.
  std::exception_ptr admit_tasks();
  // The last call stopped because it had admitted enough for once.
  bool has_more() const { return has_more_; }
  void pause() { has_more_ = false; }
  bool is_at_end() const { return head_ == task_count_; }
  Blocks::Load load() const {
    constexpr int64_t kAmple = 8;
    if (live_.count() >= kAmple * busy_tasks_) return Blocks::Load::ample;
    if (live_.count() >= busy_tasks_) return Blocks::Load::busy;
    return live_.count() > 0 ? Blocks::Load::some : Blocks::Load::idle;
  }
  // What the next task needs, one line; empty where all are admitted.
  std::string describe_next() const;

 private:
  bool may_admit();
  bool try_admit(TaskId task, int64_t order);
  bool may_get_memory() const;
  // Whether the next task is worth memory that is not at hand.
  bool is_worth_growing() const;
  // A place for the task's blocks and scratch, which need so many bytes. Throws OutOfMemory, with what was reserved
  // given back, where the device does not have them.
  bool try_place(const Graph::Task& task, int64_t bytes, void** scratch);
  bool place(const Graph::Task& task, bool may_grow, void** scratch);
  // Those that it needs in the compute tier.
  std::span<const BlockId> pinned_inputs(const Graph::Task& task) const {
    return task.visits ? std::span<const BlockId>() : graph_->inputs(task);
  }
  void admit(TaskId task, int64_t order, void* scratch);
  std::exception_ptr out_of_memory(TaskId task);
  TaskId task_at(int64_t order) const { return order_.empty() ? order : order_[static_cast<size_t>(order)]; }

  Tiers& tiers_;
  Blocks& blocks_;
  LiveTasks& live_;
  const bool on_device_;
  const int64_t busy_tasks_;
  const std::chrono::milliseconds patience_limit_;
  const Graph* graph_ = nullptr;
  std::vector<TaskId> order_;  // empty: tasks are admitted as they were added
  int64_t task_count_ = 0;
  int64_t head_ = 0;        // the next to admit
  int64_t head_need_ = 0;   // bytes that it still needs
  bool far_ahead_ = false;  // as many are admitted as may be, or nearly
  bool has_more_ = false;
  uint64_t stamp_ = 0;
  std::vector<std::pair<void*, int64_t>> placed_;
  Patience patience_;  // of the next task, for memory that others than the executor hold
};

}  // namespace quarry::scheduler
