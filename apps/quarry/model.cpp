#include "quarry/apps/quarry/model.h"

#include <cmath>
#include <vector>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::apps {

namespace {

constexpr double kMarketShare = 0.3;  // the first factor's variance per asset
constexpr double kMarketOffset = 3;   // of the first loading, in deviations: its entries keep one sign
constexpr double kMeanDeviation = 0.0005;
constexpr double kLeastVolatility = 0.01, kMostVolatility = 0.03;

// Rows made orthonormal in place by modified Gram-Schmidt, twice for orthogonality to rounding.
void orthonormalise(std::vector<double>& rows, size_t count, size_t length) {
  const auto dot = [&](size_t i, size_t j) {
    double sum = 0;
    for (size_t a = 0; a < length; ++a) sum += rows[i * length + a] * rows[j * length + a];
    return sum;
  };
  for (size_t i = 0; i < count; ++i) {
    constexpr int kRounds = 2;
    for (int round = 0; round < kRounds; ++round) {
      for (size_t j = 0; j < i; ++j) {
        const double along = dot(i, j);
        for (size_t a = 0; a < length; ++a) rows[i * length + a] -= along * rows[j * length + a];
      }
    }
    const double norm = std::sqrt(dot(i, i));
    QUARRY_CHECK(norm > 0);
    for (size_t a = 0; a < length; ++a) rows[i * length + a] /= norm;
  }
}

std::vector<double> values_of(const Array& array) {
  const NdArray host = array.to_host();
  const double* data = host.data<double>();
  return {data, data + host.size()};
}

}  // namespace

MarketModel make_market_model(int64_t assets, int64_t factors, random::Generator& generator) {
  if (factors < 1 || factors > assets) {
    throw local::InvalidArgument("--factors takes 1 to the number of columns (" + std::to_string(assets) + "), not " +
                                 std::to_string(factors));
  }
  std::vector<double> loadings = values_of(generator.standard_normal({factors, assets}));
  for (int64_t a = 0; a < assets; ++a) {
    // A draw beyond the offset is folded back.
    loadings[static_cast<size_t>(a)] = std::abs(loadings[static_cast<size_t>(a)] + kMarketOffset);
  }
  orthonormalise(loadings, static_cast<size_t>(factors), static_cast<size_t>(assets));
  std::vector<double> variances;
  for (int64_t k = 0; k < factors; ++k) {
    variances.push_back(kMarketShare * static_cast<double>(assets) / static_cast<double>(k + 1));
  }
  MarketModel model;
  model.loadings = Array::from_local(local::from_vector(loadings, Dims{factors, assets}));
  model.variances = Array::from_local(local::from_vector(variances, Dims{factors}));
  model.means = generator.normal(0, kMeanDeviation, {assets});
  model.volatilities = generator.uniform(kLeastVolatility, kMostVolatility, {assets});
  return model;
}

namespace {

// Of the factors' returns `f`, (days, factors).
Array returns_of(const MarketModel& model, const Array& f, const std::vector<double>& variances,
                 random::Generator& generator) {
  const int64_t assets = model.loadings.shape(1);
  // Term by term, in order: a matrix product's bits could depend on the tiles.
  Array sum = generator.standard_normal({f.shape(0), assets});
  for (int64_t k = std::ssize(variances); k-- > 0;) {
    const Array column = f[{local::full_slice, local::Slice{k, k + 1, std::nullopt}}];
    sum = column * (model.loadings[{k}] * Scalar(std::sqrt(variances[static_cast<size_t>(k)]))) + sum;
  }
  return model.means + model.volatilities * sum;
}

}  // namespace

Array market_returns(const MarketModel& model, int64_t days, random::Generator& generator) {
  const Array f = generator.standard_normal({days, model.loadings.shape(0)}).persist();
  return returns_of(model, f, values_of(model.variances), generator);
}

Array planned_returns(int64_t assets, int64_t factors, int64_t days, random::Generator& generator) {
  const MarketModel model{ones({factors, assets}), ones({factors}), ones({assets}), ones({assets})};
  const std::vector<double> variances(static_cast<size_t>(factors), 1.0);
  generator.standard_normal({days, factors});  // takes its place among the streams
  return returns_of(model, ones({days, factors}), variances, generator);
}

}  // namespace quarry::apps
