#include "quarry/scheduler/graph.h"

#include <gtest/gtest.h>

#include "quarry/local/base/error.h"
#include "quarry/scheduler/executor.h"

namespace quarry::scheduler {
namespace {

class Nothing final : public TaskBody {
 public:
  std::string name(int64_t index) const override { return "nothing " + std::to_string(index); }
  void run(TaskRun&) override {}
};

TaskId add(Graph& graph, int64_t position, std::vector<BlockId> inputs, std::vector<BlockId> outputs,
           int64_t scratch = 0) {
  TaskDecl task;
  task.position = position;
  task.inputs = inputs;
  task.outputs = outputs;
  task.scratch_bytes = scratch;
  return graph.add_task(task);
}

TEST(Graph, OrderIsByPositionThenByAdding) {
  Graph graph;
  graph.add_body(std::make_unique<Nothing>());
  for (const int64_t position : {5, 3, 5, 1, 3}) add(graph, position, {}, {});
  EXPECT_EQ(graph.admission_order(), (std::vector<TaskId>{3, 1, 4, 0, 2}));
  EXPECT_TRUE(Graph().admission_order().empty());
}

TEST(Graph, LeastWorkableCountsABlockReadTwiceOnce) {
  Graph graph;
  graph.add_body(std::make_unique<Nothing>());
  EXPECT_EQ(least_workable_bytes(graph), 0);
  const BlockId a = graph.add_block(1000), b = graph.add_block(1), c = graph.add_block(0);
  add(graph, 0, {}, {a, b});
  add(graph, 1, {a, b, a}, {c}, 300);
  EXPECT_EQ(least_workable_bytes(graph), 1024 + 256 + 512);
  EXPECT_EQ(graph.block(a).consumers, 2);
}

// What is left is the graph as if the others had never been added.
TEST(Graph, KeepsOnlySomeTasks) {
  Graph graph;
  graph.add_body(std::make_unique<Nothing>());
  const BlockId a = graph.add_block(1000), b = graph.add_block(5000), c = graph.add_block(8);
  add(graph, 0, {}, {a});
  add(graph, 1, {}, {b}, 9000);
  add(graph, 3, {a, b}, {});
  add(graph, 4, {a}, {c});
  add(graph, 2, {a}, {});
  graph.set_work({0.5});
  graph.keep_only({true, false, false, true, true});
  ASSERT_EQ(graph.task_count(), 3);
  EXPECT_EQ(graph.task(1).position, 4);
  EXPECT_EQ(graph.block(a).producer, 0);
  EXPECT_EQ(graph.block(a).consumers, 2);
  EXPECT_EQ(graph.block(b).producer, -1);
  EXPECT_EQ(graph.block(b).consumers, 0);
  EXPECT_EQ(graph.block(c).producer, 1);
  EXPECT_EQ(least_workable_bytes(graph), 1024 + 256);
  EXPECT_EQ(graph.largest_task(), 1);
  EXPECT_DOUBLE_EQ(graph.total_work(), 1.5);
  EXPECT_EQ(graph.admission_order(), (std::vector<TaskId>{0, 2, 1}));
  graph.keep_only({false, false, true});
  EXPECT_THROW(graph.admission_order(), local::InternalError) << "what makes its input is gone";
  graph.keep_only({false});
  EXPECT_EQ(graph.task_count(), 0);
  EXPECT_EQ(least_workable_bytes(graph), 0);
  EXPECT_TRUE(graph.admission_order().empty());
}

class Stored final : public StoredBlock {
 public:
  explicit Stored(int64_t bytes) : bytes_(bytes) {}
  int64_t bytes() const override { return bytes_; }

 private:
  int64_t bytes_;
};

TEST(Graph, StoredBlocksMakeWayForOthersOfTheirSize) {
  Graph graph;
  graph.add_body(std::make_unique<Nothing>());
  const auto a = std::make_shared<Stored>(100), b = std::make_shared<Stored>(200);
  const BlockId first = graph.add_stored(a), second = graph.add_stored(b), made = graph.add_block(8);
  add(graph, 0, {first, second}, {made});
  graph.set_remote_readers(made, 2);
  graph.release_stored();
  EXPECT_EQ(a.use_count(), 1);
  EXPECT_EQ(b.use_count(), 1);
  EXPECT_EQ(graph.block(made).remote_readers, 0);
  const auto c = std::make_shared<Stored>(100);
  EXPECT_THROW(graph.set_stored(second, c), local::InternalError) << "not as many bytes";
  EXPECT_THROW(graph.set_stored(made, c), local::InternalError);
  graph.set_stored(first, c);
  graph.set_stored(second, b);
  EXPECT_EQ(graph.stored(first), c);
  EXPECT_EQ(graph.stored(second), b);
  EXPECT_EQ(graph.add_stored(c), first);
  EXPECT_EQ(graph.admission_order(), std::vector<TaskId>{0});
  EXPECT_THROW(graph.set_stored(first, b), local::InternalError) << "it is another block already";
}

TEST(Graph, BrokenGraphsAreRefused) {
  Graph graph;
  graph.add_body(std::make_unique<Nothing>());
  const BlockId a = graph.add_block(8);
  EXPECT_THROW(graph.add_block(-1), local::InternalError);
  EXPECT_THROW(add(graph, 0, {17}, {}), local::InternalError);
  add(graph, 3, {}, {a});
  EXPECT_THROW(add(graph, 4, {}, {a}), local::InternalError) << "two producers";
  add(graph, 2, {a}, {});
  EXPECT_THROW(graph.admission_order(), local::InternalError) << "consumed before it is produced";

  Graph orphan;
  orphan.add_body(std::make_unique<Nothing>());
  const BlockId b = orphan.add_block(8);
  add(orphan, 0, {b}, {});
  EXPECT_THROW(orphan.admission_order(), local::InternalError) << "produced by nobody";
}

TEST(Graph, IsCompact) { EXPECT_LE(sizeof(Graph::Task) + sizeof(Graph::Block) + 3 * sizeof(BlockId), 112u); }

}  // namespace
}  // namespace quarry::scheduler
