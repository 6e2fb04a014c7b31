// Walks the messages of object headers of versions 1 and 2, continuation blocks included.
#include "quarry/io/hdf5/parse/object_header.h"

#include <iterator>
#include <optional>

#include "quarry/io/hdf5/parse/blocks.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/parser.h"

namespace quarry::io::hdf5 {
namespace {

constexpr int kMaxBlocks = 4096;  // the library splits a header into a handful

constexpr int64_t kChecksumBytes = 4;

struct Block {
  int64_t offset, bytes;
  int64_t head = 0;  // of version 2: bytes before, which the checksum behind covers too
};

LayoutMessage parse_chunked(Cursor& in, const FileFormat& format, int rank_and_item, bool address_first) {
  LayoutMessage out;
  out.kind = LayoutMessage::Kind::chunked;
  if (rank_and_item < 2 || rank_and_item > local::kMaxDims + 1)
    damaged(fmt::format("chunks of {} dimensions", rank_and_item - 1));
  if (address_first) {
    out.address_at = static_cast<int64_t>(in.position());
    out.address = in.address(format);
  }
  for (int d = 0; d + 1 < rank_and_item; ++d) out.chunk.push_back(in.u32());
  out.itemsize = in.u32();
  for (int64_t extent : out.chunk)
    if (extent == 0) damaged("a chunk dimension of 0");
  return out;
}

// Versions 4 and 5: indexes of HDF5 1.10. What else describes an array or a tree is said again at its head.
LayoutMessage parse_newer_chunked(Cursor& in, const FileFormat& format) {
  constexpr unsigned kUnfilteredEdges = 0x01, kFilteredSingle = 0x02;
  LayoutMessage out;
  const unsigned flags = in.u8();
  const int rank_and_item = in.u8(), width = in.u8();
  if (rank_and_item < 2 || rank_and_item > local::kMaxDims + 1 || width < 1 || width > 8)
    damaged(fmt::format("chunks of {} dimensions in {} bytes", rank_and_item - 1, width));
  for (int d = 0; d < rank_and_item; ++d) {
    const uint64_t extent = in.number(width);
    if (extent == 0 || extent > UINT32_MAX) damaged(fmt::format("a chunk dimension of {}", extent));
    if (d + 1 < rank_and_item)
      out.chunk.push_back(static_cast<int64_t>(extent));
    else
      out.itemsize = static_cast<int64_t>(extent);
  }
  using Index = LayoutMessage::Index;
  struct Kind {
    Index index;
    size_t parameter_bytes;
  };
  static constexpr Kind kKinds[] = {
      {Index::single, 0}, {Index::row, 0}, {Index::fixed_array, 1}, {Index::extensible_array, 5}, {Index::btree2, 6}};
  const unsigned number = in.u8();
  if (number < 1 || number > std::size(kKinds)) {
    out.reason = fmt::format("a chunk index of kind {}", number);
    return out;
  }
  const Kind& kind = kKinds[number - 1];
  out.kind = LayoutMessage::Kind::chunked;
  out.index = kind.index;
  out.unfiltered_edges = flags & kUnfilteredEdges;
  if (kind.index == Index::single && (flags & kFilteredSingle)) {
    out.sized_single = true;
    out.single_bytes = in.length(format);
    out.single_mask = in.u32();
  }
  if (kind.index == Index::fixed_array) {
    out.page_bits = in.u8();
  } else {
    in.skip(kind.parameter_bytes);
  }
  out.address_at = static_cast<int64_t>(in.position());
  out.address = in.address(format);
  return out;
}

class HeaderWalk {
 public:
  HeaderWalk(const ByteSource& file, const FileFormat& format) : file_(file), format_(format) {}

  void run(int64_t header, const std::function<bool(const HeaderMessage&)>& use) {
    if (header < 0 || header > file_.size() - format_.base) damaged("the object header lies outside of the file");
    const int64_t at = header + format_.base;
    const auto start = read_range(file_, at, std::min<int64_t>(kMaxPrefix, file_.size() - at), "an object header");
    Cursor in(start, "an object header");
    if (start.size() >= 4 && std::memcmp(start.data(), "OHDR", 4) == 0)
      begin_version_2(in, at);
    else
      begin_version_1(in, at);
    // Blocks are appended while they are walked.
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (!walk(blocks_[i], use)) return;
  }

 private:
  static constexpr int64_t kMaxPrefix = 64;

  void begin_version_1(Cursor& in, int64_t at) {
    if (in.u8() != 1) damaged("an object header of unknown version");
    in.skip(1 + 2 + 4);  // reserved, message count, reference count
    const int64_t bytes = in.u32();
    add({at + 16, bytes});
  }

  void begin_version_2(Cursor& in, int64_t at) {
    in.skip(4);
    if (in.u8() != 2) damaged("an object header of unknown version");
    const unsigned flags = in.u8();
    creation_order_ = flags & 0x04;
    version_2_ = true;
    if (flags & 0x20) in.skip(16);  // times
    if (flags & 0x10) in.skip(4);   // attribute storage phase change
    const uint64_t bytes = in.number(1 << (flags & 0x03));
    if (bytes > static_cast<uint64_t>(file_.size())) damaged("an object header larger than the file");
    const auto head = static_cast<int64_t>(in.position());
    add({at + head, static_cast<int64_t>(bytes), head});
  }

  void add(Block block) {
    total_ += block.bytes;
    if (blocks_.size() >= kMaxBlocks || block.bytes < 0 || total_ > file_.size())
      damaged("the blocks of an object header are larger than the file");
    blocks_.push_back(block);
  }

  // False where `use` has seen enough.
  bool walk(Block block, const std::function<bool(const HeaderMessage&)>& use) {
    constexpr const char* kWhat = "a block of an object header";
    constexpr unsigned kShared = 0x02, kNeeded = 0x80;
    const int64_t behind = version_2_ ? kChecksumBytes : 0;
    const auto bytes = read_range(file_, block.offset - block.head, block.head + block.bytes + behind, kWhat);
    if (version_2_) check_checksum(bytes, block.offset - block.head, kWhat);
    const std::span<const std::byte> all(bytes);
    Cursor in(all.subspan(static_cast<size_t>(block.head), static_cast<size_t>(block.bytes)), kWhat);
    const size_t prefix = version_2_ ? (creation_order_ ? 6 : 4) : 8;
    while (in.left() >= prefix) {
      HeaderMessage message;
      message.type = version_2_ ? in.u8() : in.u16();
      const size_t size = in.u16();
      const unsigned flags = in.u8();
      message.shared = flags & kShared;
      if (message.type > HeaderMessage::kLast && (flags & kNeeded))
        throw local::NotSupported(fmt::format("message {} of its header is unknown and must not be", message.type));
      in.skip(version_2_ ? (creation_order_ ? 2 : 0) : 3);
      message.at = block.offset + static_cast<int64_t>(in.position());
      message.body = in.take(size);
      if (version_2_) message.checked = {block.offset - block.head, block.offset + block.bytes};
      if (message.type == HeaderMessage::kContinuation) {
        Cursor to(message.body, "a continuation message");
        Block next{to.address(format_), 0};
        next.bytes = to.length(format_);
        if (version_2_) {  // signature before, checksum after
          constexpr int64_t kSignatureBytes = 4;
          const auto head = read_range(file_, next.offset, kSignatureBytes, kWhat);
          Cursor(head, kWhat).signature("OCHK");
          next.offset += kSignatureBytes;
          next.bytes -= kSignatureBytes + kChecksumBytes;
          next.head = kSignatureBytes;
        }
        add(next);
      } else if (!use(message)) {
        return false;
      }
    }
    return true;
  }

  const ByteSource& file_;
  const FileFormat& format_;
  bool version_2_ = false, creation_order_ = false;
  std::vector<Block> blocks_;
  int64_t total_ = 0;
};

}  // namespace

LayoutMessage parse_layout(std::span<const std::byte> message, const FileFormat& format) {
  constexpr unsigned kCompact = 0, kContiguous = 1, kChunked = 2, kVirtual = 3;
  Cursor in(message, "the layout message");
  LayoutMessage out;
  const unsigned version = in.u8();
  if (version == 1 || version == 2) {
    const int dims = in.u8();
    const unsigned kind = in.u8();
    in.skip(5);
    if (dims < 1 || dims > local::kMaxDims + 1) damaged(fmt::format("a layout of {} dimensions", dims));
    if (kind == kCompact) {
      out.kind = LayoutMessage::Kind::compact;
    } else if (kind == kContiguous) {
      out.kind = LayoutMessage::Kind::contiguous;
      out.address = in.address(format);
    } else if (kind == kChunked) {
      const auto address_at = static_cast<int64_t>(in.position());
      const int64_t address = in.address(format);
      out = parse_chunked(in, format, dims, /*address_first=*/false);
      out.address_at = address_at;
      out.address = address;
    } else {
      out.reason = fmt::format("layout class {}", kind);
    }
    return out;
  }
  if (version < 3 || version > 5) {
    out.reason = fmt::format("layout version {}", version);
    return out;
  }
  const unsigned kind = in.u8();
  if (kind == kCompact) {
    out.kind = LayoutMessage::Kind::compact;
  } else if (kind == kContiguous) {
    out.kind = LayoutMessage::Kind::contiguous;
    out.address = in.address(format);
  } else if (kind == kChunked && version == 3) {
    const int dims = in.u8();
    out = parse_chunked(in, format, dims, /*address_first=*/true);
  } else if (kind == kChunked) {
    out = parse_newer_chunked(in, format);
  } else if (kind == kVirtual) {
    out.kind = LayoutMessage::Kind::virtual_;
    out.address = in.address(format);
    out.heap_index = in.u32();
  } else {
    out.reason = fmt::format("layout class {}", kind);
  }
  return out;
}

void for_each_message(const ByteSource& file, const FileFormat& format, int64_t header,
                      const std::function<bool(const HeaderMessage&)>& use) {
  HeaderWalk(file, format).run(header, use);
}

LayoutMessage read_layout_message(const ByteSource& file, const FileFormat& format, int64_t header) {
  std::optional<LayoutMessage> found;
  for_each_message(file, format, header, [&](const HeaderMessage& message) {
    if (message.type != HeaderMessage::kLayout) return true;
    if (message.shared) damaged("a shared layout message");
    found = parse_layout(message.body, format);
    return false;
  });
  if (!found) damaged("the object header has no layout message");
  return *found;
}

}  // namespace quarry::io::hdf5
