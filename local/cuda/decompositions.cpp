#include "quarry/local/cuda/decompositions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <limits>
#include <mutex>
#include <type_traits>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/engine.h"
#include "quarry/local/cuda/linalg.h"
#include "quarry/local/cuda/matrix.h"
#include "quarry/local/cuda/small_matrices.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/pools.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local::cuda {
namespace {

// Batched routines give a matrix to a few multiprocessors at most: above this extent one call per matrix, each on the
// whole GPU, is faster.
constexpr int64_t kMostBatched = 512;
// From this extent on singular vectors come from the polar decomposition.
constexpr int64_t kLeastPolar = 64;
// From this extent on so do singular values alone (QR iteration takes twice as long at 4096), and numbers of single
// precision are decomposed in double: in single most matrices of this size are refused by is_svd().
constexpr int64_t kLargePolar = 1024;
// gesvdp: U has as many columns as the matrix.
constexpr int kEconomic = 1;

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

int narrow(int64_t n) {
  if (n > INT_MAX) throw NotSupported(fmt::format("an extent of {} is beyond the 32-bit sizes of cuBLAS", n));
  return static_cast<int>(n);
}
cublasFillMode_t fill_mode(Triangle triangle) {
  return triangle == Triangle::lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}
// The conjugate of a real matrix is itself, which not every routine knows.
cublasOperation_t operation(MatrixOp op, DType dtype) {
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
void* matrix(const MatrixStack& stack, int64_t p, DType dtype) {
  return static_cast<char*>(stack.data) + p * stack.elements() * itemsize(dtype);
}

DType complex_of(DType dtype) { return real_type(dtype) == DType::float32 ? DType::complex64 : DType::complex128; }

struct DestroyParams {
  void operator()(cusolverDnParams_t params) const { cusolverDnDestroyParams(params); }
};
struct DestroySolver {
  void operator()(cusolverDnHandle_t solver) const { cusolverDnDestroy(solver); }
};

// ---- Elementwise work around the libraries' calls ----

// to = from over `shape`, conjugated or converted where asked; strides in elements of each.
void copy_strided(DType from_type, DType to_type, const Dims& shape, const void* from, const Dims& from_strides,
                  void* to, const Dims& to_strides, bool conjugate, const ExecContext& context) {
  Program program;
  ValueId x = program.input(from_type);
  if (conjugate && is_complex(from_type)) x = program.apply("conjugate"_op, std::array{x});
  program.output(program.cast(x, to_type));
  Launch launch;
  launch.shape = shape;
  const auto in_bytes = [](Dims strides, DType dtype) {
    for (int64_t& stride : strides) stride *= itemsize(dtype);
    return strides;
  };
  launch.inputs.push_back({const_cast<void*>(from), in_bytes(from_strides, from_type)});
  launch.outputs.push_back({to, in_bytes(to_strides, to_type)});
  cuda_engine().run(program, launch, context);
}
void convert(DType from_type, const void* from, DType to_type, void* to, int64_t count, const ExecContext& context) {
  copy_strided(from_type, to_type, {count}, from, {1}, to, {1}, false, context);
}
// Upper triangles of `count` matrices of columns x columns, zeros below: R of what Qr left.
void copy_upper(DType dtype, const MatrixStack& from, void* to, const ExecContext& context) {
  const int64_t n = from.columns;
  Program program;
  const ValueId x = program.input(dtype);
  const ValueId inside = program.apply("less_equal"_op, std::array{program.index(2), program.index(1)});
  program.output(program.apply("where"_op, std::array{inside, x, program.constant(Scalar(0), dtype)}));
  const int64_t item = itemsize(dtype);
  Launch launch;
  launch.shape = {from.count, n, n};  // matrix, column, row
  launch.inputs.push_back({from.data, {from.elements() * item, from.rows * item, item}});
  launch.outputs.push_back({to, {n * n * item, n * item, item}});
  cuda_engine().run(program, launch, context);
}
void write_identities(DType dtype, const MatrixStack& to, const ExecContext& context) {
  Program program;
  program.output(program.cast(program.apply("equal"_op, std::array{program.index(1), program.index(2)}), dtype));
  const int64_t item = itemsize(dtype);
  Launch launch;
  launch.shape = {to.count, to.columns, to.rows};
  launch.outputs.push_back({to.data, {to.elements() * item, to.rows * item, item}});
  cuda_engine().run(program, launch, context);
}
// Operands of a program over `shape` = (matrix, column, row): a matrix's elements column by column, and one number per
// column.
Operand elements_of(DType dtype, const Dims& shape, const void* data, int64_t step) {
  const int64_t item = itemsize(dtype);
  return {const_cast<void*>(data), {step * item, shape[2] * item, item}};
}
Operand column_numbers(DType dtype, const Dims& shape, const void* data) {
  const int64_t item = itemsize(dtype);
  return {const_cast<void*>(data), {shape[1] * item, item, 0}};
}
// to = a times a real number per column.
void scale_columns(DType dtype, const Dims& shape, const void* a, int64_t step, const void* factors, DType real,
                   void* to, const ExecContext& context) {
  Program program;
  const ValueId x = program.input(dtype), factor = program.cast(program.input(real), dtype);
  program.output(program.apply("multiply"_op, std::array{x, factor}));
  Launch launch;
  launch.shape = shape;
  launch.inputs.push_back(elements_of(dtype, shape, a, step));
  launch.inputs.push_back(column_numbers(real, shape, factors));
  launch.outputs.push_back(elements_of(dtype, shape, to, shape[1] * shape[2]));
  cuda_engine().run(program, launch, context);
}
// a times f / |f|, where f, one per column, has about the length 1 or 0; those of 0 leave their column alone.
void turn_columns(DType dtype, const Dims& shape, void* a, int64_t step, const void* factors,
                  const ExecContext& context) {
  const DType real = real_type(dtype);
  Program program;
  const ValueId x = program.input(dtype), factor = program.input(dtype);
  const ValueId size = program.apply("absolute"_op, std::array{factor});
  const ValueId large = program.apply("greater"_op, std::array{size, program.constant(Scalar(0.5), real)});
  const ValueId turn = program.apply("divide"_op, std::array{factor, program.cast(size, dtype)});
  const ValueId turned = program.apply("multiply"_op, std::array{x, turn});
  program.output(program.apply("where"_op, std::array{large, turned, x}));
  Launch launch;
  launch.shape = shape;
  launch.inputs.push_back(elements_of(dtype, shape, a, step));
  launch.inputs.push_back(column_numbers(dtype, shape, factors));
  launch.outputs.push_back(elements_of(dtype, shape, a, step));
  cuda_engine().run(program, launch, context);
}
// to[p] = base + p * step, for p in [0, count).
void write_addresses(const void* base, int64_t step_bytes, int64_t count, void* to, const ExecContext& context) {
  Program program;
  const auto first = static_cast<int64_t>(reinterpret_cast<intptr_t>(base));
  const ValueId offset =
      program.apply("multiply"_op, std::array{program.index(0), program.constant(Scalar(step_bytes), DType::int64)});
  program.output(program.apply("add"_op, std::array{offset, program.constant(Scalar(first), DType::int64)}));
  Launch launch;
  launch.shape = {count};
  launch.outputs.push_back({to, {int64_t{8}}});
  cuda_engine().run(program, launch, context);
}

// The addresses of a stack's matrices in device memory, as batched routines want them.
class Addresses {
 public:
  Addresses(const void* base, int64_t step_bytes, int64_t count, const ExecContext& context)
      : scratch_(count * static_cast<int64_t>(sizeof(void*)), context) {
    if (count > 0) write_addresses(base, step_bytes, count, scratch_.data(), context);
  }
  Addresses(const MatrixStack& stack, int64_t count, DType dtype, const ExecContext& context)
      : Addresses(stack.data, stack.elements() * itemsize(dtype), count, context) {}
  Addresses(const MatrixStack& stack, DType dtype, const ExecContext& context)
      : Addresses(stack, stack.count, dtype, context) {}
  template <class T>
  T** of() const {
    return reinterpret_cast<T**>(scratch_.data());
  }

 private:
  Scratch scratch_;
};

// ---- What cuSOLVER's routines take, by shapes alone ----

struct WorkBytes {
  size_t device = 0, host = 0;
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
  WorkBytes eigh(const Eigh& task, int64_t count) const {
    const int64_t n = task.a.rows;
    const cusolverEigMode_t mode = task.vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
    const cublasFillMode_t fill = fill_mode(task.triangle);
    const cudaDataType type = data_type(task.dtype), values_type = data_type(real_type(task.dtype));
    WorkBytes bytes;
    if (count > 1)
      QUARRY_CUDA_CALL(cusolverDnXsyevBatched_bufferSize(solver(), params(), mode, fill, n, type, any(), n, values_type,
                                                         any(), type, &bytes.device, &bytes.host, count));
    else
      QUARRY_CUDA_CALL(cusolverDnXsyevd_bufferSize(solver(), params(), mode, fill, n, type, any(), n, values_type,
                                                   any(), type, &bytes.device, &bytes.host));
    return bytes;
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

// ---- How stacks are taken ----

bool batched(int64_t count, int64_t extent) { return count > 1 && extent <= kMostBatched; }
bool batched(const MatrixStack& a) { return a.count > 1 && a.elements() <= kMostBatched * kMostBatched; }
bool by_small_kernel(const Lu& task) {
  return task.a.rows == task.a.columns && task.a.rows <= most_small(task.dtype) && !task.complete;
}
bool by_stack_kernel(const Lu& task) { return batched(task.a) && (task.a.rows != task.a.columns || task.complete); }
bool by_jacobi(const Svd& task) { return task.a.count > 1 && task.a.columns <= kMostJacobiColumns; }
// Of a tall matrix first the triangle: the rest of the work is then on a square one.
bool is_tall(int64_t m, int64_t n) {
  constexpr int64_t kTall = 2;
  return m >= kTall * n;
}
bool by_polar(bool vectors, int64_t u_columns, int64_t n) {
  return vectors ? u_columns == n && n >= kLeastPolar : n >= kLargePolar;
}
DType polar_type(DType dtype, int64_t n) {
  if (n < kLargePolar) return dtype;
  return is_complex(dtype) ? DType::complex128 : DType::float64;
}
// Several at a time, so that no offset in the library passes 32 bits.
int64_t at_once(const Eigh& task) {
  constexpr int64_t kMostElements = int64_t{1} << 30;
  const int64_t n = task.a.rows;
  return batched(task.a.count, n) ? std::clamp<int64_t>(kMostElements / (n * n), 1, task.a.count) : 1;
}

// ---- The tasks ----

// One task's context with the library handles of its stream.
class Runner {
 public:
  explicit Runner(const ExecContext& context)
      : context_(context), stream_(current(cuda_stream(context.stream))), library_(stream_) {}

  void run(const Lu& task) {
    const MatrixStack& stack = task.a;
    const int64_t m = stack.rows, n = stack.columns, k = std::min(m, n);
    if (by_stack_kernel(task)) return lu_of_stack(task, stream_);
    if (by_small_kernel(task)) return factor_small(task, stream_);
    if (batched(stack)) {
      with_type(task.dtype, [&]<class T>() {
        const Addresses a(stack, task.dtype, context_);
        with_blas(task.dtype, n, n, n, [&](cublasHandle_t blas) {
          QUARRY_TYPED(cublas, getrfBatched, getrfBatched, blas, narrow(n), a.of<T>(), narrow(n), task.pivots,
                       task.info, narrow(stack.count));
        });
      });
      return;
    }
    // cuSOLVER's pivots have 64 bits.
    const Scratch pivots(stack.count * k * 8, context_);
    for (int64_t p = 0; p < stack.count; ++p)
      factor(task.dtype, m, n, matrix(stack, p, task.dtype), reinterpret_cast<int64_t*>(pivots.at(p * k * 8)),
             task.info + p);
    convert(DType::int64, pivots.data(), DType::int32, task.pivots, stack.count * k, context_);
  }

  void run(const LuSolve& task) {
    if (is_small(task)) return solve_small(task, stream_);
    const int64_t n = task.lu.rows, sides = task.b.columns;
    const cublasOperation_t op = operation(task.op, task.dtype);
    if (batched(task.b.count, n)) {
      with_type(task.dtype, [&]<class T>() {
        const Addresses a(task.lu, task.dtype, context_), b(task.b, task.dtype, context_);
        with_blas(task.dtype, n, sides, n, [&](cublasHandle_t blas) {
          int status = 0;
          QUARRY_TYPED(cublas, getrsBatched, getrsBatched, blas, op, narrow(n), narrow(sides), a.of<const T>(),
                       narrow(n), task.pivots, b.of<T>(), narrow(n), &status, narrow(task.b.count));
          if (status != 0) throw DeviceError(fmt::format("cublas getrsBatched: argument {} is wrong", -status));
        });
      });
      return;
    }
    const Scratch pivots(task.b.count * n * 8, context_), info(sizeof(int), context_);
    convert(DType::int32, task.pivots, DType::int64, pivots.data(), task.b.count * n, context_);
    for (int64_t p = 0; p < task.b.count; ++p)
      solve(task.dtype, op, n, sides, matrix(task.lu, p, task.dtype),
            reinterpret_cast<const int64_t*>(pivots.at(p * n * 8)), matrix(task.b, p, task.dtype),
            reinterpret_cast<int*>(info.data()));
  }

  void run(const Inverse& task) {
    const int64_t n = task.a.rows, count = task.a.count;
    if (n <= most_small(task.dtype)) return invert_small(task, stream_);
    if (batched(count, n)) {
      with_type(task.dtype, [&]<class T>() {
        const Addresses a(task.a, task.dtype, context_), out(task.out, task.dtype, context_);
        const Scratch pivots(count * n * 4, context_), info(count * 4, context_);
        const auto swaps = reinterpret_cast<int*>(pivots.data());
        with_blas(task.dtype, n, n, n, [&](cublasHandle_t blas) {
          QUARRY_TYPED(cublas, getrfBatched, getrfBatched, blas, narrow(n), a.of<T>(), narrow(n), swaps, task.info,
                       narrow(count));
          QUARRY_TYPED(cublas, getriBatched, getriBatched, blas, narrow(n), a.of<const T>(), narrow(n), swaps,
                       out.of<T>(), narrow(n), reinterpret_cast<int*>(info.data()), narrow(count));
        });
      });
      return;
    }
    write_identities(task.dtype, task.out, context_);
    const Scratch pivots(n * 8, context_), info(sizeof(int), context_);
    const auto swaps = reinterpret_cast<int64_t*>(pivots.data());
    for (int64_t p = 0; p < count; ++p) {
      void* const a = matrix(task.a, p, task.dtype);
      factor(task.dtype, n, n, a, swaps, task.info + p);
      solve(task.dtype, CUBLAS_OP_N, n, n, a, swaps, matrix(task.out, p, task.dtype),
            reinterpret_cast<int*>(info.data()));
    }
  }

  void run(const Cholesky& task) {
    const int64_t n = task.a.rows, count = task.a.count;
    if (batched(count, n)) {
      with_type(task.dtype, [&]<class T>() {
        const Addresses a(task.a, task.dtype, context_);
        QUARRY_TYPED(cusolverDn, potrfBatched, potrfBatched, solver(), fill_mode(task.triangle), narrow(n), a.of<T>(),
                     narrow(n), task.info, narrow(count));
      });
      return;
    }
    const cudaDataType type = data_type(task.dtype);
    for (int64_t p = 0; p < count; ++p) {
      void* const a = matrix(task.a, p, task.dtype);
      with_workspace(library_.cholesky(task.dtype, task.triangle, n),
                     [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
                       QUARRY_CUDA_CALL(cusolverDnXpotrf(solver(), params(), fill_mode(task.triangle), n, type, a, n,
                                                         type, device, device_bytes, host, host_bytes, task.info + p));
                     });
    }
  }

  void run(const TriangularSolve& task) {
    const int64_t n = task.a.rows, sides = task.b.columns;
    const cublasOperation_t op = operation(task.op, task.dtype);
    const cublasDiagType_t diagonal = task.unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    with_type(task.dtype, [&]<class T>() {
      const T one = from_real<T>(1);
      const bool many = batched(task.b.count, n);
      const int64_t addresses = many ? task.b.count : 0;
      const Addresses a(task.a, addresses, task.dtype, context_), b(task.b, addresses, task.dtype, context_);
      with_blas(task.dtype, n, sides, n, [&](cublasHandle_t blas) {
        if (many) {
          QUARRY_TYPED(cublas, trsmBatched, trsmBatched, blas, CUBLAS_SIDE_LEFT, fill_mode(task.triangle), op, diagonal,
                       narrow(n), narrow(sides), &one, a.of<const T>(), narrow(n), b.of<T>(), narrow(n),
                       narrow(task.b.count));
          return;
        }
        for (int64_t p = 0; p < task.b.count; ++p) {
          const auto from = static_cast<const T*>(matrix(task.a, p, task.dtype));
          const auto to = static_cast<T*>(matrix(task.b, p, task.dtype));
          QUARRY_TYPED(cublas, trsm_64, trsm_64, blas, CUBLAS_SIDE_LEFT, fill_mode(task.triangle), op, diagonal, n,
                       sides, &one, from, n, to, n);
        }
      });
    });
  }

  void run(const Qr& task) {
    const MatrixStack& stack = task.a;
    const int64_t m = stack.rows, n = stack.columns, k = std::min(m, n);
    const int64_t item = itemsize(task.dtype);
    if (batched(stack)) {
      with_type(task.dtype, [&]<class T>() {
        const Addresses a(stack, task.dtype, context_), tau(task.tau, k * item, stack.count, context_);
        with_blas(task.dtype, m, n, k, [&](cublasHandle_t blas) {
          int status = 0;
          QUARRY_TYPED(cublas, geqrfBatched, geqrfBatched, blas, narrow(m), narrow(n), a.of<T>(), narrow(m),
                       tau.of<T>(), &status, narrow(stack.count));
          if (status != 0) throw DeviceError(fmt::format("cublas geqrfBatched: argument {} is wrong", -status));
        });
      });
      return;
    }
    const Scratch info(sizeof(int), context_);
    for (int64_t p = 0; p < stack.count; ++p)
      factor_qr(task.dtype, m, n, matrix(stack, p, task.dtype), static_cast<char*>(task.tau) + p * k * item,
                reinterpret_cast<int*>(info.data()));
  }

  void run(const FormQ& task) {
    const int64_t m = task.a.rows, n = task.a.columns, item = itemsize(task.dtype);
    if (batched(task.a)) {
      const int64_t bytes = task.a.count * task.a.elements() * item;
      const Scratch factors(bytes, context_);
      stream_.copy(factors.data(), task.a.data, bytes);
      form_q(task, factors.data(), stream_);
      return;
    }
    for (int64_t p = 0; p < task.a.count; ++p)
      make_q(task.dtype, m, n, task.reflectors, matrix(task.a, p, task.dtype),
             static_cast<const char*>(task.tau) + p * task.tau_step * item);
  }

  void run(const Svd& task) {
    const int64_t m = task.a.rows, n = task.a.columns;
    if (by_jacobi(task)) return svd_of_stack(task);
    const DType real = real_type(task.dtype);
    for (int64_t p = 0; p < task.a.count; ++p) {
      Single one{task.dtype,
                 m,
                 n,
                 matrix(task.a, p, task.dtype),
                 static_cast<char*>(task.values) + p * n * itemsize(real),
                 nullptr,
                 0,
                 nullptr,
                 task.info + p};
      if (task.u.data != nullptr) {
        one.u = matrix(task.u, p, task.dtype);
        one.u_columns = task.u.columns;
        one.vh = matrix(task.vh, p, task.dtype);
      }
      if (is_tall(m, n))
        tall_svd(one);
      else
        svd_of_one(one);
    }
  }

  void run(const Eigh& task) {
    const int64_t n = task.a.rows, count = task.a.count;
    const cusolverEigMode_t mode = task.vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
    const cublasFillMode_t fill = fill_mode(task.triangle);
    const DType real = real_type(task.dtype);
    const cudaDataType type = data_type(task.dtype), values_type = data_type(real);
    const int64_t most = at_once(task);
    for (int64_t p = 0; p < count; p += most) {
      const int64_t here = std::min(most, count - p);
      void* const a = matrix(task.a, p, task.dtype);
      void* const values = static_cast<char*>(task.values) + p * n * itemsize(real);
      with_workspace(library_.eigh(task, here), [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
        if (here > 1)
          QUARRY_CUDA_CALL(cusolverDnXsyevBatched(solver(), params(), mode, fill, n, type, a, n, values_type, values,
                                                  type, device, device_bytes, host, host_bytes, task.info + p, here));
        else
          QUARRY_CUDA_CALL(cusolverDnXsyevd(solver(), params(), mode, fill, n, type, a, n, values_type, values, type,
                                            device, device_bytes, host, host_bytes, task.info + p));
      });
    }
  }

  void run(const RowOrder& task) { row_order(task, stream_); }
  void run(const ReflectionSigns& task) { reflection_signs(task, stream_); }

  // cuSOLVER has no batched routine.
  void run(const Eig& task) {
    const int64_t n = task.a.rows;
    const bool vectors = task.vectors.data != nullptr;
    const DType complex = complex_of(task.dtype);
    const cudaDataType type = data_type(task.dtype), values_type = data_type(complex);
    const cusolverEigMode_t none = CUSOLVER_EIG_MODE_NOVECTOR, mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : none;
    for (int64_t p = 0; p < task.a.count; ++p) {
      void* const a = matrix(task.a, p, task.dtype);
      void* const values = static_cast<char*>(task.values) + p * n * itemsize(complex);
      void* const right = vectors ? matrix(task.vectors, p, task.dtype) : nullptr;
      with_workspace(library_.eig(task.dtype, n, vectors),
                     [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
                       QUARRY_CUDA_CALL(cusolverDnXgeev(solver(), params(), none, mode, n, type, a, n, values_type,
                                                        values, type, nullptr, n, type, right, n, type, device,
                                                        device_bytes, host, host_bytes, task.info + p));
                     });
    }
  }

 private:
  static CudaStream& current(CudaStream& stream) {
    use_device(stream.device().index);
    return stream;
  }
  cusolverDnHandle_t solver() const { return library_.solver(); }
  cusolverDnParams_t params() const { return library_.params(); }

  template <class F>
  void with_blas(DType dtype, int64_t m, int64_t n, int64_t k, F&& call) {
    const int64_t bytes = workspace_bytes(dtype, m, n, k);
    const Scratch workspace(bytes, context_);
    call(begin_blas(stream_, workspace, bytes));
  }

  // call(device, its bytes, host, its bytes).
  template <class Call>
  void with_workspace(const WorkBytes& bytes, Call&& call) {
    const auto [device_bytes, host_bytes] = bytes;
    const Scratch device(static_cast<int64_t>(device_bytes), context_);
    if (host_bytes == 0) return call(device.data(), device_bytes, nullptr, host_bytes);
    // Pinned: Xgeev copies its matrix to and fro many times.
    const Buffer host(static_cast<int64_t>(host_bytes), default_pinned_pool(DeviceKind::cuda), /*stream=*/nullptr);
    call(device.data(), device_bytes, host.data(), host_bytes);
    stream_.synchronize();
  }

  void factor(DType dtype, int64_t m, int64_t n, void* a, int64_t* pivots, int32_t* info) {
    const cudaDataType type = data_type(dtype);
    with_workspace(library_.lu(dtype, m, n), [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
      QUARRY_CUDA_CALL(cusolverDnXgetrf(solver(), params(), m, n, type, a, m, pivots, type, device, device_bytes, host,
                                        host_bytes, info));
    });
  }
  void solve(DType dtype, cublasOperation_t op, int64_t n, int64_t sides, const void* lu, const int64_t* pivots,
             void* b, int* info) {
    const cudaDataType type = data_type(dtype);
    QUARRY_CUDA_CALL(cusolverDnXgetrs(solver(), params(), op, n, sides, type, lu, n, pivots, type, b, n, info));
  }
  void factor_qr(DType dtype, int64_t m, int64_t n, void* a, void* tau, int* info) {
    const cudaDataType type = data_type(dtype);
    with_workspace(library_.qr(dtype, m, n), [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
      QUARRY_CUDA_CALL(cusolverDnXgeqrf(solver(), params(), m, n, type, a, m, type, tau, type, device, device_bytes,
                                        host, host_bytes, info));
    });
  }
  void make_q(DType dtype, int64_t m, int64_t n, int64_t reflectors, void* a, const void* tau_data) {
    with_type(dtype, [&]<class T>() {
      const auto q = static_cast<T*>(a);
      const auto tau = static_cast<const T*>(tau_data);
      const int elements = library_.q<T>(m, n, reflectors);
      const Scratch work(static_cast<int64_t>(elements) * static_cast<int64_t>(sizeof(T)), context_),
          info(sizeof(int), context_);
      QUARRY_TYPED(cusolverDn, orgqr, ungqr, solver(), narrow(m), narrow(n), narrow(reflectors), q, narrow(m), tau,
                   reinterpret_cast<T*>(work.data()), elements, reinterpret_cast<int*>(info.data()));
    });
  }

  // One matrix of at least as many rows as columns; u has m x u_columns, vh n x n, both or none.
  struct Single {
    DType dtype;
    int64_t m, n;
    void *a, *values, *u;
    int64_t u_columns;
    void* vh;
    int32_t* info;
  };

  void svd_of_one(const Single& task) {
    if (!by_polar(task.u != nullptr, task.u_columns, task.n)) return iterated_svd(task);
    const DType dtype = task.dtype, wide = polar_type(dtype, task.n);
    const int64_t m = task.m, n = task.n, item = itemsize(wide);
    const bool converted = wide != dtype, vectors = task.u != nullptr, own = converted || !vectors;
    const Scratch a(converted ? m * n * item : 0, context_), values(converted ? n * item : 0, context_),
        u(own ? m * n * item : 0, context_), vh(own ? n * n * item : 0, context_);
    Single inner = task;
    inner.dtype = wide;
    inner.u_columns = n;
    if (own) inner.u = u.data(), inner.vh = vh.data();
    if (converted) {
      inner.a = a.data(), inner.values = values.data();
      cast_elements(dtype, task.a, wide, inner.a, m * n);
    }
    polar_svd(inner);
    if (!converted) return;
    cast_elements(real_type(wide), inner.values, real_type(dtype), task.values, n);
    if (!vectors) return;
    cast_elements(wide, inner.u, dtype, task.u, m * n);
    cast_elements(wide, inner.vh, dtype, task.vh, n * n);
  }
  void cast_elements(DType from_type, void* from, DType to_type, void* to, int64_t n) {
    copy_strided(from_type, to_type, {n}, from, {1}, to, {1}, /*conjugate=*/false, context_);
  }

  // By QR iteration.
  void iterated_svd(const Single& task) {
    const cudaDataType type = data_type(task.dtype), values_type = data_type(real_type(task.dtype));
    const int64_t m = task.m, n = task.n;
    const signed char job = task.u == nullptr ? 'N' : task.u_columns == m ? 'A' : 'S';
    with_workspace(library_.svd(task.dtype, job, m, n),
                   [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
                     QUARRY_CUDA_CALL(cusolverDnXgesvd(solver(), params(), job, job, m, n, type, task.a, m, values_type,
                                                       task.values, type, task.u, m, type, task.vh, n, type, device,
                                                       device_bytes, host, host_bytes, task.info));
                   });
  }

  // By a = W H, W with orthonormal columns, H = V diag(values) V^H: products of whole matrices in place of rotations.
  // The library perturbs a matrix that is nearly singular, so that the result is measured and QR iteration has the last
  // word.
  void polar_svd(const Single& task) {
    const cudaDataType type = data_type(task.dtype), values_type = data_type(real_type(task.dtype));
    const int64_t m = task.m, n = task.n, item = itemsize(task.dtype), bytes = m * n * item;
    const Scratch kept(bytes, context_), v(n * n * item, context_);
    stream_.copy(kept.data(), task.a, bytes);
    double perturbation = 0;
    with_workspace(
        library_.polar_svd(task.dtype, m, n), [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
          QUARRY_CUDA_CALL(cusolverDnXgesvdp(solver(), params(), CUSOLVER_EIG_MODE_VECTOR, kEconomic, m, n, type,
                                             task.a, m, values_type, task.values, type, task.u, m, type, v.data(), n,
                                             type, device, device_bytes, host, host_bytes, task.info, &perturbation));
          stream_.synchronize();
        });
    copy_strided(task.dtype, task.dtype, {n, n}, v.data(), {1, n}, task.vh, {n, 1}, /*conjugate=*/true, context_);
    if (read_int(task.info) == 0) {
      const Scratch rest(bytes, context_);
      stream_.copy(rest.data(), kept.data(), bytes);
      if (is_svd(task, rest.data())) return;
    }
    stream_.copy(task.a, kept.data(), bytes);
    iterated_svd(task);
  }

  // Whether u has orthonormal columns and u diag(values) vh is `a`, which is overwritten, by LAPACK's measures with
  // room to spare. False where there is NaN. V is orthogonal because it comes from an eigensolver. Blocks.
  bool is_svd(const Single& task, void* a) {
    const DType dtype = task.dtype, real = real_type(dtype);
    const int64_t m = task.m, n = task.n, item = itemsize(dtype);
    const Scratch scaled(m * n * item, context_), gram(n * n * item, context_);
    scale_columns(dtype, {1, n, m}, task.u, m * n, task.values, real, scaled.data(), context_);
    with_blas(dtype, m, n, n, [&](cublasHandle_t blas) {
      blas_product(dtype, /*alpha=*/-1, {scaled.data(), m, n, 1, m}, {task.vh, n, n, 1, n}, /*beta=*/1, {a, m, n, 1, m},
                   {}, blas);
    });
    const MatrixView distance{gram.data(), n, n, n, 1};
    write_identities(dtype, {gram.data(), 1, n, n}, context_);
    syrk(dtype, /*alpha=*/-1, {task.u, m, n, 1, m}, /*beta=*/1, distance, context_);
    const double epsilon =
        real == DType::float32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    constexpr double kRatio = 10;
    const double bound = kRatio * static_cast<double>(n) * epsilon;
    const double size = length_of(real, task.values, n);
    return length_of(dtype, a, m * n) <= bound * size && length_of(dtype, gram.data(), n * n) <= bound;
  }

  // The Euclidean length of a vector on the device. Blocks.
  double length_of(DType dtype, const void* x, int64_t n) {
    const DType real = real_type(dtype);
    double wide = 0;
    float narrow = 0;
    void* const result = real == DType::float32 ? static_cast<void*>(&narrow) : &wide;
    with_blas(dtype, n, 1, 1, [&](cublasHandle_t blas) {
      QUARRY_CUDA_CALL(cublasNrm2Ex_64(blas, n, x, data_type(dtype), 1, result, data_type(real), data_type(real)));
    });
    return real == DType::float32 ? static_cast<double>(narrow) : wide;
  }
  int32_t read_int(const void* device) {
    int32_t value = 0;
    QUARRY_CUDA_CALL(cudaMemcpyAsync(&value, device, sizeof value, cudaMemcpyDeviceToHost, stream_.handle()));
    stream_.synchronize();
    return value;
  }

  // a = Q R, R = U' s V^H; the first columns of u are Q U', the others those of Q.
  void tall_svd(const Single& task) {
    const int64_t m = task.m, n = task.n, item = itemsize(task.dtype);
    const Scratch tau(n * item, context_), r(n * n * item, context_), info(sizeof(int), context_);
    factor_qr(task.dtype, m, n, task.a, tau.data(), reinterpret_cast<int*>(info.data()));
    copy_upper(task.dtype, {task.a, 1, m, n}, r.data(), context_);
    const bool vectors = task.u != nullptr, full = vectors && task.u_columns > n;
    const Scratch small(vectors ? n * n * item : 0, context_);
    svd_of_one({task.dtype, n, n, r.data(), task.values, vectors ? small.data() : nullptr, n, task.vh, task.info});
    if (!vectors) return;
    if (full) {
      stream_.copy(task.u, task.a, m * n * item);
      make_q(task.dtype, m, m, n, task.u, tau.data());
      stream_.copy(task.a, task.u, m * n * item);
    } else {
      make_q(task.dtype, m, n, n, task.a, tau.data());
    }
    with_blas(task.dtype, m, n, n, [&](cublasHandle_t blas) {
      blas_product(task.dtype, /*alpha=*/1, {task.a, m, n, 1, m}, {small.data(), n, n, 1, n}, /*beta=*/0,
                   {task.u, m, n, 1, m}, {}, blas);
    });
  }

  // Small matrices at once, by Jacobi's method.
  void svd_of_stack(const Svd& task) {
    const bool vectors = task.u.data != nullptr;
    const int64_t n = task.a.columns, item = itemsize(task.dtype);
    const Scratch v(vectors ? task.a.count * n * n * item : 0, context_), incomplete(sizeof(int32_t), context_);
    stream_.fill(incomplete.data(), 0, sizeof(int32_t));
    jacobi_svd(task, v.data(), reinterpret_cast<int32_t*>(incomplete.data()), stream_);
    if (vectors && (task.u.columns > n || read_int(incomplete.data()) != 0)) complete_u(task);
  }

  // Columns of u that are 0 or not there yet, by the QR decomposition of the others: Q's columns are theirs but for a
  // factor of length 1, which is on R's diagonal.
  void complete_u(const Svd& task) {
    const int64_t m = task.a.rows, n = task.a.columns, count = task.a.count, width = task.u.columns;
    const int64_t item = itemsize(task.dtype);
    const Scratch columns(count * m * n * item, context_), factors(count * n * item, context_),
        tau(count * n * item, context_);
    const DType dtype = task.dtype;
    const auto copy = [&](const Dims& shape, const void* from, const Dims& from_strides, void* to,
                          const Dims& to_strides) {
      copy_strided(dtype, dtype, shape, from, from_strides, to, to_strides, /*conjugate=*/false, context_);
    };
    copy({count, n, m}, task.u.data, {width * m, m, 1}, columns.data(), {n * m, m, 1});
    run(Qr{dtype, {columns.data(), count, m, n}, tau.data()});
    copy({count, n}, columns.data(), {n * m, m + 1}, factors.data(), {n, 1});
    copy({count, n, m}, columns.data(), {n * m, m, 1}, task.u.data, {width * m, m, 1});
    run(FormQ{dtype, task.u, n, tau.data(), n});
    turn_columns(dtype, {count, n, m}, task.u.data, width * m, factors.data(), context_);
  }

  const ExecContext& context_;
  CudaStream& stream_;
  const Library library_;
};

// ---- Bounds ----

// The most scratch that Runner takes for a task, in the order of its methods.
class Bounds {
 public:
  explicit Bounds(const Library& library) : library_(library) {}

  int64_t of(const Lu& task) const {
    const int64_t m = task.a.rows, n = task.a.columns, count = task.a.count;
    if (by_stack_kernel(task) || by_small_kernel(task)) return 0;
    if (batched(task.a)) return addresses(count) + blas(task.dtype, n, n, n);
    return piece(count * std::min(m, n) * 8) + device(library_.lu(task.dtype, m, n));
  }
  int64_t of(const LuSolve& task) const {
    const int64_t n = task.lu.rows, sides = task.b.columns, count = task.b.count;
    if (is_small(task)) return 0;
    if (batched(count, n)) return 2 * addresses(count) + blas(task.dtype, n, sides, n);
    return piece(count * n * 8) + piece(sizeof(int));
  }
  int64_t of(const Inverse& task) const {
    const int64_t n = task.a.rows, count = task.a.count;
    if (n <= most_small(task.dtype)) return 0;
    if (batched(count, n))
      return 2 * addresses(count) + piece(count * n * 4) + piece(count * 4) + blas(task.dtype, n, n, n);
    return piece(n * 8) + piece(sizeof(int)) + device(library_.lu(task.dtype, n, n));
  }
  int64_t of(const Cholesky& task) const {
    if (batched(task.a.count, task.a.rows)) return addresses(task.a.count);
    return device(library_.cholesky(task.dtype, task.triangle, task.a.rows));
  }
  int64_t of(const TriangularSolve& task) const {
    const int64_t n = task.a.rows, count = batched(task.b.count, n) ? task.b.count : 0;
    return 2 * addresses(count) + blas(task.dtype, n, task.b.columns, n);
  }
  int64_t of(const Qr& task) const {
    const int64_t m = task.a.rows, n = task.a.columns;
    if (batched(task.a)) return 2 * addresses(task.a.count) + blas(task.dtype, m, n, std::min(m, n));
    return piece(sizeof(int)) + device(library_.qr(task.dtype, m, n));
  }
  int64_t of(const FormQ& task) const {
    if (batched(task.a)) return piece(task.a.count * task.a.elements() * itemsize(task.dtype));
    return q(task.dtype, task.a.rows, task.a.columns, task.reflectors);
  }
  int64_t of(const Svd& task) const {
    const int64_t m = task.a.rows, n = task.a.columns;
    if (by_jacobi(task)) return of_stack(task);
    const bool vectors = task.u.data != nullptr;
    if (!is_tall(m, n)) return of_one(task.dtype, m, n, vectors, task.u.columns);
    const int64_t item = itemsize(task.dtype), small = vectors ? piece(n * n * item) : 0;
    int64_t most = std::max(device(library_.qr(task.dtype, m, n)), small + of_one(task.dtype, n, n, vectors, n));
    if (vectors) {
      most = std::max({most, small + q(task.dtype, m, n, n), small + blas(task.dtype, m, n, n)});
      if (task.u.columns > n) most = std::max(most, small + q(task.dtype, m, m, n));
    }
    return piece(n * item) + piece(n * n * item) + piece(sizeof(int)) + most;
  }
  int64_t of(const Eigh& task) const {
    const int64_t most = at_once(task), rest = task.a.count % most;
    return std::max(device(library_.eigh(task, most)), rest == 0 ? 0 : device(library_.eigh(task, rest)));
  }
  int64_t of(const Eig& task) const {
    return device(library_.eig(task.dtype, task.a.rows, task.vectors.data != nullptr));
  }
  int64_t of(const RowOrder&) const { return 0; }
  int64_t of(const ReflectionSigns&) const { return 0; }

 private:
  static int64_t piece(int64_t bytes) { return bytes > 0 ? rounded_allocation(bytes) : 0; }
  static int64_t device(const WorkBytes& bytes) { return piece(static_cast<int64_t>(bytes.device)); }
  static int64_t addresses(int64_t count) { return piece(count * static_cast<int64_t>(sizeof(void*))); }
  static int64_t blas(DType dtype, int64_t m, int64_t n, int64_t k) { return piece(workspace_bytes(dtype, m, n, k)); }
  int64_t q(DType dtype, int64_t m, int64_t n, int64_t reflectors) const {
    int64_t bytes = 0;
    with_type(dtype, [&]<class T>() {
      bytes = static_cast<int64_t>(library_.q<T>(m, n, reflectors)) * static_cast<int64_t>(sizeof(T));
    });
    return piece(bytes) + piece(sizeof(int));
  }
  int64_t of_one(DType dtype, int64_t m, int64_t n, bool vectors, int64_t u_columns) const {
    const auto iterated = [&](DType type, signed char job) { return device(library_.svd(type, job, m, n)); };
    if (!by_polar(vectors, u_columns, n)) return iterated(dtype, !vectors ? 'N' : u_columns == m ? 'A' : 'S');
    const DType wide = polar_type(dtype, n);
    const int64_t item = itemsize(wide), matrix = piece(m * n * item), square = piece(n * n * item);
    const int64_t products = std::max({blas(wide, m, n, n), blas(wide, n, n, m), blas(wide, n, 1, 1),
                                       blas(wide, m * n, 1, 1), blas(wide, n * n, 1, 1)});
    const int64_t measuring = matrix + matrix + square + products;
    const int64_t converted = wide != dtype ? matrix + piece(n * item) : 0;
    const int64_t own = wide != dtype || !vectors ? matrix + square : 0;
    return converted + own + matrix + square +
           std::max({iterated(wide, n == m ? 'A' : 'S'), device(library_.polar_svd(wide, m, n)), measuring});
  }
  int64_t of_stack(const Svd& task) const {
    const int64_t m = task.a.rows, n = task.a.columns, count = task.a.count, item = itemsize(task.dtype);
    if (task.u.data == nullptr) return piece(sizeof(int32_t));
    const int64_t completing =
        std::max(of(Qr{task.dtype, {task.u.data, count, m, n}, nullptr}), of(FormQ{task.dtype, task.u, n, nullptr, n}));
    return piece(count * n * n * item) + piece(sizeof(int32_t)) + piece(count * m * n * item) +
           2 * piece(count * n * item) + completing;
  }

  const Library& library_;
};

class CudaDecompositions final : public Decompositions {
 public:
  int64_t scratch_bytes(const Decomposition& request) override {
    const std::lock_guard lock(mutex_);
    if (!solver_) QUARRY_CUDA_CALL(cusolverDnCreate(solver_.out()));
    const Library library(solver_.get());
    return std::visit([&](const auto& task) { return Bounds(library).of(task); }, request);
  }
  void run(const Decomposition& request, const ExecContext& context) override {
    Runner runner(context);
    std::visit([&](const auto& task) { runner.run(task); }, request);
  }
  int64_t eigh_scratch_bytes(DType dtype, int64_t n) override { return cuda::eigh_scratch_bytes(dtype, n); }
  void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors,
            const ExecContext& context) override {
    cuda::eigh(dtype, triangle, a, values, vectors, context);
  }

 private:
  std::mutex mutex_;
  unique_handle<cusolverDnHandle_t, DestroySolver> solver_;  // that is asked for sizes alone
};

}  // namespace

Decompositions& cuda_decompositions() {
  static auto* const instance = new CudaDecompositions();
  return *instance;
}

}  // namespace quarry::local::cuda
