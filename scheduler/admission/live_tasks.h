// Admitted tasks that are not done.
#pragma once

#include <exception>
#include <vector>

#include "quarry/scheduler/blocks/block_table.h"
#include "quarry/scheduler/graph.h"
#include "quarry/scheduler/numbered.h"
#include "quarry/scheduler/queues/work_queue.h"

namespace quarry::scheduler {

class ExecutorTaskRun;

// One line of the cache.
struct alignas(64) LiveTask {
  enum class Phase : uint8_t { waiting, ready, running, issued };
  TaskId task = -1;
  int64_t order = 0;
  int32_t pending = 0;  // inputs not available yet
  int32_t open = 0;     // what must still happen before it is done: run() returns, Completion, event
  int32_t body = 0;
  QueueKind queue = QueueKind::compute;
  Phase phase = Phase::waiting;
  bool used = false;
  bool owns_run = false;  // else `run` belongs to a thread's slot
  int64_t scratch_bytes = 0;
  void* scratch_data = nullptr;
  ExecutorTaskRun* run = nullptr;
  std::exception_ptr error;
};
static_assert(sizeof(LiveTask) == 64);

// Makes tasks ready when their inputs are there. Not thread-safe: the executor's lock guards it.
class LiveTasks {
 public:
  // `on_device`: the queues of what goes first have threads.
  LiveTasks(WorkQueues& queues, bool on_device) : queues_(queues), on_device_(on_device) {}
  void begin_run(const Graph& graph) {
    of_order_.assign(static_cast<size_t>(graph.task_count()), -1);
    times.begin_run(graph.body_count(), graph.known_times());
  }
  void end_run() { std::vector<int32_t>().swap(of_order_); }

  LiveTask& operator[](int32_t index) { return tasks_[index]; }
  int64_t count() const { return tasks_.used_count(); }
  void for_each(const auto& call) { tasks_.for_each(call); }
  void for_each(const auto& call) const { tasks_.for_each(call); }

  int32_t add(TaskId id, const Graph::Task& task, int64_t order) {
    const int32_t index = tasks_.add();
    LiveTask& live = (*this)[index];
    live.task = id;
    live.order = order;
    live.body = task.body;
    live.queue = goes_first(task.queue) && !on_device_ ? QueueKind::compute : task.queue;
    live.phase = LiveTask::Phase::waiting;
    of_order_[static_cast<size_t>(order)] = index;
    return index;
  }
  void remove(int32_t index) {
    LiveTask& live = (*this)[index];
    of_order_[static_cast<size_t>(live.order)] = -1;
    live = LiveTask{};
    tasks_.remove(index);
  }

  // Whether the queue's threads will have something to begin for a while.
  bool has_enough_ready(QueueKind kind) const {
    constexpr size_t kForEachThread = 4;
    return queues_[kind].size() >= kForEachThread * static_cast<size_t>(queues_[kind].threads);
  }
  int64_t expected_ns(int32_t index) const { return times.expected_ns(tasks_[index].body); }
  void make_ready(int32_t index) {
    LiveTask& live = (*this)[index];
    live.phase = LiveTask::Phase::ready;
    queues_[live.queue].push({live.order, index, Job::task, times.expected_ns(live.body)});
  }
  // The block's data is there: tasks that waited for nothing else are ready.
  void make_available(BlockRecord& r, const Consumers& consumers) {
    r.available = true;
    for (int64_t i = r.cursor - r.waiting; i < r.cursor; ++i) {
      const int32_t index = of_order_[static_cast<size_t>(consumers[i])];
      if (index >= 0 && --(*this)[index].pending == 0) make_ready(index);
    }
    r.waiting = 0;
  }

  TaskTimes times;

 private:
  WorkQueues& queues_;
  const bool on_device_;
  Numbered<LiveTask> tasks_;
  std::vector<int32_t> of_order_;  // -1: not admitted, or done
};

}  // namespace quarry::scheduler
