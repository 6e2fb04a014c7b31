// A reduction over what a mask selects, as in x[x > 0].mean(), reads the array where it lies: elements that were not
// selected count as the reduction's neutral value. The selection itself is not made. Elementwise work between the two
// runs on all elements, and its values at those that were not selected are dropped.
//
// Only where every chunk gives something (others would not be read), and where nothing but such reductions reads the
// selection. Variances stay as they are: their means come from the same pass over the selected elements.
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/local/ops/reduction/missing.h"

namespace quarry::plan {

namespace {

using local::Scalar;

// All elements, before the selection along `axis`. The mask is null for values that do not vary along the axis.
struct Whole {
  NodePtr values, mask;
  int axis = 0;
};

bool reduces_selected(const expr::Reduce& reduce) {
  if (reduce.chunks) return false;
  const local::DType dtype = reduce.arg->dtype;
  if (reduce.reduction == "mean"_reduction) return local::itemsize(reduce.accumulate) >= 4;
  if (reduce.reduction == "min"_reduction || reduce.reduction == "max"_reduction) return !local::is_complex(dtype);
  return reduce.reduction == "sum"_reduction || reduce.reduction == "prod"_reduction ||
         reduce.reduction == "any"_reduction || reduce.reduction == "all"_reduction ||
         reduce.reduction == "count_nonzero"_reduction;
}

// Whether selections are looked for behind the node.
bool passes_on(const expr::Node& node) {
  return node.as<expr::Elementwise>() != nullptr || node.as<expr::Rechunk>() != nullptr;
}

// The nodes that only such reductions read, elementwise work between included.
std::unordered_set<const expr::Node*> only_reduced(const std::vector<NodePtr>& roots,
                                                   const std::vector<NodePtr>& order) {
  std::unordered_set<const expr::Node*> read_otherwise;
  for (const NodePtr& root : roots) read_otherwise.insert(root.get());
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    const auto* reduce = (*node)->as<expr::Reduce>();
    if (reduce != nullptr && reduces_selected(*reduce)) continue;
    if (passes_on(**node) && !read_otherwise.contains(node->get())) continue;
    for (const NodePtr& arg : expr::arguments(**node)) read_otherwise.insert(arg.get());
  }
  std::unordered_set<const expr::Node*> result;
  for (const NodePtr& node : order)
    if (!read_otherwise.contains(node.get())) result.insert(node.get());
  return result;
}

class Wholes {
 public:
  // None where the node is no elementwise work on selections by one mask along one axis.
  const std::optional<Whole>& of(const NodePtr& node) {
    const auto known = known_.find(node.get());
    return known != known_.end() ? known->second : known_.emplace(node.get(), found(node)).first->second;
  }

 private:
  std::optional<Whole> found(const NodePtr& node) {
    if (is_selection(*node)) {
      const auto* apply = node->as<expr::Apply>();
      return Whole{apply->args[0], apply->args[1], *apply->op->selects_along()};
    }
    if (const auto* rechunk = node->as<expr::Rechunk>()) return of(rechunk->arg);
    const auto* work = node->as<expr::Elementwise>();
    if (work == nullptr) return local::element_count(node->shape) == 1 ? std::optional(Whole{node, {}}) : std::nullopt;
    std::vector<NodePtr> values;
    Whole whole;
    for (const NodePtr& arg : work->args) {
      const std::optional<Whole> part = of(arg);
      if (!part) return {};
      if (part->mask) {
        const bool same = !whole.mask || (whole.mask->hash == part->mask->hash && whole.axis == part->axis);
        if (!same || arg->shape.size() != node->shape.size()) return {};
        whole.mask = part->mask;
        whole.axis = part->axis;
      }
      values.push_back(part->values);
    }
    whole.values = expr::elementwise(work->op, std::move(values), work->loop);
    return whole.values->dtype == node->dtype ? std::optional(whole) : std::nullopt;
  }

  std::unordered_map<const expr::Node*, std::optional<Whole>> known_;
};

// What changes no result of the reduction.
Scalar neutral_value(local::Reduction reduction, local::DType dtype) {
  if (reduction == "min"_reduction || reduction == "max"_reduction) return local::missing::worst_of(reduction, dtype);
  const bool one = reduction == "prod"_reduction || reduction == "all"_reduction;
  return Scalar::strong(one ? 1 : 0, dtype);
}

NodePtr over_whole(const expr::Reduce& reduce, const NodePtr& node, const Whole& whole) {
  const bool is_mean = reduce.reduction == "mean"_reduction;
  const local::Reduction reduction = is_mean ? "sum"_reduction : reduce.reduction;
  const NodePtr values = is_mean ? expr::cast(whole.values, reduce.accumulate) : whole.values;
  const uint32_t all_axes = (uint32_t{1} << values->shape.size()) - 1;
  const NodePtr mask = expr::insert_axes(whole.mask, all_axes & ~(uint32_t{1} << whole.axis));
  const NodePtr neutral = expr::constant(neutral_value(reduction, values->dtype), values->dtype);
  const bool takes_dtype = local::info(reduction).takes_dtype;
  NodePtr result = expr::reduce(reduction, expr::elementwise("where"_op, {mask, values, neutral}), reduce.axes,
                                takes_dtype ? std::optional(reduce.accumulate) : std::nullopt);
  if (!is_mean) return result;
  int64_t count = 1;
  for (int d = 0; d < reduce.arg->shape.size(); ++d)
    if (reduce.axes >> d & 1) count *= reduce.arg->shape[d];
  const local::DType real = local::real_type(node->dtype);
  return expr::elementwise("divide"_op,
                           {result, expr::constant(Scalar::strong(static_cast<double>(count), real), real)});
}

}  // namespace

bool is_selection(const expr::Node& node) {
  const auto* apply = node.as<expr::Apply>();
  return apply != nullptr && apply->op->selects_along().has_value();
}

std::vector<NodePtr> reduce_where_selected(const std::vector<NodePtr>& roots) {
  const std::vector<NodePtr> order = expr::topological(roots);
  const std::unordered_set<const expr::Node*> free = only_reduced(roots, order);
  Wholes wholes;
  return expr::rewritten(roots, [&](const NodePtr& node, std::span<const NodePtr> args) {
    NodePtr made = expr::with_arguments(node, args);
    const auto* given = node->as<expr::Reduce>();
    if (given == nullptr || !reduces_selected(*given) || !free.contains(given->arg.get())) return made;
    const auto& reduce = *made->as<expr::Reduce>();
    const auto& whole = wholes.of(reduce.arg);
    return whole && whole->mask && (reduce.axes >> whole->axis & 1) ? over_whole(reduce, made, *whole) : made;
  });
}

}  // namespace quarry::plan
