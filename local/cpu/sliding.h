// Sliding products of vectors: one loop per dtype, built for several x86-64 levels (local/cpu/loops/sliding.inl).
#pragma once

#include "quarry/local/cpu/loops.h"
#include "quarry/local/program/products.h"

namespace quarry::local::cpu {

// Computes the results [first, last).
using SlidingLoop = void (*)(const SlidingProduct& product, int64_t first, int64_t last);

// Null for the 16-bit floats. The level does not change bits.
SlidingLoop sliding_loop(Level level, DType dtype);

}  // namespace quarry::local::cpu
