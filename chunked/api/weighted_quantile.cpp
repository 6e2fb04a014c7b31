// Quantiles with weights, by NumPy's inverted_cdf: of the elements in order, x[0] <= x[1] ..., that with the first i
// where (w[0] + ... + w[i]) / (w[0] + ... + w[n - 1]) >= q; for q = 0 the first one that has a weight.
//
// Lines that are short beside a chunk come whole to tasks. Longer ones are sorted with their weights (ordering.h). The
// sums are NumPy's, w[0] + w[1] first: a chunk of a line begins with the sum of those before it, so chunks of a line
// are added up one after the other, but for integers, whose sums are exact in any order. A quantile is then a fused
// count of the sums that are too small, and one element. A line of n elements is sorted once; weights are read, and
// sums of 8 n bytes written, and read once for every kTogether quantiles. All of it is spilled where it does not fit.
#include "quarry/chunked/api/weighted_quantile.h"

#include <utility>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/ordering.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/ufunc.h"

namespace quarry::weighted {
namespace {

using namespace compose;
namespace ops = local::ops;

NdArray locally(const Wanted& wanted, const NdArray& a, const NdArray& weights, std::string_view method) {
  return wanted.local(a, wanted.q.to(a.device()), -1, std::nullopt, false, method, false, weights);
}

// An array and its weights with the reduced axes as one at the end.
struct Lines {
  Array values, weights;
  Dims kept;
  int64_t length = 1;
};

Lines lines_of(const Array& a, const Array& weights, uint32_t mask) {
  Lines lines;
  std::vector<int64_t> order;
  for (const bool reduced : {false, true})
    for (int d = 0; d < a.ndim(); ++d) {
      if ((mask >> d & 1) != reduced) continue;
      order.push_back(d);
      if (reduced)
        lines.length *= a.shape()[d];
      else
        lines.kept.push_back(a.shape()[d]);
    }
  Dims shape = lines.kept;
  shape.push_back(lines.length);
  lines.values = reshape(transpose(a, order), shape);
  lines.weights = reshape(transpose(weights, order), shape);
  return lines;
}

// Throws for weights that are no weights. Whether their sums are exact in any order.
bool checked(const Array& given, const Lines& lines, bool skips_nan) {
  constexpr double kExact = 9007199254740992;  // 2^53
  const Array total = sum(lines.weights, -1, {.dtype = DType::float64});
  Array is_wrong = isnan(total / total);
  if (skips_nan) is_wrong = logical_and(is_wrong, logical_not(all(isnan(lines.values), -1)));
  const Array conditions[] = {any(given < 0), any(is_wrong), any(total > kExact)};
  const std::vector<NdArray> found = to_host(conditions);
  if (found[0].item<bool>()) throw InvalidArgument("Weights must be non-negative.");
  if (found[1].item<bool>()) throw InvalidArgument("Weights included NaN, inf or were all zero.");
  return !is_inexact(given.dtype()) && !found[2].item<bool>();
}

// Of lines that come whole to tasks, several to a chunk: (kept ..., q).
Array of_whole_lines(const Wanted& wanted, const Lines& lines, std::string_view method) {
  constexpr int64_t kOnTheWay = 12 * sizeof(double);  // positions, sorted weights, their sums and shares
  const int axis = lines.values.ndim() - 1;
  const int64_t bytes =
      kOnTheWay + 2 * (local::itemsize(lines.values.dtype()) + local::itemsize(lines.weights.dtype()));
  const Array values = in_fitting_chunks(with_whole_axis(lines.values, axis), bytes, axis);
  BlockOptions options;
  options.name = wanted.function;
  options.dtypes = {lines.values.dtype()};
  options.scratch_bytes = bytes * local::element_count(values.chunks().largest());
  GufuncOptions how;
  how.output_sizes["q"] = wanted.q.size();
  const auto of_chunk = [wanted, method = std::string(method)](const NdArray& x, const NdArray& w) {
    const NdArray result = locally(wanted, x, w, method);
    Dims shape(x.shape().begin(), x.shape().end() - 1);
    shape.insert(0, wanted.q.size());
    return ops::moveaxis(result.reshape(shape), 0, -1);
  };
  return apply_gufunc(of_chunk, "(i),(i)->(q)", {values, lines.weights.rechunk(values.chunks())}, how, options)[0];
}

// w[0] + ... + w[i] along the rows of a 2-d array, added up in this order.
Array summed_in_order(const Array& weights) {
  constexpr size_t kAtOnce = 64;  // in a plan
  const AxisChunks& cuts = weights.chunks().axis(1);
  std::vector<Array> parts, pending;
  std::optional<Array> before;
  const auto compute = [&] {
    for (Array& part : persist(pending)) parts.push_back(std::move(part));
    pending.clear();
    before = arrange::part(parts.back(), 1, parts.back().shape()[1] - 1, 1);
  };
  for (int64_t i = 0; i < cuts.count(); ++i) {
    Array part = arrange::part(weights, 1, cuts.start(i), cuts.size(i));
    if (before) part = where(equal(positions(part.shape(), 1), 0), part + *before, part);
    pending.push_back(cumsum(part, 1));
    before = arrange::part(pending.back(), 1, cuts.size(i) - 1, 1);
    if (pending.size() == kAtOnce) compute();
  }
  if (!pending.empty()) compute();
  return joined(parts, 1);
}

// Of lines of any length: (lines, q), in host memory.
NdArray of_sorted_lines(const Wanted& wanted, const Lines& lines, bool is_exact) {
  constexpr size_t kTogether = 32;  // quantiles in a pass over the sums
  const int64_t n = lines.length, count = lines.values.size() / n;
  const ordering::Ordered order =
      ordering::ordered({.keys = {ravel(lines.values)}, .carried = {ravel(lines.weights)}, .line = n});
  const Array columns[] = {order.keys[0], order.carried[0]};
  const std::vector<Array> sorted = persist(columns);
  const AxisChunks& cuts = sorted[1].chunks().axis(0);
  const Grid grid({AxisChunks(count, 1), AxisChunks(n, cuts.size(0))});
  const Array weights = Array(algo::reshape_chunks(sorted[1].node(), grid)).astype(DType::float64);
  const Array sums = is_exact ? cumsum(weights, 1).persist() : summed_in_order(weights);

  const NdArray given = wanted.percent ? NdArray(ops::divide(wanted.q, 100)) : wanted.q;
  const DType dtype = local::is_float(given.dtype()) ? given.dtype() : DType::float64;
  const NdArray q = given.astype(dtype).reshape({given.size()});
  const Array part = (sums / arrange::part(sums, 1, n - 1, 1)).astype(dtype);
  // Elements without weight at the front are not even the quantile 0.
  const Array share = where(equal(part, 0), Scalar::strong(-1, dtype), part);
  std::vector<NdArray> taken{ops::full({count}, wanted.ignore_nan ? 0 : n - 1)};  // where NaN is, if there is one
  std::vector<Array> below;
  for (int64_t i = 0; i < q.size(); ++i) {
    below.push_back(count_nonzero(less(share, Scalar::strong(q[{i}].item(), dtype)), 1));
    if (below.size() < kTogether && i + 1 < q.size()) continue;
    for (const NdArray& found : to_host(below)) taken.push_back(ops::minimum(found, n - 1));
    below.clear();
  }
  const NdArray places = ops::add(ops::stack(taken, 1), ops::multiply(ops::arange(count), n).reshape({count, 1}));
  const NdArray found = take(sorted[0], places).to_host();
  const NdArray first = local::arrange::part(found, 1, 0, 1), results = local::arrange::part(found, 1, 1, q.size());
  return is_inexact(found.dtype()) ? NdArray(ops::where(ops::isnan(first), first, results)) : results;
}

}  // namespace

Array quantile(const Wanted& wanted, const Array& a, const Array& given, const local::Axes& axis,
               std::string_view method, bool keepdims) {
  // What the call refuses whatever the array.
  static_cast<void>(locally(wanted, ops::zeros({1, 1}, a.dtype()), ops::ones({1, 1}), method));
  const uint32_t mask = local::axes_mask(axis, a.ndim());
  const local::AlignedWeights aligned = local::aligned_weights(given.shape(), a.shape(), axis);
  if (local::is_complex(given.dtype())) throw local::TypeError("weights must be real numbers");
  const Array weights = given.transpose(std::span<const int64_t>(aligned.order)).reshape(aligned.shape);
  Lines lines = lines_of(a, broadcast_to(weights, a.shape()), mask);
  const bool skips_nan = wanted.ignore_nan && is_inexact(a.dtype());
  if (skips_nan) lines.weights = where(isnan(lines.values), Scalar::strong(0, given.dtype()), lines.weights);
  const bool is_exact = checked(given, lines, skips_nan);

  constexpr int64_t kLeastLines = 8;  // of a chunk
  const int64_t item = local::itemsize(a.dtype()) + static_cast<int64_t>(sizeof(double));
  Dims shape = lines.kept;
  shape.push_back(wanted.q.size());
  const bool is_short = lines.length * item <= most_on_every_rank() / kLeastLines;
  const Array found = is_short ? of_whole_lines(wanted, lines, method)
                               : Array::from_local(of_sorted_lines(wanted, lines, is_exact).reshape(shape));
  Dims result = wanted.q.shape();
  for (const int64_t extent : local::reduced_shape(a.shape(), mask, keepdims)) result.push_back(extent);
  return reshape(moveaxis(found, -1, 0), result);
}

}  // namespace quarry::weighted
