// Device memory in segments: on a source that is a plain range, and under executors on the emulated device.
#include "quarry/scheduler/blocks/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/memory/policy.h"
#include "tests/unit/scheduler/executor_support.h"

namespace quarry::scheduler {
namespace {

using local::DeviceKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::config_for;
using testing_support::mix;
using testing_support::words_of;
namespace policy = local::memory_policy;

constexpr int64_t kMiB = int64_t{1} << 20;

// Hands out addresses, one piece right behind the other, of which nobody reads or writes anything.
struct FakeDevice {
  int64_t free_bytes = int64_t{1} << 40;
  std::map<char*, int64_t> out;
  std::vector<int64_t> asked;
  char* next = reinterpret_cast<char*>(int64_t{1} << 42);

  DeviceSegments::Source source(int64_t granule = 256) {
    DeviceSegments::Source source;
    source.take = [this](int64_t bytes) -> void* {
      asked.push_back(bytes);
      if (bytes > free_bytes) throw local::OutOfMemory("fake: " + std::to_string(free_bytes) + " are free");
      free_bytes -= bytes;
      char* const data = next;
      next += bytes;
      out[data] = bytes;
      return data;
    };
    source.give_back = [this](void* data, int64_t bytes) {
      const auto found = out.find(static_cast<char*>(data));
      ASSERT_NE(found, out.end());
      ASSERT_EQ(found->second, bytes);
      free_bytes += bytes;
      out.erase(found);
    };
    source.name = "fake:0";
    source.granule_bytes = granule;
    return source;
  }
  // Whether a piece lies in one of what was handed out.
  bool holds(const void* data, int64_t bytes) const {
    auto after = out.upper_bound(const_cast<char*>(static_cast<const char*>(data)));
    if (after == out.begin()) return false;
    --after;
    return static_cast<const char*>(data) + bytes <= after->first + after->second;
  }
};

TEST(DeviceSegments, TakesNothingUntilItIsAsked) {
  FakeDevice device;
  const DeviceSegments segments(device.source(), 100 * kMiB);
  EXPECT_TRUE(device.asked.empty());
  EXPECT_EQ(segments.taken_bytes(), 0);
}

TEST(DeviceSegments, GrowsFromASmallSegmentToFewLargeOnes) {
  constexpr int64_t kLimit = int64_t{112} << 30;
  FakeDevice device;
  DeviceSegments segments(device.source(2 * kMiB), kLimit);
  ASSERT_NE(segments.allocate(64 * kMiB, false), nullptr);
  EXPECT_EQ(segments.taken_bytes(), 256 * kMiB);
  for (int i = 0; i < 2000; ++i) {
    if (segments.allocate(64 * kMiB, false) == nullptr) break;
  }
  EXPECT_GT(segments.taken_bytes(), kLimit - 256 * kMiB);
  EXPECT_LE(segments.taken_bytes(), kLimit);
  EXPECT_LE(segments.count(), 34);
  for (const auto& [data, bytes] : device.out) {
    EXPECT_LE(bytes, policy::kMostSegmentBytes + 256 * kMiB);  // the last one has the rest
    EXPECT_EQ(bytes % (2 * kMiB), 0);
  }
}

TEST(DeviceSegments, SmallPiecesStayOutOfTheGapsOfBlocks) {
  constexpr int64_t kLimit = int64_t{1} << 30, kBlock = 32 * kMiB, kSmall = policy::small_piece_bytes(kLimit);
  static_assert(kSmall > 0 && policy::small_piece_bytes(policy::kLeastWithSmall - 1) == 0);
  FakeDevice device;
  DeviceSegments segments(device.source(), kLimit);
  void* const block = segments.allocate(kBlock, false);
  std::vector<void*> small;
  for (int i = 0; i < 3; ++i) small.push_back(segments.allocate(kSmall, false));
  while (segments.allocate(kBlock, false) != nullptr) {
  }
  segments.deallocate(block, kBlock);
  small.push_back(segments.allocate(kSmall, false));
  EXPECT_EQ(segments.allocate(kBlock, false), block) << "the gap is whole";
  // Where their own segment is full and no other is to be had, they go wherever there is a gap.
  segments.deallocate(block, kBlock);
  int64_t more = 0;
  while (segments.allocate(kSmall, false) != nullptr) ++more;
  EXPECT_GE(more, kBlock / kSmall);
  EXPECT_EQ(segments.allocate(kBlock, false), nullptr);
}

TEST(DeviceSegments, SegmentsOfSmallPiecesMakeRoom) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  FakeDevice device;
  DeviceSegments segments(device.source(), kLimit);
  void* const small = segments.allocate(256, false);
  EXPECT_EQ(segments.taken_bytes(), policy::small_segment_bytes(kLimit));
  segments.deallocate(small, 256);
  EXPECT_NE(segments.allocate(kLimit, false), nullptr);
  EXPECT_EQ(segments.count(), 1);
}

TEST(DeviceSegments, EqualPiecesLeaveNoGaps) {
  // Pieces whose size divides no segment: all of the limit is of use, but for less than one at its end.
  for (const int64_t bytes : {256 * 4001, 256 * 77777, 256 * 120000, 256 * 300001}) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    FakeDevice device;
    DeviceSegments segments(device.source(), kLimit);
    int64_t count = 0;
    while (segments.allocate(bytes, false) != nullptr) ++count;
    EXPECT_EQ(count, kLimit / bytes) << bytes;
  }
}

TEST(DeviceSegments, AwkwardLimitsAndPieces) {
  constexpr int64_t kGranule = 2 * kMiB;
  for (const int64_t limit : {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{1000}, kGranule - 256, kGranule,
                              2 * kGranule + 256, 37 * kMiB + 512}) {
    const int64_t usable = limit / 256 * 256;
    FakeDevice device;
    DeviceSegments segments(device.source(kGranule), limit);
    EXPECT_EQ(segments.limit_bytes(), usable);
    EXPECT_EQ(segments.allocate(usable + 256, false), nullptr) << limit;
    EXPECT_EQ(segments.taken_bytes(), 0) << "for what can never be";
    if (usable == 0) continue;
    // All in one piece.
    void* const all = segments.allocate(usable, true);
    ASSERT_NE(all, nullptr) << limit;
    EXPECT_TRUE(device.holds(all, usable));
    EXPECT_EQ(segments.allocate(256, false), nullptr);
    segments.deallocate(all, usable);
    // The same in the smallest ones, and again in one piece.
    if (limit > 100000) continue;
    std::vector<void*> pieces;
    for (void* piece = segments.allocate(256, false); piece != nullptr; piece = segments.allocate(256, false)) {
      pieces.push_back(piece);
    }
    EXPECT_EQ(static_cast<int64_t>(pieces.size()), usable / 256);
    for (void* const piece : pieces) segments.deallocate(piece, 256);
    EXPECT_NE(segments.allocate(usable, false), nullptr);
  }
}

TEST(DeviceSegments, PiecesDoNotCrossSegmentsThatTouch) {
  FakeDevice device;  // whose pieces touch
  DeviceSegments segments(device.source(), 64 * kMiB);
  std::vector<void*> pieces;
  for (void* piece = segments.allocate(kMiB, false); piece != nullptr; piece = segments.allocate(kMiB, false)) {
    pieces.push_back(piece);
  }
  ASSERT_EQ(pieces.size(), 64u);
  ASSERT_GT(segments.count(), 3);
  for (void* const piece : pieces) segments.deallocate(piece, kMiB);
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const int64_t bytes = 256 * (1 + random() % (30 * kMiB / 256));
    void* const piece = segments.allocate(bytes, i % 2 == 0);
    ASSERT_NE(piece, nullptr) << bytes;
    EXPECT_TRUE(device.holds(piece, bytes)) << bytes;
    segments.deallocate(piece, bytes);
  }
}

TEST(DeviceSegments, EmptyOnesMakeWayForALongPiece) {
  FakeDevice device;
  DeviceSegments segments(device.source(), 64 * kMiB);
  std::vector<void*> pieces;
  for (int i = 0; i < 64; ++i) pieces.push_back(segments.allocate(kMiB, false));
  ASSERT_EQ(segments.taken_bytes(), 64 * kMiB);
  for (int i = 4; i < 64; ++i) segments.deallocate(pieces[static_cast<size_t>(i)], kMiB);
  void* const piece = segments.allocate(50 * kMiB, false);
  ASSERT_NE(piece, nullptr);
  EXPECT_TRUE(device.holds(piece, 50 * kMiB));
  EXPECT_LE(segments.taken_bytes(), 64 * kMiB);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(device.holds(pieces[static_cast<size_t>(i)], kMiB));
}

// What a slab of the limit can place when it is empty, segments can: the promise that the planner's least budget works.
TEST(DeviceSegments, WhenNothingLiesThereEveryPlacementFits) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const int64_t limit = 256 * (1 + random() % 40000);
    FakeDevice device;
    DeviceSegments segments(device.source(round % 2 == 0 ? 256 : 64 << 10), limit);
    // Some use before, all of it given back.
    std::vector<std::pair<void*, int64_t>> used;
    for (int i = 0; i < 60; ++i) {
      const int64_t bytes = 256 * (1 + random() % (limit / 256));
      if (void* const data = segments.allocate(bytes, i % 3 == 0)) used.emplace_back(data, bytes);
      if (used.size() > 1 && random() % 2 == 0) {
        std::swap(used[random() % used.size()], used.back());
        segments.deallocate(used.back().first, used.back().second);
        used.pop_back();
      }
      ASSERT_LE(segments.taken_bytes(), limit);
    }
    for (const auto& [data, bytes] : used) segments.deallocate(data, bytes);
    // Pieces of all of the limit.
    std::vector<int64_t> pieces;
    for (int64_t rest = limit; rest > 0; rest -= pieces.back()) {
      pieces.push_back(std::min<int64_t>(rest, 256 * (1 + random() % (limit / 256))));
    }
    const auto place = [&] {
      used.clear();
      for (size_t i = 0; i < pieces.size(); ++i) {
        void* const data = segments.allocate(pieces[i], i + 1 == pieces.size());
        if (data == nullptr) break;
        used.emplace_back(data, pieces[i]);
      }
      if (used.size() == pieces.size()) return true;
      for (const auto& [data, bytes] : used) segments.deallocate(data, bytes);
      return false;
    };
    ASSERT_TRUE(place() || (segments.make_room(limit) && place())) << "round " << round;
    EXPECT_EQ(segments.taken_bytes(), limit);
    for (size_t i = 0; i < used.size(); ++i) {
      EXPECT_TRUE(device.holds(used[i].first, used[i].second));
      for (size_t j = 0; j < i; ++j) {
        const auto* const a = static_cast<const char*>(used[i].first);
        const auto* const b = static_cast<const char*>(used[j].first);
        EXPECT_TRUE(a + used[i].second <= b || b + used[j].second <= a);
      }
    }
  }
}

TEST(DeviceSegments, SharedOnesStayUntilTheyAreClosed) {
  FakeDevice device;
  DeviceSegments segments(device.source(), 64 * kMiB);
  void* const first = segments.allocate(kMiB, false);
  const SharedSegment shared = segments.share(first);
  EXPECT_TRUE(device.holds(shared.data, shared.bytes));
  EXPECT_EQ(segments.share(static_cast<char*>(first) + kMiB - 1).number, shared.number);
  segments.deallocate(first, kMiB);
  // Nobody would hear of a recall.
  EXPECT_EQ(segments.allocate(64 * kMiB, false), nullptr);
  EXPECT_FALSE(segments.is_recalling());
  segments.allow_recalls(true);
  EXPECT_EQ(segments.allocate(64 * kMiB, false), nullptr);
  EXPECT_TRUE(segments.is_recalling());
  EXPECT_THAT(segments.take_recalls(), ElementsAre(shared.number));
  EXPECT_EQ(segments.allocate(64 * kMiB, false), nullptr) << "it waits";
  EXPECT_THAT(segments.take_recalls(), ElementsAre()) << "asked once";
  // Nothing is put there meanwhile.
  void* const other = segments.allocate(256, false);
  EXPECT_FALSE(other >= shared.data && other < static_cast<char*>(shared.data) + shared.bytes);
  segments.deallocate(other, 256);
  segments.end_sharing(shared.number + 100);  // of nothing
  segments.end_sharing(shared.number);
  EXPECT_FALSE(segments.is_recalling());
  void* const all = segments.allocate(64 * kMiB, false);
  ASSERT_NE(all, nullptr);
  EXPECT_FALSE(device.out.contains(static_cast<char*>(shared.data)));
  EXPECT_NE(segments.share(all).number, shared.number);
}

TEST(DeviceSegments, ARecallThatNobodyAnswersIsTakenBack) {
  FakeDevice device;
  DeviceSegments segments(device.source(), 64 * kMiB);
  segments.allow_recalls(true);
  void* const first = segments.allocate(kMiB, false);
  const SharedSegment shared = segments.share(first);
  segments.deallocate(first, kMiB);
  EXPECT_EQ(segments.allocate(64 * kMiB, false), nullptr);
  segments.cancel_recalls();
  EXPECT_FALSE(segments.is_recalling());
  EXPECT_THAT(segments.take_recalls(), ElementsAre());
  EXPECT_EQ(segments.allocate(kMiB, false), first) << "of use again";
  segments.deallocate(first, kMiB);
  EXPECT_EQ(segments.allocate(64 * kMiB, false), nullptr) << "but still open elsewhere";
  EXPECT_THAT(segments.take_recalls(), ElementsAre(shared.number));
}

TEST(DeviceSegments, ADeviceThatRefusesGivesAsMuchAsItHas) {
  FakeDevice device;
  DeviceSegments segments(device.source(), 1024 * kMiB);
  void* const first = segments.allocate(128 * kMiB, false);
  ASSERT_NE(first, nullptr);
  device.free_bytes = 3 * kMiB;
  EXPECT_NE(segments.allocate(2 * kMiB, false), nullptr) << "not a segment of 128 MiB, but what is needed";
  // What is kept in vain goes back before it is an error.
  segments.deallocate(first, 128 * kMiB);
  EXPECT_NE(segments.allocate(129 * kMiB, false), nullptr);
  const int64_t taken = segments.taken_bytes();
  try {
    segments.allocate(100 * kMiB, false);
    ADD_FAILURE() << "no error";
  } catch (const local::OutOfMemory& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("fake:0 refuses 104857600 bytes"), HasSubstr(std::to_string(taken)),
                      HasSubstr("the budget of 1073741824 bytes"), HasSubstr("are free"), HasSubstr("--memory")));
  }
  EXPECT_EQ(segments.taken_bytes(), taken);
}

// --- executors ---

BlockId add_mix(Graph& graph, int64_t bytes, int64_t scratch = 0, bool keep = false) {
  const BlockId block = graph.add_block(bytes, 0, keep);
  TaskDecl task;
  task.body = graph.add_body(std::make_unique<testing_support::Mix>());
  task.index = task.position = block;
  task.scratch_bytes = scratch;
  task.outputs = std::span(&block, 1);
  graph.add_task(task);
  return block;
}

std::vector<uint64_t> mixed(int64_t index, int64_t bytes) {
  std::vector<uint64_t> words(static_cast<size_t>(bytes / 8));
  mix(index, {}, {{words.data(), bytes}});
  return words;
}

TEST(ExecutorSegments, ASmallRunTakesTheFirstSegmentAndNoPinnedMemory) {
  constexpr int64_t kBudget = 256 * kMiB;
  const auto executor = Executor::create(config_for(DeviceKind::emulated, kBudget));
  EXPECT_EQ(executor->device_bytes(), 0);
  EXPECT_EQ(executor->staging().acquired_bytes(), 0);
  for (int run = 0; run < 3; ++run) {
    Graph graph;
    for (int i = 0; i < 20; ++i) add_mix(graph, 4096, 512);
    executor->run(graph);
    EXPECT_EQ(executor->device_bytes(), policy::first_segment_bytes(kBudget));
  }
  EXPECT_EQ(executor->staging().acquired_bytes(), 0);
}

// Blocks of one run leave segments of their size; those of the next one are longer, up to all that there is.
TEST(ExecutorSegments, LongerBlocksThanBeforeFindRoom) {
  constexpr int64_t kBudget = 8 * kMiB;
  const auto executor = Executor::create(config_for(DeviceKind::emulated, kBudget));
  for (const int64_t bytes : {kMiB / 8, kMiB, 2 * kMiB + 8, 7 * kMiB, kMiB + 1000, kBudget}) {
    Graph graph;
    std::vector<BlockId> blocks;
    for (int i = 0; i < 12; ++i) blocks.push_back(add_mix(graph, bytes, 0, /*keep=*/true));
    executor->run(graph);
    EXPECT_LE(executor->device_bytes(), kBudget);
    EXPECT_GE(executor->device_bytes(), bytes);
    for (const BlockId block : blocks) {
      EXPECT_EQ(words_of(*executor, *executor->stored_block(block)), mixed(block, bytes)) << bytes;
    }
  }
}

TEST(ExecutorSegments, ABudgetThatIsNotFreeIsRefusedAtTheStart) {
  local::Backend& backend = local::backend(DeviceKind::emulated);
  const local::DeviceInfo info = backend.info(0);
  const int64_t others = info.free_bytes - 40 * kMiB;
  void* const taken = backend.allocate_slab(0, others);
  try {
    Executor::create(config_for(DeviceKind::emulated, 64 * kMiB));
    ADD_FAILURE() << "no error";
  } catch (const local::OutOfMemory& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("67108864"), HasSubstr(std::to_string(40 * kMiB))));
  }
  backend.free_slab(0, taken, others);
}

// Another program takes what was free at the start.
TEST(ExecutorSegments, WhatOthersTakeMeanwhileIsATypedErrorThatNamesTheAmounts) {
  constexpr int64_t kBudget = 64 * kMiB;
  local::Backend& backend = local::backend(DeviceKind::emulated);
  const auto executor = Executor::create(config_for(DeviceKind::emulated, kBudget));
  const auto run = [&] {
    Graph graph;
    std::vector<BlockId> blocks;
    for (int i = 0; i < 6; ++i) blocks.push_back(add_mix(graph, 10 * kMiB, 0, /*keep=*/true));
    executor->run(graph);
    for (const BlockId block : blocks) {
      EXPECT_EQ(words_of(*executor, *executor->stored_block(block)), mixed(block, 10 * kMiB));
    }
  };
  const int64_t others = backend.info(0).free_bytes - 25 * kMiB;
  void* const taken = backend.allocate_slab(0, others);
  try {
    run();
    ADD_FAILURE() << "no error";
  } catch (const local::OutOfMemory& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("mix["), HasSubstr("emulated:0 refuses 10485760 bytes more"),
                                    HasSubstr("of the budget of 67108864 bytes are taken"), HasSubstr("emulated:0: ")));
  }
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
  backend.free_slab(0, taken, others);
  run();
}

}  // namespace
}  // namespace quarry::scheduler
