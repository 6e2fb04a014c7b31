// Eigenvalues and eigenvectors of one symmetric tridiagonal matrix of float64 in device memory.
#pragma once

#include <cstdint>

#include "quarry/local/cuda/stream.h"

namespace quarry::local::cuda {

// Scratch of the functions below, in device memory: 16 n bytes, and two matrices of n x n and about 120 n bytes.
int64_t tridiagonal_values_scratch_bytes(int64_t n);
int64_t tridiagonal_vectors_scratch_bytes(int64_t n);

// Eigenvalues, ascending, of the matrix with diagonal d (n) and off-diagonal e (n - 1); both stay as they are. Their
// absolute errors are about the last place of the largest one. NaN where an element is not finite. All pointers are
// device memory; info, one number, becomes 0. Queues work and returns; the same bits at every call.
void tridiagonal_values(int64_t n, const double* d, const double* e, double* values, void* scratch, int32_t* info,
                        CudaStream& stream);
// The same with the eigenvectors, of length 1, in the columns of z (n x n, by columns without gaps). The stream's
// cuBLAS handle has a workspace, whose size decides the bits. info becomes more than 0 if something did not converge.
// Blocks: between its merges the host decides which vectors stay.
void tridiagonal_vectors(int64_t n, const double* d, const double* e, double* values, double* z, void* scratch,
                         int32_t* info, CudaStream& stream);

}  // namespace quarry::local::cuda
