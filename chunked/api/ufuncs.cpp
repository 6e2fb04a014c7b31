#include "quarry/chunked/api/ufuncs.h"

#include <array>
#include <cmath>
#include <cstdlib>

#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/compositions.h"
#include "quarry/local/ops/ufunc/results.h"

namespace quarry {

Array detail::apply(local::Op op, std::span<const Operand> args, std::optional<DType> dtype, local::Casting casting) {
  std::vector<local::PromotionOperand> operands;
  for (const Operand& arg : args) {
    if (arg.is_array())
      operands.push_back({arg.array().dtype(), false});
    else
      operands.push_back({arg.scalar().dtype(), arg.scalar().weak()});
  }
  const local::OpTypes types = local::resolve(op, operands, dtype, casting);
  const bool converts = dtype || casting != local::Casting::same_kind;
  std::vector<expr::NodePtr> nodes;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].is_array()) {
      nodes.push_back(converts ? expr::cast(args[i].array().node(), types.args[i]) : args[i].array().node());
      continue;
    }
    const Scalar& scalar = args[i].scalar();
    const DType bound = local::literal_dtype(op, scalar, types.args[i]);
    if (op == "power"_op && i == 1 && local::kind(bound) == 'i' && scalar.as_int64() < 0)
      throw local::InvalidArgument("Integers to negative integer powers are not allowed.");
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

Array clip(const Array& x, const std::optional<Operand>& low, const std::optional<Operand>& high,
           std::optional<DType> dtype, local::Casting casting) {
  const auto bounds = [&](const std::optional<Operand>& bound, bool below) {
    return bound && (bound->is_array() || !local::compositions::bounds_nothing(x.dtype(), bound->scalar(), below));
  };
  const bool has_low = bounds(low, true), has_high = bounds(high, false);
  if (has_low && has_high) return apply("clip"_op, std::array<Operand, 3>{x, *low, *high}, dtype, casting);
  if (has_low) return apply("maximum"_op, std::array<Operand, 2>{x, *low}, dtype, casting);
  if (has_high) return apply("minimum"_op, std::array<Operand, 2>{x, *high}, dtype, casting);
  return apply("positive"_op, std::array<Operand, 1>{x}, dtype, casting);
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

std::pair<Array, Array> modf(const Operand& x) {
  const Operand args[] = {x};
  return {apply("modf_fraction"_op, args), apply("modf_integer"_op, args)};
}

std::pair<Array, Array> frexp(const Operand& x) {
  const Operand args[] = {x};
  return {apply("frexp_mantissa"_op, args), apply("frexp_exponent"_op, args)};
}

}  // namespace quarry
