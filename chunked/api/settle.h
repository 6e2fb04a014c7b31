// Size barriers: what has to be known before a node can be built is computed first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry {

// What becomes of a computation by values where nothing runs (--plan): it ends, or goes on with zeros in their place.
enum class InPlans : uint8_t { ends, zeros };

struct Settled {
  std::vector<NdArray> values;  // in host memory, on every rank
  std::vector<Array> kept;      // persisted
  bool is_planned = false;      // nothing runs
};
// Computes both lists in one plan. Collective, blocking.
Settled settle(std::span<const Array> values, std::span<const Array> keep, InPlans in_plans = InPlans::ends);
// The value of a 0-d array; where nothing runs `in_plans` stands for it. Collective, blocking.
double settled_number(const Array& number, double in_plans);

}  // namespace quarry
