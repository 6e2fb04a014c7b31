// What happens when a task ends: blocks become available or are released, other tasks become ready.

#include "quarry/local/base/trace.h"
#include "quarry/scheduler/blocks/error_context.h"
#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {

ExecutorTaskRun::ExecutorTaskRun(Core& owner) : core(owner), scratch(owner.tiers_.host_memory, owner.config_.device) {}

std::shared_ptr<Completion> ExecutorTaskRun::defer() {
  if (!completion) {
    completion = std::make_shared<TaskCompletion>(core, live);
    const std::lock_guard lock(core.mutex_);
    ++core.live_[live].open;
  }
  return completion;
}

// The block stays where it is as long as it is being read, and a slot does not change.
void ExecutorTaskRun::read_visited(size_t input, int64_t offset, int64_t bytes, void* to) {
  QUARRY_CHECK(input < visited.size() && visited[input] != nullptr);
  core.tiers_.spill.read(visited[input]->slot, offset, bytes, to);
  visited_bytes += bytes;
}

bool ExecutorTaskRun::is_cancelled() const { return core.stopping_.load(std::memory_order_relaxed); }

TaskCompletion::~TaskCompletion() {
  // Nobody can end the task any more.
  fail(std::make_exception_ptr(local::InternalError("the deferred task was dropped without being finished")));
}

void TaskCompletion::finish() {
  if (!claim()) return;
  Core::Guard guard(core_);
  core_.end_part(live_, nullptr);
  core_.advance();
}

void TaskCompletion::fail(std::exception_ptr error) {
  if (!claim()) return;
  Core::Guard guard(core_);
  core_.end_part(live_, error);
  core_.advance();
}

void Core::release_live(int32_t index) {
  LiveTask& live = live_[index];
  if (live.scratch_bytes > 0) {
    blocks_.add_freed_soon(-live.scratch_bytes);
    if (live.scratch_data) tiers_.segments().deallocate(live.scratch_data, live.scratch_bytes);
    if (live.run) live.run->scratch.close();
    blocks_.release(live.scratch_bytes);
  }
  if (live.owns_run) task_runs_.recycle(live.run);
  live_.remove(index);
}

void Core::end_part(int32_t index, const std::exception_ptr& error) {
  LiveTask& live = live_[index];
  if (error && !live.error) live.error = error;
  if (--live.open == 0) complete(index);
}

void Core::complete(int32_t index) {
  LiveTask& live = live_[index];
  const Graph::Task& task = graph_->task(live.task);
  const bool ended_by_run = !on_device_ && !live.run->deferred;
  const int64_t end_ns = ended_by_run ? live.run->end_ns : local::trace_clock_ns();
  const std::exception_ptr error = std::move(live.error);
  live.error = nullptr;
  BusyTime& busy = queues_[task.queue].busy;
  int64_t begin_ns = live.run->begin_ns;
  if (on_device_ && task.queue == QueueKind::compute) begin_ns = busy.end_on_stream(begin_ns, end_ns);
  if (live.run->deferred) busy.end_deferred(end_ns);
  for (const BlockId output : graph_->outputs(task)) {
    const int32_t made = blocks_.table.index_of(output);
    BlockRecord& r = blocks_.table[made];
    if (on_device_) r.event.reset();
    if (error) continue;
    r.produced = true;
    if (!r.available) make_available(r);
    callbacks_.on_ready(output);
    blocks_.release_if_unused(made);
  }
  for (const BlockId input : graph_->inputs(task)) {
    const int32_t read = blocks_.table.index_of(input);
    if (task.visits) {
      blocks_.end_visit(read);
    } else if (--blocks_.table[read].pins == 0) {
      blocks_.release_if_unused(read);
    }
  }
  if (!error) {
    ++progress_.tasks_done;
    progress_.bytes_done += task.traffic_bytes;
    progress_.work_done += graph_->work(task);
    ++statistics_.tasks;
    statistics_.restored_bytes += live.run->visited_bytes;
  }
  if (local::tracing()) trace_task(live, begin_ns, end_ns, error);
  const TaskId id = live.task;
  release_live(index);
  if (error) set_error(with_context(graph_->task_name(id), error));
}

}  // namespace quarry::scheduler
