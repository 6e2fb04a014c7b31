// Sequential accumulations of the CPU engine: one loop per (binary operation, dtype), the same on every instruction-set
// level, for a chain of dependent operations has nothing to vectorise.
#pragma once

#include <cstdint>

#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::local::cpu {

// Continues acc = op(acc, x[i]) over n elements (strides in bytes) and writes every value of acc unless `out` is null.
// `carry` holds acc in the format that is computed in (float for the 16-bit floats but under OpRule::storage); without
// `started` acc begins as x[0].
using Recurrence = void (*)(const char* x, int64_t x_stride, char* out, int64_t out_stride, int64_t n, void* carry,
                            bool started);

// Null where op has no loop that maps two values of `dtype` to one.
Recurrence recurrence(Op op, DType dtype);
// Writes a carry as an element.
void store_carry(Op op, DType dtype, const void* carry, char* out);

}  // namespace quarry::local::cpu
