// What others see of a run: progress, totals, what is waiting for what, trace events.

#include <fmt/format.h>

#include "quarry/local/base/trace.h"
#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {

namespace {

const char* trace_track(const Graph::Task& task, bool device_kind) {
  switch (task.kind) {
    case TaskKind::read:
      return "read";
    case TaskKind::decode:
      return "decode";
    case TaskKind::copy:
      if (task.queue == QueueKind::compute) return "compute";
      return device_kind ? "h2d" : "worker";
    case TaskKind::compute:
      return "compute";
    case TaskKind::send:
    case TaskKind::receive:
      return "comm";
    case TaskKind::write:
      return "write";
    case TaskKind::host:
      return "worker";
  }
  return "worker";
}

}  // namespace

Progress Core::progress() const {
  const std::lock_guard lock(mutex_);
  Progress now = progress_;
  now.active = graph_ != nullptr ? 1 : 0;
  now.running = at_work_ + (issued_.empty() ? 0 : 1);
  now.memory_used = blocks_.reserved_bytes();
  now.memory_limit = tiers_.memory_budget.limit_bytes();
  now.host_used = tiers_.host_budget.reserved_bytes();
  now.host_limit = tiers_.host_budget.limit_bytes();
  now.disk_used = tiers_.spill.used_bytes();
  now.spilled_bytes = statistics_.spilled_bytes;
  now.restored_bytes = statistics_.restored_bytes;
  now.work_done += running_work();
  queues_.copy_busy_seconds(now.busy_seconds);
  return now;
}

// What running tasks have done of the work that they are thought to take: by the time since somebody first asked, so
// that tasks themselves ask no clock. A task that takes longer than thought stays just below its end.
double Core::running_work() const {
  constexpr double kLong = 0.2;  // seconds: of shorter tasks nobody sees a part
  constexpr double kMost = 0.95;
  if (graph_ == nullptr || graph_->longest_work() < kLong) {
    running_since_.clear();
    return 0;
  }
  const auto now = std::chrono::steady_clock::now();
  std::unordered_map<TaskId, std::chrono::steady_clock::time_point> running;
  double work = 0;
  live_.for_each([&](int32_t, const LiveTask& live) {
    const double whole = graph_->work(graph_->task(live.task));
    if (live.phase != LiveTask::Phase::running || whole < kLong) return;
    const auto known = running_since_.find(live.task);
    const auto since = known == running_since_.end() ? now : known->second;
    running.emplace(live.task, since);
    work += std::min(std::chrono::duration<double>(now - since).count(), kMost * whole);
  });
  running_since_ = std::move(running);
  return work;
}

Statistics Core::statistics() const {
  const std::lock_guard lock(mutex_);
  Statistics now = statistics_;
  now.peak_memory_bytes = tiers_.memory_budget.peak_bytes();
  now.peak_host_bytes = tiers_.host_budget.peak_bytes();
  queues_.copy_busy_seconds(now.busy_seconds);
  return now;
}

std::string Core::describe_waits() const {
  constexpr int kMostLines = 32;
  const std::lock_guard lock(mutex_);
  if (!graph_) return "no run\n";
  std::string text;
  int lines = 0;
  live_.for_each([&](int32_t, const LiveTask& live) {
    if (lines >= kMostLines) return;
    const std::string task = fmt::format("{} [{}]", graph_->task_name(live.task), name(live.queue));
    switch (live.phase) {
      case LiveTask::Phase::waiting:
        text += fmt::format("waiting for {} input{}: {}\n", live.pending, live.pending == 1 ? "" : "s", task);
        break;
      case LiveTask::Phase::ready:
        text += fmt::format("ready: {}\n", task);
        break;
      case LiveTask::Phase::running:
        text += fmt::format("running: {}\n", task);
        break;
      case LiveTask::Phase::issued:
        text += fmt::format("queued on the device: {}\n", task);
        break;
    }
    ++lines;
  });
  if (live_.count() > lines) text += fmt::format("and {} more\n", live_.count() - lines);
  text += admission_.describe_next();
  if (admission_.is_at_end() && remote_left_ > 0) {
    text += fmt::format("all tasks are admitted; other ranks have {} block{} still to read\n", remote_left_,
                        remote_left_ == 1 ? "" : "s");
  }
  return text;
}

void Core::trace_task(const LiveTask& live, int64_t begin_ns, int64_t end_ns, const std::exception_ptr& error) const {
  const Graph::Task& task = graph_->task(live.task);
  local::TraceEvent event;
  event.name = graph_->task_name(live.task);
  event.track = trace_track(task, on_device_);
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.bytes = task.traffic_bytes;
  event.budget_used = blocks_.reserved_bytes();
  if (error) {
    event.detail = local::to_record(error).message;
  } else {
    TaskBody::Operations operations = graph_->body(task).operations(task.index);
    event.flops = operations.flops;
    event.detail = std::move(operations.kernel);
  }
  local::trace(std::move(event));
}

void Core::trace_move(const std::string& what, int64_t bytes, int64_t begin_ns, const char* detail) const {
  local::TraceEvent event;
  event.name = what;
  event.track = "spill";
  event.begin_ns = begin_ns;
  event.end_ns = local::trace_clock_ns();
  event.bytes = bytes;
  event.budget_used = blocks_.reserved_bytes();
  event.detail = detail;
  local::trace(std::move(event));
  // Levels of the tiers below, for the report.
  const auto level = [](const char* tier, int64_t used) {
    local::TraceEvent now;
    now.name = tier;
    now.track = kTierTrack;
    now.begin_ns = now.end_ns = local::trace_clock_ns();
    now.bytes = used;
    local::trace(std::move(now));
  };
  if (on_device_) level("pinned host", tiers_.host_budget.reserved_bytes());
  level("spill file", tiers_.spill.used_bytes());
}

}  // namespace quarry::scheduler
