// bf16x3: with x0 = bfloat16(x) and x1 = bfloat16(x - x0), |x - x0 - x1| <= 2^-18 |x|, and
//   a b = a1 b0 + a0 b1 + a0 b0 + (a1 b1 + terms of the rests), of which the bracket, at most 3 * 2^-18 |a| |b|, is
//   left
// out: three products on tensor cores, each summed in float32, the small ones first. cuBLAS has one product of bfloat16
// (CUBLAS_COMPUTE_32F_FAST_16BF, 8 bits) and nine (CUBLAS_COMPUTE_32F_EMULATED_16BFX9, 24 bits), not three.
#include "quarry/local/cuda/pieces.h"

#include <array>

#include "quarry/local/base/sizes.h"
#include "quarry/local/cuda/engine.h"

namespace quarry::local::cuda {
namespace {

// The pieces of one operand, in its own order of lines, which begin where tensor cores read whole words.
struct Pieces {
  Pieces(const MatrixView& m, int64_t count, int64_t step)
      : row_major(is_row_major(m)),
        count(step == 0 ? 1 : count),
        line(row_major ? m.columns : m.rows),
        lines(row_major ? m.rows : m.columns),
        distance(align_up(line, kWord)),
        matrix(lines * distance),
        bytes(rounded_allocation(this->count * matrix * itemsize(DType::bfloat16))) {}

  MatrixView view(const MatrixView& m, void* data) const {
    return row_major ? MatrixView{data, m.rows, m.columns, distance, 1}
                     : MatrixView{data, m.rows, m.columns, 1, distance};
  }
  int64_t step() const { return count == 1 ? 0 : matrix; }
  void split(const MatrixView& m, int64_t from_step, void* high, void* low, const ExecContext& context) const {
    const int64_t wide = itemsize(DType::float32), narrow = itemsize(DType::bfloat16);
    const Dims to{matrix * narrow, distance * narrow, narrow};
    Launch launch;
    launch.shape = Dims{count, lines, line};
    launch.inputs.push_back(
        {m.data, Dims{from_step * wide, (row_major ? m.row_stride : m.column_stride) * wide, wide}});
    launch.outputs.push_back({high, to});
    launch.outputs.push_back({low, to});
    cuda_engine().run(split_program(), launch, context);
  }

  static constexpr int64_t kWord = 8;  // elements of 16 bytes
  bool row_major;
  int64_t count;                          // of matrices
  int64_t line, lines, distance, matrix;  // elements
  int64_t bytes;                          // of each piece
};

}  // namespace

Program split_program() {
  // An infinite x is split into its sign and itself, so that products meet no infinity times a piece that is zero. One
  // that would round to infinity is cut off first.
  constexpr double kLargest = 0x1.FEp127;  // bfloat16
  Program program;
  const ValueId x = program.input(DType::float32);
  const ValueId largest = program.constant(Scalar(kLargest), DType::float32);
  const ValueId least = program.constant(Scalar(-kLargest), DType::float32);
  const ValueId below = program.apply("minimum"_op, std::array{x, largest});
  const ValueId bounded = program.apply("maximum"_op, std::array{below, least});
  const ValueId is_infinite = program.apply("isinf"_op, std::array{x});
  const ValueId sign = program.apply("sign"_op, std::array{x});
  const ValueId high = program.cast(program.apply("where"_op, std::array{is_infinite, sign, bounded}), DType::bfloat16);
  const ValueId rest = program.apply("subtract"_op, std::array{x, program.cast(high, DType::float32)});
  program.output(high);
  program.output(program.cast(rest, DType::bfloat16));
  return program;
}

Gemm at_precision(const Gemm& task, Precision precision) {
  Gemm result = task;
  const bool is_vector = task.c.rows <= 1 || task.c.columns <= 1;
  result.precision = task.dtype == DType::float32 && !is_vector ? precision : Precision::exact;
  return result;
}

int64_t pieces_scratch_bytes(const Gemm& task, const BatchSteps& batch) {
  if (at_precision(task, task.precision).precision != Precision::bf16x3) return 0;
  return 2 * (Pieces(task.a, batch.count, batch.a).bytes + Pieces(task.b, batch.count, batch.b).bytes);
}

void product_in_pieces(const Gemm& given, const BatchSteps& batch, cublasHandle_t handle, const ExecContext& context) {
  const Gemm task = at_precision(given, given.precision);
  if (task.precision != Precision::bf16x3) return blas_product(task, batch, handle);
  const Pieces of_a(task.a, batch.count, batch.a), of_b(task.b, batch.count, batch.b);
  const Scratch scratch(2 * (of_a.bytes + of_b.bytes), context);
  void* const a[] = {scratch.data(), scratch.at(of_a.bytes)};
  void* const b[] = {scratch.at(2 * of_a.bytes), scratch.at(2 * of_a.bytes + of_b.bytes)};
  of_a.split(task.a, batch.a, a[0], a[1], context);
  of_b.split(task.b, batch.b, b[0], b[1], context);
  double beta = task.beta;
  for (const auto [i, j] : {std::array{1, 0}, std::array{0, 1}, std::array{0, 0}}) {
    blas_product({task.dtype, task.alpha, of_a.view(task.a, a[i]), of_b.view(task.b, b[j]), beta, task.c},
                 {batch.count, of_a.step(), of_b.step(), batch.c}, handle, DType::bfloat16);
    beta = 1;
  }
}

}  // namespace quarry::local::cuda
