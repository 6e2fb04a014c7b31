// The pools that a program without a Runtime uses.
#pragma once

#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/slab_pool.h"

namespace quarry::local {

// The growing pool of a device; made at first use, never destroyed. default_pool() is the same. Throws DeviceError
// where there is no such device.
SlabPool& default_memory_pool(Device device = current_device());

// Pinned host memory for devices of a kind: that of pinned_empty() and of copies that go through the host.
SlabPool& default_pinned_pool(DeviceKind kind = current_device().kind);

}  // namespace quarry::local
