#include "quarry/chunked/api/sorting.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
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

// Lines of one chunk. This is where lines that are too long for a task are refused, and could take another way.
Array whole_lines(const char* function, const Array& x, int axis, int64_t result_itemsize) {
  const int64_t limit = Runtime::current().plan_bytes(), n = x.shape()[axis];
  const int64_t needed = algo::line_task_bytes(n * (local::itemsize(x.dtype()) + result_itemsize));
  if (needed > limit)
    throw local::NotSupported(
        fmt::format("{}(): a line of {} elements along axis {} needs a task of {}, and the budget has {} per rank",
                    function, n, axis, local::format_bytes(needed), local::format_bytes(limit)));
  return with_whole_axis(x, axis);
}

template <class F>
Array by_lines(const char* function, const Sorted& sorted, DType result, uint64_t identity, F of_lines) {
  const auto& [array, axis] = sorted;
  const Array lines = whole_lines(function, array, axis, local::itemsize(result));
  const expr::NodePtr& node = lines.node();
  return Array(algo::of_lines(
      function, op::Hash().add(identity).add(axis).value, result,
      [of_lines, axis = axis](std::span<const NdArray> given) { return of_lines(given[0], axis); }, {node}));
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

Array sort(const Array& a, std::optional<int64_t> axis, MaybeText kind, MaybeText order, std::optional<bool> stable) {
  ops::sort(nothing_of(a.dtype()), -1, kind, order, stable);  // checks the options
  const SortOptions options{kind ? std::optional<std::string>(*kind) : std::nullopt, {}, stable};
  const uint64_t identity = op::Hash().add(hash_of(kind)).add(stable.has_value()).add(stable.value_or(false)).value;
  return by_lines("sort", sorted_along(a, axis), a.dtype(), identity, [options](const NdArray& lines, int along) {
    return ops::sort(lines, along, view_of(options.kind), std::nullopt, options.stable);
  });
}

Array argsort(const Array& a, std::optional<int64_t> axis, MaybeText kind, MaybeText order,
              std::optional<bool> stable) {
  ops::argsort(nothing_of(a.dtype()), -1, kind, order, stable);
  // All kinds give what the stable one gives.
  return by_lines("argsort", sorted_along(arrange::at_least(a, 1), axis), DType::int64, 0,
                  [](const NdArray& lines, int along) { return ops::argsort(lines, along); });
}

Array partition(const Array& a, const Ints& kth, std::optional<int64_t> axis, std::string_view kind, MaybeText order) {
  ops::partition(nothing_of(a.dtype()), kth, -1, kind, order);
  const Sorted sorted = sorted_along(a, axis);
  const std::vector<int64_t> positions = checked_kth(sorted, kth);
  return by_lines("partition", sorted, a.dtype(), hash_of(positions),
                  [positions](const NdArray& lines, int along) { return ops::partition(lines, positions, along); });
}

Array argpartition(const Array& a, const Ints& kth, std::optional<int64_t> axis, std::string_view kind,
                   MaybeText order) {
  ops::argpartition(nothing_of(a.dtype()), kth, -1, kind, order);
  const Sorted sorted = sorted_along(arrange::at_least(a, 1), axis);
  const std::vector<int64_t> positions = checked_kth(sorted, kth);
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
  int64_t itemsize = local::itemsize(DType::int64);
  for (size_t i = 1; i < keys.size(); ++i) itemsize += local::itemsize(keys[i].dtype());
  const Array first = whole_lines("lexsort", keys.front(), along, itemsize);
  std::vector<expr::NodePtr> nodes{first.node()};
  for (size_t i = 1; i < keys.size(); ++i) nodes.push_back(keys[i].rechunk(first.chunks()).node());
  return Array(algo::of_lines(
      "lexsort", static_cast<uint64_t>(along), DType::int64,
      [along](std::span<const NdArray> lines) {
        return ops::lexsort(std::vector<NdArray>(lines.begin(), lines.end()), along);
      },
      nodes));
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
  for (const expr::NodePtr& node : algo::ends_of_lines(a.node(), axis, k, greatest, positions)) {
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
