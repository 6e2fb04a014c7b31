// The CPU engine's family of local/program/transforms.h.
#pragma once

#include "quarry/local/program/transforms.h"

namespace quarry::local {

Transforms& cpu_transforms();

}  // namespace quarry::local
