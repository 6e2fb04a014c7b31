// Cholesky's decomposition of one matrix by kernels of quarry's own and products: cuSOLVER's takes three kernels for
// every 32 columns, one after the other.
#pragma once

#include "quarry/local/cuda/matrix.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {

// Whether it pays.
bool decomposes_by_strips(const Cholesky& task);

int64_t definite_scratch_bytes(const Cholesky& task);
// Matrix p of the stack, by the handle's stream with its workspace. `scratch`: of definite_scratch_bytes().
void decompose_definite(const Cholesky& task, int64_t p, void* scratch, cublasHandle_t handle);

}  // namespace quarry::local::cuda
