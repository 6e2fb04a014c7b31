// Sparse products and triangular solves by cuSPARSE's generic functions, and by kernels of our own where those are
// faster: cuSPARSE 13 takes five times the time of the memory traffic for a narrow dense matrix. A matrix is described
// anew for each call: that is host work of a few microseconds.
#include "quarry/local/cuda/sparse/sparse.h"

#include <cusparse.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/matrix.h"
#include "quarry/local/cuda/sparse/kernels.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local::cuda {
namespace {

struct DestroyDescriptor {
  void operator()(cusparseConstSpMatDescr_t matrix) const { cusparseDestroySpMat(matrix); }
  void operator()(cusparseConstDnMatDescr_t matrix) const { cusparseDestroyDnMat(matrix); }
  void operator()(cusparseConstDnVecDescr_t vector) const { cusparseDestroyDnVec(vector); }
  void operator()(cusparseSpGEMMDescr_t product) const { cusparseSpGEMM_destroyDescr(product); }
  void operator()(cusparseSpSMDescr_t solve) const { cusparseSpSM_destroyDescr(solve); }
};
template <class T>
using Descriptor = unique_handle<T, DestroyDescriptor>;
using SparseMatrix = Descriptor<cusparseSpMatDescr_t>;
using DenseMatrix = Descriptor<cusparseDnMatDescr_t>;
using DenseVector = Descriptor<cusparseDnVecDescr_t>;

cusparseIndexType_t index_type(DType index) { return index == DType::int32 ? CUSPARSE_INDEX_32I : CUSPARSE_INDEX_64I; }

SparseMatrix describe(const CompressedRows& a) {
  SparseMatrix matrix;
  const cusparseIndexType_t index = index_type(a.index);
  QUARRY_CUDA_CALL(cusparseCreateCsr(matrix.out(), a.rows, a.columns, a.nonzeros, const_cast<void*>(a.offsets),
                                     const_cast<void*>(a.indices), const_cast<void*>(a.values), index, index,
                                     CUSPARSE_INDEX_BASE_ZERO, data_type(a.dtype)));
  return matrix;
}

DenseMatrix describe(const MatrixView& m, DType dtype, cusparseOrder_t order) {
  DenseMatrix matrix;
  const bool by_rows = order == CUSPARSE_ORDER_ROW;
  const int64_t leading = by_rows ? std::max(m.row_stride, m.columns) : std::max(m.column_stride, m.rows);
  QUARRY_CUDA_CALL(cusparseCreateDnMat(matrix.out(), m.rows, m.columns, leading, m.data, data_type(dtype), order));
  return matrix;
}

DenseVector describe_vector(const MatrixView& m, DType dtype) {
  DenseVector vector;
  QUARRY_CUDA_CALL(cusparseCreateDnVec(vector.out(), m.rows, m.data, data_type(dtype)));
  return vector;
}

cusparseOperation_t operation(bool transpose) {
  return transpose ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE;
}

// 1 and 0 as cuSPARSE reads them, in host memory.
struct Factors {
  explicit Factors(DType dtype) {
    Scalar(1).store(dtype, one);
    Scalar(0).store(dtype, zero);
  }
  alignas(16) unsigned char one[16];
  alignas(16) unsigned char zero[16];
};

void multiply_vector(const SparseDenseProduct& p, cusparseHandle_t handle, const ExecContext& context) {
  const SparseMatrix a = describe(p.a);
  const DenseVector x = describe_vector(p.b, p.a.dtype), y = describe_vector(p.c, p.a.dtype);
  const Factors factors(p.a.dtype);
  const cusparseOperation_t op = operation(p.transpose);
  const cudaDataType type = data_type(p.a.dtype);
  size_t bytes = 0;
  QUARRY_CUDA_CALL(cusparseSpMV_bufferSize(handle, op, factors.one, a.get(), x.get(), factors.zero, y.get(), type,
                                           CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
  const Scratch buffer(static_cast<int64_t>(bytes), context);
  QUARRY_CUDA_CALL(cusparseSpMV(handle, op, factors.one, a.get(), x.get(), factors.zero, y.get(), type,
                                CUSPARSE_SPMV_ALG_DEFAULT, buffer.data()));
}

void multiply_transposed(const SparseDenseProduct& p, cusparseHandle_t handle, const ExecContext& context) {
  const SparseMatrix a = describe(p.a);
  const DenseMatrix b = describe(p.b, p.a.dtype, CUSPARSE_ORDER_ROW), c = describe(p.c, p.a.dtype, CUSPARSE_ORDER_ROW);
  const Factors factors(p.a.dtype);
  const cusparseOperation_t transposed = operation(true), plain = operation(false);
  const cudaDataType type = data_type(p.a.dtype);
  constexpr cusparseSpMMAlg_t kAlgorithm = CUSPARSE_SPMM_ALG_DEFAULT;
  size_t bytes = 0;
  QUARRY_CUDA_CALL(cusparseSpMM_bufferSize(handle, transposed, plain, factors.one, a.get(), b.get(), factors.zero,
                                           c.get(), type, kAlgorithm, &bytes));
  const Scratch buffer(static_cast<int64_t>(bytes), context);
  QUARRY_CUDA_CALL(cusparseSpMM(handle, transposed, plain, factors.one, a.get(), b.get(), factors.zero, c.get(), type,
                                kAlgorithm, buffer.data()));
}

// cuSPARSE has no generic function for incomplete factors, and calls those for each dtype deprecated.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct DestroyFactorisation {
  void operator()(cusparseMatDescr_t matrix) const { cusparseDestroyMatDescr(matrix); }
  void operator()(csrilu02Info_t info) const { cusparseDestroyCsrilu02Info(info); }
};

// The functions for a dtype, under one name each.
template <class T>
struct Incomplete;
#define QUARRY_INCOMPLETE(type, letter)                                        \
  template <>                                                                  \
  struct Incomplete<type> {                                                    \
    static constexpr auto kBufferSize = cusparse##letter##csrilu02_bufferSize; \
    static constexpr auto kAnalyse = cusparse##letter##csrilu02_analysis;      \
    static constexpr auto kFactorise = cusparse##letter##csrilu02;             \
  };
QUARRY_INCOMPLETE(float, S)
QUARRY_INCOMPLETE(double, D)
QUARRY_INCOMPLETE(cuComplex, C)
QUARRY_INCOMPLETE(cuDoubleComplex, Z)
#undef QUARRY_INCOMPLETE

template <class T>
int64_t factorise_incomplete(const CompressedRows& a, void* all_values, cusparseHandle_t handle,
                             const ExecContext& context) {
  unique_handle<cusparseMatDescr_t, DestroyFactorisation> matrix;  // general, counted from 0
  QUARRY_CUDA_CALL(cusparseCreateMatDescr(matrix.out()));
  unique_handle<csrilu02Info_t, DestroyFactorisation> info;
  QUARRY_CUDA_CALL(cusparseCreateCsrilu02Info(info.out()));
  auto* const values = static_cast<T*>(all_values);
  const auto* const offsets = static_cast<const int*>(a.offsets);
  const auto* const indices = static_cast<const int*>(a.indices);
  const auto n = static_cast<int>(a.rows), nonzeros = static_cast<int>(a.nonzeros);
  // Whether what has been queued found a missing or a zero pivot. Blocks.
  const auto zero_pivot = [&]() -> int64_t {
    int row = -1;
    const cusparseStatus_t status = cusparseXcsrilu02_zeroPivot(handle, info.get(), &row);
    if (status == CUSPARSE_STATUS_ZERO_PIVOT) return row;
    QUARRY_CUDA_CALL(status);
    return -1;
  };
  int bytes = 0;
  QUARRY_CUDA_CALL(
      Incomplete<T>::kBufferSize(handle, n, nonzeros, matrix.get(), values, offsets, indices, info.get(), &bytes));
  const Scratch buffer(std::max<int64_t>(bytes, 1), context);
  constexpr cusparseSolvePolicy_t kPolicy = CUSPARSE_SOLVE_POLICY_USE_LEVEL;
  QUARRY_CUDA_CALL(Incomplete<T>::kAnalyse(handle, n, nonzeros, matrix.get(), values, offsets, indices, info.get(),
                                           kPolicy, buffer.data()));
  if (const int64_t row = zero_pivot(); row >= 0) return row;
  QUARRY_CUDA_CALL(Incomplete<T>::kFactorise(handle, n, nonzeros, matrix.get(), values, offsets, indices, info.get(),
                                             kPolicy, buffer.data()));
  return zero_pivot();
}

#pragma GCC diagnostic pop

class CudaSparse final : public SparseProducts {
 public:
  void multiply(const SparseDenseProduct& p, const ExecContext& context) override {
    if (p.c.rows == 0 || p.c.columns == 0) return;
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    if (p.c.columns == 1)
      multiply_vector(p, stream.sparse(), context);
    else if (p.transpose)
      multiply_transposed(p, stream.sparse(), context);
    else
      multiply_rows(p, context);
  }

  void transpose(const SparseTranspose& task, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    if (task.a.nonzeros == 0)
      stream.fill(task.offsets, 0, (task.a.columns + 1) * itemsize(task.a.index));
    else
      transpose_rows(task, context);
  }

  void multiply_sparse(const CompressedRows& left, const CompressedRows& right, void* offsets,
                       const AllocateCompressed& allocate, const ExecContext& context) override {
    if (left.index != DType::int32 || right.index != DType::int32)
      throw NotSupported("cuSPARSE multiplies sparse matrices with int32 indices only");
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    const cusparseHandle_t handle = stream.sparse();
    const SparseMatrix a = describe(left), b = describe(right);
    SparseMatrix c = describe({left.dtype, left.index, left.rows, right.columns, 0, nullptr, nullptr, offsets});
    const Factors factors(left.dtype);
    const cusparseOperation_t op = operation(false);
    const cudaDataType type = data_type(left.dtype);
    constexpr cusparseSpGEMMAlg_t kAlgorithm = CUSPARSE_SPGEMM_DEFAULT;
    Descriptor<cusparseSpGEMMDescr_t> product;
    QUARRY_CUDA_CALL(cusparseSpGEMM_createDescr(product.out()));
    size_t estimate_bytes = 0, compute_bytes = 0;
    const auto estimate = [&](void* buffer) {
      QUARRY_CUDA_CALL(cusparseSpGEMM_workEstimation(handle, op, op, factors.one, a.get(), b.get(), factors.zero,
                                                     c.get(), type, kAlgorithm, product.get(), &estimate_bytes,
                                                     buffer));
    };
    const auto compute = [&](void* buffer) {
      QUARRY_CUDA_CALL(cusparseSpGEMM_compute(handle, op, op, factors.one, a.get(), b.get(), factors.zero, c.get(),
                                              type, kAlgorithm, product.get(), &compute_bytes, buffer));
    };
    // Each is asked for its size first, by a null buffer. Both buffers must last until the copy has run.
    estimate(nullptr);
    const Scratch first(std::max<int64_t>(1, static_cast<int64_t>(estimate_bytes)), context);
    estimate(first.data());
    compute(nullptr);
    const Scratch second(std::max<int64_t>(1, static_cast<int64_t>(compute_bytes)), context);
    compute(second.data());
    int64_t rows = 0, columns = 0, nonzeros = 0;
    QUARRY_CUDA_CALL(cusparseSpMatGetSize(c.get(), &rows, &columns, &nonzeros));
    const CompressedRoom room = allocate(nonzeros);
    QUARRY_CUDA_CALL(cusparseCsrSetPointers(c.get(), offsets, room.indices, room.values));
    QUARRY_CUDA_CALL(cusparseSpGEMM_copy(handle, op, op, factors.one, a.get(), b.get(), factors.zero, c.get(), type,
                                         kAlgorithm, product.get()));
    stream.synchronize();
  }

  void solve(const SparseTriangularSolve& s, const ExecContext& context) override {
    if (s.x.rows == 0 || s.x.columns == 0) return;
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    const cusparseHandle_t handle = stream.sparse();
    const SparseMatrix a = describe(s.a);
    cusparseFillMode_t fill = s.triangle == Triangle::lower ? CUSPARSE_FILL_MODE_LOWER : CUSPARSE_FILL_MODE_UPPER;
    cusparseDiagType_t diagonal = s.unit_diagonal ? CUSPARSE_DIAG_TYPE_UNIT : CUSPARSE_DIAG_TYPE_NON_UNIT;
    QUARRY_CUDA_CALL(cusparseSpMatSetAttribute(a.get(), CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof(fill)));
    QUARRY_CUDA_CALL(cusparseSpMatSetAttribute(a.get(), CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof(diagonal)));
    const DenseMatrix b = describe(s.b, s.a.dtype, CUSPARSE_ORDER_COL),
                      x = describe(s.x, s.a.dtype, CUSPARSE_ORDER_COL);
    const Factors factors(s.a.dtype);
    const cusparseOperation_t op = operation(s.transpose), plain = operation(false);
    const cudaDataType type = data_type(s.a.dtype);
    Descriptor<cusparseSpSMDescr_t> plan;
    QUARRY_CUDA_CALL(cusparseSpSM_createDescr(plan.out()));
    size_t bytes = 0;
    QUARRY_CUDA_CALL(cusparseSpSM_bufferSize(handle, op, plain, factors.one, a.get(), b.get(), x.get(), type,
                                             CUSPARSE_SPSM_ALG_DEFAULT, plan.get(), &bytes));
    const Scratch buffer(static_cast<int64_t>(bytes), context);
    QUARRY_CUDA_CALL(cusparseSpSM_analysis(handle, op, plain, factors.one, a.get(), b.get(), x.get(), type,
                                           CUSPARSE_SPSM_ALG_DEFAULT, plan.get(), buffer.data()));
    QUARRY_CUDA_CALL(cusparseSpSM_solve(handle, op, plain, factors.one, a.get(), b.get(), x.get(), type,
                                        CUSPARSE_SPSM_ALG_DEFAULT, plan.get()));
    // The plan's own memory goes with it.
    stream.synchronize();
  }

  int64_t factorise_incomplete(const CompressedRows& a, void* values, const ExecContext& context) override {
    if (a.rows == 0) return -1;
    if (a.index != DType::int32 || a.nonzeros > std::numeric_limits<int>::max())
      throw NotSupported("cuSPARSE makes incomplete factors of matrices with int32 indices only");
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    if (a.dtype == DType::float32) return cuda::factorise_incomplete<float>(a, values, stream.sparse(), context);
    if (a.dtype == DType::float64) return cuda::factorise_incomplete<double>(a, values, stream.sparse(), context);
    if (a.dtype == DType::complex64) return cuda::factorise_incomplete<cuComplex>(a, values, stream.sparse(), context);
    return cuda::factorise_incomplete<cuDoubleComplex>(a, values, stream.sparse(), context);
  }
};

}  // namespace

SparseProducts& cuda_sparse() {
  static auto* const instance = new CudaSparse();
  return *instance;
}

}  // namespace quarry::local::cuda
