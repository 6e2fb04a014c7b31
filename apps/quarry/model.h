// The factor model behind `quarry generate market`.
//
// The return of asset a on day d is
//
//   r[d, a] = mean[a] + volatility[a] * (sum_k sqrt(variance[k]) loading[k, a] f[d, k] + eps[d, a])
//
// with independent standard normal f and eps, K orthonormal loading rows, and variances that decrease as
// 0.3 M / (k + 1) for M assets; eps has variance 1. The first loading is the market: all its entries have one sign.
// Means are normal with deviation 0.0005, volatilities uniform in [0.01, 0.03). So the population covariance is
// D (B' L B + I) D with D the volatilities, B the loadings and L the variances.
//
// Every random number comes from Philox by (seed, stream, element index): streams 0 loadings, 1 means, 2 volatilities,
// 3 f (index d K + k), 4 eps (index d M + a). So the data do not depend on chunks, ranks or the device.
#pragma once

#include <cstdint>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/random.h"

namespace quarry::apps {

struct MarketModel {
  Array loadings;      // (K, M), orthonormal rows
  Array variances;     // (K,), decreasing
  Array means;         // (M,)
  Array volatilities;  // (M,)
};

// Computes the model's parameters (small), from the generator's first three streams. Throws InvalidArgument unless
// 1 <= factors <= assets. Collective.
MarketModel make_market_model(int64_t assets, int64_t factors, random::Generator& generator);

// The (days, assets) float64 returns, lazy, from the next two streams; the factors' returns f are computed at once and
// persisted. Collective.
Array market_returns(const MarketModel& model, int64_t days, random::Generator& generator);

// The same returns for a plan, lazy: nothing is computed, and the model's parameters are stand-ins.
Array planned_returns(int64_t assets, int64_t factors, int64_t days, random::Generator& generator);

}  // namespace quarry::apps
