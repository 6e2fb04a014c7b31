// The GPU engine's family of local/program/scanning.h.
#pragma once

#include "quarry/local/program/scanning.h"

namespace quarry::local::cuda {

Scanning& cuda_scanning();

}  // namespace quarry::local::cuda
