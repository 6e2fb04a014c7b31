// Runs plans on the Runtime's ranks. They persist chunks, hand them to a writer, or only say what would run.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/chunked/runtime/host_value.h"

namespace quarry::exec {

class KeptTasks;  // plan_cache.h

using Nodes = std::vector<expr::NodePtr>;

// One stage of a plan, to be listed or drawn.
struct StageSummary {
  std::string kind, label;  // "reduce", "mean(/x, axis=0)"
  Dims shape, chunk;        // of the space, or of output 0
  int64_t chunks = 0, file_bytes = 0, made_bytes = 0, task_bytes = 0;
  bool is_barrier = false;        // an output is complete only when all chunks were read
  std::vector<int> stages;        // that it reads, each once
  std::vector<std::string> data;  // data sets and persisted arrays that it reads, each once
};

// What a computation would do, over all ranks. Collective.
struct PlanSummary {
  std::string stages;  // one line per stage
  std::vector<StageSummary> each;
  std::string passes;   // of the planner, with their times
  std::string changes;  // what they changed, a line for each that did
  int64_t chunks = 0, tasks = 0;
  int64_t read_bytes = 0, write_bytes = 0;
  double flops = 0;  // of products and decompositions of matrices, about
  // From other ranks: in all, by one of them, and from ranks of other nodes.
  int64_t received_bytes = 0, most_received_bytes = 0, between_nodes_bytes = 0;
  bool on_devices = false;   // what is read goes on to devices, and what is written comes from there
  int64_t reread_bytes = 0;  // stored bytes of chunks that are read again, as they cannot be kept in this budget
  int64_t least_bytes = 0;   // per rank
  int64_t memory_bytes = 0;  // per rank, given
  double seconds = 0;        // that it is thought to take; 0: no rates were given
  std::string note;          // why chunks are not what they would be by default; empty: they are
};
PlanSummary summarize(const Nodes& nodes, bool write);
// The same with the time that it takes, at rates that are measured for at most a quarter of a second where the user's
// cache lacks them.
PlanSummary summarize_with_time(const Nodes& nodes, bool write);
// The listing of the stages, the totals and the budgets: what --plan prints.
std::string describe(const PlanSummary& summary);
// Of computations one after the other: sums, and the largest least budget; without stages and notes.
PlanSummary total(std::span<const PlanSummary> parts);

// The plan of the nodes on the current Runtime; every result is a stage of it. Throws the user's mistakes.
plan::Plan make_plan(const Nodes& nodes);

// Where nothing is to run (--plan), hands on what would, and does not return: before anything is made for it. persist()
// returns, where what comes next does not need the values: with arrays that have chunks and owners, and no elements.
void end_if_planned(const Nodes& nodes, bool write);

// Runs the plan of the nodes with a sink for each of its results; returns the owned chunks of each sink that keeps
// them. `call`: the public one that this is done for, which must be the same on all ranks. Throws BudgetError, with a
// budget that works where one byte less does not, where the budget is too small, and CommError where ranks are in
// different calls. Collective, blocking. The first `to_host` sinks are for host values: where they are small, their
// arrays are a copy on every rank. `states`: what tile programs go on from, and save. `kept_tasks`: of the plan, where
// it is a kept one.
std::vector<std::shared_ptr<StoredArray>> execute(const Nodes& nodes, const plan::Plan& plan,
                                                  const std::vector<Sink>& sinks, std::string_view call,
                                                  size_t to_host = 0, SavedStates* states = nullptr,
                                                  KeptTasks* kept_tasks = nullptr);
// Additions and multiplications a second of all ranks in products, the same on every rank; 0 where the plan has no tile
// program. May measure it. Collective.
double flop_rate_of_programs(const plan::Plan& plan);

// Computes the nodes in one plan and persists their chunks with their owners. `call`: as in execute(). The first
// `to_host` of them are to become host values, for what is in `why`: throws BudgetError, before anything runs, where
// those do not fit. Collective, blocking.
std::vector<std::shared_ptr<StoredArray>> persist(const Nodes& nodes, std::string_view call, size_t to_host = 0,
                                                  HostValues why = HostValues::asked);
// The same of a run whose results are saved (Runtime::Internals::persist_saving): itself, with the states that it makes
// of the plan.
using StatesOf = std::function<std::unique_ptr<SavedStates>(const plan::Plan& plan)>;
std::vector<std::shared_ptr<StoredArray>> persist_with_states(const Nodes& nodes, std::string_view call, size_t to_host,
                                                              HostValues why, const StatesOf& states);

// What a plan computes, in a few words.
std::string title_of(const plan::Plan& plan);

}  // namespace quarry::exec
