#include "quarry/io/hdf5/write/index_writer.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "quarry/io/hdf5/parse/checksum.h"
#include "quarry/io/hdf5/parse/chunk_collector.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;
using Index = LayoutMessage::Index;

constexpr int64_t kChecksumBytes = 4, kMaskBytes = 4;
constexpr int kMostPageBits = 40;  // pages of more chunks than there can be

// Little-endian fields of metadata that goes to one place after the other in a file.
class MetadataWriter {
 public:
  MetadataWriter(MetadataTarget& file, const FileFormat& format, int64_t at) : file_(file), format_(format), at_(at) {}

  void signature(std::string_view text) {
    for (const char letter : text) bytes_.push_back(static_cast<std::byte>(letter));
  }
  void number(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_.push_back(static_cast<std::byte>(value >> 8 * i));
  }
  void length(int64_t value) { number(static_cast<uint64_t>(value), format_.length_bytes); }
  // An absolute one; kNoAddress: undefined.
  void address(int64_t value) {
    number(value == kNoAddress ? ~uint64_t{0} : static_cast<uint64_t>(value - format_.base), format_.offset_bytes);
  }
  void zeros(int64_t count) { bytes_.resize(bytes_.size() + static_cast<size_t>(count)); }
  void fill(int64_t count, std::byte value) { bytes_.resize(bytes_.size() + static_cast<size_t>(count), value); }
  // Where the next byte goes.
  int64_t at() const { return at_ + static_cast<int64_t>(bytes_.size()); }
  // A checksum of what was added since begin().
  void begin() { begin_ = bytes_.size(); }
  void checksum() { number(metadata_checksum(std::span(bytes_).subspan(begin_)), kChecksumBytes); }
  // Between blocks: keeps what waits small.
  void flush_some() {
    constexpr size_t kMost = size_t{4} << 20;
    if (bytes_.size() >= kMost) flush();
  }
  void flush() {
    file_.write_at(at_, bytes_);
    at_ += static_cast<int64_t>(bytes_.size());
    bytes_.clear();
    begin_ = 0;
  }

 private:
  MetadataTarget& file_;
  const FileFormat& format_;
  int64_t at_;
  std::vector<std::byte> bytes_;
  size_t begin_ = 0;
};

// A B-tree of version 1, level by level from the leaves, every node full but the last ones. The key before a child is
// that of the first chunk below it; the one behind the last child is that of the next node, or lies behind all chunks.
class TreeWriter final : public IndexWriter {
 public:
  TreeWriter(const NewIndex& made, const Dims& shape, int64_t itemsize, int64_t stored, int64_t at)
      : made_(made), chunk_(made.layout.chunk), grid_(chunk_grid(shape, chunk_)), itemsize_(itemsize), end_(at) {
    QUARRY_CHECK(stored > 0);
    for (int64_t children = stored; levels_.empty() || children > 1;) {
      children = (children - 1) / node_chunks() + 1;
      levels_.push_back({end_, children});
      end_ += children * node_bytes();
    }
  }

  int64_t node_chunks() const override { return hdf5::node_chunks(made_); }
  int64_t end() const override { return end_; }

  std::vector<PlacedChunk> write_nodes(MetadataTarget& file, int64_t first, std::span<const PlacedChunk> chunks,
                                       const PlacedChunk* next) const override {
    return write_level(file, 0, first, chunks, next);
  }

  int64_t finish(MetadataTarget& file, std::vector<PlacedChunk> nodes) const override {
    QUARRY_CHECK(std::ssize(nodes) == levels_[0].nodes);
    for (size_t level = 1; level < levels_.size(); ++level) nodes = write_level(file, level, 0, nodes, nullptr);
    return nodes[0].offset;
  }

 private:
  struct Level {
    int64_t at = 0, nodes = 0;
  };

  int64_t node_bytes() const {
    return 8 + 2 * made_.format.offset_bytes + node_chunks() * made_.format.offset_bytes +
           (node_chunks() + 1) * key_bytes();
  }
  int64_t key_bytes() const { return 4 + kMaskBytes + 8 * (chunk_.size() + 1); }

  // Nodes above `children`, the first of which is the level's child number `first`. Returns them as the children of the
  // next level.
  std::vector<PlacedChunk> write_level(MetadataTarget& file, size_t level, int64_t first,
                                       std::span<const PlacedChunk> children, const PlacedChunk* next) const {
    const auto& [level_at, nodes] = levels_[level];
    QUARRY_CHECK(first % node_chunks() == 0);
    std::vector<PlacedChunk> made;
    int64_t i = first / node_chunks();
    MetadataWriter out(file, made_.format, level_at + i * node_bytes());
    for (size_t begin = 0; begin < children.size(); ++i) {
      const size_t end = std::min(begin + static_cast<size_t>(node_chunks()), children.size());
      const PlacedChunk* const behind = end < children.size() ? &children[end] : next;
      made.push_back({children[begin].number, out.at(), children[begin].bytes});
      put_head(out, level, i, end - begin);
      for (const PlacedChunk& child : children.subspan(begin, end - begin)) {
        put_key(out, child.number, child.bytes, /*behind=*/false);
        out.address(child.offset);
      }
      if (behind) {
        put_key(out, behind->number, behind->bytes, /*behind=*/false);
      } else {
        put_key(out, local::element_count(grid_) - 1, 0, /*behind=*/true);
      }
      out.zeros(made.back().offset + node_bytes() - out.at());
      out.flush_some();
      begin = end;
    }
    out.flush();
    return made;
  }

  void put_head(MetadataWriter& out, size_t level, int64_t node, size_t children) const {
    constexpr int kChunkNode = 1;
    const auto& [at, nodes] = levels_[level];
    out.signature("TREE");
    out.number(kChunkNode, 1);
    out.number(level, 1);
    out.number(children, 2);
    out.address(node > 0 ? at + (node - 1) * node_bytes() : kNoAddress);
    out.address(node + 1 < nodes ? at + (node + 1) * node_bytes() : kNoAddress);
  }

  // `behind`: of no chunk, but one behind that number.
  void put_key(MetadataWriter& out, int64_t chunk, int64_t bytes, bool behind) const {
    const int64_t more = behind ? 1 : 0;
    out.number(static_cast<uint64_t>(bytes), 4);
    out.number(0, kMaskBytes);
    const Dims at = place_in(grid_, chunk);
    for (int d = 0; d < at.size(); ++d) out.number(static_cast<uint64_t>((at[d] + more) * chunk_[d]), 8);
    out.number(static_cast<uint64_t>(more * itemsize_), 8);  // within an element
  }

  const NewIndex& made_;
  const Dims& chunk_;
  const Dims grid_;
  const int64_t itemsize_;
  std::vector<Level> levels_;
  int64_t end_;
};

// Bytes of a stored chunk's size, as the library reckons them from those of a whole one.
int size_bytes(uint64_t chunk_bytes) {
  constexpr int kMost = 8;
  const int log2 = std::bit_width(chunk_bytes) - 1;
  return std::min(1 + (log2 + 8) / 8, kMost);
}

// A fixed array: elements of all chunks in order, in pages where they are many, behind its head and that of its block.
class ArrayWriter final : public IndexWriter {
 public:
  ArrayWriter(const NewIndex& made, const Dims& shape, int64_t itemsize, int64_t at)
      : made_(made),
        size_bytes_(size_bytes(static_cast<uint64_t>(local::element_count(made.layout.chunk) * itemsize))),
        count_(local::element_count(chunk_grid(shape, made.layout.chunk))),
        at_(at) {}

  int64_t node_chunks() const override { return hdf5::node_chunks(made_); }
  int64_t end() const override { return page_at(pages() - 1) + page_bytes(pages() - 1); }

  std::vector<PlacedChunk> write_nodes(MetadataTarget& file, int64_t first, std::span<const PlacedChunk> chunks,
                                       const PlacedChunk* next) const override {
    const int64_t last = next ? next->number : count_;
    QUARRY_CHECK(first % node_chunks() == 0 && (last % node_chunks() == 0 || last == count_));
    MetadataWriter out(file, made_.format, is_paged() ? page_at(first / node_chunks()) : block_at());
    auto chunk = chunks.begin();
    while (first < last) {
      const int64_t page_end = std::min(first + node_chunks(), last);
      out.begin();
      if (!is_paged()) put_block_head(out);
      for (; first < page_end; ++first) {
        const bool stored = chunk != chunks.end() && chunk->number == first;
        out.address(stored ? chunk->offset : kNoAddress);
        out.number(stored ? static_cast<uint64_t>(chunk->bytes) : 0, size_bytes_);
        out.number(0, kMaskBytes);
        if (stored) ++chunk;
      }
      out.checksum();
      out.flush_some();
    }
    out.flush();
    return {};
  }

  int64_t finish(MetadataTarget& file, std::vector<PlacedChunk> /*nodes*/) const override {
    MetadataWriter out(file, made_.format, at_);
    put_signature(out, "FAHD");
    out.number(static_cast<uint64_t>(element_bytes()), 1);
    out.number(static_cast<uint64_t>(made_.layout.page_bits), 1);
    out.length(count_);
    out.address(block_at());
    out.checksum();
    QUARRY_CHECK(out.at() == block_at());
    if (is_paged()) {
      put_block_head(out);
      out.checksum();
    }
    out.flush();
    return at_;
  }

 private:
  bool is_paged() const { return count_ > node_chunks(); }
  int64_t pages() const { return (count_ - 1) / node_chunks() + 1; }
  int64_t element_bytes() const { return made_.format.offset_bytes + size_bytes_ + kMaskBytes; }
  int64_t block_at() const { return at_ + 8 + made_.format.length_bytes + made_.format.offset_bytes + kChecksumBytes; }
  int64_t bitmap_bytes() const { return is_paged() ? (pages() + 7) / 8 : 0; }
  int64_t page_at(int64_t page) const {
    const int64_t head = 6 + made_.format.offset_bytes + bitmap_bytes() + (is_paged() ? kChecksumBytes : 0);
    return block_at() + head + page * (node_chunks() * element_bytes() + kChecksumBytes);
  }
  int64_t page_bytes(int64_t page) const {
    return std::min(node_chunks(), count_ - page * node_chunks()) * element_bytes() + kChecksumBytes;
  }

  static void put_signature(MetadataWriter& out, std::string_view signature) {
    constexpr int kVersion = 0, kFiltered = 1;
    out.begin();
    out.signature(signature);
    out.number(kVersion, 1);
    out.number(kFiltered, 1);
  }
  void put_block_head(MetadataWriter& out) const {
    put_signature(out, "FADB");
    out.address(at_);
    out.fill(bitmap_bytes(), std::byte{0xff});  // all pages are there
  }

  const NewIndex& made_;
  const int size_bytes_;
  const int64_t count_;
  const int64_t at_;
};

}  // namespace

int64_t node_chunks(const NewIndex& made) {
  switch (made.layout.index) {
    case Index::btree:
      return made.tree_entries;
    case Index::fixed_array:
      return int64_t{1} << std::min(made.layout.page_bits, kMostPageBits);
    default:
      return 0;
  }
}

std::unique_ptr<IndexWriter> index_writer(const NewIndex& made, const Dims& shape, int64_t itemsize, int64_t stored,
                                          int64_t at) {
  if (made.layout.index == Index::btree) return std::make_unique<TreeWriter>(made, shape, itemsize, stored, at);
  QUARRY_CHECK(made.layout.index == Index::fixed_array);
  return std::make_unique<ArrayWriter>(made, shape, itemsize, at);
}

}  // namespace quarry::io::hdf5
