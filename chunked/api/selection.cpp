#include "quarry/chunked/api/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/index_terms.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/ufuncs.h"

namespace quarry {
namespace {

using local::IndexError;
using local::InvalidArgument;

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
Array selected(const Array& given, const Array& mask, int axis) {
  const Array x = compose::in_fitting_chunks(given, algo::selected_bytes(given.dtype(), given.ndim()));
  const AxisChunks& cuts = x.chunks().axis(axis);
  const auto [kept, counts] = counted(mask, cuts, &x);
  return joined(Array(algo::selected(x.node(), kept.node(), axis, counts)), axis, cuts.largest());
}

void check_bool(const Array& mask) {
  if (mask.dtype() != DType::bool_)
    throw local::TypeError(fmt::format("a mask is of dtype bool, not {}", local::name(mask.dtype())));
}

Array as_mask(const Array& a) { return a.dtype() == DType::bool_ ? a : a != Scalar(0); }

// The positions of the elements in C order.
Array flat_positions(const Array& a) {
  const Array mask = compose::in_fitting_chunks(ravel(as_mask(a)), algo::selected_bytes(DType::int64, /*ndim=*/1));
  const auto [kept, counts] = counted(mask, mask.chunks().axis(0));
  return joined(Array(algo::true_positions(kept.node(), counts)), 0, mask.chunks().axis(0).largest());
}

}  // namespace

Array index(const Array& x, std::span<const IndexTerm> terms) {
  const IndexParts parts = parts_of(x, terms);
  Array left = x[parts.basic];
  if (!parts.has_arrays) return left;
  if (terms.size() == 1 && parts.is_mask()) return boolean_index(x, parts.arrays[0].array);
  if (terms.size() == 1 && parts.arrays.size() == 1) return take(x, parts.arrays[0].array, 0);
  const IndexPositions indexed = positions_of(x, parts);
  // The indexed axes next to each other where the result has those of the arrays, then as one axis.
  std::vector<int64_t> order;
  for (int64_t d = 0; d < left.ndim(); ++d)
    if (std::ranges::find(indexed.axes, d) == indexed.axes.end()) order.push_back(d);
  order.insert(order.begin() + parts.place, indexed.axes.begin(), indexed.axes.end());
  const Array turned = transpose(left, order);
  const int at = parts.place, past = at + static_cast<int>(indexed.axes.size());
  Dims merged(turned.shape().begin(), turned.shape().begin() + at);
  merged.push_back(1);
  for (int d = at; d < past; ++d) merged[at] *= turned.shape()[d];
  for (int d = past; d < turned.ndim(); ++d) merged.push_back(turned.shape()[d]);
  // C-order positions over the indexed axes.
  std::vector<int64_t> positions(static_cast<size_t>(local::element_count(indexed.shape)), 0);
  for (size_t i = 0; i < indexed.axes.size(); ++i)
    for (size_t k = 0; k < positions.size(); ++k)
      positions[k] = positions[k] * left.shape()[indexed.axes[i]] + indexed.positions[i][k];
  return take(reshape(turned, merged), local::from_vector(positions, indexed.shape), at);
}

Array boolean_index(const Array& x, const Array& mask) {
  check_bool(mask);
  const IndexTerm term = mask;
  parts_of(x, std::span(&term, 1));  // it fits
  if (mask.ndim() == 1 && mask.size() == x.shape()[0]) return selected(x, mask, 0);
  Dims merged{mask.size()};
  for (int d = mask.ndim(); d < x.ndim(); ++d) merged.push_back(x.shape()[d]);
  if (mask.size() == 0) return Array(expr::constant(0, x.dtype(), merged));
  return selected(reshape(x, merged), ravel(mask), 0);
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

Array take(const Array& a, const NdArray& given, std::optional<int64_t> axis, std::string_view mode) {
  const local::IndexMode how = local::parse_index_mode(mode);
  const int64_t bytes = algo::taken_bytes(a.dtype());
  const Array x = compose::in_fitting_chunks(axis && a.ndim() > 0 ? a : ravel(a), bytes);
  const int along = axis ? local::normalize_axis(*axis, x.ndim()) : 0;
  const int64_t extent = x.shape()[along];
  // An empty list is float64.
  NdArray indices = given.size() == 0 || given.dtype() == DType::bool_ ? given.astype(DType::int64) : given;
  if (how != local::IndexMode::raise && indices.size() > 0 && local::is_integer(indices.dtype())) {
    if (extent == 0) throw IndexError("cannot do a non-empty take from an empty axes.");
    indices = indices.astype(DType::int64);
    indices = how == local::IndexMode::wrap ? local::apply("remainder"_op, {indices, extent})
                                            : local::ops::clip_between(indices, 0, extent - 1);
  }
  const Array parts(
      algo::taken(x.node(), along, checked_positions(indices, along, extent), compose::most_fitting(x, bytes, along)));
  Array result = joined(parts, along, x.chunks().axis(along).largest());
  if (indices.ndim() == 1) return result;
  Dims shape(x.shape().begin(), x.shape().begin() + along);
  for (const int64_t n : indices.shape()) shape.push_back(n);
  for (int d = along + 1; d < x.ndim(); ++d) shape.push_back(x.shape()[d]);
  return reshape(result, shape);
}

Array take(const Array& a, const Array& indices, std::optional<int64_t> axis, std::string_view mode) {
  return take(a, settle(std::span(&indices, 1), {}).values[0], axis, mode);
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
  try {
    of_arr = of_indices = local::broadcast_shapes(of_arr, of_indices);
  } catch (const local::InvalidArgument&) {
    throw IndexError(fmt::format("shape mismatch: indexing arrays could not be broadcast together with shapes {} {}",
                                 local::compact_shape(arr.shape()), local::compact_shape(indices.shape())));
  }
  of_arr[along] = arr.shape()[along];
  of_indices[along] = indices.shape()[along];
  return Array(
      algo::taken_along_axis(broadcast_to(arr, of_arr).node(), broadcast_to(indices, of_indices).node(), along));
}

}  // namespace quarry
