#include "quarry/io/hdf5/write/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/parse/checksum.h"
#include "quarry/io/hdf5/parse/object_header.h"
#include "quarry/io/hdf5/parse/parser.h"
#include "quarry/io/hdf5/parse/signature.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;
using Index = LayoutMessage::Index;

constexpr int64_t kChecksumBytes = 4, kMaskBytes = 4;

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

// ---- B-trees of version 1 ----

// Level by level from the leaves, every node full but the last ones. The key before a child is that of the first chunk
// below it; the one behind the last child is that of the next node, or lies behind all chunks.
class TreeWriter {
 public:
  TreeWriter(MetadataWriter& out, const NewIndex& made, const Dims& shape, int64_t itemsize,
             const std::vector<PlacedChunk>& chunks)
      : out_(out),
        made_(made),
        chunk_(made.layout.chunk),
        grid_(chunk_grid(shape, chunk_)),
        itemsize_(itemsize),
        chunks_(chunks) {}

  // Returns the root's address.
  int64_t write() {
    int64_t children = 0, below = 1;  // at: of the level below; below: chunks under each of them
    auto nodes = std::ssize(chunks_);
    for (int level = 0;; ++level) {
      const int64_t entries = nodes, begin = out_.at();
      nodes = (entries - 1) / made_.tree_entries + 1;
      for (int64_t i = 0; i < nodes; ++i) node(level, i, nodes, begin, entries, children, below);
      if (nodes == 1) return begin;
      children = begin;
      below *= made_.tree_entries;
    }
  }

 private:
  int64_t node_bytes() const {
    return 8 + 2 * made_.format.offset_bytes + made_.tree_entries * made_.format.offset_bytes +
           (made_.tree_entries + 1) * key_bytes();
  }
  int64_t key_bytes() const { return 4 + 4 + 8 * (chunk_.size() + 1); }

  void node(int level, int64_t i, int64_t nodes, int64_t begin, int64_t entries, int64_t children, int64_t below) {
    constexpr int kChunkNode = 1;
    const int64_t start = out_.at(), first = i * made_.tree_entries,
                  last = std::min<int64_t>(first + made_.tree_entries, entries);
    out_.signature("TREE");
    out_.number(kChunkNode, 1);
    out_.number(static_cast<uint64_t>(level), 1);
    out_.number(static_cast<uint64_t>(last - first), 2);
    out_.address(i > 0 ? begin + (i - 1) * node_bytes() : kNoAddress);
    out_.address(i + 1 < nodes ? begin + (i + 1) * node_bytes() : kNoAddress);
    for (int64_t entry = first; entry < last; ++entry) {
      key(entry * below);
      out_.address(level == 0 ? chunks_[static_cast<size_t>(entry)].offset : children + entry * node_bytes());
    }
    key(last * below);
    out_.zeros(start + node_bytes() - out_.at());
    out_.flush_some();
  }

  // Before that chunk, by its place among those that are stored.
  void key(int64_t place) {
    const bool behind = place >= std::ssize(chunks_);
    const PlacedChunk& chunk = behind ? chunks_.back() : chunks_[static_cast<size_t>(place)];
    const int64_t more = behind ? 1 : 0;
    out_.number(behind ? 0 : static_cast<uint64_t>(chunk.bytes), 4);
    out_.number(0, kMaskBytes);
    Dims at = Dims::filled(grid_.size(), 0);
    int64_t rest = chunk.number;
    for (int d = grid_.size() - 1; d >= 0; --d) {
      at[d] = rest % grid_[d];
      rest /= grid_[d];
    }
    for (int d = 0; d < at.size(); ++d) out_.number(static_cast<uint64_t>((at[d] + more) * chunk_[d]), 8);
    out_.number(static_cast<uint64_t>(more * itemsize_), 8);  // within an element
  }

  MetadataWriter& out_;
  const NewIndex& made_;
  const Dims& chunk_;
  const Dims grid_;
  const int64_t itemsize_;
  const std::vector<PlacedChunk>& chunks_;
};

// ---- Fixed arrays ----

// Bytes of a stored chunk's size, as the library reckons them from those of a whole one.
int size_bytes(uint64_t chunk_bytes) {
  constexpr int kMost = 8;
  const int log2 = std::bit_width(chunk_bytes) - 1;
  return std::min(1 + (log2 + 8) / 8, kMost);
}

// Elements of all chunks in order, in pages where they are many. Returns the head's address.
int64_t write_fixed_array(MetadataWriter& out, const NewIndex& made, const Dims& shape, int64_t itemsize,
                          const std::vector<PlacedChunk>& chunks) {
  constexpr int kVersion = 0, kFiltered = 1;
  const FileFormat& format = made.format;
  const int width = size_bytes(static_cast<uint64_t>(local::element_count(made.layout.chunk) * itemsize));
  const int64_t element = format.offset_bytes + width + kMaskBytes;
  const int64_t count = local::element_count(chunk_grid(shape, made.layout.chunk));
  const int64_t page = int64_t{1} << made.layout.page_bits, pages = count > page ? (count - 1) / page + 1 : 0;
  const int64_t head = out.at();
  const auto begin = [&](const char* signature) {
    out.begin();
    out.signature(signature);
    out.number(kVersion, 1);
    out.number(kFiltered, 1);
  };
  begin("FAHD");
  out.number(static_cast<uint64_t>(element), 1);
  out.number(static_cast<uint64_t>(made.layout.page_bits), 1);
  out.length(count);
  out.address(out.at() + format.offset_bytes + kChecksumBytes);  // the block follows
  out.checksum();
  begin("FADB");
  out.address(head);
  out.fill((pages + 7) / 8, std::byte{0xff});  // all pages are there
  if (pages > 0) out.checksum();
  auto next = chunks.begin();
  for (int64_t i = 0; i < count; ++i) {
    if (pages > 0 && i % page == 0) {
      if (i > 0) out.checksum();
      out.flush_some();
      out.begin();
    }
    const bool stored = next != chunks.end() && next->number == i;
    out.address(stored ? next->offset : kNoAddress);
    out.number(stored ? static_cast<uint64_t>(next->bytes) : 0, width);
    out.number(0, kMaskBytes);
    if (stored) ++next;
  }
  out.checksum();
  return head;
}

// ---- What names the index ----

// Changes bytes of a metadata block and its checksum.
void patch(MetadataTarget& file, int64_t at, const std::vector<std::byte>& bytes,
           const std::optional<std::pair<int64_t, int64_t>>& checked) {
  file.write_at(at, bytes);
  if (!checked) return;
  std::vector<std::byte> block(static_cast<size_t>(checked->second - checked->first));
  file.read_at(checked->first, block);
  const uint32_t sum = metadata_checksum(block);
  file.write_at(checked->second, std::as_bytes(std::span(&sum, 1)));
}

std::vector<std::byte> number(uint64_t value, int width) {
  std::vector<std::byte> bytes(static_cast<size_t>(width));
  std::memcpy(bytes.data(), &value, bytes.size());
  return bytes;
}

void set_layout(MetadataTarget& file, const NewIndex& made, int64_t address, uint64_t single_bytes) {
  const int64_t at = made.message_at + made.layout.address_at;
  const auto relative = static_cast<uint64_t>(address - made.format.base);
  if (made.layout.sized_single) {
    const int64_t size_at = at - kMaskBytes - made.format.length_bytes;
    file.write_at(size_at, number(single_bytes, made.format.length_bytes));
    file.write_at(at - kMaskBytes, number(0, kMaskBytes));
  }
  patch(file, at, number(relative, made.format.offset_bytes), made.checked);
}

// Where the superblock has the end of the file and, of newer ones, the bytes that its checksum is of.
struct EndPlace {
  int64_t at = 0;
  std::optional<std::pair<int64_t, int64_t>> checked;
};

EndPlace end_place(const ByteSource& file, const FileFormat& format) {
  constexpr int64_t kVersionAt = 8;
  std::byte version{};
  file.read_at(format.base + kVersionAt, std::span(&version, 1));
  switch (std::to_integer<int>(version)) {
    case 0:
      return {format.base + 24 + 2 * format.offset_bytes, {}};
    case 1:
      return {format.base + 28 + 2 * format.offset_bytes, {}};
    case 2:
    case 3: {
      const int64_t sum = format.base + 12 + 4 * format.offset_bytes;
      return {format.base + 12 + 2 * format.offset_bytes, {{format.base, sum}}};
    }
    default:
      damaged(fmt::format("a superblock of version {}", std::to_integer<int>(version)));
  }
}

}  // namespace

void MetadataTarget::read_at(int64_t offset, std::span<std::byte> to) const {
  file_.read_at(offset, to);
  const int64_t end = offset + std::ssize(to);
  for (const Patch& patch : patches_) {
    const int64_t first = std::max(offset, patch.at), last = std::min(end, patch.at + std::ssize(patch.bytes));
    if (first < last)
      std::memcpy(to.data() + (first - offset), patch.bytes.data() + (first - patch.at),
                  static_cast<size_t>(last - first));
  }
}

void MetadataTarget::write_at(int64_t offset, std::span<const std::byte> from) {
  if (offset >= kept_bytes_) return file_.write_at(offset, from);
  QUARRY_CHECK(offset + std::ssize(from) <= kept_bytes_);
  patches_.push_back({offset, {from.begin(), from.end()}});
}

void serialize(const NewIndex& made, ByteWriter& out) {
  const LayoutMessage& layout = made.layout;
  out.put(made.format);
  out.put(made.header);
  out.put(made.tree_entries);
  out.put_dims(layout.chunk);
  out.put(layout.kind);
  out.put(layout.index);
  out.put(layout.itemsize);
  out.put(layout.address_at);
  out.put(layout.page_bits);
  out.put(layout.sized_single);
  out.put(made.message_at);
  out.put(made.checked.has_value());
  out.put(made.checked.value_or(std::pair<int64_t, int64_t>()).first);
  out.put(made.checked.value_or(std::pair<int64_t, int64_t>()).second);
}

NewIndex deserialize_new_index(ByteReader& in) {
  NewIndex made;
  LayoutMessage& layout = made.layout;
  made.format = in.get<FileFormat>();
  made.header = in.get<int64_t>();
  made.tree_entries = in.get<int>();
  layout.chunk = in.get_dims();
  layout.kind = in.get<LayoutMessage::Kind>();
  layout.index = in.get<LayoutMessage::Index>();
  layout.itemsize = in.get<int64_t>();
  layout.address_at = in.get<int64_t>();
  layout.page_bits = in.get<int>();
  layout.sized_single = in.get<bool>();
  made.message_at = in.get<int64_t>();
  const auto is_checked = in.get<bool>();
  const auto first = in.get<int64_t>(), second = in.get<int64_t>();
  if (is_checked) made.checked = {first, second};
  return made;
}

std::optional<NewIndex> describe_index(const Metadata& file, int64_t header) {
  const FileFormat& format = file.format();
  // Half a node of no entries is of a file that nobody makes.
  if (file.manages_space() || file.chunk_tree_half() == 0) return std::nullopt;
  NewIndex made{format, header, 2 * file.chunk_tree_half(), {}, 0, {}};
  for_each_message(file.bytes(), format, header, [&](const HeaderMessage& message) {
    if (message.type != HeaderMessage::kLayout || message.shared) return true;
    made.layout = parse_layout(message.body, format);
    made.message_at = message.at;
    made.checked = message.checked;
    return false;
  });
  if (made.layout.kind != LayoutMessage::Kind::chunked) return std::nullopt;
  const bool known = made.layout.index == Index::btree || made.layout.index == Index::fixed_array ||
                     (made.layout.index == Index::single && made.layout.sized_single);
  if (!known) return std::nullopt;
  return made;
}

std::optional<NewIndex> describe_new_index(const Metadata& file, int64_t header) {
  std::optional<NewIndex> made = describe_index(file, header);
  if (made && made->layout.address != kNoAddress) made.reset();
  return made;
}

int64_t stated_end(const ByteSource& file, const FileFormat& format) {
  std::vector<std::byte> bytes(static_cast<size_t>(format.offset_bytes));
  file.read_at(end_place(file, format).at, bytes);
  const uint64_t end = Cursor(bytes, "the superblock").number(format.offset_bytes);
  return end <= static_cast<uint64_t>(INT64_MAX) ? static_cast<int64_t>(end) : -1;
}

bool ends_where_it_says(const ByteSource& file, const FileFormat& format) {
  return stated_end(file, format) == file.size();
}

bool set_extent(MetadataTarget& file, const FileFormat& format, int64_t header, const Dims& shape, int axis,
                int64_t extent) {
  bool is_set = false;
  for_each_message(file, format, header, [&](const HeaderMessage& message) {
    if (message.type != HeaderMessage::kDataspace) return true;
    if (message.shared) return false;
    Cursor body(message.body, "the dataspace message");
    const uint64_t version = body.number(1), rank = body.number(1);
    if (rank != static_cast<uint64_t>(shape.size())) damaged("the dataspace message");
    const int64_t at = message.at + (version == 1 ? 8 : 4) + axis * format.length_bytes;
    std::vector<std::byte> stated(static_cast<size_t>(format.length_bytes));
    file.read_at(at, stated);
    if (stated != number(static_cast<uint64_t>(shape[axis]), format.length_bytes)) damaged("the dataspace message");
    patch(file, at, number(static_cast<uint64_t>(extent), format.length_bytes), message.checked);
    is_set = true;
    return false;
  });
  return is_set;
}

int64_t index_chunks(MetadataTarget& file, const NewIndex& made, const Dims& shape, int64_t itemsize,
                     const std::vector<PlacedChunk>& chunks, int64_t at) {
  if (chunks.empty()) return at;
  if (made.layout.index == Index::single) {
    QUARRY_CHECK(chunks.size() == 1);
    set_layout(file, made, chunks[0].offset, static_cast<uint64_t>(chunks[0].bytes));
    return at;
  }
  MetadataWriter out(file, made.format, at);
  const int64_t address = made.layout.index == Index::btree ? TreeWriter(out, made, shape, itemsize, chunks).write()
                                                            : write_fixed_array(out, made, shape, itemsize, chunks);
  out.flush();
  set_layout(file, made, address, 0);
  return out.at();
}

void set_end(MetadataTarget& file, const FileFormat& format, int64_t end) {
  const EndPlace place = end_place(file, format);
  file.write_at(place.at, number(static_cast<uint64_t>(end), format.offset_bytes));
  if (!place.checked) return;
  std::vector<std::byte> block(static_cast<size_t>(place.checked->second - place.checked->first));
  file.read_at(place.checked->first, block);
  std::ranges::copy(signature_bytes(FileState::whole), block.begin());
  const uint32_t sum = metadata_checksum(block);
  file.write_at(place.checked->second, std::as_bytes(std::span(&sum, 1)));
}

}  // namespace quarry::io::hdf5
