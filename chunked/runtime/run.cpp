#include "quarry/chunked/runtime/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/plan_owners.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/exec/stealing.h"
#include "quarry/chunked/runtime/budget.h"
#include "quarry/chunked/runtime/host_value.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/kept_chunks.h"
#include "quarry/chunked/runtime/last_values.h"
#include "quarry/chunked/runtime/machine_rates.h"
#include "quarry/chunked/runtime/plan_cache.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/local/base/message.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/memory/policy.h"
#include "quarry/local/ops/creation/creation.h"

namespace quarry::exec {
namespace {

plan::PlanOptions plan_options() {
  Runtime& runtime = Runtime::current();
  return {runtime.job_device_kind(), std::max<int64_t>(runtime.plan_bytes(), 1), runtime.internals().passes_off,
          runtime.size()};
}

// A result that is a data set or a persisted array itself becomes a stage that copies it, so that it has chunks of this
// run.
plan::ArrayRef stage_of(plan::Plan& plan, const plan::ArrayRef& array, const expr::Node& node) {
  if (array.kind == plan::ArrayRef::Kind::stage) return array;
  plan::Fused copy;
  const bool swapped = array.kind == plan::ArrayRef::Kind::dataset && array.dataset->info().swapped;
  copy.program.output(copy.program.input(node.dtype, swapped));
  copy.inputs.push_back({array, plan::AccessMap::identity(node.shape.size()), node.dtype, node.shape, node.grid});
  plan.stages.push_back({std::move(copy), "copy", node.shape, node.grid, {{node.shape, node.dtype, node.grid}}});
  plan::ArrayRef result;
  result.stage = static_cast<int>(plan.stages.size()) - 1;
  return result;
}

plan::Plan plan_with(const plan::PlanOptions& options, const Nodes& nodes) {
  plan::Plan plan = plan::make_plan(nodes, options);
  for (size_t i = 0; i < nodes.size(); ++i) plan.results[i] = stage_of(plan, plan.results[i], *nodes[i]);
  for (plan::Stage& stage : plan.stages) stage.device = options.device;
  Runtime& runtime = Runtime::current();
  const Runtime::Internals& internals = runtime.internals();
  settle_owners(plan, internals.owners, {runtime.plan_bytes(), internals.stage_owners, internals.product_layers});
  return plan;
}

std::vector<Sink> sinks_of(const plan::Plan& plan, Sink::Kind kind) {
  std::vector<Sink> sinks;
  for (const plan::ArrayRef& result : plan.results) sinks.push_back({kind, result});
  return sinks;
}

// The data sets that a plan reads.
std::set<std::shared_ptr<io::Dataset>> datasets_of(const plan::Plan& plan) {
  std::set<std::shared_ptr<io::Dataset>> datasets;
  for (const plan::Stage& stage : plan.stages) {
    for (const plan::Input* input : stage.reads())
      if (input->array.dataset) datasets.insert(input->array.dataset);
  }
  return datasets;
}

int64_t bytes_read(const std::set<std::shared_ptr<io::Dataset>>& datasets) {
  int64_t bytes = 0;
  for (const auto& dataset : datasets) bytes += dataset->bytes_read();
  return bytes;
}

bool is_any_done(const std::vector<Sink>& sinks) {
  return std::ranges::any_of(sinks, [](const Sink& sink) { return sink.done != nullptr; });
}

// `runs`: not only planned.
LoweringContext lowering_context(Runtime& runtime, bool runs, Service* service = nullptr) {
  LoweringContext context{runtime.rank(), runtime.internals().owners, runtime.device(),    nullptr,
                          service,        runtime.memory_bytes(),     runtime.host_bytes()};
  context.decoding = {runtime.internals().decompress, runtime.memory_bytes()};
  if (runs) context.executor = &runtime.executor();
  if (runs && runtime.internals().rates) context.rates = &*runtime.internals().rates;
  if (runtime.is_stealing()) {
    context.thieves = runtime.device().kind == local::DeviceKind::cpu ? runtime.threads() : kThievesOfDevice;
  }
  return context;
}

// Of memory of the host, that tasks need.
int64_t needed_bytes(const Lowered& lowered, Runtime& runtime) {
  return runtime.device().kind == local::DeviceKind::cpu ? least_budget(lowered.graph, runtime)
                                                         : needed_host_bytes(lowered, runtime.host_bytes(), runtime);
}

// States of chunks that were computed for other ranks stay within a part of the budget that no task needs, so that they
// never hold up admission.
void allow_stealing(Runtime& runtime, Service& service, const scheduler::Graph& graph, int64_t kept_bytes) {
  if (!runtime.is_stealing()) return;
  const bool on_cpu = runtime.device().kind == local::DeviceKind::cpu;
  local::Budget& budget = on_cpu ? runtime.executor().memory_budget() : runtime.executor().host_budget();
  WorkStealing::Settings settings;
  settings.is_victim = [&runtime](int rank) {
    return runtime.device_kinds()[static_cast<size_t>(rank)] == runtime.device().kind;
  };
  settings.budget = &budget;
  const int64_t free_bytes = on_cpu ? budget.limit_bytes() - least_budget(graph, runtime) - kept_bytes : 0;
  settings.limit_bytes = local::memory_policy::stolen_bytes(budget.limit_bytes(), free_bytes, !on_cpu);
  settings.on_stolen = [&runtime] { ++runtime.internals().stolen_chunks; };
  service.stealing().configure(std::move(settings));
}

bool calls_program(const plan::Stage& stage) {
  if (const auto* applied = std::get_if<plan::Applied>(&stage.work)) return applied->op->calls_program();
  const auto* fused = std::get_if<plan::Fused>(&stage.work);
  return fused != nullptr &&
         std::ranges::any_of(fused->made, [](const auto& made) { return made->op->calls_program(); });
}

// Whether no task calls the program's own functions, and none steals, which waits for another rank and needs another
// thread to hear of it.
bool is_closed(const scheduler::Graph& graph, const plan::Plan& plan) {
  for (scheduler::TaskId id = 0; id < graph.task_count(); ++id)
    if (graph.task(id).kind == scheduler::TaskKind::host) return false;
  return std::ranges::none_of(plan.stages, calls_program);
}

// Whether handing its tasks to threads would take longer than they do. Each rank decides for itself.
bool is_short(const scheduler::Graph& graph, const plan::Plan& plan, const Runtime& runtime) {
  constexpr int64_t kMostTasks = 64, kMostBytes = int64_t{1} << 20;
  if (runtime.device().kind != local::DeviceKind::cpu) return false;
  if (graph.task_count() > kMostTasks || graph.traffic_bytes() > kMostBytes) return false;
  return is_closed(graph, plan);
}

// Whether making the tasks takes a time that counts beside what a device takes for them. Each rank decides for itself.
bool is_short_of_device(const scheduler::Graph& graph, const plan::Plan& plan, const Runtime& runtime) {
  constexpr int64_t kMostTasks = 4096;
  return runtime.device().kind != local::DeviceKind::cpu && graph.task_count() <= kMostTasks && is_closed(graph, plan);
}

std::optional<local::ErrorRecord> take_failure(Runtime::Internals& internals) {
  const std::lock_guard lock(internals.failure_mutex);
  return std::exchange(internals.failure, std::nullopt);
}

const plan::Stage::Output& output_of(const plan::Plan& plan, const plan::ArrayRef& array) {
  return plan.stages[static_cast<size_t>(array.stage)].outputs[static_cast<size_t>(array.output)];
}

// Of the first `count` sinks.
LastValues last_values(const plan::Plan& plan, const std::vector<Sink>& sinks, size_t count, const Ownership& owners) {
  std::vector<LastValues::Result> results;
  for (const Sink& sink : std::span(sinks).first(count)) {
    const plan::Stage::Output& output = output_of(plan, sink.array);
    results.push_back({output.dtype, output.grid, output.owners});
  }
  return {std::move(results), owners};
}

// After a run: the owned chunks of each sink that persists, or the values of the first ones.
std::vector<std::shared_ptr<StoredArray>> results_of(const plan::Plan& plan, const std::vector<Sink>& sinks,
                                                     const Lowered& lowered, const LastValues& last) {
  Runtime& runtime = Runtime::current();
  const Ownership& owners = runtime.internals().owners;
  std::vector<std::shared_ptr<StoredArray>> kept = last.values();
  for (size_t i = kept.size(); i < sinks.size(); ++i) {
    if (sinks[i].kind != Sink::Kind::persist) continue;
    const plan::Stage::Output& output = output_of(plan, sinks[i].array);
    std::vector<std::shared_ptr<scheduler::StoredBlock>> blocks;
    for (scheduler::BlockId block : lowered.persisted[i]) blocks.push_back(runtime.executor().stored_block(block));
    kept.push_back(std::make_shared<StoredArray>(output.dtype, output.grid, output.owners,
                                                 owners.owned(output.owners, output.grid, runtime.rank()),
                                                 std::move(blocks), &runtime.executor()));
  }
  runtime.executor().forget_blocks();
  return kept;
}

// Runs kept tasks of which no rank's have to do with another's: there are no messages, and what ranks agree on before
// other runs and at their end is one exchange at the end. Whatever fails, fails on one rank by itself.
std::vector<std::shared_ptr<StoredArray>> execute_apart(const plan::Plan& plan, const std::vector<Sink>& sinks,
                                                        std::string_view call, size_t to_host, KeptTasks& kept_tasks) {
  Runtime& runtime = Runtime::current();
  Runtime::Internals& internals = runtime.internals();
  comm::Communicator& communicator = runtime.communicator();
  scheduler::Executor& executor = runtime.executor();
  LastValues last = last_values(plan, sinks, to_host, internals.owners);
  LastWords* words = nullptr;
  std::vector<std::byte> said(comm::note_bytes(communicator));
  if (said.size() < static_cast<size_t>(last.bytes())) said.resize(static_cast<size_t>(last.bytes()));  // one rank
  std::unique_ptr<Lowered> lowered;
  std::exception_ptr error;
  const auto watch = [&] {
    if (internals.interrupt.exchange(false)) executor.cancel({local::ErrorCode::cancelled, "interrupted", 0});
  };
  try {
    if (const auto failure = take_failure(internals)) local::throw_record(*failure);
    const LoweringContext context = lowering_context(runtime, /*runs=*/true);
    lowered = kept_tasks.take(context);
    if (lowered == nullptr) lowered = lower(plan, sinks, context);
    words = last.words(runtime.rank(), executor, lowered->persisted);
    const local::TraceScope trace("run", "plan");
    watch();  // an interrupt since the last run
    const scheduler::ShortRun how{[] { std::this_thread::yield(); }, [] {}};
    executor.run(lowered->graph, watch, &how);
    if (words != nullptr) words->write(said.data());
  } catch (...) {
    take_failure(internals);
    local::ErrorRecord record = local::to_record(std::current_exception());
    if (runtime.size() > 1 && record.code != local::ErrorCode::cancelled)
      record.message += fmt::format(" [rank {}]", runtime.rank());
    try {
      local::throw_record(record);
    } catch (...) {
      error = std::current_exception();
    }
  }
  executor.clear_cancel();
  // Not what ranks say that agree before a run.
  const uint64_t hash = plan.hash * 31 + 1;
  try {
    comm::agree(communicator, error, {call, hash, [&plan] { return title_of(plan); }}, {},
                runtime.size() > 1 ? &said : nullptr);
  } catch (const local::Cancelled&) {
    internals.interrupt = false;  // it may have come to several ranks at once
    throw;
  }
  ++internals.runs;
  if (words != nullptr) {
    // Of each rank's note, the words.
    const auto bytes = static_cast<size_t>(last.bytes()), noted = said.size() / static_cast<size_t>(runtime.size());
    words->all.clear();
    for (size_t at = 0; at < said.size(); at += noted)
      words->all.insert(words->all.end(), said.begin() + at, said.begin() + at + bytes);
  }
  std::vector<std::shared_ptr<StoredArray>> kept = results_of(plan, sinks, *lowered, last);
  kept_tasks.keep(std::move(lowered), lowering_context(runtime, /*runs=*/true));
  kept_tasks.set_apart(communicator.failed_calls());
  return kept;
}

// Lowers and runs; the owned chunks of each sink that persists, or the values of the first ones, which are to be host
// values.
std::vector<std::shared_ptr<StoredArray>> execute(const plan::Plan& plan, const std::vector<Sink>& sinks,
                                                  std::string_view call, size_t to_host, SavedStates* states,
                                                  KeptTasks* kept_tasks) {
  Runtime& runtime = Runtime::current();
  Runtime::Internals& internals = runtime.internals();
  comm::Communicator& communicator = runtime.communicator();
  if (kept_tasks != nullptr && kept_tasks->take_apart(communicator.failed_calls()))
    return execute_apart(plan, sinks, call, to_host, *kept_tasks);
  runtime.executor().expect_run();
  const uint64_t epoch = internals.runs + 1;
  std::unique_ptr<Service> service;
  std::unique_ptr<Lowered> lowered;
  std::exception_ptr error;
  const bool is_partly_done = is_any_done(sinks) || (states != nullptr && states->is_resumed());
  // Of all ranks, the largest. Ties: twice the fetches, and one more where the rank does not keep its tasks.
  enum : uint8_t { least_bytes, given_bytes_negated, ties };
  bool short_run = false, again = false;
  int64_t largest[] = {0, -runtime.memory_bytes(), 0};
  try {
    if (const auto failure = take_failure(internals)) local::throw_record(*failure);
    service = Service::create(communicator, runtime.executor(), epoch, runtime.paths(), &internals.interrupt,
                              internals.message_piece_bytes);
    LoweringContext context = lowering_context(runtime, /*runs=*/true, service.get());
    if (is_partly_done) context.thieves = 0;
    context.states = states;
    if (kept_tasks != nullptr) lowered = kept_tasks->take(context);
    if (lowered == nullptr) {
      const local::TraceScope trace("lower", "plan");
      lowered = lower(plan, sinks, context);
    }
    largest[least_bytes] = least_budget(lowered->graph, runtime);
    if (lowered->grouped && largest[least_bytes] > runtime.memory_bytes()) {
      const local::TraceScope trace("lower", "plan");
      context.memory_bytes = 0;  // chunks do not share tasks
      lowered = lower(plan, sinks, context);
      largest[least_bytes] = least_budget(lowered->graph, runtime);
    }
    short_run = is_short(lowered->graph, plan, runtime);
    again = short_run || is_short_of_device(lowered->graph, plan, runtime);
    const bool keeps = kept_tasks != nullptr && short_run && lowered->runs_again;
    largest[ties] = 2 * (lowered->fetches == nullptr ? 0 : lowered->fetches->size()) + (keeps ? 0 : 1);
  } catch (...) {
    error = std::current_exception();
  }
  // What few fetches there are, travels along.
  const size_t note_bytes = comm::note_bytes(communicator);
  std::vector<std::byte> notes(note_bytes);
  const bool notes_fetches = !is_partly_done;
  if (lowered != nullptr && notes_fetches) notes = note_fetches(*lowered, note_bytes);
  comm::agree(communicator, error, {call, plan.hash, [&plan] { return title_of(plan); }}, largest, &notes);
  internals.runs = epoch;  // the same on all ranks, also after calls that were unlike
  if (largest[least_bytes] > -largest[given_bytes_negated]) {
    throw_budget(smallest_budget(runtime), largest[least_bytes], largest_task(lowered->graph, runtime));
  }
  check_host_budget(
      *lowered,
      [&](int64_t host_bytes) {
        LoweringContext context = lowering_context(runtime, /*runs=*/false);
        context.host_bytes = host_bytes;
        return needed_host_bytes(*lower(plan, sinks, context), host_bytes, runtime);
      },
      runtime);
  comm::alone(communicator, [&] {
    if (is_partly_done) drop_unneeded(*lowered, communicator);
    if (largest[ties] < 2) return;
    if (notes_fetches && take_fetches(*lowered, notes, note_bytes, communicator.rank(), *service)) return;
    exchange_fetches(*lowered, communicator, *service);
  });
  const std::vector<plan::FileReads> file_reads = plan::file_reads(plan);
  const KeptChunks kept_chunks(file_reads, runtime.executor(),
                               file_reads.empty() ? 0 : needed_bytes(*lowered, runtime));
  allow_stealing(runtime, *service, lowered->graph, kept_chunks.given_bytes());
  LastValues last = last_values(plan, sinks, to_host, internals.owners);
  const auto datasets = datasets_of(plan);
  const int64_t read_before = bytes_read(datasets);
  internals.any_run_started = true;
  try {
    const local::TraceScope trace("run", "plan");
    service->run(lowered->graph, short_run, last.words(runtime.rank(), runtime.executor(), lowered->persisted));
  } catch (...) {
    take_failure(internals);
    throw;
  }
  internals.read_bytes += bytes_read(datasets) - read_before;
  internals.decoded_bytes += kept_chunks.decoded_bytes();
  internals.reread_bytes += kept_chunks.reread_bytes();

  std::vector<std::shared_ptr<StoredArray>> kept = results_of(plan, sinks, *lowered, last);
  // Only what is short: what its graph takes is next to nothing, and what making it takes is not.
  if (kept_tasks != nullptr && again)
    kept_tasks->keep(std::move(lowered), lowering_context(runtime, /*runs=*/true, service.get()));
  if (largest[ties] == 0 && (runtime.size() == 1 || last.bytes() <= static_cast<int64_t>(note_bytes)))
    kept_tasks->set_apart(communicator.failed_calls());
  return kept;
}

// Whether the stage is a tile program.
bool is_program(const plan::Stage& stage) {
  const auto* applied = std::get_if<plan::Applied>(&stage.work);
  return applied != nullptr && applied->op->is_program() && !applied->one_chunk;
}

// The least bytes per rank of the plan that is made for a budget of `memory_bytes`, and which task needs them; `given`
// are the sinks of its results. Collective.
std::pair<int64_t, std::string> least_bytes_of_plan(const Nodes& nodes, const std::vector<Sink>& given,
                                                    int64_t memory_bytes) {
  Runtime& runtime = Runtime::current();
  plan::PlanOptions options = plan_options();
  const bool on_device = runtime.device().kind != local::DeviceKind::cpu;
  int64_t for_tasks[] = {Service::bytes_for_tasks(memory_bytes, on_device)};
  runtime.communicator().all_reduce(for_tasks, comm::ReduceOp::min);
  options.memory_bytes = std::max<int64_t>(for_tasks[0], 1);
  const plan::Plan plan = plan_with(options, nodes);
  std::vector<Sink> sinks = given;
  for (size_t i = 0; i < sinks.size(); ++i) sinks[i].array = plan.results[i];
  LoweringContext context = lowering_context(runtime, /*runs=*/false);
  context.memory_bytes = 0;  // chunks do not share tasks
  const auto lowered = lower(plan, sinks, context);
  int64_t least[] = {least_budget(lowered->graph, runtime)};
  runtime.communicator().all_reduce(least, comm::ReduceOp::max);
  return {least[0], largest_task(lowered->graph, runtime)};
}

// Every rank holds what it knows of its tasks until they have run, about so much of each.
constexpr int64_t kBytesOfTask = 128;

// A shape may say anything: what has too many chunks to be listed in half of the budget is refused before it is, on all
// ranks alike, whatever the budgets of others.
void check_task_count(const plan::Plan& plan) {
  constexpr int64_t kAlways = int64_t{4} << 20;  // tasks of any budget
  Runtime& runtime = Runtime::current();
  const int64_t most = std::max(kAlways, runtime.plan_bytes() / 2 / kBytesOfTask);
  double chunks = 0;
  int64_t largest = 0;
  for (const plan::Stage& stage : plan.stages) {
    chunks += static_cast<double>(stage.grid.count());
    largest = std::max(largest, stage.grid.count());
  }
  const double mine = chunks / runtime.size();
  if (mine <= static_cast<double>(most)) return;
  constexpr double kMostBytes = 9e18;
  throw local::BudgetError(
      fmt::format("the plan has at least {:.3g} tasks, of which a rank of this budget lists {}: a stage has {} chunks; "
                  "larger chunks ({}chunks) make fewer, or take a part of the data",
                  chunks, local::format_count(most), local::format_count(largest),
                  runtime.options().from_command_line ? "--" : "RuntimeOptions::"),
      static_cast<int64_t>(std::min(2 * kBytesOfTask * mine, kMostBytes)));
}

}  // namespace

plan::Plan make_plan(const Nodes& nodes) {
  plan::Plan plan = plan_with(plan_options(), nodes);
  check_task_count(plan);
  return plan;
}

double flop_rate_of_programs(const plan::Plan& plan) {
  Runtime& runtime = Runtime::current();
  if (std::ranges::none_of(plan.stages, is_program)) return 0;
  const int threads = runtime.device().kind == local::DeviceKind::cpu ? runtime.threads() : 1;
  double rate[] = {measured_flop_rate(runtime) * threads};
  runtime.communicator().all_reduce(rate, comm::ReduceOp::sum);
  return rate[0];
}

namespace {

// Why chunks are not what they would be, and what keeps them.
std::string note_of(const plan::Plan& plan) {
  if (plan.note.empty()) return "";
  Runtime& runtime = Runtime::current();
  const bool on_device = runtime.device().kind != local::DeviceKind::cpu;
  constexpr int64_t kStep = int64_t{1} << 20;
  int64_t budget = local::align_up(plan.keeping_bytes, kStep);
  while (Service::bytes_for_tasks(budget, on_device) < plan.keeping_bytes)
    budget += local::align_up(budget / 64, kStep);
  const std::string option = runtime.options().from_command_line ? "--memory " : "RuntimeOptions::memory ";
  return fmt::format("{}; {}{}MiB keeps them", plan.note, option, budget / kStep);
}

template <class T>
void add_once(std::vector<T>& list, T item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(std::move(item));
}

StageSummary summary_of(const plan::Stage& stage) {
  StageSummary summary;
  summary.kind = stage.kind();
  summary.label = stage.label;
  summary.shape = stage.shape;
  summary.chunk = stage.grid.largest();
  summary.chunks = stage.grid.count();
  summary.file_bytes = stage.file_bytes();
  summary.task_bytes = stage.task_bytes();
  for (size_t i = 0; i < stage.outputs.size(); ++i) {
    const plan::Stage::Output& output = stage.outputs[i];
    summary.made_bytes += local::element_count(output.shape) * local::itemsize(output.dtype);
    if (stage.is_barrier(static_cast<int>(i))) summary.is_barrier = true;
  }
  for (const plan::Input* input : stage.reads()) {
    switch (input->array.kind) {
      case plan::ArrayRef::Kind::stage:
        add_once(summary.stages, input->array.stage);
        break;
      case plan::ArrayRef::Kind::dataset:
        add_once(summary.data, input->array.dataset->info().file + ":" + input->array.dataset->info().object);
        break;
      case plan::ArrayRef::Kind::stored:
        add_once(summary.data, "stored " + local::to_string(input->shape));
        break;
      case plan::ArrayRef::Kind::made:
        break;
    }
  }
  return summary;
}

}  // namespace

void end_if_planned(const Nodes& nodes, bool write) {
  if (const auto& instead = Runtime::current().internals().instead_of_running) instead(nodes, write, /*last=*/true);
}

std::vector<std::shared_ptr<StoredArray>> execute(const Nodes& nodes, const plan::Plan& plan,
                                                  const std::vector<Sink>& sinks, std::string_view call, size_t to_host,
                                                  SavedStates* states, KeptTasks* kept_tasks) {
  if (const auto& take_note = Runtime::current().internals().take_note; take_note && !plan.note.empty())
    take_note(note_of(plan));
  const bool write = std::ranges::any_of(sinks, [](const Sink& sink) { return sink.kind == Sink::Kind::write; });
  end_if_planned(nodes, write);
  try {
    return execute(plan, sinks, call, to_host, states, kept_tasks);
  } catch (const HostBudgetError&) {
    throw;
  } catch (const local::BudgetError& error) {
    // The plan for a larger budget may have larger chunks and need more, so it is made anew for each budget tried.
    std::string task;  // of the least that has worked
    const auto least_at = [&](int64_t bytes) {
      auto [least, largest] = least_bytes_of_plan(nodes, sinks, bytes);
      if (least <= bytes) task = std::move(largest);
      return least;
    };
    const std::pair<int64_t, int> given = smallest_budget(Runtime::current());
    const int64_t least = least_that_works(least_at, given.first, error.least_bytes());
    throw_budget(given, least, task);
  }
}

namespace {

// Of the files of a plan; of the rank that can keep least, as if it did all.
int64_t reread_bytes(const plan::Plan& plan, int64_t needed, Runtime& runtime) {
  const std::vector<plan::FileReads> reads = plan::file_reads(plan);
  const bool on_cpu = runtime.device().kind == local::DeviceKind::cpu;
  const int64_t budget = on_cpu ? runtime.memory_bytes() : runtime.host_bytes();
  const auto kept = static_cast<double>(kept_bytes(reads, budget, budget - needed));
  double bytes[] = {0};
  for (const plan::FileReads& one : reads) bytes[0] += one.reread_bytes(kept);
  runtime.communicator().all_reduce(bytes, comm::ReduceOp::max);
  constexpr double kMostBytes = 9e18;
  return static_cast<int64_t>(std::min(bytes[0], kMostBytes));
}

// What this rank fetches of others for which `counts`.
int64_t received_bytes(const Lowered& lowered, const std::function<bool(int owner)>& counts) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < (lowered.fetches ? lowered.fetches->size() : 0); ++i) {
    const PartTable::Part& part = (*lowered.fetches)[i];
    if (counts(part.owner)) bytes += lowered.graph.block(part.block).bytes;
  }
  return bytes;
}

PlanSummary summary_of(const Nodes& nodes, bool write, bool timed) {
  Runtime& runtime = Runtime::current();
  // Seconds: a GPU's libraries take some until they have begun.
  const double measuring = runtime.device().kind == local::DeviceKind::cuda ? 3 : 0.25;
  const plan::Plan plan = make_plan(nodes);
  comm::agree(runtime.communicator(), nullptr, {"explain", plan.hash, [&plan] { return title_of(plan); }});
  plan::Rates rates;
  if (timed) {
    rates = known_rates(runtime);
    measure_rates(rates, plan.stages, runtime, measuring);
  }
  const std::vector<Sink> sinks = sinks_of(plan, write ? Sink::Kind::write : Sink::Kind::persist);
  LoweringContext context = lowering_context(runtime, /*runs=*/false);
  context.rates = timed ? &rates : nullptr;
  auto lowered = lower(plan, sinks, context);
  const int threads = runtime.device().kind == local::DeviceKind::cpu ? runtime.threads() : 1;
  const auto seconds_for = [&](double units, plan::Work::Kind kind) {
    return units * rates.seconds_per_unit({.kind = kind});
  };
  double seconds[] = {estimated_seconds(*lowered, threads) +
                      seconds_for(plan::fresh_bytes(plan, runtime.threads()), plan::Work::Kind::fresh) +
                      seconds_for(static_cast<double>(lowered->write_bytes), plan::Work::Kind::sync)};
  PlanSummary summary;
  summary.note = note_of(plan);
  summary.stages = plan::describe(plan);
  summary.passes = plan::describe_passes(plan);
  summary.changes = plan::describe_changes(plan);
  for (const plan::Stage& stage : plan.stages) {
    summary.chunks += stage.grid.count();
    summary.each.push_back(summary_of(stage));
    summary.flops += plan::matrix_flops(stage);
  }
  const comm::Communicator& communicator = runtime.communicator();
  int64_t received[] = {received_bytes(*lowered, [](int) { return true; })};
  const int64_t from_other_nodes = received_bytes(
      *lowered, [&](int owner) { return communicator.node_of(owner) != communicator.node_of(runtime.rank()); });
  int64_t sums[] = {lowered->graph.task_count(), lowered->read_bytes, lowered->write_bytes, received[0],
                    from_other_nodes};
  const int64_t needed = needed_bytes(*lowered, runtime);
  if (lowered->grouped) {  // in less memory, chunks do not share tasks
    context.memory_bytes = 0;
    lowered = lower(plan, sinks, context);
  }
  int64_t least[] = {least_budget(lowered->graph, runtime)};
  int64_t given[] = {runtime.memory_bytes()};
  runtime.communicator().all_reduce(sums, comm::ReduceOp::sum);
  runtime.communicator().all_reduce(least, comm::ReduceOp::max);
  runtime.communicator().all_reduce(given, comm::ReduceOp::min);
  runtime.communicator().all_reduce(seconds, comm::ReduceOp::max);
  runtime.communicator().all_reduce(received, comm::ReduceOp::max);
  summary.received_bytes = sums[3];
  summary.between_nodes_bytes = sums[4];
  summary.on_devices = runtime.job_device_kind() != local::DeviceKind::cpu;
  summary.most_received_bytes = received[0];
  summary.seconds = seconds[0];
  summary.tasks = sums[0];
  summary.read_bytes = sums[1];
  summary.write_bytes = sums[2];
  summary.reread_bytes = reread_bytes(plan, needed, runtime);
  summary.least_bytes = least[0];
  summary.memory_bytes = given[0];
  return summary;
}

}  // namespace

PlanSummary summarize(const Nodes& nodes, bool write) { return summary_of(nodes, write, /*timed=*/false); }
PlanSummary summarize_with_time(const Nodes& nodes, bool write) { return summary_of(nodes, write, /*timed=*/true); }

std::string describe(const PlanSummary& summary) {
  const auto with_unit = [](int64_t bytes) { return fmt::format("{} bytes ({})", bytes, local::format_bytes(bytes)); };
  std::string text = summary.stages;
  if (!text.empty() && !text.ends_with('\n')) text += "\n";
  const auto add = [&]<class... A>(fmt::format_string<A...> format, A&&... values) {
    text += fmt::format(format, std::forward<A>(values)...);
  };
  add("chunks: {}\ntasks: {}\n", local::format_count(summary.chunks), local::format_count(summary.tasks));
  if (summary.flops > 0) add("flops: about {:.3g}, of products and decompositions\n", summary.flops);
  add("reads: {}", local::format_bytes(summary.read_bytes));
  if (summary.reread_bytes > 0)
    add(", and about {} of the file again, as its chunks are cut and do not all fit the budget",
        local::format_bytes(summary.reread_bytes));
  add("\nwrites: {}\n", local::format_bytes(summary.write_bytes));
  if (summary.on_devices && summary.read_bytes + summary.write_bytes > 0)
    add("between host and devices: {} there, {} back\n", local::format_bytes(summary.read_bytes),
        local::format_bytes(summary.write_bytes));
  if (summary.received_bytes > 0)
    add("between ranks: {} ({} within nodes, {} between nodes), at most {} to one of them\n",
        local::format_bytes(summary.received_bytes),
        local::format_bytes(summary.received_bytes - summary.between_nodes_bytes),
        local::format_bytes(summary.between_nodes_bytes), local::format_bytes(summary.most_received_bytes));
  if (!summary.passes.empty()) add("passes: {}\n", summary.passes);
  add("{}least budget: {} per rank\ngiven budget: {} per rank{}\n", summary.changes, with_unit(summary.least_bytes),
      with_unit(summary.memory_bytes), summary.least_bytes > summary.memory_bytes ? ": does not fit" : "");
  return text;
}

PlanSummary total(std::span<const PlanSummary> parts) {
  PlanSummary all;
  for (const PlanSummary& part : parts) {
    all.chunks += part.chunks;
    all.tasks += part.tasks;
    all.read_bytes += part.read_bytes;
    all.reread_bytes += part.reread_bytes;
    all.write_bytes += part.write_bytes;
    all.flops += part.flops;
    all.received_bytes += part.received_bytes;
    all.most_received_bytes += part.most_received_bytes;
    all.between_nodes_bytes += part.between_nodes_bytes;
    all.on_devices = all.on_devices || part.on_devices;
    all.least_bytes = std::max(all.least_bytes, part.least_bytes);
    all.memory_bytes = part.memory_bytes;
    all.seconds += part.seconds;
  }
  return all;
}

namespace {

// make_plan(), or the plan of the same expressions of other arrays.
BoundPlan kept_plan(const Nodes& nodes) {
  Runtime::Internals& internals = Runtime::current().internals();
  std::shared_ptr<PlanCache>& plans = internals.plans;
  const bool is_told = internals.stage_owners || internals.product_layers > 0;
  const std::optional<PlanKey> key = is_told ? std::nullopt : plan_key(nodes);
  if (!key) return {std::make_shared<plan::Plan>(make_plan(nodes))};
  if (!plans) plans = std::make_shared<PlanCache>();
  BoundPlan bound = plans->find(*key);
  if (!bound.plan) bound = plans->add(*key, make_plan(nodes));
  bound.plan->hash = key->plan_hash();
  return bound;
}

}  // namespace

namespace {

// A chunk of a result where nothing runs.
class PlannedBlock final : public scheduler::StoredBlock {
 public:
  explicit PlannedBlock(int64_t bytes) : bytes_(bytes) {}
  int64_t bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
};

// What persist() gives where nothing runs. Zeros stand for host values.
std::vector<std::shared_ptr<StoredArray>> planned_results(const Nodes& nodes, size_t to_host) {
  Runtime& runtime = Runtime::current();
  const Ownership& owners = runtime.internals().owners;
  const plan::Plan plan = make_plan(nodes);
  check_host_values(std::span(nodes).first(to_host), HostValues::needed,
                    {"plan", plan.hash, [&plan] { return title_of(plan); }});
  std::vector<std::shared_ptr<StoredArray>> results;
  for (const plan::ArrayRef& result : plan.results) {
    const plan::Stage::Output& output = output_of(plan, result);
    if (results.size() < to_host) {
      const local::DeviceScope scope(local::kCpu);
      results.push_back(std::make_shared<StoredArray>(local::ops::zeros(output.grid.shape(), output.dtype)));
      continue;
    }
    OwnedChunks chunks = owners.owned(output.owners, output.grid, runtime.rank());
    std::vector<std::shared_ptr<scheduler::StoredBlock>> blocks;
    for (int64_t i = 0; i < chunks.size(); ++i)
      blocks.push_back(
          std::make_shared<PlannedBlock>(output.grid.chunk_elements(chunks[i]) * local::itemsize(output.dtype)));
    results.push_back(std::make_shared<StoredArray>(output.dtype, output.grid, output.owners, std::move(chunks),
                                                    std::move(blocks), &runtime.executor()));
  }
  return results;
}

}  // namespace

std::vector<std::shared_ptr<StoredArray>> persist(const Nodes& nodes, std::string_view call, size_t to_host,
                                                  HostValues why) {
  if (const auto& instead = Runtime::current().internals().instead_of_running) {
    instead(nodes, /*write=*/false, /*last=*/to_host > 0 && why != HostValues::guessed);
    return planned_results(nodes, to_host);
  }
  if (const auto& saving = Runtime::current().internals().persist_saving) return saving(nodes, call, to_host, why);
  const BoundPlan kept = kept_plan(nodes);
  plan::Plan& plan = *kept.plan;
  plan.hash = plan.hash * 31 + to_host;
  check_host_values(std::span(nodes).first(to_host), why, {call, plan.hash, [&plan] { return title_of(plan); }});
  return execute(nodes, plan, sinks_of(plan, Sink::Kind::persist), call, to_host, /*states=*/nullptr, kept.tasks);
}

std::vector<std::shared_ptr<StoredArray>> persist_with_states(const Nodes& nodes, std::string_view call, size_t to_host,
                                                              HostValues why, const StatesOf& states) {
  plan::Plan plan = make_plan(nodes);
  plan.hash = plan.hash * 31 + to_host;
  check_host_values(std::span(nodes).first(to_host), why, {call, plan.hash, [&plan] { return title_of(plan); }});
  const std::unique_ptr<SavedStates> saved = states(plan);
  return execute(nodes, plan, sinks_of(plan, Sink::Kind::persist), call, to_host, saved.get());
}

std::string title_of(const plan::Plan& plan) {
  constexpr size_t kLongest = 120;
  std::string title;
  for (const plan::ArrayRef& result : plan.results) {
    if (result.kind != plan::ArrayRef::Kind::stage) continue;
    title += (title.empty() ? "" : ", ") + plan.stages[static_cast<size_t>(result.stage)].label;
  }
  return local::excerpt(title, kLongest);
}

}  // namespace quarry::exec
