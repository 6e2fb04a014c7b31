// Packing a hyperslab of a block by a device.
#pragma once

#include <optional>

#include "quarry/chunked/exec/hyperslab.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/device/device.h"

namespace quarry::exec {

// A dtype of so many bytes, for copies of elements whatever they are.
std::optional<local::DType> dtype_of_bytes(int64_t itemsize);

// Queues on `stream` a copy of the hyperslab of a C-contiguous block, which the stream's device can read wherever it
// lies, packed to `to` in that device's memory. Throws InvalidArgument if the hyperslab does not lie inside the block.
void pack_on_device(const Hyperslab& hyperslab, const void* block, void* to, local::DeviceStream& stream);

}  // namespace quarry::exec
