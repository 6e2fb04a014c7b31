// Positions along an axis to byte offsets: one loop per mode, built for several x86-64 levels
// (local/cpu/loops/offsets.inl).
#pragma once

#include "quarry/local/cpu/loops.h"
#include "quarry/local/program/indexing.h"

namespace quarry::local::cpu {

// Writes n offsets. False if a position is outside of an axis of `extent` elements that are `stride` bytes apart.
using OffsetLoop = bool (*)(int64_t* offsets, const int64_t* positions, int64_t n, int64_t extent, int64_t stride);

// Null for IndexMode::wrap.
OffsetLoop offset_loop(Level level, IndexMode mode);

}  // namespace quarry::local::cpu
