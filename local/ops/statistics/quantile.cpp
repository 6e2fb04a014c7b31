// Quantiles: one selection in the rows (one sort where rows have NaNs to leave out, or weights), then the elements
// beside each quantile and their interpolation in one pass.
#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/statistics/order.h"
#include "quarry/local/ops/statistics/positions.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/statistics/support.h"

namespace quarry::local {
namespace {

// What the callers have in common.
struct Request {
  NdArray q;          // in host memory
  bool weak = false;  // a Python number
  uint32_t mask = 0;
  QuantileMethod method{};
  std::optional<NdArray> weights = std::nullopt;  // broadcast to a
  bool ignore_nan = false;

  int64_t quantiles() const { return q.size(); }
};

// Quantiles first, then the axes that are kept.
Dims result_shape(const Request& request, const RankedRows& rows) {
  Dims shape = rows.kept();
  shape.insert(0, request.quantiles());
  return shape;
}

// q as an array that broadcasts against result_shape().
NdArray spread(const NdArray& values, const RankedRows& rows) {
  Dims shape = Dims::filled(rows.kept().size() + 1, 1);
  shape[0] = values.size();
  return values.to(rows.device()).reshape(shape);
}

// a + (b - a) t, from the nearer end, as NumPy rounds it: `t` and `rest` = 1 - t.
Fused::Value interpolated(Fused& fused, const Fused::Value& a, const Fused::Value& b, const Fused::Value& t,
                          const Fused::Value& rest, const Fused::Value& nearer_b) {
  const Fused::Value distance = fused("subtract"_op, b, a);
  const Fused::Value from_a = fused("add"_op, a, fused("multiply"_op, distance, t));
  const Fused::Value from_b = fused("subtract"_op, b, fused("multiply"_op, distance, rest));
  return fused("where"_op, nearer_b, from_b, from_a);
}

// NaN of the rows where `probe`, an element of each, is NaN.
Fused::Value with_nan(Fused& fused, const Fused::Value& result, const NdArray& probe) {
  if (!is_inexact(probe.dtype())) return result;
  const Fused::Value value = fused.input(probe);
  return fused("where"_op, fused("isnan"_op, value), value, result);
}

// Of rows of which the first `length` elements in order count.
NdArray of_rows(const Request& request, const RankedRows& rows, int64_t length) {
  const QuantilePositions at = quantile_positions(request.method, request.q, RowLength::of(length));
  const auto on_host = [](const NdArray& positions) { return to_vector<int64_t>(positions); };
  const std::vector<int64_t> previous = on_host(at.previous);
  const std::vector<int64_t> next = at.next ? on_host(*at.next) : std::vector<int64_t>{};
  std::vector<int64_t> kth = previous;
  kth.insert(kth.end(), next.begin(), next.end());
  if (is_inexact(rows.dtype()) || kth.empty()) kth.push_back(length - 1);  // a NaN, if there is one
  std::sort(kth.begin(), kth.end());
  kth.erase(std::unique(kth.begin(), kth.end()), kth.end());
  const NdArray found = rows.select(kth);
  const NdArray last = at_last(found, static_cast<int64_t>(kth.size()) - 1);
  const auto index = [&](int64_t position) -> int64_t {
    return std::lower_bound(kth.begin(), kth.end(), position) - kth.begin();
  };

  Fused fused;
  if (request.quantiles() == 1) {
    const Fused::Value a = fused.input(at_last(found, index(previous[0])));
    if (!at.next)
      return fused.run(with_nan(fused, fused.cast(a, found.dtype()), last)).reshape(result_shape(request, rows));
    const Fused::Value b = fused.input(at_last(found, index(next[0])));
    const Scalar gamma = at.gamma->item();
    const Fused::Value distance = fused("subtract"_op, b, a);
    // The same roundings as interpolated(), whose choice is known.
    const double weight = gamma.as_double();
    const auto literal = [&](double value) {
      return request.weak ? Scalar(value) : Scalar::strong(value, gamma.dtype());
    };
    const Fused::Value result = weight >= 0.5
                                    ? fused("subtract"_op, b, fused("multiply"_op, distance, literal(1 - weight)))
                                    : fused("add"_op, a, fused("multiply"_op, distance, literal(weight)));
    return fused.run(with_nan(fused, result, last)).reshape(result_shape(request, rows));
  }
  const auto taken = [&](std::vector<int64_t> positions) {
    std::transform(positions.begin(), positions.end(), positions.begin(), index);
    const NdArray elements = ops::take(found, from_vector(positions).to(found.device()), -1, std::nullopt, "clip");
    std::vector<int64_t> order{found.ndim() - 1};
    for (int64_t d = 0; d < found.ndim() - 1; ++d) order.push_back(d);
    return elements.transpose(order);
  };
  const Fused::Value a = fused.input(taken(previous));
  if (!at.next) return fused.run(with_nan(fused, fused.cast(a, found.dtype()), last));
  const Fused::Value b = fused.input(taken(next)), t = fused.input(spread(*at.gamma, rows));
  const Fused::Value result =
      interpolated(fused, a, b, t, fused("subtract"_op, 1, t), fused("greater_equal"_op, t, 0.5));
  return fused.run(with_nan(fused, result, last));
}

// Of rows with numbers of their own of elements that are not NaN (`counts`, with an axis of one element at the end).
NdArray of_uneven_rows(const Request& request, const RankedRows& rows, const NdArray& counts) {
  const NdArray q = spread(request.q, rows);
  const NdArray count = apply("maximum"_op, {counts.reshape(rows.kept()), 1});
  const NdArray last = apply("subtract"_op, {count, 1});
  const DType dtype = is_float(q.dtype()) ? q.dtype() : DType::int64;
  const NdArray typed = cast_to(count, dtype), typed_last = cast_to(last, dtype);
  const QuantilePositions at = quantile_positions(request.method, q, {typed, typed_last, last});
  const NdArray first = rows.first();  // NaN where there is nothing else
  Fused fused;
  const Fused::Value a = fused.input(rows.at(at.previous));
  if (!at.next) return fused.run(with_nan(fused, fused.cast(a, rows.dtype()), first));
  const Fused::Value b = fused.input(rows.at(*at.next)), gamma = fused.input(*at.gamma);
  Fused::Value t = gamma, rest = fused("subtract"_op, 1, gamma);
  if (request.weak) {
    const PromotionOperand operands[] = {{rows.dtype(), false}, {DType::float64, /*weak=*/true}};
    t = fused.cast(t, result_type(operands));
    rest = fused.cast(rest, result_type(operands));
  }
  const Fused::Value result = interpolated(fused, a, b, t, rest, fused("greater_equal"_op, gamma, 0.5));
  return fused.run(with_nan(fused, result, first));
}

// inverted_cdf of the weights: the first element at which their cumulated share reaches the quantile.
NdArray of_weighted_rows(const Request& request, const NdArray& rows, const NdArray& weights) {
  const ExecContext context = context_for(rows.device());
  const NdArray order = argsorted_rows(rows, context);
  const NdArray sorted = gathered(rows, order, /*kept=*/0);
  NdArray share = cast_to(gathered(weights, order, /*kept=*/0), DType::float64);
  const int64_t length = rows.shape().back();
  std::optional<NdArray> empty;
  if (request.ignore_nan && is_inexact(rows.dtype())) {
    share = apply("where"_op, {apply("isnan"_op, {sorted}), 0.0, share});
    empty = apply("isnan"_op, {at_last(sorted, 0)});
  }
  share = ops::cumsum(share, -1);
  const NdArray total = share[{ellipsis, Slice{length - 1, std::nullopt, std::nullopt}}];
  NdArray wrong = apply("isnan"_op, {apply("divide"_op, {total, total})});
  if (empty) wrong = apply("logical_and"_op, {wrong.reshape(empty->shape()), apply("logical_not"_op, {*empty})});
  if (holds_any(wrong)) throw InvalidArgument("Weights included NaN, inf or were all zero.");

  const DType dtype = is_float(request.q.dtype()) ? request.q.dtype() : DType::float64;
  Fused fused;
  // Elements without weight at the front are not even the quantile 0.
  const Fused::Value part = fused.cast(fused("divide"_op, fused.input(share), fused.input(total)), dtype);
  const NdArray cumulated = fused.run(fused("where"_op, fused("equal"_op, part, 0), -1, part));
  Dims wanted_shape = rows.shape();
  wanted_shape.back() = request.quantiles();
  const NdArray wanted =
      cast_to(request.q.to(rows.device()), dtype).reshape({-1}).broadcast_to(wanted_shape).copy(context);
  NdArray positions(wanted_shape, DType::int64, context);
  if (positions.size() > 0) {
    cumulated.begin_read(context.stream);
    engine(context.device)
        .sorting()
        .searchsorted(dtype, cumulated.raw(), rows_of(cumulated), wanted.raw(), request.quantiles(), /*right=*/false,
                      positions.data<int64_t>(), context);
  }
  const NdArray found = gathered(sorted, apply("minimum"_op, {positions, length - 1}), /*kept=*/0);
  std::vector<int64_t> axes{rows.ndim() - 1};
  for (int64_t d = 0; d < rows.ndim() - 1; ++d) axes.push_back(d);
  Fused finished;
  const Fused::Value result = finished.input(found.transpose(axes));
  return finished.run(with_nan(finished, result, at_last(sorted, request.ignore_nan ? 0 : length - 1)));
}

NdArray quantiles_of(const Request& request, const RankedRows& rows) {
  const int64_t length = rows.length();
  if (length == 0 && request.quantiles() == 0) {
    const bool picks = picks_elements(request.method, request.q.dtype());
    return NdArray({0}, picks ? rows.dtype() : promote_types(rows.dtype(), request.q.dtype()),
                   context_for(rows.device()));
  }
  if (length == 0) throw IndexError("index -1 is out of bounds for axis 0 with size 0");
  if (!request.ignore_nan || !is_inexact(rows.dtype()) || rows.count() == 0) return of_rows(request, rows, length);
  const NdArray counts = rows.numbers();
  if (counts.size() > 1) {
    if (!has_values(counts)) static_cast<void>(of_rows(request, rows, length));  // the other way counts too
    const int64_t all = item_or(ops::sum(counts), 0).as_int64();
    return all == rows.count() * length ? of_rows(request, rows, length) : of_uneven_rows(request, rows, counts);
  }
  // NaNs are at the end of the one row. Without a number it is itself the answer.
  const int64_t numbers = item_or(counts, 0).as_int64();
  return of_rows(request, rows, numbers == 0 ? length : numbers);
}

NdArray host_array(const Arg& q) {
  if (const NdArray* array = q.array()) return array->to(kCpu);
  const PromotionOperand alone[] = {q.promotion()};
  return filled({}, q.scalar(), result_type(alone), default_context(kCpu));
}

bool in_range(const NdArray& q) {
  if (q.size() == 0) {
    if (q.ndim() == 1) return true;
    throw InvalidArgument("zero-size array to reduction operation minimum which has no identity");
  }
  const std::vector<double> values = to_vector<double>(q.astype(DType::float64, default_context(kCpu)));
  return std::all_of(values.begin(), values.end(), [](double value) { return value >= 0 && value <= 1; });
}

// Percentiles are out of 100.
Request request_of(DType dtype, const Arg& q, bool percent, bool ignore_nan) {
  if (is_complex(dtype)) throw TypeError("a must be an array of real numbers");
  Request request{host_array(q)};
  if (is_complex(request.q.dtype())) throw TypeError("quantiles must be real numbers");
  request.weak = !q.array() && q.scalar().weak() && request.q.dtype() != DType::bool_;
  request.ignore_nan = ignore_nan;
  if (percent) request.q = apply("divide"_op, {request.q, 100});
  if (!in_range(request.q)) {
    throw InvalidArgument(percent ? "Percentiles must be in the range [0, 100]"
                                  : "Quantiles must be in the range [0, 1]");
  }
  return request;
}

// Sets axes and method. The result's shape.
Dims complete(Request& request, const Dims& shape, const Axes& axis, std::string_view method, bool keepdims) {
  request.mask = axes_mask(axis, shape.size());
  if (request.q.ndim() > 2)
    throw InvalidArgument(fmt::format("q must be a scalar or 1d (got {} dimensions)", request.q.ndim()));
  request.method = parse_quantile_method(method);
  Dims result = request.q.shape();
  for (int64_t extent : reduced_shape(shape, request.mask, keepdims)) result.push_back(extent);
  return result;
}

// The one entry of the four functions.
NdArray quantile_of(const NdArray& a, const Arg& q, bool percent, bool ignore_nan, const Axes& axis,
                    const std::optional<NdArray>& out, std::string_view method, bool keepdims,
                    const std::optional<NdArray>& weights) {
  Request request = request_of(a.dtype(), q, percent, ignore_nan);
  if (weights) {
    if (method != "inverted_cdf")
      throw InvalidArgument(fmt::format("Only method 'inverted_cdf' supports weights. Got: {}.", method));
    axes_mask(axis, a.ndim());
    const NdArray valid = checked_weights(*weights, a, axis);
    if (is_complex(valid.dtype())) throw TypeError("weights must be real numbers");
    if (holds_any(apply("less"_op, {valid, 0}))) throw InvalidArgument("Weights must be non-negative.");
    request.weights = valid.broadcast_to(a.shape());
  }
  // NumPy forgets the quantiles here.
  if (ignore_nan && a.size() == 0) return reduce("mean"_reduction, a, axis, {.out = out, .keepdims = keepdims});
  const Dims shape = complete(request, a.shape(), axis, method, keepdims);
  const LocalRows rows(packed(merged_last(a, request.mask), context_for(a.device())));
  const bool weighted = weights && rows.length() > 0;
  NdArray result = weighted
                       ? of_weighted_rows(request, rows.array(),
                                          packed(merged_last(*request.weights, request.mask), context_for(a.device())))
                       : quantiles_of(request, rows);
  result = result.reshape(shape);
  if (!out) return result;
  // As NumPy's take(), of which this is one.
  if (!ignore_nan && !weights && picks_elements(request.method, request.q.dtype()) &&
      !can_cast(out->dtype(), result.dtype(), Casting::safe)) {
    throw TypeError(fmt::format("Cannot cast array data from dtype('{}') to dtype('{}') according to the rule 'safe'",
                                local::name(out->dtype()), local::name(result.dtype())));
  }
  return store_statistic(result, *out, ignore_nan ? Casting::unsafe : Casting::same_kind);
}

}  // namespace

NdArray LocalRows::numbers() const { return numbers_per_row(rows_); }
NdArray LocalRows::select(const std::vector<int64_t>& kth) const {
  return selected_rows(rows_, kth, context_for(rows_.device()));
}
NdArray LocalRows::at(const NdArray& positions) const {
  if (!sorted_) sorted_ = sorted_rows(rows_, context_for(rows_.device()));
  return gathered(*sorted_, positions, /*kept=*/1);
}

NdArray ranked_quantile(const RankedRows& rows, const Dims& shape, const Arg& q, bool percent, bool ignore_nan,
                        const Axes& axis, std::string_view method, bool keepdims) {
  Request request = request_of(rows.dtype(), q, percent, ignore_nan);
  const Dims result = complete(request, shape, axis, method, keepdims);
  return quantiles_of(request, rows).reshape(result);
}

namespace ops {

NdArray percentile(const NdArray& a, const Arg& q, const Axes& axis, const std::optional<NdArray>& out,
                   bool /*overwrite_input*/, std::string_view method, bool keepdims,
                   const std::optional<NdArray>& weights) {
  const Range named("percentile");
  return quantile_of(a, q, /*percent=*/true, /*ignore_nan=*/false, axis, out, method, keepdims, weights);
}
NdArray quantile(const NdArray& a, const Arg& q, const Axes& axis, const std::optional<NdArray>& out,
                 bool /*overwrite_input*/, std::string_view method, bool keepdims,
                 const std::optional<NdArray>& weights) {
  const Range named("quantile");
  return quantile_of(a, q, /*percent=*/false, /*ignore_nan=*/false, axis, out, method, keepdims, weights);
}
NdArray nanpercentile(const NdArray& a, const Arg& q, const Axes& axis, const std::optional<NdArray>& out,
                      bool /*overwrite_input*/, std::string_view method, bool keepdims,
                      const std::optional<NdArray>& weights) {
  const Range named("nanpercentile");
  return quantile_of(a, q, /*percent=*/true, /*ignore_nan=*/true, axis, out, method, keepdims, weights);
}
NdArray nanquantile(const NdArray& a, const Arg& q, const Axes& axis, const std::optional<NdArray>& out,
                    bool /*overwrite_input*/, std::string_view method, bool keepdims,
                    const std::optional<NdArray>& weights) {
  const Range named("nanquantile");
  return quantile_of(a, q, /*percent=*/false, /*ignore_nan=*/true, axis, out, method, keepdims, weights);
}

}  // namespace ops
}  // namespace quarry::local
