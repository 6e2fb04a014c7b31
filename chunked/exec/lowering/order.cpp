#include "quarry/chunked/exec/lowering/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <type_traits>
#include <variant>

#include "quarry/chunked/exec/lowering/copies.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

void check_stage_count(size_t stages) {
  if (static_cast<int64_t>(stages) <= kMostStages) return;
  throw local::InvalidArgument(
      fmt::format("a plan of {} stages: at most {} run at a time; persist() arrays between", stages, kMostStages));
}

namespace {

// Whether a chunk may read chunks anywhere.
bool gathers(const plan::Stage& stage) {
  const auto* applied = std::get_if<plan::Applied>(&stage.work);
  if (const auto* fused = std::get_if<plan::Fused>(&stage.work))
    return !fused->made.empty() || std::ranges::any_of(fused->inputs, &plan::Input::is_window);
  return std::holds_alternative<plan::Assemble>(stage.work) || (applied != nullptr && applied->streams());
}

bool is_program(const plan::Stage& stage) {
  const auto* applied = std::get_if<plan::Applied>(&stage.work);
  return applied != nullptr && applied->op->is_program() && !applied->one_chunk;
}

}  // namespace

Order::Order(const plan::Plan& plan, const std::vector<Sink>& sinks) : plan_(plan) {
  check_stage_count(plan.stages.size());
  progress_.resize(plan.stages.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) phases_.push_back(find_phase(static_cast<int>(s)));
  delay_operands(sinks);
  // A stage begins at most one phase more than there were before it, so phases need no more bits than stages.
  stage_bits_ = std::bit_width(std::max<size_t>(plan.stages.size(), 1) - 1);
  progress_bits_ = std::min(kProgressBits, 63 - kDepthBits - 2 * stage_bits_);
  for (const int phase : phases_) QUARRY_CHECK(phase >= 0 && phase >> stage_bits_ == 0);
}

int Order::find_phase(int s) {
  int phase = 0;
  const bool program = is_program(stage(s));
  for (const plan::Input* input : stage(s).reads()) {
    if (input->array.kind != plan::ArrayRef::Kind::stage) continue;
    const int from = input->array.stage;
    phase = std::max(phase, this->phase(from) + (program || stage(from).is_barrier(input->array.output) ? 1 : 0));
  }
  // An all-to-all copy is a barrier too: its first chunk needs nearly all of its input.
  if (gathers(stage(s)) && latest_input(s, 0, phase) > kProgressEnd / 2) ++phase;
  return phase;
}

// A stage whose chunks are wanted in a later phase only is run there: its chunks would have to be kept until then (z in
// z @ vectors, of which the plan has a second copy beside the one in z.T @ z). Not before all-to-all copies: those want
// their input finished.
void Order::delay_operands(const std::vector<Sink>& sinks) {
  std::vector<int> wanted(plan_.stages.size(), INT_MAX);
  for (const Sink& sink : sinks)
    if (sink.array.kind == plan::ArrayRef::Kind::stage) wanted[static_cast<size_t>(sink.array.stage)] = -1;
  for (size_t s = plan_.stages.size(); s-- > 0;) {
    const plan::Stage& stage = plan_.stages[s];
    const auto* fused = std::get_if<plan::Fused>(&stage.work);
    if (fused && fused->reductions.empty() && wanted[s] != INT_MAX) phases_[s] = std::max(phases_[s], wanted[s]);
    const int phase = gathers(stage) || is_program(stage) ? -1 : phases_[s];
    for (const plan::Input* input : stage.reads()) {
      if (input->array.kind != plan::ArrayRef::Kind::stage) continue;
      int& other = wanted[static_cast<size_t>(input->array.stage)];
      other = std::min(other, phase);
    }
  }
  for (auto& memo : progress_) memo.clear();
}

// Whether the chunks of a stage wait for others of their phase.
bool Order::waits(const plan::Input& input, int phase) const {
  return input.array.kind == plan::ArrayRef::Kind::stage && this->phase(input.array.stage) == phase &&
         !stage(input.array.stage).is_barrier(input.array.output);
}

int64_t Order::latest_in_phase(const plan::Input& input, const Region& box, int phase) {
  if (!waits(input, phase)) return 0;
  int64_t latest = 0;
  const auto look = [&](const Region& part) {
    for (const ChunkRegion& overlap : chunk_regions(input.grid, input.region(part)))
      latest = std::max(latest, progress(input.array.stage, overlap.chunk));
  };
  if (input.map.beside.empty())
    look(box);
  else
    std::ranges::for_each(parts_of(input, box), look);
  return latest;
}

int64_t Order::latest(int stage, const plan::Input& input, const Region& box) {
  return latest_in_phase(input, box, phase(stage));
}

// The latest progress of what chunk `chunk` of a streaming stage reads in `phase`.
int64_t Order::latest_input(int s, int64_t chunk, int phase) {
  const plan::Stage& stage = this->stage(s);
  int64_t latest = 0;
  const auto look = [&](const plan::Input& input, const Region& box) {
    latest = std::max(latest, latest_in_phase(input, box, phase));
  };
  const auto look_at_needs = [&](const plan::Applied& work) {
    std::vector<op::Need> needs;
    work.op->needs(work.call, chunk, needs);
    for (const op::Need& need : needs) {
      if (const plan::Fused* prologue = work.prologue(need.argument))
        for (const plan::Input& input : prologue->inputs) look(input, need.box);
      else
        look(work.inputs[static_cast<size_t>(need.argument)], need.box);
    }
  };
  const auto look_at_chunk = [&](const auto& work) {
    using Work = std::decay_t<decltype(work)>;
    if constexpr (std::is_same_v<Work, plan::Fused>) {
      const Region box = stage.grid.chunk(chunk);
      for (const plan::Input& input : work.inputs) look(input, box);
      for (const auto& made : work.made) look_at_needs(*made);
    } else if constexpr (std::is_same_v<Work, plan::Assemble>) {
      look(work.input, stage.grid.chunk(chunk));
    } else if constexpr (std::is_same_v<Work, plan::Applied>) {
      if (work.streams()) look_at_needs(work);
    } else {
      static_assert(!Work::kStreams, "what do the chunks of this kind of stage read?");
    }
  };
  std::visit(look_at_chunk, stage.work);
  return latest;
}

bool Order::waits_for_none(int s) const {
  const auto* fused = std::get_if<plan::Fused>(&stage(s).work);
  if (fused == nullptr) return false;
  const auto waiting = [&](const plan::Input* input) { return waits(*input, phase(s)); };
  return std::ranges::none_of(fused->inputs, waiting, [](const plan::Input& input) { return &input; }) &&
         (fused->made.empty() || std::ranges::none_of(fused->reads(), waiting));
}

int64_t Order::progress(int s, int64_t chunk) {
  const int64_t count = std::max<int64_t>(1, stage(s).grid.count());
  constexpr int64_t kShortDivision = int64_t{1} << 31;
  const int64_t own = chunk < kShortDivision ? (chunk << 32) / count
                                             : static_cast<int64_t>((static_cast<__int128>(chunk) << 32) / count);
  if (waits_for_none(s)) return own;
  auto& memo = progress_[static_cast<size_t>(s)];
  if (const auto found = memo.find(chunk); found != memo.end()) return found->second;
  const int64_t value = std::max(own, latest_input(s, chunk, phase(s)));
  memo.emplace(chunk, value);
  return value;
}

int64_t Order::position(int stage, int64_t progress, int64_t depth) const {
  QUARRY_CHECK(progress >= 0 && progress <= kProgressEnd && depth >= 0 && depth < kDepthsPerStage);
  int64_t position = phase(stage);
  position = position << progress_bits_ | progress >> (kProgressBits - progress_bits_);
  position = position << stage_bits_ | stage;
  return position << kDepthBits | depth;
}

}  // namespace quarry::exec
