// Quantiles with weights of arrays of more than a chunk. Private to this folder.
#pragma once

#include <string_view>

#include "quarry/chunked/api/array.h"
#include "quarry/local/base/axes.h"
#include "quarry/local/ops/statistics/statistics.h"

namespace quarry::weighted {

using LocalQuantile = decltype(&local::ops::quantile);

// Which quantiles are wanted.
struct Wanted {
  const char* function;
  LocalQuantile local;  // the same of arrays of one process
  NdArray q;            // in host memory
  bool percent, ignore_nan;
};
// Throws local's errors. Collective, blocking; results of lines that are short beside a chunk are lazy.
Array quantile(const Wanted& wanted, const Array& a, const Array& weights, const local::Axes& axis,
               std::string_view method, bool keepdims);

}  // namespace quarry::weighted
