// The backends behind the registry; private to local/device.
#pragma once

#include "local/device/device.h"
#include "local/device/sharing.h"

namespace quarry::local {

Backend& cpu_backend();
Backend& emulated_backend();
// Loads libquarry_cuda at the first call. Throws DeviceError with the reason where it cannot be used.
Backend& cuda_backend();
MemorySharing& cuda_sharing();  // likewise

// Tests: streams and memory of the emulated devices come from QUARRY_EMULATED_DEVICES (2), QUARRY_EMULATED_MEMORY
// (bytes per device, 1 GiB), QUARRY_EMULATED_SEED (1) and QUARRY_EMULATED_DELAY_US (longest delay before one operation
// in eight, 100), read at first use.

}  // namespace quarry::local
