#include "quarry/chunked/exec/bodies/matmul.h"

#include <fmt/format.h>

#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/local/program/products.h"

namespace quarry::exec {
namespace {

using local::MatrixView;

bool has_gemm(local::DType dtype) { return local::is_float(dtype) || local::is_complex(dtype); }

// One operand of a product in a task: the block's data, or a packed (and perhaps conjugated) copy where the library
// cannot read the strides.
struct Matrix {
  std::byte* data;
  Dims strides;  // bytes, over (..., rows, columns)
};

bool library_readable(const Dims& strides, int64_t itemsize) {
  const int n = strides.size();
  return (strides[n - 1] == itemsize && strides[n - 2] >= 0) || (strides[n - 2] == itemsize && strides[n - 1] >= 0);
}

MatrixView view(const Matrix& matrix, int64_t offset, int64_t rows, int64_t columns, int64_t itemsize) {
  const int n = matrix.strides.size();
  MatrixView v{matrix.data + offset, rows, columns, matrix.strides[n - 2] / itemsize, matrix.strides[n - 1] / itemsize};
  // A stride along an extent of one is free: make it what the library expects.
  if (columns == 1 && v.row_stride != 1) v.column_stride = 1;
  if (rows == 1 && v.column_stride != 1) v.row_stride = 1;
  return v;
}

// The integer and bool product, and any strides: sum over k of a program over (..., m, n, k).
local::Program multiply_add(local::DType dtype) {
  local::Program program;
  const local::ValueId factors[] = {program.input(dtype), program.input(dtype)};
  const local::Op multiply = dtype == local::DType::bool_ ? "logical_and"_op : "multiply"_op;
  const local::ValueId product = program.apply(multiply, factors);
  program.reduce(dtype == local::DType::bool_ ? "any"_reduction : "sum"_reduction, {&product, 1}, dtype);
  return program;
}

local::Launch multiply_launch(const Dims& shape, int64_t k, const Matrix& a, const Matrix& b, void* sum,
                              int64_t itemsize) {
  const int n = shape.size();
  local::Launch launch;
  launch.shape = shape;
  launch.shape.push_back(k);
  Dims as = a.strides, bs = b.strides, cs = local::contiguous_strides(shape, itemsize);
  // (..., m, k) -> (..., m, n, k); (..., k, n) -> (..., m, n, k)
  as.insert(n - 1, 0);
  const int64_t b_row = bs[n - 2], b_column = bs[n - 1];
  bs[n - 2] = 0;
  bs[n - 1] = b_column;
  bs.push_back(b_row);
  cs.push_back(0);
  launch.inputs = {{a.data, as}, {b.data, bs}};
  launch.reduce_axes = 1u << n;
  launch.states = {{sum, cs}};
  return launch;
}

local::Program accumulate_program(local::DType dtype) {
  local::Program program;
  const local::ValueId terms[] = {program.input(dtype), program.input(dtype)};
  program.output(program.apply(dtype == local::DType::bool_ ? "logical_or"_op : "add"_op, terms));
  return program;
}

local::Launch add_launch(const Dims& shape, const Matrix& sum, void* term) {
  local::Launch launch;
  launch.shape = shape;
  launch.inputs = {{sum.data, sum.strides}, {term, sum.strides}};
  launch.outputs = {{sum.data, sum.strides}};
  return launch;
}

local::Program pack_program(local::DType dtype, bool conjugate) {
  local::Program program;
  const local::ValueId value = program.input(dtype);
  program.output(conjugate && local::is_complex(dtype) ? program.apply("conjugate"_op, {&value, 1}) : value);
  return program;
}

local::Launch pack_launch(const Matrix& from, const Dims& shape, const Matrix& to) {
  local::Launch launch;
  launch.shape = shape;
  launch.inputs.push_back({from.data, from.strides});
  launch.outputs.push_back({to.data, to.strides});
  return launch;
}

}  // namespace

std::string MatMulBody::name(int64_t index) const { return fmt::format("{}[{}]", label_, index); }

// A diagonal tile of a product with the own transpose is made from one triangle.
MatMulBody::Operations MatMulBody::operations(int64_t index) const {
  const Operands operands = operands_(index);
  const double each = operands.a.empty() ? 1 : 2, of_numbers = local::is_complex(dtype_) ? 4 : 1;
  double depth = 0;
  for (const int64_t k : operands.k) depth += static_cast<double>(k);
  return {"product", each * of_numbers * static_cast<double>(local::element_count(operands.shape)) * depth};
}

int64_t MatMulBody::scratch_bytes(const Operands& operands) const {
  const int64_t itemsize = local::itemsize(dtype_);
  const int n = operands.shape.size();
  const int64_t rows = operands.shape[n - 2], columns = operands.shape[n - 1];
  const int64_t batch = local::element_count(Dims(operands.shape.begin(), operands.shape.end() - 2));
  const Matrix c{nullptr, local::contiguous_strides(operands.shape, itemsize)};
  local::Engine& engine = local::engine(device_);
  int64_t largest = 0;
  for (size_t i = 0; i < operands.k.size(); ++i) {
    const int64_t k = operands.k[i];
    int64_t bytes = 0;
    if (!has_gemm(dtype_)) {
      const local::Launch product = multiply_launch(operands.shape, k, {nullptr, operands.a_strides[i]},
                                                    {nullptr, operands.b_strides[i]}, nullptr, itemsize);
      const local::Launch add = add_launch(operands.shape, c, nullptr);
      bytes = align_up(batch * rows * columns * itemsize, local::kAllocationAlignment) +
              std::max(run_scratch_bytes(device_, multiply_add(dtype_), product),
                       run_scratch_bytes(device_, accumulate_program(dtype_), add));
    } else {
      Dims a_shape = operands.shape, b_shape = operands.shape;
      a_shape[n - 1] = k;
      b_shape[n - 2] = k;
      const bool syrk = operands.a.empty();
      const bool conjugate = operands.conjugate_a;
      const Dims& b_strides = operands.b_strides[i];
      int64_t packing = 0;
      auto pack_bytes = [&](const Dims& strides, const Dims& shape) {
        packing =
            std::max(packing, run_scratch_bytes(device_, pack_program(dtype_, conjugate),
                                                pack_launch({nullptr, strides}, shape,
                                                            {nullptr, local::contiguous_strides(shape, itemsize)})));
        return align_up(local::element_count(shape) * itemsize, local::kAllocationAlignment);
      };
      if (!syrk && (conjugate || !library_readable(operands.a_strides[i], itemsize)))
        bytes += pack_bytes(operands.a_strides[i], a_shape);
      if (!library_readable(b_strides, itemsize)) bytes += pack_bytes(b_strides, b_shape);
      const MatrixView c_view{nullptr, rows, columns, columns, 1}, b_view{nullptr, k, columns, columns, 1},
          a_view{nullptr, rows, k, k, 1};
      const int64_t library =
          syrk ? engine.products().syrk_scratch_bytes({dtype_, 1, b_view, 1, c_view, precision_})
               : engine.products().gemm_scratch_bytes(
                     {dtype_, 1, a_view, b_view, 1, c_view, /*conjugate_a=*/false, /*conjugate_b=*/false, precision_});
      bytes += std::max(packing, align_up(library, local::kAllocationAlignment));
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

void MatMulBody::run(scheduler::TaskRun& run) {
  const Operands operands = operands_(run.index);
  const int64_t itemsize = local::itemsize(dtype_);
  const int n = operands.shape.size();
  const int64_t rows = operands.shape[n - 2], columns = operands.shape[n - 1];
  const bool syrk = operands.a.empty();
  const Dims batch_shape(operands.shape.begin(), operands.shape.end() - 2);
  const int64_t batches = local::element_count(batch_shape);
  local::Engine& engine = local::engine(run.context.device);
  void* const sum = run.outputs[0].data;
  size_t arrived = 0;
  // The first product is written, not added to zeros.
  const bool writes = operands.first && has_gemm(dtype_) && !operands.k.empty() && operands.k[0] > 0;
  if (operands.first && !writes) {
    run.context.stream->fill(sum, 0, run.outputs[0].bytes);
  } else if (!operands.first) {
    run.context.stream->copy(sum, run.inputs[arrived++].data, run.outputs[0].bytes);
  }
  const Matrix c{static_cast<std::byte*>(sum), local::contiguous_strides(operands.shape, itemsize)};

  for (size_t i = 0; i < operands.k.size(); ++i) {
    const int64_t k = operands.k[i];
    std::vector<std::pair<void*, int64_t>> packed;
    auto pack = [&](const Matrix& matrix, const Dims& shape, bool conjugate) {
      const int64_t bytes = local::element_count(shape) * itemsize;
      Matrix copy{static_cast<std::byte*>(run.context.memory->allocate(bytes, run.context.stream)),
                  local::contiguous_strides(shape, itemsize)};
      packed.emplace_back(copy.data, bytes);
      engine.run(pack_program(dtype_, conjugate), pack_launch(matrix, shape, copy), run.context);
      return copy;
    };
    Matrix a{};
    if (!syrk) a = {static_cast<std::byte*>(run.inputs[arrived++].data) + operands.a[i].offset, operands.a_strides[i]};
    Matrix b{static_cast<std::byte*>(run.inputs[arrived++].data) + operands.b[i].offset, operands.b_strides[i]};
    Dims a_shape = batch_shape, b_shape = batch_shape;
    a_shape.push_back(rows);
    a_shape.push_back(k);
    b_shape.push_back(k);
    b_shape.push_back(columns);

    if (!has_gemm(dtype_)) {
      QUARRY_CHECK(!syrk);
      void* const partial = run.context.memory->allocate(run.outputs[0].bytes, run.context.stream);
      engine.run(multiply_add(dtype_), multiply_launch(operands.shape, k, a, b, partial, itemsize), run.context);
      engine.run(accumulate_program(dtype_), add_launch(operands.shape, c, partial), run.context);
      run.context.memory->deallocate(partial, run.outputs[0].bytes, run.context.stream);
      continue;
    }
    if (!syrk && (operands.conjugate_a || !library_readable(a.strides, itemsize)))
      a = pack(a, a_shape, operands.conjugate_a);
    if (!library_readable(b.strides, itemsize)) b = pack(b, b_shape, false);
    const double beta = writes && i == 0 ? 0 : 1;
    Dims at = Dims::filled(batch_shape.size());
    for (int64_t batch = 0; batch < batches; ++batch) {
      int64_t a_offset = 0, b_offset = 0, c_offset = 0;
      for (int d = 0; d < at.size(); ++d) {
        if (!syrk) a_offset += at[d] * a.strides[d];
        b_offset += at[d] * b.strides[d];
        c_offset += at[d] * c.strides[d];
      }
      const MatrixView out = view(c, c_offset, rows, columns, itemsize);
      if (syrk) {
        engine.products().syrk({dtype_, 1.0, view(b, b_offset, k, columns, itemsize), beta, out, precision_},
                               run.context);
      } else {
        engine.products().gemm(
            {dtype_, 1.0, view(a, a_offset, rows, k, itemsize), view(b, b_offset, k, columns, itemsize), beta, out,
             /*conjugate_a=*/false, /*conjugate_b=*/false, precision_},
            run.context);
      }
      for (int d = at.size() - 1; d >= 0 && ++at[d] == batch_shape[d]; --d) at[d] = 0;
    }
    for (auto it = packed.rbegin(); it != packed.rend(); ++it)
      run.context.memory->deallocate(it->first, it->second, run.context.stream);
  }
}

std::string SumBody::name(int64_t index) const { return fmt::format("add {}[{}]", label_, index); }

local::Launch SumBody::launch(int64_t bytes, void* a, void* b, void* sum) const {
  const int64_t itemsize = local::itemsize(dtype_);
  const Dims stride{itemsize};
  local::Launch launch;
  launch.shape = Dims{bytes / itemsize};
  launch.inputs = {{a, stride}, {b, stride}};
  launch.outputs = {{sum, stride}};
  return launch;
}

int64_t SumBody::scratch_bytes(int64_t bytes, const local::Device& device) const {
  return run_scratch_bytes(device, accumulate_program(dtype_), launch(bytes, nullptr, nullptr, nullptr));
}

void SumBody::run(scheduler::TaskRun& run) {
  const local::Launch add = launch(run.outputs[0].bytes, run.inputs[0].data, run.inputs[1].data, run.outputs[0].data);
  local::engine(run.context.device).run(accumulate_program(dtype_), add, run.context);
}

}  // namespace quarry::exec
