// Kernels for stacks of small matrices where the libraries take one matrix at a time.
#pragma once

#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {

// What FormQ says, from a copy of task.a elsewhere on the device.
void form_q(const FormQ& task, const void* factors, CudaStream& stream);

// The most columns that jacobi_svd() takes.
constexpr int64_t kMostJacobiColumns = 256;
// Whether warp_jacobi_svd() takes it: what the registers of a warp hold.
constexpr bool by_warp_jacobi(const Svd& task) {
  return task.a.columns <= 32 && task.a.rows <= (task.dtype == DType::complex128 ? 16 : 32);
}
// What Svd says, but the first a.columns columns of u alone; those that belong to values of 0 are 0, and if there are
// any in the stack, *incomplete becomes 1. `work` has room for vh; without vectors it is not used.
void jacobi_svd(const Svd& task, void* work, int32_t* incomplete, CudaStream& stream);

// The same for what by_warp_jacobi() says.
void warp_jacobi_svd(const Svd& task, int32_t* incomplete, CudaStream& stream);

// What Eigh says, for few rows.
constexpr bool by_warp_eigh(const Eigh& task) { return task.a.rows <= (task.dtype == DType::complex128 ? 16 : 32); }
void warp_jacobi_eigh(const Eigh& task, CudaStream& stream);

// The most rows of the square matrices that the following two take: what the registers of a block hold. They are
// several times as fast as cuBLAS's batched routines, and as cuSOLVER's for one matrix.
constexpr int64_t most_small(DType dtype) { return dtype == DType::complex128 ? 64 : 128; }
void invert_small(const Inverse& task, CudaStream& stream);
void factor_small(const Lu& task, CudaStream& stream);
// Few sides of matrices of at most 64 rows, 32 of complex128.
constexpr bool is_small(const LuSolve& task) {
  return task.lu.rows <= (task.dtype == DType::complex128 ? 32 : 64) && task.b.columns <= 32;
}
void solve_small(const LuSolve& task, CudaStream& stream);
// Elimination in shared memory: whether the device has room for a matrix with as many right-hand sides, and the tasks.
bool by_panels(DType dtype, int64_t n, int64_t sides, const CudaStream& stream);
void factor_by_panels(const Lu& task, CudaStream& stream);
void solve_by_panels(const Solve& task, CudaStream& stream);
void cholesky_by_panels(const CholeskyFactor& task, CudaStream& stream);
void log_determinant_by_panels(const LogDeterminant& task, CudaStream& stream);
// Of matrices of any shape.
void lu_of_stack(const Lu& task, CudaStream& stream);
void row_order(const RowOrder& task, CudaStream& stream);
void reflection_signs(const ReflectionSigns& task, CudaStream& stream);

// The kernels, for the tests that compile them. row_order has no type; the larger ones are not for complex128, and
// neither are those of a warp for 32 rows.
enum class SmallMatrices : uint8_t {
  form_q,
  jacobi,
  lu,
  row_order,
  signs,
  invert,
  invert_larger,
  factor,
  factor_larger,
  solve,
  factors_32,
  factors_64,
  factors_128,
  solution_32,
  solution_64,
  solution_128,
  logarithm_32,
  logarithm_64,
  logarithm_128,
  cholesky_32,
  cholesky_64,
  cholesky_128,
  warp_jacobi_8,
  warp_jacobi_16,
  warp_jacobi_32,
  warp_eigh_16,
  warp_eigh_32
};
ModuleSource small_matrices_source(SmallMatrices kernels, DType dtype);

}  // namespace quarry::local::cuda
