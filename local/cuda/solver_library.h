// How decompositions use cuBLAS and cuSOLVER: types and names of routines, which routine takes which stack, and what
// workspace cuSOLVER wants.
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <type_traits>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/eigh/two_stage.h"
#include "quarry/local/cuda/linalg.h"
#include "quarry/local/cuda/matrix.h"
#include "quarry/local/cuda/small_matrices.h"
#include "quarry/local/cuda/stream.h"

namespace quarry::local::cuda::solving {

// Batched routines give a matrix to a few multiprocessors at most: above this extent one call per matrix, each on the
// whole GPU, is faster.
inline constexpr int64_t kMostBatched = 512;
// From this extent on singular vectors come from the polar decomposition.
inline constexpr int64_t kLeastPolar = 64;
// From this extent on so do singular values alone (QR iteration takes twice as long at 4096), and numbers of single
// precision are decomposed in double: in single most matrices of this size are refused by is_svd().
inline constexpr int64_t kLargePolar = 1024;
// gesvdp: U has as many columns as the matrix.
inline constexpr int kEconomic = 1;

// ---- Types ----

template <class T>
inline constexpr bool is_complex_v = std::is_same_v<T, cuComplex> || std::is_same_v<T, cuDoubleComplex>;
template <class T>
using Real = std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, cuComplex>, float, double>;
template <class T>
T from_real(double value) {
  if constexpr (is_complex_v<T>)
    return T{static_cast<Real<T>>(value), 0};
  else
    return static_cast<T>(value);
}

// Calls f<T>() with the libraries' type of a dtype.
template <class F>
void with_type(DType dtype, F&& f) {
  if (dtype == DType::float32) return f.template operator()<float>();
  if (dtype == DType::float64) return f.template operator()<double>();
  if (dtype == DType::complex64) return f.template operator()<cuComplex>();
  if (dtype == DType::complex128) return f.template operator()<cuDoubleComplex>();
  throw TypeError(fmt::format("linalg is not supported for dtype {}", name(dtype)));
}

// A routine that has one name per type: QUARRY_TYPED(cublas, getrsBatched, getrsBatched, handle, ...).
#define QUARRY_TYPED(library, real_name, complex_name, ...)                     \
  do {                                                                          \
    if constexpr (std::is_same_v<T, float>)                                     \
      check(library##S##real_name(__VA_ARGS__), #library "S" #real_name);       \
    else if constexpr (std::is_same_v<T, double>)                               \
      check(library##D##real_name(__VA_ARGS__), #library "D" #real_name);       \
    else if constexpr (std::is_same_v<T, cuComplex>)                            \
      check(library##C##complex_name(__VA_ARGS__), #library "C" #complex_name); \
    else                                                                        \
      check(library##Z##complex_name(__VA_ARGS__), #library "Z" #complex_name); \
  } while (false)

inline int narrow(int64_t n) {
  if (n > INT_MAX) throw NotSupported(fmt::format("an extent of {} is beyond the 32-bit sizes of cuBLAS", n));
  return static_cast<int>(n);
}
inline cublasFillMode_t fill_mode(Triangle triangle) {
  return triangle == Triangle::lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}
// The conjugate of a real matrix is itself, which not every routine knows.
inline cublasOperation_t operation(MatrixOp op, DType dtype) {
  switch (op) {
    case MatrixOp::none:
      return CUBLAS_OP_N;
    case MatrixOp::transpose:
      return CUBLAS_OP_T;
    case MatrixOp::conjugate_transpose:
      return is_complex(dtype) ? CUBLAS_OP_C : CUBLAS_OP_T;
  }
  __builtin_unreachable();
}
inline void* matrix(const MatrixStack& stack, int64_t p, DType dtype) {
  return static_cast<char*>(stack.data) + p * stack.elements() * itemsize(dtype);
}

inline DType complex_of(DType dtype) {
  return real_type(dtype) == DType::float32 ? DType::complex64 : DType::complex128;
}

struct DestroyParams {
  void operator()(cusolverDnParams_t params) const { cusolverDnDestroyParams(params); }
};
struct DestroyJacobi {
  void operator()(syevjInfo_t info) const { cusolverDnDestroySyevjInfo(info); }
};

// ---- How stacks are taken ----

inline bool batched(int64_t count, int64_t extent) { return count > 1 && extent <= kMostBatched; }
inline bool batched(const MatrixStack& a) { return a.count > 1 && a.elements() <= kMostBatched * kMostBatched; }
inline bool by_small_kernel(const Lu& task) {
  return task.a.rows == task.a.columns && task.a.rows <= most_small(task.dtype) && !task.complete;
}
inline bool by_stack_kernel(const Lu& task) {
  return batched(task.a) && (task.a.rows != task.a.columns || task.complete);
}
inline bool by_jacobi(const Svd& task) { return task.a.count > 1 && task.a.columns <= kMostJacobiColumns; }
// Of a tall matrix first the triangle: the rest of the work is then on a square one.
inline bool is_tall(int64_t m, int64_t n) {
  constexpr int64_t kTall = 2;
  return m >= kTall * n;
}
inline bool by_polar(bool vectors, int64_t u_columns, int64_t n) {
  return vectors ? u_columns == n && n >= kLeastPolar : n >= kLargePolar;
}
inline DType polar_type(DType dtype, int64_t n) {
  if (n < kLargePolar) return dtype;
  return is_complex(dtype) ? DType::complex128 : DType::float64;
}
// Several at a time, so that no offset in the library passes 32 bits.
inline int64_t at_once(const Eigh& task) {
  if (task.subset) return 1;
  constexpr int64_t kMostElements = int64_t{1} << 30;
  const int64_t n = task.a.rows;
  return batched(task.a.count, n) ? std::clamp<int64_t>(kMostElements / (n * n), 1, task.a.count) : 1;
}

inline bool by_two_stages(const Eigh& task) { return is_two_stage(task.dtype, task.a.rows, task.vectors); }
// cuSOLVER's batched Jacobi method, which gives a matrix to a block, is faster where that holds it.
inline bool by_syevj(const Eigh& task, int64_t count) {
  constexpr int64_t kMost = 32;
  return count > 1 && task.a.rows <= kMost;
}

// ---- What cuSOLVER's routines take, by shapes alone ----

struct WorkBytes {
  size_t device = 0, host = 0;
};

// What Xsyevdx is told of a subset.
struct EigenRange {
  cusolverEigRange_t kind = CUSOLVER_EIG_RANGE_I;
  int64_t first = 1, last = 1;  // numbers from 1
  double low = 0, high = 0;
  float low_single = 0, high_single = 0;
  bool is_double;

  EigenRange(const Subset& subset, DType dtype) : is_double(itemsize(real_type(dtype)) == 8) {
    if (const auto* by_index = std::get_if<ByIndex>(&subset)) {
      first = by_index->first + 1, last = by_index->last + 1;
      return;
    }
    kind = CUSOLVER_EIG_RANGE_V;
    low = std::get<ByValue>(subset).low, high = std::get<ByValue>(subset).high;
    low_single = static_cast<float>(low), high_single = static_cast<float>(high);
  }
  // In the host's memory.
  void* lower() { return is_double ? static_cast<void*>(&low) : &low_single; }
  void* upper() { return is_double ? static_cast<void*>(&high) : &high_single; }
};

class Library {
 public:
  explicit Library(cusolverDnHandle_t solver) : Library(nullptr, solver) {}
  // With the stream's handle, which is made where it is needed.
  explicit Library(CudaStream& stream) : Library(&stream, nullptr) {}
  cusolverDnHandle_t solver() const { return stream_ != nullptr ? stream_->solver() : solver_; }
  cusolverDnParams_t params() const { return params_.get(); }

  WorkBytes lu(DType dtype, int64_t m, int64_t n) const {
    const cudaDataType type = data_type(dtype);
    WorkBytes bytes;
    QUARRY_CUDA_CALL(
        cusolverDnXgetrf_bufferSize(solver(), params(), m, n, type, any(), m, type, &bytes.device, &bytes.host));
    return bytes;
  }
  WorkBytes cholesky(DType dtype, Triangle triangle, int64_t n) const {
    const cudaDataType type = data_type(dtype);
    WorkBytes bytes;
    QUARRY_CUDA_CALL(cusolverDnXpotrf_bufferSize(solver(), params(), fill_mode(triangle), n, type, any(), n, type,
                                                 &bytes.device, &bytes.host));
    return bytes;
  }
  WorkBytes qr(DType dtype, int64_t m, int64_t n) const {
    const cudaDataType type = data_type(dtype);
    WorkBytes bytes;
    QUARRY_CUDA_CALL(cusolverDnXgeqrf_bufferSize(solver(), params(), m, n, type, any(), m, type, any(), type,
                                                 &bytes.device, &bytes.host));
    return bytes;
  }
  // Elements.
  template <class T>
  int q(int64_t m, int64_t n, int64_t reflectors) const {
    int elements = 0;
    QUARRY_TYPED(cusolverDn, orgqr_bufferSize, ungqr_bufferSize, solver(), narrow(m), narrow(n), narrow(reflectors),
                 static_cast<const T*>(any()), narrow(m), static_cast<const T*>(any()), &elements);
    return elements;
  }
  WorkBytes svd(DType dtype, signed char job, int64_t m, int64_t n) const {
    const cudaDataType type = data_type(dtype), values_type = data_type(real_type(dtype));
    WorkBytes bytes;
    QUARRY_CUDA_CALL(cusolverDnXgesvd_bufferSize(solver(), params(), job, job, m, n, type, any(), m, values_type, any(),
                                                 type, any(), m, type, any(), n, type, &bytes.device, &bytes.host));
    return bytes;
  }
  WorkBytes polar_svd(DType dtype, int64_t m, int64_t n) const {
    const cudaDataType type = data_type(dtype), values_type = data_type(real_type(dtype));
    WorkBytes bytes;
    QUARRY_CUDA_CALL(cusolverDnXgesvdp_bufferSize(solver(), params(), CUSOLVER_EIG_MODE_VECTOR, kEconomic, m, n, type,
                                                  any(), m, values_type, any(), type, any(), m, type, any(), n, type,
                                                  &bytes.device, &bytes.host));
    return bytes;
  }
  // What cuSOLVER's Jacobi methods are told: its defaults, machine precision and values in order.
  static unique_handle<syevjInfo_t, DestroyJacobi> jacobi() {
    unique_handle<syevjInfo_t, DestroyJacobi> info;
    QUARRY_CUDA_CALL(cusolverDnCreateSyevjInfo(info.out()));
    return info;
  }
  WorkBytes eigh(const Eigh& task, int64_t count) const {
    if (by_syevj(task, count)) return jacobi_eigh(task, count);
    const int64_t n = task.a.rows;
    const cusolverEigMode_t mode = task.vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
    const cublasFillMode_t fill = fill_mode(task.triangle);
    const cudaDataType type = data_type(task.dtype), values_type = data_type(real_type(task.dtype));
    WorkBytes bytes;
    if (task.subset) {
      EigenRange range(*task.subset, task.dtype);
      int64_t found = 0;
      QUARRY_CUDA_CALL(cusolverDnXsyevdx_bufferSize(solver(), params(), mode, range.kind, fill, n, type, any(), n,
                                                    range.lower(), range.upper(), range.first, range.last, &found,
                                                    values_type, any(), type, &bytes.device, &bytes.host));
    } else if (count > 1)
      QUARRY_CUDA_CALL(cusolverDnXsyevBatched_bufferSize(solver(), params(), mode, fill, n, type, any(), n, values_type,
                                                         any(), type, &bytes.device, &bytes.host, count));
    else
      QUARRY_CUDA_CALL(cusolverDnXsyevd_bufferSize(solver(), params(), mode, fill, n, type, any(), n, values_type,
                                                   any(), type, &bytes.device, &bytes.host));
    return bytes;
  }
  WorkBytes jacobi_eigh(const Eigh& task, int64_t count) const {
    const int n = narrow(task.a.rows);
    const cusolverEigMode_t mode = task.vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
    const auto info = jacobi();
    int elements = 0;
    with_type(task.dtype, [&]<class T>() {
      QUARRY_TYPED(cusolverDn, syevjBatched_bufferSize, heevjBatched_bufferSize, solver(), mode,
                   fill_mode(task.triangle), n, static_cast<const T*>(any()), n, static_cast<const Real<T>*>(any()),
                   &elements, info.get(), narrow(count));
    });
    return {static_cast<size_t>(elements) * static_cast<size_t>(itemsize(task.dtype)), 0};
  }
  WorkBytes eig(DType dtype, int64_t n, bool vectors) const {
    const cudaDataType type = data_type(dtype), values_type = data_type(complex_of(dtype));
    const cusolverEigMode_t none = CUSOLVER_EIG_MODE_NOVECTOR, mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : none;
    WorkBytes bytes;
    QUARRY_CUDA_CALL(cusolverDnXgeev_bufferSize(solver(), params(), none, mode, n, type, any(), n, values_type, any(),
                                                type, nullptr, n, type, any(), n, type, &bytes.device, &bytes.host));
    return bytes;
  }

 private:
  // Stands for matrices: no routine reads them to say what it takes, but one may want them to be there.
  static void* any() { return reinterpret_cast<void*>(uintptr_t{1} << 12); }
  Library(CudaStream* stream, cusolverDnHandle_t solver) : stream_(stream), solver_(solver) {
    QUARRY_CUDA_CALL(cusolverDnCreateParams(params_.out()));
  }
  CudaStream* const stream_;
  const cusolverDnHandle_t solver_;
  unique_handle<cusolverDnParams_t, DestroyParams> params_;
};

}  // namespace quarry::local::cuda::solving
