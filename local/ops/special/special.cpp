#include "quarry/local/ops/special/special.h"

#include <fmt/format.h>

#include <limits>

#include "quarry/local/base/error.h"
#include "quarry/local/device/range.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local::ops::special {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

DType floating(const char* function, DType promoted) {
  if (is_complex(promoted))
    throw TypeError(fmt::format("special.{}() is not supported for dtype {}", function, name(promoted)));
  return is_float(promoted) ? promoted : DType::float64;
}
DType computed_in(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

// The sum in two parts over exp(top): `largest`, the weights of the elements that are `top`, and the rest.
struct Parts {
  NdArray top, largest, rest;  // the kept axes, and the others as 1
};

Parts parts_of(const NdArray& a, const std::optional<Arg>& b, uint32_t mask, DType dtype) {
  std::vector<int64_t> axes;
  for (int d = 0; d < a.ndim(); ++d)
    if ((mask >> d & 1u) != 0) axes.push_back(d);
  const NdArray top = reduce("max"_reduction, a, axes, {.keepdims = true});
  Fused f;
  const auto x = f.cast(f.input(a), dtype), m = f.cast(f.input(top), dtype);
  const auto is_top = f("equal"_op, x, m);
  // At infinity the arithmetic of infinities decides.
  const auto one = f("where"_op, f("isfinite"_op, m), f.cast(1, dtype), f("exp"_op, m));
  const auto term = f("exp"_op, f("subtract"_op, x, m));
  const auto zero = f.cast(0, dtype);
  const auto weight = b ? f.cast(f.input(*b), dtype) : zero;
  const ValueId parts[] = {f.id(f("where"_op, is_top, b ? f("multiply"_op, weight, one) : one, zero)),
                           f.id(f("where"_op, is_top, zero, b ? f("multiply"_op, weight, term) : term))};
  for (const ValueId& part : parts) f.program().reduce("sum"_reduction, std::span(&part, 1), dtype);
  const std::vector<NdArray> sums = run_reductions(f.program(), f.inputs(), a.shape(), mask, f.context());
  return {top, sums[0], sums[1]};
}

// The result and its sign, of which either may be left out.
std::pair<NdArray, NdArray> finished(const Parts& parts, DType computed, DType dtype, bool want_sign) {
  const auto of = [&](bool sign) {
    Fused f;
    const auto m = f.cast(f.input(parts.top), computed), c = f.input(parts.largest), s = f.input(parts.rest);
    const auto quotient = f("divide"_op, s, c), total = f("add"_op, s, c);
    // Without a largest part, or with infinite ones, there is nothing to keep apart.
    const auto whole = f("logical_or"_op, f("equal"_op, c, 0), f("logical_not"_op, f("isfinite"_op, quotient)));
    const auto signs = f("where"_op, whole, f("sign"_op, total),
                         f("multiply"_op, f("sign"_op, f("add"_op, quotient, 1)), f("sign"_op, c)));
    if (sign) return f.run(f.cast(signs, dtype));
    const auto magnitude = f("where"_op, f("less"_op, quotient, -1), f("subtract"_op, -2, quotient), quotient);
    const auto log = f("where"_op, whole, f("log"_op, f("absolute"_op, total)),
                       f("add"_op, f("log1p"_op, magnitude), f("log"_op, f("absolute"_op, c))));
    const auto value = f("add"_op, log, m);
    if (want_sign) return f.run(f.cast(value, dtype));
    const auto nan = std::numeric_limits<double>::quiet_NaN();
    return f.run(f.cast(f("where"_op, f("less"_op, signs, 0), nan, value), dtype));
  };
  return {of(false), want_sign ? of(true) : NdArray()};
}

std::pair<NdArray, NdArray> compute(const NdArray& given, const Axes& axis, const std::optional<Arg>& b, bool keepdims,
                                    bool want_sign) {
  const Range named("logsumexp");
  std::vector<PromotionOperand> operands{{given.dtype(), false}};
  if (b) operands.push_back(b->promotion());
  const DType dtype = floating("logsumexp", result_type(operands)), computed = computed_in(dtype);
  NdArray a = given;
  if (b && b->array()) a = broadcast_to(a, broadcast_shapes(std::vector<Dims>{a.shape(), b->array()->shape()}));
  if (a.ndim() == 0) a = a.reshape({1});
  const uint32_t mask = axis.mask(a.ndim());
  const Dims shape = reduced_shape(a.shape(), mask, keepdims);
  if (a.size() == 0) {
    const auto filled = [&](double value) {
      NdArray result(shape, dtype, context_for(a.device()));
      result.fill(value);
      return result;
    };
    return {filled(-kInfinity), want_sign ? filled(-1) : NdArray()};
  }
  if (b) {
    Fused f;
    const auto x = f.cast(f.input(a), computed);
    a = f.run(f("where"_op, f("equal"_op, f.cast(f.input(*b), computed), 0), -kInfinity, x));
  }
  auto [value, sign] = finished(parts_of(a, b, mask, computed), computed, dtype, want_sign);
  return {value.reshape(shape), want_sign ? sign.reshape(shape) : sign};
}

}  // namespace

NdArray logsumexp(const NdArray& a, const Axes& axis, const std::optional<Arg>& b, bool keepdims) {
  return compute(a, axis, b, keepdims, /*want_sign=*/false).first;
}

std::pair<NdArray, NdArray> signed_logsumexp(const NdArray& a, const Axes& axis, const std::optional<Arg>& b,
                                             bool keepdims) {
  return compute(a, axis, b, keepdims, /*want_sign=*/true);
}

std::variant<NdArray, std::pair<NdArray, NdArray>> logsumexp_of(const NdArray& a, const Axes& axis,
                                                                const std::optional<Arg>& b, bool keepdims,
                                                                bool return_sign) {
  if (return_sign) return signed_logsumexp(a, axis, b, keepdims);
  return logsumexp(a, axis, b, keepdims);
}

NdArray softmax(const NdArray& x, const Axes& axis) {
  const Range named("softmax");
  const DType dtype = floating("softmax", x.dtype()), computed = computed_in(dtype);
  const uint32_t mask = axis.mask(x.ndim());
  const NdArray top = reduce("max"_reduction, x, axis, {.keepdims = true});
  Fused f;
  const auto term = f("exp"_op, f("subtract"_op, f.cast(f.input(x), computed), f.cast(f.input(top), computed)));
  const ValueId terms[] = {f.id(term)};
  f.program().output(terms[0]);
  f.program().reduce("sum"_reduction, terms, computed);
  const NdArray result(x.shape(), computed, f.context());
  const NdArray* outputs[] = {&result};
  const std::vector<NdArray> sums = run_reductions(f.program(), f.inputs(), x.shape(), mask, f.context(), outputs);
  UfuncOptions in_place;
  in_place.out = result;
  apply("divide"_op, {result, sums[0]}, in_place);
  return computed == dtype ? result : result.astype(dtype);
}

NdArray log_softmax(const NdArray& x, const Axes& axis) {
  const Range named("log_softmax");
  const DType dtype = floating("log_softmax", x.dtype()), computed = computed_in(dtype);
  const uint32_t mask = axis.mask(x.ndim());
  const NdArray top = reduce("max"_reduction, x, axis, {.keepdims = true});
  // From the largest element, where there is one.
  const auto shifted = [&](Fused& f) {
    const auto m = f.cast(f.input(top), computed);
    return f("subtract"_op, f.cast(f.input(x), computed), f("where"_op, f("isfinite"_op, m), m, 0));
  };
  Fused f;
  const ValueId term[] = {f.id(f("exp"_op, shifted(f)))};
  f.program().reduce("sum"_reduction, term, computed);
  const NdArray sum = run_reductions(f.program(), f.inputs(), x.shape(), mask, f.context())[0];
  Fused g;
  const auto difference = shifted(g);
  return g.run(g.cast(g("subtract"_op, difference, g("log"_op, g.input(sum))), dtype));
}

}  // namespace quarry::local::ops::special
