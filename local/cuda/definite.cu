#include "quarry/local/cuda/definite.h"

#include <algorithm>

#include "quarry/local/base/sizes.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/definite.cuh"
#include "quarry/local/cuda/triangles.h"

namespace quarry::local::cuda {
namespace {

// Columns up to which strips solve for all rows below them; of more, rows behind are solved for by all at once.
constexpr int64_t kTall = 2048;

// V of A = V V^H in place, for the lower triangle of a view whose lines are rows or columns.
template <class T>
class Definite {
 public:
  Definite(const Cholesky& task, int64_t p, void* scratch, cublasHandle_t handle)
      : dtype_(task.dtype),
        a_(lower_of(task.triangle, matrix_view(task.a, p, task.dtype))),
        info_(task.info + p),
        blocks_(static_cast<int32_t*>(scratch)),
        handle_(handle) {
    QUARRY_CUDA_CALL(cublasGetStream(handle_, &stream_));
  }

  void run() {
    QUARRY_CUDA_CALL(cudaMemsetAsync(info_, 0, sizeof *info_, stream_));
    QUARRY_CUDA_CALL(cudaMemsetAsync(blocks_, 0, static_cast<size_t>(scratch_bytes(a_.rows)), stream_));
    decompose(0, a_.rows);
  }
  static int64_t scratch_bytes(int64_t n) { return divided_up(n, kWidth) * static_cast<int64_t>(sizeof(int32_t)); }

 private:
  static constexpr int64_t kWidth = kDefiniteColumns<T>;

  // U^H U = A is V V^H = A^T of V = U^T.
  static MatrixView lower_of(Triangle triangle, const MatrixView& a) {
    return triangle == Triangle::lower ? a : transposed(a);
  }

  // The matrix of rows and columns [begin, end). By halves of a whole number of strips.
  void decompose(int64_t begin, int64_t end) {
    if (end - begin <= kTall) return decompose_columns(begin, end, end);
    const int64_t middle = middle_of(begin, end);
    decompose(begin, middle);
    const MatrixView below = part(middle, end, begin, middle);
    // x V^H = a is conj(V) x^T = a^T.
    solve_by_products({dtype_, part(begin, middle, begin, middle), transposed(below), /*is_lower=*/true,
                       /*unit_diagonal=*/false, /*conjugates=*/is_complex_v<T>},
                      handle_);
    for (int64_t first = middle; first < end; first += kTall)
      subtract_products(begin, middle, first, std::min(first + kTall, end), end);
    decompose(middle, end);
  }

  // Columns [begin, end) with their rows from `begin` up to `rows` (Toledo 1997, as the LU of panels).
  void decompose_columns(int64_t begin, int64_t end, int64_t rows) {
    if (end - begin <= kWidth) return decompose_strip(begin, end, rows);
    const int64_t middle = middle_of(begin, end);
    decompose_columns(begin, middle, rows);
    subtract_products(begin, middle, middle, end, rows);
    decompose_columns(middle, end, rows);
  }

  static int64_t middle_of(int64_t begin, int64_t end) {
    return begin + divided_up(divided_up(end - begin, kWidth), 2) * kWidth;
  }

  // From columns [begin, end) and their rows up to `rows`, also of the other triangle, what columns [first, last) give.
  void subtract_products(int64_t first, int64_t last, int64_t begin, int64_t end, int64_t rows) {
    blas_product({dtype_, /*alpha=*/-1, part(begin, rows, first, last), transposed(part(begin, end, first, last)),
                  /*beta=*/1, part(begin, rows, begin, end), /*conjugate_a=*/false, /*conjugate_b=*/is_complex_v<T>},
                 {}, handle_);
  }

  void decompose_strip(int64_t begin, int64_t end, int64_t rows) {
    const DefiniteStrip<T> strip{static_cast<T*>(part(begin, rows, begin, end).data),
                                 a_.row_stride,
                                 a_.column_stride,
                                 rows - begin,
                                 static_cast<int>(end - begin),
                                 begin,
                                 info_,
                                 blocks_ + begin / kWidth};
    constexpr size_t kBytes = sizeof(DefiniteShared<T>);
    allow_launch_memory(reinterpret_cast<const void*>(definite_kernel<T>), kBytes);
    const int64_t blocks = std::max<int64_t>(divided_up(rows - end, kDefiniteRows<T>), 1);
    definite_kernel<T><<<static_cast<unsigned>(blocks), kDefiniteThreads, kBytes, stream_>>>(strip);
    check(cudaGetLastError(), "Cholesky's decomposition of a strip");
  }

  MatrixView part(int64_t row, int64_t last_row, int64_t column, int64_t last_column) const {
    return part_of(a_, dtype_, row, last_row - row, column, last_column - column);
  }

  const DType dtype_;
  const MatrixView a_;
  int32_t *const info_, *const blocks_;
  const cublasHandle_t handle_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

bool decomposes_by_strips(const Cholesky& task) {
  constexpr int64_t kLeast = 64;
  return task.a.rows >= kLeast;
}

int64_t definite_scratch_bytes(const Cholesky& task) {
  return with_number(task.dtype, [&]<class T>(T) { return Definite<T>::scratch_bytes(task.a.rows); });
}

void decompose_definite(const Cholesky& task, int64_t p, void* scratch, cublasHandle_t handle) {
  with_number(task.dtype, [&]<class T>(T) { Definite<T>(task, p, scratch, handle).run(); });
}

}  // namespace quarry::local::cuda
