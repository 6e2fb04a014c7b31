// Reduction::sum ...: the enumerators of Reduction, one per row of reduction.def. For switches, templates and
// constants; other code says "sum"_reduction (op.h) and is not compiled again for a new row.
#pragma once

#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::local::detail {

enum class Reduction : uint8_t {
#define QUARRY_REDUCTION(name, ...) name,
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
};

inline constexpr int kReductionCount = [] {
  int rows = 0;
#define QUARRY_REDUCTION(...) ++rows;
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
  return rows;
}();

}  // namespace quarry::local::detail
