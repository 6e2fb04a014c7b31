#include "quarry/io/hdf5/parse/chunk_collector.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {

bool precedes(const local::Dims& a, const local::Dims& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

local::Dims place_in(const local::Dims& grid, int64_t number) {
  local::Dims at = local::Dims::filled(grid.size());
  for (int d = grid.size() - 1; d >= 0; --d) {
    at[d] = number % grid[d];
    number /= grid[d];
  }
  return at;
}

ChunkCollector::ChunkCollector(const ByteSource& file, const LayoutMessage& layout, const ChunkedShape& data,
                               const IndexRange& range, Use use)
    : file_(file),
      layout_(layout),
      data_(data),
      grid_(chunk_grid(data.shape, layout.chunk)),
      range_(range),
      is_tree_(layout.index == LayoutMessage::Index::btree || layout.index == LayoutMessage::Index::btree2),
      use_(std::move(use)) {
  if (!is_tree_ || (range.begin == 0 && range.end == INT64_MAX)) return;
  first_ = place_in(grid_, range.begin);
  last_ = place_in(grid_, std::min(range.end, local::element_count(grid_)) - 1);
}

StoredChunk ChunkCollector::stored(Cursor& in, const FileFormat& format, int size_bytes) const {
  StoredChunk chunk;
  chunk.address = in.address(format);
  chunk.bytes = data_.chunk_bytes;
  if (!data_.filtered) return chunk;
  const uint64_t bytes = in.number(size_bytes);
  chunk.bytes = bytes > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(bytes);
  chunk.mask = in.u32();
  return chunk;
}

std::string ChunkCollector::origin(const local::Dims& at) const {
  local::Dims place = at;
  for (int d = 0; d < place.size(); ++d) place[d] *= layout_.chunk[d];
  return local::to_string(place);
}

bool ChunkCollector::passes_the_end(const local::Dims& at) const {
  for (int d = 0; d < at.size(); ++d)
    if (at[d] == grid_[d] - 1 && data_.shape[d] % layout_.chunk[d] != 0) return true;
  return false;
}

void ChunkCollector::add(const local::Dims& at, const StoredChunk& chunk) {
  // No encoder in use grows a chunk by more than a few per cent and a few words.
  constexpr int64_t kMostGrowth = 4096;
  // Chunks outside of the shape count too: parts are looked for by their places.
  if (is_tree_) {
    if (!previous_.empty() && !precedes(previous_, at)) ordered_ = false;
    previous_ = at;
  }
  int64_t number = 0;
  for (int d = 0; d < at.size(); ++d) {
    if (at[d] < 0 || at[d] >= grid_[d]) return;
    number = number * grid_[d] + at[d];
  }
  if (chunk.address == kNoAddress || (is_tree_ && !wants(number, 1))) return;
  const auto [address, bytes, mask] = chunk;
  const bool plain = !data_.filtered || (layout_.unfiltered_edges && passes_the_end(at));
  if (plain && bytes != data_.chunk_bytes)
    damaged(fmt::format("the chunk at {} is stored in {} bytes instead of {}", origin(at), bytes, data_.chunk_bytes));
  if (bytes <= 0 || bytes > int64_t{UINT32_MAX} || bytes > 2 * data_.chunk_bytes + kMostGrowth)
    damaged(fmt::format("the chunk at {} of {} bytes is stored in {}", origin(at), data_.chunk_bytes, bytes));
  if (address < 0 || address > file_.size() || bytes > file_.size() - address)
    damaged(fmt::format("the chunk at {} lies outside of the file: {} bytes at {}, the file has {}", origin(at), bytes,
                        address, file_.size()));
  constexpr uint32_t kNoFilter = ~uint32_t{0};
  use_({number, address, static_cast<uint32_t>(bytes), data_.filtered && plain ? kNoFilter : mask});
}

ArrayOrder::ArrayOrder(const local::Dims& limits, const local::Dims& chunk, int unlimited) : grid_(limits) {
  for (int d = 0; d < grid_.size(); ++d) {
    if (limits[d] == kUnlimited) {
      if (unlimited-- == 0) damaged("a chunk index that does not fit the axes without limit");
      slowest_ = d;
      continue;
    }
    grid_[d] = limits[d] / chunk[d] + (limits[d] % chunk[d] != 0);
    if (__builtin_mul_overflow(count_, grid_[d], &count_)) damaged("more chunks than 64 bits count");
  }
  if (slowest_ >= 0) count_ = kUnlimited;
}

local::Dims ArrayOrder::at(int64_t i) const {
  local::Dims place = local::Dims::filled(grid_.size(), 0);
  for (int d = grid_.size() - 1; d >= 0; --d) {
    if (d == slowest_) continue;
    place[d] = i % grid_[d];
    i /= grid_[d];
  }
  if (slowest_ >= 0) place[slowest_] = i;
  return place;
}

int64_t ArrayOrder::position(const local::Dims& at) const {
  int64_t i = slowest_ >= 0 ? at[slowest_] : 0;
  for (int d = 0; d < grid_.size(); ++d) {
    if (d == slowest_) continue;
    if (__builtin_mul_overflow(i, grid_[d], &i) || __builtin_add_overflow(i, at[d], &i))
      damaged("more chunks than 64 bits count");
  }
  return i;
}

}  // namespace quarry::io::hdf5
