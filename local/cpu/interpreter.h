// Runs lowered programs tile by tile.
#pragma once

#include "quarry/local/cpu/code.h"
#include "quarry/local/cpu/layout.h"
#include "quarry/local/memory/exec_context.h"

namespace quarry::local::cpu {

// Where the pieces of the scratch are. Per slot: the tiles, then per reduction the stack of partial states with one
// block more than levels, and one tile that state fields are converted in. After the slots: the segments' states.
struct ScratchMap {
  ScratchMap(const Code& code, const Layout& layout);
  int64_t bytes(int slots) const { return slot_bytes * slots + partial_bytes; }

  struct ReductionPart {
    int64_t stack = 0;          // offset in the slot
    int64_t block_bytes = 0;    // of one block of the stack
    int64_t field_offset[3]{};  // in a block
    int64_t partial[3]{};       // offset after the slots
  };
  std::vector<int64_t> tiles;  // offset in the slot, per buffer
  std::vector<ReductionPart> reductions;
  int64_t conversion = 0;  // offset in the slot
  int64_t slot_bytes = 0;
  int64_t partial_bytes = 0;
  int64_t tile_elements = 0;
};

// `scratch` holds map.bytes(slots) bytes, aligned to kAllocationAlignment.
void interpret(const Code& code, const Layout& layout, const ScratchMap& map, const Loops& loops,
               const std::vector<Scalar>& constants, const Launch& launch, char* scratch, int slots);

}  // namespace quarry::local::cpu
