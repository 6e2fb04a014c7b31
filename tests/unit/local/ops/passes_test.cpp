// Functions that read their arguments once take no memory for copies of them: what they allocate, results included.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "quarry/local/memory/adaptors.h"
#include "quarry/local/ops/numerical/numerical.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sets.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

constexpr int64_t kRows = 8192, kColumns = 512, kElements = kRows * kColumns;
constexpr int64_t kSmall = kElements / 2;  // bytes: half a byte for each element

class Passes : public test::OnDevice {
 protected:
  static NdArray values(DType dtype) {
    std::vector<double> numbers(static_cast<size_t>(kElements));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i % 7 == 3 ? NAN : std::sin(static_cast<double>(i));
    return from_vector(numbers, {kRows, kColumns}).astype(dtype);
  }
  static int64_t bytes_of(const std::function<void()>& call) {
    call();  // programs and tables that are kept
    ExecContext context = current_context();
    StatisticsResource counted(*context.memory);
    context.memory = &counted;
    context.threads = 1;  // each has scratch of its own
    {
      const DeviceScope scope(context);
      call();
      context.stream->synchronize();
    }
    return counted.total_bytes();
  }
};
QUARRY_ON_EVERY_DEVICE(Passes);

TEST_P(Passes, ReductionsWithoutNan) {
  for (const DType dtype : {DType::float64, DType::float32}) {
    const NdArray x = values(dtype);
    EXPECT_LT(bytes_of([&] { ops::nansum(x); }), kSmall) << name(dtype);
    EXPECT_LT(bytes_of([&] { ops::nanmax(x); }), kSmall) << name(dtype);
    EXPECT_LT(bytes_of([&] { ops::nanmin(x, 0); }), kSmall) << name(dtype);
    EXPECT_LT(bytes_of([&] { ops::nanmean(x); }), kSmall) << name(dtype);
    EXPECT_LT(bytes_of([&] { ops::nanmean(x, 1); }), kSmall) << name(dtype);
    EXPECT_LT(bytes_of([&] { ops::nanvar(x); }), kSmall) << name(dtype);
    EXPECT_LT(bytes_of([&] { ops::nanstd(x, 0); }), kSmall) << name(dtype);
    EXPECT_LT(bytes_of([&] { ops::nanargmax(x); }), kSmall) << name(dtype);
    EXPECT_LT(bytes_of([&] { ops::nanargmin(x, 1); }), kSmall) << name(dtype);
  }
}

TEST_P(Passes, ElementwiseFunctions) {
  const NdArray x = values(DType::float64), z = values(DType::complex128);
  EXPECT_LT(bytes_of([&] { ops::nan_to_num(x); }), 8 * kElements + kSmall);
  EXPECT_LT(bytes_of([&] { ops::nan_to_num(z); }), 16 * kElements + kSmall);
  EXPECT_LT(bytes_of([&] { ops::power(x, 2); }), 8 * kElements + kSmall);
}

// Results alone, where states would take more.
TEST_P(Passes, MeansAlongAShortAxis) {
  for (const int64_t length : {2, 3, 7, 8, 16, 17}) {
    for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::int32, DType::complex64}) {
      const Dims shape{300, length, 256};
      const NdArray x = test::arange(shape).astype(DType::float64);
      const NdArray small = ops::remainder(x, 1000).astype(dtype), means = ops::mean(small, 1);
      EXPECT_EQ(means.shape(), (Dims{300, 256}));
      const std::vector<double> got = test::doubles(means), in = test::doubles(small);
      for (int64_t i = 0; i < 300; ++i) {
        for (int64_t j = 0; j < 256; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < length; ++k) sum += in[static_cast<size_t>((i * length + k) * 256 + j)];
          const double mean = sum / static_cast<double>(length);
          ASSERT_NEAR(got[static_cast<size_t>(i * 256 + j)], mean, dtype == DType::float16 ? 0.5 : 1e-3);
        }
      }
      if (GetParam() != DeviceKind::cpu && length <= 16) {
        EXPECT_LE(bytes_of([&] { ops::mean(small, 1); }), means.nbytes() + (128 << 10)) << name(dtype) << length;
      }
      EXPECT_EQ(ops::mean(small, 1, {.keepdims = true}).shape(), (Dims{300, 1, 256}));
      EXPECT_EQ(ops::mean(small[{full_slice, full_slice, Slice{{}, {}, -1}}], 1).shape(), (Dims{300, 256}));
    }
  }
}

TEST_P(Passes, LookUps) {
  const NdArray x = values(DType::float64), points = test::arange({100}).astype(DType::float64);
  EXPECT_LT(bytes_of([&] { ops::interp(x, points, points); }), 8 * kElements + kSmall);
  EXPECT_LT(bytes_of([&] { ops::isin(x, points); }), kElements + kSmall);
  EXPECT_LT(bytes_of([&] { ops::isin(x, points[{Slice{0, 5, 1}}]); }), kElements + kSmall);
  EXPECT_LT(bytes_of([&] { ops::digitize(x, points); }), 8 * kElements + kSmall);
}

}  // namespace
}  // namespace quarry::local
