#include <limits>

#include "quarry/apps/binding/handlers.h"

namespace quarry::apps::expression {

using local::InvalidArgument;

namespace {

// size=None gives one number, an array without axes.
Dims size_argument(const Arguments& args) { return args["size"].is_none() ? Dims{} : to_shape(args["size"], "size"); }
DType dtype_argument(const Arguments& args) { return to_dtype(args["dtype"], "dtype"); }

}  // namespace

Value random_uniform(const Arguments& args, Session& session) {
  return session.random.uniform(to_double(args["low"], "low"), to_double(args["high"], "high"),
                                local::Ints(size_argument(args)), dtype_argument(args));
}

Value random_random(const Arguments& args, Session& session) {
  return session.random.random(local::Ints(size_argument(args)), dtype_argument(args));
}

Value random_normal(const Arguments& args, Session& session) {
  return session.random.normal(to_double(args["loc"], "loc"), to_double(args["scale"], "scale"),
                               local::Ints(size_argument(args)), dtype_argument(args));
}

Value random_standard_normal(const Arguments& args, Session& session) {
  return session.random.standard_normal(local::Ints(size_argument(args)), dtype_argument(args));
}

// integers(high) or integers(low, high).
Value random_integers(const Arguments& args, Session& session) {
  const bool one_bound = args["high"].is_none();
  const int64_t low = one_bound ? 0 : to_int64(args["low"], "low");
  int64_t high = to_int64(one_bound ? args["low"] : args["high"], "high");
  if (to_bool(args["endpoint"], "endpoint")) {
    if (high == std::numeric_limits<int64_t>::max()) throw InvalidArgument("high is out of range with endpoint=True");
    ++high;
  }
  return session.random.integers(low, Operand(high), local::Ints(size_argument(args)), dtype_argument(args));
}

}  // namespace quarry::apps::expression
