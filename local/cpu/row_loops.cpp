#include "quarry/local/cpu/row_loops.h"

#define QUARRY_LEVEL rows
#include "quarry/local/cpu/loops/rows.inl"

namespace quarry::local::cpu {

void register_row_loops([[maybe_unused]] Loops& loops) {
#define QUARRY_REDUCTION(name, ...) rows::register_##name(loops);
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
}

}  // namespace quarry::local::cpu
