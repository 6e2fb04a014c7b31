// View push-down, so that only needed bytes are read and fusion sees through views.
//
// Through an elementwise operation a view moves whole, but for its broadcast axes. A view of a reduction, product or
// concatenation is split into slicing (per axis of the argument: start, count, step) and rearranging (order, new axes,
// integer axes); the slicing moves, the rearranging stays.
#include <algorithm>
#include <unordered_map>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/expr/node_table.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/local/base/error.h"

namespace quarry::plan {

namespace {

using expr::View;

struct Slicing {
  op::Slices axes;      // of the argument
  bool trivial = true;  // takes everything
};

// Diagonals stay where they are: emitting an expression composes them (node_map.h).
const View* movable(const expr::Node& node) {
  const auto* view = node.as<View>();
  return view != nullptr && view->beside.empty() ? view : nullptr;
}

// Whether a view of the node may move into it.
bool takes_views(const expr::Node& node) {
  return !(node.as<expr::Source>() || node.as<expr::Stored>() || node.as<expr::Constant>() || node.as<View>() ||
           node.as<expr::Item>());
}

// What tells views apart.
uint64_t key_of(const View& view, const Dims& shape) {
  op::Hash hash;
  hash.add(view.arg->hash).add(shape);
  for (const View::Axis& axis : view.axes) hash.add(axis.source).add(axis.start).add(axis.step);
  for (const auto& [axis, position] : view.fixed) hash.add(axis).add(position);
  return hash.value;
}

class Pusher {
 public:
  explicit Pusher(const std::vector<NodePtr>& order, const std::vector<NodePtr>& roots) : uses_(order.size()) {
    for (const NodePtr& node : order)
      for (const NodePtr& arg : expr::arguments(*node)) ++uses_[*arg];
    for (const NodePtr& root : roots) ++uses_[*root];
  }

  NodePtr rewrite(const NodePtr& node, std::span<const NodePtr> args) {
    const std::span<const NodePtr> before = expr::arguments(*node);
    for (size_t i = 0; i < args.size(); ++i) {
      const int of_before = uses_[*before[i]];
      int& of_arg = uses_[*args[i]];
      of_arg = std::max(of_arg, of_before);
    }
    NodePtr made = expr::with_arguments(node, args);
    const View* view = movable(*made);
    if (view == nullptr || !takes_views(*view->arg)) return made;
    NodePtr pushed = push(*view, made->shape);
    return pushed->hash == made->hash ? made : pushed;  // it stayed
  }

 private:
  bool shared(const NodePtr& node) const {
    const int* uses = uses_.find(*node);
    return uses != nullptr && *uses > 1;
  }

  NodePtr push(const View& view, const Dims& shape) {
    if (depth_ >= kDeepest) return stays(view, shape);  // the graph is deeper than the stack
    // Shared arguments would be walked once per path otherwise.
    const uint64_t key = key_of(view, shape);
    if (const auto found = pushed_.find(key); found != pushed_.end()) return found->second;
    ++depth_;
    NodePtr result = push_now(view, shape);
    --depth_;
    pushed_.emplace(key, result);
    return result;
  }

  NodePtr push_composed(View view, const Dims& shape) {
    view = expr::composed(std::move(view), shape);
    return expr::changes_nothing(view, shape) ? view.arg : push(view, shape);
  }

  static NodePtr stays(const View& view, const Dims& shape) {
    return expr::view(view.arg, view.axes, view.fixed, shape);
  }

  NodePtr push_now(const View& view, const Dims& shape) {
    const NodePtr& arg = view.arg;
    if (arg->as<expr::Elementwise>()) return push_elementwise(arg, view, shape);
    if (const auto* n = arg->as<expr::Index>()) return push_index(*n, view, shape);
    if (const auto* n = arg->as<expr::Rechunk>()) {
      const Grid grid = stays(view, shape)->grid;
      return expr::rechunk(push({n->arg, view.axes, view.fixed}, shape), grid);
    }
    if (!takes_views(*arg) || shared(arg)) return stays(view, shape);
    Slicing slicing;
    for (int64_t extent : arg->shape) slicing.axes.push_back({0, extent, 1});
    for (size_t i = 0; i < view.axes.size(); ++i) {
      const View::Axis& axis = view.axes[i];
      if (axis.source < 0) continue;
      slicing.axes[static_cast<size_t>(axis.source)] = {axis.start, shape[static_cast<int>(i)], axis.step};
    }
    for (const auto& [axis, position] : view.fixed) slicing.axes[static_cast<size_t>(axis)] = {position, 1, 1};
    for (int d = 0; d < arg->shape.size(); ++d) {
      const op::AxisSlice& axis = slicing.axes[static_cast<size_t>(d)];
      slicing.trivial = slicing.trivial && axis.start == 0 && axis.step == 1 && axis.count == arg->shape[d];
    }
    NodePtr sliced = slicing.trivial ? nullptr : slice(arg, slicing);
    if (!sliced) return stays(view, shape);
    View rest{std::move(sliced), view.axes, view.fixed};
    for (View::Axis& axis : rest.axes)
      if (axis.source >= 0) axis.start = 0, axis.step = 1;
    for (auto& entry : rest.fixed) entry.second = 0;
    return push(rest, shape);
  }

  NodePtr push_elementwise(const NodePtr& node, const View& view, const Dims& shape) {
    std::vector<NodePtr> args;
    args.reserve(expr::arguments(*node).size());
    for (const NodePtr& arg : expr::arguments(*node)) args.push_back(push_argument(node, arg, view, shape));
    NodePtr result = expr::elementwise_like(*node, std::move(args));
    if (result->shape == shape) return result;
    // What was broadcast by the view itself stays outside.
    return expr::broadcast_to(result, shape);
  }

  NodePtr push_argument(const NodePtr& node, const NodePtr& arg, const View& view, const Dims& shape) {
    if (arg->shape.empty()) return arg;
    const int shift = node->shape.size() - arg->shape.size();
    View mine{arg, {}, {}};
    mine.axes.reserve(view.axes.size());
    Dims extents;
    uint32_t used = 0;
    for (size_t i = 0; i < view.axes.size(); ++i) {
      const View::Axis& outer = view.axes[i];
      const int axis = outer.source - shift;
      const bool mapped = outer.source >= 0 && axis >= 0 && arg->shape[axis] == node->shape[outer.source];
      if (mapped) {
        mine.axes.push_back({axis, outer.start, outer.step});
        extents.push_back(shape[static_cast<int>(i)]);
        used |= uint32_t{1} << axis;
      } else if (!mine.axes.empty()) {
        // Leading axes of length 1 need not exist: broadcasting adds them.
        mine.axes.push_back({});
        extents.push_back(1);
      }
    }
    for (const auto& [source, position] : view.fixed) {
      const int axis = source - shift;
      if (axis < 0) continue;
      mine.fixed.emplace_back(axis, arg->shape[axis] == node->shape[source] ? position : 0);
      used |= uint32_t{1} << axis;
    }
    for (int d = 0; d < arg->shape.size(); ++d)
      if (!(used >> d & 1)) mine.fixed.emplace_back(d, 0);
    return push_composed(std::move(mine), extents);
  }

  // start + step * position along one axis, or a constant.
  NodePtr push_index(const expr::Index& index, const View& view, const Dims& shape) {
    const local::DType int64 = local::DType::int64;
    for (const auto& [axis, position] : view.fixed)
      if (axis == index.axis) return expr::constant(position, int64, shape);
    for (size_t i = 0; i < view.axes.size(); ++i) {
      const View::Axis& axis = view.axes[i];
      if (axis.source != index.axis) continue;
      NodePtr value = expr::index(shape, static_cast<int>(i));
      if (axis.step != 1) value = expr::elementwise("multiply"_op, {value, expr::constant(axis.step, int64)});
      if (axis.start != 0) value = expr::elementwise("add"_op, {value, expr::constant(axis.start, int64)});
      return value;
    }
    return expr::constant(0, int64, shape);  // its axis has one element, which a broadcast axis stands for
  }

  NodePtr sliced_view(const NodePtr& node, const op::Slices& slices) {
    View view{node, {}, {}};
    view.axes.reserve(slices.size());
    Dims shape;
    for (size_t d = 0; d < slices.size(); ++d) {
      view.axes.push_back({static_cast<int>(d), slices[d].start, slices[d].step});
      shape.push_back(slices[d].count);
    }
    return push_composed(std::move(view), shape);
  }

  // The node with its axes sliced, pushed into its arguments; null where the kind of node has no such form.
  NodePtr slice(const NodePtr& node, const Slicing& slicing) {
    if (const auto* n = node->as<expr::Reduce>()) {
      if (n->chunks) return nullptr;
      op::Slices slices;
      size_t next = 0;
      for (int d = 0; d < n->arg->shape.size(); ++d) {
        if (n->axes >> d & 1)
          slices.push_back({0, n->arg->shape[d], 1});
        else
          slices.push_back(slicing.axes[next++]);
      }
      return expr::reduce(n->reduction, sliced_view(n->arg, slices), n->axes, n->accumulate, n->ddof);
    }
    if (const auto* n = node->as<expr::MatMul>()) {
      if (n->syrk || local::element_count(node->shape) == 0) return nullptr;
      const size_t nd = slicing.axes.size();
      op::Slices a = slicing.axes, b = slicing.axes;
      const int64_t k = n->b()->shape[static_cast<int>(nd) - 2];
      a[nd - 1] = {0, k, 1};
      b[nd - 2] = {0, k, 1};
      const NodePtr left = sliced_view(n->a(), a), right = sliced_view(n->b(), b);
      return local::element_count(left->shape) > 0 && local::element_count(right->shape) > 0
                 ? expr::matmul(left, right, /*syrk=*/false, n->precision)
                 : nullptr;
    }
    if (const auto* n = node->as<expr::Apply>()) {
      if (n->outputs.size() > 1) return nullptr;
      const auto sliced = n->op->sliced({expr::specs_of(n->args), n->outputs}, slicing.axes);
      if (!sliced) return nullptr;
      std::vector<NodePtr> args;
      for (const auto& [number, slices] : sliced->arguments)
        args.push_back(sliced_view(n->args[static_cast<size_t>(number)], slices));
      return sliced->op ? expr::apply(sliced->op, std::move(args)) : args.at(0);
    }
    return nullptr;
  }

  static constexpr int kDeepest = 1000;
  int depth_ = 0;
  std::unordered_map<uint64_t, NodePtr> pushed_;  // by key_of()
  expr::NodeTable<int> uses_;
};

}  // namespace

std::vector<NodePtr> push_views(const std::vector<NodePtr>& roots) {
  const std::vector<NodePtr> order = expr::topological(roots);
  const auto may_move = [](const NodePtr& node) {
    const View* view = movable(*node);
    return view != nullptr && takes_views(*view->arg);
  };
  if (std::ranges::none_of(order, may_move)) return roots;
  Pusher pusher(order, roots);
  return expr::rewritten(
      roots, [&](const NodePtr& node, std::span<const NodePtr> args) { return pusher.rewrite(node, args); });
}

}  // namespace quarry::plan
