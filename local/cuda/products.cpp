// Matrix products on the GPU. Where a or b is a vector the product is a sum over one read of the matrix: a program with
// a reduction, which runs at the memory's rate. Other floating-point products are cuBLAS's, integer ones a tiled
// kernel.
#include "quarry/local/cuda/products.h"

#include <algorithm>
#include <array>
#include <vector>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/engine.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/linalg.h"
#include "quarry/local/cuda/matrix.h"
#include "quarry/local/cuda/pieces.h"
#include "quarry/local/cuda/plan.h"

namespace quarry::local::cuda {
namespace {

// One axis of the batch after neighbours have been joined.
struct BatchAxis {
  int64_t extent;
  BatchSteps steps;  // along the axis
};

std::vector<BatchAxis> joined_axes(const MatrixProduct& p) {
  std::vector<BatchAxis> axes;
  for (int d = 0; d < p.batch.size(); ++d) {
    if (p.batch[d] == 1) continue;
    const BatchAxis axis{p.batch[d], {p.batch[d], p.a.strides[d], p.b.strides[d], p.c.strides[d]}};
    if (!axes.empty()) {
      BatchSteps& before = axes.back().steps;
      if (before.a == axis.steps.a * axis.extent && before.b == axis.steps.b * axis.extent &&
          before.c == axis.steps.c * axis.extent) {
        const int64_t extent = axes.back().extent * axis.extent;
        axes.back() = {extent, {extent, axis.steps.a, axis.steps.b, axis.steps.c}};
        continue;
      }
    }
    axes.push_back(axis);
  }
  return axes;
}

MatrixView moved(const MatrixView& m, int64_t elements, DType dtype) {
  MatrixView view = m;
  view.data = static_cast<char*>(m.data) + elements * itemsize(dtype);
  return view;
}

// Takes the longest axis of the batch out of `axes`.
BatchSteps take_longest(std::vector<BatchAxis>& axes) {
  if (axes.empty()) return {};
  const auto longest = std::max_element(axes.begin(), axes.end(),
                                        [](const BatchAxis& x, const BatchAxis& y) { return x.extent < y.extent; });
  const BatchSteps steps = longest->steps;
  axes.erase(longest);
  return steps;
}

// Calls f(a, b, c, steps) for the first matrices along the longest axis of the batch, over all other axes.
template <class F>
void for_each_run(const MatrixProduct& p, const F& f) {
  std::vector<BatchAxis> axes = joined_axes(p);
  const BatchSteps inner = take_longest(axes);
  std::vector<int64_t> position(axes.size(), 0);
  for (;;) {
    int64_t a = 0, b = 0, c = 0;
    for (size_t d = 0; d < axes.size(); ++d) {
      a += position[d] * axes[d].steps.a;
      b += position[d] * axes[d].steps.b;
      c += position[d] * axes[d].steps.c;
    }
    f(moved(p.a.matrix, a, p.dtype), moved(p.b.matrix, b, p.dtype), moved(p.c.matrix, c, p.dtype), inner);
    size_t d = axes.size();
    while (d > 0 && ++position[d - 1] == axes[d - 1].extent) position[--d] = 0;
    if (d == 0) return;
  }
}

// ---- Vectors ----

bool has_vector(const MatrixProduct& p) { return p.c.matrix.rows == 1 || p.c.matrix.columns == 1; }

// Sums of products over the last axis of (batch, results, k). 16-bit floats give float32 sums.
Program vector_program(const MatrixProduct& p) {
  const bool boolean = p.dtype == DType::bool_;
  const DType sum = is_half(p.dtype) ? DType::float32 : p.dtype;
  Program program;
  ValueId a = program.cast(program.input(p.dtype), sum);
  const ValueId b = program.cast(program.input(p.dtype), sum);
  if (p.conjugate && is_complex(p.dtype)) a = program.apply("conjugate"_op, std::array{a});
  const std::array term = {program.apply(boolean ? "logical_and"_op : "multiply"_op, std::array{a, b})};
  program.reduce(boolean ? "any"_reduction : "sum"_reduction, term, sum);
  return program;
}

Dims byte_strides(const Dims& batch, DType dtype, int64_t results, int64_t k) {
  Dims strides = batch;
  strides.push_back(results);
  strides.push_back(k);
  for (int64_t& stride : strides) stride *= itemsize(dtype);
  return strides;
}

// The launch that writes to `sums`, which has c's shape in C order where it is not c itself.
Launch vector_launch(const MatrixProduct& p, const MatrixBatch& sums, DType sum_dtype) {
  const bool column = p.c.matrix.columns == 1;
  Launch launch;
  launch.shape = p.batch;
  launch.shape.push_back(column ? p.c.matrix.rows : p.c.matrix.columns);
  launch.shape.push_back(p.a.matrix.columns);
  launch.inputs.push_back({p.a.matrix.data, byte_strides(p.a.strides, p.dtype, column ? p.a.matrix.row_stride : 0,
                                                         p.a.matrix.column_stride)});
  launch.inputs.push_back({p.b.matrix.data, byte_strides(p.b.strides, p.dtype, column ? 0 : p.b.matrix.column_stride,
                                                         p.b.matrix.row_stride)});
  launch.states.push_back(
      {sums.matrix.data,
       byte_strides(sums.strides, sum_dtype, column ? sums.matrix.row_stride : sums.matrix.column_stride, 0)});
  launch.reduce_axes = 1u << (launch.shape.size() - 1);
  return launch;
}

int64_t results(const MatrixProduct& p) { return element_count(p.batch) * p.c.matrix.rows * p.c.matrix.columns; }

MatrixBatch packed_sums(const MatrixProduct& p, void* data) {
  const int64_t rows = p.c.matrix.rows, columns = p.c.matrix.columns;
  return {{data, rows, columns, columns, 1}, contiguous_strides(p.batch, rows * columns)};
}

// A row times a large matrix whose rows are contiguous: cuBLAS reads it at the rate of the memory, a reduction along
// its columns at five sixths of that.
bool is_row_times_rows(const MatrixProduct& p) {
  constexpr int64_t kLarge = int64_t{1} << 20;
  const bool blas = p.dtype == DType::float32 || p.dtype == DType::float64 || (is_complex(p.dtype) && !p.conjugate);
  const MatrixView &a = p.a.matrix, &b = p.b.matrix, &c = p.c.matrix;
  return blas && element_count(p.batch) == 1 && c.rows == 1 && b.rows > 1 && b.columns > 1 && b.column_stride == 1 &&
         b.row_stride >= b.columns && a.column_stride >= 1 && c.column_stride >= 1 && b.rows * b.columns >= kLarge;
}

int64_t blas_scratch_bytes(const MatrixProduct& p) {
  return workspace_bytes(p.dtype, p.a.matrix.rows, p.b.matrix.columns, p.a.matrix.columns);
}

int64_t vector_scratch_bytes(const MatrixProduct& p) {
  if (is_row_times_rows(p)) return blas_scratch_bytes(p);
  if (!is_half(p.dtype)) return cuda_engine().run_scratch_bytes(vector_program(p), vector_launch(p, p.c, p.dtype));
  const Launch launch = vector_launch(p, packed_sums(p, nullptr), DType::float32);
  return rounded_allocation(results(p) * itemsize(DType::float32)) +
         cuda_engine().run_scratch_bytes(vector_program(p), launch);
}

void multiply_row_by_rows(const MatrixProduct& p, const ExecContext& context) {
  const MatrixView &a = p.a.matrix, &b = p.b.matrix, &c = p.c.matrix;
  CudaStream& stream = cuda_stream(context.stream);
  const int64_t bytes = blas_scratch_bytes(p);
  const Scratch workspace(bytes, context);
  const cublasHandle_t handle = begin_blas(stream, workspace, bytes);
  const auto multiply = [&](auto routine, auto one) {
    using T = decltype(one);
    const T zero = {};
    // cuBLAS sees the transpose.
    QUARRY_CUDA_CALL(routine(handle, CUBLAS_OP_N, b.columns, b.rows, &one, static_cast<const T*>(b.data), b.row_stride,
                             static_cast<const T*>(a.data), a.column_stride, &zero, static_cast<T*>(c.data),
                             c.column_stride));
  };
  if (p.dtype == DType::float32)
    multiply(cublasSgemv_64, 1.f);
  else if (p.dtype == DType::float64)
    multiply(cublasDgemv_64, 1.);
  else if (p.dtype == DType::complex64)
    multiply(cublasCgemv_64, cuComplex{1, 0});
  else
    multiply(cublasZgemv_64, cuDoubleComplex{1, 0});
}

void multiply_vectors(const MatrixProduct& p, const ExecContext& context) {
  if (is_row_times_rows(p)) return multiply_row_by_rows(p, context);
  const Program program = vector_program(p);
  if (!is_half(p.dtype)) return cuda_engine().run(program, vector_launch(p, p.c, p.dtype), context);
  const Scratch scratch(results(p) * itemsize(DType::float32), context);
  const MatrixBatch sums = packed_sums(p, scratch.data());
  const Launch summed = vector_launch(p, sums, DType::float32);
  cuda_engine().run(program, summed, context);
  Program rounding;
  rounding.output(rounding.cast(rounding.input(DType::float32), p.dtype));
  Launch launch;
  launch.shape = p.batch;
  launch.shape.push_back(p.c.matrix.rows);
  launch.shape.push_back(p.c.matrix.columns);
  launch.inputs.push_back({sums.matrix.data, byte_strides(sums.strides, DType::float32, sums.matrix.row_stride,
                                                          sums.matrix.column_stride)});
  launch.outputs.push_back(
      {p.c.matrix.data, byte_strides(p.c.strides, p.dtype, p.c.matrix.row_stride, p.c.matrix.column_stride)});
  cuda_engine().run(rounding, launch, context);
}

// ---- bool and integers ----

constexpr int64_t kEdge = 64;  // of an output tile, as in the kernel

constexpr const char* kIntegerSource = R"cuda(
namespace quarry::local::products {
struct Params { int64_t s[16]; };
constexpr int kEdge = 64, kStep = 16, kThreads = 256, kSide = 16, kEach = kEdge / kSide;
template <class Sum> struct Wrap { QUARRY_FN Sum add(Sum sum, Sum x, Sum y) { return sum + x * y; } };
struct Bool { QUARRY_FN uint32_t add(uint32_t sum, uint32_t x, uint32_t y) { return sum | (x & y); } };
// A block computes kEdge x kEdge results, a thread kEach x kEach of them, from strips of kStep terms in shared memory.
template <class T, class Sum, class Rule> QUARRY_FN void multiply(const Params& p) {
  __shared__ Sum as[kStep][kEdge + 1], bs[kStep][kEdge + 1];
  const int64_t m = p.s[3], n = p.s[4], depth = p.s[5];
  const int64_t a_row = p.s[6], a_column = p.s[7], b_row = p.s[8], b_column = p.s[9];
  const int64_t tiles = (n + kEdge - 1) / kEdge;
  const int64_t row0 = blockIdx.x / tiles * kEdge, column0 = blockIdx.x % tiles * kEdge;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  for (int64_t batch = blockIdx.y; batch < p.s[12]; batch += gridDim.y) {
    const T* const a = reinterpret_cast<const T*>(p.s[0]) + batch * p.s[13];
    const T* const b = reinterpret_cast<const T*>(p.s[1]) + batch * p.s[14];
    T* const c = reinterpret_cast<T*>(p.s[2]) + batch * p.s[15];
    Sum sums[kEach][kEach] = {};
    for (int64_t k = 0; k < depth; k += kStep) {
      for (int e = threadIdx.x; e < kEdge * kStep; e += kThreads) {
        // Neighbouring threads read neighbouring elements in either order of the matrix.
        const int i = a_row == 1 ? e % kEdge : e / kStep, l = a_row == 1 ? e / kEdge : e % kStep;
        as[l][i] = row0 + i < m && k + l < depth ? static_cast<Sum>(a[(row0 + i) * a_row + (k + l) * a_column]) : Sum(0);
        const int j = b_row == 1 ? e / kStep : e % kEdge, h = b_row == 1 ? e % kStep : e / kEdge;
        bs[h][j] = column0 + j < n && k + h < depth ? static_cast<Sum>(b[(k + h) * b_row + (column0 + j) * b_column]) : Sum(0);
      }
      __syncthreads();
#pragma unroll
      for (int l = 0; l < kStep; ++l) {
        Sum x[kEach], y[kEach];
#pragma unroll
        for (int r = 0; r < kEach; ++r) {
          x[r] = as[l][ty + r * kSide];
          y[r] = bs[l][tx + r * kSide];
        }
#pragma unroll
        for (int r = 0; r < kEach; ++r)
#pragma unroll
          for (int s = 0; s < kEach; ++s) sums[r][s] = Rule::add(sums[r][s], x[r], y[s]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r)
#pragma unroll
      for (int s = 0; s < kEach; ++s) {
        const int64_t i = row0 + ty + r * kSide, j = column0 + tx + s * kSide;
        if (i < m && j < n) c[i * p.s[10] + j * p.s[11]] = static_cast<T>(sums[r][s]);
      }
  }
}
#define QUARRY_PRODUCT(name, T, Sum, Rule) \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Params p) { multiply<T, Sum, Rule>(p); }
QUARRY_PRODUCT(product_bool, uint8_t, uint32_t, Bool)
QUARRY_PRODUCT(product_1, uint8_t, uint32_t, Wrap<uint32_t>)
QUARRY_PRODUCT(product_2, uint16_t, uint32_t, Wrap<uint32_t>)
QUARRY_PRODUCT(product_4, uint32_t, uint32_t, Wrap<uint32_t>)
QUARRY_PRODUCT(product_8, uint64_t, uint64_t, Wrap<uint64_t>)
}
)cuda";

size_t integer_kernel(DType dtype) {
  if (dtype == DType::bool_) return 0;
  switch (itemsize(dtype)) {
    case 1:
      return 1;
    case 2:
      return 2;
    case 4:
      return 3;
    default:
      return 4;
  }
}

void multiply_integers(const MatrixProduct& p, const ExecContext& context) {
  CudaStream& stream = cuda_stream(context.stream);
  const Module& module = module_cache().get("products", stream.device().index, integer_product_source);
  const int64_t m = p.c.matrix.rows, n = p.c.matrix.columns;
  const int64_t tiles = ((m + kEdge - 1) / kEdge) * ((n + kEdge - 1) / kEdge);
  for_each_run(p, [&](const MatrixView& a, const MatrixView& b, const MatrixView& c, const BatchSteps& steps) {
    const auto address = [](const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); };
    std::vector<int64_t> slots = {address(a.data),
                                  address(b.data),
                                  address(c.data),
                                  m,
                                  n,
                                  a.columns,
                                  a.row_stride,
                                  a.column_stride,
                                  b.row_stride,
                                  b.column_stride,
                                  c.row_stride,
                                  c.column_stride,
                                  steps.count,
                                  steps.a,
                                  steps.b,
                                  steps.c};
    constexpr int64_t kMaxRows = 65535;
    launch_kernel(module.kernel(integer_kernel(p.dtype)), tiles, std::min(steps.count, kMaxRows), kBlockThreads, slots,
                  stream);
  });
}

// ---- Floating point ----

// One of the runs' products.
Gemm gemm_of(const MatrixProduct& p, const MatrixView& a, const MatrixView& b, const MatrixView& c) {
  return at_precision({p.dtype, /*alpha=*/1, a, b, /*beta=*/0, c}, p.precision);
}

int64_t floats_scratch_bytes(const MatrixProduct& p) {
  std::vector<BatchAxis> axes = joined_axes(p);
  return blas_scratch_bytes(p) +
         pieces_scratch_bytes(gemm_of(p, p.a.matrix, p.b.matrix, p.c.matrix), take_longest(axes));
}

void multiply_floats(const MatrixProduct& p, const ExecContext& context) {
  check_view(p.a.matrix, "a"), check_view(p.b.matrix, "b"), check_view(p.c.matrix, "c");
  CudaStream& stream = cuda_stream(context.stream);
  const int64_t bytes = blas_scratch_bytes(p);
  const Scratch workspace(bytes, context);
  const cublasHandle_t handle = begin_blas(stream, workspace, bytes);
  for_each_run(p, [&](const MatrixView& a, const MatrixView& b, const MatrixView& c, const BatchSteps& steps) {
    product_in_pieces(gemm_of(p, a, b, c), steps, handle, context);
  });
}

// ---- Sliding products ----

// Sums of products over axis 0 of (taps, results). Where a's elements are missing at an end, which `edges` says, the
// terms at positions outside [low, high) of a padded stretch do not count, whatever v holds there.
Program sliding_program(DType dtype, bool edges, int64_t low, int64_t high) {
  const bool boolean = dtype == DType::bool_;
  Program program;
  const ValueId a = program.input(dtype), v = program.input(dtype);
  ValueId term = program.apply(boolean ? "logical_and"_op : "multiply"_op, std::array{a, v});
  if (edges) {
    const ValueId position = program.apply("add"_op, std::array{program.index(0), program.index(1)});
    const ValueId after =
        program.apply("greater_equal"_op, std::array{position, program.constant(Scalar(low), DType::int64)});
    const ValueId ahead = program.apply("less"_op, std::array{position, program.constant(Scalar(high), DType::int64)});
    const ValueId inside = program.apply("logical_and"_op, std::array{after, ahead});
    term = program.apply("where"_op, std::array{inside, term, program.constant(Scalar(0), dtype)});
  }
  program.reduce(boolean ? "any"_reduction : "sum"_reduction, std::array{term}, dtype);
  return program;
}

// The results [first, last), which are not none, from `a`, where the first one's first element is.
Launch sliding_launch(const SlidingProduct& p, const void* a, int64_t first, int64_t last) {
  const int64_t item = itemsize(p.dtype);
  Launch launch;
  launch.shape = {p.taps, last - first};
  launch.inputs.push_back({const_cast<void*>(a), {item, item}});
  launch.inputs.push_back({const_cast<void*>(p.v), {item, 0}});
  launch.states.push_back({static_cast<char*>(p.out) + first * item, {0, item}});
  launch.reduce_axes = 1u << 0;
  return launch;
}

// The first and one past the last result with all of their elements of a.
struct Inner {
  int64_t first, last;
};
Inner inner_results(const SlidingProduct& p) {
  const int64_t first = std::min(p.results, p.before);
  return {first, std::clamp(p.elements + p.before - p.taps + 1, first, p.results)};
}
int64_t padded_bytes(const SlidingProduct& p, int64_t first, int64_t last) {
  return (last - first + p.taps - 1) * itemsize(p.dtype);
}

int64_t edge_scratch_bytes(const SlidingProduct& p, int64_t first, int64_t last) {
  if (first == last) return 0;
  return rounded_allocation(padded_bytes(p, first, last)) +
         cuda_engine().run_scratch_bytes(sliding_program(p.dtype, true, 0, 0), sliding_launch(p, p.a, first, last));
}
void slide_over_edge(const SlidingProduct& p, int64_t first, int64_t last, const ExecContext& context) {
  if (first == last) return;
  const int64_t item = itemsize(p.dtype), bytes = padded_bytes(p, first, last), length = bytes / item;
  const int64_t low = std::clamp<int64_t>(p.before - first, 0, length);
  const int64_t high = std::clamp<int64_t>(p.elements + p.before - first, low, length);
  const Scratch padded(bytes, context);
  CudaStream& stream = cuda_stream(context.stream);
  stream.fill(padded.data(), 0, bytes);
  if (high > low) {
    const char* const from = static_cast<const char*>(p.a) + (first + low - p.before) * item;
    stream.copy(padded.at(low * item), from, (high - low) * item);
  }
  cuda_engine().run(sliding_program(p.dtype, true, low, high), sliding_launch(p, padded.data(), first, last), context);
}

class CudaProducts final : public Products {
 public:
  int64_t multiply_scratch_bytes(const MatrixProduct& p) override {
    if (results(p) == 0) return 0;
    if (has_vector(p)) return vector_scratch_bytes(p);
    return is_float(p.dtype) || is_complex(p.dtype) ? floats_scratch_bytes(p) : 0;
  }
  void multiply(const MatrixProduct& p, const ExecContext& context) override {
    if (results(p) == 0) return;
    if (has_vector(p)) return multiply_vectors(p, context);
    if (is_float(p.dtype) || is_complex(p.dtype)) return multiply_floats(p, context);
    multiply_integers(p, context);
  }
  int64_t slide_scratch_bytes(const SlidingProduct& p) override {
    if (p.results == 0) return 0;
    const auto [first, last] = inner_results(p);
    int64_t bytes = std::max(edge_scratch_bytes(p, 0, first), edge_scratch_bytes(p, last, p.results));
    if (first < last) {
      bytes = std::max(bytes, cuda_engine().run_scratch_bytes(sliding_program(p.dtype, false, 0, 0),
                                                              sliding_launch(p, p.a, first, last)));
    }
    return bytes;
  }
  void slide(const SlidingProduct& p, const ExecContext& context) override {
    if (p.results == 0) return;
    const auto [first, last] = inner_results(p);
    slide_over_edge(p, 0, first, context);
    if (first < last) {
      const char* const from = static_cast<const char*>(p.a) + (first - p.before) * itemsize(p.dtype);
      cuda_engine().run(sliding_program(p.dtype, false, 0, 0), sliding_launch(p, from, first, last), context);
    }
    slide_over_edge(p, last, p.results, context);
  }
  int64_t gemm_scratch_bytes(const Gemm& task) override { return cuda::gemm_scratch_bytes(task); }
  void gemm(const Gemm& task, const ExecContext& context) override { cuda::gemm(task, context); }
  int64_t syrk_scratch_bytes(const Syrk& task) override { return cuda::syrk_scratch_bytes(task); }
  void syrk(const Syrk& task, const ExecContext& context) override { cuda::syrk(task, context); }
};

}  // namespace

ModuleSource integer_product_source() {
  return {kIntegerSource, {"product_bool", "product_1", "product_2", "product_4", "product_8"}};
}

Products& cuda_products() {
  static auto* const instance = new CudaProducts();
  return *instance;
}

}  // namespace quarry::local::cuda
