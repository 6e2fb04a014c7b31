// Covariance: C = (X - mean) W (X - mean)^H / f, X of p variables in rows and n observations in columns. About p^2 n
// flops without weights and for real numbers (one triangle), else twice that; one copy of X.
#include <fmt/format.h>

#include <cmath>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/program/products.h"

namespace quarry::local::ops {
namespace {

void check_dimensions(const NdArray& a, const char* name) {
  if (a.ndim() > 2) throw InvalidArgument(fmt::format("{} has more than 2 dimensions", name));
}

NdArray as_rows(const NdArray& a) {
  if (a.ndim() == 2) return a;
  return a.reshape({1, a.size()});
}

// Weights of observations as float64.
NdArray observation_weights(const NdArray& weights, int64_t observations, const char* name) {
  NdArray w = cast_to(weights, DType::float64);
  if (w.ndim() > 1) throw InvalidArgument(fmt::format("cannot handle multidimensional {}", name));
  if (w.ndim() == 0) throw IndexError(fmt::format("{} have no axis of observations", name));
  if (w.size() != observations) {
    throw InvalidArgument(
        fmt::format("incompatible numbers of samples and {}: {} and {}", name, observations, w.size()));
  }
  if (holds_any(less(w, 0))) throw InvalidArgument(fmt::format("{} cannot be negative", name));
  return w;
}

// X X^T of a matrix in C order, in half the work of a product.
NdArray gram(const NdArray& x) {
  const ExecContext context = context_for(x.device());
  const int64_t variables = x.shape()[0], observations = x.shape()[1];
  NdArray result({variables, variables}, x.dtype(), context);
  x.begin_read(context.stream);
  engine(context.device)
      .products()
      .syrk({x.dtype(),
             1.0,
             {x.raw(), observations, variables, 1, observations},
             0.0,
             {result.raw(), variables, variables, variables, 1}},
            context);
  return result;
}

}  // namespace

NdArray cov(const NdArray& m, const std::optional<NdArray>& y, bool rowvar, bool bias, std::optional<double> ddof,
            const std::optional<NdArray>& fweights, const std::optional<NdArray>& aweights,
            std::optional<DType> dtype) {
  const Range named("cov");
  if (ddof && *ddof != std::trunc(*ddof)) throw InvalidArgument(fmt::format("ddof must be integer (got {})", *ddof));
  check_dimensions(m, "m");
  if (y) check_dimensions(*y, "y");
  DType type = promote_types(m.dtype(), DType::float64);
  if (y) type = promote_types(type, y->dtype());
  if (dtype) type = *dtype;
  const auto oriented = [&](const NdArray& a, bool transposed) {
    const NdArray rows = as_rows(a);
    return cast_to(transposed ? rows.T() : rows, type);
  };
  NdArray x = oriented(m, !rowvar && m.ndim() != 1);
  const ExecContext context = context_for(m.device());
  if (x.shape()[0] == 0) return NdArray({0, 0}, DType::float64, context);
  if (y) x = concatenate({x, oriented(*y, !rowvar && as_rows(*y).shape()[0] != 1)}, 0);
  if (!is_float(type) && !is_complex(type)) {
    throw TypeError(
        fmt::format("Cannot cast ufunc 'subtract' output from dtype('float64') to dtype('{}') with casting "
                    "rule 'same_kind'",
                    local::name(type)));
  }
  const double freedom = ddof.value_or(bias ? 0 : 1);

  std::optional<NdArray> w;
  if (fweights) {
    const NdArray real = cast_to(*fweights, DType::float64);
    if (holds_any(not_equal(real, rint(real)))) throw TypeError("fweights must be integer");
    w = observation_weights(real, x.shape()[1], "fweights");
  }
  if (aweights) {
    const NdArray a = observation_weights(*aweights, x.shape()[1], "aweights");
    w = w ? multiply(*w, a) : a;
  }
  NdArray mean;
  double divisor = static_cast<double>(x.shape()[1]) - freedom;
  if (w) {
    const auto [average_of_rows, sums] = std::get<ArrayPair>(average(x, 1, w, /*returned=*/true));
    mean = average_of_rows;
    const double sum = sums[{0}].item().as_double();
    divisor = sum;
    if (freedom != 0)
      divisor -= !aweights ? freedom : freedom * ops::sum(multiply(*w, *aweights)).item().as_double() / sum;
  } else {
    mean = local::reduce("mean"_reduction, x, 1);
  }
  if (divisor <= 0) divisor = 0;

  Fused centering;
  const Fused::Value distance =
      centering("subtract"_op, centering.input(x), centering.input(mean.reshape({mean.size(), 1})));
  const NdArray centered(x.shape(), type, context);
  centering.run_into(distance, centered);
  NdArray c;
  if (!w && (type == DType::float32 || type == DType::float64) && centered.size() > 0) {
    c = gram(centered);
  } else {
    NdArray right = w ? multiply(centered, *w) : centered;
    if (is_complex(type)) right = conjugate(right);
    c = dot(centered, right.T());
  }
  return squeeze(cast_to(multiply(c, Scalar::strong(1 / divisor, DType::float64)), c.dtype()));
}

NdArray corrcoef(const NdArray& x, const std::optional<NdArray>& y, bool rowvar, std::optional<DType> dtype) {
  const Range named("corrcoef");
  const NdArray c = cov(x, y, rowvar, false, std::nullopt, std::nullopt, std::nullopt, dtype);
  if (c.ndim() == 0) return divide(c, c);
  const NdArray diagonal = c.restrided({c.shape()[0]}, {c.strides()[0] + c.strides()[1]}, c.offset());
  const NdArray deviation = sqrt(diagonal.real());
  Fused fused;
  const Fused::Value across = fused.input(deviation.reshape({deviation.size(), 1})), along = fused.input(deviation);
  Fused::Value scaled = fused("divide"_op, fused("divide"_op, fused.input(c), across), along);
  if (!is_complex(c.dtype())) return fused.run(fused("clip"_op, scaled, -1, 1));
  NdArray result = fused.run(scaled);
  for (const NdArray& part : {result.real(), result.imag()}) apply("clip"_op, {part, -1, 1}, UfuncOptions{.out = part});
  return result;
}

}  // namespace quarry::local::ops
