#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/adaptors.h"
#include "quarry/local/memory/arena_resource.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/slab_pool.h"

namespace quarry::local {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr Device kEmulated{DeviceKind::emulated, 0};

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(FixedPool, UsesTheLastByteAndNotOneMore) {
  for (Device device : {kCpu, kEmulated}) {
    const auto pool = SlabPool::fixed(device, kMiB);
    EXPECT_THROW(pool->allocate(kMiB + 1, nullptr), OutOfMemory);
    void* all = pool->allocate(kMiB, nullptr);
    EXPECT_EQ(pool->largest_free_bytes(), 0);
    EXPECT_THROW(pool->allocate(0, nullptr), OutOfMemory);
    pool->deallocate(all, kMiB, nullptr);
    EXPECT_EQ(pool->largest_free_bytes(), kMiB);
    EXPECT_EQ(pool->peak_bytes(), kMiB);
  }
}

TEST(FixedPool, TakesTheBestFit) {
  const auto pool = SlabPool::fixed(kEmulated, kMiB);
  void* a = pool->allocate(256 * 1024, nullptr);
  void* keep1 = pool->allocate(256, nullptr);
  void* b = pool->allocate(128 * 1024, nullptr);
  void* keep2 = pool->allocate(256, nullptr);
  pool->deallocate(a, 256 * 1024, nullptr);
  pool->deallocate(b, 128 * 1024, nullptr);
  EXPECT_EQ(pool->allocate(127 * 1024, nullptr), b);
  EXPECT_EQ(pool->allocate(200 * 1024, nullptr), a);
  pool->deallocate(keep1, 256, nullptr);
  pool->deallocate(keep2, 256, nullptr);
}

TEST(FixedPool, ReusesAtOnceOnTheSameStream) {
  const auto pool = SlabPool::fixed(kEmulated, kMiB);
  const auto stream = backend(DeviceKind::emulated).create_stream(0, StreamRole::compute);
  bool released = false;
  std::atomic<bool> gate{false};
  stream->host_callback([&] {
    while (!gate) std::this_thread::yield();
    released = true;
  });
  void* data = pool->allocate(kMiB, stream.get());
  pool->deallocate(data, kMiB, stream.get());
  EXPECT_EQ(pool->allocate(kMiB, stream.get()), data);  // would hang if it waited
  gate = true;
  pool->deallocate(data, kMiB, stream.get());
  void* idle = pool->allocate(kMiB, nullptr);  // idle memory: waits for the stream
  EXPECT_TRUE(released);
  pool->deallocate(idle, kMiB, nullptr);
}

TEST(FixedPool, SmallBlocksAreKeptForTheirStream) {
  constexpr int64_t kBytes = 4096;
  const auto pool = SlabPool::fixed(kEmulated, 2 * kBytes);
  auto stream = backend(DeviceKind::emulated).create_stream(0, StreamRole::compute);
  bool released = false;
  std::atomic<bool> gate{false};
  stream->host_callback([&] {
    while (!gate) std::this_thread::yield();
    released = true;
  });
  void* first = pool->allocate(kBytes, stream.get());
  void* second = pool->allocate(kBytes - 1, stream.get());
  pool->deallocate(first, kBytes, stream.get());
  pool->deallocate(first, kBytes, stream.get());  // a mistake that does no harm
  EXPECT_EQ(pool->used_bytes(), kBytes);
  EXPECT_EQ(pool->statistics().used_blocks, 1);
  EXPECT_EQ(pool->statistics().free_blocks, 1);
  EXPECT_EQ(pool->allocate(kBytes - 255, stream.get()), first);  // of the same rounded size, without a wait
  pool->deallocate(first, kBytes - 255, stream.get());
  pool->deallocate(second, kBytes - 1, stream.get());
  EXPECT_EQ(pool->statistics().free_blocks, 2);
  const auto other = backend(DeviceKind::emulated).create_stream(0, StreamRole::compute);
  void* both = pool->allocate(2 * kBytes, other.get());  // merged; the other stream waits, not the host
  EXPECT_EQ(both, first);
  EXPECT_FALSE(released);
  bool seen = false;
  other->host_callback([&] { seen = released; });
  gate = true;
  other->synchronize();
  EXPECT_TRUE(seen);
  pool->deallocate(both, 2 * kBytes, other.get());
  EXPECT_EQ(pool->largest_free_bytes(), 2 * kBytes);
}

TEST(FixedPool, SmallBlocksOfAStreamThatIsGoneAreIdle) {
  const auto pool = SlabPool::fixed(kEmulated, 4096);
  auto stream = backend(DeviceKind::emulated).create_stream(0, StreamRole::compute);
  bool written = false;
  stream->host_callback([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    written = true;
  });
  void* data = pool->allocate(4096, stream.get());
  pool->deallocate(data, 4096, stream.get());
  stream.reset();
  EXPECT_EQ(pool->allocate(4096, nullptr), data);
  EXPECT_TRUE(written);
  pool->deallocate(data, 4096, nullptr);
}

TEST(FixedPool, OnTheCpuFragmentsDoNotRefuseWhatTheLimitAllows) {
  const auto pool = SlabPool::fixed(kCpu, 16 * kMiB);
  std::vector<void*> pieces;
  for (int i = 0; i < 16; ++i) pieces.push_back(pool->allocate(kMiB, nullptr));
  for (size_t i = 0; i < 16; i += 2) pool->deallocate(pieces[i], kMiB, nullptr);
  void* large = pool->allocate(8 * kMiB, nullptr);  // no free piece among the touched ones has more than 1 MiB
  EXPECT_EQ(pool->used_bytes(), 16 * kMiB);
  EXPECT_THROW(pool->allocate(1, nullptr), OutOfMemory);
  pool->deallocate(large, 8 * kMiB, nullptr);
  for (size_t i = 1; i < 16; i += 2) pool->deallocate(pieces[i], kMiB, nullptr);
  EXPECT_EQ(pool->used_bytes(), 0);
}

TEST(FixedPool, OnTheCpuResidentMemoryStaysWithinTheLimit) {
  const int64_t before = resident_bytes();
  constexpr int64_t kLimit = 64 * kMiB;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int64_t kSlack = 4 * kLimit;  // shadow memory of all that was ever touched
#else
  constexpr int64_t kSlack = 4 * kMiB;
#endif
  const auto pool = SlabPool::fixed(kCpu, kLimit);
  EXPECT_LT(resident_bytes() - before, 4 * kMiB);  // untouched so far
  std::mt19937 random(3);
  std::vector<std::pair<void*, int64_t>> live;
  int64_t used = 0, most = 0;
  for (int i = 0; i < 600; ++i) {
    const int64_t bytes = rounded_allocation(static_cast<int64_t>(random() % (12 * kMiB)));
    while (used + bytes > kLimit) {
      const size_t victim = random() % live.size();
      pool->deallocate(live[victim].first, live[victim].second, nullptr);
      used -= live[victim].second;
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    live.emplace_back(pool->allocate(bytes, nullptr), bytes);
    std::memset(live.back().first, 1, static_cast<size_t>(bytes));
    used += bytes;
    most = std::max(most, resident_bytes() - before);
  }
  EXPECT_LT(most, kLimit + kSlack);
  EXPECT_GT(most, kLimit / 2);
  for (auto [data, bytes] : live) pool->deallocate(data, bytes, nullptr);
  pool->free_unused();
  EXPECT_LT(resident_bytes() - before, kSlack + 4 * kMiB);
  EXPECT_EQ(pool->acquired_bytes(), 0);
}

TEST(GrowingPool, KeepsSlabsUntilToldAndHonoursItsLimit) {
  for (Device device : {kCpu, kEmulated}) {
    const auto pool = SlabPool::growing(device, kMiB, 3 * kMiB);
    void* small = pool->allocate(1000, nullptr);
    EXPECT_EQ(pool->acquired_bytes(), kMiB);
    void* large = pool->allocate(2 * kMiB, nullptr);
    EXPECT_EQ(pool->acquired_bytes(), 3 * kMiB);
    EXPECT_THROW(pool->allocate(kMiB, nullptr), OutOfMemory);
    pool->deallocate(large, 2 * kMiB, nullptr);
    EXPECT_EQ(pool->acquired_bytes(), 3 * kMiB);
    pool->free_unused();
    EXPECT_EQ(pool->acquired_bytes(), kMiB);
    pool->deallocate(small, 1000, nullptr);
    pool->free_unused();
    EXPECT_EQ(pool->acquired_bytes(), 0);
  }
}

TEST(GrowingPool, GivesUnusedSlabsUpForARequestThatNeedsThem) {
  const auto pool = SlabPool::growing(kEmulated, kMiB, 4 * kMiB);
  std::vector<void*> pieces;
  for (int i = 0; i < 4; ++i) pieces.push_back(pool->allocate(kMiB, nullptr));
  for (void* piece : pieces) pool->deallocate(piece, kMiB, nullptr);
  void* large = pool->allocate(4 * kMiB, nullptr);  // four slabs of 1 MiB would not hold it
  EXPECT_EQ(pool->acquired_bytes(), 4 * kMiB);
  pool->deallocate(large, 4 * kMiB, nullptr);
}

TEST(Adaptors, LimitNamesRequestLimitAndUse) {
  LimitResource limit(default_pool(kCpu), 1024);
  void* data = limit.allocate(700, nullptr);
  try {
    limit.allocate(300, nullptr);
    FAIL() << "no exception";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(), "cpu memory limit: 300 bytes do not fit: 768 of 1024 are in use");
  }
  limit.deallocate(data, 700, nullptr);
}

TEST(Adaptors, StatisticsSeeEveryCall) {
  StatisticsResource statistics(default_pool(kCpu));
  {
    const Buffer a(100, statistics, nullptr);
    const Buffer b(1000, statistics, nullptr);
    EXPECT_EQ(statistics.used_bytes(), 256 + 1024);
  }
  EXPECT_EQ(statistics.allocations(), 2);
  EXPECT_EQ(statistics.deallocations(), 2);
  EXPECT_EQ(statistics.total_bytes(), 1280);
  EXPECT_EQ(statistics.peak_bytes(), 1280);
}

TEST(Adaptors, FaultFailsExactlyOnce) {
  FaultResource fault(default_pool(kCpu), 2);
  const Buffer first(8, fault, nullptr);
  EXPECT_THROW(Buffer(8, fault, nullptr), OutOfMemory);
  const Buffer third(8, fault, nullptr);
  EXPECT_EQ(fault.allocations(), 3);
}

TEST(Arena, BumpsAndRefusesWhatDoesNotFit) {
  alignas(256) static char piece[1024];
  ArenaResource arena(piece, 1024, kCpu);
  void* a = arena.allocate(1, nullptr);
  void* b = arena.allocate(512, nullptr);
  EXPECT_EQ(a, piece);
  EXPECT_EQ(b, piece + 256);
  EXPECT_THROW(arena.allocate(257, nullptr), OutOfMemory);
  arena.deallocate(b, 512, nullptr);
  EXPECT_EQ(arena.allocate(768, nullptr), b);
  EXPECT_EQ(arena.peak_bytes(), 1024);
  EXPECT_THROW(arena.allocate(0, nullptr), OutOfMemory);
  arena.deallocate(b, 768, nullptr);
  EXPECT_EQ(arena.used_bytes(), 256);
  ArenaResource odd(piece, 300, kCpu);  // the last piece need not be a whole multiple
  odd.deallocate(odd.allocate(300, nullptr), 300, nullptr);
  EXPECT_EQ(odd.used_bytes(), 0);
}

TEST(Buffers, AdoptedOnesCallRelease) {
  int released = 0;
  {
    int value = 0;
    const Buffer buffer(&value, sizeof value, kCpu, [&] { ++released; });
    EXPECT_EQ(buffer.data(), &value);
  }
  EXPECT_EQ(released, 1);
}

TEST(DefaultPools, OnePerDevice) {
  EXPECT_EQ(&default_pool(kCpu), &default_pool(kCpu));
  EXPECT_NE(&default_pool({DeviceKind::emulated, 0}), &default_pool({DeviceKind::emulated, 1}));
  EXPECT_EQ(default_pool({DeviceKind::emulated, 1}).device(), (Device{DeviceKind::emulated, 1}));
  EXPECT_THROW(default_pool({DeviceKind::emulated, 17}), DeviceError);
}

}  // namespace
}  // namespace quarry::local
