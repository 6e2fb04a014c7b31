// The CUDA source around users' snippets compiles for every layout, and what does not is told with the user's own
// lines; needs no GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quarry/local/cuda/kernels.h"
#include "quarry/local/program/kernel_text.h"

namespace quarry::local::cuda {
namespace {

using ::testing::HasSubstr;
constexpr Architecture kArchitecture = 90;
using Kind = KernelParameter::Kind;

// Arrays at a made-up address.
void* address(int64_t offset = 0) { return reinterpret_cast<void*>(static_cast<intptr_t>(4096 + offset)); }

KernelParameter parameter(const char* name, DType dtype, Kind kind = Kind::element, bool output = false) {
  KernelParameter made;
  made.name = name;
  made.dtype = dtype;
  made.kind = kind;
  made.output = output;
  return made;
}
KernelArgument element(const Dims& strides, int64_t offset = 0) { return {address(offset), {}, strides, {}}; }

void expect_compiles(KernelCode code, const KernelLaunch& launch, const std::string& what) {
  code.complete();
  const ModuleSource source = make_kernel_source(code, launch);
  try {
    const CompiledModule compiled = compile(source, kArchitecture);
    EXPECT_EQ(compiled.code.substr(1, 3), "ELF");
    for (const std::string& kernel : source.kernels) EXPECT_THAT(compiled.code, HasSubstr(kernel));
  } catch (const SourceRefused& refused) {
    FAIL() << what << "\n" << refused.log().substr(0, 3000);
  }
}

KernelCode elementwise(DType x, DType z, const std::string& operation) {
  KernelCode code;
  code.name = "f";
  code.types = {{"T", x}, {"U", z}};
  code.parameters = {parameter("x", x), parameter("y", x), parameter("z", z, Kind::element, true)};
  code.operation = operation;
  return code;
}

KernelCode reduction(DType x, DType z) {
  KernelCode code;
  code.name = "g";
  code.reduces = true;
  code.types = {{"T", x}};
  code.parameters = {parameter("x", x), parameter("z", z, Kind::element, true)};
  code.map = "x * x";
  code.reduce = "a + b";
  code.post = "z = a";
  code.identity = "0";
  code.reduce_type = kernel_type_name(z);
  return code;
}

class KernelDTypes : public ::testing::TestWithParam<DType> {};

TEST_P(KernelDTypes, ElementwiseInEveryLayout) {
  const DType dtype = GetParam();
  const int64_t e = itemsize(dtype);
  const KernelCode code = elementwise(dtype, dtype, "z = x + y * T(2)");
  const Dims whole{e * 64, e};
  expect_compiles(code, {{10, 64}, 0, {element(whole), element(whole), element(whole)}}, "contiguous");
  expect_compiles(code, {{10, 64}, 0, {element(whole, e), element(whole), element(whole)}}, "unaligned");
  expect_compiles(code, {{10, 64}, 0, {element({0, e}), element({e, 0}), element(whole)}}, "broadcast");
  expect_compiles(code, {{10, 64}, 0, {element({e, e * 10}), element({e * 640, -2 * e}), element(whole)}}, "strided");
  expect_compiles(code, {{100, 64}, 0, {element({e, e * 100}), element(whole), element(whole)}}, "one across");
  expect_compiles(code,
                  {{9, 100, 64},
                   0,
                   {element({e * 6400, e, e * 100}), element({e * 64, -e, e * 900}), element({e * 6400, e * 64, e})}},
                  "both across");
  expect_compiles(code, {{}, 0, {element({}), element({}), element({})}}, "0-d");
  expect_compiles(code, {{int64_t{1} << 33}, 0, {element({e}), element({e}), element({e})}}, "64-bit indices");
}

TEST_P(KernelDTypes, ReductionsInEveryLayout) {
  const DType dtype = GetParam();
  const int64_t e = itemsize(dtype);
  const KernelCode code = reduction(dtype, dtype);
  const Dims whole{e * 4096, e};
  expect_compiles(code, {{1000, 4096}, 0b11, {element(whole), element({0, 0})}}, "to one result");
  expect_compiles(code, {{1000, 4096}, 0b10, {element(whole), element({e, 0})}}, "rows");
  expect_compiles(code, {{1000, 4096}, 0b01, {element(whole), element({0, e})}}, "columns");
  expect_compiles(code, {{3, 5}, 0b10, {element({e * 10, 2 * e}), element({e, 0})}}, "small");
  expect_compiles(code, {{7, 0}, 0b10, {element({e, e}), element({e, 0})}}, "no terms");
}

INSTANTIATE_TEST_SUITE_P(All, KernelDTypes,
                         ::testing::Values(DType::bool_, DType::int8, DType::uint16, DType::int32, DType::int64,
                                           DType::float16, DType::bfloat16, DType::float32, DType::float64,
                                           DType::complex64, DType::complex128),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(KernelSource, RawArraysScalarsAndPositions) {
  KernelCode code;
  code.name = "gather";
  code.types = {{"T", DType::float32}};
  code.parameters = {parameter("x", DType::float32, Kind::raw), parameter("scale", DType::float64, Kind::scalar),
                     parameter("c", DType::complex64, Kind::scalar), parameter("y", DType::float32, Kind::raw, true),
                     parameter("z", DType::int64, Kind::element, true)};
  code.preamble = "__device__ T twice(T v) { return 2 * v; }\n#define EDGE(i, n) ((i) == (n) - 1)";
  code.operation =
      "const long long j = EDGE(i, n) ? 0 : i + 1;\n"
      "if (x.size() == 0) return;\n"
      "z = _ind.size() + _ind.get()[0] + x.shape()[1] + x.strides()[0] + x.ndim;\n"
      "atomicAdd(&y[0], twice(x[j]) * scale + abs(c * c));";
  code.options = {"-DUNUSED=1", "--fmad=true"};
  const KernelArgument x{address(), {3, 4}, {32, 4}, {}}, y{address(), {1}, {4}, {}};
  KernelArgument scale, c;
  scale.value = Scalar::strong(2.0, DType::float64);
  c.value = Scalar::strong(std::complex<double>(1, 2), DType::complex64);
  expect_compiles(code, {{3, 4}, 0, {x, scale, c, y, element({32, 8})}}, "raw");
}

TEST(KernelSource, StatesOfTheUsersOwnAndWithoutIdentity) {
  KernelCode code = reduction(DType::float32, DType::int64);
  code.preamble =
      "struct Best { float value; long long at; };\n"
      "__device__ Best better(const Best& a, const Best& b) { return a.value < b.value ? b : a; }\n"
      "__device__ Best of(float v, long long i) { Best best; best.value = v; best.at = i; return best; }";
  code.map = "of(x, i)";
  code.reduce = "better(a, b)";
  code.post = "z = a.at";
  code.identity = "";
  code.reduce_type = "Best";
  expect_compiles(code, {{1000, 4096}, 0b10, {element({4096 * 4, 4}), element({8, 0})}}, "rows");
  expect_compiles(code, {{1000, 4096}, 0b01, {element({4096 * 4, 4}), element({0, 8})}}, "columns");
}

std::string complaint(KernelCode code, const KernelLaunch& launch) {
  code.complete();
  try {
    compile(make_kernel_source(code, launch), kArchitecture);
  } catch (const SourceRefused& refused) {
    try {
      refuse_kernel(code, refused.log());
    } catch (const CompileError& error) {
      EXPECT_EQ(error.log(), refused.log());
      return error.what();
    }
  }
  return "no complaint";
}

TEST(KernelSource, ErrorsQuoteTheUsersLines) {
  const KernelLaunch launch{{8}, 0, {element({4}), element({4}), element({4})}};
  KernelCode code = elementwise(DType::float32, DType::float32, "T t = x;\nz = t + undeclared");
  std::string text = complaint(code, launch);
  EXPECT_THAT(text, HasSubstr("kernel 'f' does not compile\noperation, line 2: "));
  EXPECT_THAT(text, HasSubstr("\"undeclared\" is undefined\n    z = t + undeclared"));
  code.preamble = "\n__device__ int broken() { return nothing; }";
  EXPECT_THAT(complaint(code, launch), HasSubstr("preamble, line 2: "));
  KernelCode sum = reduction(DType::float32, DType::float32);
  sum.reduce = "a + c";
  text = complaint(sum, {{8}, 1, {element({4}), element({0})}});
  EXPECT_THAT(text, HasSubstr("reduce, line 1: "));
  EXPECT_THAT(text, HasSubstr("\n    a + c"));
}

RawSource raw(const std::string& text, std::vector<std::string> names, std::vector<std::string> options = {}) {
  return {text, std::move(options), std::move(names)};
}

TEST(RawSourceCode, KernelsByNameWithCAndCppLinkage) {
  const ModuleSource source = make_raw_source(raw(
      "#include <quarry/kernel.h>\n"
      "__constant__ float weights[4];\n"
      "template <class T> __global__ void scale(T* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= FACTOR; }\n"
      "extern \"C\" __global__ void plain(float16* x, complex<float>* z) { z[0] = complex<float>(x[0], weights[1]); }",
      {"scale<double>", "plain", "&weights"}, {"-DFACTOR=3"}));
  const CompiledModule compiled = compile(source, kArchitecture);
  EXPECT_EQ(compiled.names[1], "plain");
  EXPECT_THAT(compiled.names[0], HasSubstr("scale"));
  EXPECT_THAT(compiled.names[2], HasSubstr("weights"));
  const CompiledModule again = CompiledModule::unpacked(source, compiled.packed(source));
  EXPECT_EQ(again.names, compiled.names);
  EXPECT_EQ(again.code, compiled.code);
}

TEST(RawSourceCode, ErrorsQuoteTheUsersLines) {
  const std::string text = "\nextern \"C\" __global__ void f(float* x) {\n  x[0] = y;\n}";
  try {
    compile(make_raw_source(raw(text, {"f"})), kArchitecture);
    FAIL() << "compiled";
  } catch (const SourceRefused& refused) {
    EXPECT_THROW(
        try { refuse_source("f", text, refused.log()); } catch (const CompileError& error) {
          EXPECT_THAT(error.what(), HasSubstr("source, line 3: "));
          EXPECT_THAT(error.what(), HasSubstr("\n      x[0] = y;"));
          throw;
        },
        CompileError);
  }
  EXPECT_THROW(compile(make_raw_source(raw("__global__ void f() {}", {"g"})), kArchitecture), SourceRefused);
}

TEST(RawSourceCode, OptionsAreInTheCachesNames) {
  const auto name_of = [](const RawSource& source) { return cache_name(make_raw_source(source), kArchitecture); };
  const std::string text = "extern \"C\" __global__ void f() {}";
  EXPECT_EQ(name_of(raw(text, {"f"})), name_of(raw(text, {"f"})));
  EXPECT_NE(name_of(raw(text, {"f"})), name_of(raw(text, {"f"}, {"-DA"})));
  EXPECT_NE(name_of(raw(text, {"f"})), name_of(raw(text, {"&f"})));
}

}  // namespace
}  // namespace quarry::local::cuda
