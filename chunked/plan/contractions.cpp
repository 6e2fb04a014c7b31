// A sum of a product of two arrays that broadcast against each other, as in sum(a[:, :, None] * b, 1), is a product of
// matrices: m n k multiplications either way, but in tiles that stay in the cache, and without the broadcast space.
//
// Along each axis of the product's space both factors or one of them vary. One axis is summed, along which both do; one
// kept axis is of the first factor alone (rows), one of the second alone (columns); those that both vary along stay in
// front. Sums over an axis of one factor, or of more than one axis, stay what they are, and so do sums of products
// without rows or columns: those read every element once as they are.
#include <algorithm>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/expr/node_table.h"
#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

namespace {

using expr::View;

// The axis of a factor that varies along axis d of the space, or -1.
int varying_axis(const NodePtr& factor, const Dims& space, int d) {
  const int axis = d - (space.size() - factor->shape.size());
  if (axis < 0 || space[d] == 1 || factor->shape[axis] == 1) return -1;
  const View* view = factor->as<View>();
  return view != nullptr && view->axes[static_cast<size_t>(axis)].source < 0 ? -1 : axis;
}

// The factor over these of its axes; of the others, along which it does not vary, the first element.
NodePtr over_axes(const NodePtr& factor, const std::vector<int>& axes) {
  std::vector<View::Axis> mapped;
  std::vector<std::pair<int, int64_t>> fixed;
  Dims shape;
  uint32_t used = 0;
  for (const int axis : axes) {
    mapped.push_back({axis, 0, 1});
    shape.push_back(factor->shape[axis]);
    used |= uint32_t{1} << axis;
  }
  for (int d = 0; d < factor->shape.size(); ++d)
    if (!(used >> d & 1)) fixed.emplace_back(d, 0);
  return expr::view(factor, std::move(mapped), std::move(fixed), shape);
}

// The sum, where the node is one of a product of two arrays; else null.
const expr::Reduce* sum_of_product(const expr::Node& node) {
  const auto* sum = node.as<expr::Reduce>();
  if (sum == nullptr || sum->reduction != "sum"_reduction || sum->chunks) return nullptr;
  const auto* product = sum->arg->as<expr::Elementwise>();
  return product != nullptr && product->op == "multiply"_op ? sum : nullptr;
}

// The same as a product of matrices; null where it is none.
NodePtr as_matmul(const expr::Reduce& sum, const NodePtr& node) {
  const auto* product = sum.arg->as<expr::Elementwise>();
  const local::DType dtype = node->dtype;
  const bool is_exact = local::is_integer(dtype) || dtype == local::DType::bool_;
  if (is_exact || local::itemsize(dtype) < 4 || sum.accumulate != dtype || sum.arg->dtype != dtype) return {};
  const NodePtr &a = product->args[0], &b = product->args[1];
  if (a->dtype != dtype || b->dtype != dtype) return {};
  const Dims& space = sum.arg->shape;
  std::vector<int> left, right;              // axes of the factors: batch, then rows and the summed one
  int rows = -1, columns = -1, summed = -1;  // axes of the space
  std::vector<int> place(static_cast<size_t>(space.size()), -1);  // in the product, of axes of the space
  int batch = 0;
  for (int d = 0; d < space.size(); ++d) {
    if (space[d] == 0) return {};
    if (space[d] == 1) continue;
    const int of_a = varying_axis(a, space, d), of_b = varying_axis(b, space, d);
    int* only = nullptr;
    if (sum.axes >> d & 1) {
      if (of_a < 0 || of_b < 0) return {};
      only = &summed;
    } else if (of_a >= 0 && of_b >= 0) {
      left.push_back(of_a);
      right.push_back(of_b);
      place[static_cast<size_t>(d)] = batch++;
    } else if (of_a >= 0) {
      only = &rows;
    } else if (of_b >= 0) {
      only = &columns;
    } else {
      return {};
    }
    if (only == nullptr) continue;
    if (*only >= 0) return {};
    *only = d;
  }
  if (rows < 0 || columns < 0 || summed < 0) return {};
  place[static_cast<size_t>(rows)] = batch;
  place[static_cast<size_t>(columns)] = batch + 1;
  left.push_back(varying_axis(a, space, rows));
  left.push_back(varying_axis(a, space, summed));
  right.push_back(varying_axis(b, space, summed));
  right.push_back(varying_axis(b, space, columns));
  const NodePtr made = expr::matmul(over_axes(a, left), over_axes(b, right));
  std::vector<View::Axis> axes;
  for (int d = 0; d < space.size(); ++d) {
    if (sum.axes >> d & 1) continue;
    const int from = place[static_cast<size_t>(d)];
    axes.push_back(from < 0 ? View::Axis{} : View::Axis{from, 0, 1});
  }
  return expr::view(made, std::move(axes), {}, node->shape);
}

}  // namespace

std::vector<NodePtr> find_contractions(const std::vector<NodePtr>& roots) {
  const std::vector<NodePtr> order = expr::topological(roots);
  if (std::ranges::none_of(order, [](const NodePtr& node) { return sum_of_product(*node) != nullptr; })) return roots;
  expr::NodeTable<int> uses(order.size());
  for (const NodePtr& node : order)
    for (const NodePtr& arg : expr::arguments(*node)) ++uses[*arg];
  for (const NodePtr& root : roots) ++uses[*root];
  return expr::rewritten(roots, [&](const NodePtr& node, std::span<const NodePtr> args) {
    NodePtr made = expr::with_arguments(node, args);
    const expr::Reduce* sum = sum_of_product(*made);
    // Where others read the product too, it is computed anyway.
    if (sum == nullptr || uses[*node->as<expr::Reduce>()->arg] != 1) return made;
    NodePtr product = as_matmul(*sum, made);
    return product ? product : made;
  });
}

}  // namespace quarry::plan
