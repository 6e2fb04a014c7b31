// Any grid to any grid, in arrays that are much larger than the budget: random cuts in up to five axes, on disk, in
// files, in filtered files. Values are their own positions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/io/dataset.h"
#include "quarry/local/base/error.h"
#include "tests/support/on_devices.h"
#include "tests/support/random_grids.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using namespace names;
using testing::Draw;
using ::testing::HasSubstr;
using testing::numbers;

bool all_true(const Array& mask) { return all(mask).item<bool>(); }

RuntimeOptions options_for(local::DeviceKind device, int64_t memory) {
  RuntimeOptions options;
  options.device = device;
  options.memory = std::to_string(memory);
  if (device != local::DeviceKind::cpu) options.host_memory = "2MiB";
  options.threads = 2;
  return options;
}

class Rechunk : public ::testing::TestWithParam<local::DeviceKind> {};
QUARRY_ON_DEVICE_KINDS(Rechunk);

TEST_P(Rechunk, AnyGridToAnyGridInThreeChunks) {
  const uint32_t seeds = GetParam() == local::DeviceKind::cpu ? 60 : 6;  // whose kernels take long to queue
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    Draw draw(seed);
    const Dims shape = draw.shape();
    const Grid from = draw.grid(shape), to = draw.grid(shape);
    const int64_t largest = std::max(largest_chunk_bytes(from, 8), largest_chunk_bytes(to, 8));
    const Runtime runtime(options_for(GetParam(), 3 * largest + (80 << 10)));
    SCOPED_TRACE(fmt::format("seed {}: {} to {} of {} in {} bytes", seed, from.to_string(), to.to_string(),
                             local::to_string(shape), 3 * largest + (80 << 10)));
    const Array expected = numbers(shape), stored = expected.rechunk(from).persist();
    const Array made = stored.rechunk(to).persist();
    EXPECT_EQ(made.chunks(), to);
    EXPECT_TRUE(all_true(made == expected));
    // The same with the axes in another order.
    const std::vector<int64_t> order = draw.order(shape.size());
    std::vector<AxisChunks> axes;
    for (const int64_t axis : order) axes.push_back(to.axis(static_cast<int>(axis)));
    EXPECT_TRUE(all_true(transpose(stored, order).rechunk(Grid(axes)) == transpose(expected, order)));
  }
}

// Several stages, all of which move chunks that are on disk.
TEST_P(Rechunk, SixteenTimesTheBudgetByStages) {
  const bool on_cpu = GetParam() == local::DeviceKind::cpu;
  const int64_t rows = on_cpu ? 1024 : 512, columns = on_cpu ? 2048 : 512;
  const Runtime runtime(options_for(GetParam(), rows * columns / 2));
  const Array expected = numbers({rows, columns});
  const Array made = expected.rechunk(Dims{8, columns}).persist().rechunk(Dims{rows, on_cpu ? 16 : 8});
  if (on_cpu) {
    EXPECT_THAT(explain(made), HasSubstr("rechunk, step 2 of "));
  }
  EXPECT_TRUE(all_true(made == expected));
}

TEST_P(Rechunk, FilesOfRowsBecomeColumns) {
  const test::TempDir folder;
  const Dims shape{1000, 1030};
  const Array expected = numbers(shape);
  for (const bool filtered : {false, true}) {
    SCOPED_TRACE(filtered ? "deflate" : "contiguous");
    const std::string file = folder / (filtered ? "filtered.h5" : "plain.h5");
    {
      const Runtime runtime(options_for(local::DeviceKind::cpu, 64 << 20));
      StoreOptions options;
      if (filtered) {
        options.chunks = Dims{100, 103};
        options.filters = {{io::Filter::Kind::deflate, 1, "deflate"}};
      }
      to_hdf5(file, "/x", numbers(shape), options);
    }
    const Runtime runtime(options_for(GetParam(), 1 << 20));
    const Array x = open_hdf5(file, "/x");
    const int64_t before = runtime.statistics().read_bytes;
    const Array columns = x.rechunk(Dims{1000, 10}).persist();
    const int64_t read = runtime.statistics().read_bytes - before;
    // Every chunk of the file is read, and so decoded, once.
    SCOPED_TRACE(explain(x.rechunk(Dims{1000, 10})));
    EXPECT_EQ(read, filtered ? io::Dataset::open(file, "/x")->info().stored_bytes : local::element_count(shape) * 8);
    EXPECT_TRUE(all_true(columns == numbers(shape)));
    EXPECT_TRUE(all_true(transpose(x).rechunk(Dims{10, 1000}) == transpose(numbers(shape))));
    EXPECT_TRUE(all_true(x.rechunk(Dims{1000, 10}) + 1.0 == numbers(shape) + 1.0));
  }
}

TEST_P(Rechunk, OneByteTooFewIsAnErrorThatNamesTheStage) {
  const Dims shape{256, 512};
  // Half the array in a task.
  const auto attempt = [&](int64_t memory) {
    const Runtime runtime(options_for(GetParam(), memory));
    const Array made = numbers(shape).rechunk(Dims{4, 512}).persist().rechunk(Dims{256, 256}).persist();
    EXPECT_TRUE(all_true(made(ellipsis, slice(0, 8)) == numbers(shape)(ellipsis, slice(0, 8))));
  };
  int64_t least = 300 << 10;
  for (int i = 0; i < 3; ++i) {
    try {
      attempt(least - (i == 0 ? 0 : std::max<int64_t>(least / 128, 1)));
      break;
    } catch (const local::BudgetError& error) {
      least = error.least_bytes();
      EXPECT_THAT(error.what(), HasSubstr("rechunk"));
      EXPECT_THAT(error.what(), HasSubstr(std::to_string(least)));
    }
  }
  ASSERT_GT(least, 300 << 10);
  attempt(least);
  EXPECT_THROW(attempt(least - 1), local::BudgetError);
}

}  // namespace
}  // namespace quarry
