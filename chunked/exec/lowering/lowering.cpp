#include "quarry/chunked/exec/lowering/lowering.h"

#include <algorithm>
#include <optional>

#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {
namespace {

void lower_stage(Builder& builder) {
  std::visit([&](const auto& work) { lower_work(builder, work); }, builder.stage().work);
}

// Keeps or writes the own chunks of a result.
void lower_sink(Builder& builder, const Sink& sink) {
  Lowered& result = builder.result();
  result.persisted.emplace_back();
  QUARRY_CHECK(sink.array.kind == plan::ArrayRef::Kind::stage);
  builder.begin(sink.array.stage);
  const plan::Stage& stage = builder.stage();
  const auto& output = stage.outputs[static_cast<size_t>(sink.array.output)];
  int32_t number = -1;
  WriteBody* body = nullptr;
  if (sink.kind == Sink::Kind::write)
    std::tie(number, body) = builder.add_body<WriteBody>(output.grid, stage.label, builder.context().executor,
                                                         sink.whole, sink.scratch_bytes, sink.write);
  const bool late = stage.is_barrier(sink.array.output);
  // Encoding is work for all cores; threads that write files are fewer.
  const bool encodes = sink.scratch_bytes > 0 && builder.device().kind == local::DeviceKind::cpu;
  const scheduler::QueueKind queue = encodes ? scheduler::QueueKind::compute : scheduler::QueueKind::io;
  // Of chunks that every rank has, one writes each.
  const bool everywhere = output.owners.kind == Owners::Kind::everywhere;
  const Owners& owners = everywhere && sink.kind == Sink::Kind::write ? Owners::blocks() : output.owners;
  for (const int64_t chunk : builder.owned(owners, output.grid)) {
    if (sink.done && (*sink.done)[static_cast<size_t>(chunk)]) continue;
    const scheduler::BlockId block = builder.block(builder.key_of(sink.array, chunk));
    if (sink.kind == Sink::Kind::persist) {
      result.persisted.back().push_back(block);
      continue;
    }
    const int64_t bytes = output.grid.chunk_elements(chunk) * local::itemsize(output.dtype);
    const std::optional<int64_t> early = builder.complete_at(chunk);
    builder.add_task(scheduler::TaskKind::write, queue, number, chunk,
                     {early  ? *early
                      : late ? kProgressEnd
                             : builder.progress(chunk),
                      kSink},
                     {body->scratch_bytes(builder.device()), bytes}, {block}, {});
    builder.note_staging(
        [&](int64_t host_bytes) { return body->staging_bytes(chunk, local::itemsize(output.dtype), host_bytes); });
    result.write_bytes += bytes;
  }
}

// How long one task of each body is thought to take. A stage's work of this rank is shared by those of its tasks that
// compute; what is read, written and sent goes by its bytes.
void note_work(Lowered& lowered, const plan::Plan& plan, const LoweringContext& context,
               const std::vector<int64_t>& first_body) {
  using plan::Work;
  const plan::Rates& rates = *context.rates;
  const scheduler::Graph& graph = lowered.graph;
  const auto bodies = static_cast<size_t>(graph.body_count());
  lowered.work.resize(bodies);
  std::vector<int64_t> bytes(bodies, 0);
  std::vector<std::optional<Work::Kind>> moves(bodies);
  for (scheduler::TaskId id = 0; id < graph.task_count(); ++id) {
    const scheduler::Graph::Task& task = graph.task(id);
    const auto body = static_cast<size_t>(task.body);
    ++lowered.work[body].tasks;
    bytes[body] += task.traffic_bytes;
    switch (task.kind) {
      case scheduler::TaskKind::read:
        moves[body] = Work::Kind::read;
        break;
      case scheduler::TaskKind::write:
        moves[body] = Work::Kind::write;
        break;
      case scheduler::TaskKind::send:
      case scheduler::TaskKind::receive:
        moves[body] = Work::Kind::copy;
        break;
      case scheduler::TaskKind::decode:
      case scheduler::TaskKind::copy:
      case scheduler::TaskKind::compute:
      case scheduler::TaskKind::host:
        break;
    }
  }
  const double of_task = rates.seconds_per_unit({.kind = Work::Kind::task});
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto begin = static_cast<size_t>(first_body[s]), end = static_cast<size_t>(first_body[s + 1]);
    int64_t tasks = 0;
    for (size_t body = begin; body < end; ++body) {
      lowered.work[body].stage = static_cast<int>(s);
      if (!moves[body]) tasks += lowered.work[body].tasks;
    }
    if (tasks == 0) continue;
    const plan::Stage& stage = plan.stages[s];
    const int64_t own = context.owners.owned(stage.owners, stage.grid, context.rank).size();
    const double share = static_cast<double>(own) / static_cast<double>(std::max<int64_t>(stage.grid.count(), 1));
    const double seconds = share * plan::seconds_of(stage, rates) / static_cast<double>(tasks) + of_task;
    for (size_t body = begin; body < end; ++body)
      if (!moves[body]) lowered.work[body].seconds = seconds;
  }
  std::vector<double> work(bodies);
  for (size_t body = 0; body < bodies; ++body) {
    Lowered::BodyWork& of_body = lowered.work[body];
    if (moves[body] && of_body.tasks > 0) {
      of_body.seconds = of_task + static_cast<double>(bytes[body]) / static_cast<double>(of_body.tasks) *
                                      rates.seconds_per_unit({.kind = *moves[body]});
    }
    work[body] = of_body.seconds;
  }
  lowered.graph.set_work(std::move(work));
}

}  // namespace

double estimated_seconds(const Lowered& lowered, int threads) {
  double seconds = 0;
  for (const Lowered::BodyWork& body : lowered.work) {
    const int64_t rounds = (body.tasks + threads - 1) / threads;
    seconds += static_cast<double>(rounds) * body.seconds;
  }
  return seconds;
}

std::unique_ptr<Lowered> lower(const plan::Plan& plan, const std::vector<Sink>& sinks, const LoweringContext& context) {
  Builder builder(plan, sinks, context);
  if (context.states != nullptr) context.states->begin_lowering();
  std::vector<int64_t> first_body;  // of each stage, and behind the last one
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    builder.begin(static_cast<int>(s));
    first_body.push_back(builder.result().graph.body_count());
    lower_stage(builder);
  }
  first_body.push_back(builder.result().graph.body_count());
  for (const Sink& sink : sinks) lower_sink(builder, sink);
  std::unique_ptr<Lowered> lowered = builder.finish();
  if (context.rates != nullptr) note_work(*lowered, plan, context, first_body);
  return lowered;
}

}  // namespace quarry::exec
