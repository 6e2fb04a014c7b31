// A device without memory and without work: arrays have shape, dtype and addresses, and what is asked for is counted.
#pragma once

#include "quarry/local/device/device.h"

namespace quarry::local {

class Engine;

// One device for each other kind, which it stands for (trial_of()). Its addresses are outside of what a process can
// have: to touch one is a fault. Copies to other memory throw NeedsValue, but for
// small arrays that came from the host and were not written to since.
Backend& trial_backend();
// The engine of the device that stands for `kind`: takes from context.memory what that kind's engine says it would,
// gives it back, and computes nothing. Sparse matrices throw NotSupported.
Engine& trial_engine(DeviceKind kind);

}  // namespace quarry::local
