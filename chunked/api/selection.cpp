#include "quarry/chunked/api/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {
namespace {

using local::IndexError;
using local::InvalidArgument;

struct Counted {
  Array mask;  // kept
  std::vector<int64_t> counts;
};

Counted counted(const Array& mask) {
  const Array counts(algo::true_counts(mask.node()));
  const Settled settled = settle(std::span(&counts, 1), std::span(&mask, 1));
  return {settled.kept[0], local::to_vector<int64_t>(settled.values[0])};
}

// An axis in fewer chunks, where those left by a selection are far smaller than the ones that they came from.
Array joined(const Array& x, int axis, int64_t usual) {
  constexpr int64_t kFar = 8;
  const AxisChunks& cuts = x.chunks().axis(axis);
  if (cuts.count() < 2 || cuts.extent() / cuts.count() * kFar >= usual) return x;
  std::vector<int64_t> extents{0};
  for (int64_t i = 0; i < cuts.count(); ++i) {
    if (extents.back() > 0 && extents.back() + cuts.size(i) > usual) extents.push_back(0);
    extents.back() += cuts.size(i);
  }
  std::vector<AxisChunks> axes = x.chunks().axes();
  axes[static_cast<size_t>(axis)] = AxisChunks(extents);
  return x.rechunk(Grid(std::move(axes)));
}

// By a mask that is as long as the axis.
Array selected(const Array& x, const Array& mask, int axis) {
  const AxisChunks& cuts = x.chunks().axis(axis);
  const auto [kept, counts] = counted(mask.rechunk(Grid({cuts})));
  return joined(Array(algo::selected(x.node(), kept.node(), axis, counts)), axis, cuts.largest());
}

void check_bool(const Array& mask) {
  if (mask.dtype() != DType::bool_)
    throw local::TypeError(fmt::format("a mask is of dtype bool, not {}", local::name(mask.dtype())));
}

Array as_mask(const Array& a) { return a.dtype() == DType::bool_ ? a : a != Scalar(0); }

// The positions of the elements in C order.
Array flat_positions(const Array& a) {
  const Array mask = ravel(as_mask(a));
  const auto [kept, counts] = counted(mask.rechunk(mask.chunks()));
  return joined(Array(algo::true_positions(kept.node(), counts)), 0, mask.chunks().axis(0).largest());
}

[[noreturn]] void throw_mask(int axis, int64_t extent, int64_t of_mask) {
  throw IndexError(
      fmt::format("boolean index did not match indexed array along axis {}; size of axis is {} but size of "
                  "corresponding boolean axis is {}",
                  axis, extent, of_mask));
}

// Positions inside an axis, from those that may count from the end.
std::vector<int64_t> checked_positions(const NdArray& indices, int axis, int64_t extent) {
  const char kind = local::kind(indices.dtype());
  if (kind != 'i' && kind != 'u')
    throw local::TypeError(fmt::format("indices are integers, not {}", local::name(indices.dtype())));
  std::vector<int64_t> positions =
      local::to_vector<int64_t>(indices.to(local::kCpu).astype(DType::int64).reshape({-1}));
  for (int64_t& position : positions) {
    if (position < -extent || position >= extent)
      throw IndexError(fmt::format("index {} is out of bounds for axis {} with size {}", position, axis, extent));
    if (position < 0) position += extent;
  }
  return positions;
}

// A general index over its array's axes, with its arrays taken out.
struct Terms {
  std::vector<local::IndexItem> basic;  // whole slices stand for the arrays
  std::vector<Array> arrays;            // of integers
  std::vector<int> axes;                // of x, for each of them
  bool in_front = false;                // NumPy puts their axes first: other terms stand between them
};

int axes_of(const IndexTerm& term) {
  if (const auto* array = std::get_if<Array>(&term.value())) return array->dtype() == DType::bool_ ? array->ndim() : 1;
  return std::holds_alternative<int64_t>(term.value()) || std::holds_alternative<Slice>(term.value()) ? 1 : 0;
}

// The mask as positions along its axes, which begin at `axis` of x.
std::vector<Array> positions_of(const Array& mask, const Array& x, int axis) {
  if (mask.ndim() == 0) throw local::NotSupported("a mask of no axes beside other terms");
  for (int d = 0; d < mask.ndim(); ++d)
    if (mask.shape()[d] != x.shape()[axis + d]) throw_mask(axis + d, x.shape()[axis + d], mask.shape()[d]);
  return nonzero(mask);
}

Terms terms_of(const Array& x, std::span<const IndexTerm> terms) {
  Terms result;
  int named = 0, ellipses = 0, axis = 0;
  for (const IndexTerm& term : terms) {
    named += axes_of(term);
    ellipses += std::holds_alternative<local::Ellipsis>(term.value());
  }
  if (named > x.ndim())
    throw IndexError(
        fmt::format("too many indices for array: array is {}-dimensional, but {} were indexed", x.ndim(), named));
  if (ellipses > 1) throw IndexError("an index can only have a single ellipsis ('...')");
  int last = -1, number = 0;  // of the last term that is an array or an integer
  for (const IndexTerm& term : terms) {
    const auto* array = std::get_if<Array>(&term.value());
    if (array != nullptr || std::holds_alternative<int64_t>(term.value())) {
      result.in_front = result.in_front || (last >= 0 && last != number - 1);
      last = number;
    }
    ++number;
    if (array == nullptr) {
      std::visit(
          [&](const auto& value) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, Array>) result.basic.emplace_back(value);
          },
          term.value());
      axis += std::holds_alternative<local::Ellipsis>(term.value()) ? x.ndim() - named : axes_of(term);
      continue;
    }
    for (const Array& each : array->dtype() == DType::bool_ ? positions_of(*array, x, axis) : std::vector{*array}) {
      result.basic.emplace_back(local::full_slice);
      result.arrays.push_back(each);
      result.axes.push_back(axis++);
    }
  }
  return result;
}

}  // namespace

Array index(const Array& x, std::span<const IndexTerm> terms) {
  if (terms.size() == 1)
    if (const auto* array = std::get_if<Array>(&terms[0].value())) return x[*array];
  const Terms split = terms_of(x, terms);
  const Array left = x[split.basic];
  if (split.arrays.empty()) return left;
  // Where the indexed axes are in what the other terms leave.
  const local::BasicIndex basic = local::resolve_index(split.basic, x.shape());
  std::vector<int64_t> axes;
  for (const int axis : split.axes)
    for (size_t d = 0; d < basic.axes.size(); ++d)
      if (basic.axes[d].source == axis) axes.push_back(static_cast<int64_t>(d));
  const std::vector<NdArray> indices = settle(split.arrays, {}).values;
  std::vector<Dims> shapes;
  for (const NdArray& each : indices) shapes.push_back(each.shape());
  const Dims together = local::broadcast_shapes(shapes);
  // C-order positions over the indexed axes.
  std::vector<int64_t> positions(static_cast<size_t>(local::element_count(together)), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t extent = x.shape()[split.axes[i]];
    const std::vector<int64_t> own = checked_positions(indices[i].broadcast_to(together), split.axes[i], extent);
    for (size_t k = 0; k < own.size(); ++k) positions[k] = positions[k] * extent + own[k];
  }
  // The indexed axes next to each other, then as one axis.
  bool adjacent = !split.in_front;
  for (size_t i = 0; i < axes.size(); ++i) adjacent = adjacent && axes[i] == axes[0] + static_cast<int64_t>(i);
  const int at = adjacent ? static_cast<int>(axes[0]) : 0;
  std::vector<int64_t> order;
  if (!adjacent) order = axes;
  for (int64_t d = 0; d < left.ndim(); ++d)
    if (adjacent || std::ranges::find(axes, d) == axes.end()) order.push_back(d);
  const Array turned = transpose(left, order);
  const int past = at + static_cast<int>(axes.size());
  Dims merged(turned.shape().begin(), turned.shape().begin() + at);
  merged.push_back(1);
  for (int d = at; d < past; ++d) merged[at] *= turned.shape()[d];
  for (int d = past; d < turned.ndim(); ++d) merged.push_back(turned.shape()[d]);
  return take(reshape(turned, merged), local::from_vector(positions, together), at);
}

Array boolean_index(const Array& x, const Array& mask) {
  check_bool(mask);
  if (mask.ndim() > x.ndim())
    throw IndexError(
        fmt::format("too many indices for array: array is {}-dimensional, but {} were indexed", x.ndim(), mask.ndim()));
  for (int d = 0; d < mask.ndim(); ++d)
    if (mask.shape()[d] != x.shape()[d]) throw_mask(d, x.shape()[d], mask.shape()[d]);
  if (mask.ndim() == 1) return selected(x, mask, 0);
  Dims merged{mask.size()};
  for (int d = mask.ndim(); d < x.ndim(); ++d) merged.push_back(x.shape()[d]);
  return selected(reshape(x, merged), ravel(mask), 0);
}

Array Array::operator[](const Array& index) const {
  return index.dtype() == DType::bool_ ? boolean_index(*this, index) : take(*this, index, 0);
}

Array compress(const Array& condition, const Array& a, std::optional<int64_t> axis) {
  if (condition.ndim() != 1) throw InvalidArgument("condition must be a 1-d array");
  const Array x = axis && a.ndim() > 0 ? a : ravel(a);
  const int along = axis ? local::normalize_axis(*axis, x.ndim()) : 0;
  const int64_t extent = x.shape()[along], given = condition.size();
  Array mask = as_mask(condition);
  if (given > extent) {
    // NumPy allows what lies beyond the end to be false.
    const Array beyond = flat_positions(mask[{local::Slice{extent, {}, {}}}]);
    if (beyond.size() > 0)
      throw IndexError(fmt::format("index {} is out of bounds for axis {} with size {}",
                                   extent + beyond.to_host().copy().data<const int64_t>()[0], along, extent));
    mask = mask[{local::Slice{{}, extent, {}}}];
  } else if (given < extent) {
    mask = concatenate({mask, Array(expr::constant(false, DType::bool_, {extent - given}))});
  }
  return selected(x, mask, along);
}

Array extract(const Array& condition, const Array& arr) { return compress(ravel(condition), arr); }

Array flatnonzero(const Array& a) { return flat_positions(a); }

std::vector<Array> nonzero(const Array& a) {
  if (a.ndim() == 0)
    throw InvalidArgument("Calling nonzero on 0d arrays is not allowed. Use atleast_1d(scalar).nonzero()");
  const Array flat = a.ndim() == 1 ? flat_positions(a) : flat_positions(a).persist();
  if (a.ndim() == 1) return {flat};
  std::vector<Array> positions;
  int64_t stride = a.size();
  for (const int64_t extent : a.shape()) {
    stride /= std::max<int64_t>(extent, 1);
    const Scalar step(std::max<int64_t>(stride, 1)), count(std::max<int64_t>(extent, 1));
    positions.push_back(remainder(floor_divide(flat, step), count));
  }
  return positions;
}

Array argwhere(const Array& a) {
  if (a.ndim() == 0) {
    const int64_t n = flat_positions(a).size();
    return Array(expr::constant(0, DType::int64, {n, 0}));
  }
  return stack(nonzero(a), -1);
}

Array take(const Array& a, const NdArray& indices, std::optional<int64_t> axis) {
  const Array x = axis && a.ndim() > 0 ? a : ravel(a);
  const int along = axis ? local::normalize_axis(*axis, x.ndim()) : 0;
  const int64_t extent = x.shape()[along];
  const Array result = joined(Array(algo::taken(x.node(), along, checked_positions(indices, along, extent))), along,
                              x.chunks().axis(along).largest());
  if (indices.ndim() == 1) return result;
  Dims shape(x.shape().begin(), x.shape().begin() + along);
  for (const int64_t n : indices.shape()) shape.push_back(n);
  for (int d = along + 1; d < x.ndim(); ++d) shape.push_back(x.shape()[d]);
  return reshape(result, shape);
}

Array take(const Array& a, const Array& indices, std::optional<int64_t> axis) {
  return take(a, settle(std::span(&indices, 1), {}).values[0], axis);
}

Array take_along_axis(const Array& given, const Array& given_indices, std::optional<int64_t> axis) {
  const Array arr = axis ? given : ravel(given), indices = axis ? given_indices : ravel(given_indices);
  const char kind = local::kind(indices.dtype());
  if (kind != 'i' && kind != 'u') throw IndexError("`indices` must be an integer array");
  if (arr.ndim() != indices.ndim())
    throw InvalidArgument("`indices` and `arr` must have the same number of dimensions");
  const int along = local::normalize_axis(axis.value_or(0), arr.ndim());
  Dims of_arr = arr.shape(), of_indices = indices.shape();
  of_arr[along] = of_indices[along] = 1;
  of_arr = of_indices = local::broadcast_shapes(of_arr, of_indices);
  of_arr[along] = arr.shape()[along];
  of_indices[along] = indices.shape()[along];
  return Array(
      algo::taken_along_axis(broadcast_to(arr, of_arr).node(), broadcast_to(indices, of_indices).node(), along));
}

}  // namespace quarry
