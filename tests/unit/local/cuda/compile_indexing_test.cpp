// The kernels of local/cuda/indexing.cpp and masks.cpp compile, on machines without a GPU too.
#include <gtest/gtest.h>

#include <array>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/indexing.h"

namespace quarry::local::cuda {
namespace {

constexpr Architecture kArchitecture = 90;

void expect_compiles(const ModuleSource& source, const std::string& what) {
  try {
    EXPECT_NE(compile(source.text, kArchitecture).find("run"), std::string::npos) << what;
  } catch (const DeviceError& error) {
    ADD_FAILURE() << what << "\n" << std::string(error.what()).substr(0, 3000);
  }
}

TEST(CompileIndexing, ElementKernels) {
  using Kind = ElementKernel::Kind;
  for (const Kind kind : {Kind::gather, Kind::scatter, Kind::claim, Kind::check}) {
    for (const bool wide : {false, true}) {
      ElementKernel kernel;
      kernel.kind = kind;
      kernel.width = wide ? 16 : 4;
      kernel.axes = wide ? 3 : 1;
      kernel.indices = wide && kind != Kind::check ? 2 : 1;
      kernel.mode = wide ? IndexMode::wrap : IndexMode::raise;
      kernel.wide = kernel.wide_rank = kernel.hashed = wide;
      expect_compiles(kernel.source(), kernel.key());
    }
  }
  ElementKernel none;  // of a single element without indices
  none.axes = 0;
  none.indices = 0;
  none.width = 1;
  none.mode = IndexMode::clip;
  expect_compiles(none.source(), none.key());
  ElementKernel many;
  many.axes = kMaxDims;
  many.indices = kMaxDims;
  many.mode = IndexMode::unchecked;
  many.width = 2;
  expect_compiles(many.source(), many.key());
}

Program update_program(Op op, DType element, DType value) {
  Program program;
  const ValueId x = program.input(element);
  std::vector<ValueId> args{x};
  if (info(op).arity == 2) args.push_back(program.input(value));
  program.output(program.cast(program.apply(op, args), element));
  return program;
}

TEST(CompileIndexing, Updates) {
  struct Case {
    Op op;
    DType element, value;
    ElementKernel::Kind kind;
  };
  constexpr auto kAtomic = ElementKernel::Kind::update, kOrdered = ElementKernel::Kind::update_in_order;
  const Case cases[] = {{"add"_op, DType::float32, DType::float32, kAtomic},
                        {"add"_op, DType::float16, DType::float16, kAtomic},
                        {"add"_op, DType::bool_, DType::bool_, kAtomic},
                        {"add"_op, DType::complex128, DType::complex128, kAtomic},
                        {"subtract"_op, DType::complex64, DType::complex64, kAtomic},
                        {"subtract"_op, DType::int32, DType::int32, kAtomic},
                        {"subtract"_op, DType::uint64, DType::uint64, kAtomic},
                        {"maximum"_op, DType::int8, DType::int64, kAtomic},
                        {"multiply"_op, DType::complex64, DType::float64, kAtomic},
                        {"minimum"_op, DType::bfloat16, DType::float32, kAtomic},
                        {"bitwise_xor"_op, DType::uint16, DType::uint16, kAtomic},
                        {"logical_or"_op, DType::int8, DType::float32, kAtomic},
                        {"logical_and"_op, DType::float64, DType::float64, kAtomic},
                        {"add"_op, DType::int32, DType::float64, kOrdered},
                        {"remainder"_op, DType::int64, DType::int8, kOrdered},
                        {"power"_op, DType::float64, DType::float64, kOrdered},
                        {"less"_op, DType::int64, DType::uint64, kOrdered},
                        {"negative"_op, DType::complex128, DType::complex128, kOrdered},
                        {"multiply"_op, DType::complex128, DType::complex128, kOrdered}};
  for (const Case& c : cases) {
    const Program program = update_program(c.op, c.element, c.value);
    ElementKernel kernel;
    kernel.kind = c.kind;
    kernel.axes = 2;
    kernel.program = &program;
    expect_compiles(kernel.source(), kernel.key());
    kernel.kind = kAtomic;
    kernel.distinct = true;
    expect_compiles(kernel.source(), kernel.key());
    if ((c.op != "add"_op && c.op != "subtract"_op) || c.element != c.value || itemsize(c.element) < 4) continue;
    kernel.kind = ElementKernel::Kind::update_shared;
    kernel.distinct = false;
    expect_compiles(kernel.source(), kernel.key());
  }
}

TEST(CompileIndexing, Masks) {
  using Kind = MaskKernel::Kind;
  for (const Kind kind : {Kind::count, Kind::scan, Kind::positions, Kind::select, Kind::expand, Kind::copy_where}) {
    for (const int axes : {0, 1, 3}) {
      MaskKernel kernel;
      kernel.kind = kind;
      kernel.axes = axes;
      kernel.width = axes == 3 ? 16 : 1 << axes;
      kernel.halves = axes == 3;
      kernel.wide = axes == 3;
      expect_compiles(kernel.source(), kernel.key());
    }
  }
}

}  // namespace
}  // namespace quarry::local::cuda
