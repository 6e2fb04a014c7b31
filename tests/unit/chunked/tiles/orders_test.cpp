// Tasks of tile programs in random orders that their tiles allow: the bits of the order of the loop. What a task names
// is all that it reads and writes.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "quarry/chunked/algo/tile_program.h"
#include "quarry/chunked/tiles/serial.h"
#include "tests/support/evaluate.h"
#include "tests/support/runtime_on.h"
#include "tests/support/tile_rows.h"

namespace quarry {
namespace {

using testing::NdArray;
using testing::NdArrays;
using tiles::Use;

bool same_bits(const NdArray& a, const NdArray& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.copy().raw(), b.copy().raw(), static_cast<size_t>(a.nbytes())) == 0;
}

class Shuffled final : public tiles::WholeProgram {
 public:
  using Program::task;
  using WholeProgram::WholeProgram;
  void task(const tiles::TileKernel& kernel, std::span<const Use> uses, tiles::Parameters parameters,
            tiles::Urgency /*urgency*/) override {
    const size_t number = tasks_.size();
    tasks_.push_back({&kernel, {uses.begin(), uses.end()}, parameters, {}, 0});
    std::set<size_t> before;
    for (const Use& use : uses) {
      Touched& tile = touched_[place(use)];
      if (tile.writer >= 0) before.insert(static_cast<size_t>(tile.writer));
      if (use.mode != Use::Mode::read) before.insert(tile.readers.begin(), tile.readers.end());
    }
    for (const Use& use : uses) {
      Touched& tile = touched_[place(use)];
      if (use.mode == Use::Mode::read) {
        tile.readers.push_back(number);
      } else {
        tile = {static_cast<int64_t>(number), {}};
      }
    }
    before.erase(number);
    tasks_[number].waits_for = before.size();
    for (const size_t earlier : before) tasks_[earlier].next.push_back(number);
  }

  // Returns how many tasks ran before one that the loop has before them.
  int64_t run(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<size_t> ready;
    for (size_t i = 0; i < tasks_.size(); ++i)
      if (tasks_[i].waits_for == 0) ready.push_back(i);
    int64_t moved = 0;
    size_t done = 0, latest = 0;
    for (; !ready.empty(); ++done) {
      std::swap(ready[random() % ready.size()], ready.back());
      const size_t number = ready.back();
      ready.pop_back();
      moved += number < latest;
      latest = std::max(latest, number);
      execute(tasks_[number]);
      for (const size_t next : tasks_[number].next)
        if (--tasks_[next].waits_for == 0) ready.push_back(next);
    }
    EXPECT_EQ(done, tasks_.size());
    return moved;
  }

 private:
  struct Task {
    const tiles::TileKernel* kernel;
    std::vector<Use> uses;
    tiles::Parameters parameters;
    std::vector<size_t> next;
    size_t waits_for;
  };
  struct Touched {
    int64_t writer = -1;
    std::vector<size_t> readers;
  };
  using Place = std::tuple<int, int64_t, int64_t>;

  static Place place(const Use& use) { return {use.tile.matrix, use.tile.row, use.tile.column}; }

  void execute(const Task& task) {
    NdArrays given = arrays_of(task.uses), kept;
    for (size_t i = 0; i < given.size(); ++i) {
      const Use::Mode mode = task.uses[i].mode;
      // What is to be written holds nothing that could be read.
      if (mode == Use::Mode::write) given[i].fill(local::nan);
      kept.push_back(mode == Use::Mode::read ? given[i].copy() : NdArray());
    }
    task.kernel->run(given, task.parameters);
    for (size_t i = 0; i < task.uses.size(); ++i) {
      if (task.uses[i].mode != Use::Mode::read) continue;
      EXPECT_TRUE(same_bits(given[i], kept[i])) << task.kernel->name << " changes what it only reads";
    }
  }

  std::vector<Task> tasks_;
  std::map<Place, Touched> touched_;
};

// The programs that a node is made of.
void add_programs(const expr::NodePtr& node, std::set<const expr::Node*>& seen, std::vector<const expr::Apply*>& all) {
  if (!seen.insert(node.get()).second) return;
  std::visit(
      [&](const auto& payload) {
        if constexpr (requires { payload.args; })
          for (const expr::NodePtr& arg : payload.args) add_programs(arg, seen, all);
        if constexpr (requires { payload.arg; }) add_programs(payload.arg, seen, all);
      },
      node->payload);
  if (const auto* applied = node->as<expr::Apply>(); applied != nullptr && applied->op->is_program())
    all.push_back(applied);
}

std::vector<testing::TileRow> rows_with_programs() {
  std::vector<testing::TileRow> rows = testing::tile_rows();
  std::erase_if(rows, [](const testing::TileRow& row) { return row.name == std::string_view("triangle_products"); });
  return rows;
}

class TileOrders : public ::testing::TestWithParam<testing::TileRow> {};
INSTANTIATE_TEST_SUITE_P(Rows, TileOrders, ::testing::ValuesIn(rows_with_programs()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(TileOrders, GiveTheSameBits) {
  const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu));
  const ChunkPolicyScope small(testing::small_tiles(local::DeviceKind::cpu));
  int64_t programs = 0, moved = 0;
  constexpr std::tuple<int64_t, int64_t, testing::DType> kCases[] = {{33, 33, testing::DType::float64},
                                                                     {40, 24, testing::DType::complex64},
                                                                     {24, 40, testing::DType::float32},
                                                                     {90, 7, testing::DType::float64},
                                                                     {1, 70, testing::DType::complex128}};
  for (const auto& [m, n, dtype] : kCases) {
    std::set<const expr::Node*> seen;
    std::vector<const expr::Apply*> all;
    const testing::TileCase tried = GetParam().make(m, n, dtype);
    for (const Array& array : tried.chunked) add_programs(array.node(), seen, all);
    for (const expr::Apply* applied : all) {
      const auto& program = dynamic_cast<const algo::TileProgram&>(*applied->op);
      SCOPED_TRACE(::testing::Message() << program.name() << " of " << m << " x " << n);
      NdArrays arguments;
      op::Call call;
      for (const expr::NodePtr& arg : applied->args) {
        arguments.push_back(testing::evaluate(arg));
        call.arguments.push_back(op::in_one_chunk(arg->shape, arg->dtype));
      }
      call.outputs = program.infer(call.arguments, /*room=*/0);
      for (size_t i = 0; i < arguments.size(); ++i)
        if (const auto wanted = program.wants(static_cast<int>(i), call, /*room=*/0)) call.arguments[i].grid = *wanted;
      const NdArrays expected = program.local(arguments);
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        Shuffled shuffled(call, arguments);
        program.emit(shuffled, call);
        moved += shuffled.run(seed);
        const NdArrays results = shuffled.results();
        for (size_t i = 0; i < results.size(); ++i)
          EXPECT_TRUE(same_bits(results[i], expected[i])) << "result " << i << ", seed " << seed;
      }
      ++programs;
    }
  }
  EXPECT_GT(programs, 0);
  EXPECT_GT(moved, 0);
}

// The test itself: a kernel that writes to a tile that its task only reads.
TEST(TileOrders, NoticeWhatATaskDoesNotName) {
  const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu));
  const tiles::TileKernel bad{"bad",
                              [](std::span<const NdArray> given, const tiles::Parameters&) {
                                *static_cast<double*>(given[0].raw()) = 2;
                                given[1].fill(1);
                              },
                              nullptr};
  const NdArrays arguments{local::ones({4, 4})};
  op::Call call;
  call.arguments = call.outputs = {op::in_one_chunk({4, 4}, testing::DType::float64)};
  Shuffled shuffled(call, arguments);
  shuffled.task(bad, {tiles::read(shuffled.argument(0)(0, 0)), tiles::write(shuffled.result(0)(0, 0))});
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(&failures);
    shuffled.run(/*seed=*/1);
  }
  ASSERT_EQ(failures.size(), 1);
  EXPECT_NE(std::string_view(failures.GetTestPartResult(0).message()).find("bad changes what it only reads"),
            std::string_view::npos);
}

}  // namespace
}  // namespace quarry
