// A pretend GPU for tests: memory of its own in the host's, asynchronous streams with random delays, the CPU's engine.
#pragma once

#include "quarry/local/device/device.h"

namespace quarry::local {

// Its devices come from QUARRY_EMULATED_DEVICES (2), QUARRY_EMULATED_MEMORY (bytes per device, 1 GiB),
// QUARRY_EMULATED_SEED (1) and QUARRY_EMULATED_DELAY_US (longest delay before one operation in eight, 100), read at
// first use.
Backend& emulated_backend();

}  // namespace quarry::local
