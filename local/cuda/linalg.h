// Dense linear algebra by cuBLAS and cuSOLVER on row-major matrices.
#pragma once

#include "quarry/local/program/engine.h"
#include "quarry/local/program/products.h"

namespace quarry::local::cuda {

int64_t gemm_scratch_bytes(const Gemm& task);
void gemm(const Gemm& task, const ExecContext& context);
int64_t syrk_scratch_bytes(const Syrk& task);
void syrk(const Syrk& task, const ExecContext& context);
int64_t eigh_scratch_bytes(DType dtype, int64_t n);
void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors,
          const ExecContext& context);

}  // namespace quarry::local::cuda
