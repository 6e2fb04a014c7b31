// Decompositions by cuSOLVER and cuBLAS, batched where the libraries have a batched routine.
#pragma once

#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {

Decompositions& cuda_decompositions();

}  // namespace quarry::local::cuda
