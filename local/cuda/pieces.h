// Products of float32 matrices that are asked for in less than float32's precision (local/program/precision.h).
#pragma once

#include "quarry/local/cuda/matrix.h"

namespace quarry::local::cuda {

// The product with `precision` where that means anything to it: for float32, and no vector.
Gemm at_precision(const Gemm& task, Precision precision);

// As blas_product(), in any precision. bf16x3 takes scratch of the operands' sizes beside the handle's workspace.
int64_t pieces_scratch_bytes(const Gemm& task, const BatchSteps& batch);
void product_in_pieces(const Gemm& task, const BatchSteps& batch, cublasHandle_t handle, const ExecContext& context);

// float32 in, its two pieces of bfloat16 out.
Program split_program();

}  // namespace quarry::local::cuda
