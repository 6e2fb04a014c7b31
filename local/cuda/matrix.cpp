#include "quarry/local/cuda/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"

namespace quarry::local::cuda {
namespace {

// One row per dtype that cuBLAS multiplies: what it calls it, what it accumulates in, and the type of the factors.
struct BlasType {
  DType dtype;
  cudaDataType data;
  cublasComputeType_t compute;
  DType factor;
};
constexpr std::array kBlasTypes = {
    BlasType{DType::float16, CUDA_R_16F, CUBLAS_COMPUTE_32F, DType::float32},
    BlasType{DType::bfloat16, CUDA_R_16BF, CUBLAS_COMPUTE_32F, DType::float32},
    BlasType{DType::float32, CUDA_R_32F, CUBLAS_COMPUTE_32F, DType::float32},
    BlasType{DType::float64, CUDA_R_64F, CUBLAS_COMPUTE_64F, DType::float64},
    BlasType{DType::complex64, CUDA_C_32F, CUBLAS_COMPUTE_32F, DType::complex64},
    BlasType{DType::complex128, CUDA_C_64F, CUBLAS_COMPUTE_64F, DType::complex128},
};

const BlasType& blas_type(DType dtype) {
  for (const BlasType& row : kBlasTypes)
    if (row.dtype == dtype) return row;
  throw TypeError(fmt::format("linear algebra needs a floating-point or complex dtype, got {}", name(dtype)));
}

}  // namespace

cudaDataType data_type(DType dtype) { return blas_type(dtype).data; }

int64_t workspace_bytes(DType dtype, int64_t m, int64_t n, int64_t k) {
  // 32 MiB is what cuBLAS recommends for Hopper; small products need less.
  constexpr double kLeast = 1 << 20, kMost = 32 << 20;
  const double bytes =
      (static_cast<double>(m) * static_cast<double>(k) + static_cast<double>(k) * static_cast<double>(n) +
       static_cast<double>(m) * static_cast<double>(n)) *
      static_cast<double>(itemsize(dtype));
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::clamp(bytes, kLeast, kMost))));
}

cublasHandle_t begin_blas(CudaStream& stream, const Scratch& workspace, int64_t bytes) {
  use_device(stream.device().index);
  const cublasHandle_t handle = stream.blas();
  QUARRY_CUDA_CALL(cublasSetWorkspace(handle, workspace.data(), static_cast<size_t>(bytes)));
  return handle;
}

bool is_row_major(const MatrixView& m) {
  return m.column_stride == 1 && (m.row_stride != 1 || m.rows <= 1 || m.columns > 1);
}

int64_t leading_dimension(const MatrixView& m) {
  const bool row_major = is_row_major(m);
  const int64_t line = row_major ? m.columns : m.rows, lines = row_major ? m.rows : m.columns;
  return std::max<int64_t>({1, line, lines > 1 ? (row_major ? m.row_stride : m.column_stride) : line});
}

MatrixView transposed(const MatrixView& m) { return {m.data, m.columns, m.rows, m.column_stride, m.row_stride}; }

MatrixView matrix_view(const MatrixStack& stack, int64_t p, DType dtype) {
  return {static_cast<char*>(stack.data) + p * stack.elements() * itemsize(dtype), stack.rows, stack.columns, 1,
          stack.leading()};
}

MatrixView part_of(const MatrixView& m, DType dtype, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const int64_t elements = row * m.row_stride + column * m.column_stride;
  return {static_cast<char*>(m.data) + elements * itemsize(dtype), rows, columns, m.row_stride, m.column_stride};
}

void check_view(const MatrixView& m, const char* which) {
  const bool row_major = is_row_major(m);
  const int64_t line = row_major ? m.columns : m.rows, step = row_major ? m.row_stride : m.column_stride;
  const int64_t lines = row_major ? m.rows : m.columns;
  if ((row_major ? m.column_stride : m.row_stride) != 1 || (lines > 1 && step < line))
    throw InvalidArgument(
        fmt::format("matrix {} of shape ({}, {}) has strides ({}, {}): one must be 1 and the other at "
                    "least the length of a line",
                    which, m.rows, m.columns, m.row_stride, m.column_stride));
}

namespace {

// Whether the library is given the transpose of an operand: of a conjugated one always, since its routines conjugate
// transposes alone.
bool is_turned(const MatrixView& m, bool conjugate) { return conjugate || is_row_major(m); }

// Whether c may be seen by columns, or by rows: a vector without gaps may be seen both ways.
bool has_columns(const MatrixView& m) { return m.rows <= 1 || m.row_stride == 1; }
bool has_rows(const MatrixView& m) { return m.columns <= 1 || m.column_stride == 1; }

// c by columns, whatever is_row_major() says of it.
void column_major_product(const Gemm& task, const BatchSteps& batch, cublasHandle_t handle, DType operands) {
  const auto& [dtype, alpha, a, b, beta, c, conjugate_a, conjugate_b, precision] = task;
  const BlasType& type = blas_type(dtype);
  const cudaDataType data = data_type(operands);
  QUARRY_CHECK(precision != Precision::bf16x3);
  const bool is_tf32 = precision == Precision::tf32 && dtype == DType::float32 && operands == dtype;
  const cublasComputeType_t compute = is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : type.compute;
  const auto operation = [](const MatrixView& m, bool conjugate) {
    QUARRY_CHECK(!conjugate || has_rows(m));
    return conjugate ? CUBLAS_OP_C : is_row_major(m) ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const auto distance = [](const MatrixView& m, bool turned) {
    const int64_t line = turned ? m.columns : m.rows, lines = turned ? m.rows : m.columns;
    return std::max<int64_t>({1, line, lines > 1 ? (turned ? m.row_stride : m.column_stride) : line});
  };
  const int64_t lda = distance(a, is_turned(a, conjugate_a)), ldb = distance(b, is_turned(b, conjugate_b));
  const int64_t ldc = distance(c, /*turned=*/false);
  alignas(16) unsigned char factors[2][16];
  Scalar(alpha).store(type.factor, factors[0]);
  Scalar(beta).store(type.factor, factors[1]);
  if (batch.count == 1) {
    QUARRY_CUDA_CALL(cublasGemmEx_64(handle, operation(a, conjugate_a), operation(b, conjugate_b), c.rows, c.columns,
                                     a.columns, factors[0], a.data, data, lda, b.data, data, ldb, factors[1], c.data,
                                     type.data, ldc, compute, CUBLAS_GEMM_DEFAULT));
  } else {
    QUARRY_CUDA_CALL(cublasGemmStridedBatchedEx_64(handle, operation(a, conjugate_a), operation(b, conjugate_b), c.rows,
                                                   c.columns, a.columns, factors[0], a.data, data, lda, batch.a, b.data,
                                                   data, ldb, batch.b, factors[1], c.data, type.data, ldc, batch.c,
                                                   batch.count, compute, CUBLAS_GEMM_DEFAULT));
  }
}

}  // namespace

void blas_product(const Gemm& given, const BatchSteps& batch, cublasHandle_t handle, std::optional<DType> operands) {
  Gemm task = given;
  const DType of_operands = operands.value_or(task.dtype);
  if (!is_complex(task.dtype)) task.conjugate_a = task.conjugate_b = false;
  bool by_rows = is_row_major(task.c);
  if ((task.conjugate_a || task.conjugate_b) && has_rows(task.c) && has_columns(task.c))
    by_rows = !has_rows(task.conjugate_a ? task.a : task.b);
  if (by_rows) {  // c^T = b^T a^T, by columns
    column_major_product({task.dtype, task.alpha, transposed(task.b), transposed(task.a), task.beta, transposed(task.c),
                          task.conjugate_b, task.conjugate_a, task.precision},
                         {batch.count, batch.b, batch.a, batch.c}, handle, of_operands);
  } else {
    column_major_product(task, batch, handle, of_operands);
  }
}

}  // namespace quarry::local::cuda
