#include "quarry/chunked/api/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/index_terms.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/indexing/indexing.h"

namespace quarry {

using namespace compose;

namespace {

// Values for a result of that shape: without axes of one element that it lacks, and with those that they lack.
Array fitted(Array value, const Dims& shape) {
  while (value.ndim() > shape.size() && value.shape()[0] == 1) value = std::as_const(value)[0];
  bool fits = value.ndim() <= shape.size();
  for (int d = 0; fits && d < value.ndim(); ++d) {
    const int64_t extent = value.shape()[d], wanted = shape[shape.size() - value.ndim() + d];
    fits = extent == 1 || extent == wanted;
  }
  if (!fits)
    throw InvalidArgument(
        fmt::format("shape mismatch: value array of shape {} could not be broadcast to indexing result of shape {}",
                    local::to_string(value.shape()), local::to_string(shape)));
  return arrange::with_leading_axes(value, shape.size());
}

bool is_whole(const op::AxisSlice& slice, int64_t extent) {
  return slice.start == 0 && slice.step == 1 && slice.count == extent;
}

// Where an axis is in the slice.
Array is_in(const op::AxisSlice& slice, int64_t extent) {
  const Array p = positions(extent);
  if (slice.count == 1) return p == slice.start;
  Array in = (p >= slice.start) & (p < slice.start + slice.count * slice.step);
  if (slice.step > 1) in = in & ((p - slice.start) % slice.step == 0);
  return in;
}

// x with values at a basic index.
Array assigned_basic(const Array& x, const local::BasicIndex& index, const Array& value) {
  const Array fit = fitted(value, index.shape());
  if (local::element_count(index.shape()) == 0 || x.size() == 0) return x;
  // The values' axes in the order of x's, and in ascending direction.
  op::Slices slices(static_cast<size_t>(x.ndim()));
  std::vector<expr::View::Axis> axes(static_cast<size_t>(x.ndim()));
  std::vector<std::pair<int, int64_t>> dropped;
  Dims counts = Dims::filled(x.ndim(), 1);
  for (const auto& [axis, position] : index.integers) slices[static_cast<size_t>(axis)] = {position, 1, 1};
  for (size_t d = 0; d < index.axes.size(); ++d) {
    const auto [source, start, count, step] = index.axes[d];
    const int from = static_cast<int>(d);
    if (source < 0) {
      dropped.emplace_back(from, 0);
      continue;
    }
    const bool backwards = step < 0;
    op::AxisSlice slice{backwards ? start + (count - 1) * step : start, count, backwards ? -step : step};
    if (count == 1) slice.step = 1;
    slices[static_cast<size_t>(source)] = slice;
    counts[source] = fit.shape()[from];
    axes[static_cast<size_t>(source)] = {from, backwards ? counts[source] - 1 : 0, backwards ? -1 : 1};
  }
  const Array values(expr::view(fit.node(), std::move(axes), std::move(dropped), counts));
  bool covers = true, broadcasts = true;
  Array chosen;
  for (int d = 0; d < x.ndim(); ++d) {
    const op::AxisSlice& slice = slices[static_cast<size_t>(d)];
    if (is_whole(slice, x.shape()[d])) continue;
    covers = false;
    broadcasts = broadcasts && counts[d] == 1;
    const Array in = along(is_in(slice, x.shape()[d]), d, x.ndim());
    chosen = chosen.node() ? chosen & in : in;
  }
  if (covers) return broadcast_to(values, x.shape());
  // What needs no values at their own positions fuses with what stands around it.
  if (broadcasts) return where(chosen, values, x);
  return Array(algo::assigned_slices(x.node(), values.node(), std::move(slices)));
}

// An axis of one element for every axis of the mask in place of axis `place`, which moves to `at`.
Array over_mask(const Array& values, int place, int at, int axes) {
  const Array moved = arrange::moveaxis(values, place, at);
  Dims shape = moved.shape();
  for (int d = 1; d < axes; ++d) shape.insert(at, 1);
  return reshape(moved, shape);
}

// A mask over axes of an array that begin at `at`, as one that broadcasts to it.
Array over_axes(const Array& mask, int at, int ndim) {
  Dims shape = Dims::filled(ndim, 1);
  for (int d = 0; d < mask.ndim(); ++d) shape[at + d] = mask.shape()[d];
  return reshape(mask, shape);
}

// x[..., mask, ...] = value, where the mask's axes begin at `at` and the result has its elements at `place`.
Array assigned_by_mask(const Array& x, const Array& mask, int at, int place, bool is_one_mask, Array value) {
  const int ndim = x.ndim() - mask.ndim() + 1;
  if (is_one_mask && value.ndim() > 1)
    throw local::TypeError(fmt::format(
        "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has {} dimensions",
        value.ndim()));
  while (value.ndim() > ndim && value.shape()[0] == 1) value = std::as_const(value)[0];
  Dims rest;
  for (int d = 0; d < x.ndim(); ++d)
    if (d < at || d >= at + mask.ndim()) rest.push_back(x.shape()[d]);
  const auto result_shape = [&](int64_t count) {
    Dims shape = rest;
    shape.insert(place, count);
    return shape;
  };
  const int axis_of_value = place - (ndim - value.ndim());
  const int64_t given = value.ndim() > ndim || axis_of_value < 0 ? 1 : value.shape()[axis_of_value];
  if (given == 1) {
    const Array fit = fitted(value, result_shape(1));
    if (mask.size() == 0 || x.size() == 0) return x;
    return where(over_axes(mask, at, x.ndim()), over_mask(fit, place, at, mask.ndim()), x);
  }
  const bool is_empty = mask.size() == 0;
  Dims merged = x.shape();
  for (int d = 1; d < mask.ndim(); ++d) {
    merged[at] *= merged[at + 1];
    merged.erase(at + 1);
  }
  const Array flat = reshape(x, merged);
  const MaskCounts found = is_empty ? MaskCounts{} : counted(ravel(mask), flat.chunks().axis(at));
  const int64_t count = std::accumulate(found.counts.begin(), found.counts.end(), int64_t{0});
  if (is_one_mask && count != given)
    throw InvalidArgument(
        fmt::format("NumPy boolean array indexing assignment cannot assign {} input values to the {} output values "
                    "where the mask is true",
                    given, count));
  const Array fit = fitted(value, result_shape(count));
  if (count == 0 || x.size() == 0) return x;
  const Array lines = arrange::moveaxis(fit, place, 0);
  return reshape(Array(algo::assigned_masked(flat.node(), found.mask.node(), lines.node(), at, found.counts)),
                 x.shape());
}

// x[indexed] = value, where the result has the arrays' axes at `place`.
Array assigned_at(const Array& x, const IndexPositions& indexed, int place, const Array& value) {
  Dims result, rest;
  for (int d = 0; d < x.ndim(); ++d)
    if (std::ranges::find(indexed.axes, d) == indexed.axes.end()) rest.push_back(x.shape()[d]);
  result = rest;
  const int added = indexed.shape.size();
  for (int d = 0; d < added; ++d) result.insert(place + d, indexed.shape[d]);
  const Array fit = fitted(value, result);
  const int64_t count = local::element_count(indexed.shape);
  if (count == 0 || x.size() == 0) return x;
  // One axis for the positions, in front.
  std::vector<int64_t> order;
  for (int d = 0; d < fit.ndim(); ++d)
    if (d < place || d >= place + added) order.push_back(d);
  for (int d = added; d-- > 0;) order.insert(order.begin(), place + d);
  Array lines = transpose(fit, order);
  bool is_one_line = true;
  for (int d = 0; d < added; ++d) is_one_line = is_one_line && lines.shape()[d] == 1;
  Dims shape = lines.shape();
  if (!is_one_line) {
    for (int d = 0; d < added; ++d) shape[d] = indexed.shape[d];
    lines = broadcast_to(lines, shape);
  }
  Dims flat{is_one_line ? 1 : count};
  for (int d = added; d < shape.size(); ++d) flat.push_back(shape[d]);
  lines = reshape(lines, flat);
  if (indexed.axes.empty()) return broadcast_to(std::as_const(lines)[0], x.shape());  // masks of no axes, all true
  // One value for all positions of an axis is lazy, and fuses.
  constexpr int64_t kMostMarked = int64_t{1} << 26;
  if (is_one_line && indexed.axes.size() == 1 && x.shape()[indexed.axes[0]] <= kMostMarked) {
    const int axis = indexed.axes[0];
    std::vector<bool> marked(static_cast<size_t>(x.shape()[axis]), false);
    for (const int64_t position : indexed.positions[0]) marked[static_cast<size_t>(position)] = true;
    return where(along(Array::from_local(local::from_vector(marked)), axis, x.ndim()),
                 arrange::moveaxis(lines, 0, axis), x);
  }
  return Array(algo::assigned_positions(x.node(), lines.node(), indexed.axes, indexed.positions));
}

// The mask over x's first axes that is the whole index, if there is one.
const Array* leading_mask(const IndexParts& parts, size_t terms) {
  return terms == 1 && parts.is_mask() ? &parts.arrays[0].array : nullptr;
}

void check_update(local::Op op, DType result, DType target) {
  if (!local::can_cast(result, target, local::Casting::same_kind))
    throw local::TypeError(
        fmt::format("Cannot cast ufunc '{}' output from dtype('{}') to dtype('{}') with casting rule 'same_kind'",
                    local::info(op).name, local::name(result), local::name(target)));
}

}  // namespace

Array assigned(const Array& x, std::span<const IndexTerm> terms, const Operand& given) {
  const IndexParts parts = parts_of(x, terms);
  const local::BasicIndex basic = local::resolve_index(parts.basic, x.shape());
  const Array value = as_array(given, x.dtype());
  if (parts.integers_only && value.ndim() > 0) throw InvalidArgument("setting an array element with a sequence.");
  if (!parts.has_arrays) return assigned_basic(x, basic, value);
  const Array left = x[parts.basic];
  Array changed;
  if (parts.is_mask()) {
    const auto& [mask, axis] = parts.arrays[0];
    changed = assigned_by_mask(left, mask, axis_in_view(basic, axis), parts.place, parts.is_one_mask, value);
  } else {
    changed = assigned_at(left, positions_of(x, parts), parts.place, value);
  }
  return assigned_basic(x, basic, changed);
}

Array detail::updated(const Array& x, std::span<const IndexTerm> terms, local::Op op, const Operand& value) {
  const IndexParts parts = parts_of(x, terms);
  const Array* mask = leading_mask(parts, terms.size());
  const Operand with_all[] = {x, value};
  if (mask != nullptr && mask->size() > 0 && (!value.is_array() || value.array().ndim() == 0)) {
    const Array all = apply(op, with_all);
    check_update(op, all.dtype(), x.dtype());
    return where(over_axes(*mask, 0, x.ndim()), all.astype(x.dtype()), x);
  }
  const Array before = index(x, terms);
  const Operand with_some[] = {before, value};
  const Array after = apply(op, with_some);
  if (!parts.integers_only) {
    check_update(op, after.dtype(), x.dtype());
    if (after.shape() != before.shape())
      throw InvalidArgument(
          fmt::format("non-broadcastable output operand with shape {} doesn't match the broadcast shape {}",
                      local::to_string(before.shape()), local::to_string(after.shape())));
  }
  return assigned(x, terms, after);
}

std::vector<IndexTerm> View::terms() const {
  std::vector<IndexTerm> terms;
  for (const local::IndexItem& item : index_) std::visit([&](const auto& term) { terms.emplace_back(term); }, item);
  return terms;
}
void View::operator=(const Operand& value) && { *array_ = assigned(*array_, terms(), value); }
void View::operator=(const View& value) && {
  if (&value == this) return;
  std::move(*this) = Operand(static_cast<const Array&>(value));
}
void View::operator=(const Elements& value) && { std::move(*this) = Operand(value); }
void Elements::operator=(const Operand& value) && { *array_ = assigned(*array_, index_, value); }
void Elements::operator=(const View& value) && { std::move(*this) = Operand(static_cast<const Array&>(value)); }
void Elements::operator=(const Elements& value) && {
  if (&value == this) return;
  std::move(*this) = Operand(value);
}
#define QUARRY_OPERATOR(symbol, name)                                     \
  void View::operator symbol##=(const Operand& value)&& {                 \
    *array_ = updated(*array_, terms(), local::named_op<#name>(), value); \
  }                                                                       \
  void Elements::operator symbol##=(const Operand& value)&& {             \
    *array_ = updated(*array_, index_, local::named_op<#name>(), value);  \
  }
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_OPERATOR

Array put_along_axis(const Array& given, const Array& given_indices, const Operand& given_values,
                     std::optional<int64_t> axis) {
  if (!local::is_integer(given_indices.dtype())) throw local::IndexError("`indices` must be an integer array");
  if (!axis && given_indices.ndim() != 1 && given.ndim() != 1) {
    if (given_indices.ndim() != 1) throw InvalidArgument("when axis=None, `indices` must have a single dimension.");
  }
  const Array arr = axis ? given : ravel(given), &indices = given_indices;
  if (arr.ndim() != indices.ndim())
    throw InvalidArgument("`indices` and `arr` must have the same number of dimensions");
  const int along = local::normalize_axis(axis.value_or(0), arr.ndim());
  Dims shape = arr.shape();
  shape[along] = indices.shape()[along];
  for (int d = 0; d < arr.ndim(); ++d)
    if (indices.shape()[d] != 1 && indices.shape()[d] != shape[d])
      throw local::IndexError(
          fmt::format("shape mismatch: indices of shape {} do not broadcast to {}, the shape of the array but for axis "
                      "{}",
                      local::to_string(indices.shape()), local::to_string(shape), along));
  const Array values = fitted(as_array(given_values, arr.dtype()), shape);
  if (arr.size() == 0 || local::element_count(shape) == 0) return given;
  std::vector<AxisChunks> cuts = arr.chunks().axes();
  cuts[static_cast<size_t>(along)] = AxisChunks(arr.shape()[along], arr.shape()[along]);
  algo::MapSpec spec;
  spec.name = "put_along_axis";
  spec.identity = op::Hash().add(along).value;
  for (const Array* array : {&arr, &indices, &values}) {
    std::vector<algo::Along> axes;
    for (int d = 0; d < arr.ndim(); ++d) {
      const bool follows = d != along && array->shape()[d] == arr.shape()[d];
      axes.push_back(follows ? algo::Along::following(d, cuts[static_cast<size_t>(d)]) : algo::Along::whole());
    }
    spec.along.push_back(std::move(axes));
  }
  spec.outputs = {{arr.shape(), arr.dtype(), Grid(std::move(cuts)), arr.node()->chosen_grid}};
  constexpr int64_t kPositionBytes = 3 * sizeof(int64_t);
  spec.bytes_per_element = kPositionBytes;
  spec.function = [along](std::span<const NdArray> arrays, const ChunkPlace&) {
    const NdArray result = arrays[0].copy();
    local::ops::put_along_axis(result, arrays[1], arrays[2], along);
    return std::vector<NdArray>{result};
  };
  const Array result(algo::map(std::move(spec), {arr.node(), indices.node(), values.node()})[0]);
  return axis ? result : reshape(result, given.shape());
}

}  // namespace quarry
