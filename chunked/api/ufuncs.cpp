#include "quarry/chunked/api/ufuncs.h"

#include <array>
#include <cmath>
#include <cstdlib>

#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {

namespace {

bool fits(const Scalar& value, DType dtype) {
  try {
    local::check_weak_fits(value, dtype);
  } catch (const local::InvalidArgument&) {
    return false;
  }
  return true;
}

}  // namespace

Array apply(local::Op op, std::span<const Operand> args, std::optional<DType> dtype) {
  std::vector<local::PromotionOperand> operands;
  for (const Operand& arg : args) {
    if (arg.is_array())
      operands.push_back({arg.array().dtype(), false});
    else
      operands.push_back({arg.scalar().dtype(), arg.scalar().weak()});
  }
  const local::OpTypes types = local::resolve(op, operands, dtype);
  std::vector<expr::NodePtr> nodes;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].is_array()) {
      nodes.push_back(args[i].array().node());
      continue;
    }
    const Scalar& scalar = args[i].scalar();
    DType bound = scalar.dtype();
    if (scalar.weak()) {
      bound = types.args[i];
      if (local::is_integer(scalar.dtype()) && local::is_integer(bound)) {
        // A comparison with a literal beyond the array's range has an answer; everything else is Python's
        // OverflowError.
        if (local::info(op).rule == local::OpRule::comparison && !fits(scalar, bound))
          bound = scalar.dtype();
        else
          local::check_weak_fits(scalar, bound);
        if (op == "power"_op && i == 1 && local::kind(bound) == 'i' && scalar.as_int64() < 0)
          throw local::InvalidArgument("Integers to negative integer powers are not allowed.");
      }
    }
    nodes.push_back(expr::constant(scalar, bound));
  }
  return Array(expr::elementwise(op, std::move(nodes), dtype));
}

#define QUARRY_PASS_1 x
#define QUARRY_PASS_2 x, y
#define QUARRY_PASS_3 x, y, z
#define QUARRY_DEFINED(name, text, arity)                                          \
  Array name(QUARRY_ARGS_##arity, std::optional<DType> dtype) {                    \
    return apply(local::named_op<text>(), std::array{QUARRY_PASS_##arity}, dtype); \
  }
#define QUARRY_FUNCTION(name, arity) QUARRY_DEFINED(name, #name, arity)
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, ...) QUARRY_PUBLIC(rule, QUARRY_FUNCTION(name, arity))
#define QUARRY_SPECIAL(name, aliases, arity, ...) \
  namespace special {                             \
  QUARRY_DEFINED(name, "special." #name, arity)   \
  }
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP

Array clip(const Array& x, const std::optional<Operand>& low, const std::optional<Operand>& high) {
  if (low && high) {
    const Operand args[] = {x, *low, *high};
    return apply("clip"_op, args);
  }
  if (low) return maximum(x, *low);
  if (high) return minimum(x, *high);
  return positive(x);
}

Array astype(const Array& x, DType dtype) { return Array(expr::cast(x.node(), dtype)); }

Array round(const Array& x, int64_t decimals) {
  if (local::is_integer(x.dtype()) && decimals >= 0) return x;
  if (x.dtype() == DType::bool_ && decimals != 0) throw local::TypeError("round() of bool takes no decimals");
  if (decimals == 0) return rint(x);
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const Array rounded = decimals > 0 ? rint(x * scale) / scale : rint(x / scale) * scale;
  return local::is_integer(x.dtype()) ? rounded.astype(x.dtype()) : rounded;
}

std::pair<Array, Array> divmod(const Operand& x, const Operand& y) { return {floor_divide(x, y), remainder(x, y)}; }

std::pair<Array, Array> modf(const Operand& x) { return {modf_fraction(x), modf_integer(x)}; }

std::pair<Array, Array> frexp(const Operand& x) { return {frexp_mantissa(x), frexp_exponent(x)}; }

}  // namespace quarry
