// Matrix products, and how they and other algorithms read their operands.
#include <algorithm>
#include <set>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/plan/planned_arrays.h"

namespace quarry::plan {
namespace {

using expr::View;

constexpr int64_t kSmallOperandBytes = int64_t{64} << 20;  // kept rather than computed twice

// Whether a product reads the view itself: whole axes, batch axes in order, at most the last two swapped.
bool strips(const View& view, const Dims& shape) {
  const int nd = shape.size(), base = view.arg->shape.size();
  if (!view.beside.empty()) return false;
  for (int d = 0; d < nd; ++d) {
    const View::Axis& axis = view.axes[static_cast<size_t>(d)];
    if (axis.source < 0) {
      if (d >= nd - 2) return false;
      continue;
    }
    if (axis.start != 0 || axis.step != 1 || shape[d] != view.arg->shape[axis.source]) return false;
    if (d >= nd - 2 ? axis.source < base - 2 : axis.source != d - nd + base) return false;
  }
  for (const auto& [axis, position] : view.fixed)
    if (view.arg->shape[axis] != 1 || axis >= base - 2) return false;
  return true;
}

// How many arrays an expression reads with axes out of order.
int permuted_leaves(const NodePtr& node) {
  int count = 0;
  for (const NodePtr& below : expr::topological(std::span(&node, 1))) {
    const View* view = below->as<View>();
    if (!view) continue;
    int last = -1;
    bool permuted = false;
    for (const View::Axis& axis : view->axes) {
      if (axis.source < 0) continue;
      permuted = permuted || axis.source < last;
      last = axis.source;
    }
    count += permuted;
  }
  return count;
}

}  // namespace

// An array in chunks of `grid`; a matrix (or stack of them) perhaps transposed, as a product can read it.
Input PlannedArrays::operand(const NodePtr& node, const Grid& grid) {
  NodePtr base = node;
  AccessMap map = AccessMap::identity(node->shape.size());
  Grid base_grid = grid;
  const View* view = node->as<View>();
  if (view && node->shape.size() >= 2 && !is_stored_whole(*node) && strips(*view, node->shape)) {
    base = view->arg;
    map.axes = view->axes;
    map.fixed = view->fixed;
    std::vector<AxisChunks> axes;
    for (int d = 0; d < base->shape.size(); ++d) axes.emplace_back(base->shape[d], 1);  // of length 1, or set below
    for (int d = 0; d < grid.ndim(); ++d)
      if (view->axes[static_cast<size_t>(d)].source >= 0)
        axes[static_cast<size_t>(view->axes[static_cast<size_t>(d)].source)] = grid.axis(d);
    base_grid = Grid(std::move(axes));
  } else if (const int permuted = is_stored_whole(*node) || node->shape.size() < 2 ? 0 : permuted_leaves(node);
             permuted > 0) {
    // An expression over transposed arrays is computed untransposed.
    std::vector<int64_t> order;
    const int nd = node->shape.size();
    for (int d = 0; d < nd; ++d) order.push_back(d);
    std::swap(order[static_cast<size_t>(nd) - 2], order[static_cast<size_t>(nd) - 1]);
    const NodePtr turned = eliminate_common(push_views({expr::transpose(node, order)}))[0];
    if (permuted_leaves(turned) < permuted) {
      base = turned;
      std::vector<AxisChunks> axes = grid.axes();
      std::swap(axes[axes.size() - 2], axes[axes.size() - 1]);
      base_grid = Grid(std::move(axes));
      std::swap(map.axes[map.axes.size() - 2], map.axes[map.axes.size() - 1]);
    }
  }
  if (base->as<expr::Stored>() && base->grid == base_grid) {  // is read where it lies
    Input input = array_of(base);
    input.map = std::move(map);
    return input;
  }
  const size_t before = planned_.size();
  Input input = produce(base, base_grid);
  if (input.array.kind == ArrayRef::Kind::stage && static_cast<size_t>(input.array.stage) >= before)
    planned_[static_cast<size_t>(input.array.stage)].operand = true;
  input.map = std::move(map);
  return input;
}

// Gives a data-sized operand a stage of its own where the other operand waits for somebody who reads it too: its
// chunks would have to be kept until then.
void PlannedArrays::separate(Input& input, const Input& other) {
  if (input.array.kind != ArrayRef::Kind::stage || other.array.kind != ArrayRef::Kind::stage) return;
  const int made = input.array.stage;
  PlannedArray copy = planned_[static_cast<size_t>(made)];
  const int64_t bytes = local::element_count(input.shape) * local::itemsize(input.dtype);
  if (copy.kind != PlannedArray::Kind::output || !copy.operand || bytes <= kSmallOperandBytes) return;
  std::vector<int> stack{other.array.stage};
  std::set<int> seen;
  bool read = false;
  while (!stack.empty() && !read) {
    const int at = stack.back();
    stack.pop_back();
    if (!seen.insert(at).second) continue;
    for (const Input& below : planned_[static_cast<size_t>(at)].inputs) {
      if (below.array.kind != ArrayRef::Kind::stage) continue;
      read = read || below.array.stage == made;
      stack.push_back(below.array.stage);
    }
  }
  if (read) input.array.stage = add(std::move(copy));
}

Input PlannedArrays::matmul(const NodePtr& node, const expr::MatMul& n) {
  const size_t nd = static_cast<size_t>(node->shape.size());
  auto [c, k] = matmul_grid(*node, n, options_.device, room_);
  std::vector<AxisChunks> a = c, b = c;
  a[nd - 1] = b[nd - 2] = k;
  MatMul product;
  product.syrk = n.syrk;
  product.precision = n.precision;
  product.b = operand(n.b(), Grid(std::move(b)));
  if (!n.syrk) {
    product.a = operand(n.a(), Grid(std::move(a)));
    const Input a_made = product.a;
    separate(product.a, product.b);
    separate(product.b, a_made);
  }
  std::vector<Input> inputs;
  for (const Input* input : product.reads()) inputs.push_back(*input);
  auto stage = std::make_shared<Stage>();
  stage->work = std::move(product);
  return other(std::move(stage), std::move(inputs), node, Grid(std::move(c)));
}

}  // namespace quarry::plan
