// What the GPU's matrix products and decompositions share: dtypes and layouts as cuBLAS names them, and its products.
#pragma once

#include <cublas_v2.h>

#include <optional>

#include "quarry/local/cuda/stream.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/decompositions.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/products.h"

namespace quarry::local::cuda {

// Throws TypeError but for the floating-point and complex dtypes.
cudaDataType data_type(DType dtype);

// A row-major matrix is the transpose of the column-major matrix at the same address.
bool is_row_major(const MatrixView& m);
int64_t leading_dimension(const MatrixView& m);
MatrixView transposed(const MatrixView& m);
MatrixView part_of(const MatrixView& m, DType dtype, int64_t row, int64_t rows, int64_t column, int64_t columns);
// Matrix p of a stack.
MatrixView matrix_view(const MatrixStack& stack, int64_t p, DType dtype);
// Throws InvalidArgument naming the matrix unless one stride is 1 and the other reaches past a line.
void check_view(const MatrixView& m, const char* which);

// cuBLAS chooses its kernels by the workspace it is given: it depends on shapes only, so that bits do too.
int64_t workspace_bytes(DType dtype, int64_t m, int64_t n, int64_t k);
// The stream's handle with the workspace of one call; set anew each time because it comes from the call's own scratch.
cublasHandle_t begin_blas(CudaStream& stream, const Scratch& workspace, int64_t bytes);

// `count` products at these distances in elements; 0 repeats a matrix of a or b.
struct BatchSteps {
  int64_t count = 1;
  int64_t a = 0, b = 0, c = 0;
};
// For matrices of any order, each checked by check_view(). `operands`: the dtype of a and b where it is not c's:
// bfloat16, for c of float32. Of precisions, one that is in pieces is not for this function (local/cuda/pieces.h).
void blas_product(const Gemm& task, const BatchSteps& batch, cublasHandle_t handle,
                  std::optional<DType> operands = std::nullopt);

}  // namespace quarry::local::cuda
