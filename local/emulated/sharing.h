// Slabs of the emulated devices: memory that other processes can map.
#pragma once

#include "quarry/local/device/sharing.h"

namespace quarry::local {

void* allocate_emulated_slab(int64_t bytes);
void free_emulated_slab(void* data, int64_t bytes) noexcept;
MemorySharing& emulated_sharing();

}  // namespace quarry::local
