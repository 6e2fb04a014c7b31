// Packing a box of a block by a device.
#pragma once

#include "quarry/chunked/exec/remote_box.h"
#include "quarry/local/device/device.h"

namespace quarry::exec {

// Queues on `stream` a copy of the box of a C-contiguous block, which the stream's device can read wherever it lies,
// packed to `to` in that device's memory. Throws InvalidArgument if the box does not lie inside the block.
void copy_box_on_device(const BlockBox& box, const void* block, void* to, local::Stream& stream);

}  // namespace quarry::exec
