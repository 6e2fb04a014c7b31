// Which ranks multiply, and what they receive for that: the model beside what lowering fetches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/plan_owners.h"
#include "quarry/chunked/exec/product_places.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/local.h"
#include "tests/support/memory_dataset.h"

namespace quarry {
namespace {

using exec::ProductPlaces;
using local::DType;

struct Product {
  plan::Plan plan;
  Ownership owners;
  const plan::Stage* stage = nullptr;
  const plan::MatMul& work() const { return std::get<plan::MatMul>(stage->work); }
  ProductPlaces places() const { return {*stage, owners, work().ranks}; }
};

// m x k times k x n in chunks of 8 x 8, which are tiles.
std::unique_ptr<Product> product_of(int64_t m, int64_t k, int64_t n, const Ownership& owners,
                                    const exec::OwnerOptions& options = {}) {
  const ChunkPolicyScope small({local::DeviceKind::cpu, {}, /*target_bytes=*/512});
  const auto data = [](const char* name, int64_t rows, int64_t columns) {
    return Array(expr::source(
                     std::make_shared<testing::MemoryDataset>(name, Dims{rows, columns}, DType::float64, Dims{8, 8})))
        .rechunk({8, 8});
  };
  auto product = std::make_unique<Product>();
  product->owners = owners;
  product->plan = plan::make_plan({matmul(data("/a", m, k), data("/b", k, n)).node()}, {});
  exec::settle_owners(product->plan, owners, options);
  for (const plan::Stage& stage : product->plan.stages)
    if (std::holds_alternative<plan::MatMul>(stage.work)) product->stage = &stage;
  return product;
}

double modelled_bytes(const Product& product) {
  const ProductPlaces places = product.places();
  return places.received_bytes(places.owners_of_operand(product.work().a, 0),
                               places.owners_of_operand(product.work().b, 1));
}
// Of all ranks; `most`: of the one that receives the most.
double fetched_bytes(const Product& product, double* most = nullptr) {
  exec::Sink sink;
  sink.array = product.plan.results[0];
  double all = 0;
  for (int rank = 0; rank < product.owners.ranks(); ++rank) {
    exec::LoweringContext context;
    context.rank = rank;
    context.owners = product.owners;
    const auto lowered = exec::lower(product.plan, {sink}, context);
    double bytes = 0;
    for (int64_t i = 0; lowered->fetches != nullptr && i < lowered->fetches->size(); ++i)
      bytes += static_cast<double>(lowered->graph.block((*lowered->fetches)[i].block).bytes);
    all += bytes;
    if (most != nullptr) *most = std::max(*most, bytes);
  }
  return all;
}

TEST(ProductPlaces, RanksReceiveWhatTheModelSays) {
  for (const int ranks : {2, 4, 6, 7, 8, 12, 16, 32}) {
    for (const int layers : {0, 2, 3, 4, 8}) {
      for (const auto& [m, k, n] :
           {std::tuple(128, 128, 128), std::tuple(93, 250, 61), std::tuple(130, 24, 200), std::tuple(20, 700, 30)}) {
        SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << layers << " layers, " << m << " " << k << " " << n);
        const auto product = product_of(m, k, n, Ownership(ranks), {.product_layers = layers});
        const plan::MatMul::Ranks& on = product->work().ranks;
        EXPECT_TRUE(layers == 0 || on.layers == 1 || on.layers == layers);
        if (on.rows == 0) continue;
        EXPECT_LE(on.rows * on.columns * on.layers, ranks);
        EXPECT_DOUBLE_EQ(fetched_bytes(*product), modelled_bytes(*product));
      }
    }
  }
}

// Of square matrices layers are chosen from eight ranks on, and as many receive less as the formula says.
TEST(ProductPlaces, LayersAreChosenWhereRanksReceiveMuchLess) {
  for (const auto& [ranks, layers] : {std::pair(1, 1), {2, 1}, {4, 1}, {6, 1}, {8, 2}, {16, 2}, {32, 2}, {64, 4}}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    constexpr int64_t n = 256;
    const auto chosen = product_of(n, n, n, Ownership(ranks));
    const plan::MatMul::Ranks& on = chosen->work().ranks;
    EXPECT_EQ(on.layers, layers);
    EXPECT_EQ(on.rows * on.columns * on.layers, ranks);
    const std::string text = plan::describe(chosen->plan);
    const std::string said = fmt::format("on {} x {} x {} ranks", on.rows, on.columns, on.layers);
    EXPECT_EQ(text.find(said) != std::string::npos, ranks > 1) << text;
    if (layers == 1) continue;
    // Beside what is there already, a 1 / ranks of it.
    const double p = ranks, c = layers, elements = 8. * n * n, there = 1 - 1 / p;
    const double by_formula = elements * p * (there * (1 / (on.rows * c) + 1 / (on.columns * c)) + (c - 1) / p);
    double most = 0;
    const double all = fetched_bytes(*chosen, &most);
    EXPECT_NEAR(all / by_formula, 1, 0.05);
    EXPECT_LT(most, 1.25 * all / p);  // sums too are dealt out evenly
    // By tiles, which a budget asks for that has no room for the sums.
    const auto tiles = product_of(n, n, n, Ownership(ranks), {.memory_bytes = 8 * n * n / ranks});
    EXPECT_EQ(tiles->work().ranks.layers, 1);
    EXPECT_LT(all, 0.9 * fetched_bytes(*tiles));
  }
}

// A large matrix stays where it is, and what it is multiplied by goes to all ranks.
TEST(ProductPlaces, NarrowProductsAreWhereTheMatrixIs) {
  constexpr int64_t kLong = 256, kShort = 8, kNarrow = kLong * kShort * 8;
  for (const int ranks : {2, 4, 7, 16}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    const auto product = product_of(kLong, kLong, kShort, Ownership(ranks));
    EXPECT_FALSE(product->work().ranks.along_k);
    EXPECT_EQ(product->stage->owners, Owners::blocks());
    EXPECT_LE(fetched_bytes(*product), ranks * kNarrow + (ranks - 1) * kNarrow);  // and chunks of rows that are shared
  }
  // Fewer tiles than ranks.
  EXPECT_NE(product_of(16, 4096, kShort, Ownership(8))->stage->owners, Owners::blocks());
}

TEST(ProductPlaces, ASingleTileIsWhereOtherArraysOfOneChunkAre) {
  for (const int ranks : {2, 4, 7}) {
    const auto product = product_of(8, 8, 8, Ownership(ranks));
    EXPECT_EQ(product->stage->owners, Owners::blocks());
    EXPECT_EQ(fetched_bytes(*product), 0) << ranks;
  }
}

TEST(ProductPlaces, LayersAreNotChosenWhereTheyDoNotFit) {
  const auto layers = [](const auto&... args) { return product_of(args...)->work().ranks.layers; };
  // Flat: sums are more than operands.
  EXPECT_EQ(layers(512, 16, 512, Ownership(16)), 1);
  // One chunk of k.
  EXPECT_EQ(layers(512, 8, 512, Ownership(16)), 1);
  // Ranks of unequal weights.
  const std::vector<int64_t> weights{1, 2, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(layers(512, 512, 512, Ownership(weights)), 1);
  // Sums of few tiles are along k.
  EXPECT_TRUE(product_of(16, 4096, 16, Ownership(8))->work().ranks.along_k);
  // But where layers receive less than that.
  EXPECT_FALSE(product_of(128, 128, 8, Ownership(16))->work().ranks.along_k);
  // More ranks than tiles, and than chunks.
  for (const int ranks : {5, 9, 100}) {
    const auto product = product_of(24, 24, 24, Ownership(ranks));
    if (product->work().ranks.rows > 0) {
      EXPECT_EQ(fetched_bytes(*product), modelled_bytes(*product)) << ranks << " ranks";
    }
  }
}

// A sum is made where one of its two parts is; the whole tile's where the tile is.
TEST(ProductPlaces, SumsMeetOnTheTilesOwner) {
  for (const int ranks : {6, 8, 16}) {
    for (const int layers : {2, 3, 4}) {
      for (const int64_t k : {40, 96, 1000}) {
        const auto product = product_of(100, k, 90, Ownership(ranks), {.product_layers = layers});
        const ProductPlaces places = product->places();
        const Grid& tiles = product->stage->outputs[0].grid;
        const Tree& tree = places.tree();
        std::vector<OwnedChunks> of_ranks;
        for (int rank = 0; rank < ranks; ++rank) of_ranks.push_back(places.tiles_of(rank));
        for (int64_t tile = 0; tile < tiles.count(); ++tile) {
          EXPECT_EQ(places.home(tile, tree.levels(), 0), product->owners.owner(product->stage->owners, tiles, tile));
          for (int64_t segment = 0; segment < tree.segments(); ++segment) {
            const int home = places.home(tile, 0, segment);
            EXPECT_GE(of_ranks[static_cast<size_t>(home)].index_of(tile), 0);
          }
          for (int level = 1; level <= tree.levels(); ++level) {
            for (int64_t node = 0; 2 * node + 1 < tree.nodes(level - 1); ++node) {
              const int home = places.home(tile, level, node);
              EXPECT_TRUE(home == places.home(tile, level - 1, 2 * node) ||
                          home == places.home(tile, level - 1, 2 * node + 1));
            }
          }
        }
      }
    }
  }
}

// Tile by tile, where the sums of all tiles have no room: in bands, for which the other operand is read once each.
TEST(ProductPlaces, BandsOfTilesReadAnOperandFewTimes) {
  constexpr int64_t n = 512, kOperand = n * n * 8;
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "1MiB";  // of which a band takes a half, four of 16 rows of tiles
  options.threads = 1;
  const Runtime runtime(options);
  const ChunkPolicyScope small({local::DeviceKind::cpu, {}, /*target_bytes=*/8192});
  const auto stored = [](double first) {
    return (reshape(arange(n * n).astype(DType::float64), {n, n}) + first).rechunk({32, 32}).persist();
  };
  const Array a = stored(0), b = stored(1), product = matmul(a, b);
  ASSERT_EQ(product.chunks().count(), 256);
  const int64_t before = runtime.statistics().restored_bytes;
  const Array result = product.persist();
  const int64_t restored = runtime.statistics().restored_bytes - before;
  EXPECT_LT(restored, 6 * kOperand);  // both once, and the other one for three more bands; row by row 11 times
  const local::NdArray x = local::reshape(local::arange(n * n).astype(DType::float64), {n, n});
  const local::NdArray row = result[{int64_t{100}}].to_host();
  EXPECT_TRUE(local::all(row == local::matmul(x(100), x + 1.)).item<bool>());
}

}  // namespace
}  // namespace quarry
