// What local/device finds by dlopen in libquarry_cuda.
#pragma once

#include "quarry/local/device/device.h"
#include "quarry/local/device/sharing.h"
#include "quarry/local/device/stream_decoding.h"

// The CUDA backend of this process; it exists without a GPU or driver too and then counts no devices.
extern "C" quarry::local::Backend* quarry_cuda_backend();
extern "C" quarry::local::MemorySharing* quarry_cuda_sharing();
extern "C" quarry::local::StreamDecoder* quarry_cuda_stream_decoder();
