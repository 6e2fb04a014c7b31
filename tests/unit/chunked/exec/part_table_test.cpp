// Parts of blocks that tasks bring: each once, in few bytes.
#include "quarry/chunked/exec/part_table.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <map>
#include <random>
#include <tuple>

#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/chunked/expr/build.h"
#include "tests/support/memory_dataset.h"

namespace quarry::exec {
namespace {

Hyperslab cut(int64_t seed, int axes) {
  Hyperslab hyperslab{Dims::filled(axes, 64), Dims::filled(axes), Dims::filled(axes, 64), 8};
  for (int d = 0; d < axes; ++d) {
    hyperslab.start[d] = seed >> d & 1 ? 32 : 0;
    hyperslab.count[d] = hyperslab.start[d] > 0 ? 32 : 64;
  }
  return hyperslab;
}

TEST(PartTable, FindsEqualPartsAndKeepsOthersApart) {
  std::mt19937 random(1);
  PartTable table;
  std::map<std::tuple<uint32_t, uint32_t, int64_t, int64_t, int>, int64_t> expected;
  for (int i = 0; i < 20000; ++i) {
    const uint32_t stage = random() % 3, part = random() % 2;
    const auto chunk = static_cast<int64_t>(random() % 300);
    const int axes = static_cast<int>(random() % 4);  // 0: a scalar's block
    const auto seed = static_cast<int64_t>(random() % (1u << axes));
    const auto [number, added] = table.emplace({stage, part, chunk}, 1, cut(seed, axes));
    const auto [found, is_new] = expected.try_emplace({stage, part, chunk, seed, axes}, table.size() - 1);
    ASSERT_EQ(added, is_new);
    ASSERT_EQ(number, found->second);
    if (added) table.set_block(number, 7 * number);
    ASSERT_EQ(table[number].block, 7 * number);
    const Hyperslab there = table.hyperslab(number), given = cut(seed, axes);
    ASSERT_EQ(there.shape, given.shape);
    ASSERT_EQ(there.start, given.start);
    ASSERT_EQ(there.count, given.count);
    ASSERT_EQ(there.itemsize, given.itemsize);
  }
  EXPECT_EQ(table.size(), std::ssize(expected));
}

// Tasks, blocks and what is fetched; the labels and hyperslabs are few.
TEST(PartTable, TheGraphOfAReceiveIsSmall) {
  const expr::NodePtr x = expr::source(
      std::make_shared<testing::MemoryDataset>("/x", Dims{1 << 20, 64}, local::DType::float64, Dims{1024, 64}));
  const plan::Plan plan = plan::make_plan({x}, {});
  LoweringContext context;
  context.owners = Ownership(2);
  constexpr int64_t kReceives = 200'000;
  const auto before = mallinfo2();
  Builder builder(plan, {}, context);
  builder.begin(0);
  for (int64_t i = 0; i < kReceives; ++i) {
    const Hyperslab part = cut(i % 4, 2);
    const std::vector<scheduler::BlockId> read{
        builder.receive_part(/*from=*/1, builder.key(0, i / 4), part, "an array of a name that is rather long")};
    EXPECT_EQ(read[0], builder.receive_part(1, builder.key(0, i / 4), part, "an array of a name that is rather long"));
  }
  const auto lowered = builder.finish();
  const auto after = mallinfo2();
  EXPECT_EQ(lowered->graph.task_count(), kReceives);
  const auto bytes =
      static_cast<double>(after.uordblks + after.hblkhd) - static_cast<double>(before.uordblks + before.hblkhd);
  EXPECT_LE(bytes / kReceives, 150);
  EXPECT_EQ(lowered->graph.task_name(7), "receive an array of a name that is rather long[1] from rank 1");
}

}  // namespace
}  // namespace quarry::exec
