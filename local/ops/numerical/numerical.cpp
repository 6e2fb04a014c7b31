#include "quarry/local/ops/numerical/numerical.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/program/products.h"

namespace quarry::local::ops {
namespace {

// ---- Sliding products ----

DType promoted(const NdArray& a, const NdArray& b) {
  const PromotionOperand operands[] = {{a.dtype(), false}, {b.dtype(), false}};
  return result_type(operands);
}
NdArray part(const NdArray& vector, int64_t first, int64_t count) { return vector[{Slice{first, first + count, 1}}]; }

NdArray in_line(const NdArray& vector, DType dtype, const ExecContext& context) {
  return vector.dtype() == dtype && vector.is_contiguous() ? vector : vector.astype(dtype, context);
}

// The sliding products of a with the shorter v.
NdArray sliding_products(const NdArray& a_in, const NdArray& v_in, std::string_view mode) {
  const NdArray* both[] = {&a_in, &v_in};
  const ExecContext context = context_for(common_device(both));
  const DType dtype = promoted(a_in, v_in), sum = widened(dtype);
  const int64_t elements = a_in.size(), taps = v_in.size();
  int64_t before = 0, results = elements;
  if (mode == "full") {
    before = taps - 1;
    results = elements + taps - 1;
  } else if (mode == "same") {
    before = taps / 2;
  } else if (mode == "valid") {
    results = elements - taps + 1;
  } else {
    throw InvalidArgument(fmt::format("mode must be one of 'valid', 'same', or 'full' (got '{}')", mode));
  }
  // Few long sums are dot products.
  constexpr int64_t kFew = 8, kLong = 4096;
  if (mode == "valid" && results <= kFew && taps >= kLong) {
    NdArray out({results}, dtype, context);
    for (int64_t i = 0; i < results; ++i) out[{i}].assign(dot(part(a_in, i, taps), v_in), context);
    return out;
  }
  const NdArray a = in_line(a_in, sum, context), v = in_line(v_in, sum, context), out({results}, sum, context);
  a.begin_read(context.stream);
  v.begin_read(context.stream);
  out.begin_write(context.stream);
  engine(context.device).products().slide({sum, a.raw(), elements, v.raw(), taps, out.raw(), results, before}, context);
  return sum == dtype ? out : out.astype(dtype, context);
}

NdArray as_vector(const NdArray& a) {
  if (a.ndim() > 1) throw InvalidArgument("object too deep for desired array");
  return a.ndim() == 0 ? a.reshape({1}) : a;
}

// ---- Interpolation ----

NdArray zero_dim(const Scalar& value, DType dtype, const ExecContext& context) {
  NdArray array({}, dtype, context);
  array.fill(Scalar::strong(value, dtype), context);
  return array;
}

NdArray clipped(const NdArray& values, const NdArray& positions) {
  return take(values, positions, std::nullopt, std::nullopt, "clip");
}

// What a NaN of x gives, as in NumPy: NaN, but no imaginary part, and the value where there is only one point.
enum class OfNan { itself, zero, value };

// The real interpolation of all of x: `f` holds values at the sample points, `at` and `next` the positions around x,
// of which those outside of the points count as the nearest.
void interpolate(const NdArray& x, const NdArray& xp, const NdArray& f, const NdArray& at, const NdArray& next,
                 const NdArray& left, const NdArray& right, bool by_reciprocal, OfNan of_nan, const NdArray& out,
                 const ExecContext& context) {
  const NdArray x0 = clipped(xp, at), x1 = clipped(xp, next), f0 = clipped(f, at), f1 = clipped(f, next);
  const NdArray first = xp[{0}], last = xp[{-1}];
  const std::array inputs = {&x, &x0, &x1, &f0, &f1, &first, &last, &left, &right};
  Program program;
  std::array<ValueId, 9> id{};
  for (ValueId& value : id) value = program.input(DType::float64);
  const auto [vx, vx0, vx1, vf0, vf1, vfirst, vlast, vleft, vright] = id;
  const auto two = [&](Op op, ValueId a, ValueId b) { return program.apply(op, std::array{a, b}); };
  const auto choose = [&](ValueId condition, ValueId a, ValueId b) {
    return program.apply("where"_op, std::array{condition, a, b});
  };
  const ValueId rise = two("subtract"_op, vf1, vf0), run = two("subtract"_op, vx1, vx0);
  const ValueId slope =
      by_reciprocal ? two("multiply"_op, rise, two("divide"_op, program.constant(Scalar(1.0), DType::float64), run))
                    : two("divide"_op, rise, run);
  ValueId value = two("add"_op, two("multiply"_op, slope, two("subtract"_op, vx, vx0)), vf0);
  // As NumPy: where that is NaN, from the other end, and between equal values that value.
  const ValueId other = two("add"_op, two("multiply"_op, slope, two("subtract"_op, vx, vx1)), vf1);
  const auto is_nan = [&](ValueId a) { return program.apply("isnan"_op, std::array{a}); };
  const ValueId again = choose(two("logical_and"_op, is_nan(other), two("equal"_op, vf0, vf1)), vf0, other);
  value = choose(is_nan(value), again, value);
  value = choose(two("equal"_op, vx, vx0), vf0, value);
  value = choose(two("equal"_op, vx, vlast), two("add"_op, vf1, program.constant(Scalar(-0.0), DType::float64)), value);
  value = choose(two("greater"_op, vx, vlast), vright, value);
  value = choose(two("less"_op, vx, vfirst), vleft, value);
  const ValueId zero = program.constant(Scalar(0.0), DType::float64);
  program.output(choose(is_nan(vx), of_nan == OfNan::itself ? vx : of_nan == OfNan::zero ? zero : vf0, value));
  const NdArray* outputs[] = {&out};
  run_elementwise(program, inputs, outputs, context);
}

// A line per interval: value = slope (x - x0) + base, with one interval before the points and one behind them, which
// are flat. searchsorted() from the right gives an interval's number.
struct Intervals {
  NdArray x0, slope, base;
  // Whether slopes and points are finite, without which values may be NaN that are not by interpolate(). Blocks.
  bool finite() const {
    for (const NdArray* array : {&x0, &slope, &base})
      if (!ops::all(apply("isfinite"_op, {*array})).item().as_bool()) return false;
    return true;
  }
};
Intervals intervals_of(const NdArray& xp, const NdArray& f, const NdArray& left, const NdArray& right,
                       bool by_reciprocal, const ExecContext& context) {
  const int64_t n = xp.size();
  Intervals lines;
  for (NdArray* array : {&lines.x0, &lines.slope, &lines.base}) *array = NdArray({n + 1}, DType::float64, context);
  part(lines.x0, 0, 1).assign(part(xp, 0, 1), context);
  part(lines.x0, 1, n).assign(xp, context);
  const auto steps = [&](const NdArray& values) {
    return apply("subtract"_op, {part(values, 1, n - 1), part(values, 0, n - 1)});
  };
  lines.slope.fill(0, context);
  part(lines.slope, 1, n - 1)
      .assign(by_reciprocal ? apply("multiply"_op, {steps(f), apply("divide"_op, {1.0, steps(xp)})})
                            : apply("divide"_op, {steps(f), steps(xp)}),
              context);
  part(lines.base, 0, 1).assign(left, context);
  part(lines.base, 1, n - 1).assign(part(f, 0, n - 1), context);
  part(lines.base, n, 1).assign(right, context);
  return lines;
}
// Where the intervals are finite; `number` has the interval of each x.
void interpolate(const NdArray& x, const NdArray& xp, const NdArray& f, const Intervals& lines, const NdArray& number,
                 OfNan of_nan, const NdArray& out, const ExecContext& context) {
  const NdArray x0 = clipped(lines.x0, number), slope = clipped(lines.slope, number),
                base = clipped(lines.base, number), last = xp[{-1}], f_last = f[{-1}];
  const std::array inputs = {&x, &x0, &slope, &base, &last, &f_last};
  Program program;
  std::array<ValueId, 6> id{};
  for (ValueId& value : id) value = program.input(DType::float64);
  const auto [vx, vx0, vslope, vbase, vlast, vf_last] = id;
  const auto two = [&](Op op, ValueId a, ValueId b) { return program.apply(op, std::array{a, b}); };
  const ValueId zero = program.constant(Scalar(0.0), DType::float64);
  const ValueId run = two("subtract"_op, vx, vx0);
  const ValueId flat = two("logical_or"_op, two("equal"_op, run, zero), two("equal"_op, vslope, zero));
  ValueId value =
      program.apply("where"_op, std::array{flat, vbase, two("add"_op, two("multiply"_op, vslope, run), vbase)});
  value = program.apply("where"_op, std::array{two("equal"_op, vx, vlast), vf_last, value});
  const ValueId nan = of_nan == OfNan::itself ? vx : of_nan == OfNan::zero ? zero : vf_last;
  program.output(program.apply("where"_op, std::array{program.apply("isnan"_op, std::array{vx}), nan, value}));
  const NdArray* outputs[] = {&out};
  run_elementwise(program, inputs, outputs, context);
}

NdArray wrapped(const NdArray& values, double before, double after, const ExecContext& context) {
  const int64_t n = values.size();
  NdArray result({n + 2}, values.dtype(), context);
  part(result, 1, n).assign(values, context);
  part(result, 0, 1)
      .assign(before == 0 ? part(values, n - 1, 1) : apply("subtract"_op, {part(values, n - 1, 1), before}), context);
  part(result, n + 1, 1)
      .assign(after == 0 ? part(values, 0, 1) : apply("add"_op, {part(values, 0, 1), after}), context);
  return result;
}

}  // namespace

NdArray correlate(const NdArray& a_in, const NdArray& v_in, std::string_view mode) {
  const Range named("correlate");
  for (const NdArray* array : {&a_in, &v_in})
    if (array->ndim() == 0) throw InvalidArgument("object of too small depth for desired array");
  const NdArray a = as_vector(a_in), plain = as_vector(v_in);
  if (a.size() == 0) throw InvalidArgument("first array argument cannot be empty");
  if (plain.size() == 0) throw InvalidArgument("second array argument cannot be empty");
  const NdArray v = is_complex(plain.dtype()) ? apply("conjugate"_op, {plain}) : plain;
  if (a.size() >= v.size()) return sliding_products(a, v, mode);
  return sliding_products(v, a, mode)[{Slice{{}, {}, -1}}];
}

NdArray convolve(const NdArray& a_in, const NdArray& v_in, std::string_view mode) {
  const Range named("convolve");
  const NdArray a = as_vector(a_in), v = as_vector(v_in);
  const bool swapped = v.size() > a.size();
  const NdArray &longer = swapped ? v : a, &shorter = swapped ? a : v;
  if (longer.size() == 0) throw InvalidArgument("a cannot be empty");
  if (shorter.size() == 0) throw InvalidArgument("v cannot be empty");
  return sliding_products(longer, shorter[{Slice{{}, {}, -1}}], mode);
}

NdArray interp(const NdArray& x_in, const NdArray& xp_in, const NdArray& fp_in, std::optional<Scalar> left,
               std::optional<Scalar> right, std::optional<double> period) {
  const Range named("interp");
  const NdArray* all[] = {&x_in, &xp_in, &fp_in};
  const ExecContext context = context_for(common_device(all));
  const bool complex = is_complex(fp_in.dtype());
  // With a period the positions are cast, as in NumPy.
  for (const NdArray* array : {&x_in, &xp_in})
    if (is_complex(array->dtype()) && !period)
      throw TypeError(
          "Cannot cast array data from dtype('complex128') to dtype('float64') according to the rule 'safe'");
  NdArray x = x_in.astype(DType::float64, context), xp = xp_in.astype(DType::float64, context);
  NdArray fp = fp_in.astype(complex ? DType::complex128 : DType::float64, context);
  if (period) {
    if (*period == 0) throw InvalidArgument("period must be a non-zero value");
    const double length = std::abs(*period);
    if (xp.ndim() != 1 || fp.ndim() != 1) throw InvalidArgument("Data points must be 1-D sequences");
    if (xp.size() != fp.size()) throw InvalidArgument("fp and xp are not of the same length");
    if (xp.size() == 0) throw InvalidArgument("array of sample points is empty");
    left = right = std::nullopt;
    x = apply("remainder"_op, {x, length});
    xp = apply("remainder"_op, {xp, length});
    const NdArray order = argsort(xp);
    xp = wrapped(take(xp, order), length, length, context);
    fp = wrapped(take(fp, order), 0, 0, context);
  }
  if (xp.ndim() > 1 || fp.ndim() > 1) throw InvalidArgument("object too deep for desired array");
  xp = as_vector(xp), fp = as_vector(fp);
  if (xp.size() == 0) throw InvalidArgument("array of sample points is empty");
  if (xp.size() != fp.size()) throw InvalidArgument("fp and xp are not of the same length.");

  const int64_t n = xp.size();
  const NdArray next = searchsorted(xp, x, "right");
  NdArray out(x.shape(), fp.dtype(), context);
  if (out.size() == 0) return out;
  const NdArray below = left ? zero_dim(*left, fp.dtype(), context) : fp[{0}];
  const NdArray above = right ? zero_dim(*right, fp.dtype(), context) : fp[{-1}];
  std::optional<NdArray> at;
  const auto part_of = [&](const NdArray& f, const NdArray& f_below, const NdArray& f_above, OfNan of_nan,
                           const NdArray& to) {
    if (n == 1) of_nan = OfNan::value;
    if (n <= x.size()) {
      const Intervals lines = intervals_of(xp, f, f_below, f_above, complex, context);
      if (lines.finite()) return interpolate(x, xp, f, lines, next, of_nan, to, context);
    }
    if (!at) at = apply("subtract"_op, {next, 1});
    interpolate(x, xp, f, *at, next, f_below, f_above, complex, of_nan, to, context);
  };
  if (complex) {
    part_of(fp.real(), below.real(), above.real(), OfNan::itself, out.real());
    part_of(fp.imag(), below.imag(), above.imag(), OfNan::zero, out.imag());
  } else {
    part_of(fp, below, above, OfNan::itself, out);
  }
  return out;
}

NdArray apply_along_axis(const ArrayFunction& func1d, int64_t axis, const NdArray& arr,
                         const std::vector<NdArray>& args) {
  const Range named("apply_along_axis");
  const int place = normalize_axis(axis, arr.ndim());
  std::vector<int64_t> order;
  for (int64_t d = 0; d < arr.ndim(); ++d)
    if (d != place) order.push_back(d);
  order.push_back(place);
  const NdArray slices = arr.transpose(order);
  const Dims outer(slices.shape().begin(), slices.shape().end() - 1);
  if (element_count(outer) == 0) throw InvalidArgument("Cannot apply_along_axis when any iteration dimensions are 0");
  std::vector<IndexItem> position(static_cast<size_t>(outer.size()), IndexItem(int64_t{0}));
  std::vector<NdArray> call(1 + args.size());
  std::copy(args.begin(), args.end(), call.begin() + 1);
  std::optional<NdArray> results;
  int inner = 0;
  for (bool more = true; more;) {
    call[0] = slices[position];
    const NdArray result = func1d(call);
    if (!results) {
      Dims shape = outer;
      for (int64_t extent : result.shape()) shape.push_back(extent);
      inner = result.ndim();
      results.emplace(shape, result.dtype(), context_for(result.device()));
    }
    (*results)[position].assign(result.astype(results->dtype()));
    more = false;
    for (int d = outer.size() - 1; d >= 0 && !more; --d) {
      int64_t& at = std::get<int64_t>(position[static_cast<size_t>(d)]);
      more = ++at < outer[d];
      if (!more) at = 0;
    }
  }
  // The results' axes go where the slices' axis was.
  const int64_t kept = outer.size();
  order.clear();
  for (int64_t d = 0; d < place; ++d) order.push_back(d);
  for (int64_t d = 0; d < inner; ++d) order.push_back(kept + d);
  for (int64_t d = place; d < kept; ++d) order.push_back(d);
  return order.empty() ? *results : results->transpose(order);
}

NdArray apply_over_axes(const ArrayFunction& func, const NdArray& a, const Ints& axes) {
  const Range named("apply_over_axes");
  NdArray value = a;
  for (int64_t axis : axes.values()) {
    if (axis < 0) axis += a.ndim();
    const NdArray arguments[] = {value, [&] {
                                   const DeviceScope host(kCpu);
                                   return from_vector<int64_t>({axis}, Dims{});
                                 }()};
    NdArray result = func(arguments);
    if (result.ndim() != value.ndim()) {
      if (result.ndim() + 1 != value.ndim())
        throw InvalidArgument("function is not returning an array of the correct shape");
      Dims shape = result.shape();
      shape.insert(normalize_axis(axis, result.ndim() + 1), 1);
      result = result.reshape(shape);
    }
    value = result;
  }
  return value;
}

NdArray piecewise(const NdArray& x, const NdArray& condlist,
                  const std::vector<std::variant<ArrayFunction, Arg>>& funclist, const std::vector<NdArray>& args) {
  const Range named("piecewise");
  const ExecContext context = context_for(x.device());
  NdArray conditions = condlist.astype(DType::bool_);
  if (conditions.ndim() == 0 || (conditions.ndim() == 1 && x.ndim() != 0)) conditions = conditions[{newaxis, ellipsis}];
  const int64_t count = conditions.shape(0), functions = static_cast<int64_t>(funclist.size());
  if (functions != count && functions != count + 1)
    throw InvalidArgument(
        fmt::format("with {} condition(s), either {} or {} functions are expected", count, count, count + 1));
  NdArray result(x.shape(), x.dtype(), context);
  result.fill(0, context);
  for (int64_t i = 0; i < functions; ++i) {
    const NdArray mask = i < count ? conditions[{i}] : apply("logical_not"_op, {ops::any(conditions, 0)});
    const auto& function = funclist[static_cast<size_t>(i)];
    if (const Arg* value = std::get_if<Arg>(&function)) {
      set(result, {mask}, *value);
      continue;
    }
    std::vector<NdArray> call{get(x, {mask})};
    if (call[0].size() == 0) continue;
    call.insert(call.end(), args.begin(), args.end());
    set(result, {mask}, std::get<ArrayFunction>(function)(call));
  }
  return result;
}

}  // namespace quarry::local::ops
