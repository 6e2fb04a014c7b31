#include "quarry/chunked/exec/plan_owners.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/exec/product_places.h"

namespace quarry::exec {
namespace {

// Whether chunk i of the stage reads chunk i of the input and nothing else of it.
bool is_aligned(const plan::Input& input, const plan::Stage& stage) {
  if (input.array.kind != plan::ArrayRef::Kind::stage && input.array.kind != plan::ArrayRef::Kind::stored) return false;
  if (!input.is_box() || input.grid != stage.grid || !input.map.fixed.empty()) return false;
  for (size_t d = 0; d < input.map.axes.size(); ++d) {
    const auto& axis = input.map.axes[d];
    if (axis.source != static_cast<int>(d) || axis.start != 0 || axis.step != 1) return false;
  }
  return true;
}

// Of the inputs that chunks follow, those of most bytes; the first of equals.
Owners owners_of_inputs(const plan::Stage& stage) {
  std::vector<std::pair<Owners, int64_t>> found;
  for (const plan::Input* input : stage.reads()) {
    if (!is_aligned(*input, stage)) continue;
    const Owners& owners = owners_of(input->array);
    if (owners.kind == Owners::Kind::everywhere) continue;
    const auto same = std::ranges::find(found, owners, &std::pair<Owners, int64_t>::first);
    if (same == found.end()) {
      found.emplace_back(owners, local::itemsize(input->dtype));
    } else {
      same->second += local::itemsize(input->dtype);
    }
  }
  if (found.empty()) return Owners::blocks();
  return std::ranges::max_element(found, {}, &std::pair<Owners, int64_t>::second)->first;
}

Owners wanted(const plan::Stage& stage, const plan::Fused& /*fused*/) { return owners_of_inputs(stage); }
Owners wanted(const plan::Stage& /*stage*/, const plan::Assemble& /*assemble*/) { return Owners::blocks(); }
Owners wanted(const plan::Stage& stage, const plan::MatMul& /*product*/) {
  // The products of a stack are many already; a single tile belongs where other arrays of one chunk are.
  return stage.grid.ndim() == 2 && stage.grid.count() > 1 ? Owners::cyclic(0, 0) : Owners::blocks();
}
Owners wanted(const plan::Stage& /*stage*/, const plan::Applied& applied) {
  return applied.one_chunk || applied.call.outputs.empty() ? Owners::blocks() : applied.call.outputs[0].owners;
}

// Whether an output has the chunks of the stage's tasks.
bool is_chunkwise(const plan::Stage& stage, size_t output) {
  const auto* fused = std::get_if<plan::Fused>(&stage.work);
  return fused == nullptr || fused->per_chunk || output < fused->program.outputs().size();
}

}  // namespace

void settle_owners(plan::Plan& plan, const Ownership& ranks, const OwnerOptions& options) {
  const auto settle = [&](plan::ArrayRef& array) {
    if (array.kind != plan::ArrayRef::Kind::stage) return;
    array.owners = plan.stages[static_cast<size_t>(array.stage)].outputs[static_cast<size_t>(array.output)].owners;
  };
  for (plan::Stage& stage : plan.stages) {
    for (plan::Input* input : stage.reads()) settle(input->array);
    Owners owners = std::visit([&](const auto& work) { return wanted(stage, work); }, stage.work);
    if (tiles_follow_an_operand(stage, ranks)) owners = Owners::blocks();
    if (options.all) owners = *options.all;
    // Sums over chunks, and tiles, are made in one place.
    const auto* applied = std::get_if<plan::Applied>(&stage.work);
    bool is_tree = std::holds_alternative<plan::MatMul>(stage.work) || (applied && applied->op->is_program());
    for (size_t o = 0; o < stage.outputs.size(); ++o) is_tree |= !is_chunkwise(stage, o);
    if (is_tree && owners.kind == Owners::Kind::everywhere) owners = Owners::blocks();
    stage.owners = ranks.settled(owners, stage.grid);
    for (size_t o = 0; o < stage.outputs.size(); ++o)
      stage.outputs[o].owners = is_chunkwise(stage, o) ? stage.owners : Owners::blocks();
    if (auto* product = std::get_if<plan::MatMul>(&stage.work))
      product->ranks = choose_product_ranks(stage, ranks, options.memory_bytes, options.product_layers);
  }
  for (plan::ArrayRef& result : plan.results) settle(result);
}

}  // namespace quarry::exec
