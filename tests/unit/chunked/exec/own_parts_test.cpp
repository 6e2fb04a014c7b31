// Tasks that read parts of chunks of their own rank: they hold the parts and not the chunks, whichever tier these are
// in. Arrays are several times the budget, so that most chunks are on disk.
#include <gtest/gtest.h>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/grid/chunking.h"
#include "tests/support/on_devices.h"

namespace quarry {
namespace {

using namespace names;

constexpr int64_t kRows = 1024, kColumns = 1024;  // 8 MiB of float64, in chunks of 256 KiB

// Every element is its own number.
Array numbers(int64_t rows, int64_t columns) {
  const Array row = reshape(arange(rows, DType::float64), {rows, 1}), column = arange(columns, DType::float64);
  return row * static_cast<double>(columns) + column;
}

bool all_true(const Array& mask) { return all(mask).item<bool>(); }

class OwnParts : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.device = GetParam();
    options.memory = "2MiB";
    // With what staging takes, a part of the array fits.
    if (GetParam() != local::DeviceKind::cpu) options.host_memory = "3MiB";
    options.threads = 2;
    return options;
  }
  const Runtime runtime_{options()};
  const ChunkPolicyScope small_{{.device = GetParam(), .chunks = {}, .target_bytes = 256 << 10}};
  const Array expected_ = numbers(kRows, kColumns), rows_ = expected_.rechunk(Dims{32, kColumns}).persist();
};

TEST_P(OwnParts, RowsBecomeColumns) {
  const Array columns = rows_.rechunk(Dims{kRows, 32});
  EXPECT_TRUE(all_true(columns == expected_));
  const Array kept = columns.persist();
  EXPECT_EQ(kept.chunks(), columns.chunks());
  EXPECT_TRUE(all_true(kept == expected_));
}

TEST_P(OwnParts, TransposesAndReversesAndSteps) {
  EXPECT_TRUE(all_true(transpose(rows_).rechunk(Dims{32, kRows}) == transpose(expected_)));
  EXPECT_TRUE(all_true(flip(rows_, 0).rechunk(Dims{kRows, 32}) == flip(expected_, 0)));
  EXPECT_TRUE(all_true(transpose(flip(rows_, 1)).rechunk(Dims{100, 300}) == transpose(flip(expected_, 1))));
  const Array steps = rows_(slice(5, 1000, 7), slice(1000, 3, -3)),
              of = expected_(slice(5, 1000, 7), slice(1000, 3, -3));
  EXPECT_TRUE(all_true(steps.rechunk(Dims{-1, 40}) == of));
}

TEST_P(OwnParts, UnevenCutsAndChunksOfOneColumn) {
  const Grid uneven({AxisChunks(std::vector<int64_t>{1, 500, 23, 500}), AxisChunks(kColumns, 37)});
  EXPECT_TRUE(all_true(rows_.rechunk(uneven) == expected_));
  const Array one = rows_(ellipsis, slice(0, 40)).rechunk(Dims{kRows, 1});
  EXPECT_TRUE(all_true(one == numbers(kRows, kColumns)(ellipsis, slice(0, 40))));
}

TEST_P(OwnParts, WholeAxesOfOtherChunks) {
  const Array along = cumsum(rows_.rechunk(Dims{kRows, 16}), 0);
  EXPECT_TRUE(all_true(along(slice(kRows - 1, kRows), ellipsis) == sum(expected_, 0)));
  const Array sorted = sort(flip(rows_, 0)(ellipsis, slice(100, 116)), 0);
  EXPECT_TRUE(all_true(sorted == expected_(ellipsis, slice(100, 116))));
}

TEST_P(OwnParts, ReshapesAndJoins) {
  const Array turned = reshape(rows_, {2 * kRows, kColumns / 2});
  EXPECT_TRUE(all_true(turned == numbers(2 * kRows, kColumns / 2)));
  const Array doubled = concatenate({rows_, rows_}, 1).rechunk(Dims{256, 128});
  EXPECT_TRUE(all_true(doubled == concatenate({expected_, expected_}, 1)));
}

QUARRY_ON_DEVICE_KINDS(OwnParts);

}  // namespace
}  // namespace quarry
