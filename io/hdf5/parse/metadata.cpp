#include "quarry/io/hdf5/parse/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "quarry/io/hdf5/parse/parser.h"
#include "quarry/io/hdf5/parse/signature.h"
#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {
namespace {

constexpr const char* kSuperblock = "the superblock";
constexpr int kHeapIdBytes = 8;  // of shared messages

// The file, where parts of it are newer than what it holds: a program may leave its cache of metadata in the file as
// one block.
class Overlay final : public ByteSource {
 public:
  Overlay(std::shared_ptr<const ByteSource> file, std::map<int64_t, std::vector<std::byte>> parts)
      : file_(std::move(file)), parts_(std::move(parts)) {}

  int64_t size() const override { return file_->size(); }
  void read_at(int64_t offset, std::span<std::byte> to) const override {
    file_->read_at(offset, to);
    const int64_t end = offset + std::ssize(to);
    auto part = parts_.upper_bound(offset);
    if (part != parts_.begin()) --part;
    for (; part != parts_.end() && part->first < end; ++part) {
      const auto& [at, bytes] = *part;
      const int64_t first = std::max(at, offset), last = std::min(at + std::ssize(bytes), end);
      if (first < last)
        std::memcpy(to.data() + (first - offset), bytes.data() + (first - at), static_cast<size_t>(last - first));
    }
  }

 private:
  const std::shared_ptr<const ByteSource> file_;
  const std::map<int64_t, std::vector<std::byte>> parts_;  // they do not overlap
};

}  // namespace

Metadata::Metadata(std::shared_ptr<const ByteSource> file) : file_(std::move(file)), source_(file_) {
  read_superblock();
  global_ = std::make_unique<GlobalHeap>(*source_, format_);
}

void Metadata::read_superblock() {
  constexpr int64_t kMostBytes = 128;
  const ByteSource& file = *file_;
  const std::optional<Signature> signature = find_signature(file);
  if (!signature) throw local::IoError("not an HDF5 file");
  if (signature->state == FileState::unfinished)
    throw local::IoError("an unfinished output: the run that was to make it has not ended");
  const int64_t at = signature->at;
  const auto start = read_range(file, at, std::min(kMostBytes, file.size() - at), kSuperblock);
  Cursor in(start, kSuperblock);
  in.skip(signature_bytes(FileState::whole).size());
  const unsigned version = in.u8();
  if (version > 3) throw local::NotSupported(fmt::format("its superblock is of version {}", version));
  if (version < 2) in.skip(4);  // versions of other parts
  format_.offset_bytes = in.u8();
  format_.length_bytes = in.u8();
  const auto usable = [](int width) { return width == 2 || width == 4 || width == 8; };
  if (!usable(format_.offset_bytes) || !usable(format_.length_bytes))
    throw local::NotSupported(fmt::format("its addresses have {} bytes and its lengths {}; 2, 4 and 8 are read",
                                          format_.offset_bytes, format_.length_bytes));
  unsigned flags = 0;
  if (version < 2) {
    in.skip(1 + 2 + 2 + 4);  // sizes of nodes of groups, flags
    if (version == 1) {
      chunk_tree_half_ = in.u16();
      in.skip(2);
    }
  } else {
    flags = in.u8();
  }
  FileFormat absolute = format_;
  absolute.base = 0;
  const int64_t stated_base = in.address(absolute), extension = in.address(absolute), stated_end = in.address(absolute);
  int64_t root = kNoAddress;
  if (version < 2) {
    in.skip(static_cast<size_t>(format_.offset_bytes));  // a driver's block
    in.skip(static_cast<size_t>(format_.offset_bytes));  // the root's name
  }
  root = in.address(absolute);
  if (version >= 2) {
    in.skip(4);
    check_checksum(std::span(start).first(in.position()), at, kSuperblock);
  }
  constexpr unsigned kBeingWritten = 0x01, kBeingWrittenForReaders = 0x04;
  if (version == 3 && (flags & (kBeingWritten | kBeingWrittenForReaders)))
    throw local::IoError(
        "the program that wrote it has not closed it; where none is writing, `h5clear -s` makes it readable");
  // A file behind bytes that were put before it is as it was.
  format_.base = at;
  if (stated_base == kNoAddress || stated_end == kNoAddress) damaged("a superblock without addresses");
  const int64_t end = stated_end - stated_base + at;
  if (end > file.size())
    throw local::IoError(
        fmt::format("truncated: it has {} bytes of {}; the last {} are missing", file.size(), end, end - file.size()));
  if (root == kNoAddress || root > file.size() - at) damaged("the root group is nowhere");
  root_ = root;
  if (extension != kNoAddress && version >= 2) read_extension(extension);
}

void Metadata::read_extension(int64_t address) {
  constexpr unsigned kMessageTable = 0x0f, kTreeSizes = 0x13, kFreeSpace = 0x17, kCacheImage = 0x18;
  std::optional<std::vector<std::byte>> table, image;
  for_each_message(*file_, format_, address, [&](const HeaderMessage& message) {
    if (message.shared) damaged("a shared message in the superblock's extension");
    if (message.type == kMessageTable) table.emplace(message.body.begin(), message.body.end());
    if (message.type == kCacheImage) image.emplace(message.body.begin(), message.body.end());
    if (message.type == kTreeSizes) {
      Cursor in(message.body, "the message of the sizes of B-trees");
      if (in.u8() != 0) damaged("sizes of B-trees of unknown version");
      chunk_tree_half_ = in.u16();
    }
    if (message.type == kFreeSpace) read_free_space(message.body);
    return true;
  });
  if (image) {
    Cursor in(*image, "the message of a cache image");
    read_cache_image(in);
  }
  if (table) {
    Cursor in(*table, "the message of a table of shared messages");
    read_message_table(in);
  }
}

void Metadata::read_free_space(std::span<const std::byte> message) {
  constexpr unsigned kPages = 1;
  Cursor in(message, "the message of free space");
  const unsigned version = in.u8(), strategy = in.u8(), persists = in.u8();
  manages_space_ = version != 1 || strategy == kPages || persists != 0;  // another version says it otherwise
}

void Metadata::read_cache_image(Cursor& in) {
  constexpr const char* kWhat = "the cache image";
  if (in.u8() != 0) damaged("a cache image of unknown version");
  const int64_t address = in.address(format_), bytes = in.length(format_);
  if (address == kNoAddress || bytes == 0) return;
  const auto block = read_range(*file_, address, bytes, kWhat);
  check_checksum(block, address, kWhat);
  Cursor image(std::span<const std::byte>(block).first(block.size() - 4), kWhat);
  image.signature("MDCI");
  if (image.u8() != 0) damaged("a cache image of unknown version");
  image.skip(1);
  if (image.length(format_) != bytes) damaged("a cache image of another length");
  const uint32_t entries = image.u32();
  std::map<int64_t, std::vector<std::byte>> parts;
  for (uint32_t i = 0; i < entries; ++i) {
    image.skip(1 + 1 + 1 + 1);  // kind, flags, ring, age
    image.skip(2 + 2);          // children
    const size_t parents = image.u16();
    image.skip(4);  // place in the order of use
    const int64_t at = image.address(format_), size = image.length(format_);
    image.skip(parents * static_cast<size_t>(format_.offset_bytes));
    const auto content = image.take(static_cast<size_t>(size));
    if (at == kNoAddress || at > file_->size() - size) damaged("an entry of the cache image lies outside of the file");
    const auto next = parts.lower_bound(at);
    if ((next != parts.end() && next->first < at + size) ||
        (next != parts.begin() && std::prev(next)->first + std::ssize(std::prev(next)->second) > at))
      damaged("entries of the cache image overlap");
    parts.emplace(at, std::vector<std::byte>(content.begin(), content.end()));
  }
  source_ = std::make_shared<Overlay>(file_, std::move(parts));
}

void Metadata::read_message_table(Cursor& in) {
  constexpr const char* kWhat = "the table of shared messages";
  if (in.u8() != 0) damaged("a table of shared messages of unknown version");
  const int64_t address = in.address(format_);
  const int64_t count = in.u8();
  if (address == kNoAddress || count == 0) damaged("an empty table of shared messages");
  const int64_t row = 1 + 1 + 2 + 4 + 2 + 2 + 2 + 2 * format_.offset_bytes;
  const auto block = read_range(bytes(), address, 4 + count * row + 4, kWhat);
  check_checksum(block, address, kWhat);
  Cursor table(block, kWhat);
  table.signature("SMTB");
  for (int64_t i = 0; i < count; ++i) {
    MessageIndex index;
    table.skip(2);  // version, kind
    index.types = table.u16();
    table.skip(4 + 2 + 2 + 2);  // sizes, the number of messages
    table.skip(static_cast<size_t>(format_.offset_bytes));
    index.heap = table.address(format_);
    indexes_.push_back(std::move(index));
  }
}

std::vector<std::byte> Metadata::message_of_heap(unsigned type, std::span<const std::byte> id) const {
  // Tables know fill values by the newer message's number alone.
  const unsigned kind = type == HeaderMessage::kOldFill ? HeaderMessage::kFill : type;
  for (const MessageIndex& index : indexes_) {
    if (!(index.types >> kind & 1u)) continue;
    if (!index.opened) index.opened = std::make_unique<FractalHeap>(bytes(), format_, index.heap);
    return index.opened->object(id);
  }
  damaged("a message is in a table that the file does not have");
}

std::vector<std::byte> Metadata::shared_body(unsigned type, Cursor& in) const {
  constexpr unsigned kInTable = 1;
  const unsigned version = in.u8(), kind = in.u8();
  if (version < 1 || version > 3) damaged(fmt::format("a shared message of version {}", version));
  if (version == 3 && kind == kInTable) return message_of_heap(type, in.take(kHeapIdBytes));
  if (version == 1) in.skip(6 + static_cast<size_t>(format_.length_bytes));  // reserved, place of the name
  const int64_t address = in.address(format_);
  if (address == kNoAddress || address < format_.base || address >= bytes().size())
    damaged("a shared message that is nowhere");
  std::optional<std::vector<std::byte>> found;
  for_each_message(bytes(), format_, address - format_.base, [&](const HeaderMessage& message) {
    if (message.type != type) return true;
    if (message.shared) {  // a named type may lie in the table itself
      Cursor reference(message.body, "a shared message");
      if (reference.u8() != 3 || reference.u8() != kInTable) damaged("a shared message that is itself shared");
      found = message_of_heap(type, reference.take(kHeapIdBytes));
    } else {
      found.emplace(message.body.begin(), message.body.end());
    }
    return false;
  });
  if (!found) damaged("a shared message is not where it should be");
  return std::move(*found);
}

std::span<const std::byte> Metadata::body(const HeaderMessage& message, std::vector<std::byte>& copy) const {
  if (!message.shared) return message.body;
  Cursor in(message.body, "a shared message");
  copy = shared_body(message.type, in);
  return copy;
}

}  // namespace quarry::io::hdf5
