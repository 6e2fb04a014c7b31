#include "quarry/local/ops/scans/scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/compositions.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"

namespace quarry::local::ops {
namespace {

// Positions from `start` to before `stop` along an axis; negative ones count from the end.
NdArray slice(const NdArray& x, int axis, std::optional<int64_t> start, std::optional<int64_t> stop) {
  std::vector<IndexItem> index(static_cast<size_t>(axis), IndexItem(full_slice));
  index.emplace_back(Slice{start, stop, std::nullopt});
  return x[index];
}

NdArray accumulate(Op op, const NdArray& a, std::optional<int64_t> axis, std::optional<DType> dtype,
                   const std::optional<NdArray>& out) {
  const bool flat = !axis || a.ndim() == 0;
  if (flat && axis) normalize_axis(*axis, 1);
  return ufunc_accumulate(op, flat ? a.reshape({-1}) : a, flat ? 0 : *axis, dtype, out);
}

NdArray replace_nan(const NdArray& a, int with) {
  if (!is_float(a.dtype()) && !is_complex(a.dtype())) return a;
  Fused f;
  const auto x = f.input(a);
  return f.run(f("where"_op, f("isnan"_op, x), with, x));
}

NdArray cumulative(Op op, const NdArray& x, std::optional<int64_t> axis, std::optional<DType> dtype,
                   const std::optional<NdArray>& out, bool include_initial) {
  if (x.ndim() == 0) return cumulative(op, x.reshape({1}), axis, dtype, out, include_initial);
  if (!axis && x.ndim() != 1)
    throw InvalidArgument("For arrays which have more than one dimension ``axis`` argument is required.");
  const int along = normalize_axis(axis.value_or(0), x.ndim());
  if (!include_initial) return ufunc_accumulate(op, x, along, dtype, out);
  const DType loop = fold_dtype(op, x.dtype(), dtype, out);
  Dims shape = x.shape();
  ++shape[along];
  if (out && !(out->shape() == shape))
    throw InvalidArgument(
        fmt::format("the output has shape {}, the result {}", local::to_string(out->shape()), local::to_string(shape)));
  const ExecContext context = context_for(x.device());
  const bool direct = out && out->dtype() == loop && !may_overlap(x, *out);
  const NdArray result = direct ? *out : NdArray(shape, loop, context);
  slice(result, along, 0, 1).fill(*identity_of(op, loop), context);
  scan_axis(op, x, along, slice(result, along, 1, {}));
  return out && !direct ? deliver(info(op).name, result, shape, 0, false, out) : result;
}

// Arrays one after the other along an axis, in the dtype that all promote to.
NdArray join(const std::vector<NdArray>& parts, int axis, DType dtype) {
  Dims shape = parts[0].shape();
  shape[axis] = 0;
  for (const NdArray& part : parts) {
    Dims other = part.shape();
    if (other.size() != shape.size())
      throw InvalidArgument("all the input array dimensions except for the concatenation axis must match exactly");
    shape[axis] += other[axis];
    other[axis] = shape[axis];
    if (!(other == shape))
      throw InvalidArgument("all the input array dimensions except for the concatenation axis must match exactly");
  }
  const ExecContext context = context_for(parts[0].device());
  NdArray result(shape, dtype, context);
  int64_t begin = 0;
  for (const NdArray& part : parts) {
    slice(result, axis, begin, begin + part.shape()[axis]).assign(part, context);
    begin += part.shape()[axis];
  }
  return result;
}

// One element of every result, `length` of them along the axis.
NdArray as_edge(const NdArray& edge, const NdArray& a, int axis) {
  if (edge.ndim() > 0) return edge;
  Dims shape = a.shape();
  shape[axis] = 1;
  return edge.broadcast_to(shape);
}

// A 1-d array along `axis` of `ndim`.
NdArray along(const NdArray& x, int axis, int ndim) {
  Dims shape = Dims::filled(ndim, 1);
  shape[axis] = x.shape()[0];
  return x.reshape(shape);
}

}  // namespace

NdArray cumsum(const NdArray& a, std::optional<int64_t> axis, std::optional<DType> dtype,
               const std::optional<NdArray>& out) {
  const Range named("cumsum");
  return accumulate("add"_op, a, axis, dtype, out);
}
NdArray cumprod(const NdArray& a, std::optional<int64_t> axis, std::optional<DType> dtype,
                const std::optional<NdArray>& out) {
  const Range named("cumprod");
  return accumulate("multiply"_op, a, axis, dtype, out);
}
NdArray nancumsum(const NdArray& a, std::optional<int64_t> axis, std::optional<DType> dtype,
                  const std::optional<NdArray>& out) {
  const Range named("nancumsum");
  return accumulate("add"_op, replace_nan(a, 0), axis, dtype, out);
}
NdArray nancumprod(const NdArray& a, std::optional<int64_t> axis, std::optional<DType> dtype,
                   const std::optional<NdArray>& out) {
  const Range named("nancumprod");
  return accumulate("multiply"_op, replace_nan(a, 1), axis, dtype, out);
}
NdArray cumulative_sum(const NdArray& x, std::optional<int64_t> axis, std::optional<DType> dtype,
                       const std::optional<NdArray>& out, bool include_initial) {
  const Range named("cumulative_sum");
  return cumulative("add"_op, x, axis, dtype, out, include_initial);
}
NdArray cumulative_prod(const NdArray& x, std::optional<int64_t> axis, std::optional<DType> dtype,
                        const std::optional<NdArray>& out, bool include_initial) {
  const Range named("cumulative_prod");
  return cumulative("multiply"_op, x, axis, dtype, out, include_initial);
}

NdArray diff(const NdArray& a, int64_t n, int64_t axis, const std::optional<NdArray>& prepend,
             const std::optional<NdArray>& append) {
  const Range named("diff");
  if (n == 0) return a;
  if (n < 0) throw InvalidArgument(fmt::format("order must be non-negative but got {}", n));
  if (a.ndim() == 0) throw InvalidArgument("diff requires input that is at least one dimensional");
  const int d = normalize_axis(axis, a.ndim());
  NdArray x = a;
  if (prepend || append) {
    std::vector<NdArray> parts;
    if (prepend) parts.push_back(as_edge(*prepend, a, d));
    parts.push_back(a);
    if (append) parts.push_back(as_edge(*append, a, d));
    DType dtype = a.dtype();
    for (const NdArray& part : parts) dtype = promote_types(dtype, part.dtype());
    x = join(parts, d, dtype);
  }
  const Op op = x.dtype() == DType::bool_ ? "not_equal"_op : "subtract"_op;
  for (int64_t i = 0; i < n; ++i) x = apply(op, {slice(x, d, 1, {}), slice(x, d, {}, -1)});
  return x;
}

NdArray ediff1d(const NdArray& ary, const std::optional<NdArray>& to_end, const std::optional<NdArray>& to_begin) {
  const Range named("ediff1d");
  const NdArray flat = ary.reshape({-1});
  const auto edge = [&](const std::optional<NdArray>& given, const char* name) {
    if (!given) return NdArray({0}, ary.dtype(), context_for(ary.device()));
    if (!can_cast(given->dtype(), ary.dtype(), Casting::same_kind))
      throw TypeError(
          fmt::format("dtype of `{}` must be compatible with input `ary` under the `same_kind` rule.", name));
    return given->reshape({-1});
  };
  const NdArray begin = edge(to_begin, "to_begin"), end = edge(to_end, "to_end");
  const int64_t count = std::max<int64_t>(flat.size() - 1, 0);
  const ExecContext context = context_for(ary.device());
  NdArray result({begin.size() + count + end.size()}, ary.dtype(), context);
  slice(result, 0, 0, begin.size()).assign(begin, context);
  slice(result, 0, begin.size() + count, begin.size() + count + end.size()).assign(end, context);
  // Computed for no elements too, so that bool is refused.
  const NdArray first = count > 0 ? slice(flat, 0, 1, {}) : slice(flat, 0, 0, 0);
  const NdArray second = count > 0 ? slice(flat, 0, {}, -1) : first;
  apply("subtract"_op, {first, second}, {.out = slice(result, 0, begin.size(), begin.size() + count)});
  return result;
}

NdArray unwrap(const NdArray& p, std::optional<double> discont, int64_t axis, const Scalar& period) {
  const Range named("unwrap");
  if (p.ndim() == 0) throw InvalidArgument("diff requires input that is at least one dimensional");
  const int d = normalize_axis(axis, p.ndim());
  const PromotionOperand operands[] = {{p.dtype(), false}, {period.dtype(), period.weak()}};
  const NdArray jump = diff(p, 1, d);
  const PromotionOperand types[] = {{jump.dtype(), false}, operands[1]};
  const DType dtype = result_type(types);
  Fused f;
  const NdArray correction =
      f.run(compositions::unwrap_correction<Fused::Value>(f, f.input(jump), discont, period, is_integer(dtype)));
  NdArray result = p.astype(dtype);
  apply("add"_op, {slice(p, d, 1, {}), cumsum(correction, d)},
        {.out = slice(result, d, 1, {}), .casting = Casting::unsafe});
  return result;
}

NdArray trapezoid(const NdArray& y, const std::optional<NdArray>& x, const Arg& dx, int64_t axis) {
  const Range named("trapezoid");
  const int d = normalize_axis(axis, y.ndim());
  Fused f;
  Fused::Value step = x ? Fused::Value(0) : f.input(dx);
  if (x) {
    const NdArray steps = x->ndim() == 1 ? along(diff(*x), d, y.ndim()) : diff(*x, 1, axis);
    step = f.input(steps);
  }
  const auto right = f.input(slice(y, d, 1, {})), left = f.input(slice(y, d, {}, -1));
  const auto area = f("divide"_op, f("multiply"_op, step, f("add"_op, right, left)), 2.0);
  const ValueId summed[] = {f.id(area)};
  const Dims space = f.shape();
  // The sum is taken along the axis counted from the end, as the product may have more axes than y.
  const int last = space.size() - (y.ndim() - d);
  const DType dtype = f.dtype(area);
  f.program().reduce("sum"_reduction, summed, dtype);
  const auto inputs = f.inputs();
  const NdArray total = run_reductions(f.program(), inputs, space, 1u << last, f.context())[0];
  return total.reshape(reduced_shape(space, 1u << last, false)).astype(dtype);
}

namespace {

// d/dx along one axis; `spacing` is a step or the differences of positions.
NdArray gradient_along(const NdArray& f, const Spacing& spacing, int axis, int64_t edge_order) {
  const NdArray* positions = std::get_if<NdArray>(&spacing);
  std::optional<NdArray> steps;
  Scalar step;
  if (positions) {
    if (positions->ndim() != 1) throw InvalidArgument("distances must be either scalars or 1d");
    if (positions->shape()[0] != f.shape()[axis])
      throw InvalidArgument("when 1d, distances must match the length of the corresponding dimension");
    const NdArray real = is_integer(positions->dtype()) ? positions->astype(DType::float64) : *positions;
    const NdArray gaps = diff(real);
    // An even grid takes the formula of a step.
    const NdArray even = apply("equal"_op, {gaps, slice(gaps, 0, 0, 1)});
    if (item_or(local::reduce("all"_reduction, even), false).as_bool())
      step = slice(gaps, 0, 0, 1).item();
    else
      steps = gaps;
  } else {
    step = std::get<Scalar>(spacing);
  }
  const int64_t n = f.shape()[axis];
  const ExecContext context = context_for(f.device());
  const auto at = [&](int64_t i) { return slice(f, axis, i, i + 1); };
  const auto gap = [&](int64_t begin, int64_t end) { return along(slice(*steps, 0, begin, end), axis, f.ndim()); };

  // A number of the step's kind and dtype.
  const auto number = [&](std::complex<double> value) {
    const Scalar scalar = is_complex(step.dtype()) ? Scalar(value) : Scalar(value.real());
    return Fused::Value(step.weak() || is_integer(step.dtype()) ? scalar : Scalar::strong(scalar, step.dtype()));
  };
  const auto times = [&](double factor) { return number(factor * step.as_complex()); };
  const auto over = [&](double factor) { return number(factor / step.as_complex()); };

  const auto inside = [&](Fused& e) {
    const auto left = e.input(slice(f, axis, {}, -2)), right = e.input(slice(f, axis, 2, {}));
    if (!steps) return e("divide"_op, e("subtract"_op, right, left), times(2.0));
    const auto middle = e.input(slice(f, axis, 1, -1));
    const auto h1 = e.input(gap(0, n - 2)), h2 = e.input(gap(1, n - 1)), sum = e("add"_op, h1, h2);
    const auto a = e("divide"_op, e("negative"_op, h2), e("multiply"_op, h1, sum));
    const auto b = e("divide"_op, e("subtract"_op, h2, h1), e("multiply"_op, h1, h2));
    const auto c = e("divide"_op, h1, e("multiply"_op, h2, sum));
    return e("add"_op, e("add"_op, e("multiply"_op, a, left), e("multiply"_op, b, middle)), e("multiply"_op, c, right));
  };
  NdArray result(f.shape(), f.dtype() == DType::bool_ ? DType::float64 : f.dtype(), context);
  if (n > 2) {
    Fused e;
    e.run_into(inside(e), slice(result, axis, 1, -1));
  }
  const auto step_of = [&](Fused& e, int64_t i) { return steps ? e.input(gap(i, i + 1)) : Fused::Value(step); };
  if (edge_order == 1) {
    for (const auto& [to, from] : {std::pair<int64_t, int64_t>{0, 0}, {n - 1, n - 2}}) {
      Fused e;
      const auto rise = e("subtract"_op, e.input(at(from + 1)), e.input(at(from)));
      e.run_into(e("divide"_op, rise, step_of(e, from)), slice(result, axis, to, to + 1));
    }
    return result;
  }
  for (const bool first : {true, false}) {
    Fused e;
    const int64_t base = first ? 0 : n - 3;
    const auto f0 = e.input(at(base)), f1 = e.input(at(base + 1)), f2 = e.input(at(base + 2));
    if (!steps) {
      constexpr double k[2][3] = {{-1.5, 2.0, -0.5}, {0.5, -2.0, 1.5}};
      const double* c = k[first ? 0 : 1];
      const auto sum = e("add"_op, e("add"_op, e("multiply"_op, over(c[0]), f0), e("multiply"_op, over(c[1]), f1)),
                         e("multiply"_op, over(c[2]), f2));
      e.run_into(sum, slice(result, axis, first ? 0 : n - 1, first ? 1 : n));
      continue;
    }
    const auto h1 = e.input(gap(first ? 0 : n - 3, first ? 1 : n - 2));
    const auto h2 = e.input(gap(first ? 1 : n - 2, first ? 2 : n - 1));
    const auto sum = e("add"_op, h1, h2), product = e("multiply"_op, h1, h2);
    const auto two = [&](const Fused::Value& x, const Fused::Value& y) {  // 2x + y
      return e("add"_op, e("multiply"_op, 2.0, x), y);
    };
    const auto a = first ? e("divide"_op, e("negative"_op, two(h1, h2)), e("multiply"_op, h1, sum))
                         : e("divide"_op, h2, e("multiply"_op, h1, sum));
    const auto b = first ? e("divide"_op, sum, product) : e("divide"_op, e("negative"_op, sum), product);
    const auto c = first ? e("divide"_op, e("negative"_op, h1), e("multiply"_op, h2, sum))
                         : e("divide"_op, two(h2, h1), e("multiply"_op, h2, sum));
    const auto total =
        e("add"_op, e("add"_op, e("multiply"_op, a, f0), e("multiply"_op, b, f1)), e("multiply"_op, c, f2));
    e.run_into(total, slice(result, axis, first ? 0 : n - 1, first ? 1 : n));
  }
  return result;
}

}  // namespace

std::variant<NdArray, std::vector<NdArray>> gradient(const NdArray& f, const std::vector<Spacing>& varargs,
                                                     const Axes& axis, int64_t edge_order) {
  const Range named("gradient");
  axis.mask(f.ndim());
  std::vector<int64_t> list;
  if (axis.none()) {
    for (int d = 0; d < f.ndim(); ++d) list.push_back(d);
  } else {
    for (const int64_t a : axis.list()) list.push_back(normalize_axis(a, f.ndim()));
  }
  std::vector<Spacing> spacings = varargs;
  if (spacings.empty()) spacings.assign(list.size(), Spacing(Scalar(1.0)));
  const auto is_step = [](const Spacing& s) {
    return std::holds_alternative<Scalar>(s) || std::get<NdArray>(s).ndim() == 0;
  };
  if (spacings.size() == 1 && list.size() != 1 && is_step(spacings[0])) spacings.assign(list.size(), spacings[0]);
  if (spacings.size() != list.size()) throw TypeError("invalid number of arguments");
  for (Spacing& s : spacings)
    if (const NdArray* array = std::get_if<NdArray>(&s); array && array->ndim() == 0) s = array->item();
  if (edge_order > 2) throw InvalidArgument("'edge_order' greater than 2 not supported");
  // Integers would wrap.
  const NdArray values = is_integer(f.dtype()) ? f.astype(DType::float64) : f;
  std::vector<NdArray> results;
  for (size_t i = 0; i < list.size(); ++i) {
    if (f.shape()[static_cast<int>(list[i])] < edge_order + 1)
      throw InvalidArgument(
          "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
          "required.");
    results.push_back(gradient_along(values, spacings[i], static_cast<int>(list[i]), edge_order));
  }
  if (results.size() == 1) return results[0];
  return results;
}

}  // namespace quarry::local::ops
