#include "quarry/chunked/exec/lowering/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <climits>

#include "quarry/chunked/exec/lowering/copies.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

bool is_barrier(const plan::Stage& stage, int output) {
  if (const auto* fused = std::get_if<plan::Fused>(&stage.work))
    return output >= static_cast<int>(fused->program.outputs().size());
  return !std::holds_alternative<plan::Assemble>(stage.work);
}

std::vector<const plan::Input*> inputs_of(const plan::Stage& stage) {
  std::vector<const plan::Input*> inputs;
  if (const auto* fused = std::get_if<plan::Fused>(&stage.work)) {
    for (const plan::Input& input : fused->inputs) inputs.push_back(&input);
  } else if (const auto* assemble = std::get_if<plan::Assemble>(&stage.work)) {
    for (const auto& part : assemble->parts) inputs.push_back(&part.input);
  } else if (const auto* product = std::get_if<plan::MatMul>(&stage.work)) {
    if (!product->syrk) inputs.push_back(&product->a);
    inputs.push_back(&product->b);
  } else {
    inputs.push_back(&std::get<plan::Eigh>(stage.work).a);
  }
  return inputs;
}

Order::Order(const plan::Plan& plan, const std::vector<Sink>& sinks) : plan_(plan) {
  if (static_cast<int64_t>(plan.stages.size()) > kMostStages) {
    throw local::InvalidArgument(fmt::format("a plan of {} stages: at most {} run at a time; persist() arrays between",
                                             plan.stages.size(), kMostStages));
  }
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
  for (const plan::Input* input : inputs_of(stage(s))) {
    if (input->array.kind != plan::ArrayRef::Kind::stage) continue;
    const int from = input->array.stage;
    phase = std::max(phase, this->phase(from) + (is_barrier(stage(from), input->array.output) ? 1 : 0));
  }
  // An all-to-all copy is a barrier too: its first chunk needs nearly all of its input.
  if (std::holds_alternative<plan::Assemble>(stage(s).work) && latest_input(s, 0, phase) > kProgressEnd / 2) ++phase;
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
    const int phase = std::holds_alternative<plan::Assemble>(stage.work) ? -1 : phases_[s];
    for (const plan::Input* input : inputs_of(stage)) {
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
         !is_barrier(stage(input.array.stage), input.array.output);
}

int64_t Order::latest_in_phase(const plan::Input& input, const Region& box, int phase) {
  if (!waits(input, phase)) return 0;
  int64_t latest = 0;
  for (const Piece& piece : pieces(input.grid, input.map.region(box, input.shape.size())))
    latest = std::max(latest, progress(input.array.stage, piece.chunk));
  return latest;
}

int64_t Order::latest(int stage, const plan::Input& input, const Region& box) {
  return latest_in_phase(input, box, phase(stage));
}

// The latest progress of what chunk `chunk` of a streaming stage reads in `phase`.
int64_t Order::latest_input(int s, int64_t chunk, int phase) {
  const plan::Stage& stage = this->stage(s);
  int64_t latest = 0;
  if (const auto* fused = std::get_if<plan::Fused>(&stage.work)) {
    const Region box = stage.grid.chunk(chunk);
    for (const plan::Input& input : fused->inputs) latest = std::max(latest, latest_in_phase(input, box, phase));
  } else if (std::holds_alternative<plan::Assemble>(stage.work)) {
    for (const CopyPart& part : copy_parts(stage, chunk))
      latest = std::max(latest, latest_in_phase(*part.input, part.box, phase));
  }
  return latest;
}

int64_t Order::progress(int s, int64_t chunk) {
  const int64_t count = std::max<int64_t>(1, stage(s).grid.count());
  constexpr int64_t kShortDivision = int64_t{1} << 31;
  const int64_t own = chunk < kShortDivision ? (chunk << 32) / count
                                             : static_cast<int64_t>((static_cast<__int128>(chunk) << 32) / count);
  if (const auto* fused = std::get_if<plan::Fused>(&stage(s).work)) {
    const auto waiting = [&](const plan::Input& input) { return waits(input, phase(s)); };
    if (std::ranges::none_of(fused->inputs, waiting)) return own;
  }
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
