#pragma once

#include "local/program/transforms.h"

namespace quarry::local {

Transforms& cpu_transforms();

}  // namespace quarry::local
