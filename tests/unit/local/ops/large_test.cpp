// Arrays of more than 2^31 elements, one byte each: positions and sizes that 32 bits do not hold. On a GPU; on the CPU
// only where QUARRY_TEST_LARGE is set, for they take seconds and gigabytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "quarry/local/device/device.h"
#include "quarry/local/ops/fft/fft.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

constexpr int64_t kTwo31 = int64_t{1} << 31;
constexpr int64_t kCount = kTwo31 + 12345;

class LargeOnDevices : public test::OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    if (GetParam() == DeviceKind::cpu && std::getenv("QUARRY_TEST_LARGE") == nullptr)
      GTEST_SKIP() << "QUARRY_TEST_LARGE is not set";
    constexpr int64_t kNeeded = int64_t{16} << 30;
    const int64_t free_bytes = backend(GetParam()).info(0).free_bytes;
    if (free_bytes < kNeeded) GTEST_SKIP() << fmt::format("needs 16 GiB of memory, {} bytes are free", free_bytes);
  }

  static NdArray counting(int64_t n) { return std::get<NdArray>(ops::indices({n}))[{0}]; }

  // Byte i is i / 4096 % 251, so that neighbours of 2^31 and of what wraps around there differ.
  static NdArray pattern() {
    NdArray x({kCount}, DType::uint8);
    constexpr int64_t kRow = 4096;
    const int64_t rows = kCount / kRow;
    const NdArray numbers = (counting(rows + 1) % 251).astype(DType::uint8);
    x[{Slice{0, rows * kRow, {}}}].reshape({rows, kRow}).assign(numbers[{Slice{0, rows, {}}, newaxis}]);
    x[{Slice{rows * kRow, {}, {}}}].assign(numbers[{-1}]);
    return x;
  }
  static uint8_t expected(int64_t i) { return static_cast<uint8_t>(i / 4096 % 251); }

  static inline const std::vector<int64_t> kPlaces = {0,          4096 * 77, kTwo31 - 1, kTwo31, kTwo31 + 4097,
                                                      kCount - 1, -1,        -kCount,    5000};
  static int64_t place(size_t i) { return kPlaces[i] < 0 ? kPlaces[i] + kCount : kPlaces[i]; }
};
INSTANTIATE_TEST_SUITE_P(All, LargeOnDevices, ::testing::Values(DeviceKind::cpu, DeviceKind::cuda),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(LargeOnDevices, FourierTransformOfRows) {
  constexpr int64_t kLength = 1 << 16, kRows = kTwo31 / kLength + 3, kNeeded = int64_t{40} << 30;
  if (backend(GetParam()).info(0).free_bytes < kNeeded) GTEST_SKIP() << "needs 40 GiB of memory";
  const NdArray x({kRows, kLength}, DType::float32);
  x.assign((counting(kRows) % 7).astype(DType::float32)[{full_slice, newaxis}]);
  const NdArray y = ops::fft::rfft(x);
  ASSERT_EQ(y.shape(), (Dims{kRows, kLength / 2 + 1}));
  for (const int64_t row : {int64_t{1}, kRows / 2, kRows - 4, kRows - 3, kRows - 2, kRows - 1}) {
    EXPECT_EQ((y[{row, int64_t{0}}].item<std::complex<float>>()), static_cast<float>(row % 7 * kLength)) << row;
    EXPECT_EQ((y[{row, int64_t{kLength / 2}}].item<std::complex<float>>()), 0.0f) << row;
  }
}

TEST_P(LargeOnDevices, TakeFromALargeArray) {
  const NdArray x = pattern();
  const std::vector<uint8_t> got = to_vector<uint8_t>(ops::take(x, from_vector(kPlaces)));
  for (size_t i = 0; i < kPlaces.size(); ++i) EXPECT_EQ(got[i], expected(place(i))) << kPlaces[i];
  try {
    ops::take(x, from_vector(std::vector<int64_t>{0, kCount}));
    ADD_FAILURE() << "no error";
  } catch (const IndexError& error) {
    EXPECT_EQ(std::string(error.what()),
              fmt::format("index {} is out of bounds for axis 0 with size {}", kCount, kCount));
  }
  ops::put(x, from_vector(kPlaces), 255);
  EXPECT_EQ(ops::count_nonzero(x == 255).item<int64_t>(), std::ssize(kPlaces) - 2);  // two places are named twice
  ops::ufunc_at("subtract"_op, x, {from_vector(kPlaces)}, 1);
  const std::vector<uint8_t> less = to_vector<uint8_t>(ops::get(x, {from_vector(kPlaces)}));
  EXPECT_EQ(less[0], 253);  // named twice
  EXPECT_EQ(less[3], 254);
}

TEST_P(LargeOnDevices, TakeToALargeArray) {
  const int64_t width = 1000, rows = kCount / width + 1;
  const NdArray x = (counting(8 * width) % 251).astype(DType::uint8).reshape({8, width});
  const NdArray positions = counting(rows) * 5 % 8;
  const NdArray got = ops::take(x, positions, 0);
  ASSERT_EQ(got.shape(), (Dims{rows, width}));
  for (const int64_t row : {int64_t{0}, kTwo31 / width - 1, kTwo31 / width, kTwo31 / width + 1, rows - 1})
    EXPECT_EQ(to_vector<uint8_t>(got[{row}]), to_vector<uint8_t>(x[{row * 5 % 8}])) << row;
}

TEST_P(LargeOnDevices, Masks) {
  const NdArray x = pattern();
  const NdArray mask({kCount}, DType::bool_);
  mask.fill(false);
  ops::put(mask, from_vector(kPlaces), true);
  const std::vector<int64_t> sorted = {0, 5000, 4096 * 77, kTwo31 - 1, kTwo31, kTwo31 + 4097, kCount - 1};
  EXPECT_EQ(to_vector<int64_t>(ops::flatnonzero(mask)), sorted);
  std::vector<uint8_t> values;
  for (const int64_t i : sorted) values.push_back(expected(i));
  EXPECT_EQ(to_vector<uint8_t>(ops::get(x, {mask})), values);
  ops::set(x, {mask}, 255);
  EXPECT_EQ(ops::count_nonzero(x == 255).item<int64_t>(), std::ssize(sorted));
  ops::set(mask, {ellipsis}, true);
  const NdArray all = ops::get(x, {mask});
  ASSERT_EQ(all.size(), kCount);
  EXPECT_EQ(ops::count_nonzero(all != x).item<int64_t>(), 0);
}

TEST_P(LargeOnDevices, Concatenate) {
  const NdArray x = pattern(), tail = from_vector(std::vector<uint8_t>{252, 253, 254});
  const NdArray joined = ops::concatenate({tail, x, tail});
  ASSERT_EQ(joined.size(), kCount + 6);
  EXPECT_EQ(to_vector<uint8_t>(joined[{Slice{0, 3, {}}}]), to_vector<uint8_t>(tail));
  EXPECT_EQ(to_vector<uint8_t>(joined[{Slice{-3, {}, {}}}]), to_vector<uint8_t>(tail));
  EXPECT_EQ(ops::count_nonzero(joined[{Slice{3, -3, {}}}] != x).item<int64_t>(), 0);
  // Along the last axis, so that rows alternate.
  const NdArray narrow = x[{Slice{0, kTwo31, {}}}].reshape({-1, 2});
  const NdArray wide = ops::concatenate({narrow, narrow[{Slice{}, Slice{0, 1, {}}}]}, 1);
  ASSERT_EQ(wide.shape(), (Dims{kTwo31 / 2, 3}));
  EXPECT_EQ(ops::count_nonzero(wide[{Slice{}, 2}] != narrow[{Slice{}, 0}]).item<int64_t>(), 0);
  EXPECT_EQ(ops::count_nonzero(wide[{Slice{}, Slice{0, 2, {}}}] != narrow).item<int64_t>(), 0);
}

}  // namespace
}  // namespace quarry::local
