#include "local/linalg/linalg.h"

#include <fmt/format.h>

#include "local/ops/launch.h"
#include "local/ops/reduce.h"

namespace quarry::local::linalg {
namespace {

// Whether the engine takes the matrix as it lies: one stride is an element, the other reaches past a row.
bool fits_engine(const NdArray& m) {
  const int64_t item = m.itemsize(), rows = m.shape(0), columns = m.shape(1);
  const int64_t s0 = m.strides()[0], s1 = m.strides()[1];
  const bool row_major = (s1 == item || columns == 1) && (rows == 1 || (s0 >= columns * item && s0 % item == 0));
  const bool column_major = (s0 == item || rows == 1) && (columns == 1 || (s1 >= rows * item && s1 % item == 0));
  return row_major || column_major;
}

MatrixView view_of(const NdArray& m) {
  const int64_t item = m.itemsize(), rows = m.shape(0), columns = m.shape(1);
  const int64_t s0 = m.strides()[0], s1 = m.strides()[1];
  if ((s1 == item || columns == 1) && (rows == 1 || s0 >= columns * item))
    return {m.raw(), rows, columns, rows == 1 ? std::max<int64_t>(columns, 1) : s0 / item, 1};
  return {m.raw(), rows, columns, 1, columns == 1 ? std::max<int64_t>(rows, 1) : s1 / item};
}

NdArray prepared(const NdArray& m, DType dtype, const ExecContext& context) {
  if (m.dtype() == dtype && fits_engine(m)) return m;
  return m.astype(dtype, context);
}

bool engine_has_gemm(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// One product by elementwise work, for bool and integers: (m, k, 1) times (k, n) summed over k.
void multiply_exactly(const NdArray& a, const NdArray& b, const NdArray& c, const ExecContext& context) {
  const bool boolean = c.dtype() == DType::bool_;
  Program program;
  const ValueId both[] = {program.cast(program.input(a.dtype()), c.dtype()),
                          program.cast(program.input(b.dtype()), c.dtype())};
  const ValueId product[] = {program.apply(boolean ? Op::logical_and : Op::multiply, both)};
  program.reduce(boolean ? Reduction::any : Reduction::sum, product, c.dtype());
  Launch launch;
  launch.shape = {a.shape(0), a.shape(1), b.shape(1)};
  a.buffer()->use(context.stream);
  b.buffer()->use(context.stream);
  c.buffer()->use(context.stream);
  launch.inputs.push_back({a.raw(), {a.strides()[0], a.strides()[1], 0}});
  launch.inputs.push_back({b.raw(), {0, b.strides()[0], b.strides()[1]}});
  launch.states.push_back({c.raw(), {c.strides()[0], 0, c.strides()[1]}});
  launch.reduce_axes = 1u << 1;
  engine(context.device).run(program, launch, context);
}

void multiply(const NdArray& a, const NdArray& b, const NdArray& c, const ExecContext& context) {
  if (c.size() == 0) return;
  if (a.shape(1) == 0) return c.fill(0, context);
  if (!engine_has_gemm(c.dtype())) return multiply_exactly(a, b, c, context);
  const NdArray left = prepared(a, c.dtype(), context), right = prepared(b, c.dtype(), context);
  left.buffer()->use(context.stream);
  right.buffer()->use(context.stream);
  c.buffer()->use(context.stream);
  engine(context.device).gemm(c.dtype(), /*alpha=*/1, view_of(left), view_of(right), /*beta=*/0, view_of(c), context);
}

NdArray matrix_at(const NdArray& stack, std::span<const IndexItem> position) { return stack[position]; }

}  // namespace

NdArray matmul(const NdArray& a, const NdArray& b) {
  if (a.ndim() == 0 || b.ndim() == 0)
    throw InvalidArgument(
        fmt::format("matmul: input operand {} does not have enough dimensions (has 0, gufunc core with signature "
                    "(n?,k),(k,m?)->(n?,m?) requires 1)",
                    a.ndim() == 0 ? 0 : 1));
  const NdArray* both[] = {&a, &b};
  const ExecContext context = context_for(common_device(both));
  const PromotionOperand operands[] = {{a.dtype(), false}, {b.dtype(), false}};
  const DType dtype = result_type(operands);
  const bool row = a.ndim() == 1, column = b.ndim() == 1;
  const NdArray left = row ? a[{newaxis, ellipsis}] : a, right = column ? b[{ellipsis, newaxis}] : b;
  const int64_t m = left.shape(-2), k = left.shape(-1), n = right.shape(-1);
  if (right.shape(-2) != k) {
    throw InvalidArgument(
        fmt::format("matmul: input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
                    "(n?,k),(k,m?)->(n?,m?) (size {} is different from {}; shapes {} and {})",
                    right.shape(-2), k, to_string(a.shape()), to_string(b.shape())));
  }
  const Dims batch = broadcast_shapes(Dims(left.shape().begin(), left.shape().end() - 2),
                                      Dims(right.shape().begin(), right.shape().end() - 2));
  Dims shape = batch, left_shape = batch, right_shape = batch;
  for (auto [dims, rows, columns] :
       {std::tuple(&shape, m, n), std::tuple(&left_shape, m, k), std::tuple(&right_shape, k, n)}) {
    dims->push_back(rows);
    dims->push_back(columns);
  }
  const NdArray result(shape, dtype, context);
  if (batch.empty()) {
    multiply(left, right, result, context);
  } else if (result.size() > 0) {
    const NdArray lefts = left.broadcast_to(left_shape), rights = right.broadcast_to(right_shape);
    std::vector<IndexItem> position(static_cast<size_t>(batch.size()), IndexItem(int64_t{0}));
    for (bool more = true; more;) {
      multiply(matrix_at(lefts, position), matrix_at(rights, position), matrix_at(result, position), context);
      more = false;
      for (int d = batch.size() - 1; d >= 0 && !more; --d) {
        int64_t& at = std::get<int64_t>(position[static_cast<size_t>(d)]);
        more = ++at < batch[d];
        if (!more) at = 0;
      }
    }
  }
  Dims final_shape = batch;
  if (!row) final_shape.push_back(m);
  if (!column) final_shape.push_back(n);
  return result.reshape(final_shape);
}

NdArray syrk(const NdArray& a) {
  if (a.ndim() != 2) throw InvalidArgument(fmt::format("syrk takes a matrix, not shape {}", to_string(a.shape())));
  const ExecContext context = context_for(a.device());
  const DType dtype = engine_has_gemm(a.dtype()) ? a.dtype() : DType::float64;
  NdArray result({a.shape(1), a.shape(1)}, dtype, context);
  if (result.size() == 0) return result;
  if (a.shape(0) == 0) {
    result.fill(0, context);
    return result;
  }
  const NdArray operand = prepared(a, dtype, context);
  operand.buffer()->use(context.stream);
  engine(context.device).syrk(dtype, /*alpha=*/1, view_of(operand), /*beta=*/0, view_of(result), context);
  return result;
}

std::pair<NdArray, NdArray> eigh(const NdArray& a, Triangle triangle) {
  if (a.ndim() != 2 || a.shape(0) != a.shape(1))
    throw InvalidArgument(fmt::format("eigh takes a square matrix, not shape {}", to_string(a.shape())));
  if (a.dtype() == DType::float16 || a.dtype() == DType::bfloat16)
    throw TypeError(fmt::format("array type {} is unsupported in linalg", name(a.dtype())));
  const ExecContext context = context_for(a.device());
  const DType dtype = engine_has_gemm(a.dtype()) ? a.dtype() : DType::float64;
  const int64_t n = a.shape(0);
  std::pair<NdArray, NdArray> result(NdArray({n}, real_type(dtype), context), NdArray({n, n}, dtype, context));
  if (n == 0) return result;
  const NdArray operand = prepared(a, dtype, context);
  operand.buffer()->use(context.stream);
  engine(context.device).eigh(dtype, triangle, view_of(operand), result.first.raw(), view_of(result.second), context);
  context.stream->synchronize();
  return result;
}

}  // namespace quarry::local::linalg
