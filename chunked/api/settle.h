// Size barriers: what has to be known before a node can be built is computed first.
#pragma once

#include <span>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry {

struct Settled {
  std::vector<NdArray> values;  // in host memory, on every rank
  std::vector<Array> kept;      // persisted
};
// Computes both lists in one plan. Collective, blocking.
Settled settle(std::span<const Array> values, std::span<const Array> keep);

}  // namespace quarry
