// Users' elementwise and reduction kernels on every device, against the same by NumPy's functions.
#include "quarry/local/kernel/kernel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "quarry/local/local.h"
#include "quarry/local/program/disk_cache.h"
#include "tests/support/on_devices.h"

namespace {

namespace ql = quarry::local;
using ql::Dims;
using ql::DType;
using ql::ElementwiseKernel;
using ql::NdArray;
using ql::ReductionKernel;
using quarry::test::arange;
using ::testing::HasSubstr;

class Kernels : public quarry::test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Kernels);

void expect_same(const NdArray& got, const NdArray& wanted, const std::string& what = "") {
  ASSERT_EQ(got.dtype(), wanted.dtype()) << what;
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  EXPECT_EQ(got.device(), wanted.device()) << what;
  EXPECT_TRUE(ql::array_equal(got, wanted)) << what << "\n" << got.to_string() << "\n" << wanted.to_string();
}

template <class Error>
std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST_P(Kernels, GenericTypesAndBroadcasting) {
  const ElementwiseKernel squared("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_difference");
  for (const DType dtype : {DType::int8, DType::uint16, DType::int64, DType::float32, DType::float64, DType::float16,
                            DType::bfloat16, DType::complex64, DType::complex128}) {
    const NdArray x = arange({3, 5}).astype(dtype), y = arange({5}).astype(dtype);
    const NdArray d = x - y;
    expect_same(squared(x, y), d * d, ql::name(dtype));
    expect_same(squared(x, 2), (x - 2) * (x - 2), ql::name(dtype));
  }
  const ElementwiseKernel mixed("T x, U y, float64 s", "U z", "z = x < T(3) ? y : U(s)", "mixed");
  const NdArray x = arange({6}), y = arange({2, 1}).astype(DType::float32);
  expect_same(mixed(x, y, 7.5), ql::where(x < 3, y, 7.5));
}

TEST_P(Kernels, EveryLayout) {
  const ElementwiseKernel add("T x, T y", "T z", "z = x + y", "add");
  for (const DType dtype : {DType::int8, DType::float32, DType::complex128}) {
    const NdArray x = arange({6, 8, 10}).astype(dtype), y = arange({10, 8, 6}).astype(dtype);
    expect_same(add(x, y.T()), x + y.T(), "transposed");
    expect_same(add(x.T(), x.T()), x.T() + x.T(), "both transposed");
    const NdArray part = x[{ql::full_slice, ql::Slice{{}, {}, -1}, ql::Slice{1, {}, 2}}];
    expect_same(add(part, part), part + part, "negative and wide steps");
    expect_same(add(x, x[{int64_t{0}, int64_t{0}}]), x + x[{int64_t{0}, int64_t{0}}], "a row");
    const NdArray column = x[{ql::full_slice, ql::full_slice, ql::Slice{3, 4, {}}}];
    expect_same(add(x, column), x + column, "a column");
    expect_same(add(x[{int64_t{1}, int64_t{2}, int64_t{3}}], 4), x[{int64_t{1}, int64_t{2}, int64_t{3}}] + 4, "0-d");
    const NdArray odd = arange({1001}).astype(dtype);
    const NdArray inner = odd[{ql::Slice{1, 1000, {}}}];
    expect_same(add(inner, inner), inner + inner, "unaligned");
  }
  // More than a square of a GPU's block in each direction, and parts of squares.
  const ElementwiseKernel placed("T x, T y", "int64 z", "z = ((long long)x - (long long)y) * 100000 + i", "placed");
  for (const DType dtype : {DType::int8, DType::float32, DType::int64}) {
    const NdArray x = arange({70, 9, 40}).astype(dtype), y = arange({40, 9, 70}).astype(dtype);
    const NdArray order = arange({40, 9, 70});
    expect_same(placed(x.T(), y), (x.T().astype(DType::int64) - y.astype(DType::int64)) * 100000 + order, "across");
    const NdArray back = x[{ql::Slice{{}, {}, -1}, ql::full_slice, ql::Slice{{}, {}, -1}}].T();
    expect_same(placed(back, x.T()), (back.astype(DType::int64) - x.T().astype(DType::int64)) * 100000 + order,
                "across and backwards");
  }
  expect_same(add(ql::zeros(Dims{0, 3}), ql::ones(Dims{3})), ql::zeros(Dims{0, 3}), "empty");
  const NdArray large = arange({300007}).astype(DType::float64);
  expect_same(add(large, large), large + large, "several units");
  expect_same(add(1, 2.5), ql::full(Dims{}, 3.5), "numbers alone");
}

TEST_P(Kernels, OutputsGivenSeveralAndInPlace) {
  const ElementwiseKernel both("T x, T y", "T sum, bool less", "sum = x + y; less = x < y;", "both");
  const NdArray x = arange({4, 5}).astype(DType::float32), y = ql::full(Dims{5}, 7, DType::float32);
  const std::vector<NdArray> made = both.call({x, y});
  expect_same(made[0], x + y);
  expect_same(made[1], x < y);
  const NdArray sum = ql::zeros(Dims{4, 5}, DType::float32), less = ql::zeros(Dims{4, 5}, DType::bool_);
  EXPECT_EQ(both.call({x, y, sum, less})[0].raw(), sum.raw());
  expect_same(sum, x + y);
  expect_same(less, x < y);
  EXPECT_THROW(both(x, y), ql::InvalidArgument);
  // What an output held is there to be read; and an input may be the output.
  const ElementwiseKernel accumulate("T x", "T z", "if (x > T(8)) z += x", "accumulate");
  const NdArray z = x.copy();
  accumulate(x, z);
  expect_same(z, ql::where(x > 8, x + x, x));
  accumulate(z, z);
  expect_same(z, ql::where(x > 8, x * 4, x));
  // An input that the output runs over is copied before.
  const NdArray line = arange({10}).astype(DType::float32), before = line.copy();
  ElementwiseKernel("T x", "T z", "z = x + 1", "shifted")(line[{ql::Slice{0, 9, {}}}], line[{ql::Slice{1, {}, {}}}]);
  expect_same(line[{ql::Slice{1, {}, {}}}], before[{ql::Slice{0, 9, {}}}] + 1);
}

TEST_P(Kernels, RawArraysAndPositions) {
  const NdArray x = arange({12}).astype(DType::float64), twice = arange({4, 6})[{ql::full_slice, ql::Slice{{}, {}, 2}}];
  const ElementwiseKernel difference("raw T x", "T z", "z = i + 1 < n ? x[i + 1] - x[i] : T(0)", "difference");
  EXPECT_THROW(difference(x), ql::InvalidArgument);  // the size is undecided
  const NdArray z = ql::zeros(Dims{12});
  expect_same(difference(x, z)[{ql::Slice{0, 11, {}}}], ql::ones(Dims{11}));
  expect_same(difference.call({x}, {.size = 5})[0], ql::from_vector(std::vector<double>{1, 1, 1, 1, 0}));
  // Arrays that are not contiguous, by one index and by several; sizes and shapes.
  const ElementwiseKernel read("raw int64 x, int64 k", "int64 z", "z = x[k] * 1000 + x.size() * 100 + x.shape()[1]",
                               "read");
  expect_same(read(twice, arange({12})), ql::reshape(twice, {12}) * 1000 + 1203);
  const ElementwiseKernel transposed(
      "raw T x, T y", "T z", "const long long at[] = {_ind.get()[1], _ind.get()[0]}; z = x[at] + y", "by_index");
  expect_same(transposed(twice, ql::zeros(Dims{3, 4}, DType::int64)), twice.T());
  const ElementwiseKernel where("T x", "int64 z", "z = i * 100 + _ind.size()", "positions");
  expect_same(where(twice.T()), arange({3, 4}) * 100 + 12, "positions count in C order");
  // Sums into a raw output.
  const ElementwiseKernel histogram("int64 x", "raw int32 bins", "atomicAdd(&bins[x % 3], 1)", "histogram");
  const NdArray bins = ql::zeros(Dims{3}, DType::int32);
  histogram(arange({100000}), bins);
  expect_same(bins, ql::from_vector(std::vector<int32_t>{33334, 33333, 33333}));
  EXPECT_THROW(histogram(arange({3})), ql::InvalidArgument);  // a raw output is given
}

TEST_P(Kernels, PreamblesOptionsAndControlFlow) {
  ql::KernelOptions options;
  options.preamble = "__device__ T clipped(T v) { return v > T(LIMIT) ? T(LIMIT) : v; }";
  options.options = {"-DLIMIT=5"};
  const NdArray x = arange({3, 4}).astype(DType::float32);
  expect_same(ElementwiseKernel("T x", "T z", "z = clipped(x)", "limited", options)(x), ql::minimum(x, 5));
  // return, continue and break end the element.
  expect_same(
      ElementwiseKernel("T x", "T z", "z = 1; if (x > T(3)) return; z = 2; if (x > T(2)) continue; z = 3", "ends")(x),
      ql::where(x > 3, 1.0f, ql::where(x > 2, 2.0f, ql::full(Dims{}, 3, DType::float32))));
  expect_same(ElementwiseKernel("T x", "T z", "// a comment\nz = max(min(x, T(7)), T(2)); // another", "commented")(x),
              ql::clip(x, 2, 7));
}

TEST_P(Kernels, FunctionsAndComplexNumbers) {
  const NdArray x = arange({40}) * 0.1 + 0.05;
  const auto near = [](const NdArray& got, const NdArray& wanted) {
    EXPECT_EQ(got.dtype(), wanted.dtype());
    EXPECT_TRUE(ql::allclose(got, wanted, 1e-13, 0));
  };
  near(ElementwiseKernel("T x", "T z", "z = sqrt(x * x + 1) * exp(-x)", "chain")(x), ql::sqrt(x * x + 1) * ql::exp(-x));
  near(ElementwiseKernel("T x", "T z", "z = rsqrt(x) + pow(x, T(2.5)) + fabs(x) + atan2(x, T(1))", "functions")(x),
       1 / ql::sqrt(x) + ql::power(x, 2.5) + x + ql::arctan2(x, 1));
  const NdArray c = x + x * std::complex<double>(0, 2);
  near(ElementwiseKernel("T x", "T z", "z = exp(x) * conj(x) / T(1, 2) - sqrt(x)", "complex_functions")(c),
       ql::exp(c) * ql::conjugate(c) / std::complex<double>(1, 2) - ql::sqrt(c));
  near(ElementwiseKernel("complex128 x", "float64 z", "z = abs(x) + x.real() + imag(x) + arg(x) + norm(x)", "parts")(c),
       ql::absolute(c) + x + 2 * x + ql::angle(c) + 5 * x * x);
}

TEST_P(Kernels, Reductions) {
  const ReductionKernel norm("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm");
  const ReductionKernel dot("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot");
  const NdArray x = ql::remainder(arange({7, 30, 11}) * 37, 101).astype(DType::float64);
  EXPECT_DOUBLE_EQ(norm(x).item<double>(), std::sqrt(ql::sum(x * x).item<double>()));
  for (const auto& axes :
       {ql::Axes(0), ql::Axes(1), ql::Axes(-1), ql::Axes{0, 2}, ql::Axes{1, 2}, ql::Axes(std::vector<int64_t>{})}) {
    for (const bool keepdims : {false, true}) {
      const NdArray wanted = ql::sum(x * x, axes, {.keepdims = keepdims});
      expect_same(dot.call({x, x}, {.axis = axes, .keepdims = keepdims})[0], wanted);  // integers: exact in any order
      const NdArray given = ql::zeros(wanted.shape());
      EXPECT_EQ(dot.call({x, x, given}, {.axis = axes, .keepdims = keepdims})[0].raw(), given.raw());
      expect_same(given, wanted);
    }
    const NdArray t = x.T();
    expect_same(dot.call({t, t}, {.axis = axes})[0], ql::sum(t * t, axes), "transposed");
    const NdArray reversed = x[{ql::Slice{{}, {}, -1}, ql::Slice{{}, {}, 3}}];
    expect_same(dot.call({reversed, reversed}, {.axis = axes})[0], ql::sum(reversed * reversed, axes), "steps");
    expect_same(dot.call({x, 2}, {.axis = axes})[0], ql::sum(x * 2, axes), "a number");
    expect_same(dot.call({x, x[{int64_t{0}}]}, {.axis = axes})[0], ql::sum(x * x[{int64_t{0}}], axes), "broadcast");
  }
  // Long ones: several segments, of a row and across columns.
  const NdArray lines = ql::remainder(arange({3, 50001}), 1000);
  expect_same(dot(lines, lines), ql::sum(lines * lines));
  expect_same(dot.call({lines, lines}, {.axis = 1})[0], ql::sum(lines * lines, 1));
  expect_same(dot.call({lines.T(), lines.T()}, {.axis = 0})[0], ql::sum(lines * lines, 1));
  const NdArray tall = ql::remainder(arange({20001, 24}), 1000);
  expect_same(dot.call({tall, tall}, {.axis = 0})[0], ql::sum(tall * tall, 0));
  // Nothing to reduce.
  expect_same(dot.call({ql::zeros(Dims{2, 0}), 1}, {.axis = 1})[0], ql::zeros(Dims{2}));
  expect_same(dot.call({ql::zeros(Dims{0, 2}), 1}, {.axis = 1})[0], ql::zeros(Dims{0}));
  expect_same(dot(ql::full(Dims{}, 3.0), 4), ql::full(Dims{}, 12.0), "0-d");
}

TEST_P(Kernels, ReductionsWithoutIdentityAndWithTypesOfTheirOwn) {
  const ReductionKernel largest("T x", "T y", "x", "max(a, b)", "y = a", "", "largest");
  const NdArray x = -ql::remainder(arange({9, 1000}) * 7919, 10007);
  expect_same(largest(x), ql::max(x));
  expect_same(largest.call({x}, {.axis = 0})[0], ql::max(x, 0));
  expect_same(largest.call({x}, {.axis = 1})[0], ql::max(x, 1));
  EXPECT_THAT(message<ql::InvalidArgument>([&] { largest(ql::zeros(Dims{0})); }),
              HasSubstr("largest which has no identity"));
  // Two results from a struct, positions, counts.
  ql::KernelOptions options;
  options.preamble =
      "struct Best { double value; long long at; };\n"
      "__device__ Best best_of(double v, long long at) { Best b; b.value = v; b.at = at; return b; }\n"
      "__device__ Best better(const Best& a, const Best& b) {\n"
      "  return a.value > b.value || (a.value == b.value && a.at < b.at) ? a : b;\n}";
  options.reduce_type = "Best";
  const ReductionKernel best("T x", "T y, int64 at", "best_of(x, i)", "better(a, b)", "y = a.value; at = a.at", "",
                             "best", options);
  const std::vector<NdArray> found = best.call({x});
  expect_same(found[0], ql::max(x));
  expect_same(found[1], ql::argmax(x));
  const ReductionKernel mean("T x", "float64 y", "x", "a + b", "y = a / (_in_ind.size() / _out_ind.size())", "0",
                             "mean");
  expect_same(mean.call({x}, {.axis = 1})[0], ql::sum(x, 1) / 1000);
  // 16-bit floats add up in float32.
  const ReductionKernel sum("T x", "T y", "x", "a + b", "y = a", "0", "sum");
  EXPECT_EQ(static_cast<float>(sum(ql::ones(Dims{5000}, DType::float16)).item<ql::float16>()), 5000.0f);
  const NdArray c = arange({50}) + arange({50}) * std::complex<double>(0, 1);
  expect_same(sum(c), ql::sum(c));
  const ReductionKernel weighted("T x, raw T w", "T y", "x * w[i % w.size()]", "a + b", "y = a", "0", "weighted");
  expect_same(weighted(arange({10}), ql::from_vector(std::vector<int64_t>{1, 0})), ql::full(Dims{}, int64_t{20}));
}

TEST_P(Kernels, DeclarationsThatMakeNoSense) {
  const auto declare = [](const char* in, const char* out, const char* name = "f") {
    return message<ql::InvalidArgument>([&] { ElementwiseKernel(in, out, "", name); });
  };
  EXPECT_THAT(declare("flaot32 x", "T z"), HasSubstr("'flaot32' is neither a dtype nor a generic name"));
  EXPECT_THAT(declare("T x, T", "T z"), HasSubstr("expected a type and a name"));
  EXPECT_THAT(declare("T i", "T z"), HasSubstr("'i' is reserved"));
  EXPECT_THAT(declare("T _x", "T z"), HasSubstr("'_x' is reserved"));
  EXPECT_THAT(declare("T x", "T x"), HasSubstr("'x' stands twice"));
  EXPECT_THAT(declare("T 3x", "T z"), HasSubstr("'3x' is no name"));
  EXPECT_THAT(declare("T x", ""), HasSubstr("no output"));
  EXPECT_THAT(declare("T x", "T z", "no name"), HasSubstr("identifier"));
  EXPECT_THROW(ReductionKernel("T a", "T y", "a", "a + b", "y = a"), ql::InvalidArgument);
}

TEST_P(Kernels, ArgumentsThatDoNotFit) {
  const ElementwiseKernel add("T x, T y", "T z", "z = x + y", "add");
  const NdArray x = arange({4}), f = x.astype(DType::float32);
  EXPECT_THAT(message<ql::TypeError>([&] { add(x, f); }),
              HasSubstr("type 'T' is int64 by parameter 'x' and float32 by parameter 'y'"));
  EXPECT_THAT(message<ql::TypeError>([&] { add(x); }), HasSubstr("takes 2 arguments, or 3 with its outputs; got 1"));
  EXPECT_THAT(message<ql::TypeError>([&] { ElementwiseKernel("float32 x", "T z", "z = x", "g")(f); }),
              HasSubstr("no argument decides the type 'T'"));
  EXPECT_THAT(message<ql::TypeError>([&] { ElementwiseKernel("float32 x", "float32 z", "z = x", "g")(x); }),
              HasSubstr("parameter 'x' is float32, the argument int64"));
  EXPECT_THAT(message<ql::TypeError>([&] { add(x, 2.5); }),
              HasSubstr("parameter 'y' is int64, which a number of dtype float64"));
  EXPECT_THROW(add(x.astype(DType::int8), 300), ql::InvalidArgument);
  EXPECT_THROW(add(x, arange({3})), ql::InvalidArgument);
  EXPECT_THAT(message<ql::InvalidArgument>([&] { add(x, x, arange({1})); }),
              HasSubstr("output 'z' has shape (1,), the arguments broadcast to (4,)"));
  EXPECT_THROW(add(x, x, ql::zeros(Dims{1}, DType::int64).broadcast_to(Dims{4})), ql::InvalidArgument);
  const ElementwiseKernel two("T x", "T y, T z", "y = x; z = x", "two");
  EXPECT_THROW(two.call({x, f, f}), ql::TypeError);
  const NdArray shared = arange({4});
  EXPECT_THAT(message<ql::InvalidArgument>([&] {
                two.call({x, shared, shared});
              }),
              HasSubstr("two outputs share memory"));
  const ReductionKernel sum("T x", "T y", "x", "a + b", "y = a", "0", "sum");
  EXPECT_THROW(sum.call({x}, {.axis = 1}), ql::IndexError);
  EXPECT_THROW(sum.call({x, ql::zeros(Dims{3}, DType::int64)}), ql::InvalidArgument);
  EXPECT_THROW(sum(5), ql::InvalidArgument);
  if (GetParam() == ql::DeviceKind::emulated) {
    EXPECT_THROW(add(x, x.to(ql::kCpu)), ql::InvalidArgument);
  }
  expect_same(add(x, x), x + x, "afterwards");
}

TEST_P(Kernels, ErrorsInTheCodeQuoteItsLines) {
  const NdArray x = arange({4});
  const std::string text =
      message<ql::CompileError>([&] { ElementwiseKernel("T x", "T z", "T t = x;\nz = t + undeclared", "wrong")(x); });
  EXPECT_THAT(text, HasSubstr("kernel 'wrong' does not compile\noperation, line 2: "));
  EXPECT_THAT(text, HasSubstr("undeclared"));
  EXPECT_THAT(text, HasSubstr("\n    z = t + undeclared"));
  EXPECT_THAT(message<ql::CompileError>([&] { ReductionKernel("T x", "T y", "x", "a + c", "y = a", "0", "wrong")(x); }),
              HasSubstr("reduce, line 1: "));
  expect_same(ElementwiseKernel("T x", "T z", "z = x", "right")(x), x, "afterwards");
}

// An error of the first call is not kept.
TEST(KernelCompiler, IsMissedByName) {
  const NdArray x = arange({4});
  const char* const path = std::getenv("CXX");
  const std::string before = path == nullptr ? "" : path;
  setenv("CXX", "/no/such/compiler", 1);
  EXPECT_THAT(message<ql::NotSupported>([&] { ElementwiseKernel("T x", "T z", "z = x + 12345", "no_compiler")(x); }),
              HasSubstr("need a C++ compiler on the CPU, and there is no '/no/such/compiler'"));
  if (path == nullptr)
    unsetenv("CXX");
  else
    setenv("CXX", before.c_str(), 1);
  expect_same(ElementwiseKernel("T x", "T z", "z = x + 12345", "no_compiler")(x), x + 12345);
}

// Names of entries of the CPU's kernels on disk.
std::set<std::string> entries(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("cpu-")) names.insert(entry.path().filename().string());
  return names;
}

TEST(KernelCompiler, DamagedEntriesAreCompiledAnew) {
  const std::string folder = ql::DiskCache::default_folder();
  if (folder.empty()) GTEST_SKIP() << "no folder for kernels";
  const NdArray x = arange({4});
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::string operation = fmt::format("z = x + {}", now);  // not on disk yet
  const std::set<std::string> before = entries(folder);
  expect_same(ElementwiseKernel("T x", "T z", operation, "kept")(x), x + now);
  // Other programs may write kernels meanwhile: ours holds the number.
  const std::string number(reinterpret_cast<const char*>(&now), sizeof now);
  std::string name, code, again;
  for (const std::string& entry : entries(folder))
    if (before.count(entry) == 0 && ql::DiskCache(folder).load(entry, code) && code.find(number) != std::string::npos)
      name = entry;
  ASSERT_FALSE(name.empty());
  for (const bool cut : {false, true}) {
    if (cut) {
      std::filesystem::resize_file(folder + "/" + name, 100);
    } else {
      std::fstream file(folder + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(2000);
      file.write("damaged", 7);
    }
    // An option that means nothing on the CPU: another kernel in memory, the same one on disk.
    ql::KernelOptions options;
    options.options = {cut ? "-lineinfo" : "--generate-line-info"};
    expect_same(ElementwiseKernel("T x", "T z", operation, "kept", options)(x), x + now);
    ASSERT_TRUE(ql::DiskCache(folder).load(name, again));
    EXPECT_EQ(again.substr(0, 4),
              "\x7f"
              "ELF");
  }
  std::filesystem::remove(folder + "/" + name);
}

TEST(RawKernels, NeedAGpu) {
  const NdArray x = arange({4});
  const ql::RawKernel kernel("extern \"C\" __global__ void f(const long long* x, int n) {}", "f");
  EXPECT_THAT(message<ql::NotSupported>([&] {
                kernel({1}, {1}, {x, 4});
              }),
              HasSubstr("'f' is CUDA source and needs a GPU"));
  EXPECT_THROW(kernel.compile(ql::kCpu), ql::NotSupported);
  EXPECT_THROW(kernel.attributes(ql::kCpu), ql::NotSupported);
  // The arguments are checked against the source first.
  EXPECT_THAT(message<ql::TypeError>([&] { kernel({1}, {1}, {x}); }), HasSubstr("takes 2 arguments, got 1"));
  EXPECT_THAT(message<ql::TypeError>([&] {
                kernel({1}, {1}, {x.astype(DType::float32), 4});
              }),
              HasSubstr("argument 0 is an array of float32, the parameter is 'const long long* x'"));
  EXPECT_THAT(message<ql::TypeError>([&] {
                kernel({1}, {1}, {x, 4.0});
              }),
              HasSubstr("argument 1 is a value of float64, the parameter is 'int n'"));
  EXPECT_THROW(kernel({0}, {1}, {x, 4}), ql::InvalidArgument);
  EXPECT_THROW(kernel({1}, {1}, {x, 4}, -1), ql::InvalidArgument);
  const ql::RawModule module("__global__ void f() {}", {"f"});
  EXPECT_THROW(module.function("g"), ql::InvalidArgument);
  EXPECT_THROW(module.function("f")({1}, {1}, {}), ql::NotSupported);
  EXPECT_THROW(ql::RawModule("", {}), ql::InvalidArgument);
}

}  // namespace
