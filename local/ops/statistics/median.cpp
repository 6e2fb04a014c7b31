#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
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
NdArray median_of_rows(const RankedRows& rows, int64_t length) {
  const int64_t high = length / 2, low = length % 2 == 0 ? high - 1 : high;
  std::vector<int64_t> kth{low};
  if (high != low) kth.push_back(high);
  if (is_inexact(rows.dtype()) && high != length - 1) kth.push_back(length - 1);
  const NdArray found = rows.select(kth);
  const int64_t last = static_cast<int64_t>(kth.size()) - 1;  // of integers any element will do
  return middle(at_last(found, 0), at_last(found, high == low ? 0 : 1), low == high, at_last(found, last));
}

NdArray median_of_uneven_rows(const RankedRows& rows, const NdArray& counts) {
  Dims one = rows.kept();
  one.insert(0, 1);
  const NdArray count = apply("maximum"_op, {counts.reshape(one), 1});
  const NdArray high = apply("floor_divide"_op, {count, 2}),
                low = apply("floor_divide"_op, {apply("subtract"_op, {count, 1}), 2});
  const NdArray lower = rows.at(low), upper = rows.at(high), first = rows.first().reshape(one);
  const NdArray even = middle(lower, upper, /*single=*/false, first),
                odd = middle(lower, lower, /*single=*/true, first);
  return apply("where"_op, {apply("equal"_op, {low, high}), odd, even});
}

NdArray numbers_median(const RankedRows& rows) {
  const NdArray counts = rows.numbers();
  const int64_t numbers = item_or(ops::sum(counts), 0).as_int64();
  if (!has_values(counts)) static_cast<void>(median_of_rows(rows, rows.length()));  // the other way counts too
  if (numbers == rows.count() * rows.length()) return median_of_rows(rows, rows.length());
  // NaNs are at the end; without a number they are the answer.
  if (counts.size() == 1) return median_of_rows(rows, numbers == 0 ? rows.length() : numbers);
  return median_of_uneven_rows(rows, counts);
}

}  // namespace

NdArray ranked_median(const RankedRows& rows, const Dims& shape, uint32_t mask, bool ignore_nan, bool keepdims) {
  const NdArray result =
      ignore_nan && is_inexact(rows.dtype()) ? numbers_median(rows) : median_of_rows(rows, rows.length());
  return result.reshape(reduced_shape(shape, mask, keepdims));
}

namespace ops {

NdArray median(const NdArray& a, const Axes& axis, const std::optional<NdArray>& out, bool /*overwrite_input*/,
               bool keepdims) {
  const Range named("median");
  const uint32_t mask = axes_mask(axis, a.ndim());
  if (a.size() == 0) return reduce("mean"_reduction, a, axis, {.out = out, .keepdims = keepdims});
  const LocalRows rows(merged_last(a, mask));
  return deliver("median", ranked_median(rows, a.shape(), mask, /*ignore_nan=*/false, /*keepdims=*/true), a.shape(),
                 mask, keepdims, out);
}

NdArray nanmedian(const NdArray& a, const Axes& axis, const std::optional<NdArray>& out, bool overwrite_input,
                  bool keepdims) {
  const Range named("nanmedian");
  if (!is_inexact(a.dtype()) || a.size() == 0) return median(a, axis, out, overwrite_input, keepdims);
  const uint32_t mask = axes_mask(axis, a.ndim());
  const LocalRows rows(merged_last(a, mask));
  return deliver("nanmedian", ranked_median(rows, a.shape(), mask, /*ignore_nan=*/true, /*keepdims=*/true), a.shape(),
                 mask, keepdims, out);
}

}  // namespace ops
}  // namespace quarry::local
