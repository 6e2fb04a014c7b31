#include "quarry/apps/binding/arrays.h"
#include "quarry/apps/binding/handlers.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/manipulation.h"

namespace quarry::apps::expression {

using local::TypeError;

namespace {

Dims shape_argument(const Arguments& args) { return to_shape(args["shape"], "shape"); }
DType dtype_argument(const Arguments& args) { return to_dtype(args["dtype"], "dtype"); }

Scalar number_argument(const Value& value, const std::string& what) {
  const std::optional<Number> number = value.number();
  if (!number) throw TypeError(what + " must be a number, not " + type_name(value));
  return to_scalar(*number);
}

Array filled(const Dims& shape, const Value& value, std::optional<DType> dtype) {
  if (const std::optional<Number> number = value.number()) return full(shape, to_scalar(*number, dtype), dtype);
  return broadcast_to(to_array(value, dtype), shape);
}

}  // namespace

Value make_array(const Arguments& args, Session&) {
  return to_array(args["object"], to_optional_dtype(args["dtype"], "dtype"));
}

Value make_empty(const Arguments& args, Session&) { return empty(shape_argument(args), dtype_argument(args)); }
Value make_zeros(const Arguments& args, Session&) { return zeros(shape_argument(args), dtype_argument(args)); }
Value make_ones(const Arguments& args, Session&) { return ones(shape_argument(args), dtype_argument(args)); }

Value make_full(const Arguments& args, Session&) {
  return filled(shape_argument(args), args["fill_value"], to_optional_dtype(args["dtype"], "dtype"));
}

Value make_zeros_like(const Arguments& args, Session&) {
  const Array a = to_array(args["a"]);
  return zeros(a.shape(), to_optional_dtype(args["dtype"], "dtype").value_or(a.dtype()));
}

Value make_ones_like(const Arguments& args, Session&) {
  const Array a = to_array(args["a"]);
  return ones(a.shape(), to_optional_dtype(args["dtype"], "dtype").value_or(a.dtype()));
}

Value make_full_like(const Arguments& args, Session&) {
  const Array a = to_array(args["a"]);
  return filled(a.shape(), args["fill_value"], to_optional_dtype(args["dtype"], "dtype").value_or(a.dtype()));
}

// arange(stop), arange(start, stop) or arange(start, stop, step).
Value make_arange(const Arguments& args, Session&) {
  const bool one_bound = args["stop"].is_none();
  if (one_bound && args["start"].is_none()) throw TypeError("arange() needs at least stop");
  const Value zero(Int{0}), one(Int{1});
  const Value& start = one_bound || args["start"].is_none() ? zero : args["start"];
  const Value& stop = one_bound ? args["start"] : args["stop"];
  const Value& step = args["step"].is_none() ? one : args["step"];
  return arange(number_argument(start, "start"), number_argument(stop, "stop"), number_argument(step, "step"),
                to_optional_dtype(args["dtype"], "dtype"));
}

Value make_linspace(const Arguments& args, Session&) {
  return linspace(number_argument(args["start"], "start"), number_argument(args["stop"], "stop"),
                  to_int64(args["num"], "num"), to_bool(args["endpoint"], "endpoint"),
                  to_optional_dtype(args["dtype"], "dtype"));
}

Value make_eye(const Arguments& args, Session&) {
  const std::optional<int64_t> columns =
      args["M"].is_none() ? std::nullopt : std::optional<int64_t>(to_int64(args["M"], "M"));
  return eye(to_int64(args["N"], "N"), columns, to_int64(args["k"], "k"), dtype_argument(args));
}

Value make_identity(const Arguments& args, Session&) {
  return eye(to_int64(args["n"], "n"), std::nullopt, 0, dtype_argument(args));
}

}  // namespace quarry::apps::expression
