#include "quarry/local/cuda/matrix_programs.h"

#include <array>

#include "quarry/local/cuda/engine.h"
#include "quarry/local/program/program.h"

namespace quarry::local::cuda {
namespace {

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

}  // namespace

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

}  // namespace quarry::local::cuda
