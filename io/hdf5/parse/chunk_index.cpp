#include "quarry/io/hdf5/parse/chunk_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "quarry/io/hdf5/parse/chunk_collector.h"
#include "quarry/io/hdf5/parse/index_parts.h"
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
  // `from`, `to`: what the parents' keys say of the chunks under it, where they do: from <= chunk < to.
  void node(int64_t address, int expected_level, const local::Dims* from = nullptr, const local::Dims* to = nullptr) {
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
    local::Dims key = local::Dims::filled(chunk_.size()), next = key;
    for (int i = 0; i < entries; ++i) {
      const int64_t stored = in.u32();
      const uint32_t mask = in.u32();
      place(in, level, key);
      const int64_t child = in.address(format_);
      if (level == 0) {
        if ((from && precedes(key, *from)) || (to && !precedes(key, *to))) out_.note_disorder();
        out_.add(key, {child, stored, mask});
        continue;
      }
      if (child == kNoAddress) damaged("an inner node of the chunk index has no child");
      const bool is_last = i + 1 == entries;
      if (!is_last) {
        Cursor ahead = in;
        ahead.skip(8);
        place(ahead, level, next);
        if (out_.begins_at(next)) continue;
      }
      if (out_.ends_before(key)) return;
      node(child, level - 1, &key, is_last ? to : &next);
    }
  }

 private:
  // A key, without the bytes and the mask that stand before it.
  void place(Cursor& in, int level, local::Dims& at) const {
    for (int d = 0; d < chunk_.size(); ++d) {
      const uint64_t origin = in.number(8), extent = static_cast<uint64_t>(chunk_[d]);
      if (level == 0 && origin % extent != 0)
        damaged(fmt::format("a chunk begins at {} of axis {}, not at a multiple of {}", origin, d, extent));
      at[d] = static_cast<int64_t>(std::min<uint64_t>(origin / extent, INT64_MAX));
    }
    in.skip(8);  // the offset within an element: 0
  }

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

ChunkIndex::ChunkIndex(const local::Dims& shape, const local::Dims& chunk) : grid_(chunk_grid(shape, chunk)) {}

void ChunkIndex::regrid(const local::Dims& shape, const local::Dims& chunk) {
  local::Dims grid = chunk_grid(shape, chunk);
  QUARRY_CHECK(local::element_count(grid) == local::element_count(grid_));
  grid_ = std::move(grid);
}

void ChunkIndex::Maker::add(const ChunkEntry& entry) {
  if (only_counts_) return count(entry);
  if (unordered_.empty() && entry.number > last_.number) {
    append(entry);
    if (codes_.size() > most_bytes_ && !made_.in_row_) bound();
    return;
  }
  if (unordered_.empty() && made_.count_ > 0) {
    const ChunkIndex before = take();
    made_ = ChunkIndex();
    made_.grid_ = before.grid_;
    before.for_each([&](const ChunkEntry& one) { unordered_.push_back(one); });
  }
  unordered_.push_back(entry);
  if (std::ssize(unordered_) * static_cast<int64_t>(sizeof entry) > most_bytes_) bound();
}

void ChunkIndex::Maker::bound() {
  only_counts_ = true;
  if (!unordered_.empty()) made_.count_ = made_.stored_bytes_ = made_.largest_ = 0;
  for (const ChunkEntry& entry : std::exchange(unordered_, {})) count(entry);
  made_.in_row_ = false;
  std::vector<Mark>().swap(made_.marks_);
  codes_ = {};
}

void ChunkIndex::Maker::count(const ChunkEntry& entry) {
  ++made_.count_;
  made_.stored_bytes_ += entry.bytes;
  made_.largest_ = std::max<int64_t>(made_.largest_, entry.bytes);
}

void ChunkIndex::Maker::append(const ChunkEntry& entry) {
  const bool follows = entry.number == last_.number + 1 && entry.address == last_.address + last_.bytes &&
                       entry.bytes == last_.bytes && entry.mask == last_.mask;
  if (made_.count_ == 0) {
    made_.first_ = entry;
    made_.in_row_ = entry.number == 0;
  } else {
    made_.in_row_ = made_.in_row_ && follows;
  }
  codes_.put_unsigned(static_cast<uint64_t>(entry.number - last_.number - 1));
  codes_.put_signed(entry.address - (last_.address + last_.bytes));
  codes_.put_signed(static_cast<int64_t>(entry.bytes) - static_cast<int64_t>(last_.bytes));
  codes_.put_unsigned(entry.mask);
  if (made_.count_ % kStride == 0) made_.marks_.push_back({entry, codes_.size()});
  count(entry);
  last_ = entry;
}

ChunkIndex ChunkIndex::Maker::take() {
  if (made_.count_ != local::element_count(made_.grid_) && codes_.size() > most_bytes_) bound();
  if (only_counts_) return std::move(made_);
  if (!unordered_.empty()) {
    std::vector<ChunkEntry> entries = std::exchange(unordered_, {});
    std::ranges::sort(entries, {}, &ChunkEntry::number);
    last_ = kBefore;
    for (const ChunkEntry& entry : entries) {
      if (entry.number == last_.number) damaged(fmt::format("chunk number {} is stored twice", entry.number));
      append(entry);
    }
  }
  last_ = kBefore;
  made_.complete_ = made_.count_ == local::element_count(made_.grid_);
  made_.in_row_ = made_.in_row_ && made_.complete_;
  made_.codes_ = codes_.take();
  if (made_.in_row_) {
    std::string().swap(made_.codes_);
    std::vector<Mark>().swap(made_.marks_);
  }
  made_.codes_.shrink_to_fit();
  made_.marks_.shrink_to_fit();
  return std::move(made_);
}

ChunkEntry ChunkIndex::Cursor::next(const ChunkIndex& index) {
  if (index.in_row_) {
    const ChunkEntry& first = index.first_;
    last = {last.number + 1, first.address + (last.number + 1) * first.bytes, first.bytes, first.mask};
    return last;
  }
  ChunkEntry entry;
  entry.number = last.number + 1 + static_cast<int64_t>(codes.get_unsigned());
  entry.address = last.address + last.bytes + codes.get_signed();
  entry.bytes = static_cast<uint32_t>(static_cast<int64_t>(last.bytes) + codes.get_signed());
  entry.mask = static_cast<uint32_t>(codes.get_unsigned());
  last = entry;
  return entry;
}

void ChunkIndex::read_from(std::function<const ByteSource&()> file) {
  if (parts_) parts_ = std::make_shared<IndexParts>(parts_->place(), std::move(file));
}

void ChunkIndex::for_each_in_file(const std::function<void(const ChunkEntry&)>& f) const { parts_->for_each(f); }

std::optional<ChunkEntry> ChunkIndex::find(int64_t number) const {
  if (parts_) return parts_->find(number);
  if (in_row_) return ChunkEntry{number, first_.address + number * first_.bytes, first_.bytes, first_.mask};
  if (count_ == 0) return std::nullopt;
  auto mark = marks_.begin() + (complete_ ? number / kStride : 0);
  if (!complete_) {
    mark = std::ranges::upper_bound(marks_, number, {}, [](const Mark& m) { return m.entry.number; });
    if (mark == marks_.begin()) return std::nullopt;
    --mark;
  }
  const int64_t left = std::min(kStride, count_ - kStride * (mark - marks_.begin()));
  Cursor cursor{mark->entry, ByteReader(std::string_view(codes_).substr(static_cast<size_t>(mark->behind)))};
  for (int64_t i = 1; i < left && cursor.last.number < number; ++i) cursor.next(*this);
  if (cursor.last.number != number) return std::nullopt;
  return cursor.last;
}

int64_t ChunkIndex::memory_bytes() const {
  return static_cast<int64_t>(codes_.capacity() + marks_.capacity() * sizeof(Mark));
}

void ChunkIndex::serialize(ByteWriter& out) const {
  out.put(is_in_file());
  if (parts_) {
    out.put(count_);
    out.put(stored_bytes_);
    out.put(largest_);
    return put_place(parts_->place(), out);
  }
  out.put<int64_t>(count_);
  out.put<bool>(in_row_);
  if (in_row_) out.put(first_);
  out.put<int64_t>(static_cast<int64_t>(codes_.size()));
  out.put_view(codes_);
}

ChunkIndex ChunkIndex::deserialize(ByteReader& in, const local::Dims& shape, const local::Dims& chunk) {
  ChunkIndex index(shape, chunk);
  if (in.get<bool>()) {
    index.count_ = in.get<int64_t>();
    index.stored_bytes_ = in.get<int64_t>();
    index.largest_ = in.get<int64_t>();
    index.parts_ = std::make_shared<IndexParts>(get_place(in));
    return index;
  }
  index.count_ = in.get<int64_t>();
  index.in_row_ = in.get<bool>();
  if (index.in_row_) index.first_ = in.get<ChunkEntry>();
  const auto size = in.get<int64_t>();
  QUARRY_CHECK(size >= 0);
  index.codes_ = in.get_view(static_cast<size_t>(size));
  index.complete_ = index.count_ == local::element_count(index.grid_);
  Cursor cursor = index.begin();
  for (int64_t i = 0; i < index.count_ && !index.in_row_; ++i) {
    const ChunkEntry entry = cursor.next(index);
    if (i % kStride == 0) index.marks_.push_back({entry, size - static_cast<int64_t>(cursor.codes.left())});
    index.stored_bytes_ += entry.bytes;
    index.largest_ = std::max<int64_t>(index.largest_, entry.bytes);
  }
  if (index.in_row_) {
    index.stored_bytes_ = index.count_ * index.first_.bytes;
    index.largest_ = index.first_.bytes;
  }
  return index;
}

namespace {

void read_row(const ByteSource& file, const LayoutMessage& layout, const ChunkedShape& data, ChunkCollector& out) {
  if (data.filtered) damaged("a chunk index that does not fit the filters");
  const ArrayOrder order(data.limits, layout.chunk, /*unlimited=*/0);
  if (order.count() > (file.size() - std::min(layout.address, file.size())) / data.chunk_bytes)
    damaged(fmt::format("{} chunks of {} bytes at {} lie outside of the file's {} bytes", order.count(),
                        data.chunk_bytes, layout.address, file.size()));
  for (int64_t i = out.range().begin; i < std::min(out.range().end, order.count()); ++i)
    out.add(order.at(i), {layout.address + i * data.chunk_bytes, data.chunk_bytes, 0});
}

}  // namespace

void read_entries(const ByteSource& file, const IndexPlace& place, ChunkCollector& out) {
  const FileFormat& format = place.format;
  const LayoutMessage& layout = place.layout;
  const ChunkedShape& data = place.data;
  const local::Dims& chunk = layout.chunk;
  BlockReader blocks(file);
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
}

ChunkIndex read_chunk_index(const ByteSource& file, const IndexPlace& place, int64_t most_bytes) {
  const LayoutMessage& layout = place.layout;
  const ChunkedShape& data = place.data;
  if (layout.address == kNoAddress || local::element_count(data.shape) == 0)
    return ChunkIndex(data.shape, layout.chunk);
  ChunkIndex::Maker maker(data.shape, layout.chunk, most_bytes);
  ChunkCollector out(file, layout, data, {}, [&](const ChunkEntry& entry) { maker.add(entry); });
  read_entries(file, place, out);
  ChunkIndex index = maker.take();
  if (!maker.only_counts()) return index;
  if (!out.ordered()) return read_chunk_index(file, place);
  constexpr int64_t kLeast = 16, kMostBytesOfChunk = 64;
  IndexPlace parts = place;
  parts.part_chunks = std::clamp(most_bytes / kMostBytesOfChunk, kLeast, place.part_chunks);
  index.parts_ = std::make_shared<IndexParts>(std::move(parts));
  return index;
}

}  // namespace quarry::io::hdf5
