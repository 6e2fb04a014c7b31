// Headers as text, for the sources of generated kernels, beside those of local/program/embedded.h.
#pragma once

#include "quarry/local/program/embedded.h"

namespace quarry::local::cuda {

extern const char* const embedded_types;       // local/cuda/kernel/types.cuh
extern const char* const embedded_support;     // local/cuda/kernel/support.cuh
extern const char* const embedded_indexing;    // local/cuda/kernel/indexing.cuh
extern const char* const embedded_scan_slots;  // local/cuda/kernel/scan_slots.h
extern const char* const embedded_scan;        // local/cuda/kernel/scan.cuh

}  // namespace quarry::local::cuda
