// Every kernel that the GPU engine can generate compiles, on machines without a GPU too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/codegen/codegen.h"
#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/layout.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/program/scanning.h"
#include "tests/unit/local/cuda/launches.h"

namespace quarry::local::cuda {
namespace {

constexpr Architecture kArchitecture = 90;

constexpr std::array kDTypes = {
#define QUARRY_DTYPE(name, text, type, kind, compute) DType::name,
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
};

// Kernels gathered into one compilation.
class Batch {
 public:
  Plan add(const Program& program, const Launch& launch, const PlanOverrides& overrides = {}, bool several = false) {
    const Layout layout = make_layout(program, launch);
    Plan plan = make_plan(program, layout, /*naming=*/true, overrides);
    if (several) plan.several = plan.most_several(kParameterBytes);
    const ModuleSource made = make_source(program, plan, std::to_string(count_++));
    source_ += made.text;
    kernels_.insert(kernels_.end(), made.kernels.begin(), made.kernels.end());
    return plan;
  }
  void compile_all() {
    ASSERT_GT(count_, 0);
    std::string code;
    try {
      code = compile_quickly(source_);
    } catch (const DeviceError& error) {
      FAIL() << std::string(error.what()).substr(0, 4000) << "\n" << source_.substr(0, 20000);
    }
    // Machine code, with every kernel's name in its symbol table.
    EXPECT_EQ(code.substr(0, 4),
              "\x7f"
              "ELF");
    for (const std::string& kernel : kernels_) EXPECT_NE(code.find(kernel), std::string::npos) << kernel;
  }
  int count() const { return count_; }

 private:
  std::string source_;
  std::vector<std::string> kernels_;
  int count_ = 0;
};

// The program of one operation with loop `dtype`; none where the operation has no such loop.
std::optional<Program> single_operation(Op op, DType dtype) {
  const OpInfo& row = info(op);
  Program program;
  std::vector<ValueId> args;
  try {
    ValueId value = -1;
    if (row.rule == OpRule::cast) return std::nullopt;
    for (int i = 0; i < row.arity; ++i) {
      DType argument = dtype;
      if (row.rule == OpRule::select && i == 0) argument = DType::bool_;
      if (row.rule == OpRule::scale && i == 1) argument = DType::int32;
      if (row.rule == OpRule::random) argument = i == 0 ? DType::int64 : DType::uint64;
      if (row.rule == OpRule::bounded && i == 0) argument = DType::uint64;
      if (row.rule == OpRule::sampler) argument = i == 0 ? DType::uint64 : DType::float64;
      args.push_back(program.input(argument));
    }
    const bool given = row.rule == OpRule::random || row.rule == OpRule::bounded || row.rule == OpRule::sampler;
    value = program.apply(op, args, given ? std::optional(dtype) : std::nullopt);
    if (program.values()[static_cast<size_t>(value)].loop != dtype) return std::nullopt;
    program.output(value);
  } catch (const TypeError&) {
    return std::nullopt;
  }
  return program;
}

class CompileLoops : public ::testing::TestWithParam<DType> {};

// One element per thread: the code of an operation is the same for every number of lanes.
TEST_P(CompileLoops, EveryOperation) {
  Batch batch;
  for (int i = 0; i < op_count(); ++i)
    if (const auto program = single_operation(static_cast<Op>(i), GetParam()))
      batch.add(*program, contiguous_launch(*program, Dims{1}));
  batch.compile_all();
  EXPECT_GE(batch.count(), 15);
}

TEST_P(CompileLoops, CastToEveryDtype) {
  Batch batch;
  for (const DType to : kDTypes) {
    if (to == GetParam()) continue;
    Program program;
    program.output(program.cast(program.input(GetParam()), to));
    batch.add(program, contiguous_launch(program, Dims{1000, 3}));
  }
  batch.compile_all();
}

// All reductions that take the dtype, alone: along rows, along columns, to a scalar in two steps.
TEST_P(CompileLoops, EveryReduction) {
  Batch batch;
  for (int i = 0; i < reduction_count(); ++i) {
    const auto reduction = static_cast<Reduction>(i);
    if (std::string(info(reduction).kinds).find(kind(GetParam()) == 'u' ? 'i' : kind(GetParam())) == std::string::npos)
      continue;
    Program program;
    std::vector<ValueId> args = {program.input(GetParam())};
    if (info(reduction).has_position) args.push_back(program.index(1));
    program.reduce(reduction, args, accumulate_dtype(reduction, GetParam()));
    const Plan rows = batch.add(program, contiguous_launch(program, Dims{100, 1000000}, /*reduce_axes=*/0b10));
    EXPECT_EQ(rows.kind, Plan::Kind::rows);
    EXPECT_TRUE(rows.split);
    const Plan columns = batch.add(program, contiguous_launch(program, Dims{100000, 1000}, /*reduce_axes=*/0b01));
    EXPECT_EQ(columns.kind, Plan::Kind::columns);
  }
  batch.compile_all();
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CompileLoops, ::testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(name(info.param)); });

// ---- Specialisations ----

Program addition(DType dtype, bool swapped = false) {
  Program program;
  const ValueId x = program.input(dtype, swapped), y = program.input(dtype);
  program.output(program.apply("add"_op, std::array{x, y}));
  return program;
}

class CompileForms : public ::testing::TestWithParam<DType> {};

TEST_P(CompileForms, EveryAccess) {
  const DType dtype = GetParam();
  const int64_t size = itemsize(dtype);
  const Program program = addition(dtype);
  Batch batch;
  const Plan contiguous = batch.add(program, contiguous_launch(program, Dims{1000, 1000}));
  EXPECT_EQ(contiguous.ndim, 1);
  EXPECT_EQ(contiguous.inputs[0].access, Access::vector);
  EXPECT_EQ(contiguous.lanes * size, 16);

  Launch launch = contiguous_launch(program, Dims{1000, 1000});
  launch.inputs[0].data = address(size);  // off by one element
  const Plan unaligned = batch.add(program, launch);
  EXPECT_EQ(unaligned.inputs[0].access, size == 16 ? Access::vector : Access::element);

  launch = contiguous_launch(program, Dims{1000, 1000});
  launch.inputs[0].strides = Dims{2000 * size * 2, size * 2};
  launch.inputs[1].strides = Dims{0, size};
  const Plan strided = batch.add(program, launch);
  EXPECT_EQ(strided.inputs[0].access, Access::strided);
  EXPECT_EQ(strided.ndim, 2);

  launch.inputs[0].strides = Dims{-1000 * size, -size};
  launch.inputs[1].strides = Dims{0, 0};
  const Plan reversed = batch.add(program, launch);
  EXPECT_EQ(reversed.inputs[1].access, Access::broadcast);

  launch.inputs[0].strides = Dims{size, 1000 * size};
  launch.inputs[1].strides = Dims{1000 * size, size};
  const Plan transposed = batch.add(program, launch);
  EXPECT_EQ(transposed.kind, Plan::Kind::tile);
  EXPECT_EQ(transposed.inputs[0].access, Access::tiled);
  EXPECT_EQ(transposed.inputs[1].access, Access::vector);

  const Plan wide = batch.add(program, launch, {.force_wide = true});
  EXPECT_TRUE(wide.wide);
  const Plan huge = batch.add(program, contiguous_launch(program, Dims{int64_t{1} << 36}));
  EXPECT_TRUE(huge.wide);

  const Program swapped = addition(dtype, /*swapped=*/true);
  batch.add(swapped, contiguous_launch(swapped, Dims{12345}));
  batch.compile_all();
}

TEST_P(CompileForms, ReductionsOverAnyAxes) {
  const DType dtype = GetParam();
  // A fused chain with an output, two reductions in the same pass, positions and constants.
  Program program;
  const ValueId x = program.input(dtype), y = program.input(DType::float64);
  const ValueId product = program.apply("multiply"_op, std::array{x, y});
  const ValueId shifted = program.apply("add"_op, std::array{product, program.constant(Scalar(1), DType::float64)});
  program.output(shifted);
  program.reduce("mean"_reduction, std::array{shifted}, program.dtype(shifted));
  program.reduce("argmax"_reduction, std::array{x, program.index(0)}, dtype);
  Batch batch;
  for (uint32_t axes = 0; axes < 8; ++axes) batch.add(program, contiguous_launch(program, Dims{30, 41, 52}, axes));
  batch.add(program, contiguous_launch(program, Dims{300, 410, 520}, 0b101), {.force_wide = true});
  batch.add(program, contiguous_launch(program, Dims{300, 410, 520}, 0b111), {}, /*several=*/true);
  Program scalar;
  scalar.reduce("var"_reduction, std::array{scalar.input(dtype)}, accumulate_dtype("var"_reduction, dtype));
  batch.add(scalar, contiguous_launch(scalar, Dims{}));
  batch.compile_all();
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CompileForms,
                         ::testing::Values(DType::bool_, DType::int8, DType::uint16, DType::int32, DType::float16,
                                           DType::float32, DType::float64, DType::complex64, DType::complex128),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(Compile, ThirtyTwoAxes) {
  const Program program = addition(DType::float32);
  Dims shape = Dims::filled(kMaxDims, 2);
  Launch launch = contiguous_launch(program, shape);
  // No two axes of the first operand merge.
  for (int d = 0; d < kMaxDims; ++d) launch.inputs[0].strides[d] = 4 * (int64_t{3} << (kMaxDims - 1 - d)) / 2;
  for (int d = 0; d < kMaxDims; d += 2) launch.inputs[0].strides[d] += 4;
  Batch batch;
  const Plan plan = batch.add(program, launch);
  EXPECT_GT(plan.ndim, 16);
  batch.compile_all();
}

TEST(Compile, ReportsTheCompilersLog) {
  try {
    compile("this is no CUDA", kArchitecture);
    FAIL() << "expected DeviceError";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("error"), std::string::npos) << error.what();
  }
}

TEST(Compile, OlderCompilerGivesPtxForNewerDevices) {
  const std::string code = compile("extern \"C\" __global__ void empty() {}", /*architecture=*/999);
  EXPECT_NE(code.find(".visible .entry empty"), std::string::npos);
}

// Scans gathered into one compilation, each in a namespace of its own.
class ScanBatch {
 public:
  void add(ScanKernel kernel, Op op, DType input, DType result) {
    const ModuleSource source = make_scan_source(kernel, op, input, result);
    const std::string number = fmt::format("_{}", kernels_.size());
    kernels_.push_back(source.kernels[0] + number);
    source_ += with_suffix(with_suffix(source.text, source.kernels[0], number), "quarry::local::scan", number);
  }
  void compile_all() const {
    std::string code;
    try {
      code = compile_quickly(source_);
    } catch (const DeviceError& error) {
      FAIL() << std::string(error.what()).substr(0, 4000);
    }
    for (const std::string& kernel : kernels_) EXPECT_NE(code.find(kernel), std::string::npos) << kernel;
  }

 private:
  static std::string with_suffix(std::string text, const std::string& word, const std::string& suffix) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size()))
      text.insert(at + word.size(), suffix);
    return text;
  }

  std::string source_;
  std::vector<std::string> kernels_;
};

class CompileScans : public ::testing::TestWithParam<DType> {};

// Every operation that has a scan of the dtype, and a wider result of narrow input.
TEST_P(CompileScans, EveryOperation) {
  const DType dtype = GetParam();
  constexpr ScanKernel kKernels[] = {ScanKernel::lines,     ScanKernel::warps,       ScanKernel::look,
                                     ScanKernel::across,    ScanKernel::last_lines,  ScanKernel::last_warps,
                                     ScanKernel::last_look, ScanKernel::last_across, ScanKernel::fold,
                                     ScanKernel::fold_warp};
  ScanBatch batch;
  int count = 0;
  for (int i = 0; i < op_count(); ++i) {
    const auto op = static_cast<Op>(i);
    if (!Scanning::supports(op, dtype)) continue;
    // The kernels differ in nothing that depends on the operation: one of them for most, all for the sum.
    if (op == "add"_op)
      for (const ScanKernel kernel : kKernels) batch.add(kernel, op, dtype, dtype);
    else
      batch.add(kKernels[count++ % 2 == 0 ? 1 : 0], op, dtype, dtype);
    if (op == "add"_op) batch.add(ScanKernel::look, op, DType::uint8, dtype);
    if (op == "add"_op) batch.add(ScanKernel::lines, op, DType::int16, dtype);
    if (op == "add"_op) batch.add(ScanKernel::last_across, op, DType::bool_, dtype);
  }
  EXPECT_GT(count, 3);
  batch.compile_all();
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CompileScans, ::testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace quarry::local::cuda
