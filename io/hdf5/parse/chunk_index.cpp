#include "quarry/io/hdf5/parse/chunk_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/io/hdf5/parse/chunk_collector.h"
#include "quarry/io/hdf5/parse/parser.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

// A node is read in one piece of this guess; larger ones (trees with a larger K) in a second.
constexpr int64_t kNodeGuess = 4096;

// B-trees of version 1.
class TreeWalk {
 public:
  TreeWalk(BlockReader& blocks, const FileFormat& format, const local::Dims& chunk, ChunkCollector& out)
      : blocks_(blocks), format_(format), chunk_(chunk), out_(out) {}

  // Levels count down to 0 from parent to child, so depth is bounded by the level's one byte; no node is read twice.
  void node(int64_t address, int expected_level) {
    constexpr const char* kWhat = "a node of the chunk index";
    const ByteSource& file = blocks_.file();
    const int64_t head_bytes = 8 + 2 * format_.offset_bytes;
    const int64_t guess = std::max(head_bytes, std::min(kNodeGuess, file.size() - address));
    std::vector<std::byte> bytes = read_range(file, address, guess, kWhat);
    Cursor head(bytes, kWhat);
    head.signature("TREE");
    if (head.u8() != 1) damaged("a node of the chunk index is of another kind");
    const int level = head.u8();
    const int entries = head.u16();
    const int64_t key_bytes = 4 + 4 + 8 * (chunk_.size() + 1);
    const int64_t need = head_bytes + entries * (key_bytes + format_.offset_bytes);
    blocks_.count(address, need);
    if (expected_level >= 0 && level != expected_level)
      damaged(fmt::format("a node of the chunk index has level {} instead of {}", level, expected_level));
    if (need > guess) bytes = read_range(file, address, need, kWhat);
    Cursor in(bytes, kWhat);
    in.skip(static_cast<size_t>(head_bytes));
    for (int i = 0; i < entries; ++i) {
      const int64_t stored = in.u32();
      const uint32_t mask = in.u32();
      local::Dims at = local::Dims::filled(chunk_.size());
      for (int d = 0; d < chunk_.size(); ++d) {
        const uint64_t origin = in.number(8), extent = static_cast<uint64_t>(chunk_[d]);
        if (level == 0 && origin % extent != 0)
          damaged(fmt::format("a chunk begins at {} of axis {}, not at a multiple of {}", origin, d, extent));
        at[d] = static_cast<int64_t>(std::min<uint64_t>(origin / extent, INT64_MAX));
      }
      in.skip(8);  // the offset within an element: 0
      const int64_t child = in.address(format_);
      if (level == 0) {
        out_.add(at, {child, stored, mask});
        continue;
      }
      if (child == kNoAddress) damaged("an inner node of the chunk index has no child");
      node(child, level - 1);
    }
  }

 private:
  BlockReader& blocks_;
  const FileFormat& format_;
  const local::Dims& chunk_;
  ChunkCollector& out_;
};

}  // namespace

local::Dims chunk_grid(const local::Dims& shape, const local::Dims& chunk) {
  local::Dims grid = local::Dims::filled(shape.size());
  for (int d = 0; d < shape.size(); ++d) grid[d] = shape[d] / chunk[d] + (shape[d] % chunk[d] != 0);
  local::element_count(grid);  // fits, as the shape's elements do
  return grid;
}

ChunkIndex::ChunkIndex(const local::Dims& shape, const local::Dims& chunk, std::vector<ChunkEntry> entries)
    : grid_(chunk_grid(shape, chunk)), entries_(std::move(entries)) {
  const auto by_number = [](const ChunkEntry& a, const ChunkEntry& b) { return a.number < b.number; };
  if (!std::is_sorted(entries_.begin(), entries_.end(), by_number))
    std::sort(entries_.begin(), entries_.end(), by_number);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i > 0 && entries_[i].number == entries_[i - 1].number)
      damaged(fmt::format("chunk number {} is stored twice", entries_[i].number));
    stored_bytes_ += entries_[i].bytes;
    largest_ = std::max<int64_t>(largest_, entries_[i].bytes);
  }
  complete_ = static_cast<int64_t>(entries_.size()) == local::element_count(grid_);
}

const ChunkEntry* ChunkIndex::find(int64_t number) const {
  if (complete_) return &entries_[static_cast<size_t>(number)];
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), number,
                                   [](const ChunkEntry& entry, int64_t n) { return entry.number < n; });
  return at != entries_.end() && at->number == number ? &*at : nullptr;
}

// Chunks mostly follow each other in number and address with like sizes, so that differences take a byte each.
void ChunkIndex::serialize(ByteWriter& out) const {
  out.put<int64_t>(static_cast<int64_t>(entries_.size()));
  ChunkEntry last{-1, 0, 0, 0};
  for (const ChunkEntry& entry : entries_) {
    out.put_unsigned(static_cast<uint64_t>(entry.number - last.number - 1));
    out.put_signed(entry.address - (last.address + last.bytes));
    out.put_signed(static_cast<int64_t>(entry.bytes) - static_cast<int64_t>(last.bytes));
    out.put_unsigned(entry.mask);
    last = entry;
  }
}

ChunkIndex ChunkIndex::deserialize(ByteReader& in, const local::Dims& shape, const local::Dims& chunk) {
  const auto count = in.get<int64_t>();
  QUARRY_CHECK(count >= 0 && static_cast<uint64_t>(count) <= in.left());
  std::vector<ChunkEntry> entries(static_cast<size_t>(count));
  ChunkEntry last{-1, 0, 0, 0};
  for (ChunkEntry& entry : entries) {
    entry.number = last.number + 1 + static_cast<int64_t>(in.get_unsigned());
    entry.address = last.address + last.bytes + in.get_signed();
    entry.bytes = static_cast<uint32_t>(static_cast<int64_t>(last.bytes) + in.get_signed());
    entry.mask = static_cast<uint32_t>(in.get_unsigned());
    last = entry;
  }
  return ChunkIndex(shape, chunk, std::move(entries));
}

namespace {

void read_row(const ByteSource& file, const LayoutMessage& layout, const ChunkedShape& data, ChunkCollector& out) {
  if (data.filtered) damaged("a chunk index that does not fit the filters");
  const ArrayOrder order(data.limits, layout.chunk, /*unlimited=*/0);
  if (order.count() > (file.size() - std::min(layout.address, file.size())) / data.chunk_bytes)
    damaged(fmt::format("{} chunks of {} bytes at {} lie outside of the file's {} bytes", order.count(),
                        data.chunk_bytes, layout.address, file.size()));
  for (int64_t i = 0; i < order.count(); ++i)
    out.add(order.at(i), {layout.address + i * data.chunk_bytes, data.chunk_bytes, 0});
}

}  // namespace

ChunkIndex read_chunk_index(const ByteSource& file, const FileFormat& format, const LayoutMessage& layout,
                            const ChunkedShape& data) {
  const local::Dims& chunk = layout.chunk;
  if (layout.address == kNoAddress || local::element_count(data.shape) == 0) return ChunkIndex(data.shape, chunk, {});
  BlockReader blocks(file);
  ChunkCollector out(file, layout, data);
  switch (layout.index) {
    case LayoutMessage::Index::btree:
      TreeWalk(blocks, format, chunk, out).node(layout.address, /*expected_level=*/-1);
      break;
    case LayoutMessage::Index::single: {
      if (local::element_count(chunk_grid(data.shape, chunk)) != 1)
        damaged("a chunk index that does not fit the chunks");
      const int64_t bytes = data.filtered && layout.single_bytes > 0 ? layout.single_bytes : data.chunk_bytes;
      out.add(local::Dims::filled(chunk.size(), 0), {layout.address, bytes, layout.single_mask});
      break;
    }
    case LayoutMessage::Index::row:
      read_row(file, layout, data, out);
      break;
    case LayoutMessage::Index::fixed_array:
      read_fixed_array(blocks, format, layout, data, out);
      break;
    case LayoutMessage::Index::extensible_array:
      read_extensible_array(blocks, format, layout, data, out);
      break;
    case LayoutMessage::Index::btree2:
      read_version_2_tree(blocks, format, layout, out);
      break;
  }
  return ChunkIndex(data.shape, chunk, out.take());
}

}  // namespace quarry::io::hdf5
