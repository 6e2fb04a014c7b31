#include "quarry/chunked/exec/access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace quarry::exec {
namespace {

plan::ArrayRef computed() {
  plan::ArrayRef array;
  array.stage = 0;
  return array;
}

Grid irregular() { return Grid({AxisChunks(std::vector<int64_t>{3, 1, 6}), AxisChunks(7, 4)}); }

// The flat element numbers of an array that a region names, in the region's C order.
std::vector<int64_t> elements(const Dims& shape, const Region& region) {
  const Dims strides = local::contiguous_strides(shape, 1);
  std::vector<int64_t> result;
  for (int64_t i = 0; i < region.elements(); ++i) {
    int64_t rest = i, flat = 0;
    for (int d = region.ndim() - 1; d >= 0; --d) {
      flat += (region.start[d] + rest % region.count[d] * region.step[d]) * strides[d];
      rest /= region.count[d];
    }
    result.push_back(flat);
  }
  return result;
}

Region random_region(std::mt19937& random, const Dims& shape) {
  Region region = Region::whole(shape);
  for (int d = 0; d < shape.size(); ++d) {
    const int64_t step = std::uniform_int_distribution<int64_t>(1, 3)(random) * (random() % 2 ? 1 : -1);
    const int64_t low = std::uniform_int_distribution<int64_t>(0, shape[d] - 1)(random);
    const int64_t high = std::uniform_int_distribution<int64_t>(low, shape[d] - 1)(random);
    region.count[d] = (high - low) / std::abs(step) + 1;
    region.start[d] = step > 0 ? low : low + (region.count[d] - 1) * -step;
    region.step[d] = step;
  }
  return region;
}

TEST(ChunkRegions, CoverARegionOnceAndStayInsideTheirChunks) {
  std::mt19937 random(7);
  const Grid grid = irregular();
  const Dims shape = grid.shape();
  for (int trial = 0; trial < 500; ++trial) {
    const Region region = random_region(random, shape);
    const std::vector<int64_t> expected = elements(shape, region);
    std::vector<int64_t> found(expected.size(), -1);
    const Dims strides = local::contiguous_strides(region.count, 1);
    for (const ChunkRegion& part : chunk_regions(grid, region)) {
      const Region chunk = grid.chunk(part.chunk);
      const std::vector<int64_t> inside = elements(shape, part.region);
      for (size_t i = 0; i < inside.size(); ++i) {
        int64_t rest = static_cast<int64_t>(i), at = 0;
        for (int d = 1; d >= 0; --d) {
          const int64_t local = rest % part.region.count[d];
          rest /= part.region.count[d];
          const int64_t position = part.region.start[d] + local * part.region.step[d];
          EXPECT_TRUE(position >= chunk.start[d] && position < chunk.start[d] + chunk.count[d]);
          at += (part.offset[d] + local) * strides[d];
        }
        EXPECT_EQ(found[static_cast<size_t>(at)], -1);
        found[static_cast<size_t>(at)] = inside[i];
      }
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(ChunkRegions, OfNothingAreNone) {
  EXPECT_TRUE(chunk_regions(irregular(), Region::box(Dims{2, 2}, Dims{0, 3})).empty());
  EXPECT_EQ(chunk_regions(Grid(), Region::whole(Dims{})).size(), 1u);  // 0-d
}

// Reads a region the way a task does: through offset and strides into the chunk, or into the packed box that arrived.
void expect_region(const Grid& grid, const Region& region, const Access& access) {
  const Region chunk = grid.chunk(access.chunk);
  Region layout = chunk;
  if (access.kind == Access::Kind::box) {
    for (int d = 0; d < 2; ++d) {
      EXPECT_LE(access.cover_start[d] + access.cover_count[d], chunk.count[d]);
      layout.start[d] = chunk.start[d] + access.cover_start[d];
      layout.count[d] = access.cover_count[d];
    }
  }
  const std::vector<int64_t> memory = elements(grid.shape(), layout);
  const std::vector<int64_t> expected = elements(grid.shape(), region);
  for (int64_t i = 0; i < region.count[0]; ++i)
    for (int64_t j = 0; j < region.count[1]; ++j) {
      const int64_t at = access.offset + i * access.strides[0] + j * access.strides[1];
      ASSERT_TRUE(at >= 0 && at < static_cast<int64_t>(memory.size()));
      EXPECT_EQ(memory[static_cast<size_t>(at)], expected[static_cast<size_t>(i * region.count[1] + j)]);
    }
}

TEST(Resolve, FindsEveryElementInOwnAndInReceivedChunks) {
  std::mt19937 random(11);
  const Grid grid = irregular();
  std::map<Access::Kind, int> seen;
  for (int trial = 0; trial < 2000; ++trial) {
    const Region region = random_region(random, grid.shape());
    const Access access = resolve(computed(), grid, 1, region, /*rank=*/0, Ownership(3));
    ++seen[access.kind];
    if (access.kind == Access::Kind::gather) {
      EXPECT_GT(chunk_regions(grid, region).size(), 1u);
      continue;
    }
    EXPECT_EQ(access.kind == Access::Kind::chunk, Ownership(3).owner(access.chunk, grid.count()) == 0);
    expect_region(grid, region, access);
  }
  EXPECT_GT(seen[Access::Kind::chunk], 50);
  EXPECT_GT(seen[Access::Kind::box], 50);
  EXPECT_GT(seen[Access::Kind::gather], 50);
}

// Rows and columns of a box that a rank reads: of each chunk of another rank it fetches one part.
TEST(Resolve, PartsOfAShareComeTogether) {
  std::mt19937 random(12);
  const Grid grid = irregular();
  const plan::Input input{};
  int fetched = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Region share = random_region(random, grid.shape());
    for (int d = 0; d < 2; ++d) {
      share.start[d] = std::min(share.start[d], share.start[d] + (share.count[d] - 1) * share.step[d]);
      share.step[d] = 1;
    }
    const int axis = trial % 2;
    Shares shares;
    std::vector<Region> parts;
    for (int64_t i = 0; i < share.count[axis]; ++i) {
      Region& part = parts.emplace_back(share);
      part.start[axis] += i;
      part.count[axis] = 1;
      shares.add(&input, part);
    }
    shares.add(&input, Region::box(Dims{0, 0}, Dims{0, 5}));  // nothing
    const Region* const box = shares.of(&input);
    ASSERT_NE(box, nullptr);
    EXPECT_EQ(*box, share);
    std::map<int64_t, std::pair<Dims, Dims>> covers;  // of chunks
    for (const Region& part : parts) {
      for (const ChunkRegion& piece : chunk_regions(grid, part)) {
        const Access access = resolve(computed(), grid, 1, piece, /*rank=*/0, Ownership(3), OwnParts::whole, box);
        expect_region(grid, piece.region, access);
        if (access.kind != Access::Kind::box) continue;
        const std::pair<Dims, Dims> cover{access.cover_start, access.cover_count};
        EXPECT_EQ(covers.emplace(access.chunk, cover).first->second, cover);
        ++fetched;
      }
    }
  }
  EXPECT_GT(fetched, 300);
}

TEST(Resolve, SharesAreBoxesOfWhatIsRead) {
  const plan::Input input{}, other{};
  Shares shares;
  EXPECT_EQ(shares.of(&input), nullptr);
  shares.add(&input, Region::box(Dims{0, 0}, Dims{2, 3}));
  shares.add(&other, {Dims{4, 0}, Dims{2, 3}, Dims{-1, 1}});
  EXPECT_NE(shares.of(&input), nullptr);
  EXPECT_EQ(shares.of(&other), nullptr);
  // There is more in the box around both.
  shares.add(&input, Region::box(Dims{2, 3}, Dims{2, 3}));
  EXPECT_EQ(shares.of(&input), nullptr);
}

TEST(LinearBoxes, CoverARangeInOrder) {
  std::mt19937 random(13);
  for (const Dims& shape : {Dims{5}, Dims{4, 3}, Dims{2, 3, 4}, Dims{1, 5, 1, 3}}) {
    const int64_t size = local::element_count(shape);
    for (int trial = 0; trial < 200; ++trial) {
      const int64_t begin = std::uniform_int_distribution<int64_t>(0, size)(random);
      const int64_t end = std::uniform_int_distribution<int64_t>(begin, size)(random);
      std::vector<int64_t> covered;
      for (const Region& box : linear_regions(shape, begin, end)) {
        const std::vector<int64_t> inside = elements(shape, box);
        covered.insert(covered.end(), inside.begin(), inside.end());
      }
      std::vector<int64_t> expected(static_cast<size_t>(end - begin));
      std::iota(expected.begin(), expected.end(), begin);
      EXPECT_EQ(covered, expected);
    }
  }
  EXPECT_EQ(linear_regions(Dims{}, 0, 1).size(), 1u);
}

TEST(LinearRange, OfBoxesThatAreContiguous) {
  EXPECT_EQ(linear_range(Dims{4, 5}, Region::box(Dims{1, 0}, Dims{2, 5})), (std::pair<int64_t, int64_t>{5, 15}));
  EXPECT_EQ(linear_range(Dims{4, 5}, Region::box(Dims{2, 1}, Dims{1, 3})), (std::pair<int64_t, int64_t>{11, 14}));
  EXPECT_THROW(linear_range(Dims{4, 5}, Region::box(Dims{1, 1}, Dims{2, 3})), local::InternalError);
}

}  // namespace
}  // namespace quarry::exec
