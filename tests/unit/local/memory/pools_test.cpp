// Statistics, limits, hooks and the names of holders, on pools of every kind of device.
#include "quarry/local/memory/pools.h"

#include <gmock/gmock.h>

#include <cmath>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/device/device.h"
#include "quarry/local/ndarray/transfer.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMiB = int64_t{1} << 20;

class Pools : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (!available(GetParam())) GTEST_SKIP() << "no device of kind " << name(GetParam());
    stream_ = backend(GetParam()).create_stream(0, StreamRole::compute);
    pool_ = SlabPool::growing(device_, kMiB);
  }
  ExecContext context() { return {device_, stream_.get(), pool_.get(), 0}; }
  std::string failure(int64_t bytes) {
    try {
      pool_->allocate(bytes, nullptr);
    } catch (const OutOfMemory& error) {
      return error.what();
    }
    return "no failure";
  }
  const Device device_{GetParam(), 0};
  std::unique_ptr<SlabPool> pool_;
  std::unique_ptr<DeviceStream> stream_;
};
QUARRY_ON_EVERY_DEVICE(Pools);

TEST_P(Pools, StatisticsCountWhatIsHeld) {
  const PoolStatistics empty = pool_->statistics();
  EXPECT_EQ(empty.acquired_bytes, 0);
  EXPECT_EQ(empty.limit_bytes, SlabPool::kNoLimit);
  void* small = pool_->allocate(1000, nullptr);
  void* large = pool_->allocate(2 * kMiB, nullptr);
  const PoolStatistics two = pool_->statistics();
  EXPECT_EQ(two.requested_bytes, 1000 + 2 * kMiB);
  EXPECT_EQ(two.used_bytes, 1024 + 2 * kMiB);
  EXPECT_EQ(two.acquired_bytes, 3 * kMiB);
  EXPECT_EQ(two.free_bytes, kMiB - 1024);
  EXPECT_EQ(two.used_blocks, 2);
  EXPECT_EQ(two.free_blocks, 1);
  EXPECT_EQ(two.slabs, 2);
  EXPECT_EQ(two.allocations, 2);
  EXPECT_EQ(two.acquisitions, 2);
  pool_->deallocate(large, 2 * kMiB, nullptr);
  EXPECT_EQ(pool_->free_all_blocks(), 2 * kMiB);
  EXPECT_EQ(pool_->free_all_blocks(), 0);
  const PoolStatistics one = pool_->statistics();
  EXPECT_EQ(one.used_bytes, 1024);
  EXPECT_EQ(one.acquired_bytes, kMiB);
  EXPECT_EQ(one.peak_used_bytes, two.used_bytes);
  EXPECT_EQ(one.peak_acquired_bytes, 3 * kMiB);
  pool_->reset_peak();
  EXPECT_EQ(pool_->peak_bytes(), 1024);
  EXPECT_EQ(pool_->statistics().peak_acquired_bytes, kMiB);
  EXPECT_THAT(to_string(one), HasSubstr("used bytes                            1024\n"));
  pool_->deallocate(small, 1000, nullptr);
  EXPECT_EQ(pool_->statistics().requested_bytes, 0);
}

TEST_P(Pools, ALimitHoldsToTheByte) {
  pool_->set_limit(2 * kMiB - 1);
  EXPECT_EQ(pool_->limit_bytes(), 2 * kMiB - 1);
  EXPECT_THAT(failure(2 * kMiB), HasSubstr("2097152 bytes do not fit: 0 of 2097151 are in use"));
  EXPECT_EQ(pool_->acquired_bytes(), 0);  // nothing leaked
  pool_->set_limit(2 * kMiB);
  void* data = pool_->allocate(2 * kMiB, nullptr);
  EXPECT_THAT(failure(1), HasSubstr("1 bytes do not fit: 2097152 of 2097152 are in use"));
  pool_->deallocate(data, 2 * kMiB, nullptr);
  pool_->deallocate(pool_->allocate(kMiB, nullptr), kMiB, nullptr);
  EXPECT_EQ(pool_->used_bytes(), 0);
}

TEST_P(Pools, ALowerLimitGivesUnusedSlabsBack) {
  void* kept = pool_->allocate(kMiB, nullptr);
  pool_->deallocate(pool_->allocate(4 * kMiB, nullptr), 4 * kMiB, nullptr);
  pool_->set_limit(kMiB / 2);
  EXPECT_EQ(pool_->acquired_bytes(), kMiB);
  EXPECT_THAT(failure(1), HasSubstr("in use"));
  pool_->set_limit(SlabPool::kNoLimit);
  pool_->deallocate(pool_->allocate(4 * kMiB, nullptr), 4 * kMiB, nullptr);
  pool_->deallocate(kept, kMiB, nullptr);
}

TEST_P(Pools, ALimitMayBeAShareOfTheMemory) {
  pool_->set_limit_fraction(0.25);
  const int64_t total = backend(GetParam()).info(0).total_bytes;
  EXPECT_EQ(pool_->limit_bytes(), total / 4);
  pool_->set_limit_fraction(0);
  EXPECT_THAT(failure(1), HasSubstr("0 of 0 are in use"));
  EXPECT_THROW(pool_->set_limit_fraction(1.01), InvalidArgument);
  EXPECT_THROW(pool_->set_limit_fraction(std::nan("")), InvalidArgument);
  EXPECT_THROW(pool_->set_limit(-2), InvalidArgument);
  EXPECT_THROW(SlabPool::fixed(device_, kMiB)->set_limit(1), NotSupported);
}

TEST_P(Pools, ArraysThatDoNotFitLeaveNothingBehind) {
  pool_->set_limit(4 * kMiB - 1);
  {
    const DeviceScope scope(context());
    const NdArray x({kMiB / 4}, DType::float64);  // 2 MiB
    x.fill(1);
    EXPECT_THROW(x + x, OutOfMemory);
    EXPECT_EQ(pool_->used_bytes(), 2 * kMiB);
    pool_->set_limit(8 * kMiB);
    EXPECT_EQ((x + x)[{5}].item<double>(), 2);
    stream_->synchronize();
    EXPECT_EQ(pool_->used_bytes(), 2 * kMiB);
  }
  EXPECT_EQ(pool_->used_bytes(), 0);
  pool_->free_all_blocks();
  EXPECT_EQ(pool_->acquired_bytes(), 0);
}

TEST_P(Pools, OutOfMemoryListsTheLargestHolders) {
  pool_->set_limit(4 * kMiB);
  std::vector<std::pair<void*, int64_t>> pieces;
  const auto take = [&](int64_t bytes) { pieces.emplace_back(pool_->allocate(bytes, nullptr), bytes); };
  {
    const Range outer("layer 1");
    take(kMiB);
    const Range inner(std::string("weights"));
    take(kMiB / 2);
    take(kMiB / 2);
  }
  take(100);
  for (int i = 1; i <= 5; ++i) take(256 * i + 256);
  EXPECT_THAT(failure(4 * kMiB),
              EndsWith("; largest holders: 1 x 1048576 bytes (layer 1), 2 x 524288 bytes (layer 1 / weights), 1 x 1536 "
                       "bytes, 1 x 1280 bytes, 1 x 1024 bytes"));
  const std::vector<MemoryHolder> holders = pool_->holders(2);
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[1].name, "layer 1 / weights");
  EXPECT_EQ(holders[1].bytes(), kMiB);
  for (auto [data, bytes] : pieces) pool_->deallocate(data, bytes, nullptr);
  EXPECT_TRUE(pool_->holders().empty());
  pool_->set_limit(1);
  EXPECT_THAT(failure(4096), Not(HasSubstr("holders")));
}

class Recorder : public MemoryHook {
 public:
  explicit Recorder(std::string name = "", std::vector<std::string>* log = nullptr)
      : name_(std::move(name)), log_(log ? log : &own_) {}
  void before_acquire(const MemoryEvent& event) override { note("before_acquire", event); }
  void after_acquire(const MemoryEvent& event) override { note("after_acquire", event); }
  void before_allocate(const MemoryEvent& event) override { note("before_allocate", event); }
  void after_allocate(const MemoryEvent& event) override { note("after_allocate", event); }
  void before_free(const MemoryEvent& event) noexcept override { note("before_free", event); }
  void after_free(const MemoryEvent& event) noexcept override { note("after_free", event); }
  const std::vector<std::string>& log() const { return *log_; }
  std::vector<MemoryEvent> events;

 private:
  void note(const char* what, const MemoryEvent& event) {
    log_->push_back(name_ + what);
    events.push_back(event);
  }
  const std::string name_;
  std::vector<std::string> own_;
  std::vector<std::string>* log_;
};

TEST_P(Pools, HooksSeeEveryCall) {
  Recorder hook;
  void* data = nullptr;
  {
    const MemoryHookScope scope(hook);
    data = pool_->allocate(1000, nullptr);
    pool_->deallocate(pool_->allocate(1, nullptr), 1, nullptr);
  }
  pool_->deallocate(data, 1000, nullptr);  // no longer seen
  EXPECT_THAT(hook.log(), ElementsAre("before_allocate", "before_acquire", "after_acquire", "after_allocate",
                                      "before_allocate", "after_allocate", "before_free", "after_free"));
  EXPECT_EQ(hook.events[0].requested_bytes, 1000);
  EXPECT_EQ(hook.events[0].bytes, 1024);
  EXPECT_EQ(hook.events[0].data, nullptr);
  EXPECT_EQ(hook.events[0].pool, pool_.get());
  EXPECT_EQ(hook.events[0].device, device_);
  EXPECT_EQ(hook.events[2].bytes, kMiB);
  EXPECT_EQ(hook.events[3].data, data);
}

TEST_P(Pools, HooksAreThoseOfTheThreadInOrder) {
  std::vector<std::string> log;
  Recorder first("first ", &log), second("second ", &log);
  const MemoryHookScope outer(first);
  pool_->deallocate(pool_->allocate(1, nullptr), 1, nullptr);
  log.clear();
  {
    const MemoryHookScope inner(second);
    void* data = pool_->allocate(1, nullptr);
    EXPECT_THAT(log, ElementsAre("first before_allocate", "second before_allocate", "first after_allocate",
                                 "second after_allocate"));
    pool_->deallocate(data, 1, nullptr);
  }
  log.clear();
  std::thread([&] { pool_->deallocate(pool_->allocate(1, nullptr), 1, nullptr); }).join();
  EXPECT_TRUE(log.empty());
}

// Throws in the call of the given number.
class Thrower : public MemoryHook {
 public:
  explicit Thrower(int at) : at_(at) {}
  void before_acquire(const MemoryEvent&) override { step(); }
  void after_acquire(const MemoryEvent&) override { step(); }
  void before_allocate(const MemoryEvent&) override { step(); }
  void after_allocate(const MemoryEvent&) override { step(); }

 private:
  void step() {
    if (--at_ == 0) throw InvalidArgument("hook");
  }
  int at_;
};

TEST_P(Pools, AHookThatThrowsLeavesNothingBehind) {
  for (int at = 1; at <= 4; ++at) {
    Thrower hook(at);
    const MemoryHookScope scope(hook);
    EXPECT_THROW(pool_->allocate(1000, stream_.get()), InvalidArgument) << at;
    EXPECT_EQ(pool_->used_bytes(), 0) << at;
    pool_->free_all_blocks();
    EXPECT_EQ(pool_->acquired_bytes(), 0) << at;
  }
  pool_->deallocate(pool_->allocate(1000, nullptr), 1000, nullptr);
}

// A hook's own arrays are not reported to it.
class Counting : public MemoryHook {
 public:
  void after_allocate(const MemoryEvent&) override {
    ++calls;
    const NdArray x({10}, DType::float64);
  }
  int calls = 0;
};

TEST_P(Pools, HooksMayAllocate) {
  const DeviceScope device(context());
  Counting hook;
  const MemoryHookScope scope(hook);
  const NdArray x({10}, DType::float64);
  EXPECT_EQ(hook.calls, 1);
}

TEST_P(Pools, ThePinnedPoolKeepsWhatArraysGiveBack) {
  SlabPool& pinned = default_pinned_pool(GetParam());
  pinned.free_all_blocks();
  const int64_t used = pinned.used_bytes(), acquired = pinned.acquired_bytes();
  void* first = nullptr;
  {
    const NdArray x = pinned_empty({1000}, DType::float64, GetParam());
    EXPECT_EQ(x.device(), kCpu);
    EXPECT_EQ(pinned.used_bytes(), used + 8192);
    first = x.raw();
  }
  EXPECT_EQ(pinned.used_bytes(), used);
  EXPECT_GT(pinned.acquired_bytes(), acquired);
  EXPECT_EQ(pinned_empty({1000}, DType::float64, GetParam()).raw(), first);
  pinned.free_all_blocks();
  EXPECT_EQ(pinned.acquired_bytes(), acquired);
}

TEST_P(Pools, DefaultOnesAreThoseOfNewArrays) {
  const DeviceScope scope(device_);
  EXPECT_EQ(&default_memory_pool(), &default_pool(device_));
  EXPECT_EQ(&default_pinned_pool(), &default_pinned_pool(GetParam()));
  const int64_t before = default_memory_pool().used_bytes();
  const NdArray x({1000}, DType::float64);
  EXPECT_EQ(default_memory_pool().used_bytes(), before + 8192);
}

}  // namespace
}  // namespace quarry::local
