#include "tests/support/evaluate.h"

#include <cmath>
#include <cstring>
#include <unordered_map>

#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/runtime/host_value.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/program/engine.h"

namespace quarry::testing {

using local::Dims;
using local::DType;
using local::NdArray;
using local::Region;

namespace {

NdArray read_whole(const io::Dataset& dataset) {
  NdArray array(dataset.info().shape, dataset.info().dtype);
  dataset.read(Region::whole(dataset.info().shape), array.raw(), {});
  return array;
}

// Element x of the result is array[m(x)].
NdArray mapped(const NdArray& array, const std::vector<expr::View::Axis>& axes,
               const std::vector<std::pair<int, int64_t>>& fixed, const Dims& shape,
               const std::vector<std::pair<int, expr::View::Axis>>& beside = {}) {
  Dims strides = Dims::filled(shape.size());
  int64_t offset = array.offset();
  if (local::element_count(shape) > 0) {
    for (int d = 0; d < shape.size(); ++d) {
      const auto& axis = axes[static_cast<size_t>(d)];
      if (axis.source < 0) continue;
      strides[d] = array.strides()[axis.source] * axis.step;
      offset += array.strides()[axis.source] * axis.start;
    }
    for (const auto& [d, axis] : beside) {
      strides[d] += array.strides()[axis.source] * axis.step;
      offset += array.strides()[axis.source] * axis.start;
    }
    for (const auto& [axis, position] : fixed) offset += array.strides()[axis] * position;
  }
  return array.restrided(shape, strides, offset);
}

NdArray box_of(const NdArray& array, const Region& box) {
  std::vector<expr::View::Axis> axes;
  for (int d = 0; d < box.ndim(); ++d) axes.push_back({d, box.start[d], 1});
  return mapped(array, axes, {}, box.count);
}

class NodeEvaluator {
 public:
  NdArray value(const expr::NodePtr& node) {
    for (const expr::NodePtr& below : expr::topological(std::span(&node, 1)))
      if (!values_.contains(below.get())) values_.emplace(below.get(), compute(*below));
    return values_.at(node.get());
  }

 private:
  NdArray at(const expr::NodePtr& node) const { return values_.at(node.get()); }

  NdArray compute(const expr::Node& node) {
    if (const auto* n = node.as<expr::Source>()) return read_whole(*n->dataset);
    if (const auto* n = node.as<expr::Stored>()) return exec::host_value(*n->array);
    if (const auto* n = node.as<expr::Constant>()) {
      NdArray array(node.shape, node.dtype);
      array.fill(n->value);
      return array;
    }
    if (const auto* n = node.as<expr::Index>()) {
      std::vector<int64_t> positions;
      for (int64_t i = 0; i < node.shape[n->axis]; ++i) positions.push_back(i);
      Dims shape = Dims::filled(node.shape.size(), 1);
      shape[n->axis] = node.shape[n->axis];
      return local::from_bytes(positions.data(), DType::int64, shape).broadcast_to(node.shape).copy();
    }
    if (const auto* n = node.as<expr::Elementwise>()) {
      if (n->op == "cast"_op) return at(n->args[0]).astype(node.dtype);
      std::vector<NdArray> arrays;
      for (const auto& arg : n->args) arrays.push_back(at(arg));
      const std::vector<local::Arg> args(arrays.begin(), arrays.end());
      return local::apply(n->op, std::span<const local::Arg>(args), n->loop);
    }
    if (const auto* n = node.as<expr::Reduce>()) {
      std::vector<int64_t> axes;
      for (int d = 0; d < n->arg->shape.size(); ++d)
        if (n->axes >> d & 1) axes.push_back(d);
      local::ReduceOptions options;
      options.ddof = n->ddof;
      if (n->accumulate != local::accumulate_dtype(n->reduction, n->arg->dtype)) options.dtype = n->accumulate;
      if (n->chunks) {
        options.keepdims = true;
        NdArray folds(node.shape, node.dtype);
        for (int64_t i = 0; i < n->chunks->count(); ++i) {
          const NdArray chunk = box_of(at(n->arg), n->chunks->chunk(i));
          box_of(folds, node.grid.chunk(i)).assign(local::reduce(n->reduction, chunk, local::Axes(axes), options));
        }
        return folds;
      }
      const bool all = static_cast<int>(axes.size()) == n->arg->shape.size();
      return local::reduce(n->reduction, at(n->arg), all ? local::Axes() : local::Axes(axes), options);
    }
    if (const auto* n = node.as<expr::View>()) return mapped(at(n->arg), n->axes, n->fixed, node.shape, n->beside);
    if (const auto* n = node.as<expr::Rechunk>()) return at(n->arg);
    if (const auto* n = node.as<expr::MatMul>()) {
      const NdArray b = at(n->b());
      if (!n->syrk) return local::linalg::matmul(at(n->a()), b);
      return local::linalg::matmul(local::apply("conjugate"_op, {b.T()}), b);
    }
    if (const auto* n = node.as<expr::Apply>()) return applied(*n)[0];
    const auto* n = node.as<expr::Item>();
    return applied(*n->arg->as<expr::Apply>())[static_cast<size_t>(n->output)];
  }

  std::vector<NdArray> applied(const expr::Apply& node) const {
    std::vector<NdArray> args;
    for (const auto& arg : node.args) args.push_back(at(arg));
    return node.op->local(args);
  }

  std::unordered_map<const expr::Node*, NdArray> values_;
};

// The chunk of the grid that holds the whole region.
void check_inside_one_chunk(const plan::Input& input, const Region& region) {
  if (input.array.kind == plan::ArrayRef::Kind::dataset || region.elements() == 0) return;
  QUARRY_CHECK(input.grid.shape() == input.shape);
  for (int d = 0; d < region.ndim(); ++d) {
    const int64_t last = region.start[d] + region.step[d] * (region.count[d] - 1);
    QUARRY_CHECK(input.grid.axis(d).find(region.start[d]) == input.grid.axis(d).find(last));
  }
}

class PlanEvaluator {
 public:
  std::vector<NdArray> run(const plan::Plan& plan) {
    for (const plan::Stage& stage : plan.stages) {
      std::vector<NdArray> outputs;
      for (const auto& output : stage.outputs) {
        QUARRY_CHECK(output.grid.shape() == output.shape);
        outputs.emplace_back(output.shape, output.dtype);
      }
      outputs_.push_back(outputs);
      if (const auto* fused = std::get_if<plan::Fused>(&stage.work)) {
        run_fused(stage, *fused, outputs);
      } else if (const auto* assemble = std::get_if<plan::Assemble>(&stage.work)) {
        run_assemble(stage, *assemble, outputs[0]);
      } else if (const auto* product = std::get_if<plan::MatMul>(&stage.work)) {
        run_product(stage, *product, outputs[0]);
      } else {
        run_applied(std::get<plan::Applied>(stage.work), outputs);
      }
    }
    std::vector<NdArray> results;
    for (const plan::ArrayRef& result : plan.results) results.push_back(array(result));
    return results;
  }

 private:
  NdArray array(const plan::ArrayRef& ref) {
    switch (ref.kind) {
      case plan::ArrayRef::Kind::stage:
        return outputs_[static_cast<size_t>(ref.stage)][static_cast<size_t>(ref.output)];
      case plan::ArrayRef::Kind::dataset:
        return read_whole(*ref.dataset);
      case plan::ArrayRef::Kind::stored:
        return exec::host_value(*ref.stored);
      case plan::ArrayRef::Kind::made:
        return made_[static_cast<size_t>(ref.stage)][static_cast<size_t>(ref.output)];
    }
    __builtin_unreachable();
  }

  // The input over a space of `shape`.
  NdArray whole(const plan::Input& input, const Dims& shape) {
    const NdArray base = array(input.array);
    QUARRY_CHECK(base.shape() == input.shape && base.dtype() == input.dtype);
    QUARRY_CHECK(static_cast<int>(input.map.axes.size()) == shape.size());
    return mapped(base, input.map.axes, input.map.fixed, shape, input.map.beside);
  }

  // The input number `slot` of a fused program over the space.
  NdArray slot_value(const plan::Fused& fused, int slot, const Dims& shape) {
    const plan::Fused::Slot from = fused.slot(slot);
    plan::Input input = fused.inputs[static_cast<size_t>(from.input)];
    if (!input.is_window()) {
      QUARRY_CHECK(from.offset.size() == 0);
      return whole(input, shape);
    }
    for (int d = 0; d < from.offset.size(); ++d) {
      QUARRY_CHECK(from.offset[d] >= 0 && from.offset[d] <= input.reach[d] && from.offset[d] % input.pitch[d] == 0);
    }
    for (auto& axis : input.map.axes)
      if (axis.source >= 0) axis.start += from.offset[axis.source];
    for (auto& [axis, position] : input.map.fixed) position += from.offset[axis];
    return whole(input, shape);
  }

  static local::Operand operand(const NdArray& array) { return {array.raw(), array.strides()}; }

  void run_applied(const plan::Applied& applied, std::vector<NdArray>& outputs) {
    std::vector<NdArray> args;
    for (size_t i = 0; i < applied.inputs.size(); ++i) {
      const Dims& shape = applied.call.arguments[i].shape;
      const plan::Fused* prologue = applied.prologue(static_cast<int>(i));
      if (prologue == nullptr) {
        args.push_back(whole(applied.inputs[i], shape));
        continue;
      }
      std::vector<NdArray> inputs;
      for (int slot = 0; slot < prologue->program.inputs(); ++slot)
        inputs.push_back(slot_value(*prologue, slot, shape));
      args.push_back(run_program(prologue->program, inputs, shape)[0]);
    }
    applied.op->local_into(args, outputs);
  }

  void run_fused(const plan::Stage& stage, const plan::Fused& fused, std::vector<NdArray>& outputs) {
    made_.clear();
    for (const auto& applied : fused.made) {
      std::vector<NdArray> made;
      for (const op::ArraySpec& output : applied->call.outputs) made.emplace_back(output.shape, output.dtype);
      QUARRY_CHECK(applied->call.outputs[0].grid.count() == stage.grid.count());
      run_applied(*applied, made);
      made_.push_back(std::move(made));
    }
    local::Engine& engine = local::engine(local::kCpu);
    const local::ExecContext& context = local::current_context();
    std::vector<NdArray> inputs;
    for (int slot = 0; slot < fused.program.inputs(); ++slot) inputs.push_back(slot_value(fused, slot, stage.shape));
    QUARRY_CHECK(fused.program.outputs().size() + fused.reductions.size() == outputs.size());
    // States of each kept chunk so far, by reduction and field.
    std::unordered_map<int64_t, std::vector<std::vector<NdArray>>> states;
    std::vector<AxisChunks> kept_axes;
    for (int d = 0; d < stage.grid.ndim(); ++d)
      if (!(fused.reduce_axes >> d & 1)) kept_axes.push_back(stage.grid.axis(d));
    const Grid kept_grid(kept_axes);
    for (int64_t i = 0; i < stage.grid.count(); ++i) {
      const Region box = stage.grid.chunk(i);
      local::Launch launch;
      launch.shape = box.count;
      launch.index_offset = box.start;
      launch.reduce_axes = fused.reduce_axes;
      for (size_t k = 0; k < inputs.size(); ++k) {
        const plan::Input& input = fused.inputs[static_cast<size_t>(fused.slot(static_cast<int>(k)).input)];
        if (!input.is_window()) check_inside_one_chunk(input, input.region(box));
        launch.inputs.push_back(operand(box_of(inputs[k], box)));
      }
      for (size_t k = 0; k < fused.program.outputs().size(); ++k)
        launch.outputs.push_back(operand(box_of(outputs[k], box)));
      Dims kept, kept_at;
      const Dims at = stage.grid.coordinates(i);
      for (int d = 0; d < box.ndim(); ++d) {
        if (fused.reduce_axes >> d & 1) continue;
        kept.push_back(box.count[d]);
        kept_at.push_back(at[d]);
      }
      std::vector<std::vector<NdArray>> part;
      for (const auto& reduction : fused.program.reductions()) {
        part.emplace_back();
        for (DType dtype : local::state_dtypes(reduction.reduction, reduction.accumulate)) {
          part.back().emplace_back(kept, dtype);
          Dims strides;
          for (int d = 0, k = 0; d < box.ndim(); ++d)
            strides.push_back(fused.reduce_axes >> d & 1 ? 0 : part.back().back().strides()[k++]);
          launch.states.push_back({part.back().back().raw(), strides});
        }
      }
      engine.run(fused.program, launch, context);
      if (part.empty()) continue;
      if (fused.per_chunk) {
        for (size_t r = 0; r < part.size(); ++r) {
          NdArray& output = outputs[fused.program.outputs().size() + r];
          const NdArray to = box_of(output, stage.outputs[fused.program.outputs().size() + r].grid.chunk(i));
          to.assign(finalized(fused, r, part[r], kept).reshape(to.shape()));
        }
        continue;
      }
      auto& known = states[kept_grid.flat(kept_at)];
      if (known.empty()) {
        known = part;
        continue;
      }
      for (size_t r = 0; r < part.size(); ++r) {
        const auto& reduction = fused.program.reductions()[r];
        std::vector<NdArray> fields = known[r];
        fields.insert(fields.end(), part[r].begin(), part[r].end());
        known[r] = run_program(local::combine_program(reduction.reduction, reduction.accumulate), fields, kept);
      }
    }
    for (auto& [chunk, fields] : states) {
      const Region box = kept_grid.chunk(chunk);
      for (size_t r = 0; r < fields.size(); ++r) {
        box_of(outputs[fused.program.outputs().size() + r], box).assign(finalized(fused, r, fields[r], box.count));
      }
    }
  }

  NdArray finalized(const plan::Fused& fused, size_t number, const std::vector<NdArray>& fields, const Dims& shape) {
    const auto& output = fused.reductions[number];
    const auto& reduction = fused.program.reductions()[static_cast<size_t>(output.reduction)];
    const local::Program finalize =
        local::finalize_program(reduction.reduction, reduction.accumulate, output.ddof, output.dtype);
    return run_program(finalize, fields, shape)[0];
  }

  std::vector<NdArray> run_program(const local::Program& program, const std::vector<NdArray>& inputs,
                                   const Dims& shape) {
    local::Launch launch;
    launch.shape = shape;
    for (const NdArray& input : inputs) launch.inputs.push_back(operand(input));
    std::vector<NdArray> results;
    for (local::ValueId output : program.outputs()) results.emplace_back(shape, program.dtype(output));
    for (const NdArray& result : results) launch.outputs.push_back(operand(result));
    local::engine(local::kCpu).run(program, launch, local::current_context());
    return results;
  }

  void run_assemble(const plan::Stage& stage, const plan::Assemble& assemble, NdArray& output) {
    output.assign(whole(assemble.input, stage.shape));
  }

  // The cuts of a product's operand over the matrix axes.
  static AxisChunks cuts(const plan::Input& input, int axis, int64_t extent) {
    const auto& mapped_axis = input.map.axes[static_cast<size_t>(axis)];
    if (mapped_axis.source < 0) return AxisChunks(extent, 1);
    QUARRY_CHECK(mapped_axis.start == 0 && mapped_axis.step == 1);
    return input.grid.axis(mapped_axis.source);
  }

  void run_product(const plan::Stage& stage, const plan::MatMul& product, NdArray& output) {
    const int nd = stage.shape.size();
    Dims b_shape = stage.shape, a_shape = stage.shape;
    const int64_t k = product.b.shape[product.b.map.axes[static_cast<size_t>(nd) - 2].source];
    b_shape[nd - 2] = a_shape[nd - 1] = k;
    for (const plan::Input* input : product.reads()) QUARRY_CHECK(input->array.kind != plan::ArrayRef::Kind::dataset);
    QUARRY_CHECK(cuts(product.b, nd - 1, b_shape[nd - 1]) == stage.grid.axis(nd - 1));
    const NdArray b = whole(product.b, b_shape);
    if (product.syrk) {
      QUARRY_CHECK(stage.grid.axis(nd - 1) == stage.grid.axis(nd - 2));
      output.assign(local::linalg::matmul(local::apply("conjugate"_op, {b.T()}), b));
      return;
    }
    QUARRY_CHECK(cuts(product.a, nd - 2, a_shape[nd - 2]) == stage.grid.axis(nd - 2));
    QUARRY_CHECK(cuts(product.a, nd - 1, k) == cuts(product.b, nd - 2, k));
    for (int d = 0; d < nd - 2; ++d)
      for (const plan::Input* input : product.reads())
        if (input->map.axes[static_cast<size_t>(d)].source >= 0)
          QUARRY_CHECK(cuts(*input, d, stage.shape[d]) == stage.grid.axis(d));
    output.assign(local::linalg::matmul(whole(product.a, a_shape), b));
  }

  std::vector<std::vector<NdArray>> outputs_;
  std::vector<std::vector<NdArray>> made_;  // in the tasks of the stage that runs
};

}  // namespace

NdArray evaluate(const expr::NodePtr& node) { return NodeEvaluator().value(node); }

std::vector<NdArray> evaluate(const plan::Plan& plan) { return PlanEvaluator().run(plan); }

bool close(const NdArray& a, const NdArray& b, double relative, double absolute) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const NdArray x = a.copy(), y = b.copy();
  if (!local::is_float(a.dtype()) && !local::is_complex(a.dtype()))
    return std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.nbytes())) == 0;
  const NdArray wide_x = x.astype(DType::complex128), wide_y = y.astype(DType::complex128);
  const auto* p = static_cast<const double*>(wide_x.raw());
  const auto* q = static_cast<const double*>(wide_y.raw());
  for (int64_t i = 0; i < 2 * a.size(); ++i) {
    if (std::isnan(p[i]) && std::isnan(q[i])) continue;
    if (p[i] == q[i]) continue;
    if (!(std::abs(p[i] - q[i]) <= absolute + relative * std::max(std::abs(p[i]), std::abs(q[i])))) return false;
  }
  return true;
}

}  // namespace quarry::testing
