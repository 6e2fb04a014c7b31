// From the logical graph to stages.
//
// Every reduction, matrix product, reshape, concatenation, requested array and chosen intermediate is a *planned array*
// (planned_arrays.h). A fused one is an expression over a space: walking from it down to stored arrays composes one
// affine map per array (node_map.h). Those over the same space, chunks and reduced axes that read a common array and
// do not depend on each other become one stage (grouping.h), which reads its inputs once.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "quarry/chunked/expr/node_table.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/chunked/plan/planned_arrays.h"
#include "quarry/local/base/error.h"

namespace quarry::plan {

namespace {

using expr::View;
using local::DType;

// Emits expressions over a space into one program; what they share is computed once.
class Emitter {
 public:
  Emitter(PlannedArrays& arrays, Fused& fused, const Grid& grid) : arrays_(arrays), fused_(fused), grid_(grid) {}

  // The value of a node; `top`: computed even if it has storage, since this is where that is made.
  local::ValueId emit(const NodePtr& node, const NodeMap& map, bool top = false) {
    for (const auto& [asked, value] : memo_[*node])
      if (asked == map) return value;
    const local::ValueId value = compute(node, map, top);
    memo_[*node].emplace_back(map, value);
    return value;
  }

  // The C-order position along the reduced axes.
  local::ValueId position(uint32_t axes) {
    int64_t stride = 1;
    local::ValueId sum = -1;
    for (int d = grid_.ndim() - 1; d >= 0; --d) {
      if (!(axes >> d & 1)) continue;
      local::ValueId term = fused_.program.index(d);
      if (stride != 1) term = fused_.program.apply("multiply"_op, std::array{term, constant(stride)});
      sum = sum < 0 ? term : fused_.program.apply("add"_op, std::array{term, sum});
      stride *= std::max<int64_t>(grid_.axis(d).extent(), 1);
    }
    return sum < 0 ? constant(0) : sum;
  }

 private:
  local::ValueId compute(const NodePtr& node, const NodeMap& map, bool top) {
    if (arrays_.is_stored_whole(*node) && !(top && arrays_.is_materialised(*node))) {
      Input value = arrays_.array_of(node);
      value.map = access_map(map, grid_.ndim());
      return input(std::move(value));
    }
    if (const auto* n = node->as<expr::Constant>()) return fused_.program.constant(n->value, node->dtype);
    if (const auto* n = node->as<expr::Index>()) return index(map[static_cast<size_t>(n->axis)]);
    if (const auto* n = node->as<View>()) return emit(n->arg, viewed_map(*n, map));
    if (const auto* n = node->as<expr::Rechunk>()) return emit(n->arg, map);
    const auto* n = node->as<expr::Elementwise>();
    QUARRY_CHECK(n);
    std::vector<local::ValueId> args;
    args.reserve(n->args.size());
    for (const NodePtr& arg : n->args) args.push_back(emit(arg, argument_map(*node, *arg, map)));
    if (n->op == "cast"_op) return fused_.program.cast(args[0], node->dtype);
    return fused_.program.apply(n->op, args, n->loop);
  }

  local::ValueId constant(int64_t value) { return fused_.program.constant(local::Scalar(value), DType::int64); }

  local::ValueId index(const NodeAxis& axis) {
    if (axis.space < 0) return constant(axis.start);
    local::ValueId value = fused_.program.index(axis.space);
    if (axis.step != 1) value = fused_.program.apply("multiply"_op, std::array{value, constant(axis.step)});
    if (axis.start != 0) value = fused_.program.apply("add"_op, std::array{value, constant(axis.start)});
    return value;
  }

  // The program's input that reads an array as mapped.
  local::ValueId input(Input value) {
    value = arrays_.fitted(value, grid_);
    for (size_t i = 0; i < fused_.inputs.size(); ++i)
      if (same_array(fused_.inputs[i].array, value.array) && same_map(fused_.inputs[i].map, value.map))
        return slots_[i];
    const bool swapped = value.array.kind == ArrayRef::Kind::dataset && value.array.dataset->info().swapped;
    slots_.push_back(fused_.program.input(value.dtype, swapped));
    fused_.inputs.push_back(std::move(value));
    return slots_.back();
  }

  PlannedArrays& arrays_;
  Fused& fused_;
  const Grid& grid_;
  expr::NodeTable<std::vector<std::pair<NodeMap, local::ValueId>>> memo_;
  std::vector<local::ValueId> slots_;  // per input of the stage
};

// Output number `output` of stage `stage` is what a planned array makes first.
struct StageOutput {
  int stage = -1, output = 0;
};

// Stage number `number` of the arrays in `group`, elementwise outputs first.
Stage fused_stage(PlannedArrays& arrays, const std::vector<int>& group, int number,
                  std::vector<StageOutput>& stage_outputs) {
  const auto planned_of = [&](int member) -> const PlannedArray& { return arrays.all()[static_cast<size_t>(member)]; };
  Stage stage;
  stage.grid = planned_of(group[0]).grid;
  stage.shape = stage.grid.shape();
  Fused fused;
  Emitter emitter(arrays, fused, stage.grid);
  const NodeMap identity = identity_map(stage.grid.ndim());
  for (const PlannedArray::Kind kind : {PlannedArray::Kind::output, PlannedArray::Kind::reduction}) {
    for (const int member : group) {
      const PlannedArray& planned = planned_of(member);
      if (planned.kind != kind) continue;
      stage_outputs[static_cast<size_t>(member)] = {number, static_cast<int>(stage.outputs.size())};
      stage.outputs.push_back(planned.outputs[0]);
      if (stage.label.size() < kLabelLength) {
        if (!stage.label.empty()) stage.label += "; ";
        stage.label += expr::to_string(planned.node, kLabelLength - stage.label.size());
      }
      if (kind == PlannedArray::Kind::output) {
        fused.program.output(emitter.emit(planned.node, identity, /*top=*/true));
        continue;
      }
      const auto* reduce = planned.node->as<expr::Reduce>();
      std::vector<local::ValueId> args{emitter.emit(reduce->arg, identity)};
      if (local::info(reduce->reduction).has_position) args.push_back(emitter.position(reduce->axes));
      fused.reduce_axes = reduce->axes;
      fused.per_chunk = planned.per_chunk;
      fused.reductions.push_back(
          {static_cast<int>(fused.program.reductions().size()), reduce->ddof, planned.node->dtype});
      fused.program.reduce(reduce->reduction, args, reduce->accumulate);
    }
  }
  fused.program.keep_key();
  stage.work = std::move(fused);
  return stage;
}

// Arrays of kind stage name planned arrays: makes them name stages.
void settle(ArrayRef& array, const std::vector<StageOutput>& stage_outputs) {
  if (array.kind != ArrayRef::Kind::stage) return;
  const StageOutput& made = stage_outputs[static_cast<size_t>(array.stage)];
  array.stage = made.stage;
  array.output += made.output;
}

}  // namespace

void make_stages(Draft& draft) {
  PlannedArrays& arrays = *draft.arrays;
  Plan& plan = draft.plan;
  std::vector<StageOutput> stage_outputs(arrays.all().size());
  for (const std::vector<int>& group : draft.groups) {
    const PlannedArray& first = arrays.all()[static_cast<size_t>(group[0])];
    const int number = static_cast<int>(plan.stages.size());
    if (first.kind != PlannedArray::Kind::other) {
      plan.stages.push_back(fused_stage(arrays, group, number, stage_outputs));
      continue;
    }
    Stage stage = *first.stage;
    stage.outputs = first.outputs;
    stage.shape = first.outputs[0].shape;
    stage.grid = first.outputs[0].grid;
    stage_outputs[static_cast<size_t>(group[0])] = {number, 0};
    plan.stages.push_back(std::move(stage));
  }
  QUARRY_CHECK(stage_outputs.size() == arrays.all().size());  // making stages planned no more arrays
  for (Stage& stage : plan.stages) {
    stage.device = draft.options.device;
    for (Input* input : stage.reads()) settle(input->array, stage_outputs);
  }
  for (const Input& result : arrays.results()) {
    plan.results.push_back(result.array);
    settle(plan.results.back(), stage_outputs);
  }
  plan.hash = 0x51ab3c1du + static_cast<uint64_t>(draft.room);
  for (const NodePtr& root : draft.roots) plan.hash = (plan.hash ^ root->hash) * 0x9e3779b97f4a7c15u + 1;
}

}  // namespace quarry::plan
