#include "quarry/local/cuda/decompositions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/decomposition_bounds.h"
#include "quarry/local/cuda/definite.h"
#include "quarry/local/cuda/engine.h"
#include "quarry/local/cuda/linalg.h"
#include "quarry/local/cuda/matrix.h"
#include "quarry/local/cuda/matrix_programs.h"
#include "quarry/local/cuda/small_matrices.h"
#include "quarry/local/cuda/solver_library.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/cuda/tall_lu.h"
#include "quarry/local/cuda/triangles.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/pools.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local::cuda {

using namespace solving;

namespace {

// One task's context with the library handles of its stream.
class Runner {
 public:
  explicit Runner(const ExecContext& context)
      : context_(context), stream_(current(cuda_stream(context.stream))), library_(stream_) {}

  void run(const Lu& task) {
    const MatrixStack& stack = task.a;
    const int64_t m = stack.rows, n = stack.columns, k = std::min(m, n);
    if (by_stack_kernel(task)) return lu_of_stack(task, stream_);
    if (by_small_kernel(task)) {
      return by_panels(task.dtype, n, /*sides=*/0, stream_) ? factor_by_panels(task, stream_)
                                                            : factor_small(task, stream_);
    }
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
      factor(task.dtype, m, n, matrix(stack, p, task.dtype), stack.leading(),
             reinterpret_cast<int64_t*>(pivots.at(p * k * 8)), task.info + p);
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
      factor(task.dtype, n, n, a, n, swaps, task.info + p);
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
    if (decomposes_by_strips(task)) {
      const Scratch scratch(definite_scratch_bytes(task), context_);
      with_blas(task.dtype, n, n, n, [&](cublasHandle_t blas) {
        for (int64_t p = 0; p < count; ++p) decompose_definite(task, p, scratch.data(), blas);
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
    const int64_t n = task.a.rows, rows = task.b.rows, columns = task.b.columns;
    const cublasSideMode_t side = task.from_right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
    const cublasOperation_t op = operation(task.op, task.dtype);
    const cublasDiagType_t diagonal = task.unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    const bool many = batched(task.b.count, n);
    if (!many && solves_by_products(task)) {
      with_blas(task.dtype, rows, columns, n, [&](cublasHandle_t blas) {
        for (int64_t p = 0; p < task.b.count; ++p) solve_by_products(triangular(task, p), blas);
      });
      return;
    }
    with_type(task.dtype, [&]<class T>() {
      const T one = from_real<T>(1);
      const int64_t addresses = many ? task.b.count : 0;
      const Addresses a(task.a, addresses, task.dtype, context_), b(task.b, addresses, task.dtype, context_);
      with_blas(task.dtype, rows, columns, n, [&](cublasHandle_t blas) {
        if (many) {
          QUARRY_TYPED(cublas, trsmBatched, trsmBatched, blas, side, fill_mode(task.triangle), op, diagonal,
                       narrow(rows), narrow(columns), &one, a.of<const T>(), narrow(n), b.of<T>(), narrow(rows),
                       narrow(task.b.count));
          return;
        }
        for (int64_t p = 0; p < task.b.count; ++p) {
          const auto from = static_cast<const T*>(matrix(task.a, p, task.dtype));
          const auto to = static_cast<T*>(matrix(task.b, p, task.dtype));
          QUARRY_TYPED(cublas, trsm_64, trsm_64, blas, side, fill_mode(task.triangle), op, diagonal, rows, columns,
                       &one, from, task.a.leading(), to, task.b.leading());
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
      factor_qr(task.dtype, m, n, matrix(stack, p, task.dtype), stack.leading(),
                static_cast<char*>(task.tau) + p * k * item, reinterpret_cast<int*>(info.data()));
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
    if (by_two_stages(task)) {
      const Scratch scratch(two_stage_scratch_bytes(task.dtype, task.a.rows, task.vectors), context_);
      for (int64_t p = 0; p < task.a.count; ++p) two_stage_eigh(task, p, scratch.data(), stream_);
      return;
    }
    if (task.subset) return some_eigh(task);
    if (task.a.count > 1 && by_warp_eigh(task)) return warp_jacobi_eigh(task, stream_);
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
      if (by_syevj(task, here)) {
        jacobi_eigh(task, here, a, values, task.info + p);
        continue;
      }
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

  void some_eigh(const Eigh& task) {
    const int64_t n = task.a.rows;
    const cusolverEigMode_t mode = task.vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
    const DType real = real_type(task.dtype);
    const cudaDataType type = data_type(task.dtype), values_type = data_type(real);
    EigenRange range(*task.subset, task.dtype);
    for (int64_t p = 0; p < task.a.count; ++p) {
      void* const a = matrix(task.a, p, task.dtype);
      void* const values = static_cast<char*>(task.values) + p * n * itemsize(real);
      int64_t found = 0;
      with_workspace(library_.eigh(task, 1), [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
        QUARRY_CUDA_CALL(cusolverDnXsyevdx(solver(), params(), mode, range.kind, fill_mode(task.triangle), n, type, a,
                                           n, range.lower(), range.upper(), range.first, range.last, &found,
                                           values_type, values, type, device, device_bytes, host, host_bytes,
                                           task.info + p));
      });
      stream_.synchronize();  // the library writes the count there
      const auto count = static_cast<int32_t>(found);
      QUARRY_CUDA_CALL(cudaMemcpyAsync(task.found + p, &count, sizeof count, cudaMemcpyHostToDevice, stream_.handle()));
    }
  }

  void jacobi_eigh(const Eigh& task, int64_t count, void* a, void* values, int32_t* info) {
    const int n = narrow(task.a.rows);
    const cusolverEigMode_t mode = task.vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
    const auto parameters = Library::jacobi();
    with_workspace(library_.jacobi_eigh(task, count), [&](void* work, size_t bytes, void*, size_t) {
      with_type(task.dtype, [&]<class T>() {
        QUARRY_TYPED(cusolverDn, syevjBatched, heevjBatched, solver(), mode, fill_mode(task.triangle), n,
                     static_cast<T*>(a), n, static_cast<Real<T>*>(values), static_cast<T*>(work),
                     static_cast<int>(bytes / sizeof(T)), info, parameters.get(), narrow(count));
      });
    });
  }
  void factor(DType dtype, int64_t m, int64_t n, void* a, int64_t distance, int64_t* pivots, int32_t* info) {
    if (is_tall_lu(dtype, m, n)) return factor_tall(dtype, m, n, a, distance, pivots, info);
    const cudaDataType type = data_type(dtype);
    with_workspace(library_.lu(dtype, m, n), [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
      QUARRY_CUDA_CALL(cusolverDnXgetrf(solver(), params(), m, n, type, a, distance, pivots, type, device, device_bytes,
                                        host, host_bytes, info));
    });
  }
  // By halves of columns (Toledo 1997, "Locality of reference in LU decomposition with partial pivoting"), down to
  // strips.
  void factor_tall(DType dtype, int64_t m, int64_t n, void* a, int64_t distance, int64_t* pivots, int32_t* info) {
    const int64_t width = strip_width(dtype), bytes = tall_lu_scratch_bytes(dtype, n);
    const Scratch scratch(bytes, context_);
    QUARRY_CUDA_CALL(cudaMemsetAsync(scratch.data(), 0, static_cast<size_t>(bytes), stream_.handle()));
    QUARRY_CUDA_CALL(cudaMemsetAsync(info, 0, sizeof *info, stream_.handle()));
    const auto part = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
      return part_of({a, m, n, 1, distance}, dtype, row, rows, column, columns);
    };
    with_blas(dtype, m, n, n, [&](cublasHandle_t blas) {
      const auto factor_strips = [&](const auto& self, int64_t first, int64_t last) -> void {
        if (last - first == 1) {
          factor_strip(dtype, a, m, n, distance, first, pivots, info, scratch.data(), stream_.handle());
          return;
        }
        const int64_t middle = (first + last) / 2, begin = first * width, split = middle * width;
        const int64_t left = split - begin, right = std::min(last * width, n) - split, below = m - split;
        self(self, first, middle);
        const MatrixView top = part(begin, left, split, right);
        solve_by_products({dtype, part(begin, left, begin, left), top, /*is_lower=*/true, /*unit_diagonal=*/true},
                          blas);
        if (below > 0)
          blas_product(
              {dtype, /*alpha=*/-1, part(split, below, begin, left), top, /*beta=*/1, part(split, below, split, right)},
              {}, blas);
        self(self, middle, last);
      };
      factor_strips(factor_strips, 0, (n + width - 1) / width);
    });
  }
  void solve(DType dtype, cublasOperation_t op, int64_t n, int64_t sides, const void* lu, const int64_t* pivots,
             void* b, int* info) {
    const cudaDataType type = data_type(dtype);
    QUARRY_CUDA_CALL(cusolverDnXgetrs(solver(), params(), op, n, sides, type, lu, n, pivots, type, b, n, info));
  }
  void factor_qr(DType dtype, int64_t m, int64_t n, void* a, int64_t distance, void* tau, int* info) {
    const cudaDataType type = data_type(dtype);
    with_workspace(library_.qr(dtype, m, n), [&](void* device, size_t device_bytes, void* host, size_t host_bytes) {
      QUARRY_CUDA_CALL(cusolverDnXgeqrf(solver(), params(), m, n, type, a, distance, type, tau, type, device,
                                        device_bytes, host, host_bytes, info));
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
      blas_product(
          {dtype, /*alpha=*/-1, {scaled.data(), m, n, 1, m}, {task.vh, n, n, 1, n}, /*beta=*/1, {a, m, n, 1, m}}, {},
          blas);
    });
    const MatrixView distance{gram.data(), n, n, n, 1};
    write_identities(dtype, {gram.data(), 1, n, n}, context_);
    syrk({dtype, /*alpha=*/-1, {task.u, m, n, 1, m}, /*beta=*/1, distance}, context_);
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
    factor_qr(task.dtype, m, n, task.a, m, tau.data(), reinterpret_cast<int*>(info.data()));
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
      blas_product({task.dtype,
                    /*alpha=*/1,
                    {task.a, m, n, 1, m},
                    {small.data(), n, n, 1, n},
                    /*beta=*/0,
                    {task.u, m, n, 1, m}},
                   {}, blas);
    });
  }

  // Small matrices at once, by Jacobi's method.
  void svd_of_stack(const Svd& task) {
    const bool vectors = task.u.data != nullptr, by_warp = by_warp_jacobi(task);
    const int64_t n = task.a.columns, item = itemsize(task.dtype);
    const Scratch v(vectors && !by_warp ? task.a.count * n * n * item : 0, context_),
        incomplete(sizeof(int32_t), context_);
    stream_.fill(incomplete.data(), 0, sizeof(int32_t));
    const auto flag = reinterpret_cast<int32_t*>(incomplete.data());
    if (by_warp)
      warp_jacobi_svd(task, flag, stream_);
    else
      jacobi_svd(task, v.data(), flag, stream_);
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

struct DestroySolver {
  void operator()(cusolverDnHandle_t solver) const { cusolverDnDestroy(solver); }
};

class CudaDecompositions final : public Decompositions {
 public:
  int64_t scratch_bytes(const Decomposition& request) override {
    const std::lock_guard lock(mutex_);
    if (!solver_) QUARRY_CUDA_CALL(cusolverDnCreate(solver_.out()));
    return scratch_bound(request, solver_.get());
  }
  void run(const Decomposition& request, const ExecContext& context) override {
    Runner runner(context);
    std::visit([&](const auto& task) { runner.run(task); }, request);
  }
  bool takes(const AtOnce& request, const ExecContext& context) override {
    const CudaStream& stream = cuda_stream(context.stream);
    const int64_t sides = std::holds_alternative<Solve>(request) ? std::get<Solve>(request).b.columns : 0;
    return std::visit([&](const auto& task) { return by_panels(task.dtype, task.a.rows, sides, stream); }, request);
  }
  void run_at_once(const AtOnce& request, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    if (const auto* solve = std::get_if<Solve>(&request)) return solve_by_panels(*solve, stream);
    if (const auto* factor = std::get_if<CholeskyFactor>(&request)) return cholesky_by_panels(*factor, stream);
    log_determinant_by_panels(std::get<LogDeterminant>(request), stream);
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
