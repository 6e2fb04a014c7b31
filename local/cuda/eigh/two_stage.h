// Eigenvalues and eigenvectors of a large symmetric matrix by two stages: products of matrices reduce it to a band,
// a chase the band to two diagonals; the eigenvectors of those are transformed back. cuSOLVER reduces in one stage,
// half of which are products of the matrix with single vectors.
//
// Bischof, Lang & Sun, "A framework for symmetric band reduction", ACM TOMS 26 (2000); Haidar, Ltaief & Dongarra,
// "Parallel reduction to condensed forms for symmetric eigenvalue problems using aggregated fine-grained and
// memory-aware kernels", SC11. Flops: 2 n^3 for the band (half of its products' results are a mirror's), 6 n^2
// kBand for the chase, 4 n^3 and 2 n^3 for the vectors of the chase and of the band.
#pragma once

#include <cstdint>

#include "quarry/local/cuda/stream.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {

// Whether the calling thread's device takes such a matrix, and it pays.
bool is_two_stage(DType dtype, int64_t n, bool vectors);

// Beside the matrix, in device memory: with vectors three of its size, each of float64, and for float32 one more.
int64_t two_stage_scratch_bytes(DType dtype, int64_t n, bool vectors);
// Matrix number p of the task, all or a subset. float32 is decomposed in float64, for which a GPU's tensor cores are as
// fast as its units for float32. Blocks with vectors, and by value. The same bits at every call.
void two_stage_eigh(const Eigh& task, int64_t p, void* scratch, CudaStream& stream);

}  // namespace quarry::local::cuda
