// Reshape in C order: a chunk of the result is consecutive elements, and so a few boxes of the argument, each of whole
// trailing axes. Every element moves once; a task holds its result and the chunks that it reads.
#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/copying.h"
#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"

namespace quarry::algo {
namespace {

class Reshape final : public Copying {
 public:
  explicit Reshape(const Dims& shape) : shape_(shape) {}
  std::string_view name() const override { return "reshape"; }
  std::string parameters() const override { return ", " + local::to_string(shape_); }
  void hash(op::Hash& hash) const override { hash.add(shape_); }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const op::ArraySpec& arg = arguments[0];
    // Whole rows: the elements of each chunk are consecutive.
    const int64_t itemsize = local::itemsize(arg.dtype);
    int64_t bytes = target_chunk_bytes(chunk_policy().device);
    if (arg.chosen_grid) bytes = std::min(bytes, std::max(largest_chunk_bytes(arg.grid, itemsize), itemsize));
    Grid grid = Grid::regular(shape_, auto_chunk(shape_, itemsize, std::nullopt, bytes));
    if (!arg.chosen_grid) grid = halved_to_fit(std::move(grid), 2 * itemsize, room);
    return {{shape_, arg.dtype, std::move(grid), arg.chosen_grid}};
  }

  std::vector<local::NdArray> local(std::span<const local::NdArray> arguments) const override {
    return {arguments[0].reshape(shape_)};
  }

  std::vector<Piece> pieces(const op::Call& call, int64_t chunk) const override {
    const auto [begin, end] = exec::linear_range(shape_, call.outputs[0].grid.chunk(chunk));
    std::vector<Piece> pieces;
    int64_t at = begin;
    for (Region& source : exec::linear_regions(call.arguments[0].shape, begin, end)) {
      const int64_t elements = source.elements();
      Dims strides = local::contiguous_strides(source.count, 1);
      pieces.push_back({{0, std::move(source)}, at - begin, std::move(strides)});
      at += elements;
    }
    return pieces;
  }

 private:
  const Dims shape_;
};

}  // namespace

NodePtr reshape(const NodePtr& arg, const Dims& shape) {
  if (shape == arg->shape) return arg;
  if (const auto* value = arg->as<expr::Constant>()) return expr::constant(value->value, arg->dtype, shape);
  if (local::element_count(shape) == 0) return expr::constant(local::Scalar(0), arg->dtype, shape);  // of no element
  const auto* below = arg->as<expr::Apply>();
  if (below && dynamic_cast<const Reshape*>(below->op.get()) != nullptr) return reshape(below->args[0], shape);
  // Lengths other than 1 in the same order: only axes of length 1 come or go.
  std::vector<expr::View::Axis> axes;
  std::vector<std::pair<int, int64_t>> fixed;
  int source = 0;
  bool only_ones = local::element_count(shape) > 0;
  for (int d = 0; d < shape.size() && only_ones; ++d) {
    if (shape[d] == 1) {
      axes.push_back({});
      continue;
    }
    for (; source < arg->shape.size() && arg->shape[source] == 1; ++source) fixed.emplace_back(source, 0);
    only_ones = source < arg->shape.size() && arg->shape[source] == shape[d];
    axes.push_back({source++, 0, 1});
  }
  if (only_ones) {
    for (; source < arg->shape.size(); ++source) fixed.emplace_back(source, 0);
    return expr::view(arg, std::move(axes), std::move(fixed), shape);
  }
  return expr::apply(std::make_shared<Reshape>(shape), {arg});
}

}  // namespace quarry::algo
