// Matrix work of the CPU engine. BLAS calls use one OpenBLAS thread each; parallel work is over output tiles that
// depend on the shapes only, so that the thread count does not change bits.
#pragma once

#include <cstdint>

#include "quarry/local/program/engine.h"
#include "quarry/local/program/products.h"

namespace quarry::local::cpu {

int64_t gemm_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& b, const MatrixView& c);
void gemm(const Gemm& task, int threads, void* scratch);
int64_t syrk_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& c);
void syrk(DType dtype, double alpha, const MatrixView& a, double beta, const MatrixView& c, int threads, void* scratch);
int64_t eigh_scratch_bytes(DType dtype, int64_t n);
void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors, void* scratch);

}  // namespace quarry::local::cpu
