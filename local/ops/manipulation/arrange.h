// What only rearranges axes, slices and lists of arrays, written once for arrays of one process and chunked ones. A has
// shape(), ndim(), transpose(order) and basic indexing, which give views. What the functions throw stands in
// manipulation.h.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/ops/indexing/placement.h"

namespace quarry::local::arrange {

// ---- Axes -----------------------------------------------------------------------------------------------------------

inline std::vector<int64_t> axes_in_order(int ndim) {
  std::vector<int64_t> axes(static_cast<size_t>(ndim));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return axes;
}
template <class A>
A permuted(const A& a, const std::vector<int64_t>& axes) {
  return axes.empty() ? a : A(a.transpose(axes));
}
template <class A>
A swapped(const A& a, int64_t first, int64_t second) {
  std::vector<int64_t> axes = axes_in_order(a.ndim());
  std::swap(axes[static_cast<size_t>(normalize_axis(first, a.ndim()))],
            axes[static_cast<size_t>(normalize_axis(second, a.ndim()))]);
  return permuted(a, axes);
}

template <class A>
A moveaxis(const A& a, const Ints& source, const Ints& destination) {
  const std::vector<int> from = normalize_axes(source.values(), a.ndim(), "repeated axis in `source` argument");
  const std::vector<int> to = normalize_axes(destination.values(), a.ndim(), "repeated axis in `destination` argument");
  if (from.size() != to.size()) {
    throw InvalidArgument(
        fmt::format("`source` and `destination` arguments must have the same number of elements, not {} and {}",
                    from.size(), to.size()));
  }
  std::vector<int64_t> axes(static_cast<size_t>(a.ndim()), -1);
  uint32_t moved = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    axes[static_cast<size_t>(to[i])] = from[i];
    moved |= 1u << from[i];
  }
  int next = 0;
  for (int64_t& axis : axes) {
    if (axis >= 0) continue;
    while (moved & (1u << next)) ++next;
    axis = next++;
  }
  return permuted(a, axes);
}

template <class A>
A rollaxis(const A& a, int64_t axis, int64_t start) {
  const int from = normalize_axis(axis, a.ndim());
  const int64_t n = a.ndim();
  if (start < -n || start > n)
    throw IndexError(fmt::format("'start' arg requires {} <= start < {}, but {} was passed in", -n, n + 1, start));
  int64_t to = start < 0 ? start + n : start;
  if (from < to) --to;
  return moveaxis(a, from, to);
}

// ---- Slices ---------------------------------------------------------------------------------------------------------

// a[slice] along one axis.
template <class A>
A sliced(const A& a, int axis, const Slice& slice) {
  std::vector<IndexItem> index(static_cast<size_t>(axis), IndexItem(full_slice));
  index.emplace_back(slice);
  return a[std::span<const IndexItem>(index)];
}
// `count` elements from `start` on.
template <class A>
A part(const A& a, int axis, int64_t start, int64_t count) {
  return sliced(a, axis, Slice{start, start + count, std::nullopt});
}
template <class A>
A backwards(const A& a, int axis) {
  return sliced(a, axis, Slice{std::nullopt, std::nullopt, -1});
}

template <class A>
A flip(const A& m, const Axes& axis) {
  uint32_t mask = 0;
  if (axis.none())
    mask = axis.mask(m.ndim());
  else
    for (int d : normalize_axes(axis.list(), m.ndim(), "repeated axis")) mask |= 1u << d;
  A view = m;
  for (int d = 0; d < m.ndim(); ++d)
    if (mask & (1u << d)) view = backwards(view, d);
  return view;
}

template <class A>
void require_dims(const A& a, int ndim, const char* function) {
  if (a.ndim() >= ndim) return;
  throw InvalidArgument(
      fmt::format("{}: Input must be >= {}-d, but the array has {} dimensions", function, ndim, a.ndim()));
}
template <class A>
A fliplr(const A& m) {
  require_dims(m, 2, "fliplr");
  return flip(m, 1);
}
template <class A>
A flipud(const A& m) {
  require_dims(m, 1, "flipud");
  return flip(m, 0);
}

template <class A>
A rot90(const A& m, int64_t k, const Ints& axes) {
  const std::vector<int64_t>& pair = axes.values();
  if (pair.size() != 2) throw InvalidArgument(fmt::format("len(axes) must be 2, not {}", pair.size()));
  const int64_t n = m.ndim();
  if (pair[0] == pair[1] || std::abs(pair[0] - pair[1]) == n)
    throw InvalidArgument(fmt::format("Axes must be different, not {} and {}", pair[0], pair[1]));
  for (int64_t axis : pair)
    if (axis < -n || axis >= n)
      throw InvalidArgument(fmt::format("Axes=({}, {}) out of range for array of ndim={}.", pair[0], pair[1], n));
  switch (((k % 4) + 4) % 4) {
    case 0:
      return m;
    case 1:
      return swapped(flip(m, pair[1]), pair[0], pair[1]);
    case 2:
      return flip(flip(m, pair[0]), pair[1]);
    default:
      return flip(swapped(m, pair[0], pair[1]), pair[1]);
  }
}

// ---- Axes of one element --------------------------------------------------------------------------------------------

template <class A>
A with_index(const A& a, std::vector<IndexItem> index) {
  return a[std::span<const IndexItem>(index)];
}
// Axes of one element in front of the others.
template <class A>
A with_leading_axes(const A& a, int ndim) {
  if (a.ndim() >= ndim) return a;
  return with_index(a, std::vector<IndexItem>(static_cast<size_t>(ndim - a.ndim()), IndexItem(newaxis)));
}
// As atleast_1d(), atleast_2d() and atleast_3d() have it.
template <class A>
A at_least(const A& a, int ndim) {
  if (a.ndim() >= ndim) return a;
  if (ndim < 3 || a.ndim() == 0) return with_leading_axes(a, ndim);
  if (a.ndim() == 1) return with_index(a, {newaxis, full_slice, newaxis});
  return with_index(a, {full_slice, full_slice, newaxis});
}
template <class A>
std::vector<A> all_at_least(const std::vector<A>& arrays, int ndim) {
  std::vector<A> results;
  results.reserve(arrays.size());
  for (const A& a : arrays) results.push_back(at_least(a, ndim));
  return results;
}
// Vectors become columns.
template <class A>
std::vector<A> as_columns(const std::vector<A>& arrays) {
  std::vector<A> columns;
  columns.reserve(arrays.size());
  for (const A& a : arrays) columns.push_back(a.ndim() < 2 ? swapped(with_leading_axes(a, 2), 0, 1) : a);
  return columns;
}

// ---- Splitting ------------------------------------------------------------------------------------------------------

// The positions of array_split() as first elements and lengths of parts.
inline std::vector<std::pair<int64_t, int64_t>> part_bounds(const Ints& indices_or_sections, int64_t size) {
  std::vector<std::pair<int64_t, int64_t>> bounds;
  if (indices_or_sections.scalar()) {
    const int64_t sections = indices_or_sections.values()[0];
    if (sections <= 0) throw InvalidArgument(fmt::format("number sections must be larger than 0, not {}", sections));
    const int64_t each = size / sections, longer = size % sections;
    for (int64_t i = 0, at = 0; i < sections; ++i) {
      const int64_t count = each + (i < longer);
      bounds.emplace_back(at, count);
      at += count;
    }
    return bounds;
  }
  // As Python slices: positions may be negative and need not ascend.
  const auto clamped = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + size : position, 0, size);
  };
  int64_t start = 0;
  for (int64_t position : indices_or_sections.values()) {
    const int64_t first = clamped(start), stop = clamped(position);
    bounds.emplace_back(first, std::max<int64_t>(stop - first, 0));
    start = position;
  }
  const int64_t first = clamped(start);
  bounds.emplace_back(first, size - first);
  return bounds;
}

template <class A>
std::vector<A> array_split(const A& ary, const Ints& indices_or_sections, int64_t axis) {
  const int along = normalize_axis(axis, ary.ndim());
  std::vector<A> parts;
  for (const auto& [start, count] : part_bounds(indices_or_sections, ary.shape()[along]))
    parts.push_back(part(ary, along, start, count));
  return parts;
}
template <class A>
std::vector<A> split(const A& ary, const Ints& indices_or_sections, int64_t axis) {
  const int64_t size = ary.shape()[normalize_axis(axis, ary.ndim())];
  if (indices_or_sections.scalar()) {
    const int64_t sections = indices_or_sections.values()[0];
    if (sections != 0 && size % sections != 0) {
      throw InvalidArgument(
          fmt::format("array split does not result in an equal division: {} elements into {}", size, sections));
    }
  }
  return array_split(ary, indices_or_sections, axis);
}
template <class A>
std::vector<A> hsplit(const A& ary, const Ints& indices_or_sections) {
  if (ary.ndim() == 0) throw InvalidArgument("hsplit only works on arrays of 1 or more dimensions");
  return split(ary, indices_or_sections, ary.ndim() > 1 ? 1 : 0);
}
template <class A>
std::vector<A> vsplit(const A& ary, const Ints& indices_or_sections) {
  if (ary.ndim() < 2) throw InvalidArgument("vsplit only works on arrays of 2 or more dimensions");
  return split(ary, indices_or_sections, 0);
}
template <class A>
std::vector<A> dsplit(const A& ary, const Ints& indices_or_sections) {
  if (ary.ndim() < 3) throw InvalidArgument("dsplit only works on arrays of 3 or more dimensions");
  return split(ary, indices_or_sections, 2);
}
template <class A>
std::vector<A> unstack(const A& x, int64_t axis) {
  if (x.ndim() == 0) throw InvalidArgument("Input array must be at least 1-d.");
  const int along = normalize_axis(axis, x.ndim());
  std::vector<A> parts;
  std::vector<IndexItem> index(static_cast<size_t>(along) + 1, IndexItem(full_slice));
  for (int64_t i = 0; i < x.shape()[along]; ++i) {
    index.back() = i;
    parts.push_back(with_index(x, index));
  }
  return parts;
}

// ---- Amounts --------------------------------------------------------------------------------------------------------

// What roll() moves elements by along each axis, within the extents.
inline std::vector<int64_t> rolled_by(const Dims& shape, const Ints& shift, const std::vector<int64_t>& axes) {
  const std::vector<int64_t>& shifts = shift.values();
  if (shifts.size() != axes.size() && shifts.size() != 1 && axes.size() != 1) {
    throw InvalidArgument(
        fmt::format("'shift' and 'axis' should be scalars or 1D sequences of equal length, not {} and {}",
                    shifts.size(), axes.size()));
  }
  const size_t pairs = shifts.empty() || axes.empty() ? 0 : std::max(shifts.size(), axes.size());
  std::vector<int64_t> amounts(static_cast<size_t>(shape.size()), 0);
  for (int64_t each : axes) normalize_axis(each, shape.size());
  for (size_t i = 0; i < pairs; ++i) {
    const int d = normalize_axis(axes[axes.size() == 1 ? 0 : i], shape.size());
    const int64_t size = std::max<int64_t>(shape[d], 1), by = shifts[shifts.size() == 1 ? 0 : i] % size;
    int64_t& amount = amounts[static_cast<size_t>(d)];
    amount = (amount + by + size) % size;
  }
  return amounts;
}

// The axes and shifts of fftshift() (sign 1) and ifftshift() (sign -1).
template <class A>
std::pair<std::vector<int64_t>, std::vector<int64_t>> half_shifts(const A& x, const Axes& axes, int64_t sign) {
  const std::vector<int64_t> chosen = axes.none() ? axes_in_order(x.ndim()) : axes.list();
  std::vector<int64_t> shifts;
  for (const int64_t axis : chosen) shifts.push_back(sign * (x.shape()[normalize_axis(axis, x.ndim())] / 2));
  return {shifts, chosen};
}

// What tile() repeats along each axis of a result with as many axes as the array or `reps`, whichever has more; and its
// shape.
inline std::pair<std::vector<int64_t>, Dims> tiled_by(const Dims& of, const Ints& reps) {
  std::vector<int64_t> counts = reps.values();
  const int ndim = std::max(static_cast<int>(counts.size()), of.size());
  counts.insert(counts.begin(), static_cast<size_t>(ndim) - counts.size(), 1);
  Dims shape = of;
  while (shape.size() < ndim) shape.insert(0, 1);
  for (int d = 0; d < ndim; ++d) {
    const int64_t count = counts[static_cast<size_t>(d)];
    if (count < 0) throw InvalidArgument(fmt::format("negative dimensions are not allowed: repetitions {}", count));
    if (__builtin_mul_overflow(shape[d], count, &shape[d]))
      throw InvalidArgument(fmt::format("the result of {} repetitions is too large", count));
  }
  return {std::move(counts), shape};
}

// ---- Nested lists of blocks, and orders of elements -----------------------------------------------------------------

// Depth of the nested lists, and the largest ndim of an array in them. All lists must be equally deep and not empty.
struct BlockDepth {
  int lists = 0, ndim = 0;
};
template <class Blocks>
BlockDepth depth_of(const Blocks& blocks) {
  if (!blocks.is_list()) return {0, blocks.array().ndim()};
  if (blocks.list().empty()) throw InvalidArgument("List at arrays cannot be empty");
  BlockDepth result = depth_of(blocks.list()[0]);
  for (const auto& part : blocks.list()) {
    const BlockDepth depth = depth_of(part);
    if (depth.lists != result.lists) {
      throw InvalidArgument(
          fmt::format("List depths are mismatched. First element was at depth {}, but there is an "
                      "element at depth {}",
                      result.lists + 1, depth.lists + 1));
    }
    result.ndim = std::max(result.ndim, depth.ndim);
  }
  return {result.lists + 1, result.ndim};
}

// Elements between neighbours along each axis of an array of `shape`, in order "C" or "F".
inline Dims element_strides(const Dims& shape, std::string_view order) {
  Dims strides = Dims::filled(shape.size());
  int64_t step = 1;
  for (int i = 0; i < shape.size(); ++i) {
    const int d = order == "C" ? shape.size() - 1 - i : i;
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

}  // namespace quarry::local::arrange
