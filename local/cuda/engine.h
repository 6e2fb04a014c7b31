// The GPU engine: programs by generated kernels, matrix products and eigenproblems by cuBLAS and cuSOLVER.
#pragma once

#include "quarry/local/program/engine.h"

namespace quarry::local::cuda {

Engine& cuda_engine();

}  // namespace quarry::local::cuda
