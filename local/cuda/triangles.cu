#include "quarry/local/cuda/triangles.h"

#include <utility>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/triangles.cuh"

namespace quarry::local::cuda {
namespace {

template <class T>
void substitute_rows(const Triangular& task, int64_t begin, int64_t end, cudaStream_t stream) {
  // An upper triangle from its last row on.
  const int64_t first = task.is_lower ? begin : end - 1, sign = task.is_lower ? 1 : -1;
  const MatrixView m = part_of(task.m, task.dtype, first, 1, first, 1), b = part_of(task.b, task.dtype, first, 1, 0, 1);
  const TriangleTask<T> own{static_cast<const T*>(m.data),
                            sign * m.row_stride,
                            sign * m.column_stride,
                            task.conjugates,
                            task.unit_diagonal,
                            static_cast<int>(end - begin),
                            static_cast<T*>(b.data),
                            sign * b.row_stride,
                            b.column_stride,
                            task.b.columns};
  constexpr size_t kBytes = sizeof(TriangleShared<T>);
  allow_launch_memory(reinterpret_cast<const void*>(triangle_kernel<T>), kBytes);
  const auto blocks = static_cast<unsigned>((task.b.columns + kLanes - 1) / kLanes);
  triangle_kernel<T><<<blocks, kTriangleThreads, kBytes, stream>>>(own);
  check(cudaGetLastError(), "solving by a triangle");
}

template <class T>
void solve_rows(const Triangular& task, int64_t begin, int64_t end, cublasHandle_t handle, cudaStream_t stream) {
  constexpr int64_t kMost = kTriangleRows<T>;
  const int64_t blocks = (end - begin + kMost - 1) / kMost;
  if (blocks <= 1) return substitute_rows<T>(task, begin, end, stream);
  const int64_t middle = begin + (blocks + 1) / 2 * kMost;
  std::pair first{begin, middle}, second{middle, end};
  if (!task.is_lower) std::swap(first, second);
  const int64_t known = first.second - first.first, wanted = second.second - second.first;
  solve_rows<T>(task, first.first, first.second, handle, stream);
  blas_product({task.dtype, /*alpha=*/-1, part_of(task.m, task.dtype, second.first, wanted, first.first, known),
                part_of(task.b, task.dtype, first.first, known, 0, task.b.columns), /*beta=*/1,
                part_of(task.b, task.dtype, second.first, wanted, 0, task.b.columns), task.conjugates},
               {}, handle);
  solve_rows<T>(task, second.first, second.second, handle, stream);
}

}  // namespace

bool solves_by_products(const TriangularSolve& task) {
  // On an H200, float64: 2048 rows and columns take 0.50 to 0.58 ms (cuBLAS 0.83 to 0.88), 128 rows 20 us (36).
  constexpr int64_t kLeastRows = 128, kLeastColumns = 16;
  const int64_t columns = task.from_right ? task.b.rows : task.b.columns;
  return task.a.rows >= kLeastRows && columns >= kLeastColumns;
}

Triangular triangular(const TriangularSolve& task, int64_t p) {
  Triangular result{task.dtype,
                    matrix_view(task.a, p, task.dtype),
                    matrix_view(task.b, p, task.dtype),
                    task.triangle == Triangle::lower,
                    task.unit_diagonal,
                    task.op == MatrixOp::conjugate_transpose && is_complex(task.dtype)};
  // x op(a) = b is op(a)^T x^T = b^T.
  if ((task.op == MatrixOp::none) == task.from_right) {
    result.m = transposed(result.m);
    result.is_lower = !result.is_lower;
  }
  if (task.from_right) result.b = transposed(result.b);
  return result;
}

void solve_by_products(const Triangular& task, cublasHandle_t handle) {
  if (task.b.rows == 0 || task.b.columns == 0) return;
  cudaStream_t stream = nullptr;
  QUARRY_CUDA_CALL(cublasGetStream(handle, &stream));
  with_number(task.dtype, [&]<class T>(T) { solve_rows<T>(task, 0, task.m.rows, handle, stream); });
}

}  // namespace quarry::local::cuda
