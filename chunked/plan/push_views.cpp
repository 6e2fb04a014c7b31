// View push-down, so that only needed bytes are read and fusion sees through views.
//
// Through an elementwise operation a view moves whole, but for its broadcast axes. A view of a reduction, product or
// concatenation is split into slicing (per axis of the argument: start, count, step) and rearranging (order, new axes,
// integer axes); the slicing moves, the rearranging stays.
#include <algorithm>
#include <unordered_map>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/local/base/error.h"

namespace quarry::plan {

namespace {

using expr::View;

struct Slicing {
  op::Slices axes;      // of the argument
  bool trivial = true;  // takes everything
};

class Pusher {
 public:
  explicit Pusher(const std::vector<NodePtr>& order, const std::vector<NodePtr>& roots) {
    for (const NodePtr& node : order)
      for (const NodePtr& arg : expr::arguments(*node)) ++uses_[arg.get()];
    for (const NodePtr& root : roots) ++uses_[root.get()];
  }

  NodePtr rewrite(const NodePtr& node) {
    std::vector<NodePtr> args = expr::arguments(*node);
    for (NodePtr& arg : args) {
      const NodePtr& old = arg;
      NodePtr next = rewritten_.at(old.get());
      uses_[next.get()] = std::max(uses_[next.get()], uses_[old.get()]);
      arg = std::move(next);
    }
    NodePtr result = expr::with_arguments(node, args);
    if (const View* view = movable(result)) result = push(view->arg, view->axes, view->fixed, result->shape);
    rewritten_[node.get()] = result;
    keep_.push_back(node);
    return result;
  }

 private:
  // Diagonals stay where they are: emitting an expression composes them (node_map.h).
  static const View* movable(const NodePtr& node) {
    const View* view = node->as<View>();
    return view != nullptr && view->beside.empty() ? view : nullptr;
  }

  bool shared(const NodePtr& node) const {
    const auto found = uses_.find(node.get());
    return found != uses_.end() && found->second > 1;
  }

  NodePtr push(const NodePtr& arg, const std::vector<View::Axis>& axes,
               const std::vector<std::pair<int, int64_t>>& fixed, const Dims& shape) {
    // The view where it stands: what is given up when the graph is deeper than the stack, and the key of what was
    // pushed before (shared arguments would be walked once per path otherwise).
    NodePtr here = expr::view(arg, axes, fixed, shape);
    if (depth_ >= kDeepest) return here;
    if (const auto found = pushed_.find(here->hash); found != pushed_.end()) return found->second;
    ++depth_;
    NodePtr result = push_now(arg, axes, fixed, shape);
    --depth_;
    pushed_.emplace(here->hash, result);
    return result;
  }

  NodePtr push_now(const NodePtr& arg, std::vector<View::Axis> axes, std::vector<std::pair<int, int64_t>> fixed,
                   const Dims& shape) {
    if (const auto* n = arg->as<expr::Elementwise>()) return push_elementwise(arg, *n, axes, fixed, shape);
    if (const auto* n = arg->as<expr::Index>()) return push_index(*n, axes, fixed, shape);
    if (arg->as<expr::Rechunk>()) {
      const NodePtr viewed = expr::view(arg, axes, fixed, shape);  // for its grid
      return expr::rechunk(push(arg->as<expr::Rechunk>()->arg, axes, fixed, shape), viewed->grid);
    }
    if (const auto* n = arg->as<View>()) {
      NodePtr composed = expr::view(arg, std::move(axes), std::move(fixed), shape);
      const View* view = movable(composed);
      if (!view) return composed;
      return view->arg->as<View>() || view->arg == n->arg ? composed : push(view->arg, view->axes, view->fixed, shape);
    }
    if (!shared(arg)) {
      Slicing slicing;
      for (int64_t extent : arg->shape) slicing.axes.push_back({0, extent, 1});
      for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i].source < 0) continue;
        slicing.axes[static_cast<size_t>(axes[i].source)] = {axes[i].start, shape[static_cast<int>(i)], axes[i].step};
      }
      for (const auto& [axis, position] : fixed) slicing.axes[static_cast<size_t>(axis)] = {position, 1, 1};
      for (int d = 0; d < arg->shape.size(); ++d) {
        const op::AxisSlice& axis = slicing.axes[static_cast<size_t>(d)];
        slicing.trivial = slicing.trivial && axis.start == 0 && axis.step == 1 && axis.count == arg->shape[d];
      }
      NodePtr sliced = slicing.trivial ? nullptr : slice(arg, slicing);
      if (sliced) {
        for (View::Axis& axis : axes)
          if (axis.source >= 0) axis.start = 0, axis.step = 1;
        for (auto& entry : fixed) entry.second = 0;
        return push(sliced, axes, fixed, shape);
      }
    }
    return expr::view(arg, std::move(axes), std::move(fixed), shape);
  }

  NodePtr push_elementwise(const NodePtr& node, const expr::Elementwise& op, const std::vector<View::Axis>& axes,
                           const std::vector<std::pair<int, int64_t>>& fixed, const Dims& shape) {
    std::vector<NodePtr> args;
    for (const NodePtr& arg : op.args) args.push_back(push_argument(node, arg, axes, fixed, shape));
    NodePtr result = expr::elementwise(op.op, std::move(args), op.loop);
    if (result->shape == shape) return result;
    // What was broadcast by the view itself stays outside.
    return expr::broadcast_to(result, shape);
  }

  NodePtr push_argument(const NodePtr& node, const NodePtr& arg, const std::vector<View::Axis>& axes,
                        const std::vector<std::pair<int, int64_t>>& fixed, const Dims& shape) {
    const int shift = node->shape.size() - arg->shape.size();
    std::vector<View::Axis> mine;
    Dims extents;
    std::vector<std::pair<int, int64_t>> mine_fixed;
    uint32_t used = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int axis = axes[i].source - shift;
      const bool mapped = axes[i].source >= 0 && axis >= 0 && arg->shape[axis] == node->shape[axes[i].source];
      if (mapped) {
        mine.push_back({axis, axes[i].start, axes[i].step});
        extents.push_back(shape[static_cast<int>(i)]);
        used |= uint32_t{1} << axis;
      } else if (!mine.empty()) {
        // Leading axes of length 1 need not exist: broadcasting adds them.
        mine.push_back({});
        extents.push_back(1);
      }
    }
    for (const auto& [source, position] : fixed) {
      const int axis = source - shift;
      if (axis < 0) continue;
      mine_fixed.emplace_back(axis, arg->shape[axis] == node->shape[source] ? position : 0);
      used |= uint32_t{1} << axis;
    }
    for (int d = 0; d < arg->shape.size(); ++d)
      if (!(used >> d & 1)) mine_fixed.emplace_back(d, 0);
    if (mine.empty() && arg->shape.size() == 0) return arg;
    NodePtr viewed = expr::view(arg, mine, mine_fixed, extents);
    if (const View* view = movable(viewed)) return push(view->arg, view->axes, view->fixed, extents);
    return viewed;
  }

  // start + step * position along one axis, or a constant.
  NodePtr push_index(const expr::Index& index, const std::vector<View::Axis>& axes,
                     const std::vector<std::pair<int, int64_t>>& fixed, const Dims& shape) {
    const local::DType int64 = local::DType::int64;
    for (const auto& [axis, position] : fixed)
      if (axis == index.axis) return expr::constant(position, int64, shape);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].source != index.axis) continue;
      NodePtr value = expr::index(shape, static_cast<int>(i));
      if (axes[i].step != 1) value = expr::elementwise("multiply"_op, {value, expr::constant(axes[i].step, int64)});
      if (axes[i].start != 0) value = expr::elementwise("add"_op, {value, expr::constant(axes[i].start, int64)});
      return value;
    }
    return expr::constant(0, int64, shape);  // its axis has one element, which a broadcast axis stands for
  }

  NodePtr sliced_view(const NodePtr& node, const op::Slices& slices) {
    std::vector<View::Axis> axes;
    Dims shape;
    for (size_t d = 0; d < slices.size(); ++d) {
      axes.push_back({static_cast<int>(d), slices[d].start, slices[d].step});
      shape.push_back(slices[d].count);
    }
    const NodePtr viewed = expr::view(node, std::move(axes), {}, shape);
    const View* view = movable(viewed);
    return view ? push(view->arg, view->axes, view->fixed, shape) : viewed;
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
      const int64_t k = n->b->shape[static_cast<int>(nd) - 2];
      a[nd - 1] = {0, k, 1};
      b[nd - 2] = {0, k, 1};
      const NodePtr left = sliced_view(n->a, a), right = sliced_view(n->b, b);
      return local::element_count(left->shape) > 0 && local::element_count(right->shape) > 0 ? expr::matmul(left, right)
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
  std::unordered_map<uint64_t, NodePtr> pushed_;  // by the view's hash
  std::unordered_map<const expr::Node*, int> uses_;
  std::unordered_map<const expr::Node*, NodePtr> rewritten_;
  std::vector<NodePtr> keep_;  // so that addresses stay unique
};

}  // namespace

std::vector<NodePtr> push_views(const std::vector<NodePtr>& roots) {
  const std::vector<NodePtr> order = expr::topological(roots);
  Pusher pusher(order, roots);
  std::unordered_map<const expr::Node*, NodePtr> rewritten;
  for (const NodePtr& node : order) rewritten[node.get()] = pusher.rewrite(node);
  std::vector<NodePtr> result;
  for (const NodePtr& root : roots) result.push_back(rewritten.at(root.get()));
  return result;
}

}  // namespace quarry::plan
