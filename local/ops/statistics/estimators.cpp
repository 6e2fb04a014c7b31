// Rules for the width of bins. NumPy's arithmetic is kept, dtype by dtype, for a number of bins is a rounded quotient.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/statistics/bins.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {
namespace {

struct Data {
  const BinData& of;
  NdArray extent;  // largest less smallest element, 0-d in host memory

  double size() const { return static_cast<double>(of.size()); }
};

// A number of that dtype, not a Python one.
NdArray number(double value, DType dtype = DType::float64) { return filled({}, value, dtype, default_context(kCpu)); }

NdArray by_sqrt(const Data& data) { return apply("divide"_op, {data.extent, number(std::sqrt(data.size()))}); }
NdArray by_sturges(const Data& data) { return apply("divide"_op, {data.extent, number(std::log2(data.size()) + 1)}); }
NdArray by_rice(const Data& data) { return apply("divide"_op, {data.extent, 2 * std::pow(data.size(), 1.0 / 3)}); }

NdArray by_scott(const Data& data) {
  const double factor = std::pow(24 * std::sqrt(std::numbers::pi) / data.size(), 1.0 / 3);
  return apply("multiply"_op, {factor, data.of.deviation()});
}

// Sturges' rule with the skewness.
NdArray by_doane(const Data& data) {
  const double n = data.size();
  if (n <= 2) return number(0);
  const Scalar deviation = data.of.deviation().item();
  if (!(deviation.as_double() > 0)) return number(0);
  const double skewness = data.of.skewness(deviation).item().as_double();
  const double spread = std::sqrt(6 * (n - 2) / ((n + 1) * (n + 3)));
  return apply("divide"_op, {data.extent, number(1 + std::log2(n) + std::log2(1 + std::abs(skewness) / spread))});
}

// Freedman and Diaconis: by the distance of the quartiles.
NdArray by_fd(const Data& data) {
  const NdArray quartiles = data.of.quartiles();
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
    const NdArray share = apply("divide"_op, {data.of.counts(bins), n});
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
  std::string_view name;
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

int64_t estimated_count(std::string_view rule, const BinData& of, const std::pair<Scalar, Scalar>& range) {
  const auto estimator = std::ranges::find(kEstimators, rule, &Estimator::name);
  QUARRY_CHECK(estimator != kEstimators.end());
  const auto [least, greatest] = of.extremes();
  NdArray width = estimator->width({of, unsigned_distance(greatest, least)});
  if (width.item().as_double() == 0) return 1;
  if (is_integer(of.dtype()) && width.item().as_double() < 1)
    width = filled({}, 1, DType::int64, default_context(kCpu));
  const double count =
      apply("ceil"_op, {apply("divide"_op, {unsigned_distance(range.second, range.first), width})}).item().as_double();
  if (std::isnan(count)) throw InvalidArgument("cannot convert float NaN to integer");
  if (!(count < 0x1p62)) throw InvalidArgument(fmt::format("cannot convert {} bins to an integer", count));
  return static_cast<int64_t>(count);
}

}  // namespace quarry::local
