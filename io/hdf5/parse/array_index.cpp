// Chunk indexes that are arrays: fixed ones, of data sets whose axes have limits, and extensible ones, of those with
// one axis without.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "quarry/io/hdf5/parse/chunk_collector.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

constexpr int kChecksumBytes = 4, kMaskBytes = 4;

// The start of every block: its signature, a version, what the elements are.
void begin(Cursor& in, std::string_view signature, bool filtered, const char* what) {
  in.signature(signature);
  if (in.u8() != 0) damaged(fmt::format("{} of unknown version", what));
  if (in.u8() != (filtered ? 1 : 0)) damaged(fmt::format("{} that does not fit the filters", what));
}
constexpr int64_t kBegin = 4 + 1 + 1;

// Bits are counted from a byte's highest.
bool bit(std::span<const std::byte> bits, int64_t i) {
  return (std::to_integer<unsigned>(bits[static_cast<size_t>(i / 8)]) & (0x80u >> i % 8)) != 0;
}

int64_t product(int64_t a, int64_t b, const char* what) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) damaged(fmt::format("{} of wild size", what));
  return out;
}

// Where page i behind `begin` is.
int64_t page_address(int64_t begin, int64_t i, int64_t page_bytes) {
  int64_t out = 0;
  if (__builtin_add_overflow(begin, product(i, page_bytes, "a chunk index"), &out))
    damaged("a chunk index of wild size");
  return out;
}

// Elements of both kinds of array.
class Elements {
 public:
  Elements(BlockReader& blocks, const FileFormat& format, const ArrayOrder& order, ChunkCollector& out)
      : blocks_(blocks), format_(format), order_(order), out_(out) {}

  void set_bytes(int64_t bytes) {
    size_bytes_ = static_cast<int>(bytes) - format_.offset_bytes - (out_.filtered() ? kMaskBytes : 0);
    if (out_.filtered() ? size_bytes_ < 1 || size_bytes_ > 8 : size_bytes_ != 0)
      damaged(fmt::format("elements of {} bytes in a chunk index", bytes));
    bytes_ = bytes;
  }
  int64_t bytes() const { return bytes_; }

  void take(Cursor& in, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      const StoredChunk chunk = out_.stored(in, format_, size_bytes_);
      if (chunk.address != kNoAddress && i < order_.count() && out_.wants(i, 1)) out_.add(order_.at(i), chunk);
    }
  }
  // A page of a block that was too large for one.
  void take_page(int64_t address, int64_t first, int64_t count) {
    constexpr const char* kWhat = "a page of the chunk index";
    if (!out_.wants(first, count)) return;
    const auto page = blocks_.read(address, product(count, bytes_, kWhat) + kChecksumBytes, kWhat);
    Cursor in(page, kWhat);
    take(in, first, count);
  }

 private:
  BlockReader& blocks_;
  const FileFormat& format_;
  const ArrayOrder& order_;
  ChunkCollector& out_;
  int64_t bytes_ = 0;
  int size_bytes_ = 0;
};

// Pages of 2^40 elements are no pages: larger than any file here.
int64_t page_elements(unsigned bits) {
  constexpr unsigned kMostBits = 40;
  if (bits > kMostBits) damaged(fmt::format("pages of 2^{} elements in a chunk index", bits));
  return int64_t{1} << bits;
}

class ExtensibleArray {
 public:
  ExtensibleArray(BlockReader& blocks, const FileFormat& format, const ArrayOrder& order, ChunkCollector& out)
      : blocks_(blocks), format_(format), out_(out), elements_(blocks, format, order, out) {}

  void read(int64_t address) {
    constexpr const char* kWhat = "the head of an extensible array";
    const auto head =
        blocks_.read(address, kBegin + 6 + 6 * format_.length_bytes + format_.offset_bytes + kChecksumBytes, kWhat);
    Cursor in(head, kWhat);
    begin(in, "EAHD", out_.filtered(), kWhat);
    elements_.set_bytes(in.u8());
    const unsigned index_bits = in.u8();
    direct_ = in.u8();
    least_ = in.u8();
    const int64_t pointers = in.u8();
    page_ = page_elements(in.u8());
    in.skip(4 * static_cast<size_t>(format_.length_bytes));  // how many blocks there are
    used_ = in.length(format_);                              // one beyond the largest index that was set
    in.skip(static_cast<size_t>(format_.length_bytes));
    const int64_t index_block = in.address(format_);
    const auto power = [](int64_t x) { return x > 0 && std::has_single_bit(static_cast<uint64_t>(x)); };
    if (index_bits == 0 || index_bits > 64 || !power(least_) || !power(pointers) || pointers < 2)
      damaged("an extensible array of wild parameters");
    offset_bytes_ = static_cast<int>((index_bits + 7) / 8);
    const int least_bits = std::countr_zero(static_cast<uint64_t>(least_));
    super_blocks_ = 1 + static_cast<int>(index_bits) - least_bits;
    first_super_ = 2 * std::countr_zero(static_cast<uint64_t>(pointers));
    if (index_bits < static_cast<unsigned>(least_bits) || super_blocks_ < first_super_)
      damaged("an extensible array of wild parameters");
    if (index_block != kNoAddress) read_index_block(index_block, 2 * (pointers - 1));
  }

 private:
  // Super block s has 2^(s / 2) data blocks of 2^((s + 1) / 2) times the least number of elements.
  static int64_t data_blocks(int s) { return int64_t{1} << s / 2; }
  int64_t data_elements(int s) const { return product(int64_t{1} << (s + 1) / 2, least_, "an extensible array"); }

  void read_index_block(int64_t address, int64_t data_addresses) {
    constexpr const char* kWhat = "the index block of an extensible array";
    const int64_t super_addresses = super_blocks_ - first_super_;
    const auto block = blocks_.read(address,
                                    kBegin + format_.offset_bytes + direct_ * elements_.bytes() +
                                        (data_addresses + super_addresses) * format_.offset_bytes + kChecksumBytes,
                                    kWhat);
    Cursor in(block, kWhat);
    begin(in, "EAIB", out_.filtered(), kWhat);
    in.skip(static_cast<size_t>(format_.offset_bytes));
    elements_.take(in, 0, direct_);
    int64_t first = direct_;
    for (int s = 0; s < first_super_; ++s)
      for (int64_t i = 0; i < data_blocks(s); ++i, first += data_elements(s)) {
        const int64_t at = in.address(format_);
        if (at != kNoAddress && first < used_ && out_.wants(first, data_elements(s)))
          read_data_block(at, first, data_elements(s), {}, 0);
      }
    for (int s = first_super_; s < super_blocks_ && first < used_; ++s) {
      const int64_t at = in.address(format_);
      const int64_t elements = product(data_blocks(s), data_elements(s), kWhat);
      if (at != kNoAddress && out_.wants(first, elements)) read_super_block(at, s, first);
      if (__builtin_add_overflow(first, elements, &first)) return;
    }
  }

  void read_super_block(int64_t address, int s, int64_t first) {
    constexpr const char* kWhat = "a super block of an extensible array";
    const int64_t blocks = data_blocks(s), elements = data_elements(s);
    const int64_t pages = elements > page_ ? elements / page_ : 0, bitmap = blocks * ((pages + 7) / 8);
    const auto block = blocks_.read(address,
                                    kBegin + format_.offset_bytes + offset_bytes_ + bitmap +
                                        product(blocks, format_.offset_bytes, kWhat) + kChecksumBytes,
                                    kWhat);
    Cursor in(block, kWhat);
    begin(in, "EASB", out_.filtered(), kWhat);
    in.skip(static_cast<size_t>(format_.offset_bytes) + static_cast<size_t>(offset_bytes_));
    const auto present = in.take(static_cast<size_t>(bitmap));
    for (int64_t i = 0; i < blocks && first < used_; ++i, first += elements) {
      const int64_t at = in.address(format_);
      if (at != kNoAddress && out_.wants(first, elements)) read_data_block(at, first, elements, present, i * pages);
    }
  }

  // `present` says of every page, from bit `bit_0` on, whether it was ever written.
  void read_data_block(int64_t address, int64_t first, int64_t count, std::span<const std::byte> present,
                       int64_t bit_0) {
    constexpr const char* kWhat = "a data block of an extensible array";
    const int64_t head = kBegin + format_.offset_bytes + offset_bytes_;
    const bool paged = count > page_;
    if (paged && present.empty()) damaged("an extensible array of wild parameters");
    const int64_t bytes = head + (paged ? 0 : product(count, elements_.bytes(), kWhat)) + kChecksumBytes;
    const auto block = blocks_.read(address, bytes, kWhat);
    Cursor in(block, kWhat);
    begin(in, "EADB", out_.filtered(), kWhat);
    in.skip(static_cast<size_t>(format_.offset_bytes) + static_cast<size_t>(offset_bytes_));
    if (!paged) return elements_.take(in, first, count);
    const int64_t page_bytes = product(page_, elements_.bytes(), kWhat) + kChecksumBytes;
    for (int64_t i = 0; i < count / page_; ++i)
      if (bit(present, bit_0 + i))
        elements_.take_page(page_address(address + bytes, i, page_bytes), first + i * page_, page_);
  }

  BlockReader& blocks_;
  const FileFormat& format_;
  ChunkCollector& out_;
  Elements elements_;
  int64_t direct_ = 0, least_ = 1, page_ = 1, used_ = 0;
  int super_blocks_ = 0, first_super_ = 0, offset_bytes_ = 0;  // first_super_: those before it have no block
};

}  // namespace

void read_fixed_array(BlockReader& blocks, const FileFormat& format, const LayoutMessage& layout,
                      const ChunkedShape& data, ChunkCollector& out) {
  constexpr const char* kHead = "the head of a fixed array";
  constexpr const char* kBlock = "the block of a fixed array";
  const ArrayOrder order(data.limits, layout.chunk, /*unlimited=*/0);
  Elements elements(blocks, format, order, out);
  const auto head =
      blocks.read(layout.address, kBegin + 2 + format.length_bytes + format.offset_bytes + kChecksumBytes, kHead);
  Cursor in(head, kHead);
  begin(in, "FAHD", out.filtered(), kHead);
  elements.set_bytes(in.u8());
  const int64_t page = page_elements(in.u8()), count = in.length(format), address = in.address(format);
  if (count != order.count()) damaged(fmt::format("a fixed array of {} elements for {} chunks", count, order.count()));
  if (address == kNoAddress) return;
  const int64_t pages = count > page ? (count - 1) / page + 1 : 0, bitmap = (pages + 7) / 8;
  const int64_t bytes = kBegin + format.offset_bytes + bitmap +
                        (pages > 0 ? 0 : product(count, elements.bytes(), kBlock)) + kChecksumBytes;
  const auto block = blocks.read(address, bytes, kBlock);
  Cursor rest(block, kBlock);
  begin(rest, "FADB", out.filtered(), kBlock);
  rest.skip(static_cast<size_t>(format.offset_bytes));
  if (pages == 0) return elements.take(rest, 0, count);
  const auto present = rest.take(static_cast<size_t>(bitmap));
  const int64_t page_bytes = product(page, elements.bytes(), kBlock) + kChecksumBytes;
  for (int64_t i = 0; i < pages; ++i)
    if (bit(present, i))
      elements.take_page(page_address(address + bytes, i, page_bytes), i * page, std::min(page, count - i * page));
}

void read_extensible_array(BlockReader& blocks, const FileFormat& format, const LayoutMessage& layout,
                           const ChunkedShape& data, ChunkCollector& out) {
  const ArrayOrder order(data.limits, layout.chunk, /*unlimited=*/1);
  ExtensibleArray(blocks, format, order, out).read(layout.address);
}

}  // namespace quarry::io::hdf5
