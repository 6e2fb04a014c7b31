// Diagonals: what they are of any array, and what is read for them.
#include <gtest/gtest.h>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"
#include "tests/support/hdf5_file.h"
#include "tests/support/on_devices.h"
#include "tests/support/operator_rows.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using local::Slice;
using testing::Choices;

class Diagonals : public ::testing::TestWithParam<local::DeviceKind> {};

NdArray matrix(int64_t rows, int64_t columns) {
  return local::arange(static_cast<double>(rows * columns)).reshape({rows, columns});
}

// Bytes that computing an array read from its file.
int64_t bytes_read(const Runtime& runtime, const Array& array, const NdArray& expected) {
  const int64_t before = runtime.statistics().read_bytes;
  EXPECT_TRUE(testing::close(array.to_host(), expected)) << array.repr();
  return runtime.statistics().read_bytes - before;
}

TEST_P(Diagonals, OfAFileReadTheirElements) {
  constexpr int64_t n = 700, kItem = 8;
  const Runtime runtime(testing::runtime_on(GetParam()));
  const test::TempDir dir;
  const NdArray values = matrix(n, n + 50);
  store(dir / "x.h5", {{"/x", Array::from_local(values)}});
  const Array x = open_hdf5(dir / "x.h5", "/x").rechunk({200, 150});
  EXPECT_EQ(bytes_read(runtime, diagonal(x), local::diagonal(values)), n * kItem);
  EXPECT_EQ(bytes_read(runtime, diag(x, -3), local::diagonal(values, -3)), (n - 3) * kItem);
  EXPECT_EQ(bytes_read(runtime, trace(x, 60), local::trace(values, 60)), 690 * kItem);
  EXPECT_EQ(
      bytes_read(runtime, diagonal(exp(x * 1e-6) + x)[{Slice{{}, {}, -2}}],
                 local::diagonal(local::add(local::exp(local::multiply(values, 1e-6)), values))[{Slice{{}, {}, -2}}]),
      n / 2 * kItem);
  EXPECT_EQ(bytes_read(runtime, einsum("ii->i", x[{local::full_slice, Slice{0, n, {}}}]), local::diagonal(values)),
            n * kItem);
}

TEST_P(Diagonals, OfCompressedChunksDecodeThoseOnTheDiagonal) {
  constexpr int64_t n = 300;
  const Runtime runtime(testing::runtime_on(GetParam()));
  const test::TempDir dir;
  const NdArray values = local::random::default_rng(3).standard_normal(local::Dims{n, n});
  {
    test::H5File file(dir / "x.h5");
    file.write("/x", {n, n}, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.raw(), {.chunk = Dims{40, 30}, .deflate = 1});
  }
  const Array x = open_hdf5(dir / "x.h5", "/x");
  const int64_t read = bytes_read(runtime, diagonal(x, 7), local::diagonal(values, 7));
  EXPECT_GT(read, 0);
  EXPECT_LT(read, n * n * 8 / 4);
}

TEST_P(Diagonals, OfAnyArrayAreNumPys) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Runtime runtime(testing::runtime_on(GetParam()));
    Choices choices(seed);
    const int ndim = static_cast<int>(choices.pick(2, 4));
    const NdArray values = choices.values(choices.shape(ndim), choices.dtype());
    const test::TempDir dir;
    store(dir / "x.h5", {{"/x", Array::from_local(values)}});
    Array x = choices.pick(0, 1) == 0 ? open_hdf5(dir / "x.h5", "/x") : Array::from_local(values);
    x = x.rechunk(choices.grid(values.shape()));
    const int64_t kind = choices.pick(0, 3);
    if (kind == 0) x = x.persist();
    if (kind == 1) x = map_blocks([](const NdArray& chunk) { return local::add(chunk, 0); }, x);
    if (kind == 2) x = x + 0;
    const int64_t first = choices.pick(0, ndim - 1), second = (first + choices.pick(1, ndim - 1)) % ndim;
    const int64_t offset = choices.pick(-9, 9);
    const Array line = diagonal(x, offset, first, second);
    const NdArray expected = local::diagonal(values, offset, first, second);
    const std::vector<Array> results{line, line * 2 + 1, trace(x, offset, first, second), line.T()};
    const std::vector<NdArray> wanted{expected, local::add(local::multiply(expected, 2), 1),
                                      local::trace(values, offset, first, second), expected.T()};
    const std::vector<NdArray> got = to_host(results);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].shape(), wanted[i].shape());
      EXPECT_TRUE(testing::close(got[i], wanted[i].astype(got[i].dtype()), 1e-6, 1e-6)) << i << "\n"
                                                                                        << got[i].repr() << "\n"
                                                                                        << wanted[i].repr();
    }
    if (HasFailure()) return;
  }
}

TEST_P(Diagonals, OfDiagonalsAndOfNaN) {
  const Runtime runtime(testing::runtime_on(GetParam()));
  const NdArray cube = local::arange(27.0).reshape({3, 3, 3});
  const Array x = Array::from_local(cube).rechunk({2, 1, 2}).persist();
  EXPECT_EQ(einsum("iii->i", x).to_host().to_string(), "[ 0. 13. 26.]");
  EXPECT_EQ(diagonal(diagonal(x, 1, 0, 2), 0, 0, 1).to_host().to_string(), "[ 1. 14.]");
  const Array holes = Array::from_local(local::full({4, 4}, local::nan)).rechunk({3, 1});
  EXPECT_TRUE(all(isnan(diagonal(holes, 2))).item<bool>());
  EXPECT_EQ(diagonal(holes, 9).to_host().shape(), (Dims{0}));
  EXPECT_EQ(diagonal(Array::from_local(local::full({1, 1}, 7.0))).to_host().to_string(), "[7.]");
  EXPECT_EQ(diagonal(eye(5, 5), 0).to_host().to_string(), "[1. 1. 1. 1. 1.]");
}

QUARRY_ON_DEVICE_KINDS(Diagonals);

}  // namespace
}  // namespace quarry
