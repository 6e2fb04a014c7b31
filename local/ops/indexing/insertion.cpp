// Elements repeated, put in and taken out at positions that are data.
#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local::ops {
namespace {

// The array along one axis: flattened where there is none.
struct AlongAxis {
  NdArray array;
  int axis;
};
AlongAxis along_axis(const NdArray& a, std::optional<int64_t> axis) {
  if (!axis) return {a.ndim() == 1 ? a : a.reshape({a.size()}), 0};
  return {a, normalize_axis(*axis, a.ndim())};
}

// An index of one axis, with everything of the others.
std::vector<IndexTerm> index_of(int axis, const NdArray& positions) {
  std::vector<IndexTerm> index(static_cast<size_t>(axis), IndexTerm(full_slice));
  index.emplace_back(positions);
  return index;
}

int64_t checked_position(int64_t position, int64_t size, int64_t limit, int axis) {
  if (position < -size || position >= limit)
    throw IndexError(fmt::format("index {} is out of bounds for axis {} with size {}", position, axis, size));
  return position < 0 ? position + size : position;
}

// A slice as start, count and positive step.
BasicIndex::Axis ascending(const Slice& slice, int64_t size) {
  const IndexItem item = slice;
  BasicIndex::Axis found = resolve_index(std::span(&item, 1), {size}).axes[0];
  if (found.step < 0) {
    found.start += (found.count - 1) * found.step;
    found.step = -found.step;
  }
  return found;
}

// Everything of the axis but `count` neighbours from `start`.
NdArray without_range(const NdArray& a, int axis, int64_t start, int64_t count) {
  const int64_t size = a.shape()[axis];
  if (count == 0) return a.copy(context_for(a.device()));
  return concatenate({sliced(a, axis, 0, start), sliced(a, axis, start + count, size - start - count)}, axis);
}

// The elements of the axis where the mask is true, on the array's device.
NdArray selected(const NdArray& a, int axis, const NdArray& mask) {
  const std::vector<IndexTerm> index = index_of(axis, mask);
  return get(a, index);
}

NdArray full_mask(int64_t size, bool value, Device device) { return full({size}, value, DType::bool_, "C", device); }

// The positions of an index array, int64 on the array's device. NumPy takes an empty list, which is float64, as ints.
NdArray as_positions(const NdArray& positions, Device device, const char* function) {
  if (positions.size() > 0 && !is_integer(positions.dtype()))
    throw IndexError(fmt::format("{}: arrays used as indices must be of integer (or boolean) type, not {}", function,
                                 name(positions.dtype())));
  const NdArray here = positions.to(device);
  return here.dtype() == DType::int64 ? here : here.astype(DType::int64, context_for(device));
}

// `values` as NumPy's insert() shapes them: it broadcasts over the axes, with those missing in front.
NdArray insert_range(const AlongAxis& at, int64_t position, const NdArray& given, bool scalar_position) {
  const auto& [a, axis] = at;
  NdArray values = given;
  while (values.ndim() < a.ndim()) values = expand_dims(values, 0);
  if (scalar_position) values = moveaxis(values, 0, axis);
  const int64_t count = values.shape()[axis], size = a.shape()[axis];
  Dims shape = a.shape();
  shape[axis] += count;
  NdArray result(shape, a.dtype(), context_for(a.device()));
  write_into(sliced(result, axis, 0, position), sliced(a, axis, 0, position));
  const NdArray middle = sliced(result, axis, position, count);
  // As assignment broadcasts: leading axes of one element may be more than there are.
  while (values.ndim() > middle.ndim() && values.shape()[0] == 1) values = squeeze(values, 0);
  write_into(middle, values.broadcast_to(middle.shape()));
  write_into(sliced(result, axis, position + count, size - position), sliced(a, axis, position, size - position));
  return result;
}

// At several positions: the values go to where the sorted positions end up, the array's elements to the other places.
NdArray insert_many(const AlongAxis& at, const NdArray& given, const NdArray& values) {
  const auto& [a, axis] = at;
  const Device device = a.device();
  const int64_t size = a.shape()[axis], count = given.size();
  NdArray positions = as_positions(given, device, "insert");
  if (count > 0) {
    const int64_t low = item_or(ops::min(positions), 0).as_int64(), high = item_or(ops::max(positions), 0).as_int64();
    checked_position(low, size, size + 1, axis);
    checked_position(high, size, size + 1, axis);
  }
  positions = apply("where"_op, {positions < Scalar(0), positions + Scalar(size), positions});
  const NdArray order = argsort(positions, -1);
  // The i-th of the sorted positions moves by the i values before it.
  const NdArray moved = take(positions, order) + arange(count, std::nullopt, 1, DType::int64, device);
  const NdArray places({count}, DType::int64, context_for(device));
  set(places, {IndexTerm(order)}, moved);
  const NdArray old = full_mask(size + count, true, device);
  if (count > 0) set(old, {IndexTerm(places)}, Scalar(false));
  Dims shape = a.shape();
  shape[axis] += count;
  NdArray result(shape, a.dtype(), context_for(device));
  const std::vector<IndexTerm> to_new = index_of(axis, places), to_old = index_of(axis, old);
  if (count > 0)
    set(result, to_new, values.dtype() == a.dtype() ? values : values.astype(a.dtype(), context_for(device)));
  set(result, to_old, a);
  return result;
}

}  // namespace

NdArray repeat(const NdArray& a, const std::variant<int64_t, NdArray>& repeats, std::optional<int64_t> axis) {
  const Range named("repeat");
  // A 0-d array has the axes 0 and -1 here.
  const bool lone = a.ndim() == 0 && axis && (*axis == 0 || *axis == -1);
  const AlongAxis at = along_axis(a, lone ? std::nullopt : axis);
  const auto& [array, along] = at;
  const NdArray* counts = std::get_if<NdArray>(&repeats);
  if (counts && counts->size() > 0) check_cast(counts->dtype(), DType::int64, Casting::safe);
  if (counts && counts->ndim() > 1) throw InvalidArgument("object too deep for desired array: repeats has two axes");
  const int64_t size = array.shape()[along];
  if (!counts || counts->size() == 1) {
    const int64_t times = counts ? counts->item().as_int64() : std::get<int64_t>(repeats);
    if (times < 0 && size > 0) throw InvalidArgument(fmt::format("repeats may not contain negative values: {}", times));
    Dims shape = array.shape(), spread = array.shape();
    if (__builtin_mul_overflow(shape[along], times, &shape[along]))
      throw InvalidArgument(fmt::format("the result of {} repetitions is too large", times));
    NdArray result(shape, array.dtype(), context_for(array.device()));
    spread.insert(along + 1, times);
    if (result.size() > 0) write_into(result.reshape(spread), expand_dims(array, along + 1).broadcast_to(spread));
    return result;
  }
  if (counts->size() != size) {
    throw InvalidArgument(
        fmt::format("operands could not be broadcast together with shape ({},) ({},)", size, counts->size()));
  }
  const NdArray* both[] = {&array, counts};
  local::common_device(both);
  if (size == 0) return array.copy(context_for(array.device()));
  if (item_or(ops::min(*counts), 0).as_int64() < 0) throw InvalidArgument("repeats may not contain negative values.");
  const NdArray ends = ufunc_accumulate("add"_op, counts->reshape({size}), 0, DType::int64);
  const int64_t total = sliced(ends, 0, size - 1, 1).item().as_int64();
  const NdArray numbers = arange(total, std::nullopt, 1, DType::int64, array.device());
  return take(array, searchsorted(ends, numbers, "right"), along);
}

NdArray insert(const NdArray& arr, const Positions& obj, const NdArray& values, std::optional<int64_t> axis) {
  const Range named("insert");
  const AlongAxis at = along_axis(arr, axis);
  const NdArray* both[] = {&arr, &values};
  local::common_device(both);
  const int64_t size = at.array.shape()[at.axis];
  const NdArray converted =
      values.dtype() == arr.dtype() ? values : values.astype(arr.dtype(), context_for(arr.device()));
  if (const int64_t* position = std::get_if<int64_t>(&obj))
    return insert_range(at, checked_position(*position, size, size + 1, at.axis), converted, true);
  NdArray positions;
  if (const Slice* slice = std::get_if<Slice>(&obj)) {
    const IndexItem item = *slice;
    const BasicIndex::Axis found = resolve_index(std::span(&item, 1), {size}).axes[0];
    if (found.count == 1) return insert_range(at, found.start, converted, false);
    positions = arange(found.start, found.start + found.count * found.step, found.step, DType::int64, arr.device());
  } else {
    positions = std::get<NdArray>(obj);
    if (positions.dtype() == DType::bool_) {
      if (positions.ndim() != 1) throw InvalidArgument("boolean array argument obj to insert must be one dimensional");
      positions = nonzero(positions)[0];
    } else if (positions.ndim() > 1) {
      throw InvalidArgument(
          fmt::format("index array argument obj to insert must be one dimensional or scalar, not {}-dimensional",
                      positions.ndim()));
    }
    if (positions.size() == 1) {
      const int64_t position = as_positions(positions, arr.device(), "insert").reshape({}).item().as_int64();
      return insert_range(at, checked_position(position, size, size + 1, at.axis), converted, positions.ndim() == 0);
    }
  }
  return insert_many(at, positions, converted);
}

NdArray delete_(const NdArray& arr, const Positions& obj, std::optional<int64_t> axis) {
  const Range named("delete");
  const auto [a, along] = along_axis(arr, axis);
  const int64_t size = a.shape()[along];
  if (const int64_t* position = std::get_if<int64_t>(&obj))
    return without_range(a, along, checked_position(*position, size, size, along), 1);
  const NdArray keep = full_mask(size, true, a.device());
  if (const Slice* slice = std::get_if<Slice>(&obj)) {
    const BasicIndex::Axis found = ascending(*slice, size);
    if (found.count == 0 || found.step == 1) return without_range(a, along, found.start, found.count);
    sliced(keep, 0, found.start, found.count, found.step).fill(false, context_for(a.device()));
    return selected(a, along, keep);
  }
  const NdArray& positions = std::get<NdArray>(obj);
  if (positions.dtype() == DType::bool_) {
    if (!(positions.shape() == Dims{size})) {
      throw InvalidArgument(fmt::format(
          "boolean array argument obj to delete must be one dimensional and match the axis length of {}", size));
    }
    return selected(a, along, ~positions.to(a.device()));
  }
  const NdArray indices = as_positions(positions, a.device(), "delete");
  if (indices.size() == 1) {
    const int64_t position = indices.reshape({}).item().as_int64();
    return without_range(a, along, checked_position(position, size, size, along), 1);
  }
  if (indices.size() == 0) return a.copy(context_for(a.device()));
  set(keep, {IndexTerm(indices)}, Scalar(false));
  return selected(a, along, keep);
}

}  // namespace quarry::local::ops
