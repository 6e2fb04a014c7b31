// Small chunks that share a task on a GPU give the same bits as chunks with tasks of their own.
#include <gtest/gtest.h>

#include <cstring>

#include "quarry/chunked/api/quarry.h"

namespace quarry {
namespace {

struct Result {
  std::vector<NdArray> values;
  int64_t tasks = 0;
};

Result compute(local::DeviceKind device, const std::string& memory, int64_t rows) {
  RuntimeOptions options;
  options.device = device;
  options.memory = memory;
  options.host_memory = "16MiB";
  options.threads = 2;
  options.chunks = Dims{16, 1000};
  Runtime runtime(options);
  random::seed(7);
  const Array x = random::normal({rows, 70}, 0, 1, DType::float32).persist();
  const Array y = random::normal({70}, 0, 1, DType::float32);
  const int64_t tasks = runtime.statistics().tasks;
  const std::vector<Array> arrays{sum(sqrt(abs(x)) * Scalar(2) + y), mean(x, 0), var(x * y, 1), argmax(x), max(x, 0)};
  Result result;
  result.values = to_host(arrays);
  result.tasks = runtime.statistics().tasks - tasks;
  return result;
}

// 188 chunks, one more than segments, as many, fewer, not a power of two, three; and two, which have no tree.
class SharedTasks : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Rows, SharedTasks, ::testing::Values(3001, 1030, 1024, 701, 37, 20));

TEST_P(SharedTasks, SameBits) {
  const Result apart = compute(local::DeviceKind::emulated, "128KiB", GetParam());
  const Result shared = compute(local::DeviceKind::emulated, "256MiB", GetParam());
  const Result cpu = compute(local::DeviceKind::cpu, "256MiB", GetParam());
  if (GetParam() > 2 * 16)
    EXPECT_LT(shared.tasks, apart.tasks);
  else
    EXPECT_EQ(shared.tasks, apart.tasks);
  for (size_t i = 0; i < apart.values.size(); ++i) {
    for (const Result* other : {&shared, &cpu}) {
      const NdArray& a = apart.values[i];
      const NdArray& b = other->values[i];
      ASSERT_EQ(a.nbytes(), b.nbytes());
      EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())), 0) << i;
    }
  }
}

}  // namespace
}  // namespace quarry
