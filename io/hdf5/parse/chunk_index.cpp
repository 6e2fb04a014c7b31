#include "quarry/io/hdf5/parse/chunk_index.h"

#include <algorithm>
#include <unordered_set>

#include "quarry/io/hdf5/parse/parser.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

// A node is read in one piece of this guess; larger ones (trees with a larger K) in a second.
constexpr int64_t kNodeGuess = 4096;

class TreeWalk {
 public:
  TreeWalk(const ByteSource& file, const FileFormat& format, const local::Dims& shape, const local::Dims& chunk,
           int64_t chunk_bytes, bool filtered)
      : file_(file),
        format_(format),
        shape_(shape),
        chunk_(chunk),
        grid_(chunk_grid(shape, chunk)),
        chunk_bytes_(chunk_bytes),
        filtered_(filtered) {}

  // Levels count down to 0 from parent to child, so depth is bounded by the level's one byte; no node is read twice.
  void node(int64_t address, int expected_level) {
    if (!seen_.insert(address).second) damaged(fmt::format("the chunk index meets node {} twice", address));
    constexpr const char* kWhat = "a node of the chunk index";
    const int64_t head_bytes = 8 + 2 * format_.offset_bytes;
    const int64_t guess = std::max(head_bytes, std::min(kNodeGuess, file_.size() - address));
    std::vector<std::byte> bytes = read_range(file_, address, guess, kWhat);
    Cursor head(bytes, kWhat);
    head.signature("TREE");
    if (head.u8() != 1) damaged("a node of the chunk index is of another kind");
    const int level = head.u8();
    const int entries = head.u16();
    if (expected_level >= 0 && level != expected_level)
      damaged(fmt::format("a node of the chunk index has level {} instead of {}", level, expected_level));
    const int64_t key_bytes = 4 + 4 + 8 * (chunk_.size() + 1);
    const int64_t need = head_bytes + entries * (key_bytes + format_.offset_bytes);
    node_bytes_ += need;
    if (node_bytes_ > file_.size()) damaged("the nodes of the chunk index are larger than the file");
    if (need > guess) bytes = read_range(file_, address, need, kWhat);
    Cursor in(bytes, kWhat);
    in.skip(static_cast<size_t>(head_bytes));
    for (int i = 0; i < entries; ++i) {
      const uint32_t stored = in.u32(), mask = in.u32();
      local::Dims origin = local::Dims::filled(chunk_.size());
      bool inside = true;
      for (int d = 0; d < chunk_.size(); ++d) {
        const uint64_t at = in.number(8);
        inside = inside && at < static_cast<uint64_t>(shape_[d]);
        origin[d] = static_cast<int64_t>(at);
      }
      in.skip(8);  // the offset within an element: 0
      const int64_t child = in.address(format_);
      if (level > 0) {
        if (child == kNoAddress) damaged("an inner node of the chunk index has no child");
        node(child, level - 1);
        continue;
      }
      if (!inside || child == kNoAddress) continue;  // of a data set that has shrunk
      add_chunk(origin, child, stored, mask);
    }
  }

  std::vector<ChunkEntry> take() { return std::move(entries_); }

 private:
  void add_chunk(const local::Dims& origin, int64_t address, uint32_t stored, uint32_t mask) {
    int64_t number = 0;
    for (int d = 0; d < chunk_.size(); ++d) {
      if (origin[d] % chunk_[d] != 0)
        damaged(fmt::format("a chunk begins at {}, not at a multiple of {}", local::to_string(origin),
                            local::to_string(chunk_)));
      number = number * grid_[d] + origin[d] / chunk_[d];
    }
    if (!filtered_ && stored != chunk_bytes_)
      damaged(fmt::format("the chunk at {} is stored in {} bytes instead of {}", local::to_string(origin), stored,
                          chunk_bytes_));
    // No encoder in use grows a chunk by more than a few per cent and a few words.
    if (filtered_ && (stored == 0 || stored > 2 * chunk_bytes_ + 4096))
      damaged(
          fmt::format("the chunk at {} of {} bytes is stored in {}", local::to_string(origin), chunk_bytes_, stored));
    if (address < 0 || address > file_.size() || stored > file_.size() - address)
      damaged(fmt::format("the chunk at {} lies outside of the file: {} bytes at {}, the file has {}",
                          local::to_string(origin), stored, address, file_.size()));
    entries_.push_back({number, address, stored, mask});
  }

  const ByteSource& file_;
  const FileFormat& format_;
  const local::Dims &shape_, &chunk_;
  const local::Dims grid_;
  const int64_t chunk_bytes_;
  const bool filtered_;
  std::vector<ChunkEntry> entries_;
  std::unordered_set<int64_t> seen_;
  int64_t node_bytes_ = 0;
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

ChunkIndex read_chunk_index(const ByteSource& file, const FileFormat& format, const LayoutMessage& layout,
                            const local::Dims& shape, int64_t chunk_bytes, bool filtered) {
  const local::Dims& chunk = layout.chunk;
  if (layout.address == kNoAddress || local::element_count(shape) == 0) return ChunkIndex(shape, chunk, {});
  if (layout.index == LayoutMessage::Index::btree) {
    TreeWalk walk(file, format, shape, chunk, chunk_bytes, filtered);
    walk.node(layout.address, /*expected_level=*/-1);
    return ChunkIndex(shape, chunk, walk.take());
  }
  const int64_t count = local::element_count(chunk_grid(shape, chunk));
  const bool single = layout.index == LayoutMessage::Index::single;
  if (single ? count != 1 : filtered) damaged("a chunk index that does not fit the chunks");
  const int64_t bytes = single && filtered ? layout.single_bytes : chunk_bytes;
  if (bytes <= 0 || bytes > int64_t{UINT32_MAX} || bytes > 2 * chunk_bytes + 4096 || layout.address < 0 ||
      layout.address > file.size() || count > (file.size() - layout.address) / bytes)
    damaged(fmt::format("{} chunks of {} bytes at {} lie outside of the file's {} bytes", count, bytes, layout.address,
                        file.size()));
  std::vector<ChunkEntry> entries(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    entries[static_cast<size_t>(i)] = {i, layout.address + i * bytes, static_cast<uint32_t>(bytes), layout.single_mask};
  return ChunkIndex(shape, chunk, std::move(entries));
}

}  // namespace quarry::io::hdf5
