// Elementwise work beside operators that make their chunks one by one (Operator::make_chunk) runs in their tasks.
//
// Prologue: a stage of elementwise work that only such operators read is computed there, for the boxes that a task
// needs, into the task's scratch. That is done where the boxes are little more than the array once (halos, but no lines
// that every chunk reads whole), where no chunk of a file is decoded again for them and no file is read in short runs,
// and, with several readers, by the rule of materialise.cpp: what is costly and small is computed once.
//
// Epilogue: elementwise work and reduction states over an operator's results, in the same chunks, are computed in the
// tasks that make them, if nobody else reads them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "quarry/chunked/plan/grouping.h"
#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

namespace {

// Who reads the outputs of a stage: input `input` of stage `stage`, over all that it reads.
struct Reader {
  int stage;
  const Input* input;
};
std::vector<std::vector<Reader>> readers_of(const Plan& plan) {
  std::vector<std::vector<Reader>> readers(plan.stages.size());
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const Input* input : plan.stages[s].reads())
      if (input->array.kind == ArrayRef::Kind::stage)
        readers[static_cast<size_t>(input->array.stage)].push_back({static_cast<int>(s), input});
  return readers;
}

bool is_identity(const Input& input) {
  return input.is_box() && input.map.fixed.empty() && input.map.axes == AccessMap::identity(input.shape.size()).axes;
}

const Applied* chunk_maker(const Stage& stage) {
  const auto* applied = std::get_if<Applied>(&stage.work);
  return applied != nullptr && applied->streams() && applied->op->makes_chunks() ? applied : nullptr;
}

// The argument that is the input itself, or -1.
int argument_of(const Applied& applied, const Input* input) {
  for (size_t i = 0; i < applied.inputs.size(); ++i)
    if (&applied.inputs[i] == input) return static_cast<int>(i);
  return -1;
}

int64_t cost_of(const local::Program& program) {
  int64_t cost = 0;
  for (const local::Value& value : program.values())
    if (value.kind == local::Value::Kind::op) cost += local::info(value.op).cost;
  return cost;
}

// Whether the boxes of an argument that the tasks need may be computed from `stage` one by one.
bool suits_boxes(const Applied& applied, int argument, const Stage& stage, const Fused& work) {
  constexpr int64_t kSampled = 256, kShortRun = 512;  // tasks; elements
  constexpr double kOnce = 1.25, kDecoded = 1.5, kFew = 0.1;
  bool reads_file = false, decodes = false;
  for (const Input& input : work.inputs) {
    if (input.array.kind != ArrayRef::Kind::dataset) continue;
    reads_file = true;
    decodes = decodes || !input.array.dataset->info().filters.empty();
  }
  const int64_t tasks = applied.call.outputs[0].grid.count(), step = std::max<int64_t>(tasks / kSampled, 1);
  const int last = stage.shape.size() - 1;
  double needed = 0, touched = 0, in_short_runs = 0;
  std::vector<op::Need> needs;
  for (int64_t task = 0; task < tasks; task += step) {
    needs.clear();
    applied.op->needs(applied.call, task, needs);
    for (const op::Need& need : needs) {
      if (need.argument != argument || need.box.elements() == 0) continue;
      const auto elements = static_cast<double>(need.box.elements());
      needed += elements;
      double around = 1;
      for (int d = 0; d <= last; ++d) {
        const AxisChunks& cuts = stage.grid.axis(d);
        const int64_t end = need.box.start[d] + need.box.count[d];
        around *= static_cast<double>(cuts.start(cuts.find(end - 1) + 1) - cuts.start(cuts.find(need.box.start[d])));
      }
      touched += around;
      if (last >= 0 && need.box.count[last] < std::min(kShortRun, stage.grid.axis(last).largest() / 2))
        in_short_runs += elements;
    }
  }
  const double size = static_cast<double>(local::element_count(stage.shape)) / static_cast<double>(step);
  if (needed > kOnce * size) return false;
  return (!decodes || touched <= kDecoded * size) && (!reads_file || in_short_runs <= kFew * size);
}

}  // namespace

void fuse_prologues(Draft& draft) {
  constexpr int64_t kExpensive = 64, kSmallBytes = int64_t{64} << 20;  // as in materialise.cpp
  Plan& plan = draft.plan;
  const std::vector<std::vector<Reader>> readers = readers_of(plan);
  int moved = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const auto* work = std::get_if<Fused>(&stage.work);
    if (work == nullptr || !work->reductions.empty() || !work->made.empty() || stage.outputs.size() != 1) continue;
    if (readers[s].empty() || is_result(plan, s) || local::element_count(stage.shape) == 0) continue;
    const int64_t bytes = local::element_count(stage.shape) * local::itemsize(stage.outputs[0].dtype);
    if (readers[s].size() > 1 && cost_of(work->program) > kExpensive && bytes <= kSmallBytes) continue;
    const auto suits = [&](const Reader& reader) {
      const Applied* applied = chunk_maker(plan.stages[static_cast<size_t>(reader.stage)]);
      if (applied == nullptr || !is_identity(*reader.input)) return false;
      const int argument = argument_of(*applied, reader.input);
      return argument >= 0 && suits_boxes(*applied, argument, stage, *work);
    };
    if (!std::ranges::all_of(readers[s], suits)) continue;
    for (const Reader& reader : readers[s]) {
      auto& applied = std::get<Applied>(plan.stages[static_cast<size_t>(reader.stage)].work);
      applied.prologues.resize(applied.inputs.size());
      applied.prologues[static_cast<size_t>(argument_of(applied, reader.input))] = *work;
    }
    ++moved;
  }
  if (moved == 0) return;
  drop_unread(plan);
  draft.did = fmt::format("{} elementwise stage{} run{} in the tasks of the operators that read {}", moved,
                          moved == 1 ? "" : "s", moved == 1 ? "s" : "", moved == 1 ? "it" : "them");
}

void fuse_epilogues(Draft& draft) {
  Plan& plan = draft.plan;
  const std::vector<std::vector<Reader>> readers = readers_of(plan);
  int moved = 0;
  for (size_t m = 0; m < plan.stages.size(); ++m) {
    const Applied* applied = chunk_maker(plan.stages[m]);
    if (applied == nullptr || readers[m].empty() || is_result(plan, m)) continue;
    const int reader = readers[m][0].stage;
    Stage& stage = plan.stages[static_cast<size_t>(reader)];
    auto* fused = std::get_if<Fused>(&stage.work);
    if (fused == nullptr || local::element_count(stage.shape) == 0) continue;
    const auto fits = [&](const Reader& each) {
      return each.stage == reader && is_identity(*each.input) && each.input->grid == stage.grid &&
             std::ranges::any_of(fused->inputs, [&](const Input& input) { return &input == each.input; });
    };
    // What is read from a file while it is computed on has no whole chunks.
    const auto streams = [&](const Input& input) {
      return input.array.kind == ArrayRef::Kind::dataset &&
             local::element_count(input.shape) >= local::element_count(stage.shape);
    };
    if (!std::ranges::all_of(readers[m], fits) || std::ranges::any_of(fused->inputs, streams)) continue;
    const auto number = static_cast<int>(fused->made.size());
    fused->made.push_back(std::make_shared<Applied>(*applied));
    for (const Reader& each : readers[m]) {
      const auto at = each.input - fused->inputs.data();
      Input& input = fused->inputs[static_cast<size_t>(at)];
      input.array.kind = ArrayRef::Kind::made;
      input.array.stage = number;
    }
    ++moved;
  }
  if (moved == 0) return;
  drop_unread(plan);
  draft.did = fmt::format("{} operator{} hand{} results to the work behind {} in the same task", moved,
                          moved == 1 ? "" : "s", moved == 1 ? "s" : "", moved == 1 ? "it" : "them");
}

}  // namespace quarry::plan
