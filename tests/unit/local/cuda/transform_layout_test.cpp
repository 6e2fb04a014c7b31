// How transforms become plans of cuFFT, against the addresses that its documentation defines. Needs no GPU.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "quarry/local/cuda/transforms.h"

namespace quarry::local::cuda {
namespace {

// (byte offset in the input, in the output) of every element that both sides have, by the operands' strides.
using Addresses = std::map<int64_t, int64_t>;

Addresses by_strides(const AxisGroup& g) {
  Addresses result;
  Dims common = g.input_extents;
  for (int d = 0; d < common.size(); ++d) common[d] = std::min(common[d], g.output_extents[d]);
  Dims at = Dims::filled(common.size());
  for (int64_t k = 0; k < element_count(common); ++k) {
    int64_t in = 0, out = 0, rest = k;
    for (int d = common.size(); d-- > 0; rest /= common[d]) {
      in += rest % common[d] * g.input.strides[d];
      out += rest % common[d] * g.output.strides[d];
    }
    result[in] = out;
  }
  return result;
}

Addresses by_plan(const AxisGroup& g, const GroupLayout& layout, int64_t in_size, int64_t out_size) {
  Addresses result;
  const PlanLayout& plan = layout.plan;
  Dims common = Dims::filled(plan.rank);
  for (int i = 0; i < plan.rank; ++i) {
    const int axis = g.axes[static_cast<size_t>(i)];
    common[i] = std::min(g.input_extents[axis], g.output_extents[axis]);
  }
  const auto element = [&](const PlanLayout::Side& side, const Dims& at, int64_t batch) {
    int64_t position = at[0];
    for (int i = 1; i < plan.rank; ++i) position = position * side.embed[static_cast<size_t>(i)] + at[i];
    return batch * side.distance + position * side.stride;
  };
  for (const GroupLayout::Place& place : layout.places) {
    for (int64_t b = 0; b < plan.batch; ++b) {
      for (int64_t k = 0; k < element_count(common); ++k) {
        Dims at = Dims::filled(plan.rank);
        int64_t rest = k;
        for (int d = plan.rank; d-- > 0; rest /= common[d]) at[d] = rest % common[d];
        result[place.input + element(plan.input, at, b) * in_size] =
            place.output + element(plan.output, at, b) * out_size;
      }
    }
  }
  return result;
}

AxisGroup make_group(TransformKind kind, const Dims& shape, const std::vector<int>& axes, const Dims& in_order,
                     const Dims& out_order) {
  AxisGroup g;
  g.kind = kind;
  g.axes = axes;
  g.input_extents = g.output_extents = shape;
  const int last = axes.back();
  if (kind == TransformKind::real_to_half) g.output_extents[last] = shape[last] / 2 + 1;
  if (kind == TransformKind::half_to_real) g.input_extents[last] = shape[last] / 2 + 1;
  for (const int axis : axes) g.lengths.push_back(shape[axis]);
  // Memory with the axes in another order, outermost first.
  const auto strides = [&](const Dims& extents, const Dims& order, int64_t size) {
    Dims result = Dims::filled(extents.size());
    for (int i = order.size(); i-- > 0;) {
      result[static_cast<int>(order[i])] = size;
      size *= extents[static_cast<int>(order[i])];
    }
    return result;
  };
  g.input.strides = strides(g.input_extents, in_order, kind == TransformKind::real_to_half ? 8 : 16);
  g.output.strides = strides(g.output_extents, out_order, kind == TransformKind::half_to_real ? 8 : 16);
  return g;
}

TEST(TransformLayout, AddressesAreThoseOfTheArrays) {
  const Dims shape{4, 3, 6, 5}, c{0, 1, 2, 3}, f{3, 2, 1, 0}, mixed{2, 0, 1, 3};
  int taken = 0;
  for (const TransformKind kind : {TransformKind::complex, TransformKind::real_to_half, TransformKind::half_to_real}) {
    for (const std::vector<int>& axes :
         {std::vector<int>{3}, {2}, {0}, {2, 3}, {0, 1}, {0, 3}, {1, 2, 3}, {0, 1, 2}, {0, 2, 3}, {1, 3}}) {
      for (const Dims& in_order : {c, f, mixed}) {
        for (const Dims& out_order : {c, f, mixed}) {
          const AxisGroup g = make_group(kind, shape, axes, in_order, out_order);
          const std::optional<GroupLayout> layout = layout_of(g);
          if (!layout) continue;
          ++taken;
          const int64_t in_size = kind == TransformKind::real_to_half ? 8 : 16;
          const int64_t out_size = kind == TransformKind::half_to_real ? 8 : 16;
          ASSERT_EQ(by_plan(g, *layout, in_size, out_size), by_strides(g));
        }
      }
    }
  }
  EXPECT_GT(taken, 60);
}

TEST(TransformLayout, ContiguousBatchesAreOneCall) {
  const Dims shape{7, 4, 6, 5}, c{0, 1, 2, 3};
  for (const std::vector<int>& axes : {std::vector<int>{3}, {2, 3}, {1, 2, 3}, {0}, {0, 1}, {0, 1, 2}}) {
    const std::optional<GroupLayout> layout = layout_of(make_group(TransformKind::complex, shape, axes, c, c));
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout->places.size(), 1u);
    int64_t points = 1;
    for (const int axis : axes) points *= shape[axis];
    EXPECT_EQ(layout->plan.batch, 840 / points);
  }
  // An axis in the middle takes one call for every position along the shorter side.
  const std::optional<GroupLayout> middle = layout_of(make_group(TransformKind::complex, shape, {1}, c, c));
  ASSERT_TRUE(middle);
  EXPECT_EQ(middle->places.size(), 7u);
  EXPECT_EQ(middle->plan.batch, 30);
}

TEST(TransformLayout, WhatMustBeCopied) {
  const Dims c{0, 1, 2};
  AxisGroup g = make_group(TransformKind::complex, {3, 4, 5}, {2}, c, c);
  g.input.strides[1] = -g.input.strides[1];
  EXPECT_FALSE(layout_of(g));
  g = make_group(TransformKind::complex, {3, 4, 5}, {2}, c, c);
  g.input.strides[0] = 0;
  EXPECT_FALSE(layout_of(g));
  g = make_group(TransformKind::complex, {3, 4, 5}, {2}, c, c);
  g.output.data = reinterpret_cast<void*>(8);
  EXPECT_FALSE(layout_of(g));
  // Too many calls.
  EXPECT_FALSE(layout_of(make_group(TransformKind::complex, {100, 4, 90}, {1}, c, c)));
  // Real rows of an odd length may begin in the middle of a complex number only inside a batch.
  EXPECT_TRUE(layout_of(make_group(TransformKind::real_to_half, {3, 4, 5}, {2}, c, c)));
  // Halves along an axis that is not the innermost.
  EXPECT_FALSE(layout_of(make_group(TransformKind::real_to_half, {3, 4, 5}, {2, 1}, c, c)));
}

TEST(TransformLayout, AxesOfAPlan) {
  const Dims shape{3, 4, 5, 6};
  const Operand array{nullptr, contiguous_strides(shape, 16)};
  const auto axes = [&](int innermost, const std::vector<int>& all) {
    return plan_axes(innermost, all, shape, array, shape, array);
  };
  EXPECT_EQ(axes(3, {0, 1, 2, 3}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(axes(0, {0}), (std::vector<int>{0}));
  EXPECT_EQ(axes(2, {2, 0}), (std::vector<int>{0, 2}));
  EXPECT_EQ(axes(0, {0, 3}), (std::vector<int>{0}));
  EXPECT_EQ(axes(3, {3, 1, 0}), (std::vector<int>{0, 1, 3}));
}

}  // namespace
}  // namespace quarry::local::cuda
