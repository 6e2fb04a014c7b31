// Arrays of 32 dimensions, and copies, ufuncs, reductions, scans and sorts of more than 2^31 elements on a GPU
// with room for them; on the CPU only where QUARRY_TEST_LARGE is set (large_test.cpp has indexing and joining).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "quarry/local/device/device.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/program/program.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

// ---- 32 dimensions ----

class ManyDimensions : public test::OnDevice {
 protected:
  // Extent 2 on every third axis, 1 on the others.
  static constexpr int kBits = 11;
  static Dims shape() {
    Dims shape = Dims::filled(kMaxDims, 1);
    for (int bit = 0; bit < kBits; ++bit) shape[axis_of(bit)] = 2;
    return shape;
  }
  // The axis of a bit of the flat position, the lowest last.
  static int axis_of(int bit) { return kMaxDims - 1 - 3 * bit; }
  static std::vector<int64_t> values() {
    std::vector<int64_t> values(size_t{1} << kBits);
    std::iota(values.begin(), values.end(), int64_t{1});
    return values;
  }
  static NdArray array() { return from_vector(values(), shape()); }
  static int64_t reversed(int64_t position) {
    int64_t result = 0;
    for (int bit = 0; bit < kBits; ++bit) result |= (position >> bit & 1) << (kBits - 1 - bit);
    return result;
  }
};
QUARRY_ON_EVERY_DEVICE(ManyDimensions);

TEST_P(ManyDimensions, CopiesAndUfuncs) {
  const NdArray x = array();
  ASSERT_EQ(x.ndim(), 32);
  const std::vector<int64_t> flat = values();
  const std::vector<int64_t> moved = to_vector<int64_t>(x.T().copy()), sum = to_vector<int64_t>(x.T() + x.T() * 2);
  // Transposing reverses the bits of every position; here all axes are back where they were.
  const NdArray back = x.T().copy().T();
  EXPECT_EQ(to_vector<int64_t>(back), flat);
  for (size_t i = 0; i < flat.size(); ++i) {
    const int64_t expected = flat[static_cast<size_t>(reversed(static_cast<int64_t>(i)))];
    ASSERT_EQ(moved[i], expected) << i;
    ASSERT_EQ(sum[i], 3 * expected) << i;
  }
  // Operands whose axes run in opposite directions.
  const NdArray mirrored = x.T().copy().T() - x;
  EXPECT_EQ(ops::count_nonzero(mirrored).item<int64_t>(), 0);
  // Broadcast along every other long axis.
  Dims narrow = shape();
  for (int bit = 0; bit < kBits; bit += 2) narrow[axis_of(bit)] = 1;
  const NdArray row = from_vector(std::vector<int64_t>(static_cast<size_t>(element_count(narrow)), 5), narrow);
  const std::vector<int64_t> wide = to_vector<int64_t>(x * row);
  for (size_t i = 0; i < flat.size(); ++i) ASSERT_EQ(wide[i], 5 * flat[i]) << i;
  EXPECT_THROW(x[{newaxis}], Error);
}

TEST_P(ManyDimensions, ReductionsOverEveryPairOfAxes) {
  const NdArray x = array();
  const std::vector<int64_t> flat = values();
  for (int first = 0; first < kBits; first += 2)
    for (int second = first + 1; second < kBits; second += 3) {
      const Axes axes{axis_of(first), axis_of(second), 0};  // axis 0 has one element
      const std::vector<int64_t> sums = to_vector<int64_t>(ops::sum(x, axes, {.keepdims = true}));
      std::vector<int64_t> expected;
      for (size_t i = 0; i < flat.size(); ++i) {
        const size_t low = size_t{1} << first, high = size_t{1} << second;
        if (i & (low | high)) continue;
        expected.push_back(flat[i] + flat[i + low] + flat[i + high] + flat[i + low + high]);
      }
      ASSERT_EQ(sums, expected) << first << " " << second;
    }
  EXPECT_EQ(ops::sum(x).item<int64_t>(), std::accumulate(flat.begin(), flat.end(), int64_t{0}));
  EXPECT_EQ(ops::max(x.T()).item<int64_t>(), flat.back());
  EXPECT_EQ(ops::argmax(x).item<int64_t>(), static_cast<int64_t>(flat.size()) - 1);
  EXPECT_EQ(ops::sum(x, {}, {.keepdims = true}).ndim(), 32);
  EXPECT_THROW(ops::sum(x, 32), IndexError);
}

TEST_P(ManyDimensions, ScansAndSortsAlongEveryAxis) {
  const NdArray x = array();
  const std::vector<int64_t> flat = values();
  for (int bit = 0; bit < kBits; ++bit) {
    const std::vector<int64_t> scanned = to_vector<int64_t>(ops::cumsum(x, axis_of(bit)));
    const std::vector<int64_t> sorted = to_vector<int64_t>(ops::sort(ops::negative(x), axis_of(bit)));
    for (size_t i = 0; i < flat.size(); ++i) {
      const size_t step = size_t{1} << bit;
      ASSERT_EQ(scanned[i], flat[i] + ((i & step) ? flat[i - step] : 0)) << bit << " " << i;
      ASSERT_EQ(sorted[i], -flat[i ^ step]) << bit << " " << i;
    }
  }
  EXPECT_EQ(to_vector<int64_t>(ops::cumsum(x, 0)), flat);  // an axis of one element
}

// ---- More than 2^31 elements ----

class Huge : public test::OnDevice {
 protected:
  static constexpr int64_t kCount = (int64_t{1} << 31) + 1009;
  void need(int64_t bytes) {
    if (GetParam() == DeviceKind::cpu && std::getenv("QUARRY_TEST_LARGE") == nullptr)
      GTEST_SKIP() << "QUARRY_TEST_LARGE is not set";
    bytes += int64_t{2} << 30;
    const int64_t free_bytes = backend(GetParam()).info(0).free_bytes;
    if (free_bytes < bytes) GTEST_SKIP() << fmt::format("needs {} bytes of memory, {} are free", bytes, free_bytes);
  }
  // (position * factor + term) as `dtype`.
  static NdArray positions(DType dtype, int64_t factor = 1, int64_t term = 0, const Dims& shape = {kCount}) {
    Program program;
    ValueId flat = program.index(0);
    for (int d = 1; d < shape.size(); ++d) {
      const ValueId scaled[] = {flat, program.constant(Scalar(shape[d]), DType::int64)};
      const ValueId sum[] = {program.apply("multiply"_op, scaled), program.index(d)};
      flat = program.apply("add"_op, sum);
    }
    const ValueId product[] = {flat, program.constant(Scalar(factor), DType::int64)};
    const ValueId sum[] = {program.apply("multiply"_op, product), program.constant(Scalar(term), DType::int64)};
    program.output(program.cast(program.apply("add"_op, sum), dtype));
    const ExecContext context = context_for(current_context().device);
    NdArray result(shape, dtype, context);
    const NdArray* outputs[] = {&result};
    run_elementwise(program, {}, outputs, context);
    return result;
  }
  static int64_t differences(const NdArray& a, const NdArray& b) {
    return ops::count_nonzero(ops::not_equal(a, b)).item<int64_t>();
  }
};
INSTANTIATE_TEST_SUITE_P(All, Huge, ::testing::Values(DeviceKind::cpu, DeviceKind::cuda),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Huge, CopiesAndUfuncs) {
  need(5 * kCount);
  if (IsSkipped()) return;
  const NdArray x = positions(DType::uint8, 3, 1);
  EXPECT_EQ(x[{kCount - 1}].item<uint8_t>(), static_cast<uint8_t>((kCount - 1) * 3 + 1));
  EXPECT_EQ(differences(x.copy(), x), 0);
  EXPECT_EQ(differences(x + x, positions(DType::uint8, 6, 2)), 0);
  const NdArray backwards = x[{Slice{{}, {}, -1}}];
  EXPECT_EQ(differences(backwards.copy(), positions(DType::uint8, -3, 3 * (kCount - 1) + 1)), 0);
  // Transposed: every element of a copy against a strided read.
  const NdArray plane = positions(DType::uint8, 1, 0, {46341, 46349});
  EXPECT_GT(plane.size(), int64_t{1} << 31);
  EXPECT_EQ(differences(plane.T().copy(), plane.T()), 0);
  EXPECT_EQ((plane.T()[{46348, 46340}].item<uint8_t>()), static_cast<uint8_t>(plane.size() - 1));
}

TEST_P(Huge, Reductions) {
  need(4 * kCount);
  if (IsSkipped()) return;
  const NdArray x = positions(DType::uint8);
  int64_t expected = kCount / 256 * (255 * 128);
  for (int64_t i = kCount / 256 * 256; i < kCount; ++i) expected += i % 256;
  EXPECT_EQ(ops::sum(x).item<uint64_t>(), static_cast<uint64_t>(expected));
  EXPECT_EQ(ops::count_nonzero(x).item<int64_t>(), kCount - (kCount + 255) / 256);
  const NdArray zeros = x * 0;
  zeros[{kCount - 1}].fill(Scalar(7));
  EXPECT_EQ(ops::argmax(zeros).item<int64_t>(), kCount - 1);
  EXPECT_TRUE(ops::any(zeros).item<bool>());
  const NdArray tall = zeros.reshape({kCount, 1}), wide = zeros.reshape({1, kCount});
  EXPECT_EQ(ops::argmax(tall, 0).item<int64_t>(), kCount - 1);
  EXPECT_EQ(ops::sum(wide, 1).item<uint64_t>(), 7u);
  // Rows and columns of a plane.
  const NdArray plane = positions(DType::bool_, 0, 1, {(int64_t{1} << 20) + 1, 2049});
  EXPECT_EQ(ops::count_nonzero(ops::not_equal(ops::sum(plane, 0), plane.shape()[0])).item<int64_t>(), 0);
  EXPECT_EQ(ops::count_nonzero(ops::not_equal(ops::sum(plane, 1), plane.shape()[1])).item<int64_t>(), 0);
}

TEST_P(Huge, Scans) {
  need(14 * kCount);
  if (IsSkipped()) return;
  const NdArray ones = positions(DType::uint8, 0, 1);
  {
    const NdArray sums = ops::cumsum(ones);  // 17 GB
    EXPECT_EQ(sums.dtype(), DType::uint64);
    EXPECT_EQ(sums[{kCount - 1}].item<uint64_t>(), static_cast<uint64_t>(kCount));
    EXPECT_EQ(ops::count_nonzero(ops::less_equal(sums[{Slice{1, {}, {}}}], sums[{Slice{{}, -1, {}}}])).item<int64_t>(),
              0);
  }
  EXPECT_EQ(differences(ops::cumsum(ones, {}, DType::uint8), positions(DType::uint8, 1, 1)), 0);
  const NdArray plane = positions(DType::uint8, 0, 1, {(int64_t{1} << 20) + 1, 2049});
  for (const int64_t axis : {0, 1}) {
    const NdArray sums = ops::cumsum(plane, axis, DType::int32);
    EXPECT_EQ((sums[{plane.shape()[0] - 1, 2048}].item<int32_t>()), static_cast<int32_t>(plane.shape(axis)));
    const NdArray line = axis == 0 ? positions(DType::int32, 1, 1, {plane.shape()[0], 1})
                                   : positions(DType::int32, 1, 1, {1, plane.shape()[1]});
    EXPECT_EQ(differences(sums, line), 0);
  }
}

TEST_P(Huge, Sort) {
  need(10 * kCount);
  if (IsSkipped()) return;
  const NdArray sorted = ops::sort(positions(DType::uint8, 101, 17));
  EXPECT_EQ(ops::count_nonzero(ops::less(sorted[{Slice{1, {}, {}}}], sorted[{Slice{{}, -1, {}}}])).item<int64_t>(), 0);
  EXPECT_EQ(ops::sum(sorted).item<uint64_t>(), ops::sum(positions(DType::uint8, 101, 17)).item<uint64_t>());
}

}  // namespace
}  // namespace quarry::local
