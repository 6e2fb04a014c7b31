// The global order of tasks: what is computed twice on purpose runs when it is wanted.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/lowering/order.h"
#include "quarry/chunked/exec/plan_owners.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/local.h"
#include "tests/support/memory_dataset.h"
#include "tests/support/random_expressions.h"

namespace quarry {
namespace {

using local::Slice;

// The most bytes that exist at a time when the tasks of a plan run one by one in order; kept blocks do not count, nor
// the results of tasks of the kinds in `but`.
int64_t most_bytes(const Array& result, std::initializer_list<scheduler::TaskKind> but = {}) {
  const plan::Plan plan = plan::make_plan({result.node()}, {});
  exec::Sink sink;
  sink.array = plan.results[0];
  const auto lowered = exec::lower(plan, {sink}, {});
  const scheduler::Graph& graph = lowered->graph;
  std::vector<int64_t> readers(static_cast<size_t>(graph.block_count()));
  const std::vector<scheduler::TaskId> order = graph.admission_order();
  for (const int64_t task : order)
    for (const scheduler::BlockId block : graph.inputs(graph.task(task))) ++readers[static_cast<size_t>(block)];
  const auto bytes = [&](scheduler::BlockId id) {
    const scheduler::Graph::Block& block = graph.block(id);
    const bool left_out =
        block.producer >= 0 && std::ranges::find(but, graph.task(block.producer).kind) != std::end(but);
    return block.keep || left_out ? 0 : block.bytes;
  };
  int64_t held = 0, most = 0;
  for (const int64_t task : order) {
    for (const scheduler::BlockId block : graph.outputs(graph.task(task))) held += bytes(block);
    most = std::max(most, held);
    for (const scheduler::BlockId block : graph.inputs(graph.task(task)))
      if (--readers[static_cast<size_t>(block)] == 0) held -= bytes(block);
  }
  return most;
}

// On the CPU what every rank has is copied by the threads that compute: a short run wakes no other for it.
TEST(LoweringQueues, HostValuesAreCopiedByWhoUsesThem) {
  const Array x = Array::from_local(local::arange(6.)) * Array::from_local(local::from_vector<double>({3}));
  const plan::Plan plan = plan::make_plan({x.node()}, {});
  exec::Sink sink;
  sink.array = plan.results[0];
  for (const local::DeviceKind kind : {local::DeviceKind::cpu, local::DeviceKind::emulated}) {
    exec::LoweringContext context;
    context.device = {kind, 0};
    const auto lowered = exec::lower(plan, {sink}, context);
    int copies = 0;
    for (scheduler::TaskId id = 0; id < lowered->graph.task_count(); ++id) {
      const scheduler::Graph::Task& task = lowered->graph.task(id);
      if (task.kind != scheduler::TaskKind::copy) continue;
      ++copies;
      EXPECT_EQ(task.queue, kind == local::DeviceKind::cpu ? scheduler::QueueKind::compute : scheduler::QueueKind::io);
    }
    EXPECT_EQ(copies, 2);
  }
}

TEST(LoweringOrder, OperandsOfALateProductRunLate) {
  const Array x(
      expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{524288, 512}, DType::float64, Dims{8192, 64})));
  const Array z = (x - mean(x, 0)) / std(x, 0);
  const Array vectors = linalg::eigh(matmul(z.T(), z)).eigenvectors;
  const Array scores = matmul(z, vectors);
  EXPECT_LT(most_bytes(scores), int64_t{256} << 20) << "of 2 GiB of data";
}

// A tree over 64 segments, walked depth-first: six sums of finished nodes, and the one that a task adds to with the one
// that it makes. Walked level by level, there would be 64.
TEST(LoweringOrder, SumsOfProductsAreAddedAsSoonAsTheyAreThere) {
  constexpr int64_t kTile = 256 * 256 * 8;
  for (const int64_t chunks : {64, 100, 1000}) {
    const Array x(expr::source(
        std::make_shared<testing::MemoryDataset>("/x", Dims{128 * chunks, 256}, DType::float64, Dims{128, 256})));
    const Array w = x.rechunk(Dims{128, 256});
    for (const Array& product : {matmul(w.T(), w), matmul(w.T(), w + 1.)}) {
      const int64_t most = most_bytes(product, {scheduler::TaskKind::read});
      EXPECT_LE(most, 8 * kTile + 2 * 4 * 128 * 256 * 8) << chunks << " chunks";
      EXPECT_GE(most, 2 * kTile);
    }
  }
}

// Also where all that is multiplied is there before, so that no chunk comes later than another one.
TEST(LoweringOrder, SumsOfFinishedOperandsToo) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "256MiB";
  options.threads = 1;
  const Runtime runtime(options);
  constexpr int64_t kTile = 256 * 256 * 8;
  const Array a = zeros({512, 6400}).rechunk(Dims{128, 100}).persist().rechunk(Dims{128, 100});
  const Array b = zeros({6400, 512}).rechunk(Dims{100, 128}).persist().rechunk(Dims{100, 128});
  const plan::Plan plan = plan::make_plan({matmul(a, b).node()}, {});
  EXPECT_EQ(plan.stages.back().outputs[0].grid.count(), 4);
  EXPECT_LE(most_bytes(matmul(a, b)), 8 * kTile);
}

TEST(LoweringOrder, StatesOfLongReductionsAreMergedAsSoonAsTheyAreThere) {
  constexpr int64_t kState = 4096 * 8;
  for (const int64_t chunks : {64, 100, 1000}) {
    const Array x(expr::source(
        std::make_shared<testing::MemoryDataset>("/x", Dims{16 * chunks, 4096}, DType::float64, Dims{16, 4096})));
    const Array rows = x.rechunk(Dims{16, 4096});
    // Six nodes, a segment's states and the leaves that a task merges into it.
    EXPECT_LE(most_bytes(sum(rows, 0), {scheduler::TaskKind::read}), (6 + 2 + 9) * kState) << chunks << " chunks";
    // Of chunks that wait for others of their phase.
    EXPECT_LE(most_bytes(sum(rows.rechunk(Dims{8, 4096}) * 2., 0), {scheduler::TaskKind::read}),
              (6 + 2 + 9) * kState + 4 * 16 * kState)
        << chunks << " chunks";
  }
}

// A plan, and what it is on each of some ranks.
struct Job {
  plan::Plan plan;
  std::vector<std::unique_ptr<exec::Lowered>> ranks;
};
std::unique_ptr<Job> job_of(const std::vector<Array>& results, int ranks, int layers = 0) {
  std::vector<expr::NodePtr> nodes;
  for (const Array& result : results) nodes.push_back(result.node());
  auto job = std::make_unique<Job>();
  job->plan = plan::make_plan(nodes, {});
  const Ownership owners(ranks);
  exec::settle_owners(job->plan, owners, {.product_layers = layers});
  std::vector<exec::Sink> sinks;
  for (const plan::ArrayRef& result : job->plan.results) {
    if (result.kind != plan::ArrayRef::Kind::stage) continue;
    sinks.emplace_back();
    sinks.back().array = result;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    exec::LoweringContext context;
    context.rank = rank;
    context.owners = owners;
    job->ranks.push_back(exec::lower(job->plan, sinks, context));
  }
  return job;
}

// How many ranks fetch a chunk from one rank, at most, and from any: of what products make, or of what others do.
std::pair<int, int> readers_of_chunks(const Job& job, bool of_products) {
  std::map<std::tuple<uint32_t, uint32_t, int64_t, int>, int> sent;
  std::map<std::tuple<uint32_t, uint32_t, int64_t>, int> read;
  for (const auto& lowered : job.ranks) {
    for (int64_t i = 0; lowered->fetches != nullptr && i < lowered->fetches->size(); ++i) {
      const exec::PartTable::Part& part = (*lowered->fetches)[i];
      if (std::holds_alternative<plan::MatMul>(job.plan.stages[part.key.stage].work) != of_products) continue;
      ++sent[{part.key.stage, part.key.part, part.key.chunk, part.owner}];
      ++read[{part.key.stage, part.key.part, part.key.chunk}];
    }
  }
  const auto most = [](const auto& counts) {
    int count = 0;
    for (const auto& [key, of_key] : counts) count = std::max(count, of_key);
    return count;
  };
  return {most(sent), most(read)};
}

// The tasks of all ranks, one at a time on each, in each one's order: what a rank of the least budget may be left with.
// Returns where ranks stand still, each waiting for a block of another one that is not made yet; empty: nowhere.
std::string standstill(const std::vector<Array>& results, int ranks, int layers = 0) {
  const std::unique_ptr<Job> job = job_of(results, ranks, layers);
  struct Rank {
    const exec::Lowered* lowered = nullptr;
    std::vector<scheduler::TaskId> order;
    size_t next = 0;
    std::vector<int64_t> part_of;  // by block: the part that a receive brings, or -1
    std::vector<bool> made;
  };
  std::vector<Rank> all(static_cast<size_t>(ranks));
  for (size_t r = 0; r < all.size(); ++r) {
    Rank& rank = all[r];
    rank.lowered = job->ranks[r].get();
    rank.order = rank.lowered->graph.admission_order();
    const auto blocks = static_cast<size_t>(rank.lowered->graph.block_count());
    rank.made.resize(blocks);
    rank.part_of.resize(blocks, -1);
    const exec::PartTable* parts = rank.lowered->fetches;
    for (int64_t i = 0; parts != nullptr && i < parts->size(); ++i)
      rank.part_of[static_cast<size_t>((*parts)[i].block)] = i;
  }
  const auto is_there = [&](const Rank& rank, scheduler::BlockId output) {
    const int64_t number = rank.part_of[static_cast<size_t>(output)];
    if (number < 0) return true;
    const exec::PartTable::Part& part = (*rank.lowered->fetches)[number];
    const Rank& owner = all[static_cast<size_t>(part.owner)];
    const auto block = owner.lowered->blocks.find(part.key);
    if (!block.has_value()) return false;
    return owner.lowered->graph.block(*block).stored >= 0 || owner.made[static_cast<size_t>(*block)];
  };
  for (bool moves = true; moves;) {
    moves = false;
    for (Rank& rank : all) {
      for (; rank.next < rank.order.size(); ++rank.next, moves = true) {
        const scheduler::Graph& graph = rank.lowered->graph;
        const auto outputs = graph.outputs(graph.task(rank.order[rank.next]));
        if (!std::ranges::all_of(outputs, [&](scheduler::BlockId block) { return is_there(rank, block); })) break;
        for (const scheduler::BlockId block : outputs) rank.made[static_cast<size_t>(block)] = true;
      }
    }
  }
  std::string text;
  for (const Rank& rank : all) {
    if (rank.next < rank.order.size()) text += "next: " + rank.lowered->graph.task_name(rank.order[rank.next]) + "\n";
  }
  return text.empty() ? text : text + plan::describe(job->plan);
}

Array data(int64_t rows, int64_t columns, Dims chunk) {
  return Array(expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{rows, columns}, DType::float64, chunk)))
      .rechunk(chunk);
}

// With few tiles, ranks where b's rows are sum a product's parts, and its tiles' owners receive the sums, which others
// may then come for: a tile's owner may need nothing of it itself.
TEST(LoweringOrder, OneTaskAtATimeReachesTheEndOfProducts) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int64_t k : {1, 3, 9, 200}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(k) + " chunks of k");
      const Array a = data(3, k, Dims{1, 1}), b = data(k, 3, Dims{1, 3}).rechunk(Dims{1, 3});
      const Array product = matmul(a, b);
      EXPECT_EQ(standstill({product}, ranks), "");
      EXPECT_EQ(standstill({matmul(product, product)}, ranks), "");
      EXPECT_EQ(standstill({matmul(a.rechunk(Dims{1, 1}), matmul(b, product))}, ranks), "");
      EXPECT_EQ(standstill({matmul(b.T(), b), sum(product, 0), product + 1.}, ranks), "");
    }
    // Others want a tile before its owner does, in a later phase.
    const Array tiles = matmul(data(7, 5, Dims{1, 1}), data(5, 2, Dims{1, 1}));
    const Array layers = expand_dims(tiles.T(), 1) * expand_dims(data(3, 7, Dims{1, 1}), 0);
    EXPECT_EQ(standstill({layers}, ranks), "");
    EXPECT_EQ(standstill({tiles.T() * tiles.T(), layers}, ranks), "");
    const Array square = data(3, 3, Dims{1, 3});
    const Array second = matmul(square, square);
    EXPECT_EQ(standstill({matmul(square, matmul(second, second))}, ranks), "");
  }
}

// Tiles that ranks pass on: versions, and chunks of arguments that several programs read.
TEST(LoweringOrder, OneTaskAtATimeReachesTheEndOfTilePrograms) {
  const ChunkPolicyScope small({local::DeviceKind::cpu, {}, /*target_bytes=*/512});
  for (const int ranks : {2, 4, 5, 6, 7, 8, 13, 40}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const Array a = data(61, 61, Dims{20, 20}), b = data(61, 30, Dims{20, 20});
    const Array l = linalg::cholesky(a), x = linalg::solve_triangular(l, b, 0, /*lower=*/true);
    EXPECT_EQ(standstill({l}, ranks), "");
    EXPECT_EQ(standstill({x}, ranks), "");
    EXPECT_EQ(standstill({l, x, linalg::solve_triangular(l, x, 2, /*lower=*/true)}, ranks), "");
    EXPECT_EQ(standstill({matmul(l, x), linalg::solve_triangular(l, b + 1., 0, /*lower=*/true)}, ranks), "");
    const auto [q, r] = linalg::qr(a);
    EXPECT_EQ(standstill({q, r}, ranks), "");
    EXPECT_EQ(standstill({linalg::solve(a, b), linalg::inv(a), l}, ranks), "");
  }
}

// Chunks of operands that the ranks with tiles of a row, or column, pass on; also where other stages want them sooner.
TEST(LoweringOrder, OneTaskAtATimeReachesTheEndOfPassedOnOperands) {
  const ChunkPolicyScope small({local::DeviceKind::cpu, {}, /*target_bytes=*/512});
  const Array x = data(61, 61, Dims{8, 8}), made = matmul(x, x), other = matmul(x + 1., x);
  const Array l = linalg::cholesky(made);
  for (const int ranks : {4, 5, 6, 8, 13, 21}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const Array product = matmul(made, other);
    EXPECT_EQ(standstill({product}, ranks), "");
    EXPECT_EQ(standstill({matmul(made, made)}, ranks), "");
    EXPECT_EQ(standstill({matmul(made.T(), other), sum(made, 0), other + 1.}, ranks), "");
    EXPECT_EQ(standstill({product, matmul(other, made), matmul(product, made.T())}, ranks), "");
    EXPECT_EQ(standstill({made - mean(made, 0), other[{Slice{3, 50, 2}}] * 2., matmul(other, other)}, ranks), "");
    EXPECT_EQ(standstill({l, matmul(l, made), linalg::solve_triangular(l, made, 0, /*lower=*/true)}, ranks), "");
    const auto [sent, read] = readers_of_chunks(*job_of({product}, ranks), /*of_products=*/true);
    if (ranks > 4) {
      EXPECT_LE(sent, 2);
      EXPECT_GE(read, ranks >= 8 ? 3 : 1);  // by rows and columns of ranks
    }
  }
}

// Ranks in layers, each of which sums a part of k: their sums meet at the end.
TEST(LoweringOrder, OneTaskAtATimeReachesTheEndOfLayers) {
  const ChunkPolicyScope small({local::DeviceKind::cpu, {}, /*target_bytes=*/512});
  const Array x = data(61, 61, Dims{8, 8}), made = matmul(x, x), other = matmul(x + 1., x);
  for (const int ranks : {2, 4, 6, 8, 12, 16}) {
    for (const int layers : {2, 3, 4, 6, 8}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(layers) + " layers");
      EXPECT_EQ(standstill({made}, ranks, layers), "");
      EXPECT_EQ(standstill({matmul(made, other)}, ranks, layers), "");
      EXPECT_EQ(standstill({matmul(made.T(), other), sum(made, 0), other + 1.}, ranks, layers), "");
      EXPECT_EQ(standstill({matmul(made, other), matmul(other, made.T()), matmul(x * 2., x)}, ranks, layers), "");
    }
  }
  const auto [sent, read] = readers_of_chunks(*job_of({matmul(made, other)}, 16, 2), /*of_products=*/true);
  EXPECT_LE(sent, 2);
  EXPECT_GE(read, 2);
}

// What is made in the product's own phase is not passed on.
TEST(LoweringOrder, OperandsOfTheSamePhaseComeFromTheirOwners) {
  const ChunkPolicyScope small({local::DeviceKind::cpu, {}, /*target_bytes=*/512});
  const Array x = data(61, 61, Dims{8, 8});
  EXPECT_EQ(standstill({matmul(x * 2., x + 1.)}, 13), "");
  EXPECT_GT(readers_of_chunks(*job_of({matmul(x * 2., x + 1.)}, 13), /*of_products=*/false).first, 2);
}

TEST(LoweringOrder, OneTaskAtATimeReachesTheEndOfRandomExpressions) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const testing::SmallChunks small(int64_t{1} << (5 + seed % 7));
    testing::Expressions expressions(seed);
    const std::vector<Array> results = expressions.grow(static_cast<int>(4 + seed % 30));
    for (const int ranks : {2, 4, 7}) {
      ASSERT_EQ(standstill(results, ranks), "") << "seed " << seed << ", " << ranks << " ranks";
    }
  }
}

// A plan of `count` stages, each of which reads the reduction before it.
plan::Plan chain_of_barriers(int count) {
  plan::Plan plan;
  for (int s = 0; s < count; ++s) {
    plan::Fused fused;
    const local::ValueId value = fused.program.input(DType::float64);
    fused.program.reduce("sum"_reduction, {&value, 1}, DType::float64);
    fused.reductions.push_back({0, 0, DType::float64});
    fused.reduce_axes = 1;
    plan::Input input{{}, plan::AccessMap::identity(1), DType::float64, Dims{8}, Grid::regular(Dims{8}, Dims{2})};
    if (s > 0) input = {{}, {{{}}, {}}, DType::float64, Dims{}, Grid::single({})};
    input.array.kind = s > 0 ? plan::ArrayRef::Kind::stage : plan::ArrayRef::Kind::stored;
    input.array.stage = s - 1;
    fused.inputs.push_back(std::move(input));
    plan.stages.push_back({std::move(fused),
                           "sum",
                           Dims{8},
                           Grid::regular(Dims{8}, Dims{2}),
                           {{Dims{}, DType::float64, Grid::single({})}}});
  }
  return plan;
}

TEST(LoweringOrder, HoldsForMorePhasesThanTenBitsCount) {
  constexpr int kStages = 5000;
  const plan::Plan plan = chain_of_barriers(kStages);
  exec::Order order(plan, {});
  int64_t last = -1;
  for (int s = 0; s < kStages; ++s) {
    for (const int64_t progress : {order.progress(s, 0), order.progress(s, 3), exec::kProgressEnd}) {
      const int64_t position = order.position(s, progress, exec::kMain);
      ASSERT_GT(position, last) << "stage " << s;
      ASSERT_GT(order.position(s, progress, exec::kSink), position);
      last = order.position(s, progress, exec::kSink);
    }
  }
}

TEST(LoweringOrder, RefusesMoreStagesThanAPositionHolds) {
  EXPECT_NO_THROW(exec::check_stage_count(static_cast<size_t>(exec::kMostStages)));
  EXPECT_THROW(exec::check_stage_count(static_cast<size_t>(exec::kMostStages) + 1), local::InvalidArgument);
}

TEST(LoweringOrder, AThousandBarriersRun) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "64MiB";
  options.threads = 2;
  Runtime runtime(options);
  constexpr int kBarriers = 1100;
  Array least = min(arange(4));
  for (int i = 0; i < kBarriers; ++i) least = min(arange(1, 5) + least);
  EXPECT_EQ(least.to_host().item<int64_t>(), kBarriers);
}

}  // namespace
}  // namespace quarry
