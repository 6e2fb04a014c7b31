// The GPU engine's family of local/program/sorting.h.
#pragma once

#include "quarry/local/program/sorting.h"

namespace quarry::local::cuda {

Sorting& cuda_sorting();

}  // namespace quarry::local::cuda
