// The GPU's elementwise results against the CPU's.
#include <array>
#include <optional>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/program/op_enum.h"
#include "tests/unit/local/cuda/gpu_support.h"

namespace quarry::local::cuda {
namespace {

constexpr std::array kDTypes = {
#define QUARRY_DTYPE(name, text, type, kind, compute) DType::name,
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
};

bool is_float_like(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// Operations whose result is exact or correctly rounded on both devices.
bool is_exact(Op op, DType dtype) {
  if (!is_float_like(dtype)) return true;
  switch (op) {
    case Op::add:
    case Op::subtract:
    case Op::negative:
    case Op::positive:
    case Op::conjugate:
    case Op::real:
    case Op::imag:
    case Op::rint:
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::maximum:
    case Op::minimum:
    case Op::fmax:
    case Op::fmin:
    case Op::clip:
    case Op::where:
    case Op::heaviside:
    case Op::copysign:
    case Op::nextafter:
    case Op::spacing:
    case Op::ldexp:
    case Op::equal:
    case Op::not_equal:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_xor:
    case Op::logical_not:
    case Op::isfinite:
    case Op::isinf:
    case Op::isnan:
    case Op::signbit:
    case Op::modf_fraction:
    case Op::modf_integer:
    case Op::frexp_mantissa:
    case Op::frexp_exponent:
      return true;
    default:
      break;
  }
  // One rounding: IEEE's for real numbers.
  return !is_complex(dtype) && (op == Op::multiply || op == Op::divide || op == Op::sqrt || op == Op::square ||
                                op == Op::fabs || op == Op::absolute || op == Op::sign || op == Op::reciprocal ||
                                op == Op::fmod || op == Op::random_uniform || op == Op::random_normal);
}

double tolerance(Op op, DType dtype) {
  if (is_exact(op, dtype)) return 0;
  // 4 ULP on each device; complex functions are made of several real ones, and these sums cancel.
  constexpr double kReal = 8, kComplex = 64, kCancelling = 4096;
  if (op == Op::logaddexp || op == Op::logaddexp2 || op == Op::random_log_gamma || op == Op::random_zipf)
    return kCancelling;
  return is_complex(dtype) ? kComplex : kReal;
}

class CudaLoops : public CudaTest, public ::testing::WithParamInterface<DType> {};

TEST_P(CudaLoops, EveryOperation) {
  int tested = 0;
  for (int i = 0; i < op_count(); ++i) {
    const Op op = static_cast<Op>(i);
    const OpInfo& row = info(op);
    if (row.rule == OpRule::cast) continue;
    Program program;
    std::vector<ValueId> args;
    std::vector<DType> dtypes;
    DType loop = GetParam();
    try {
      for (int a = 0; a < row.arity; ++a) {
        DType argument = GetParam();
        if (row.rule == OpRule::select && a == 0) argument = DType::bool_;
        if (row.rule == OpRule::scale && a == 1) argument = DType::int32;
        if (row.rule == OpRule::random) argument = a == 0 ? DType::int64 : DType::uint64;
        if (row.rule == OpRule::bounded && a == 0) argument = DType::uint64;
        if (row.rule == OpRule::sampler) argument = a == 0 ? DType::uint64 : DType::float64;
        dtypes.push_back(argument);
        args.push_back(program.input(argument));
      }
      const bool given = row.rule == OpRule::random || row.rule == OpRule::bounded || row.rule == OpRule::sampler;
      program.output(program.apply(op, args, given ? std::optional(GetParam()) : std::nullopt));
      loop = program.values()[static_cast<size_t>(program.outputs()[0])].loop;
    } catch (const TypeError&) {
      continue;
    }
    const Dims shape{3001};
    Comparison c{.program = program, .shape = shape, .inputs = {}, .outputs = {}};
    for (size_t a = 0; a < dtypes.size(); ++a) {
      c.inputs.push_back(make_array(dtypes[a], shape));
      const bool small =
          a == 1 && (op == Op::power || op == Op::left_shift || op == Op::right_shift || op == Op::ldexp);
      // The error of a complex power grows with its logarithm.
      if (is_complex(loop) && (op == Op::power || op == Op::float_power))
        fill_moderate(c.inputs.back(), 17 * a + static_cast<size_t>(i));
      else
        fill_interesting(c.inputs.back(), 17 * a + static_cast<size_t>(i), small);
      // The CPU's vector pow overflows a little early.
      if (op == Op::power || op == Op::float_power) limit_magnitude(c.inputs.back());
    }
    c.outputs.push_back(make_array(program.dtype(program.outputs()[0]), shape));
    EXPECT_TRUE(same_on_gpu(std::move(c), tolerance(op, loop))) << row.name;
    ++tested;
  }
  EXPECT_GE(tested, 15);
}

TEST_P(CudaLoops, CastToEveryDtype) {
  for (const DType to : kDTypes) {
    if (to == GetParam()) continue;
    Program program;
    program.output(program.cast(program.input(GetParam()), to));
    const Dims shape{3001};
    Comparison c{.program = program,
                 .shape = shape,
                 .inputs = {make_array(GetParam(), shape)},
                 .outputs = {make_array(to, shape)}};
    fill_interesting(c.inputs[0], 5);
    EXPECT_TRUE(same_on_gpu(std::move(c), 0)) << name(to);
  }
}

// x + y over layouts that take every path.
TEST_P(CudaLoops, EveryLayout) {
  const DType dtype = GetParam();
  const int64_t s = itemsize(dtype);
  const auto check = [&](const char* what, const Dims& shape, const Dims& x, const Dims& y, const Dims& out,
                         int64_t misalignment = 0, bool swapped = false) {
    Program program;
    const ValueId a = program.input(dtype, swapped), b = program.input(dtype);
    program.output(program.apply(Op::add, std::array{a, b}));
    Comparison c{.program = program,
                 .shape = shape,
                 .inputs = {make_array(dtype, shape, x, misalignment), make_array(dtype, shape, y)},
                 .outputs = {make_array(dtype, shape, out)}};
    fill_interesting(c.inputs[0], 1);
    fill_interesting(c.inputs[1], 2);
    EXPECT_TRUE(same_on_gpu(std::move(c), 0)) << what << " " << to_string(shape);
  };
  for (const int64_t n : {0, 1, 2, 3, 15, 16, 17, 255, 256, 257, 4096, 100003}) {
    const Dims shape{n};
    check("contiguous", shape, Dims{s}, Dims{s}, Dims{s});
    check("unaligned", shape, Dims{s}, Dims{s}, Dims{s}, s);
    check("swapped", shape, Dims{s}, Dims{s}, Dims{s}, 0, true);
    check("reversed", shape, Dims{-s}, Dims{s}, Dims{s});
    check("steps", shape, Dims{3 * s}, Dims{-2 * s}, Dims{s});
    check("steps out", shape, Dims{s}, Dims{0}, Dims{2 * s});
  }
  check("0-d", Dims{}, Dims{}, Dims{}, Dims{});
  for (const Dims& shape : {Dims{1, 1}, Dims{3, 100}, Dims{100, 3}, Dims{37, 41}, Dims{128, 64}, Dims{257, 129}}) {
    const Dims rows = contiguous_strides(shape, s);
    const Dims columns{s, shape[0] * s};
    check("transposed", shape, columns, rows, rows);
    check("both transposed", shape, columns, columns, rows);
    check("transposed out", shape, rows, rows, columns);
    check("row", shape, rows, Dims{0, s}, rows);
    check("column", shape, rows, Dims{s, 0}, rows);
    check("scalar", shape, rows, Dims{0, 0}, rows);
    check("padded rows", shape, Dims{(shape[1] + 1) * s, s}, rows, rows);
    check("unaligned rows", shape, Dims{(shape[1] + 1) * s, s}, rows, rows, s);
  }
  const Dims cube{21, 34, 43};
  const Dims straight = contiguous_strides(cube, s);
  check("2, 1, 0", cube, Dims{s, 21 * s, 21 * 34 * s}, straight, straight);
  check("1, 2, 0", cube, Dims{s, 43 * 21 * s, 21 * s}, straight, straight);
  check("inner broadcast", cube, Dims{34 * s, s, 0}, straight, straight);
  const Dims many{2, 3, 2, 3, 2, 3, 2, 3};
  Dims odd = contiguous_strides(many, s);
  for (int d = 0; d < many.size(); ++d) odd[d] = odd[d] * 3 + (d < 7 ? s * (d % 3) : 0);
  check("eight axes", many, odd, contiguous_strides(many, s), contiguous_strides(many, s));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaLoops, ::testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(name(info.param)); });

class CudaProgram : public CudaTest {};

TEST_F(CudaProgram, FusedChainWithConstantsAndSeveralOutputs) {
  Program program;
  const ValueId x = program.input(DType::float64), y = program.input(DType::float32);
  const ValueId wide = program.cast(y, DType::float64);
  const ValueId two = program.constant(Scalar(2.5), DType::float64);
  const ValueId sum = program.apply(Op::add, std::array{program.apply(Op::multiply, std::array{x, two}), wide});
  program.output(sum);
  program.output(program.apply(Op::less, std::array{x, wide}));
  program.output(program.cast(sum, DType::float16));
  const Dims shape{1234, 77};
  Comparison c{.program = program,
               .shape = shape,
               .inputs = {make_array(DType::float64, shape), make_array(DType::float32, shape)},
               .outputs = {make_array(DType::float64, shape), make_array(DType::bool_, shape),
                           make_array(DType::float16, shape)}};
  fill_interesting(c.inputs[0], 1);
  fill_interesting(c.inputs[1], 2);
  EXPECT_TRUE(same_on_gpu(std::move(c), 0));
}

TEST_F(CudaProgram, HalfFormatsRoundAfterEveryOperation) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    Program program;
    const ValueId x = program.input(dtype), y = program.input(dtype);
    program.output(program.apply(Op::subtract, std::array{program.apply(Op::add, std::array{x, y}), x}));
    const Dims shape{5000};
    Comparison c{.program = program,
                 .shape = shape,
                 .inputs = {make_array(dtype, shape), make_array(dtype, shape)},
                 .outputs = {make_array(dtype, shape)}};
    fill_interesting(c.inputs[0], 1);
    fill_interesting(c.inputs[1], 2);
    EXPECT_TRUE(same_on_gpu(std::move(c), 0)) << name(dtype);
  }
}

TEST_F(CudaProgram, IndicesAreGlobalAndSurviveReordering) {
  Program program;
  const ValueId x = program.input(DType::int64);
  const ValueId a = program.index(0), b = program.index(2);
  const ValueId place = program.apply(
      Op::add, std::array{program.apply(Op::multiply, std::array{a, program.constant(Scalar(1000), DType::int64)}), b});
  program.output(program.apply(Op::add, std::array{place, x}));
  for (const Dims& shape : {Dims{30, 1, 50}, Dims{1, 4, 33}, Dims{17, 40, 19}, Dims{64, 64, 1}}) {
    Comparison c{.program = program,
                 .shape = shape,
                 .index_offset = Dims{int64_t{1} << 40, 0, 7},
                 .inputs = {make_array(DType::int64, shape, Dims{8, 8 * shape[0], 8 * shape[0] * shape[1]})},
                 .outputs = {make_array(DType::int64, shape)}};
    fill_interesting(c.inputs[0], 3);
    EXPECT_TRUE(same_on_gpu(std::move(c), 0)) << to_string(shape);
  }
}

TEST_F(CudaProgram, InPlace) {
  const ExecContext gpu = gpu_context();
  Program program;
  const ValueId x = program.input(DType::float32);
  program.output(program.apply(Op::multiply, std::array{x, x}));
  const int64_t n = 100001;
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f;
  const Buffer buffer(n * 4, *gpu.memory, gpu.stream);
  gpu.stream->copy(buffer.data(), values.data(), n * 4);
  const Operand operand{buffer.data(), Dims{4}};
  engine(kGpu).run(
      program, {.shape = Dims{n}, .index_offset = {}, .inputs = {operand}, .outputs = {operand}, .states = {}}, gpu);
  std::vector<float> result(values.size());
  gpu.stream->copy(result.data(), buffer.data(), n * 4);
  gpu.stream->synchronize();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(result[i], values[i] * values[i]) << i;
}

// More than 2^31 elements: uint8 here, and positions written by an index generator.
TEST_F(CudaProgram, MoreThanTwoToThe31Elements) {
  const ExecContext gpu = gpu_context();
  const int64_t n = (int64_t{1} << 31) + 12345;
  Program program;
  const ValueId index = program.index(0);
  program.output(program.cast(
      program.apply(Op::right_shift, std::array{index, program.constant(Scalar(5), DType::int64)}), DType::uint8));
  const Buffer buffer(n, *gpu.memory, gpu.stream);
  gpu.stream->fill(buffer.data(), 0xee, n);
  engine(kGpu).run(
      program,
      {.shape = Dims{n}, .index_offset = {}, .inputs = {}, .outputs = {{buffer.data(), Dims{1}}}, .states = {}}, gpu);
  for (const int64_t start : {int64_t{0}, n / 2, (int64_t{1} << 31) - 50, n - 100}) {
    uint8_t part[100];
    gpu.stream->copy(part, static_cast<char*>(buffer.data()) + start, 100);
    gpu.stream->synchronize();
    for (int i = 0; i < 100; ++i) ASSERT_EQ(part[i], static_cast<uint8_t>((start + i) >> 5)) << start + i;
  }
}

}  // namespace
}  // namespace quarry::local::cuda
