// The inner loops of the CPU engine: one per (operation, dtype) and one per (reduction, dtype), built for several
// x86-64 levels from local/cpu/loops/*.inl and chosen at run time.
#pragma once

#include <cstdint>

#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::local::cpu {

// out[i] = f(args[0][i], ...) for i in [0, n): contiguous elements. `out` may be an argument of the same dtype.
using MapLoop = void (*)(void* out, const void* const* args, int64_t n);

// Reduces a tile of `rows` x `columns` elements whose rows begin row_bytes apart: along the columns (one state per row)
// or along the rows (one state per column). `positions` has the layout of a contiguous tile; without, a position is the
// number of the column or row. Writes the fields, less the count of mean and var, which the caller knows.
using ReduceLoop = void (*)(const void* x, const int64_t* positions, int64_t rows, int64_t columns, int64_t row_bytes,
                            void* const* fields);
// a = a combined with b, n states; the fields are all there.
using CombineLoop = void (*)(void* const* a, const void* const* b, int64_t n);

// What the engine's reductions are made of: a column of reduction.def. `row` stands for a loop made of the row.
enum class Accumulator : uint8_t { sum, prod, min, max, any, all, count, argmin, argmax, moments, row };
inline constexpr int kAccumulatorCount = static_cast<int>(Accumulator::row);

// The tables have room for more rows than there are, so that few units are compiled again for a new one; map.inl and
// rows.inl check that it is enough.
inline constexpr int kOpCapacity = 160, kReductionCapacity = 32;

// Loops of reductions by number: those of the accumulators, then those of rows.
inline constexpr int kReduceLoops = kAccumulatorCount + kReductionCapacity;
constexpr int row_loop(Reduction reduction) { return kAccumulatorCount + static_cast<int>(reduction); }

struct Loops {
  MapLoop op[kOpCapacity][kDTypeCount];  // by loop dtype; none for the 16-bit floats except under OpRule::storage
  MapLoop by_constant[kOpCapacity][kDTypeCount];  // where the second argument is one element; not all have such a loop
  MapLoop mixed[kOpCapacity][2];                  // comparisons of int64 with uint64 [0] and uint64 with int64 [1]
  MapLoop cast[kDTypeCount][kDTypeCount];         // the 16-bit floats: with float32 and from float64 only
  MapLoop swap[kDTypeCount];                      // byte order of each element, or of each part of a complex
  ReduceLoop reduce_columns[kReduceLoops][kDTypeCount];  // along a row of the tile
  ReduceLoop reduce_rows[kReduceLoops][kDTypeCount];     // down a column of the tile
  CombineLoop combine[kReduceLoops][kDTypeCount];
};

enum class Level : uint8_t {
#define QUARRY_LEVEL_ROW(name) name,
#include "quarry/local/cpu/levels.def"
};
inline constexpr Level kLevels[] = {
#define QUARRY_LEVEL_ROW(name) Level::name,
#include "quarry/local/cpu/levels.def"
};
// The best level of this processor, or the lower one that the environment variable QUARRY_CPU_LEVEL (v2, v3, v4) names.
Level cpu_level();
const Loops& loops(Level level);

}  // namespace quarry::local::cpu
