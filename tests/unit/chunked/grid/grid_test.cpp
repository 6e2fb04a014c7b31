#include "quarry/chunked/grid/grid.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/error.h"

namespace quarry {
namespace {

TEST(AxisChunks, RegularWithAShorterLast) {
  const AxisChunks axis(10, 4);
  EXPECT_EQ(axis.count(), 3);
  EXPECT_EQ(axis.start(2), 8);
  EXPECT_EQ(axis.size(2), 2);
  EXPECT_EQ(axis.start(3), 10);
  EXPECT_EQ(axis.largest(), 4);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(axis.find(i), i / 4);
}

TEST(AxisChunks, EmptyAxisHasOneEmptyChunk) {
  const AxisChunks axis(0, 5);
  EXPECT_EQ(axis.count(), 1);
  EXPECT_EQ(axis.size(0), 0);
  EXPECT_EQ(axis.largest(), 0);
  EXPECT_EQ(axis, AxisChunks(std::vector<int64_t>{}));
}

TEST(AxisChunks, ExplicitExtents) {
  const AxisChunks axis(std::vector<int64_t>{3, 5, 2});
  EXPECT_EQ(axis.extent(), 10);
  EXPECT_EQ(axis.count(), 3);
  EXPECT_EQ(axis.find(2), 0);
  EXPECT_EQ(axis.find(3), 1);
  EXPECT_EQ(axis.find(7), 1);
  EXPECT_EQ(axis.find(8), 2);
  EXPECT_EQ(axis.largest(), 5);
}

TEST(AxisChunks, RegularExtentsCompareEqualHoweverSpelled) {
  EXPECT_EQ(AxisChunks(std::vector<int64_t>{4, 4, 2}), AxisChunks(10, 4));
  EXPECT_EQ(AxisChunks(std::vector<int64_t>{7}), AxisChunks(7, 100));
  EXPECT_FALSE(AxisChunks(std::vector<int64_t>{2, 4, 4}) == AxisChunks(10, 4));
}

TEST(AxisChunks, BeyondThirtyTwoBits) {
  const AxisChunks axis(int64_t{1} << 40, 3);
  EXPECT_EQ(axis.find((int64_t{1} << 40) - 1), axis.count() - 1);
  EXPECT_EQ(axis.start(axis.count()), int64_t{1} << 40);
}

TEST(AxisChunks, RefusesNonsense) {
  EXPECT_THROW(AxisChunks(-1, 1), local::InvalidArgument);
  EXPECT_THROW(AxisChunks(3, 0), local::InvalidArgument);
}

TEST(Grid, ChunksInCOrder) {
  const Grid grid = Grid::regular({5, 4}, {2, 3});
  EXPECT_EQ(grid.count(), 6);
  EXPECT_EQ(grid.counts(), (Dims{3, 2}));
  EXPECT_EQ(grid.chunk(3), Region::box({2, 3}, {2, 1}));
  EXPECT_EQ(grid.largest(), (Dims{2, 3}));
  for (int64_t i = 0; i < grid.count(); ++i) EXPECT_EQ(grid.flat(grid.coordinates(i)), i);
}

TEST(Grid, ShapesOfChunks) {
  const Grid grid(std::vector<AxisChunks>{AxisChunks(10, 4), AxisChunks(std::vector<int64_t>{3, 1, 3})});
  for (int64_t i = 0; i < grid.count(); ++i) {
    EXPECT_EQ(grid.chunk_shape(i), grid.chunk(i).count);
    EXPECT_EQ(grid.chunk_elements(i), grid.chunk(i).elements());
    for (int64_t j = 0; j < grid.count(); ++j) {
      EXPECT_EQ(grid.same_shape(i, j), grid.chunk(i).count == grid.chunk(j).count) << i << ' ' << j;
    }
  }
  const Grid empty = Grid::regular(Dims{5, 0}, Dims{2, 1});
  EXPECT_EQ(empty.count(), 3);
  EXPECT_EQ(empty.chunk_elements(1), 0);
  EXPECT_TRUE(empty.same_shape(0, 1));
  EXPECT_FALSE(empty.same_shape(1, 2));
}

TEST(Grid, ScalarIsOneChunk) {
  const Grid grid;
  EXPECT_EQ(grid.count(), 1);
  EXPECT_EQ(grid.chunk(0).elements(), 1);
  EXPECT_EQ(grid.to_string(), "()");
}

TEST(Grid, TextIsShortened) {
  EXPECT_EQ(Grid::regular({10, 3}, {4, 3}).to_string(), "((4, 4, 2), (3,))");
  EXPECT_EQ(Grid::regular({100}, {4}).to_string(), "((4, 4, 4, 4, ..., 4, 4, 4, 4),)");
}

TEST(AutoChunk, WholeRowsWhereContiguous) {
  EXPECT_EQ(auto_chunk({1 << 20, 512}, 8, std::nullopt, kCpuChunkBytes), (Dims{4096, 512}));
  EXPECT_EQ(auto_chunk({100, 100}, 8, std::nullopt, kCpuChunkBytes), (Dims{100, 100}));
  EXPECT_EQ(auto_chunk({10, int64_t{1} << 30}, 8, std::nullopt, kCpuChunkBytes), (Dims{1, 1 << 21}));
  EXPECT_EQ(auto_chunk({}, 8, std::nullopt, kCpuChunkBytes), Dims{});
  EXPECT_EQ(auto_chunk({0, 5}, 8, std::nullopt, kCpuChunkBytes), (Dims{1, 5}));
}

TEST(AutoChunk, MultiplesOfTheFilesChunks) {
  EXPECT_EQ(auto_chunk({524288, 512}, 8, Dims{8192, 64}, kCpuChunkBytes), (Dims{8192, 256}));
  EXPECT_EQ(auto_chunk({100000, 100000}, 8, Dims{64, 64}, kCpuChunkBytes), (Dims{1024, 2048}));
  // A file chunk beyond the target stays whole.
  EXPECT_EQ(auto_chunk({100000, 100000}, 8, Dims{10000, 1000}, kCpuChunkBytes), (Dims{10000, 1000}));
}

TEST(LimitedGrid, KeepsOldCutsAndFileChunks) {
  const Grid grid = Grid::regular({8192, 256}, {8192, 256});
  EXPECT_EQ(limited_grid(grid, 8, 8 << 20).largest(), (Dims{4096, 256}));
  EXPECT_EQ(limited_grid(grid, 8, 8 << 20, {8192, 64}).largest(), (Dims{8192, 128}));
  EXPECT_EQ(limited_grid(grid, 8, 1 << 20, {8192, 64}).largest(), (Dims{2048, 64}));
  EXPECT_EQ(limited_grid(Grid::single({1, 1}), 8, 1).count(), 1);
}

TEST(MatMulTile, OneLongAxisTakesWhatIsLeft) {
  const MatMulTile gram = matmul_tile(512, 524288, 512, 8, kCpuChunkBytes, 0, 8192);
  EXPECT_EQ(gram.m, 512);
  EXPECT_EQ(gram.k, 4096);
  const MatMulTile tall = matmul_tile(524288, 512, 5, 8, kCpuChunkBytes, 8192);
  EXPECT_EQ(tall.m, 4096);
  EXPECT_EQ(tall.k, 512);
  EXPECT_EQ(tall.n, 5);
  const MatMulTile square = matmul_tile(100000, 100000, 100000, 8, kCpuChunkBytes);
  EXPECT_EQ(square.m, 1024);
  EXPECT_EQ(square.n, 1024);
}

TEST(MatMulTile, OneLargeOperandIsReadInItsChunks) {
  constexpr int64_t kLong = 100'000, kTarget = kCpuChunkBytes;
  const MatMulChunks rows{20, kLong}, columns{kLong, 20}, none{};
  const auto expect = [](const std::optional<MatMulTile>& tile, int64_t m, int64_t k, int64_t n) {
    ASSERT_TRUE(tile);
    EXPECT_EQ(tile->m, m);
    EXPECT_EQ(tile->k, k);
    EXPECT_EQ(tile->n, n);
  };
  expect(matmul_tile_of_chunks(kLong, kLong, 60, 8, kTarget, rows, {2000, 60}), 20, kLong, 60);
  expect(matmul_tile_of_chunks(kLong, kLong, 60, 8, kTarget, columns, none), kLong, 20, 60);
  expect(matmul_tile_of_chunks(60, kLong, kLong, 8, kTarget, none, rows), 60, 20, kLong);
  expect(matmul_tile_of_chunks(kLong, kLong, 1, 8, kTarget, {1000, 1000}, none), 1000, 1000, 1);
  // Two large ones or none; small chunks, large ones, none; a long piece of the small operand beside each.
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{kLong, kLong, kLong}, {kLong, 100, 60}, {60, kLong, 60}})
    EXPECT_FALSE(matmul_tile_of_chunks(m, k, n, 8, kTarget, rows, rows)) << m << ' ' << k << ' ' << n;
  for (const MatMulChunks& chunks : {MatMulChunks{2, kLong}, {100, kLong}, none})
    EXPECT_FALSE(matmul_tile_of_chunks(kLong, kLong, 60, 8, kTarget, chunks, none)) << chunks.rows;
  EXPECT_FALSE(matmul_tile_of_chunks(kLong, kLong, 600, 8, kTarget, rows, none));
}

TEST(MatMulTile, OnGpusCutsAreFollowedWhereTheyAreMultiplesOfAUnit) {
  constexpr int64_t kN = 24576, kTarget = 64 << 20;
  const int64_t unit = matmul_unit(local::DeviceKind::cuda);
  for (const auto& [hint, expected] : {std::pair<int64_t, int64_t>{341, 2048},
                                       {0, 2048},
                                       {256, 2048},
                                       {3000, 2048},
                                       {640, 1920},
                                       {6144, 2048},
                                       {24576, 2048}}) {
    const MatMulTile tile = matmul_tile(kN, kN, kN, 8, kTarget, hint, hint, unit);
    EXPECT_EQ(tile.m, expected) << hint;
    EXPECT_EQ(tile.k, expected) << hint;
    EXPECT_EQ(tile.n, 2048) << hint;
  }
  EXPECT_EQ(matmul_tile(kN, kN, kN, 8, kTarget, 341, 341).k, 2046);
  EXPECT_EQ(matmul_unit(local::DeviceKind::cpu), 1);
}

}  // namespace
}  // namespace quarry
