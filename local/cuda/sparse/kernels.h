// Kernels for sparse matrices where they are faster than cuSPARSE's: products with dense matrices, and rows to columns.
#pragma once

#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/program/sparse.h"

namespace quarry::local::cuda {

// c = a b of a SparseDenseProduct without `transpose`. The order of a sum depends on a's offsets and b's columns alone.
void multiply_rows(const SparseDenseProduct& product, const ExecContext& context);

// What SparseTranspose says. Blocks until the lengths of the columns are known.
void transpose_rows(const SparseTranspose& task, const ExecContext& context);

// The kernels, for the tests that compile and run them.
struct RowProducts {
  DType dtype = DType::float64, index = DType::int64;
};
ModuleSource row_products_source(const RowProducts& kernels);
struct RowTransposes {
  DType index = DType::int64;
  int64_t itemsize = 8;
  bool wide_keys = true, wide_positions = true;  // 64 bits, else 32
};
ModuleSource row_transposes_source(const RowTransposes& kernels);
// For columns of at most 64 elements.
ModuleSource short_transposes_source(DType index, int64_t itemsize);

}  // namespace quarry::local::cuda
