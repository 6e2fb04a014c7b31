// Op::add ...: the enumerators of Op, one per row of ufunc.def. For switches, templates and constants; other code says
// "add"_op (op.h) and is not compiled again for a new row.
#pragma once

#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::local::detail {

enum class Op : uint16_t {
#define QUARRY_OP(name, ...) name,
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
};

inline constexpr int kOpCount = [] {
  int rows = 0;
#define QUARRY_OP(...) ++rows;
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
  return rows;
}();

}  // namespace quarry::local::detail
