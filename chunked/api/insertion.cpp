#include "quarry/chunked/api/insertion.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"

namespace quarry {

using namespace compose;

namespace {

// The array along one axis: flattened where there is none.
struct AlongAxis {
  Array array;
  int axis;
  int64_t size() const { return array.shape()[axis]; }
};
AlongAxis along_axis(const Array& a, std::optional<int64_t> axis) {
  if (!axis) return {a.ndim() == 1 ? a : ravel(a), 0};
  return {a, local::normalize_axis(*axis, a.ndim())};
}

int64_t checked_position(int64_t position, int64_t size, int64_t limit, int axis) {
  if (position < -size || position >= limit)
    throw local::IndexError(fmt::format("index {} is out of bounds for axis {} with size {}", position, axis, size));
  return position < 0 ? position + size : position;
}

// start, count and step of a slice.
local::BasicIndex::Axis resolved(const Slice& slice, int64_t size) {
  const local::IndexItem item = slice;
  return local::resolve_index(std::span(&item, 1), {size}).axes[0];
}

// The positions of an index array. An empty list, which is float64, counts as integers.
std::vector<int64_t> positions_of(const Array& positions, const char* function) {
  if (positions.size() > 0 && !local::is_integer(positions.dtype()))
    throw local::IndexError(fmt::format("{}: arrays used as indices must be of integer (or boolean) type, not {}",
                                        function, local::name(positions.dtype())));
  return settled(positions);
}

// `values` broadcast as an assignment to that shape does it: more leading axes of one element may be there.
Array assigned(Array values, const Dims& shape) {
  while (values.ndim() > shape.size() && values.shape()[0] == 1) values = squeeze(values, 0);
  return broadcast_to(values, shape);
}

// Values that NumPy's insert() puts before one position: as many as they have along the axis.
Array insert_range(const AlongAxis& at, int64_t position, const Array& given, bool scalar_position) {
  const auto& [a, axis] = at;
  Array values = arrange::with_leading_axes(given, a.ndim());
  if (scalar_position) values = moveaxis(values, 0, axis);
  const Array middle = assigned(values, with_extent(a.shape(), axis, values.shape()[axis]));
  return joined({arrange::part(a, axis, 0, position), middle, arrange::part(a, axis, position, at.size() - position)},
                axis);
}

// At several positions: value i goes before the element that is at position i.
Array insert_many(const AlongAxis& at, std::vector<int64_t> positions, const Array& given) {
  const auto& [a, axis] = at;
  const auto count = static_cast<int64_t>(positions.size());
  for (int64_t& position : positions) position = checked_position(position, at.size(), at.size() + 1, axis);
  std::vector<int64_t> order(positions.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return positions[static_cast<size_t>(i)] < positions[static_cast<size_t>(j)];
  });
  const Array values = assigned(given, with_extent(a.shape(), axis, count));
  std::vector<Array> parts;
  int64_t done = 0;
  for (size_t i = 0; i < order.size();) {
    const int64_t position = positions[static_cast<size_t>(order[i])];
    size_t end = i;
    while (end < order.size() && positions[static_cast<size_t>(order[end])] == position) ++end;
    parts.push_back(arrange::part(a, axis, done, position - done));
    parts.push_back(gathered(values, axis, std::span(order).subspan(i, end - i)));
    done = position;
    i = end;
  }
  parts.push_back(arrange::part(a, axis, done, at.size() - done));
  return joined(parts, axis);
}

// The elements of the axis that are not marked.
Array kept(const AlongAxis& at, const std::vector<bool>& deleted) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < at.size(); ++i)
    if (!deleted[static_cast<size_t>(i)]) positions.push_back(i);
  return gathered(at.array, at.axis, positions);
}
Array without_range(const AlongAxis& at, int64_t start, int64_t count) {
  return joined({arrange::part(at.array, at.axis, 0, start),
                 arrange::part(at.array, at.axis, start + count, at.size() - start - count)},
                at.axis);
}

}  // namespace

namespace detail {

Array insert_at(const Array& arr, int64_t position, const Operand& values, std::optional<int64_t> axis) {
  const AlongAxis at = along_axis(arr, axis);
  return insert_range(at, checked_position(position, at.size(), at.size() + 1, at.axis), as_array(values, arr.dtype()),
                      true);
}

Array insert_at(const Array& arr, const Slice& slice, const Operand& values, std::optional<int64_t> axis) {
  const AlongAxis at = along_axis(arr, axis);
  const local::BasicIndex::Axis found = resolved(slice, at.size());
  if (found.count == 1) return insert_range(at, found.start, as_array(values, arr.dtype()), false);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < found.count; ++i) positions.push_back(found.start + i * found.step);
  return insert_many(at, std::move(positions), as_array(values, arr.dtype()));
}

Array delete_at(const Array& arr, int64_t position, std::optional<int64_t> axis) {
  const AlongAxis at = along_axis(arr, axis);
  return without_range(at, checked_position(position, at.size(), at.size(), at.axis), 1);
}

Array delete_at(const Array& arr, const Slice& slice, std::optional<int64_t> axis) {
  const AlongAxis at = along_axis(arr, axis);
  local::BasicIndex::Axis found = resolved(slice, at.size());
  if (found.count == 0) return at.array;
  if (found.step < 0) {
    found.start += (found.count - 1) * found.step;
    found.step = -found.step;
  }
  if (found.step == 1) return without_range(at, found.start, found.count);
  std::vector<bool> deleted(static_cast<size_t>(at.size()), false);
  for (int64_t i = 0; i < found.count; ++i) deleted[static_cast<size_t>(found.start + i * found.step)] = true;
  return kept(at, deleted);
}

}  // namespace detail

Array insert(const Array& arr, const Array& given, const Operand& values, std::optional<int64_t> axis) {
  const AlongAxis at = along_axis(arr, axis);
  const Array converted = as_array(values, arr.dtype());
  std::vector<int64_t> positions;
  if (given.dtype() == DType::bool_) {
    if (given.ndim() != 1) throw InvalidArgument("boolean array argument obj to insert must be one dimensional");
    const std::vector<int64_t> mask = settled(given);
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i]) positions.push_back(static_cast<int64_t>(i));
  } else {
    if (given.ndim() > 1) {
      throw InvalidArgument(fmt::format(
          "index array argument obj to insert must be one dimensional or scalar, not {}-dimensional", given.ndim()));
    }
    positions = positions_of(given, "insert");
  }
  if (positions.size() != 1) return insert_many(at, std::move(positions), converted);
  return insert_range(at, checked_position(positions[0], at.size(), at.size() + 1, at.axis), converted,
                      given.ndim() == 0);
}

Array delete_(const Array& arr, const Array& given, std::optional<int64_t> axis) {
  const AlongAxis at = along_axis(arr, axis);
  std::vector<bool> deleted(static_cast<size_t>(at.size()), false);
  if (given.dtype() == DType::bool_) {
    if (given.shape() != Dims{at.size()}) {
      throw InvalidArgument(fmt::format(
          "boolean array argument obj to delete must be one dimensional and match the axis length of {}", at.size()));
    }
    const std::vector<int64_t> mask = settled(given);
    for (size_t i = 0; i < mask.size(); ++i) deleted[i] = mask[i] != 0;
    return kept(at, deleted);
  }
  for (const int64_t position : positions_of(given, "delete"))
    deleted[static_cast<size_t>(checked_position(position, at.size(), at.size(), at.axis))] = true;
  return kept(at, deleted);
}

Array trim_zeros(const Array& filt, std::string_view trim, const Axes& axis) {
  std::string ends(trim);
  for (char& c : ends) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (ends != "fb" && ends != "bf" && ends != "f" && ends != "b")
    throw InvalidArgument(fmt::format("unexpected character(s) in `trim`: '{}'", ends));
  const uint32_t axes = axis.mask(filt.ndim());
  if (filt.ndim() == 0 || axes == 0) return filt;
  // Per axis, which positions have an element that is not zero.
  const Array truth = not_equal(filt, 0);
  std::vector<Array> masks;
  for (int d = 0; d < filt.ndim(); ++d) {
    std::vector<int64_t> others;
    for (int other = 0; other < filt.ndim(); ++other)
      if (other != d) others.push_back(other);
    masks.push_back(any(truth, Axes(others)));
  }
  const std::vector<NdArray> values = to_host(masks);
  Array result = filt;
  for (int d = 0; d < filt.ndim(); ++d) {
    if (!(axes >> d & 1)) continue;
    const std::vector<int64_t> mask = local::to_vector<int64_t>(values[static_cast<size_t>(d)].astype(DType::int64));
    const auto size = static_cast<int64_t>(mask.size());
    const int64_t first = std::find(mask.begin(), mask.end(), 1) - mask.begin();
    const int64_t last = size - 1 - (std::find(mask.rbegin(), mask.rend(), 1) - mask.rbegin());
    if (first == size) {
      result = arrange::part(result, d, 0, 0);
      continue;
    }
    const int64_t from = ends.find('f') == std::string::npos ? 0 : first;
    const int64_t stop = ends.find('b') == std::string::npos ? size : last + 1;
    result = arrange::part(result, d, from, stop - from);
  }
  return result;
}

}  // namespace quarry
