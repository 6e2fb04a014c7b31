#include "quarry/chunked/api/sorting.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/ordering.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/sorting/sorting.h"

namespace quarry {

using namespace compose;

namespace {

namespace ops = local::ops;
using MaybeText = std::optional<std::string_view>;

// What outlives the call.
struct SortOptions {
  std::optional<std::string> kind, order;
  std::optional<bool> stable;
};
MaybeText view_of(const std::optional<std::string>& text) { return text ? MaybeText(*text) : std::nullopt; }
uint64_t hash_of(const MaybeText& text) { return op::Hash().add(text.has_value()).add(text.value_or("")).value; }

// An array and the axis along which it is sorted.
struct Sorted {
  Array array;
  int axis;
};
Sorted sorted_along(const Array& a, std::optional<int64_t> axis) {
  if (!axis) return {ravel(a), 0};
  return {a, local::normalize_axis(*axis, a.ndim())};
}

// What a task for a line has for each of its elements.
int64_t item_bytes(const Array& x, DType result) { return local::itemsize(x.dtype()) + local::itemsize(result); }

// By tasks that hold whole lines.
template <class F>
Array by_lines(const char* function, const Sorted& sorted, DType result, uint64_t identity, F of_lines) {
  const auto& [array, axis] = sorted;
  const int64_t bytes = algo::line_bytes(item_bytes(array, result));
  const Array lines = in_fitting_chunks(with_whole_axis(array, axis), bytes, axis);
  const expr::NodePtr& node = lines.node();
  return Array(algo::of_lines(
      function, op::Hash().add(identity).add(axis).value, result,
      [of_lines, axis = axis](std::span<const NdArray> given) { return of_lines(given[0], axis); }, {node}));
}

// Lines one after the other.
Array as_rows(const Array& x, int axis) { return ravel(arrange::moveaxis(x, axis, -1)); }

// Rows that are ordered, back in their lines. Chunks stay.
Array as_lines(const Array& rows, const Dims& shape, int axis) {
  if (shape.size() == 1) return rows;
  const int64_t line = shape[axis];
  std::vector<AxisChunks> axes;
  for (int d = 0; d < shape.size(); ++d)
    if (d != axis) axes.emplace_back(shape[d], 1);
  axes.emplace_back(line, rows.chunks().axis(0).size(0));
  return arrange::moveaxis(Array(algo::reshape_chunks(rows.node(), Grid(std::move(axes)))), -1, axis);
}

bool is_whole(const Sorted& sorted, DType result) {
  const Array& x = sorted.array;
  return x.size() == 0 || ordering::is_whole(x.shape()[sorted.axis], 2, item_bytes(x, result));
}

ordering::Request request_of(const std::vector<Array>& keys, int axis) {
  ordering::Request request;
  for (const Array& key : keys) request.keys.push_back(as_rows(key, axis));
  request.line = keys[0].shape()[axis];
  return request;
}

// Lines of any length. Floats in no stable order are as a task for whole lines has them.
ordering::Request request_of(const Sorted& sorted, bool stable) {
  ordering::Request request = request_of({sorted.array}, sorted.axis);
  request.signs = !stable && local::is_float(sorted.array.dtype());
  return request;
}
Array long_sort(const Sorted& sorted, bool stable) {
  return as_lines(ordering::ordered(request_of(sorted, stable)).keys[0], sorted.array.shape(), sorted.axis);
}
Array long_argsort(const std::vector<Array>& keys, int axis) {
  ordering::Request request = request_of(keys, axis);
  request.keeps_keys = false;
  request.positions = true;
  return as_lines(ordering::ordered(request).carried[0], keys[0].shape(), axis);
}

NdArray nothing_of(DType dtype) { return {Dims{0}, dtype, local::default_context(local::kCpu)}; }

// Positions as partition() takes them; an array without elements takes every one.
std::vector<int64_t> checked_kth(const Sorted& sorted, const Ints& kth) {
  const int64_t length = sorted.array.size() == 0 ? 0 : sorted.array.shape()[sorted.axis];
  for (const int64_t given : kth.values()) {
    const int64_t k = given < 0 ? given + length : given;
    if (length > 0 && (k < 0 || k >= length))
      throw InvalidArgument(fmt::format("kth(={}) out of bounds ({})", k, length));
  }
  return kth.values();
}
uint64_t hash_of(const std::vector<int64_t>& values) {
  return op::Hash().add_bytes(values.data(), values.size() * sizeof(int64_t)).value;
}

}  // namespace

Array sort_complex(const Array& a) {
  const bool narrow =
      (local::is_integer(a.dtype()) && local::itemsize(a.dtype()) <= 2) || a.dtype() == DType::complex64;
  return sort(a.astype(narrow ? DType::complex64 : DType::complex128));
}

Array sort(const Array& a, std::optional<int64_t> axis, MaybeText kind, MaybeText order, std::optional<bool> stable) {
  ops::sort(nothing_of(a.dtype()), -1, kind, order, stable);  // checks the options
  const SortOptions options{kind ? std::optional<std::string>(*kind) : std::nullopt, {}, stable};
  const uint64_t identity = op::Hash().add(hash_of(kind)).add(stable.has_value()).add(stable.value_or(false)).value;
  const Sorted sorted = sorted_along(a, axis);
  if (!is_whole(sorted, a.dtype())) return long_sort(sorted, local::is_stable(kind, stable));
  return by_lines("sort", sorted, a.dtype(), identity, [options](const NdArray& lines, int along) {
    return ops::sort(lines, along, view_of(options.kind), std::nullopt, options.stable);
  });
}

Array argsort(const Array& a, std::optional<int64_t> axis, MaybeText kind, MaybeText order,
              std::optional<bool> stable) {
  ops::argsort(nothing_of(a.dtype()), -1, kind, order, stable);
  // All kinds give what the stable one gives.
  const Sorted sorted = sorted_along(arrange::at_least(a, 1), axis);
  if (!is_whole(sorted, DType::int64)) return long_argsort({sorted.array}, sorted.axis);
  return by_lines("argsort", sorted, DType::int64, 0,
                  [](const NdArray& lines, int along) { return ops::argsort(lines, along); });
}

Array partition(const Array& a, const Ints& kth, std::optional<int64_t> axis, std::string_view kind, MaybeText order) {
  ops::partition(nothing_of(a.dtype()), kth, -1, kind, order);
  const Sorted sorted = sorted_along(a, axis);
  const std::vector<int64_t> positions = checked_kth(sorted, kth);
  if (!is_whole(sorted, a.dtype())) return long_sort(sorted, /*stable=*/true);
  return by_lines("partition", sorted, a.dtype(), hash_of(positions),
                  [positions](const NdArray& lines, int along) { return ops::partition(lines, positions, along); });
}

Array argpartition(const Array& a, const Ints& kth, std::optional<int64_t> axis, std::string_view kind,
                   MaybeText order) {
  ops::argpartition(nothing_of(a.dtype()), kth, -1, kind, order);
  const Sorted sorted = sorted_along(arrange::at_least(a, 1), axis);
  const std::vector<int64_t> positions = checked_kth(sorted, kth);
  if (!is_whole(sorted, DType::int64)) return long_argsort({sorted.array}, sorted.axis);
  return by_lines("argpartition", sorted, DType::int64, hash_of(positions),
                  [positions](const NdArray& lines, int along) { return ops::argpartition(lines, positions, along); });
}

Array lexsort(const std::vector<Array>& keys, int64_t axis) {
  std::vector<NdArray> nothing;
  for (const Array& key : keys) {
    if (key.shape() != keys.front().shape()) throw InvalidArgument("all keys need to be the same shape");
    nothing.push_back(nothing_of(key.dtype()));
  }
  ops::lexsort(nothing);  // checks that there are keys
  if (keys.front().ndim() == 0) {
    const std::vector<NdArray> zeros(1, NdArray({}, DType::bool_, local::default_context(local::kCpu)));
    return Array::from_local(ops::lexsort(zeros, axis));
  }
  const int along = local::normalize_axis(axis, keys.front().ndim());
  int64_t bytes = local::itemsize(DType::int64);
  for (const Array& key : keys) bytes += local::itemsize(key.dtype());
  if (keys.front().size() > 0 && !ordering::is_whole(keys.front().shape()[along], std::ssize(keys) + 1, bytes))
    return long_argsort(keys, along);
  const Array first = with_whole_axis(keys.front(), along);
  std::vector<expr::NodePtr> nodes{first.node()};
  for (size_t i = 1; i < keys.size(); ++i) nodes.push_back(keys[i].rechunk(first.chunks()).node());
  return Array(algo::of_lines(
      "lexsort", static_cast<uint64_t>(along), DType::int64,
      [along](std::span<const NdArray> lines) {
        return ops::lexsort(std::vector<NdArray>(lines.begin(), lines.end()), along);
      },
      nodes));
}

Array sort_by(const Array& x, const Array& key, bool descending) {
  if (key.ndim() != 1 || x.ndim() == 0 || x.shape()[0] != key.shape()[0])
    throw InvalidArgument(fmt::format("sort_by() of rows of shape {} takes a 1-d key as long, not one of shape {}",
                                      local::to_string(x.shape()), local::to_string(key.shape())));
  if (x.size() == 0) return x;
  // Backwards both before and after, so that equal keys keep their order.
  const auto turned = [&](const Array& array) { return descending ? arrange::backwards(array, 0) : array; };
  return turned(ordering::ordered({.keys = {turned(key)}, .carried = {turned(x)}, .keeps_keys = false}).carried[0]);
}

std::string sort_method(const Array& a, std::optional<int64_t> axis) {
  const Sorted sorted = sorted_along(a, axis);
  const int64_t n = sorted.array.shape()[sorted.axis];
  const std::string lines = fmt::format("{} elements along axis {}", local::format_count(n), sorted.axis);
  if (is_whole(sorted, a.dtype())) return lines + ": whole lines in a task";
  return fmt::format("{}: {}", lines, ordering::to_string(ordering::layout_of(request_of(sorted, /*stable=*/false))));
}

namespace {

// From the most extreme one, and the positions where they are wanted.
std::vector<Array> extremes(const Array& a, int64_t k, int axis, bool greatest, bool positions) {
  std::vector<Array> result;
  const Dims shape = with_extent(a.shape(), axis, k);
  if (local::element_count(shape) == 0) {
    result.push_back(constant(shape, 0, a.dtype()));
    if (positions) result.push_back(constant(shape, 0, DType::int64));
    return result;
  }
  const Array cut = in_fitting_chunks(a, algo::ends_bytes(a.dtype()));
  for (const expr::NodePtr& node : algo::ends_of_lines(cut.node(), axis, k, greatest, positions)) {
    const Array ends(node);
    result.push_back(greatest ? arrange::backwards(ends, axis) : ends);
  }
  return result;
}

std::vector<Array> of_either_end(const Array& a, int64_t k, int64_t axis, bool positions) {
  const int along = local::normalize_axis(axis, a.ndim());
  return extremes(a, std::min(k < 0 ? -k : k, a.shape()[along]), along, k >= 0, positions);
}

}  // namespace

std::pair<Array, Array> top_k(const Array& a, int64_t k, int64_t axis, bool largest) {
  const int along = local::normalize_axis(axis, a.ndim());
  const int64_t n = a.shape()[along];
  if (k < 0 || k > n) throw InvalidArgument(fmt::format("k(={}) out of bounds ({})", k, n));
  const std::vector<Array> both = extremes(a, k, along, largest, /*positions=*/true);
  return {both[0], both[1]};
}
Array topk(const Array& a, int64_t k, int64_t axis) { return of_either_end(a, k, axis, /*positions=*/false)[0]; }
Array argtopk(const Array& a, int64_t k, int64_t axis) { return of_either_end(a, k, axis, /*positions=*/true)[1]; }

Array Array::topk(int64_t k, int64_t axis) const { return quarry::topk(*this, k, axis); }
Array Array::argtopk(int64_t k, int64_t axis) const { return quarry::argtopk(*this, k, axis); }
Array Array::argsort(std::optional<int64_t> axis, MaybeText kind) const { return quarry::argsort(*this, axis, kind); }
Array Array::argpartition(const Ints& kth, std::optional<int64_t> axis) const {
  return quarry::argpartition(*this, kth, axis);
}

Array shuffle(const Array& x, const std::vector<std::vector<int64_t>>& indexer, int64_t axis) {
  const int along = local::normalize_axis(axis, x.ndim());
  // Groups one after the other fill chunks of the largest size that there is, a fifth more or less.
  const int64_t usual = std::max<int64_t>(x.chunks().axis(along).largest(), 1);
  std::vector<int64_t> positions, extents{0};
  for (const std::vector<int64_t>& group : indexer) {
    const int64_t size = std::ssize(group);
    positions.insert(positions.end(), group.begin(), group.end());
    if (extents.back() > 0 && extents.back() + size > usual + usual / 4) extents.push_back(0);
    extents.back() += size;
    if (extents.back() >= usual) extents.push_back(0);
  }
  if (extents.back() == 0 && extents.size() > 1) extents.pop_back();
  const Array taken = take(x, local::from_vector(positions), along);
  std::vector<AxisChunks> axes = taken.chunks().axes();
  axes[static_cast<size_t>(along)] = AxisChunks(extents);
  return taken.rechunk(Grid(std::move(axes)));
}

}  // namespace quarry
