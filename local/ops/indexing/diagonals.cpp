// Diagonals and triangles.
#include <fmt/format.h>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"

namespace quarry::local::ops {
namespace {

// The numbers of columns and, plus k, of rows, in the smallest dtype that holds them: a program that compares them
// takes fewer bytes per element than one that counts.
struct Numbers {
  NdArray columns, rows;
};
Numbers numbers(const Dims& shape, int64_t k, const ExecContext& context) {
  const int64_t rows = shape[shape.size() - 2], columns = shape[shape.size() - 1];
  const int64_t most = std::max(columns, rows + std::abs(k));
  const DType dtype = most < INT16_MAX ? DType::int16 : most < INT32_MAX ? DType::int32 : DType::int64;
  return {arange(0, columns, 1, dtype, context.device),
          arange(k, k + rows, 1, dtype, context.device).reshape({rows, 1})};
}

// Whether column <= row + k; the numbers are inputs of the program.
ValueId in_lower_triangle(Program& program, const Numbers& numbers) {
  const ValueId compared[] = {program.input(numbers.columns.dtype()), program.input(numbers.rows.dtype())};
  return program.apply("less_equal"_op, compared);
}

// k within what can make a difference, so that row + k does not overflow.
int64_t clamped_offset(int64_t k, const Dims& shape) {
  const int n = shape.size();
  return std::clamp(k, -shape[n - 2] - 1, shape[n - 1] + 1);
}

NdArray triangle(const NdArray& m, int64_t k, bool lower) {
  if (m.ndim() == 0) throw TypeError("a triangle needs an array of one dimension or more");
  const ExecContext context = context_for(m.device());
  // As NumPy, a vector stands for the rows of a square.
  const Dims shape = m.ndim() == 1 ? Dims{m.shape()[0], m.shape()[0]} : m.shape();
  NdArray result(shape, m.dtype(), context);
  if (result.size() == 0) return result;
  const Numbers at = numbers(shape, clamped_offset(lower ? k : k - (k > INT64_MIN), shape), context);
  Program program;
  const ValueId inside = in_lower_triangle(program, at);
  const ValueId value = program.input(m.dtype());
  const ValueId zero = program.constant(0, m.dtype());
  const ValueId chosen[] = {inside, lower ? value : zero, lower ? zero : value};
  program.output(program.apply("where"_op, chosen));
  const NdArray *in[] = {&at.columns, &at.rows, &m}, *out[] = {&result};
  run_elementwise(program, in, out, context);
  return result;
}

}  // namespace

NdArray diagonal(const NdArray& a, int64_t offset, int64_t axis1, int64_t axis2) {
  if (a.ndim() < 2) throw InvalidArgument("diag requires an array of at least two dimensions");
  const int first = normalize_axis(axis1, a.ndim()), second = normalize_axis(axis2, a.ndim());
  if (first == second) throw InvalidArgument(fmt::format("axis1 and axis2 cannot be the same: {}", first));
  const int64_t rows = a.shape()[first], columns = a.shape()[second];
  offset = std::clamp(offset, -rows, columns);
  const int64_t count =
      std::max<int64_t>(offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns), 0);
  Dims shape, strides;
  for (int d = 0; d < a.ndim(); ++d) {
    if (d == first || d == second) continue;
    shape.push_back(a.shape()[d]);
    strides.push_back(a.strides()[d]);
  }
  shape.push_back(count);
  strides.push_back(a.strides()[first] + a.strides()[second]);
  int64_t at = a.offset();
  if (count > 0) at += offset >= 0 ? offset * a.strides()[second] : -offset * a.strides()[first];
  return with_strides(a, shape, strides, at).as_read_only(ReadOnly::diagonal);
}

NdArray diag(const NdArray& v, int64_t k) {
  if (v.ndim() == 2) return diagonal(v, k);
  if (v.ndim() != 1) throw InvalidArgument(fmt::format("Input must be 1- or 2-d, not {}-d", v.ndim()));
  const ExecContext context = context_for(v.device());
  int64_t n = 0;
  if (k == INT64_MIN || __builtin_add_overflow(v.shape()[0], std::abs(k), &n))
    throw InvalidArgument(fmt::format("diagonal {} is too far away", k));
  NdArray result({n, n}, v.dtype(), context);
  result.fill(Scalar::strong(0, v.dtype()), context);
  NdArray line = diagonal(result, k);
  line.set_writeable(true);
  write_into(line, v);
  return result;
}

NdArray diagflat(const NdArray& v, int64_t k) { return diag(v.reshape({v.size()}), k); }

NdArray trace(const NdArray& a, int64_t offset, int64_t axis1, int64_t axis2, std::optional<DType> dtype,
              const std::optional<NdArray>& out) {
  return ops::sum(diagonal(a, offset, axis1, axis2), -1, {.dtype = dtype, .out = out});
}

NdArray tri(int64_t N, std::optional<int64_t> M, int64_t k, std::optional<DType> dtype) {
  const ExecContext context = current_context();
  NdArray result({std::max<int64_t>(N, 0), std::max<int64_t>(M.value_or(N), 0)}, dtype.value_or(DType::float64),
                 context);
  if (result.size() == 0) return result;
  const Numbers at = numbers(result.shape(), clamped_offset(k, result.shape()), context);
  Program program;
  program.output(program.cast(in_lower_triangle(program, at), result.dtype()));
  const NdArray *in[] = {&at.columns, &at.rows}, *out[] = {&result};
  run_elementwise(program, in, out, context);
  return result;
}

NdArray tril(const NdArray& m, int64_t k) { return triangle(m, k, /*lower=*/true); }
NdArray triu(const NdArray& m, int64_t k) { return triangle(m, k, /*lower=*/false); }

}  // namespace quarry::local::ops
