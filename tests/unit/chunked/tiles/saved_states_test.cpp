// Factorisations by tiles that fail at some task and go on from the last saved state: the same bits, in any order of
// the loop's columns.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "quarry/local/base/error.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tile_rows.h"

namespace quarry {
namespace {

// While it lives, the run fails behind its task of this kind and number; those that save states write. 0: never.
class Fault {
 public:
  explicit Fault(int64_t number, const std::string& kind = "write") {
    const std::string fault = number == 0 ? "" : "throw," + kind + ",end," + std::to_string(number);
    setenv("QUARRY_FAULT_TASK", fault.c_str(), /*replace=*/1);
    setenv("QUARRY_SAVE_EVERY", "0", /*replace=*/1);
  }
  ~Fault() {
    unsetenv("QUARRY_FAULT_TASK");
    unsetenv("QUARRY_SAVE_EVERY");
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

// While it lives, folders for tests are in memory where the system has such a file system and nobody chose another:
// every state is written through to the disk, which is not what is tested.
class FoldersInMemory {
 public:
  FoldersInMemory() {
    chosen_ = std::getenv("TMPDIR") == nullptr && ::access(kMemory, W_OK) == 0;
    if (chosen_) setenv("TMPDIR", kMemory, /*replace=*/1);
  }
  ~FoldersInMemory() {
    if (chosen_) unsetenv("TMPDIR");
  }
  FoldersInMemory(const FoldersInMemory&) = delete;
  FoldersInMemory& operator=(const FoldersInMemory&) = delete;

 private:
  static constexpr const char* kMemory = "/dev/shm";
  bool chosen_ = false;
};

struct Setting {
  testing::TileRow row;
  local::DeviceKind device;
};
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const testing::TileRow& row : testing::tile_rows())
    for (const auto device : {local::DeviceKind::cpu, local::DeviceKind::emulated, local::DeviceKind::cuda})
      all.push_back({row, device});
  return all;
}

class SavedTiles : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam().device)) GTEST_SKIP() << "no device of kind " << local::name(GetParam().device);
  }
  const FoldersInMemory folders_;
  struct Size {
    int64_t m, n, tile_bytes;
    size_t results;  // of the row, at most
  };
  static constexpr Size kSome{70, 64, 4096, 100}, kFew{10, 12, 256, 1};
  // Whether the run came to its end.
  bool run(const std::string& file, const Size& size, const Fault& /*fault*/, int64_t* tasks = nullptr) {
    RuntimeOptions options = testing::runtime_on(GetParam().device, "64MiB");
    if (GetParam().device != local::DeviceKind::cpu) options.host_memory = "4MiB";
    const Runtime runtime(options);
    const ChunkPolicyScope small({GetParam().device, {}, size.tile_bytes});
    const testing::TileCase tried = GetParam().row.make(size.m, size.n, testing::DType::float64);
    std::vector<StoreItem> items;
    for (size_t i = 0; i < std::min(tried.chunked.size(), size.results); ++i)
      items.push_back({"/x" + std::to_string(i), tried.chunked[i]});
    count_ = items.size();
    try {
      store(file, items, {.resume = true});
    } catch (const local::IoError&) {
      return false;
    }
    if (tasks != nullptr) *tasks = runtime.statistics().tasks;
    return true;
  }
  testing::NdArrays values_of(const std::string& file) const {
    const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu));
    testing::NdArrays values;
    for (size_t i = 0; i < count_; ++i) values.push_back(open_hdf5(file, "/x" + std::to_string(i)).to_host());
    return values;
  }
  // Of a run that has failed; its tasks.
  int64_t go_on(const std::string& file, const Size& size, const testing::NdArrays& expected) {
    int64_t tasks = 0;
    EXPECT_TRUE(run(file, size, Fault(0), &tasks));
    const testing::NdArrays values = values_of(file);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(std::memcmp(values[i].raw(), expected[i].raw(), static_cast<size_t>(expected[i].nbytes())), 0)
          << "result " << i;
    EXPECT_FALSE(std::filesystem::exists(file + ".partial.states"));
    return tasks;
  }
  static bool has_state(const std::string& file) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(file + ".partial.states", error))
      if (entry.path().filename().string().starts_with("table.")) return true;
    return false;
  }

  size_t count_ = 0;
};
INSTANTIATE_TEST_SUITE_P(All, SavedTiles, ::testing::ValuesIn(settings()), [](const auto& info) {
  return std::string(local::name(info.param.device)) + "_" + info.param.row.name;
});

TEST_P(SavedTiles, AreGoneOnFromWhereverTheRunFails) {
  const test::TempDir directory;
  const std::string file = directory / "x.h5";
  int64_t whole = 0;
  ASSERT_TRUE(run(file, kSome, Fault(0), &whole));
  const testing::NdArrays expected = values_of(file);
  EXPECT_FALSE(std::filesystem::exists(file + ".partial.states"));
  int states = 0, shorter = 0;
  // The pretended device waits a little for each call, and few faults find a state that is complete: more are tried
  // where none has.
  const bool is_slow = GetParam().device == local::DeviceKind::emulated;
  for (const int64_t divisor : {is_slow ? 1 : 2, 8, 8}) {
    for (int64_t fault_at = 3;; fault_at += 1 + fault_at / divisor) {
      SCOPED_TRACE(fault_at);
      std::filesystem::remove(file);
      if (run(file, kSome, Fault(fault_at))) break;
      states += has_state(file);
      shorter += go_on(file, kSome, expected) < whole;
    }
    if (states > 0 || !GetParam().row.exact) break;
  }
  // Others are computed in one task, or in runs of their own, at these sizes.
  if (GetParam().row.exact) {
    EXPECT_GT(states, 0);
  }
  if (states > 0) {
    EXPECT_GT(shorter, 0);
  }
}

// Of a few tiles. Rows that are not exact make results in runs of their own, which save nothing.
TEST_P(SavedTiles, AreGoneOnFromEveryTask) {
  if (!GetParam().row.exact || GetParam().device != local::DeviceKind::cpu) return;
  const test::TempDir directory;
  const std::string file = directory / "x.h5";
  ASSERT_TRUE(run(file, kFew, Fault(0)));
  const testing::NdArrays expected = values_of(file);
  for (const std::string kind : {"compute", "write"}) {
    int64_t fault_at = 1, states = 0;
    for (;; ++fault_at) {
      SCOPED_TRACE(::testing::Message() << kind << " " << fault_at);
      std::filesystem::remove(file);
      if (run(file, kFew, Fault(fault_at, kind))) break;
      states += has_state(file);
      go_on(file, kFew, expected);
    }
    EXPECT_GT(fault_at, 10);
    if (kind == "write") {
      EXPECT_GT(states, 1);
    }
  }
}

// A product of a matrix with its own transpose has the chunks of one of them in the plan, whatever the array has.
TEST(SavedOutputs, HaveTheChunksOfThePlan) {
  const test::TempDir directory;
  const std::string file = directory / "x.h5";
  const testing::NdArray x = testing::random_matrix({64, 70}, testing::DType::float64);
  const testing::NdArray expected = local::matmul(x.T(), x);
  const auto run = [&](int64_t fault_at) {
    const Fault fault(fault_at);
    RuntimeOptions options = testing::runtime_on(local::DeviceKind::cpu, "64MiB");
    options.threads = 1;
    const Runtime runtime(options);
    const ChunkPolicyScope small({local::DeviceKind::cpu, {}, /*target_bytes=*/4096});
    const Array product = linalg::herk(testing::cut(x), /*trans=*/true);
    EXPECT_NE(product.chunks().axis(0), product.chunks().axis(1));
    try {
      store(file, {{"/x", product}}, {.resume = true});
    } catch (const local::IoError&) {
      return false;
    }
    return true;
  };
  for (int64_t fault_at = 1; !run(fault_at); ++fault_at) {
    SCOPED_TRACE(fault_at);
    ASSERT_LT(fault_at, 100);
    ASSERT_TRUE(run(0));
    const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu));
    const testing::NdArray got = open_hdf5(file, "/x").to_host();
    EXPECT_TRUE(local::allclose(got, expected));
    std::filesystem::remove(file);
  }
}

}  // namespace
}  // namespace quarry
