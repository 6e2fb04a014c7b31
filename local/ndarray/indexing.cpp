#include <fmt/format.h>

#include "quarry/local/base/detail.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {
namespace {

// Start, count and step of a slice of an axis of `size` elements, as Python's slice.indices().
BasicIndex::Axis resolve_slice(const Slice& slice, int source, int64_t size) {
  int64_t step = slice.step.value_or(1);
  if (step == 0) throw InvalidArgument("slice step cannot be zero");
  if (step == INT64_MIN) step = -INT64_MAX;
  const int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? size - 1 : size;
  const auto bound = [&](const std::optional<int64_t>& value, int64_t otherwise) {
    if (!value) return otherwise;
    if (*value >= 0) return std::min(*value, highest);
    return *value < -size ? lowest : std::max(*value + size, lowest);
  };
  const int64_t start = bound(slice.start, step < 0 ? highest : lowest);
  const int64_t stop = bound(slice.stop, step < 0 ? lowest : highest);
  int64_t count = 0;
  if (step > 0 && start < stop) count = (stop - start - 1) / step + 1;
  if (step < 0 && stop < start) count = (start - stop - 1) / -step + 1;
  // An empty slice stays within the array, so that its address does.
  return {source, count == 0 ? 0 : start, count, count <= 1 ? 1 : step};
}

}  // namespace

Dims BasicIndex::shape() const {
  Dims shape = Dims::filled(static_cast<int>(axes.size()));
  for (int d = 0; d < shape.size(); ++d) shape[d] = axes[static_cast<size_t>(d)].count;
  return shape;
}

BasicIndex detail::resolve_index(std::span<const IndexItem> index, const Dims& shape) {
  int consumed = 0, ellipses = 0;
  for (const IndexItem& item : index) {
    if (std::holds_alternative<Ellipsis>(item)) ++ellipses;
    if (std::holds_alternative<int64_t>(item) || std::holds_alternative<Slice>(item)) ++consumed;
  }
  if (ellipses > 1) throw IndexError("an index can only have a single ellipsis ('...')");
  if (consumed > shape.size()) {
    throw IndexError(fmt::format("too many indices for array: array is {}-dimensional, but {} were indexed",
                                 shape.size(), consumed));
  }
  BasicIndex result;
  int source = 0;
  const auto take_whole = [&](int count) {
    for (; count > 0; --count, ++source) result.axes.push_back({source, 0, shape[source], 1});
  };
  for (const IndexItem& item : index) {
    if (std::holds_alternative<NewAxis>(item)) {
      result.axes.push_back({-1, 0, 1, 1});
    } else if (std::holds_alternative<Ellipsis>(item)) {
      take_whole(shape.size() - consumed);
    } else if (const Slice* slice = std::get_if<Slice>(&item)) {
      result.axes.push_back(resolve_slice(*slice, source, shape[source]));
      ++source;
    } else {
      const int64_t wanted = std::get<int64_t>(item), size = shape[source];
      if (wanted < -size || wanted >= size) {
        throw IndexError(fmt::format("index {} is out of bounds for axis {} with size {}", wanted, source, size));
      }
      result.integers.emplace_back(source, wanted < 0 ? wanted + size : wanted);
      ++source;
    }
  }
  take_whole(shape.size() - source);
  if (result.axes.size() > static_cast<size_t>(kMaxDims)) {
    throw IndexError(fmt::format("number of dimensions must be within [0, {}], indexing result would have {}", kMaxDims,
                                 result.axes.size()));
  }
  return result;
}

}  // namespace quarry::local
