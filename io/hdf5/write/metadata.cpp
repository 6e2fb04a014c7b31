#include "quarry/io/hdf5/write/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/parse/checksum.h"
#include "quarry/io/hdf5/parse/chunk_collector.h"
#include "quarry/io/hdf5/parse/object_header.h"
#include "quarry/io/hdf5/parse/parser.h"
#include "quarry/io/hdf5/parse/signature.h"
#include "quarry/io/hdf5/write/index_writer.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;
using Index = LayoutMessage::Index;

constexpr int64_t kMaskBytes = 4;

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
  const auto writer = index_writer(made, shape, itemsize, std::ssize(chunks), at);
  name_index(file, made, writer->finish(file, writer->write_nodes(file, 0, chunks, /*next=*/nullptr)));
  return writer->end();
}

void name_index(MetadataTarget& file, const NewIndex& made, int64_t address) { set_layout(file, made, address, 0); }

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
