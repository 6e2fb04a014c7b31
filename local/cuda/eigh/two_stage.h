// Eigenvalues and eigenvectors of a large symmetric matrix by two stages: products of matrices reduce it to a band,
// a chase the band to two diagonals; the eigenvectors of those are transformed back. cuSOLVER reduces in one stage,
// half of which are products of the matrix with single vectors.
//
// Bischof, Lang & Sun, "A framework for symmetric band reduction", ACM TOMS 26 (2000); Haidar, Ltaief & Dongarra,
// "Parallel reduction to condensed forms for symmetric eigenvalue problems using aggregated fine-grained and
// memory-aware kernels", SC11. Flops: 2 n^3 for the band (half of its products' results are a mirror's), 6 n^2
// kEighBand for the chase, 4 n^3 and 2 n^3 for the vectors of the chase and of the band.
#pragma once

#include <cstdint>

#include "quarry/local/cuda/stream.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {

// Whether the calling thread's device takes such a matrix, and it pays.
bool is_two_stage(DType dtype, int64_t n, bool vectors);

// Of float32 or float64, beside the matrix: with vectors three more of its size.
int64_t two_stage_scratch_bytes(DType dtype, int64_t n, bool vectors);
// Eigenvalues, ascending, of the n x n matrix a (by columns without gaps; one triangle is read), and its eigenvectors
// in its columns, or something else where they are not asked for. info becomes more than 0 if
// something did not converge. Blocks with vectors. The same bits at every call.
void two_stage_eigh(DType dtype, Triangle triangle, int64_t n, void* a, void* values, bool vectors, int32_t* info,
                    void* scratch, CudaStream& stream);

}  // namespace quarry::local::cuda
