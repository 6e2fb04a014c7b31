#include "quarry/local/device/range.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/statistics/order.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/statistics/support.h"

namespace quarry::local {

namespace {

// The mean of the middle elements, or the middle one (`single`). `probe` is an element of each row: its NaN counts.
NdArray middle(const NdArray& low, const NdArray& high, bool single, const NdArray& probe) {
  const DType dtype = accumulate_dtype("mean"_reduction, low.dtype());
  const DType wide = widened(dtype);
  Fused fused;
  Fused::Value result = fused.cast(fused.input(low), wide);
  if (!single) result = fused("add"_op, result, fused.cast(fused.input(high), wide));
  // NumPy's division by 1 changes complex infinities.
  if (!single || is_complex(wide)) result = fused("divide"_op, result, single ? 1 : 2);
  result = fused.cast(result, dtype);
  if (is_inexact(probe.dtype())) {
    const Fused::Value value = fused.input(probe);
    result = fused("where"_op, fused("isnan"_op, value), value, result);
  }
  return fused.run(result);
}

// Of rows of which the first `length` elements in order count.
NdArray median_of_rows(const NdArray& rows, int64_t length) {
  const int64_t high = length / 2, low = length % 2 == 0 ? high - 1 : high;
  std::vector<int64_t> kth{low};
  if (high != low) kth.push_back(high);
  if (is_inexact(rows.dtype()) && high != length - 1) kth.push_back(length - 1);
  const NdArray found = selected_rows(rows, kth, context_for(rows.device()));
  const int64_t last = static_cast<int64_t>(kth.size()) - 1;  // of integers any element will do
  return middle(at_last(found, 0), at_last(found, high == low ? 0 : 1), low == high, at_last(found, last));
}

NdArray median_of_uneven_rows(const NdArray& rows, const NdArray& counts) {
  const NdArray sorted = sorted_rows(rows, context_for(rows.device()));
  const NdArray count = apply("maximum"_op, {counts, 1});
  const NdArray high = apply("floor_divide"_op, {count, 2}),
                low = apply("floor_divide"_op, {apply("subtract"_op, {count, 1}), 2});
  const NdArray lower = gathered(sorted, low, /*kept=*/0), upper = gathered(sorted, high, /*kept=*/0);
  const NdArray first = sorted[{ellipsis, Slice{0, 1, std::nullopt}}];
  const NdArray even = middle(lower, upper, /*single=*/false, first),
                odd = middle(lower, lower, /*single=*/true, first);
  return apply("where"_op, {apply("equal"_op, {low, high}), odd, even});
}

}  // namespace

namespace ops {

NdArray median(const NdArray& a, const Axes& axis, const std::optional<NdArray>& out, bool /*overwrite_input*/,
               bool keepdims) {
  const Range named("median");
  const uint32_t mask = axes_mask(axis, a.ndim());
  const NdArray rows = merged_last(a, mask);
  const Dims kept = reduced_shape(a.shape(), mask, /*keepdims=*/true);
  const int64_t length = rows.shape().back();
  if (length == 0 || rows.size() == 0) return reduce("mean"_reduction, a, axis, {.out = out, .keepdims = keepdims});
  return deliver("median", median_of_rows(rows, length).reshape(kept), a.shape(), mask, keepdims, out);
}

NdArray nanmedian(const NdArray& a, const Axes& axis, const std::optional<NdArray>& out, bool overwrite_input,
                  bool keepdims) {
  const Range named("nanmedian");
  if (!is_inexact(a.dtype()) || a.size() == 0) return median(a, axis, out, overwrite_input, keepdims);
  const uint32_t mask = axes_mask(axis, a.ndim());
  const NdArray rows = merged_last(a, mask), counts = numbers_per_row(rows);
  const int64_t length = rows.shape().back();
  const int64_t numbers = item_or(ops::sum(counts), 0).as_int64();
  if (!has_values(counts)) static_cast<void>(median_of_rows(rows, length));  // the other way counts too
  NdArray result;
  if (numbers == rows.size())
    result = median_of_rows(rows, length);
  else if (counts.size() == 1)  // NaNs are at the end; without a number they are the answer
    result = median_of_rows(rows, numbers == 0 ? length : numbers);
  else
    result = median_of_uneven_rows(rows, counts);
  return deliver("nanmedian", result.reshape(reduced_shape(a.shape(), mask, /*keepdims=*/true)), a.shape(), mask,
                 keepdims, out);
}

}  // namespace ops
}  // namespace quarry::local
