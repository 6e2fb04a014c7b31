// LU with partial pivoting of one matrix of many rows and few columns, as factorisations by panels need it: faster than
// cuSOLVER's, which takes one or more kernels for every column.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "quarry/local/base/dtype.h"

namespace quarry::local::cuda {

// Columns of a strip, which one kernel decomposes, a thread for each row: what fits a thread's registers.
int64_t strip_width(DType dtype);
// Whether the device decomposes strips of so many rows, and it pays for so many columns.
bool is_tall_lu(DType dtype, int64_t rows, int64_t columns);

// What strips leave for each other on the device. It is zeroed before the first one.
int64_t tall_lu_scratch_bytes(DType dtype, int64_t columns);
// Strip number `strip` of the matrix, by columns that are `distance` apart: rows from its first column's number on are
// decomposed, and exchanged in all `columns`. pivots and info as LAPACK's getrf leaves them.
void factor_strip(DType dtype, void* a, int64_t rows, int64_t columns, int64_t distance, int64_t strip, int64_t* pivots,
                  int32_t* info, void* scratch, cudaStream_t stream);

}  // namespace quarry::local::cuda
