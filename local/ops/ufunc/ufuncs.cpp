#include "quarry/local/ops/ufunc/ufuncs.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/compositions.h"

namespace quarry::local::ops {
namespace {

using V = Fused::Value;

bool is_inexact(DType dtype) { return is_float(dtype) || is_complex(dtype); }

bool all_of(const NdArray& truths) { return local::reduce("all"_reduction, truths).item().as_bool(); }

struct Limits {
  double largest, epsilon;
};
Limits limits(DType dtype) {
  switch (real_type(dtype)) {
    case DType::float16:
      return {65504, 0x1p-10};
    case DType::bfloat16:
      return {0x1.fep127, 0x1p-7};
    case DType::float32:
      return {std::numeric_limits<float>::max(), 0x1p-23};
    case DType::float64:
    case DType::bool_:
    case DType::int8:
    case DType::int16:
    case DType::int32:
    case DType::int64:
    case DType::uint8:
    case DType::uint16:
    case DType::uint32:
    case DType::uint64:
    case DType::complex64:
    case DType::complex128:
      break;
  }
  return {std::numeric_limits<double>::max(), 0x1p-52};
}

NdArray infinite(const NdArray& x, const std::optional<NdArray>& out, bool negative) {
  if (is_complex(x.dtype()))
    throw TypeError(
        fmt::format("This operation is not supported for {} values because it would be ambiguous.", name(x.dtype())));
  UfuncOptions options;
  options.out = out;
  // Integers have no infinities, but a sign.
  if (!is_float(x.dtype())) return apply("isinf"_op, {x}, options);
  const double value = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  return apply("equal"_op, {x, value}, options);
}

// Complex numbers with their parts along one more axis.
NdArray as_pairs(const NdArray& x) {
  const DType real = real_type(x.dtype());
  Dims shape = x.shape(), strides = x.strides();
  shape.push_back(2);
  strides.push_back(itemsize(real));
  return {x.buffer(), real, shape, strides, x.offset()};
}

NdArray constant_like(const NdArray& x, bool value) {
  const ExecContext context = context_for(x.device());
  NdArray result(x.shape(), DType::bool_, context);
  result.fill(value, context);
  return result;
}

}  // namespace

NdArray isclose(const Arg& a, const Arg& b, const Arg& rtol, const Arg& atol, bool equal_nan) {
  const Range named("isclose");
  Fused f;
  const V x = f.input(a);
  // An integer literal counts as a float, so that any fits.
  const bool whole = !b.array() && b.scalar().weak() && is_integer(b.scalar().dtype());
  V y = f.input(whole ? Arg(b.scalar().as_double()) : b);
  const PromotionOperand operands[] = {b.promotion(), {DType::float64, true}};
  if (b.array()) y = f.cast(y, result_type(operands));
  return f.run(compositions::isclose(f, x, y, f.input(rtol), f.input(atol), equal_nan));
}

bool allclose(const Arg& a, const Arg& b, const Arg& rtol, const Arg& atol, bool equal_nan) {
  const Range named("allclose");
  return all_of(isclose(a, b, rtol, atol, equal_nan));
}

bool array_equal(const NdArray& a1, const NdArray& a2, bool equal_nan) {
  const Range named("array_equal");
  if (!(a1.shape() == a2.shape())) return false;
  if (!equal_nan || !is_inexact(a1.dtype()) || !is_inexact(a2.dtype())) return all_of(apply("equal"_op, {a1, a2}));
  Fused f;
  const V x = f.input(a1), y = f.input(a2);
  return all_of(
      f.run(f("logical_or"_op, f("equal"_op, x, y), f("logical_and"_op, f("isnan"_op, x), f("isnan"_op, y)))));
}

bool array_equiv(const NdArray& a1, const NdArray& a2) {
  const Range named("array_equiv");
  try {
    broadcast_shapes(a1.shape(), a2.shape());
  } catch (const InvalidArgument&) {
    return false;
  }
  return all_of(apply("equal"_op, {a1, a2}));
}

NdArray nan_to_num(const NdArray& x, bool copy, const Arg& nan, const std::optional<Arg>& posinf,
                   const std::optional<Arg>& neginf) {
  const Range named("nan_to_num");
  if (!copy) x.check_writable();
  const ExecContext context = context_for(x.device());
  if (!is_inexact(x.dtype())) return copy ? x.copy(context) : x;
  const double largest = limits(x.dtype()).largest, infinity = std::numeric_limits<double>::infinity();
  NdArray result = copy ? NdArray(x.shape(), x.dtype(), context) : x;
  const auto replace = [&](const NdArray& from, const NdArray& to, bool pairs) {
    Fused f;
    const V v = f.input(from);
    const auto as_part = [&](const Arg& arg) {
      if (!arg.array() || !pairs) return f.cast(f.input(arg), from.dtype());
      Dims shape = arg.array()->shape();
      shape.push_back(1);
      return f.cast(f.input(arg.array()->reshape(shape)), from.dtype());
    };
    V value = v;
    if (posinf || neginf) {
      value = f("where"_op, f("equal"_op, v, infinity), as_part(posinf.value_or(Arg(largest))), value);
      value = f("where"_op, f("equal"_op, v, -infinity), as_part(neginf.value_or(Arg(-largest))), value);
    } else {
      value = f("clip"_op, v, as_part(Arg(-largest)), as_part(Arg(largest)));
    }
    value = f("where"_op, f("isnan"_op, v), as_part(nan), value);
    f.run_into(value, to);
  };
  if (!is_complex(x.dtype())) {
    replace(x, result, false);
  } else if (x.ndim() < kMaxDims) {
    replace(as_pairs(x), as_pairs(result), true);
  } else {
    replace(x.real(), result.real(), false);
    replace(x.imag(), result.imag(), false);
  }
  return result;
}

NdArray fix(const NdArray& x, const std::optional<NdArray>& out) {
  const Range named("fix");
  UfuncOptions options;
  options.out = out;
  return apply("trunc"_op, {x}, options);
}

NdArray i0(const NdArray& x) {
  const Range named("i0");
  if (is_complex(x.dtype())) throw TypeError("i0 not supported for complex values");
  Fused f;
  const V magnitude = f("absolute"_op, f.cast(f.input(x), DType::float64));
  const V result = compositions::bessel_i0(f, magnitude);
  return f.run(f.cast(result, is_float(x.dtype()) ? x.dtype() : DType::float64));
}

NdArray sinc(const NdArray& x) {
  const Range named("sinc");
  Fused f;
  return f.run(compositions::sinc(f, f.input(x)));
}

NdArray angle(const NdArray& z, bool deg) {
  const Range named("angle");
  Fused f;
  return f.run(compositions::angle(f, f.input(z), is_complex(z.dtype()), deg));
}

NdArray real_if_close(const NdArray& a, double tol) {
  const Range named("real_if_close");
  if (!is_complex(a.dtype())) return a;
  if (tol > 1) tol *= limits(a.dtype()).epsilon;
  Fused f;
  return all_of(f.run(f("less"_op, f("absolute"_op, f("imag"_op, f.input(a))), tol))) ? a.real() : a;
}

NdArray iscomplex(const NdArray& x) {
  const Range named("iscomplex");
  return is_complex(x.dtype()) ? apply("not_equal"_op, {x.imag(), 0}) : constant_like(x, false);
}
NdArray isreal(const NdArray& x) {
  const Range named("isreal");
  return is_complex(x.dtype()) ? apply("equal"_op, {x.imag(), 0}) : constant_like(x, true);
}
bool iscomplexobj(const NdArray& x) { return is_complex(x.dtype()); }
bool isrealobj(const NdArray& x) { return !is_complex(x.dtype()); }
NdArray isneginf(const NdArray& x, const std::optional<NdArray>& out) { return infinite(x, out, true); }
NdArray isposinf(const NdArray& x, const std::optional<NdArray>& out) { return infinite(x, out, false); }

NdArray round_to(const NdArray& a, int64_t decimals, const std::optional<NdArray>& out) {
  const Range named("round");
  const auto deliver_to = [&](const NdArray& result) {
    if (!out) return result;
    UfuncOptions options;
    options.out = out;
    options.casting = Casting::unsafe;
    return apply("positive"_op, {result}, options);
  };
  if (is_integer(a.dtype()) && decimals >= 0) return deliver_to(a.copy(context_for(a.device())));
  if (a.dtype() == DType::bool_ && decimals != 0) throw TypeError("round() of bool takes no decimals");
  if (is_complex(a.dtype())) {  // part by part
    const NdArray result(a.shape(), a.dtype(), context_for(a.device()));
    round_to(a.real(), decimals, result.real());
    round_to(a.imag(), decimals, result.imag());
    return deliver_to(result);
  }
  Fused f;
  const V x = f.input(a);
  if (decimals == 0) return deliver_to(f.run(f("rint"_op, x)));
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const V moved = decimals > 0 ? f("multiply"_op, x, scale) : f("divide"_op, x, scale);
  const V whole = f("rint"_op, moved);
  const V back = decimals > 0 ? f("divide"_op, whole, scale) : f("multiply"_op, whole, scale);
  return deliver_to(f.run(is_integer(a.dtype()) ? f.cast(back, a.dtype()) : back));
}

NdArray clip_between(const NdArray& a, const std::optional<Arg>& a_min, const std::optional<Arg>& a_max,
                     const std::optional<NdArray>& out, const std::optional<Arg>& min, const std::optional<Arg>& max,
                     const std::optional<NdArray>& where, Casting casting, std::optional<DType> dtype) {
  if ((a_min || a_max) && (min || max))
    throw InvalidArgument(
        "Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.");
  std::optional<Arg> low = a_min ? a_min : min, high = a_max ? a_max : max;
  const UfuncOptions options{dtype, out, where, casting};
  const auto idle = [&](const std::optional<Arg>& bound, bool below) {
    return bound && !bound->array() && compositions::bounds_nothing(a.dtype(), bound->scalar(), below);
  };
  if (idle(low, true)) low.reset();
  if (idle(high, false)) high.reset();
  if (!low && !high) return apply("positive"_op, {a}, options);
  if (!low) return apply("minimum"_op, {a, *high}, options);
  if (!high) return apply("maximum"_op, {a, *low}, options);
  return apply("clip"_op, {a, *low, *high}, options);
}

NdArray clip_method(const NdArray& a, const std::optional<Arg>& min, const std::optional<Arg>& max,
                    const std::optional<NdArray>& out, const std::optional<NdArray>& where, Casting casting,
                    std::optional<DType> dtype) {
  const Range named("clip");
  return clip_between(a, min, max, out, {}, {}, where, casting, dtype);
}

}  // namespace quarry::local::ops
