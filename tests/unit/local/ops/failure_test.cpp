// Running out of memory at any allocation leaves nothing behind, and streams usable.
#include <gtest/gtest.h>

#include "quarry/local/memory/adaptors.h"
#include "quarry/local/memory/slab_pool.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class Failures : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (!available(GetParam())) GTEST_SKIP() << "no device of kind " << name(GetParam());
    stream_ = backend(GetParam()).create_stream(0, StreamRole::compute);
  }
  const Device device_{GetParam(), 0};
  std::unique_ptr<DeviceStream> stream_;
};
QUARRY_ON_EVERY_DEVICE(Failures);

double several_operations() {
  const NdArray x = from_vector<double>(std::vector<double>(6000, 1.5), {60, 100});
  const NdArray y = (x.T() + 1) * x.reshape({100, 60});
  const NdArray centred = y - ops::mean(y, 0);
  const NdArray gram = linalg::matmul(centred.T(), centred) + linalg::gram(x.T());
  const NdArray values = linalg::eigh(gram).first;  // their sum is the trace, 60 * 100 * 1.5^2
  return ops::sum(values).item<double>() + ops::std(y, {0, 1}, {.ddof = 1}).item<double>();
}

TEST_P(Failures, EveryAllocationMayFail) {
  const auto pool = SlabPool::fixed(device_, int64_t{8} << 20);
  int failed = 0;
  for (bool threw = true; threw; ++failed) {
    FaultResource fault(*pool, failed + 1);
    const DeviceScope scope(ExecContext{device_, stream_.get(), &fault, 0});
    try {
      EXPECT_NEAR(several_operations(), 13500, 1e-6);
      threw = false;
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find("injected"), std::string::npos) << error.what();
    }
    stream_->synchronize();
    EXPECT_EQ(pool->used_bytes(), 0) << "after failure of allocation " << failed + 1;
  }
  EXPECT_GT(failed, 10);
}

TEST_P(Failures, APoolThatIsTooSmallSaysSo) {
  const auto pool = SlabPool::fixed(device_, 1 << 20);
  {
    const DeviceScope scope(ExecContext{device_, stream_.get(), pool.get(), 1});
    const NdArray x({1 << 16}, DType::float64);
    x.fill(1);
    EXPECT_THROW(x + x + x, OutOfMemory);
    stream_->synchronize();
    EXPECT_EQ(pool->used_bytes(), 1 << 19);
    EXPECT_EQ(ops::sum(x).item<double>(), 1 << 16);
  }
  EXPECT_EQ(pool->used_bytes(), 0);
}

}  // namespace
}  // namespace quarry::local
