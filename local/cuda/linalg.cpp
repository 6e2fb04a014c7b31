#include "quarry/local/cuda/linalg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/decompositions.h"
#include "quarry/local/cuda/engine.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/matrix.h"
#include "quarry/local/cuda/pieces.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local::cuda {
namespace {

// c = beta c, what a product without inner dimension leaves. A zero beta forgets NaNs.
void scale_matrix(DType dtype, double beta, const MatrixView& c, const ExecContext& context) {
  if (beta == 1) return;
  Program program;
  const ValueId x = program.input(dtype), factor = program.constant(Scalar(beta), dtype);
  program.output(beta == 0 ? factor : program.apply("multiply"_op, std::array{x, factor}));
  const int64_t size = itemsize(dtype);
  const Operand operand{c.data, Dims{c.row_stride * size, c.column_stride * size}};
  Launch launch;
  launch.shape = Dims{c.rows, c.columns};
  launch.inputs.push_back(operand);
  launch.outputs.push_back(operand);
  cuda_engine().run(program, launch, context);
}

// ---- Small kernels ----

// Copies one triangle of an n x n matrix onto the other, conjugated.
constexpr const char* kMirrorSource = R"cuda(
namespace quarry::local::mirror {
struct Params { int64_t s[4]; };
template <class T> QUARRY_FN T conj(T x) { return x; }
template <class T> QUARRY_FN cx<T> conj(cx<T> x) { return {x.re, -x.im}; }
// A block copies a tile of one triangle to the other: column-major, from the lower one or the upper one.
template <class T> QUARRY_FN void mirror(const Params& p) {
  __shared__ T tile[32][33];
  T* const a = reinterpret_cast<T*>(p.s[0]);
  const int64_t n = p.s[1], ld = p.s[2], tiles = (n + 31) / 32;
  const bool from_lower = p.s[3] != 0;
  const int64_t bx = blockIdx.x % tiles, by = blockIdx.x / tiles;
  if (from_lower ? by < bx : by > bx) return;
  const int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
  for (int k = 0; k < 32; k += 8) {
    const int64_t row = by * 32 + tx, column = bx * 32 + ty + k;
    if (row < n && column < n) tile[ty + k][tx] = a[row + column * ld];
  }
  __syncthreads();
  for (int k = 0; k < 32; k += 8) {
    const int64_t row = bx * 32 + tx, column = by * 32 + ty + k;
    if (row < n && column < n && (from_lower ? row < column : row > column)) a[row + column * ld] = conj(tile[tx][ty + k]);
  }
}
extern "C" __global__ void __launch_bounds__(256) mirror_2(const __grid_constant__ Params p) { mirror<uint16_t>(p); }
extern "C" __global__ void __launch_bounds__(256) mirror_4(const __grid_constant__ Params p) { mirror<float>(p); }
extern "C" __global__ void __launch_bounds__(256) mirror_8(const __grid_constant__ Params p) { mirror<double>(p); }
extern "C" __global__ void __launch_bounds__(256) mirror_c8(const __grid_constant__ Params p) { mirror<cx<float>>(p); }
extern "C" __global__ void __launch_bounds__(256) mirror_c16(const __grid_constant__ Params p) { mirror<cx<double>>(p); }
// Sets the flag if an element of the stored triangle is not finite.
template <class T> QUARRY_FN void find(const Params& p) {
  const T* const a = reinterpret_cast<const T*>(p.s[0]);
  const int64_t n = p.s[1];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x, column = blockIdx.y;
  for (int64_t c = column; c < n; c += gridDim.y)
    if (row < n && (p.s[3] != 0 ? row >= c : row <= c) && !fn::isfinite(a[row + c * n])) *reinterpret_cast<int32_t*>(p.s[2]) = 1;
}
extern "C" __global__ void __launch_bounds__(256) find_4(const __grid_constant__ Params p) { find<float>(p); }
extern "C" __global__ void __launch_bounds__(256) find_8(const __grid_constant__ Params p) { find<double>(p); }
extern "C" __global__ void __launch_bounds__(256) find_c8(const __grid_constant__ Params p) { find<cx<float>>(p); }
extern "C" __global__ void __launch_bounds__(256) find_c16(const __grid_constant__ Params p) { find<cx<double>>(p); }
}
)cuda";

const Module& helpers(int device) {
  return module_cache().get("linalg", device, [] {
    return ModuleSource{
        kMirrorSource,
        {"mirror_2", "mirror_4", "mirror_8", "mirror_c8", "mirror_c16", "find_4", "find_8", "find_c8", "find_c16"}};
  });
}

size_t mirror_kernel(DType dtype) {
  switch (itemsize(dtype)) {
    case 2:
      return 0;
    case 4:
      return 1;
    case 8:
      return is_complex(dtype) ? 3 : 2;
    default:
      return 4;
  }
}

// Of a column-major matrix.
void mirror(DType dtype, cublasFillMode_t from, void* data, int64_t n, int64_t ld, CudaStream& stream) {
  if (n < 2) return;
  constexpr int64_t kMirrorTile = 32;  // of the kernel
  const int64_t tiles = ceil_divide(n, kMirrorTile);
  std::vector<int64_t> slots = {static_cast<int64_t>(reinterpret_cast<intptr_t>(data)), n, ld,
                                from == CUBLAS_FILL_MODE_LOWER ? 1 : 0};
  launch_kernel(helpers(stream.device().index).kernel(mirror_kernel(dtype)), tiles * tiles, 1, kBlockThreads, slots,
                stream);
}

size_t find_kernel(DType dtype) {
  constexpr size_t kFirst = 5;
  switch (itemsize(dtype)) {
    case 4:
      return kFirst;
    case 8:
      return is_complex(dtype) ? kFirst + 2 : kFirst + 1;
    default:
      return kFirst + 3;
  }
}

// Copies an n x n matrix, conjugated if asked.
void copy_matrix(DType dtype, int64_t n, void* from, const Dims& from_strides, void* to, const Dims& to_strides,
                 bool conjugate, const ExecContext& context) {
  Program program;
  const ValueId x = program.input(dtype);
  program.output(conjugate ? program.apply("conjugate"_op, std::array{x}) : x);
  Launch launch;
  launch.shape = Dims{n, n};
  launch.inputs.push_back({from, from_strides});
  launch.outputs.push_back({to, to_strides});
  cuda_engine().run(program, launch, context);
}

}  // namespace

namespace {

int64_t library_bytes(const Gemm& task) {
  return workspace_bytes(task.dtype, task.a.rows, task.b.columns, task.a.columns);
}
int64_t library_bytes(const Syrk& task) {
  return workspace_bytes(task.dtype, task.a.columns, task.a.columns, task.a.rows);
}

// A product of a large matrix with its own conjugate transpose, of which one triangle need not be computed.
std::optional<Syrk> half_of(const Gemm& task) {
  constexpr int64_t kWorthwhile = 1024;
  const auto& [dtype, alpha, a, b, beta, c, conjugate_a, conjugate_b, precision] = task;
  if (!are_transposes(a, b) || a.rows < kWorthwhile || is_half(dtype)) return std::nullopt;
  if (is_complex(dtype) && conjugate_a == conjugate_b) return std::nullopt;
  // With b conjugated it is the transpose of b^H b, and what is known of c would be the upper triangle.
  if (conjugate_b && beta != 0) return std::nullopt;
  return Syrk{dtype, alpha, b, beta, conjugate_b ? transposed(c) : c, precision};
}

}  // namespace

int64_t gemm_scratch_bytes(const Gemm& task) {
  if (const auto half = half_of(task)) return syrk_scratch_bytes(*half);
  return library_bytes(task) + pieces_scratch_bytes(task, {});
}
int64_t syrk_scratch_bytes(const Syrk& task) {
  const Gemm whole{task.dtype, task.alpha, transposed(task.a), task.a, task.beta, task.c};
  return library_bytes(task) + pieces_scratch_bytes(at_precision(whole, task.precision), {});
}

void gemm(const Gemm& task, const ExecContext& context) {
  const auto& [dtype, alpha, a, b, beta, c, conjugate_a, conjugate_b, precision] = task;
  if (a.columns != b.rows || c.rows != a.rows || c.columns != b.columns)
    throw InvalidArgument(fmt::format("gemm: shapes ({}, {}) and ({}, {}) do not give ({}, {})", a.rows, a.columns,
                                      b.rows, b.columns, c.rows, c.columns));
  check_view(a, "a"), check_view(b, "b"), check_view(c, "c");
  if (c.rows == 0 || c.columns == 0) return;
  if (a.columns == 0) {
    data_type(dtype);
    return scale_matrix(dtype, beta, c, context);
  }
  if (const auto half = half_of(task)) return syrk(*half, context);
  CudaStream& stream = cuda_stream(context.stream);
  const int64_t bytes = library_bytes(task);
  const Scratch workspace(bytes, context);
  const cublasHandle_t handle = begin_blas(stream, workspace, bytes);
  product_in_pieces(task, {}, handle, context);
}

void syrk(const Syrk& task, const ExecContext& context) {
  const DType dtype = task.dtype;
  const double alpha = task.alpha, beta = task.beta;
  const MatrixView &a = task.a, &c = task.c;
  const Precision precision = task.precision;
  const int64_t n = a.columns, k = a.rows;
  if (c.rows != n || c.columns != n)
    throw InvalidArgument(
        fmt::format("syrk: a of shape ({}, {}) does not give ({}, {})", a.rows, a.columns, c.rows, c.columns));
  check_view(a, "a"), check_view(c, "c");
  data_type(dtype);  // throws for dtypes without a routine
  if (n == 0) return;
  if (k == 0) {
    return scale_matrix(dtype, beta, c, context);
  }
  CudaStream& stream = cuda_stream(context.stream);
  const int64_t bytes = library_bytes(task);
  const Scratch workspace(bytes, context);
  const cublasHandle_t handle = begin_blas(stream, workspace, bytes);
  const int64_t ld = leading_dimension(c), lda = leading_dimension(a);
  // The lower triangle of c is read; where nothing is, any may be computed.
  const bool upper_of_columns = beta != 0 && is_row_major(c);
  const cublasFillMode_t fill = upper_of_columns ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const int64_t line = upper_of_columns ? ld : 1;  // from a row of strips to the next
  // cuBLAS has no syrk in half or less than float32's precision, and splits the long sums of small results better in
  // gemm.
  constexpr int64_t kSmall = 1024;
  const bool is_rounded = dtype == DType::float32 && precision != Precision::exact;
  if (is_half(dtype) || is_rounded || (!is_complex(dtype) && n <= kSmall && k >= 8 * n)) {
    // Two strips of rows, without most of the upper triangle, where each keeps the device busy.
    constexpr int64_t kStrip = 192;
    const int64_t half = is_half(dtype) || n < 2 * kStrip ? n : (n + 1) / 2;
    const auto columns_of = [&](int64_t first, int64_t count) {
      return MatrixView{static_cast<char*>(a.data) + first * a.column_stride * itemsize(dtype), k, count, a.row_stride,
                        a.column_stride};
    };
    for (int64_t first = 0; first < n; first += half) {
      const int64_t rows = std::min(half, n - first);
      const MatrixView strip{static_cast<char*>(c.data) + first * line * itemsize(dtype), rows, first + rows, line,
                             line == 1 ? ld : 1};
      const Gemm product{dtype, alpha, transposed(columns_of(first, rows)), columns_of(0, first + rows), beta, strip};
      product_in_pieces(at_precision(product, precision), {}, handle, context);
    }
    mirror(dtype, fill, c.data, n, ld, stream);
    return;
  }
  // cuBLAS sees a row-major c as C^T = conj(C). From a column-major a its product is a^H a = C, from a row-major one
  // (a^T, column-major) it is a^T conj(a) = conj(C). Where the two differ, c is conjugated around the call.
  const bool row_major = is_row_major(a);
  const bool conjugate = is_complex(dtype) && row_major != is_row_major(c);
  const cublasOperation_t operation = row_major ? CUBLAS_OP_N : is_complex(dtype) ? CUBLAS_OP_C : CUBLAS_OP_T;
  const Dims strides{ld * itemsize(dtype), itemsize(dtype)};
  if (conjugate && beta != 0) copy_matrix(dtype, n, c.data, strides, c.data, strides, /*conjugate=*/true, context);
  const auto symmetric = [&](auto routine, auto factor, auto type) {
    const decltype(factor) alpha_t = static_cast<decltype(factor)>(alpha), beta_t = static_cast<decltype(factor)>(beta);
    using T = decltype(type);
    QUARRY_CUDA_CALL(routine(handle, fill, operation, n, k, &alpha_t, static_cast<const T*>(a.data), lda, &beta_t,
                             static_cast<T*>(c.data), ld));
  };
  if (dtype == DType::float32)
    symmetric(cublasSsyrk_64, float(), float());
  else if (dtype == DType::float64)
    symmetric(cublasDsyrk_64, double(), double());
  else if (dtype == DType::complex64)
    symmetric(cublasCherk_64, float(), cuComplex());
  else
    symmetric(cublasZherk_64, double(), cuDoubleComplex());
  mirror(dtype, fill, c.data, n, ld, stream);
  if (conjugate) copy_matrix(dtype, n, c.data, strides, c.data, strides, /*conjugate=*/true, context);
}

// ---- Symmetric eigenproblem ----

namespace {

void check_eigh_dtype(DType dtype) {
  data_type(dtype);
  if (is_half(dtype)) throw TypeError(fmt::format("array type {} is unsupported in linalg", name(dtype)));
}

// The parts of eigh's scratch beside that of the decomposition.
struct EighScratch {
  EighScratch(DType dtype, int64_t n)
      : flags(rounded_allocation(n * n * itemsize(dtype))), total(flags + kAllocationAlignment) {}
  int64_t flags, total;  // offsets; the matrix comes first
};

}  // namespace

int64_t eigh_scratch_bytes(DType dtype, int64_t n) {
  check_eigh_dtype(dtype);
  if (n == 0) return 0;
  const Eigh task{dtype, Triangle::lower, /*vectors=*/true, {nullptr, 1, n, n}, nullptr, nullptr};
  return EighScratch(dtype, n).total + cuda_decompositions().scratch_bytes(task);
}

void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors,
          const ExecContext& context) {
  check_eigh_dtype(dtype);
  const int64_t n = a.rows, size = itemsize(dtype);
  if (a.columns != n || vectors.rows != n || vectors.columns != n)
    throw InvalidArgument(
        fmt::format("eigh: a of shape ({}, {}) and vectors of shape ({}, {}) must be square and alike", a.rows,
                    a.columns, vectors.rows, vectors.columns));
  check_view(a, "a"), check_view(vectors, "vectors");
  if (n == 0) return;
  CudaStream& stream = cuda_stream(context.stream);
  use_device(stream.device().index);
  const EighScratch places(dtype, n);
  const Scratch scratch(places.total, context);

  // The solver works column by column on a copy in a's own layout: of a row-major a it sees a^T = conj(a), whose stored
  // triangle is the other one and whose eigenvectors are the conjugates.
  const bool row_major = is_row_major(a);
  const Dims row_strides{n * size, size}, column_strides{size, n * size};
  copy_matrix(dtype, n, a.data, Dims{a.row_stride * size, a.column_stride * size}, scratch.data(),
              row_major ? row_strides : column_strides, /*conjugate=*/false, context);
  const bool lower = (triangle == Triangle::lower) != row_major;

  int32_t flags[2] = {0, 0};  // an element that is not finite; the solver's info
  char* const device_flags = scratch.at(places.flags);
  stream.fill(device_flags, 0, sizeof flags);
  const auto address = [](const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); };
  constexpr int64_t kMaxColumnsAtOnce = 65535;
  std::vector<int64_t> slots = {address(scratch.data()), n, address(device_flags), lower ? 1 : 0};
  launch_kernel(helpers(stream.device().index).kernel(find_kernel(dtype)), (n + kBlockThreads - 1) / kBlockThreads,
                std::min(n, kMaxColumnsAtOnce), kBlockThreads, slots, stream);
  const auto read_flags = [&] {
    QUARRY_CUDA_CALL(cudaMemcpyAsync(flags, device_flags, sizeof flags, cudaMemcpyDeviceToHost, stream.handle()));
    stream.synchronize();
  };
  read_flags();
  if (flags[0] != 0) throw InvalidArgument("eigh: the matrix contains NaN or infinity");

  cuda_decompositions().run(Eigh{dtype,
                                 lower ? Triangle::lower : Triangle::upper,
                                 /*vectors=*/true,
                                 {scratch.data(), 1, n, n},
                                 values,
                                 reinterpret_cast<int32_t*>(device_flags) + 1},
                            context);
  read_flags();
  if (flags[1] < 0) throw DeviceError(fmt::format("eigh: argument {} of the solver is wrong", -flags[1]));
  if (flags[1] > 0) throw InvalidArgument("eigh: eigenvalues did not converge");
  copy_matrix(dtype, n, scratch.data(), column_strides, vectors.data,
              Dims{vectors.row_stride * size, vectors.column_stride * size}, is_complex(dtype) && row_major, context);
  stream.synchronize();
}

}  // namespace quarry::local::cuda
