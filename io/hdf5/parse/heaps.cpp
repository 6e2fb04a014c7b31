#include "quarry/io/hdf5/parse/heaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "quarry/io/hdf5/parse/checksum.h"
#include "quarry/io/hdf5/parse/parser.h"
#include "quarry/io/hdf5/parse/record_tree.h"
#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {
namespace {
constexpr int kChecksumBytes = 4;
// Larger objects are no names, links or attributes.
constexpr int64_t kMostObjectBytes = 16 << 20;
}  // namespace

LocalHeap::LocalHeap(const ByteSource& file, const FileFormat& format, int64_t address) {
  constexpr const char* kWhat = "a heap of names";
  const auto head = read_range(file, address, 8 + 2 * format.length_bytes + format.offset_bytes, kWhat);
  Cursor in(head, kWhat);
  in.signature("HEAP");
  if (in.u8() != 0) damaged("a heap of names of unknown version");
  in.skip(3);
  const int64_t bytes = in.length(format);
  in.skip(static_cast<size_t>(format.length_bytes));  // the first free block
  const int64_t data = in.address(format);
  if (data == kNoAddress) damaged("a heap of names without names");
  data_ = read_range(file, data, bytes, kWhat);
}

std::string LocalHeap::text(uint64_t offset) const {
  if (offset >= data_.size()) damaged(fmt::format("a name at {} of a heap of {} bytes", offset, data_.size()));
  const auto begin = data_.begin() + static_cast<std::ptrdiff_t>(offset);
  const auto end = std::find(begin, data_.end(), std::byte{0});
  if (end == data_.end()) damaged("a name without an end");
  return {reinterpret_cast<const char*>(&*begin), static_cast<size_t>(end - begin)};
}

std::span<const std::byte> GlobalHeap::object(int64_t address, unsigned index, uint64_t bytes) {
  const Collection& heap = collection(address);
  const auto found = heap.objects.find(index);
  if (found == heap.objects.end() || bytes > found->second.second)
    damaged(fmt::format("object {} of {} bytes is not in the heap at {}", index, bytes, address));
  return std::span(heap.bytes).subspan(found->second.first, static_cast<size_t>(bytes));
}

std::span<const std::byte> GlobalHeap::object(int64_t address, unsigned index) {
  const auto& objects = collection(address).objects;
  const auto found = objects.find(index);
  return object(address, index, found == objects.end() ? 0 : found->second.second);
}

const GlobalHeap::Collection& GlobalHeap::collection(int64_t address) {
  if (const auto at = collections_.find(address); at != collections_.end()) return at->second;
  constexpr const char* kWhat = "a heap of variable-length values";
  const int64_t head_bytes = 8 + format_.length_bytes;
  const auto head = read_range(file_, address, head_bytes, kWhat);
  Cursor size(head, kWhat);
  size.signature("GCOL");
  size.skip(4);
  const int64_t bytes = size.length(format_);
  if (bytes < head_bytes || bytes > file_.size() - bytes_) damaged("a heap of wild size");
  bytes_ += bytes;
  Collection out{read_range(file_, address, bytes, kWhat), {}};
  Cursor in(out.bytes, kWhat);
  in.skip(static_cast<size_t>(head_bytes));
  const auto object_head = 8 + static_cast<size_t>(format_.length_bytes);
  while (in.left() >= object_head) {
    const unsigned index = in.u16();
    in.skip(6);
    const auto object_bytes = static_cast<uint64_t>(in.length(format_));
    if (index == 0) {  // free space; its size counts its head
      if (object_bytes < object_head) damaged("free space of a heap of no size");
      in.skip(object_bytes - object_head);
      continue;
    }
    if (object_bytes > static_cast<uint64_t>(bytes)) damaged("a heap object larger than its heap");
    if (!out.objects.emplace(index, std::pair(in.position(), object_bytes)).second)
      damaged(fmt::format("heap object {} is there twice", index));
    in.skip((object_bytes + 7) / 8 * 8);
  }
  return collections_.emplace(address, std::move(out)).first->second;
}

FractalHeap::FractalHeap(const ByteSource& file, const FileFormat& format, int64_t address)
    : file_(file), format_(format), blocks_(file), address_(address) {
  constexpr const char* kWhat = "the head of a fractal heap";
  if (address == kNoAddress) damaged("a fractal heap that is nowhere");
  const int offset = format.offset_bytes, length = format.length_bytes;
  // What follows the fixed part is there only with filters.
  const int64_t bytes = 4 + 1 + 2 + 2 + 1 + 4 + 12 * length + 3 * offset + 2 + 2 + 2 + 2 + kChecksumBytes;
  const auto start = read_range(file, address, std::min<int64_t>(bytes, file.size() - address), kWhat);
  Cursor in(start, kWhat);
  in.signature("FRHP");
  if (in.u8() != 0) damaged("a fractal heap of unknown version");
  id_bytes_ = in.u16();
  const unsigned filter_bytes = in.u16();
  const unsigned flags = in.u8();
  checked_ = flags & 0x02;
  if (filter_bytes > 0) throw local::NotSupported("a heap of links or attributes is filtered");
  check_checksum(start, address, kWhat);
  most_managed_ = in.u32();
  in.skip(static_cast<size_t>(length));  // the next huge object
  huge_tree_ = in.address(format);
  in.skip(9 * static_cast<size_t>(length) + static_cast<size_t>(offset));  // free space, counts and sizes of objects
  width_ = in.u16();
  start_ = in.length(format);
  most_direct_ = in.length(format);
  offset_bits_ = in.u16();
  in.skip(2);  // rows at the start
  root_ = in.address(format);
  root_rows_ = in.u16();
  const auto power = [](int64_t x) { return x > 0 && std::has_single_bit(static_cast<uint64_t>(x)); };
  constexpr int64_t kMostBlock = int64_t{1} << 32;
  if (!power(width_) || !power(start_) || !power(most_direct_) || most_direct_ < start_ || most_direct_ > kMostBlock ||
      offset_bits_ < 1 || offset_bits_ > 62 || id_bytes_ < 2)
    damaged("a fractal heap of wild parameters");
  direct_rows_ =
      std::countr_zero(static_cast<uint64_t>(most_direct_)) - std::countr_zero(static_cast<uint64_t>(start_)) + 2;
  // Rows cover no more than the offsets can say.
  const int most_rows = std::max(1, offset_bits_ - std::countr_zero(static_cast<uint64_t>(start_ * width_)) + 1);
  if (root_rows_ > most_rows || root_rows_ > 62) damaged("a fractal heap of wild parameters");
}

std::vector<std::byte> FractalHeap::object(std::span<const std::byte> id) {
  constexpr const char* kWhat = "the place of an object in a heap";
  enum : unsigned { kManaged = 0, kHuge = 1, kTiny = 2 };
  constexpr size_t kShortId = 18;  // longer ones state the length of tiny objects in 12 bits
  if (id.size() != id_bytes_) damaged(fmt::format("{} of {} bytes instead of {}", kWhat, id.size(), id_bytes_));
  Cursor in(id, kWhat);
  const unsigned head = in.u8(), kind = (head >> 4) & 3;
  if (head >> 6 != 0) damaged(fmt::format("{} of unknown version", kWhat));
  if (kind == kTiny) {
    uint64_t bytes = head & 0x0f;
    if (id_bytes_ > kShortId) bytes = bytes << 8 | in.u8();
    const auto data = in.take(bytes + 1);
    return {data.begin(), data.end()};
  }
  if (kind == kHuge) return huge(id.subspan(1));
  if (kind != kManaged) damaged(fmt::format("{} of unknown kind", kWhat));
  const int offset_width = (offset_bits_ + 7) / 8;
  const int block_width = (std::countr_zero(static_cast<uint64_t>(most_direct_)) + 7) / 8;
  const int length_width = std::min<int>(
      block_width, (std::bit_width(static_cast<uint64_t>(std::max<int64_t>(most_managed_, 1))) - 1) / 8 + 1);
  const uint64_t offset = in.number(offset_width);
  return managed(offset, in.number(length_width));
}

std::vector<std::byte> FractalHeap::managed(uint64_t offset, uint64_t length) {
  int64_t address = root_, start = 0, bytes = start_;
  int rows = root_rows_;
  const auto outside = [&]() { damaged(fmt::format("{} bytes at {} are not in their heap", length, offset)); };
  while (address != kNoAddress && rows > 0) {
    const uint64_t inside = offset - static_cast<uint64_t>(start);
    const auto first_row = static_cast<uint64_t>(start_ * width_);
    const int row = inside < first_row ? 0 : std::bit_width(inside / first_row);
    if (row >= rows) outside();
    const int64_t row_start = row == 0 ? 0 : static_cast<int64_t>(first_row) << (row - 1);
    bytes = row_bytes(row);
    const int64_t column = (static_cast<int64_t>(inside) - row_start) / bytes;
    address = children(address, rows)[static_cast<size_t>(row * width_ + column)];
    start += row_start + column * bytes;
    rows = row < direct_rows_ ? 0
                              : std::countr_zero(static_cast<uint64_t>(bytes)) -
                                    std::countr_zero(static_cast<uint64_t>(first_row)) + 1;
  }
  if (address == kNoAddress) outside();
  const Block& block = direct(address, start, bytes);
  const uint64_t inside = offset - static_cast<uint64_t>(start);
  if (inside > block.bytes.size() || length > block.bytes.size() - inside) outside();
  const auto begin = block.bytes.begin() + static_cast<std::ptrdiff_t>(inside);
  return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

const std::vector<int64_t>& FractalHeap::children(int64_t address, int rows) {
  if (const auto at = indirect_.find(address); at != indirect_.end()) {
    if (std::ssize(at->second) != rows * width_) damaged("a block of a fractal heap has two places");
    return at->second;
  }
  constexpr const char* kWhat = "an indirect block of a fractal heap";
  const int64_t head = 4 + 1 + format_.offset_bytes + (offset_bits_ + 7) / 8;
  const auto block = blocks_.read(address, head + rows * width_ * format_.offset_bytes + kChecksumBytes, kWhat);
  Cursor in(block, kWhat);
  in.signature("FHIB");
  if (in.u8() != 0) damaged("an indirect block of a fractal heap of unknown version");
  in.skip(static_cast<size_t>(head) - 5);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < rows * width_; ++i) out.push_back(in.address(format_));
  return indirect_.emplace(address, std::move(out)).first->second;
}

const FractalHeap::Block& FractalHeap::direct(int64_t address, int64_t start, int64_t bytes) {
  if (const auto at = direct_.find(address); at != direct_.end()) {
    if (at->second.start != start || std::ssize(at->second.bytes) != bytes)
      damaged("a block of a fractal heap has two places");
    return at->second;
  }
  constexpr const char* kWhat = "a block of a fractal heap";
  blocks_.count(address, bytes);
  Block block{start, read_range(file_, address, bytes, kWhat)};
  Cursor in(block.bytes, kWhat);
  in.signature("FHDB");
  if (in.u8() != 0) damaged("a block of a fractal heap of unknown version");
  if (in.address(format_) != address_) damaged("a block of another fractal heap");
  const int offset_width = (offset_bits_ + 7) / 8;
  if (in.number(offset_width) != static_cast<uint64_t>(start)) damaged("a block of a fractal heap in another's place");
  if (checked_) {  // of the block with zeros in the checksum's place
    const size_t place = in.position();
    const uint32_t stated = in.u32();
    std::fill_n(block.bytes.begin() + static_cast<std::ptrdiff_t>(place), kChecksumBytes, std::byte{0});
    if (metadata_checksum(block.bytes) != stated)
      damaged(fmt::format("the checksum of {} at {} is wrong", kWhat, address));
  }
  return direct_.emplace(address, std::move(block)).first->second;
}

// The ID is the place itself where that fits in, else a key of a tree of places.
std::vector<std::byte> FractalHeap::huge(std::span<const std::byte> id) {
  constexpr const char* kWhat = "a large object of a heap";
  Cursor in(id, kWhat);
  int64_t address = kNoAddress, bytes = 0;
  if (std::ssize(id) >= format_.offset_bytes + format_.length_bytes) {
    address = in.address(format_);
    bytes = in.length(format_);
  } else {
    const int key_bytes = std::min<int>(format_.length_bytes, static_cast<int>(id.size()));
    const uint64_t key = in.number(key_bytes);
    if (!huge_) {
      huge_.emplace();
      if (huge_tree_ == kNoAddress) damaged("large objects of a heap that are nowhere");
      for_each_record(
          blocks_, format_, huge_tree_, record_type::kHugeObject,
          [&](int64_t record_bytes) {
            if (record_bytes != format_.offset_bytes + 2 * format_.length_bytes) damaged("records of large objects");
          },
          [&](Cursor& record) {
            const int64_t at = record.address(format_), size = record.length(format_);
            huge_->emplace(record.number(format_.length_bytes), std::pair(at, size));
          });
    }
    const auto found = huge_->find(key);
    if (found == huge_->end()) damaged(fmt::format("{} is nowhere", kWhat));
    std::tie(address, bytes) = found->second;
  }
  if (bytes > kMostObjectBytes) damaged(fmt::format("{} has {} bytes", kWhat, bytes));
  return read_range(file_, address, bytes, kWhat);
}

}  // namespace quarry::io::hdf5
