#include "quarry/local/ops/numerical/numerical.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/numerical/sliding.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/rows.h"
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
  const auto [before, results] = sliding_extent(mode, elements, taps);
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

using OfNan = Interpolation::OfNan;

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
  const NdArray v = conjugated(plain);
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
  const auto as = [&](const NdArray& a, DType dtype) { return a.dtype() == dtype ? a : a.astype(dtype, context); };
  NdArray x = as(x_in, DType::float64), xp = as(xp_in, DType::float64);
  NdArray fp = as(fp_in, complex ? DType::complex128 : DType::float64);
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

  NdArray out(x.shape(), fp.dtype(), context);
  if (out.size() == 0) return out;
  // Sources that stay in memory: they are read by address.
  const NdArray places = packed(x, context), points = packed(xp, context);
  const NdArray below = left ? zero_dim(*left, fp.dtype(), context) : fp[{0}];
  const NdArray above = right ? zero_dim(*right, fp.dtype(), context) : fp[{-1}];
  for (const NdArray* array : std::array{&places, &points, &std::as_const(fp), &below, &above})
    array->begin_read(context.stream);
  const auto part_of = [&](const NdArray& values, const NdArray& before, const NdArray& behind, OfNan of_nan,
                           const NdArray& to) {
    const auto steps = [](const NdArray& array, int64_t step) { return step / array.itemsize(); };
    Interpolation task;
    task.places = places.data<const double>();
    task.count = places.size();
    task.points = points.data<const double>();
    task.length = points.size();
    task.values = values.data<const double>();
    task.step = steps(values, values.strides()[0]);
    task.before = before.data<const double>();
    task.behind = behind.data<const double>();
    task.by_reciprocal = complex;
    task.of_nan = points.size() == 1 ? OfNan::value : of_nan;
    task.out = to.data<double>();
    task.out_step = complex ? 2 : 1;
    engine(context.device).sorting().interpolate(task, context);
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
