// Raw kernels on a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "quarry/local/local.h"

namespace {

namespace ql = quarry::local;
using ql::Dims;
using ql::DType;
using ql::NdArray;
using ql::RawArgument;
using ql::RawKernel;
using ql::RawModule;
using ::testing::HasSubstr;

class RawKernelsCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ql::available(ql::DeviceKind::cuda)) GTEST_SKIP() << "no GPU";
    scope_.emplace(ql::Device{ql::DeviceKind::cuda, 0});
  }

 private:
  std::optional<ql::DeviceScope> scope_;
};

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

constexpr const char* kScale = R"(extern "C" __global__ void scale(float* x, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
})";

TEST_F(RawKernelsCuda, RunWithCheckedArguments) {
  const RawKernel scale(kScale, "scale");
  const NdArray x = ql::arange(1000).astype(DType::float32), before = x.copy();
  scale({4}, {256}, {x, 2.5f, 1000});
  EXPECT_TRUE(ql::array_equal(x, before * 2.5));
  // Work that follows on the stream sees the result, and the kernel what came before.
  const NdArray y = x + 1;
  scale({4}, {256}, {y, -1.0f, 1000});
  EXPECT_TRUE(ql::array_equal(y - 1, -x - 2));
  EXPECT_THROW(scale({4}, {256}, {x, 2.5, 1000}), ql::TypeError);
  EXPECT_THROW(scale({4}, {256}, {x, 2.5f}), ql::TypeError);
  EXPECT_THROW(scale({4}, {256}, {ql::arange(3), 2.5f, 3}), ql::TypeError);
  EXPECT_THROW(scale({4}, {2048}, {x, 2.5f, 1000}), ql::InvalidArgument);
  EXPECT_THROW(scale({1, 1 << 20}, {32}, {x, 2.5f, 1000}), ql::InvalidArgument);
  EXPECT_TRUE(ql::array_equal(x, before * 2.5));
}

TEST_F(RawKernelsCuda, Attributes) {
  const RawKernel kernel(R"(extern "C" __global__ void __launch_bounds__(128) f(double* x) {
  __shared__ double s[100];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[99 - threadIdx.x];
})",
                         "f");
  const ql::RawAttributes attributes = kernel.attributes();
  EXPECT_EQ(attributes.static_shared_bytes, 800);
  EXPECT_EQ(attributes.max_threads_per_block, 128);
  EXPECT_GT(attributes.registers, 0);
  EXPECT_GE(attributes.binary_version, 70);
  const NdArray x = ql::arange(100).astype(DType::float64);
  kernel({1}, {100}, {x});
  EXPECT_TRUE(ql::array_equal(x, 99 - ql::arange(100)));
  EXPECT_THROW(kernel({1}, {129}, {x}), ql::InvalidArgument);
}

TEST_F(RawKernelsCuda, SharedMemoryUpToWhatTheDeviceHas) {
  const RawKernel reverse(R"(extern "C" __global__ void reverse(int* x, int n) {
  extern __shared__ int s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = s[n - 1 - i];
})",
                          "reverse");
  const NdArray x = ql::arange(15000).astype(DType::int32);
  reverse({1}, {256}, {x, 15000}, 60000);  // more than 48 KiB
  EXPECT_TRUE(ql::array_equal(x, 14999 - ql::arange(15000)));
  EXPECT_GE(reverse.attributes().max_dynamic_shared_bytes, 60000);
  const std::string text = message<ql::InvalidArgument>([&] { reverse({1}, {256}, {x, 15000}, 1 << 24); });
  EXPECT_THAT(text, HasSubstr("kernel 'reverse' asks for 16777216 bytes of dynamic shared memory: cuda:0 has "));
  EXPECT_THROW(reverse.set_max_dynamic_shared_bytes(1 << 24), ql::InvalidArgument);
  reverse.set_max_dynamic_shared_bytes(70000);
  EXPECT_EQ(reverse.attributes().max_dynamic_shared_bytes, 70000);
  reverse({1}, {256}, {x, 15000}, 60000);  // the device is usable
  EXPECT_TRUE(ql::array_equal(x, ql::arange(15000)));
}

TEST_F(RawKernelsCuda, ModulesTemplatesVariablesAndStructs) {
  const RawModule module(R"(#include <quarry/kernel.h>
struct Line { double slope, offset; };
__constant__ float weights[3];
template <class T> __global__ void fill(T* x, T value, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
__global__ void apply(double* x, Line line) { x[threadIdx.x] = x[threadIdx.x] * line.slope + line.offset; }
__global__ void weigh(float16* x, complex<float>* z) {
  x[threadIdx.x] = weights[threadIdx.x];
  z[threadIdx.x] = complex<float>(x[threadIdx.x], 1) * complex<float>(0, 1);
})",
                         {"fill<int>", "fill<double>", "apply", "weigh", "&weights"});
  const NdArray x = ql::zeros(Dims{10}), i = ql::zeros(Dims{10}, DType::int32);
  module.function("fill<double>")({1}, {32}, {x, 2.5, int64_t{10}});
  module.function("fill<int>")({1}, {32}, {i, 7, int64_t{10}});
  EXPECT_TRUE(ql::array_equal(x, ql::full(Dims{10}, 2.5)));
  EXPECT_TRUE(ql::array_equal(i, ql::full(Dims{10}, 7)));
  // The compiled kernel tells sizes where the source does not tell types.
  EXPECT_THROW(module.function("fill<double>")({1}, {32}, {x, 2.5f, int64_t{10}}), ql::TypeError);
  EXPECT_THROW(module.function("fill<double>")({1}, {32}, {x, 2.5}), ql::TypeError);
  EXPECT_THROW(module.function("fill<double>")({1}, {32}, {x, 2.5, int64_t{10}, 1}), ql::TypeError);
  struct Line {
    double slope, offset;
  };
  module.function("apply")({1}, {10}, {x, RawArgument::structure(Line{2, 1})});
  EXPECT_TRUE(ql::array_equal(x, ql::full(Dims{10}, 6.0)));
  const NdArray weights = module.variable("weights", DType::float32);
  ASSERT_EQ(weights.shape(), Dims{3});
  weights.assign(ql::arange(3).astype(DType::float32));
  const NdArray half = ql::zeros(Dims{3}, DType::float16), z = ql::zeros(Dims{3}, DType::complex64);
  module.function("weigh")({1}, {3}, {half, z});
  EXPECT_TRUE(ql::array_equal(half, ql::arange(3)));
  EXPECT_TRUE(ql::array_equal(z, std::complex<double>(0, 1) * ql::arange(3) - 1));
  EXPECT_THROW(module.variable("weights", DType::complex128), ql::InvalidArgument);
}

TEST_F(RawKernelsCuda, ErrorsQuoteTheUsersLines) {
  const NdArray x = ql::zeros(Dims{4}, DType::float32);
  const RawKernel wrong("extern \"C\" __global__ void f(float* x) {\n  x[0] = y;\n}", "f");
  const std::string text = message<ql::CompileError>([&] { wrong({1}, {1}, {x}); });
  EXPECT_THAT(text, HasSubstr("kernel 'f' does not compile\nsource, line 2: "));
  EXPECT_THAT(text, HasSubstr("\n      x[0] = y;"));
  EXPECT_THROW(RawKernel("extern \"C\" __global__ void f() {}", "g").compile(), ql::CompileError);
  RawKernel(kScale, "scale")({1}, {4}, {x, 1.0f, 4});
  EXPECT_TRUE(ql::array_equal(x, ql::zeros(Dims{4})));
}

TEST_F(RawKernelsCuda, ArraysOfTheHostAreRefused) {
  const NdArray x = ql::zeros(Dims{4}, DType::float32);
  EXPECT_THROW(RawKernel(kScale, "scale")({1}, {4}, {x.to(ql::kCpu), 1.0f, 4}), ql::NotSupported);
}

}  // namespace
