// Of what bf16x3 splits a float into: on the CPU, whose engine runs the same program.
#include "quarry/local/cuda/pieces.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quarry/local/ndarray/launch.h"

namespace quarry::local::cuda {
namespace {

TEST(CudaPieces, AddUpToTheFloat) {
  constexpr float inf = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), least = std::numeric_limits<float>::denorm_min();
  std::vector<float> values{0.F,         -0.F,  1.F,       -1.F, most, -most, 0x1.FEp127F,
                            0x1.FFp127F, least, 0x1p-126F, inf,  -inf, nan};
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int i = 0; i < 5000; ++i) values.push_back(std::ldexp(uniform(random), static_cast<int>(random() % 250) - 125));
  const Dims shape{std::ssize(values)};
  const NdArray x = from_vector(values, shape), high(shape, DType::bfloat16), low(shape, DType::bfloat16);
  const NdArray* const in[] = {&x};
  const NdArray* const out[] = {&high, &low};
  run_elementwise(split_program(), in, out, context_for(x.device()));
  const auto x0 = to_vector<double>(high.astype(DType::float64)), x1 = to_vector<double>(low.astype(DType::float64));
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    SCOPED_TRACE(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(x0[i]) && std::isnan(x1[i]));
    } else if (std::isinf(value)) {
      EXPECT_EQ(x0[i], value > 0 ? 1 : -1);
      EXPECT_EQ(x1[i], value);
    } else {
      // Half of the last place of each, and of the least bfloat16.
      EXPECT_LE(std::abs(value - x0[i] - x1[i]), std::abs(value) * 0x1p-17 + 0x1p-134);
      EXPECT_LE(std::abs(x1[i]), std::abs(value) * 0x1p-7);
    }
  }
}

TEST(CudaPieces, BelongToFloat32AndMatricesAlone) {
  float numbers[16] = {};
  const MatrixView square{numbers, 4, 4, 4, 1}, row{numbers, 1, 4, 4, 1};
  const Gemm task{DType::float32, 1, square, square, 0, square};
  EXPECT_EQ(at_precision(task, Precision::tf32).precision, Precision::tf32);
  EXPECT_EQ(at_precision({DType::float64, 1, square, square, 0, square}, Precision::tf32).precision, Precision::exact);
  EXPECT_EQ(at_precision({DType::float32, 1, row, square, 0, row}, Precision::bf16x3).precision, Precision::exact);
  EXPECT_EQ(pieces_scratch_bytes(at_precision(task, Precision::tf32), {}), 0);
  // Two pieces of each operand, of which one repeats.
  const Gemm split = at_precision(task, Precision::bf16x3);
  EXPECT_EQ(pieces_scratch_bytes(split, {}), 4 * rounded_allocation(4 * 8 * 2));
  EXPECT_EQ(pieces_scratch_bytes(split, {100, 16, 0, 16}),
            2 * (rounded_allocation(100 * 4 * 8 * 2) + rounded_allocation(4 * 8 * 2)));
}

}  // namespace
}  // namespace quarry::local::cuda
