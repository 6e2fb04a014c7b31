// What the planner says that the largest task of a plan takes, against what the executor is asked for: a row for each
// kind of stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/scheduler/graph.h"
#include "tests/support/on_devices.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using namespace names;

struct Bytes {
  int64_t planned = 0, asked = 0;
  std::string stages;
};

Bytes bytes_of(const Array& array) {
  Runtime& runtime = Runtime::current();
  const plan::Plan plan = exec::make_plan({array.node()});
  exec::Sink sink;
  sink.array = plan.results[0];
  exec::LoweringContext context;
  context.device = runtime.device();
  context.executor = &runtime.executor();
  const auto lowered = exec::lower(plan, {sink}, context);
  Bytes bytes{0, scheduler::least_workable_bytes(lowered->graph), plan::describe(plan)};
  for (const plan::Stage& stage : plan.stages) bytes.planned = std::max(bytes.planned, stage.task_bytes());
  return bytes;
}

class Estimates : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  const Runtime runtime_{testing::runtime_on(GetParam(), "256MiB")};
  const ChunkPolicyScope small_{{.device = GetParam(), .chunks = {}, .target_bytes = 4 << 20}};
  // 32 MiB in chunks of 4 MiB.
  const Array rows_ = zeros({4096, 1024}).rechunk(Dims{512, 1024}).persist();
};
QUARRY_ON_DEVICE_KINDS(Estimates);

// What programs take as scratch, for each of the machine's threads, comes to it.
const int64_t kProgramScratch = (32 << 10) * std::max<int64_t>(std::thread::hardware_concurrency(), 2);

void expect_equal(const std::string& name, const Array& array) {
  const Bytes bytes = bytes_of(array);
  EXPECT_LE(bytes.planned, bytes.asked) << name << '\n' << bytes.stages;
  EXPECT_GE(bytes.planned, bytes.asked - kProgramScratch) << name << '\n' << bytes.stages;
}

TEST_P(Estimates, OfCopiesAreWhatIsAskedFor) {
  expect_equal("columns", rows_.rechunk(Dims{4096, 64}));
  expect_equal("uneven", rows_.rechunk(Grid({AxisChunks(std::vector<int64_t>{1, 4000, 95}), AxisChunks(1024, 100)})));
  expect_equal("transposed", transpose(rows_).rechunk(Dims{100, 4096}));
  expect_equal("one chunk", rows_.rechunk(Dims{-1, -1}));
  expect_equal("joined", concatenate({rows_, rows_(slice(0, 100), ellipsis)}, 0));
  expect_equal("reshaped", reshape(rows_, {2048, 2048}));
}

TEST_P(Estimates, OfChunksThatAreReadWhole) {
  expect_equal("sum of two", rows_ + rows_ * 2.0);
  expect_equal("running sums", cumsum(rows_, 1));
}

// With sums and what is computed while it is read.
void expect_close(const std::string& name, const Array& array) {
  const Bytes bytes = bytes_of(array);
  constexpr double kMost = 1.1;
  const int64_t slack = (320 << 10) + kProgramScratch;
  const auto planned = static_cast<double>(bytes.planned), asked = static_cast<double>(bytes.asked);
  EXPECT_LE(planned, kMost * asked + slack) << name << '\n' << bytes.stages;
  EXPECT_GE(kMost * planned + slack, asked) << name << '\n' << bytes.stages;
}

TEST_P(Estimates, OfOtherStagesAreClose) {
  QUARRY_SKIP_ON_CUDA("products there take a workspace that no plan counts");
  expect_close("sum", sum(rows_, 1));
  expect_close("sum of rows", sum(rows_, 0));
  expect_close("variance", var(rows_));
  expect_close("product", matmul(rows_, rows_(slice(0, 1024), ellipsis)));
  expect_close("covariance", matmul(transpose(rows_), rows_));
  expect_close("parts of chunks", rows_(ellipsis, slice(0, 64)).rechunk(Dims{64, 16}) + 1.0);
  expect_close("sorted", sort(rows_.rechunk(Dims{4096, 64}), 0));
  expect_close("windows", sum(sliding_window_view(rows_, Dims{3, 3}), -1));
}

TEST_P(Estimates, OfFilesAreClose) {
  const test::TempDir folder;
  const std::string file = folder / "x.h5";
  to_hdf5(file, "/x", rows_);
  const Array x = open_hdf5(file, "/x");
  expect_close("mean of a file", mean(x, 0));
  expect_close("file plus one", x + 1.0);
  expect_close("columns of a file", x.rechunk(Dims{4096, 64}));
  expect_close("a file reshaped", reshape(x, {2048, 2048}));
  expect_close("a file joined", concatenate({x, x}, 1));
}

}  // namespace
}  // namespace quarry
