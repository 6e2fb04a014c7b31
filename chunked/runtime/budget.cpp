#include "quarry/chunked/runtime/budget.h"

#include <fmt/format.h>

#include "quarry/chunked/exec/service.h"
#include "quarry/local/memory/pages.h"
#include "quarry/local/memory/policy.h"
#include "quarry/scheduler/executor.h"

namespace quarry::exec {

int64_t least_budget(const scheduler::Graph& graph, const Runtime& runtime) {
  const int64_t graph_bytes = scheduler::least_workable_bytes(graph);
  if (runtime.device().kind != local::DeviceKind::cpu) return graph_bytes;
  // The buffers grow with the budget, by a small part of it: this converges in a few steps, from below.
  int64_t least = graph_bytes;
  for (int64_t before = -1; before != least;) {
    before = least;
    least = graph_bytes + Service::staging_bytes(least, /*on_device=*/false, runtime.size());
  }
  return least;
}

local::RankMemory rank_memory(Runtime& runtime) {
  const scheduler::ExecutorConfig& config = runtime.executor().config();
  const bool on_device = config.device.kind != local::DeviceKind::cpu;
  return {
      config.device.kind, config.memory_bytes,  config.host_bytes, runtime.size(), Service::message_buffers(on_device),
      config.io_threads,  runtime.is_stealing()};
}

std::string largest_task(const scheduler::Graph& graph, Runtime& runtime) {
  const scheduler::TaskId task = graph.largest_task();
  const int64_t mine = scheduler::least_workable_bytes(graph);
  int64_t most[] = {mine};
  runtime.communicator().all_reduce(most, comm::ReduceOp::max);
  int64_t first[] = {mine == most[0] ? runtime.rank() : runtime.size()};
  runtime.communicator().all_reduce(first, comm::ReduceOp::min);
  return runtime.communicator().broadcast_string(task < 0 ? "" : graph.task_name(task), static_cast<int>(first[0]));
}

std::pair<int64_t, int> smallest_budget(Runtime& runtime) {
  const int64_t mine = runtime.memory_bytes();
  int64_t largest[] = {-mine, mine};
  runtime.communicator().all_reduce(largest, comm::ReduceOp::max);
  const int64_t least = -largest[0];
  if (least == largest[1]) return {least, -1};
  int64_t first[] = {mine == least ? runtime.rank() : runtime.size()};
  runtime.communicator().all_reduce(first, comm::ReduceOp::min);
  return {least, static_cast<int>(first[0])};
}

void throw_budget(const std::pair<int64_t, int>& given, int64_t least, const std::string& task) {
  const auto [bytes, rank] = given;
  throw local::BudgetError(fmt::format("the computation does not fit a memory budget of {} bytes {}; the least that "
                                       "works with these chunks is {} bytes, for {}",
                                       bytes, rank < 0 ? "per rank" : fmt::format("of rank {}", rank), least,
                                       task.empty() ? "no task at all" : task),
                           least);
}

int64_t needed_host_bytes(const Lowered& lowered, int64_t host_bytes, Runtime& runtime) {
  namespace policy = local::memory_policy;
  const int io_threads = runtime.executor().config().io_threads;
  return io_threads * policy::bounce_bytes(host_bytes, io_threads) +
         Service::staging_bytes(host_bytes, /*on_device=*/true, runtime.size()) +
         local::align_up(lowered.staging_bytes, local::kPageBytes);  // pinned memory is taken in pages
}

void check_host_budget(const Lowered& lowered, const std::function<int64_t(int64_t host_bytes)>& needed,
                       Runtime& runtime) {
  if (runtime.job_device_kind() == local::DeviceKind::cpu) return;
  const bool on_device = runtime.device().kind != local::DeviceKind::cpu;
  const int64_t given = runtime.host_bytes();
  const bool fits = !on_device || needed_host_bytes(lowered, given, runtime) <= given;
  int64_t least[] = {0};
  if (!fits) {
    least[0] = least_that_works(needed, given, needed(given));
  }
  const int64_t mine = least[0];
  runtime.communicator().all_reduce(least, comm::ReduceOp::max);
  if (least[0] == 0) return;
  int64_t first[] = {mine == least[0] ? runtime.rank() : runtime.size()};
  runtime.communicator().all_reduce(first, comm::ReduceOp::min);
  const std::string task = lowered.most_staging < 0 ? "" : lowered.graph.task_name(lowered.most_staging);
  const int root = static_cast<int>(first[0]);
  throw HostBudgetError(
      fmt::format("the computation does not fit a host budget (--host-memory) of {} bytes of rank {}; the least that "
                  "works is {} bytes, for {}",
                  runtime.communicator().broadcast_string(std::to_string(given), root), root, least[0],
                  runtime.communicator().broadcast_string(task, root)),
      least[0]);
}

int64_t least_that_works(const std::function<int64_t(int64_t bytes)>& least_at, int64_t failing, int64_t guess) {
  constexpr int kMostRaises = 24, kMostSteps = 64;
  int64_t working = guess, least = least_at(guess);
  for (int i = 0; i < kMostRaises && least > working; ++i) {
    failing = working;
    working += working / 4;
    least = least_at(working);
  }
  // What the plan for the budget needs may do, and usually is the least; else the interval is halved.
  bool halves = false;
  for (int i = 0; i < kMostSteps && working - failing > 1; ++i) {
    const int64_t middle = failing + (working - failing) / 2;
    const int64_t tried = halves ? middle : least > failing && least < working ? least : working - 1;
    const int64_t needed = least_at(tried);
    if (needed <= tried) {
      working = tried;
      least = needed;
    } else {
      failing = tried;
    }
    halves = !halves;
  }
  return working;
}

}  // namespace quarry::exec
