// The texts that kernels for small matrices are made of, and their modules.
#pragma once

#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/small_matrices.h"
#include "quarry/local/cuda/stream.h"

namespace quarry::local::cuda {

constexpr size_t kSmallSlots = 12;  // of Params

extern const char* const small_panels_text;  // behind the functions of pivoting
extern const char* const small_cholesky_text;
extern const char* const small_loading_text;      // before both
extern const char* const small_warps_text;        // behind the limits of numbers
extern const char* const small_warp_jacobi_text;  // these two behind it
extern const char* const small_warp_eigh_text;

// A module of its own for each, compiled at its first use.
const Module& module_of(SmallMatrices kernels, DType dtype, const CudaStream& stream);

}  // namespace quarry::local::cuda
