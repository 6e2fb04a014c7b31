// The host as a device.
#pragma once

#include "quarry/local/device/device.h"

namespace quarry::local {

Backend& cpu_backend();

}  // namespace quarry::local
