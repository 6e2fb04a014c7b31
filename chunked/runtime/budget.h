// Which memory budget a graph needs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/memory/shares.h"
#include "quarry/scheduler/graph.h"

namespace quarry::exec {

// The memory budget, in bytes, that a graph and, on the CPU, the bounce buffers of the service fit into.
int64_t least_budget(const scheduler::Graph& graph, const Runtime& runtime);

// What the shares of this rank's memory follow from.
local::RankMemory rank_memory(Runtime& runtime);

// The staging memory, in bytes of the host budget of a device, that a graph needs which was lowered for such a budget:
// bounce buffers, messages and the largest task.
int64_t needed_host_bytes(const Lowered& lowered, int64_t host_bytes, Runtime& runtime);

// Of the host budget of a device.
class HostBudgetError : public local::BudgetError {
 public:
  using BudgetError::BudgetError;
};
// Throws HostBudgetError on every rank, with the least that works on the rank that needs most, where a rank's host
// budget is too small for the graph; `needed(bytes)` is needed_host_bytes() of a graph for another budget. Collective.
void check_host_budget(const Lowered& lowered, const std::function<int64_t(int64_t host_bytes)>& needed,
                       Runtime& runtime);

// The name of the task that needs most, of all ranks; the same on every rank. Collective.
std::string largest_task(const scheduler::Graph& graph, Runtime& runtime);

// The memory budget of the rank that has least, in bytes, and that rank; -1 where all have as much. Collective.
std::pair<int64_t, int> smallest_budget(Runtime& runtime);

// `given`: of that rank; `task` is what needs so much.
[[noreturn]] void throw_budget(const std::pair<int64_t, int>& given, int64_t least, const std::string& task);

// A number of bytes that works where one byte less does not, from one that does not (`failing`) and a first guess: the
// guess is raised by a quarter until it works, then lowered. `least_at`: what is needed at least where so many bytes
// are given; they work where that is no more.
int64_t least_that_works(const std::function<int64_t(int64_t bytes)>& least_at, int64_t failing, int64_t guess);

}  // namespace quarry::exec
