// Reshape in C order. The axes of both shapes fall into groups of equal products, one beside the other: what reshape
// does inside one does not concern the others. A chunk of the result is consecutive elements of every group, and so a
// few boxes of the argument. Where the chunks of the argument are such elements too and end with whole axes of the
// result, they stay as they are; axes that are cut within consecutive elements are put together first, by as many
// stages as any rechunk (plan/rechunk.h). Every element moves once here; a task holds its result, on a device also what
// it reads.
#include <algorithm>
#include <optional>
#include <vector>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/copying.h"
#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"

namespace quarry::algo {
namespace {

// Axes [from, from_end) of the argument that are axes [to, to_end) of the result.
struct Group {
  int from, from_end, to, to_end;
};

Dims axes_of(const Dims& shape, int begin, int end) { return {shape.begin() + begin, shape.begin() + end}; }

// Of shapes of as many elements, at least one.
std::vector<Group> groups_of(const Dims& from, const Dims& to) {
  std::vector<Group> groups;
  int i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    Group group{i, i, j, j};
    int64_t a = 1, b = 1;
    do {
      if (i < from.size() && (a <= b || j == to.size()))
        a *= from[i++];
      else
        b *= to[j++];
    } while (a != b || (i < from.size() && from[i] == 1) || (j < to.size() && to[j] == 1));
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

// The first of axes [begin, end) that is longer than 1; the last one where there is none.
int first_long(const Dims& shape, int begin, int end) {
  while (begin + 1 < end && shape[begin] == 1) ++begin;
  return begin;
}

// Whether chunks are consecutive elements of the axes: one axis is cut, those before it into single elements.
bool is_consecutive(const Grid& grid, int begin, int end) {
  bool whole = false;  // from here on
  for (int d = begin; d < end; ++d) {
    const AxisChunks& axis = grid.axis(d);
    if (whole && axis.count() > 1) return false;
    whole = whole || axis.largest() > 1;
  }
  return true;
}

class Reshape final : public Copying {
 public:
  // `chosen`: the chunks of the argument before it was put together.
  Reshape(const Dims& shape, bool chosen) : shape_(shape), chosen_(chosen) {}
  std::string_view name() const override { return "reshape"; }
  std::string parameters() const override { return ", " + local::to_string(shape_); }
  void hash(op::Hash& hash) const override { hash.add(shape_).add(chosen_); }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const op::ArraySpec& arg = arguments[0];
    const int64_t itemsize = local::itemsize(arg.dtype);
    int64_t bytes = target_chunk_bytes(chunk_policy().device);
    if (chosen_) bytes = std::min(bytes, std::max(largest_chunk_bytes(arg.grid, itemsize), itemsize));
    const std::vector<Group> groups = groups_of(arg.shape, shape_);
    std::vector<std::optional<AxisChunks>> kept;
    int64_t left = std::max<int64_t>(bytes / itemsize, 1);  // elements of a chunk for the groups that are cut anew
    for (const Group& group : groups) {
      kept.push_back(kept_cuts(arg.grid, group));
      if (kept.back()) left = std::max<int64_t>(left / (kept.back()->largest() * inner(group)), 1);
    }
    std::vector<AxisChunks> axes(static_cast<size_t>(shape_.size()));
    for (size_t g = groups.size(); g-- > 0;) {
      const Group& group = groups[g];
      for (int d = group.to; d < group.to_end; ++d) axes[static_cast<size_t>(d)] = AxisChunks(shape_[d], shape_[d]);
      if (kept[g]) {
        axes[static_cast<size_t>(first_long(shape_, group.to, group.to_end))] = *kept[g];
        continue;
      }
      const Dims part = auto_chunk(axes_of(shape_, group.to, group.to_end), 1, std::nullopt, left);
      for (int d = group.to; d < group.to_end; ++d)
        axes[static_cast<size_t>(d)] = AxisChunks(shape_[d], part[d - group.to]);
      left = std::max<int64_t>(left / local::element_count(part), 1);
    }
    Grid grid(std::move(axes));
    if (!chosen_) grid = halved_to_fit(std::move(grid), 2 * itemsize, room);
    return {{shape_, arg.dtype, std::move(grid), chosen_}};
  }

  std::vector<local::NdArray> local(std::span<const local::NdArray> arguments) const override {
    return {arguments[0].reshape(shape_)};
  }

  std::vector<Piece> pieces(const op::Call& call, int64_t chunk) const override {
    const Dims& from = call.arguments[0].shape;
    const Region box = call.outputs[0].grid.chunk(chunk);
    std::vector<Piece> pieces{{{0, Region::box(Dims(), Dims())}, 0, Dims()}};
    const Dims strides = local::contiguous_strides(box.count, 1);
    for (const Group& group : groups_of(from, shape_)) {
      const int last = group.to_end - 1;
      const int64_t stride = last < group.to ? 1 : strides[last];  // of one element of the group
      const Region part{axes_of(box.start, group.to, group.to_end), axes_of(box.count, group.to, group.to_end),
                        axes_of(box.step, group.to, group.to_end)};
      const auto [begin, end] = exec::linear_range(axes_of(shape_, group.to, group.to_end), part);
      std::vector<Piece> longer;
      int64_t at = 0;
      for (const Region& source : exec::linear_regions(axes_of(from, group.from, group.from_end), begin, end)) {
        const Dims inside = local::contiguous_strides(source.count, stride);
        for (const Piece& before : pieces) {
          Piece& piece = longer.emplace_back(before);
          piece.offset += at * stride;
          for (int d = 0; d < source.ndim(); ++d) {
            piece.need.box.start.push_back(source.start[d]);
            piece.need.box.count.push_back(source.count[d]);
            piece.need.box.step.push_back(source.step[d]);
            piece.strides.push_back(inside[d]);
          }
        }
        at += source.elements();
      }
      pieces = std::move(longer);
    }
    return pieces;
  }

  bool is_chosen() const { return chosen_; }

 private:
  // Elements of the result's axes of a group behind the one that is cut.
  int64_t inner(const Group& group) const {
    int64_t elements = 1;
    for (int d = first_long(shape_, group.to, group.to_end) + 1; d < group.to_end; ++d) elements *= shape_[d];
    return elements;
  }

  // The cuts of that axis where every chunk of the argument ends with whole axes behind it.
  std::optional<AxisChunks> kept_cuts(const Grid& grid, const Group& group) const {
    if (group.from == group.from_end || group.to == group.to_end) return std::nullopt;
    const Dims shape = grid.shape();
    const int cut = first_long(shape, group.from, group.from_end);
    int64_t elements = 1;  // of the argument's axes behind it
    for (int d = cut + 1; d < group.from_end; ++d) {
      if (grid.axis(d).count() > 1) return std::nullopt;
      elements *= shape[d];
    }
    const AxisChunks& axis = grid.axis(cut);
    const int64_t behind = inner(group);
    if (elements == behind) return axis;
    if (axis == AxisChunks(axis.extent(), std::max<int64_t>(axis.size(0), 1))) {  // equal ones, perhaps very many
      const int64_t chunk = axis.size(0) * elements, all = axis.extent() * elements;
      if (chunk % behind != 0 || all % behind != 0) return std::nullopt;
      return AxisChunks(all / behind, std::max<int64_t>(chunk / behind, 1));
    }
    std::vector<int64_t> extents;
    for (int64_t i = 0; i < axis.count(); ++i) {
      const int64_t chunk = axis.size(i) * elements;
      if (chunk % behind != 0) return std::nullopt;
      extents.push_back(chunk / behind);
    }
    return AxisChunks(extents);
  }

  const Dims shape_;
  const bool chosen_;
};

// The argument with chunks of consecutive elements in every group.
NodePtr with_consecutive_chunks(const NodePtr& arg, const Dims& shape) {
  std::vector<AxisChunks> axes = arg->grid.axes();
  for (const Group& group : groups_of(arg->shape, shape)) {
    if (is_consecutive(arg->grid, group.from, group.from_end)) continue;
    const Dims extents = axes_of(arg->shape, group.from, group.from_end);
    int64_t elements = 1;
    for (int d = group.from; d < group.from_end; ++d) elements *= arg->grid.axis(d).largest();
    const Dims chunk = auto_chunk(extents, 1, std::nullopt, elements);
    for (int d = group.from; d < group.from_end; ++d)
      axes[static_cast<size_t>(d)] = AxisChunks(arg->shape[d], chunk[d - group.from]);
  }
  const Grid grid(std::move(axes));
  return grid == arg->grid ? arg : expr::rechunk(arg, grid);
}

NodePtr reshaped(const NodePtr& arg, const Dims& shape, bool chosen) {
  return expr::apply(std::make_shared<Reshape>(shape, chosen), {with_consecutive_chunks(arg, shape)});
}

}  // namespace

NodePtr reshape(const NodePtr& arg, const Dims& shape) {
  if (shape == arg->shape) return arg;
  if (const auto* value = arg->as<expr::Constant>()) return expr::constant(value->value, arg->dtype, shape);
  if (local::element_count(shape) == 0) return expr::constant(local::Scalar(0), arg->dtype, shape);  // of no element
  const auto* below = arg->as<expr::Apply>();
  const auto* before = below != nullptr ? dynamic_cast<const Reshape*>(below->op.get()) : nullptr;
  if (before != nullptr && shape == below->args[0]->shape) return below->args[0];
  if (before != nullptr) return reshaped(below->args[0], shape, before->is_chosen());
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
  return reshaped(arg, shape, arg->chosen_grid);
}

}  // namespace quarry::algo
