// Packing boxes of memory that a GPU reaches, its own or another one's.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "quarry/local/device/sharing.h"

namespace quarry::local::cuda {

// Queue the copies on `stream`, whose device is current.
void copy_box_by_engines(const BoxCopy& box, cudaStream_t stream);
void copy_boxes_by_kernel(std::span<const BoxCopy> boxes, cudaStream_t stream);

}  // namespace quarry::local::cuda
