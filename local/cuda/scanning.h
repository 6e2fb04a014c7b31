#pragma once

#include "local/program/scanning.h"

namespace quarry::local::cuda {

Scanning& cuda_scanning();

}  // namespace quarry::local::cuda
