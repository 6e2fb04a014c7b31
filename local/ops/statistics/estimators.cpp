// Rules for the width of bins. NumPy's arithmetic is kept, dtype by dtype, for a number of bins is a rounded quotient.
#include <array>
#include <cmath>
#include <numbers>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/statistics/bins.h"
#include "quarry/local/ops/statistics/support.h"

namespace quarry::local {
namespace {

struct Data {
  const NdArray& a;
  Scalar first, last;  // of the range
  NdArray extent;      // largest less smallest element, 0-d in host memory

  double size() const { return static_cast<double>(a.size()); }
};

// A number of that dtype, not a Python one.
NdArray number(double value, DType dtype = DType::float64) { return filled({}, value, dtype, default_context(kCpu)); }
NdArray on_host(const NdArray& value) { return value.to(kCpu); }

NdArray by_sqrt(const Data& data) { return apply("divide"_op, {data.extent, number(std::sqrt(data.size()))}); }
NdArray by_sturges(const Data& data) { return apply("divide"_op, {data.extent, number(std::log2(data.size()) + 1)}); }
NdArray by_rice(const Data& data) { return apply("divide"_op, {data.extent, 2 * std::pow(data.size(), 1.0 / 3)}); }

NdArray by_scott(const Data& data) {
  const double factor = std::pow(24 * std::sqrt(std::numbers::pi) / data.size(), 1.0 / 3);
  return apply("multiply"_op, {factor, on_host(ops::std(data.a))});
}

// Sturges' rule with the skewness.
NdArray by_doane(const Data& data) {
  const double n = data.size();
  if (n <= 2) return number(0);
  const NdArray sigma = on_host(ops::std(data.a)), mean = on_host(ops::mean(data.a));
  if (!(sigma.item().as_double() > 0)) return number(0);
  Fused fused;
  const Fused::Value distance = fused("subtract"_op, fused.input(data.a), mean.item());
  const Fused::Value cubed = fused("power"_op, fused("divide"_op, distance, sigma.item()), 3);
  const DType dtype = fused.dtype(cubed);
  const ValueId summed[] = {fused.id(cubed)};
  fused.program().reduce("sum"_reduction, summed, dtype);
  const uint32_t all = axes_mask(Axes(), data.a.ndim());
  const NdArray sum = run_reductions(fused.program(), fused.inputs(), data.a.shape(), all, fused.context())[0];
  const double skewness = on_host(apply("divide"_op, {sum, n}).astype(dtype)).item().as_double();
  const double spread = std::sqrt(6 * (n - 2) / ((n + 1) * (n + 3)));
  return apply("divide"_op, {data.extent, number(1 + std::log2(n) + std::log2(1 + std::abs(skewness) / spread))});
}

// Freedman and Diaconis: by the distance of the quartiles.
NdArray by_fd(const Data& data) {
  const NdArray quartiles = on_host(ops::percentile(data.a, from_vector<double>({75, 25})));
  const NdArray range = apply("subtract"_op, {quartiles[{0}], quartiles[{1}]});
  return apply("multiply"_op, {apply("multiply"_op, {2.0, range}), std::pow(data.size(), -1.0 / 3)});
}

NdArray by_auto(const Data& data) {
  const NdArray fd = apply("maximum"_op, {by_fd(data), apply("divide"_op, {by_sqrt(data), 2})});
  return apply("minimum"_op, {fd, by_sturges(data)});
}

// The number of bins that minimises the estimated integrated squared error (Stone, 1984).
NdArray by_stone(const Data& data) {
  const double extent = data.extent.item().as_double(), n = data.size();
  if (n <= 1 || extent == 0) return number(0);
  const int64_t most = std::max<int64_t>(100, static_cast<int64_t>(std::sqrt(n)));
  double least = 0;
  int64_t best = 0;
  for (int64_t bins = 1; bins <= most; ++bins) {
    const NdArray counts = ops::histogram(data.a, bins, std::pair(data.first, data.last)).first;
    const NdArray share = apply("divide"_op, {counts, n});
    const double width = apply("divide"_op, {data.extent, bins}).item().as_double();
    const double risk = (2 - (n + 1) * ops::dot(share, share).item().as_double()) / width;
    if (best == 0 || risk < least) {
      least = risk;
      best = bins;
    }
  }
  return apply("divide"_op, {data.extent, best});
}

struct Estimator {
  const char* name;
  NdArray (*width)(const Data& data);
};
constexpr std::array<Estimator, 8> kEstimators{{{"auto", by_auto},
                                                {"doane", by_doane},
                                                {"fd", by_fd},
                                                {"rice", by_rice},
                                                {"scott", by_scott},
                                                {"sqrt", by_sqrt},
                                                {"stone", by_stone},
                                                {"sturges", by_sturges}}};

}  // namespace

bool is_estimator(std::string_view rule) {
  for (const Estimator& estimator : kEstimators)
    if (rule == estimator.name) return true;
  return false;
}

NdArray estimated_width(std::string_view rule, const NdArray& a, const Scalar& first, const Scalar& last) {
  const auto [least, greatest] = extremes(a);
  const Data data{a, first, last, unsigned_distance(greatest.item(), least.item())};
  for (const Estimator& estimator : kEstimators)
    if (rule == estimator.name) return estimator.width(data);
  throw InternalError("no such estimator");
}

}  // namespace quarry::local
