// Arrays joined along an axis. Every element moves once; a task holds its result and the chunks that it reads.
#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/copying.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/listing.h"
#include "quarry/local/ops/manipulation/manipulation.h"

namespace quarry::algo {
namespace {

class Concatenate final : public Copying {
 public:
  explicit Concatenate(int axis) : axis_(axis) {}
  std::string_view name() const override { return "concatenate"; }
  std::string parameters() const override { return ", axis=" + std::to_string(axis_); }
  void hash(op::Hash& hash) const override { hash.add(axis_); }

  // The cuts of all arguments along the axis, and those of the largest along the others.
  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    Dims shape = arguments[0].shape;
    shape[axis_] = 0;
    const op::ArraySpec* largest = arguments.data();
    std::vector<int64_t> extents;
    bool chosen = false;
    for (const op::ArraySpec& arg : arguments) {
      shape[axis_] += arg.shape[axis_];
      const bool larger = local::element_count(arg.shape) > local::element_count(largest->shape);
      if ((largest->generated && !arg.generated) || (largest->generated == arg.generated && larger)) largest = &arg;
      const AxisChunks& chunks = arg.grid.axis(axis_);
      check_listable(chunks.count());
      for (int64_t i = 0; i < chunks.count(); ++i) extents.push_back(chunks.size(i));
      chosen = chosen || arg.chosen_grid;
    }
    const local::DType dtype = arguments[0].dtype;
    std::vector<AxisChunks> axes = largest->grid.axes();
    axes[static_cast<size_t>(axis_)] = AxisChunks(extents);
    Grid grid(std::move(axes));
    if (!chosen) {
      const int64_t itemsize = local::itemsize(dtype);
      if (local::element_count(shape) * itemsize <= target_chunk_bytes(chunk_policy().device))
        grid = Grid::single(shape);
      grid = halved_to_fit(std::move(grid), 2 * itemsize, room);
    }
    return {{shape, dtype, std::move(grid), chosen}};
  }

  std::vector<local::NdArray> local(std::span<const local::NdArray> arguments) const override {
    return {local::ops::concatenate({arguments.begin(), arguments.end()}, axis_)};
  }

  std::vector<Piece> pieces(const op::Call& call, int64_t chunk) const override {
    const Region box = call.outputs[0].grid.chunk(chunk);
    const Dims strides = local::contiguous_strides(box.count, 1);
    std::vector<Piece> pieces;
    int64_t begin = 0;  // of the argument in the result
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const int64_t extent = call.arguments[i].shape[axis_];
      const int64_t first = std::max(box.start[axis_], begin);
      const int64_t end = std::min(box.start[axis_] + box.count[axis_], begin + extent);
      if (end > first && box.elements() > 0) {
        Piece piece{{static_cast<int>(i), box}, (first - box.start[axis_]) * strides[axis_], strides};
        piece.need.box.start[axis_] = first - begin;
        piece.need.box.count[axis_] = end - first;
        pieces.push_back(std::move(piece));
      }
      begin += extent;
    }
    return pieces;
  }

  std::optional<op::Sliced> sliced(const op::Call& call, const op::Slices& slices) const override {
    const op::AxisSlice& along = slices[static_cast<size_t>(axis_)];
    if (along.count == 0) return std::nullopt;
    const int64_t stride = along.step < 0 ? -along.step : along.step;
    const int64_t low = along.step > 0 ? along.start : along.start + along.step * (along.count - 1);
    op::Sliced result;
    int64_t offset = 0, taken = 0;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const int64_t extent = call.arguments[i].shape[axis_];
      // Positions low + stride * k, k in [0, count), that fall into [offset, offset + extent).
      const int64_t first = taken;
      const int64_t past = offset + extent - low;
      const int64_t end = std::clamp<int64_t>(past <= 0 ? 0 : (past - 1) / stride + 1, first, along.count);
      if (end > first) {
        op::Slices own = slices;
        own[static_cast<size_t>(axis_)] = {low + stride * (along.step > 0 ? first : end - 1) - offset, end - first,
                                           along.step};
        result.arguments.push_back({static_cast<int>(i), std::move(own)});
        taken = end;
      }
      offset += extent;
    }
    QUARRY_CHECK(taken == along.count);
    if (along.step < 0) std::ranges::reverse(result.arguments);
    if (result.arguments.size() > 1) result.op = std::make_shared<Concatenate>(axis_);
    return result;
  }

 private:
  const int axis_;
};

}  // namespace

NodePtr concatenate(std::vector<NodePtr> args, int axis) {
  QUARRY_CHECK(!args.empty());
  if (args.size() == 1) return args[0];
  return expr::apply(std::make_shared<Concatenate>(axis), std::move(args));
}

}  // namespace quarry::algo
