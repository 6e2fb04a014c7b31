#include <map>
#include <optional>

#include "quarry/io/hdf5/parse/object_header.h"
#include "quarry/io/hdf5/parse/parser.h"

namespace quarry::io::hdf5 {
namespace {

constexpr int kMaxTypeDepth = 32;
constexpr unsigned kVariable = 9;  // class of variable-length types
constexpr int64_t kMaxFilters = 32;

struct Extent {
  uint64_t elements = 1;
  bool known = true;  // shared messages are not followed for it
};

class Checker {
 public:
  Checker(const ByteSource& file, const FileFormat& format) : file_(file), format_(format) {}

  // Whether the attributes are sound too.
  bool run(int64_t header) {
    for_each_message(file_, format_, header, [&](const HeaderMessage& message) {
      check(message);
      return true;
    });
    uint64_t bytes = 0;
    if (compact_bytes_ && element_bytes_ > 0 && extent_.known &&
        (__builtin_mul_overflow(extent_.elements, static_cast<uint64_t>(element_bytes_), &bytes) ||
         bytes > static_cast<uint64_t>(*compact_bytes_)))
      damaged(fmt::format("{} elements of {} bytes in compact storage of {}", extent_.elements, element_bytes_,
                          *compact_bytes_));
    if (chunk_item_bytes_ > 0 && element_bytes_ > 0 && chunk_item_bytes_ != element_bytes_)
      damaged(fmt::format("chunks of elements of {} bytes, which have {}", chunk_item_bytes_, element_bytes_));
    // A fill value is as large as an element, or absent.
    if (element_bytes_ > 0 && fill_bytes_ > 0 && fill_bytes_ != element_bytes_)
      damaged(fmt::format("a fill value of {} bytes for elements of {}", fill_bytes_, element_bytes_));
    return attributes_sound_;
  }

 private:
  void check(const HeaderMessage& message) {
    Cursor in(message.body, "a message of the object header");
    if (message.type == HeaderMessage::kDatatype) {
      element_bytes_ = message.shared ? shared_type(in) : datatype(in, 0);
      return;
    }
    if (message.shared) {
      shared_address(in);
      return;
    }
    switch (message.type) {
      case HeaderMessage::kDataspace:
        extent_ = dataspace(in);
        return;
      case HeaderMessage::kOldFill:
        fill_bytes_ = in.u32();
        in.skip(static_cast<size_t>(fill_bytes_));
        return;
      case HeaderMessage::kFill:
        fill(in);
        return;
      case HeaderMessage::kLayout:
        chunk_item_bytes_ = parse_layout(message.body, format_).itemsize;
        compact(in);
        return;
      case HeaderMessage::kFilters:
        filters(in);
        return;
      case HeaderMessage::kAttribute:
        try {
          attribute(in);
        } catch (const local::IoError&) {
          attributes_sound_ = false;
        }
        return;
      default:  // of no use here
        return;
    }
  }

  // A name ends with a zero byte; up to version 2 it is padded to eight bytes.
  static void name(Cursor& in, bool padded) {
    size_t length = 1;
    while (in.u8() != 0) ++length;
    if (padded) in.skip((8 - length % 8) % 8);
  }

  // Returns the size of a value.
  int64_t datatype(Cursor& in, int depth) {
    if (depth > kMaxTypeDepth) damaged("types are nested too deeply");
    const unsigned head = in.u8(), version = head >> 4, kind = head & 0x0f;
    if (version < 1 || version > 4) damaged(fmt::format("a type message of version {}", version));
    const uint64_t bits = in.number(3);
    const int64_t bytes = in.u32();
    if (bytes == 0) damaged("a type of no size");
    switch (kind) {
      case 0:  // integer
      case 4:  // bit field
        number_bits(in, bytes);
        break;
      case 1:
        real(in, bytes);
        break;
      case 2:  // time
        in.skip(2);
        break;
      case 3:  // string
      case 7:  // reference
        break;
      case 5:  // opaque with a tag
        in.skip(bits & 0xff);
        break;
      case 6:
        compound(in, version, bits & 0xffff, bytes, depth);
        break;
      case 8:
        enumeration(in, version, bits & 0xffff, bytes, depth);
        break;
      case kVariable:  // a length and a place in the heap
        if (bytes != 8 + format_.offset_bytes) damaged(fmt::format("a variable-length type of {} bytes", bytes));
        datatype(in, depth + 1);
        break;
      case 10:
        array(in, version, bytes, depth);
        break;
      default:
        damaged(fmt::format("a type of class {}", kind));
    }
    return bytes;
  }

  static void number_bits(Cursor& in, int64_t bytes) {
    const int64_t offset = in.u16(), precision = in.u16();
    if (precision == 0 || offset + precision > 8 * bytes)
      damaged(fmt::format("a number of {} bits at {} in {} bytes", precision, offset, bytes));
  }

  static void real(Cursor& in, int64_t bytes) {
    number_bits(in, bytes);
    const int64_t exponent = in.u8(), exponent_bits = in.u8(), mantissa = in.u8(), mantissa_bits = in.u8();
    in.skip(4);  // bias
    if (exponent_bits == 0 || mantissa_bits == 0 || exponent + exponent_bits > 8 * bytes ||
        mantissa + mantissa_bits > 8 * bytes)
      damaged("a float whose parts do not fit");
  }

  void compound(Cursor& in, unsigned version, uint64_t members, int64_t bytes, int depth) {
    if (members == 0) damaged("a compound of no members");
    int width = 4;
    if (version >= 3) width = bytes < 256 ? 1 : bytes < 65536 ? 2 : bytes < (1 << 24) ? 3 : 4;
    for (uint64_t i = 0; i < members; ++i) {
      name(in, version < 3);
      const auto offset = static_cast<int64_t>(in.number(width));
      int64_t copies = 1;
      if (version == 1) {
        const unsigned rank = in.u8();
        if (rank > 4) damaged(fmt::format("a compound member of rank {}", rank));
        in.skip(3 + 4 + 4);
        for (unsigned d = 0; d < 4; ++d) {
          const int64_t extent = in.u32();
          if (d < rank && (extent == 0 || __builtin_mul_overflow(copies, extent, &copies)))
            damaged("a compound member of no or wild extent");
        }
      }
      const int64_t size = datatype(in, depth + 1);
      int64_t all = 0;
      if (__builtin_mul_overflow(size, copies, &all) || offset > bytes || all > bytes - offset)
        damaged(fmt::format("a compound member of {} bytes at {} of {}", size, offset, bytes));
    }
  }

  void enumeration(Cursor& in, unsigned version, uint64_t members, int64_t bytes, int depth) {
    const int64_t value = datatype(in, depth + 1);
    if (value != bytes) damaged(fmt::format("an enum of {} bytes over values of {}", bytes, value));
    if (members == 0) damaged("an enum of no members");
    for (uint64_t i = 0; i < members; ++i) name(in, version < 3);
    in.skip(static_cast<size_t>(value) * members);
  }

  void array(Cursor& in, unsigned version, int64_t bytes, int depth) {
    const unsigned rank = in.u8();
    if (rank > 32) damaged(fmt::format("an array type of rank {}", rank));
    if (version < 3) in.skip(3);
    int64_t copies = 1;
    for (unsigned d = 0; d < rank; ++d) {
      const int64_t extent = in.u32();
      if (extent == 0 || __builtin_mul_overflow(copies, extent, &copies)) damaged("an array type of no or wild extent");
    }
    if (version < 3) in.skip(4 * rank);
    const int64_t size = datatype(in, depth + 1);
    int64_t all = 0;
    if (__builtin_mul_overflow(size, copies, &all) || all != bytes)
      damaged(fmt::format("an array type of {} times {} bytes in {}", copies, size, bytes));
  }

  // Where a shared message is: an object header, or nothing for the file's table of shared messages, which is not
  // followed.
  std::optional<int64_t> shared_address(Cursor& in) {
    constexpr unsigned kInTable = 1;
    const unsigned version = in.u8(), kind = in.u8();
    if (version < 1 || version > 3) damaged(fmt::format("a shared message of version {}", version));
    if (version == 3 && kind == kInTable) {
      if (!format_.message_table) damaged("a message is in a table that the file does not have");
      return std::nullopt;
    }
    if (version == 1) in.skip(6 + static_cast<size_t>(format_.length_bytes));  // reserved, place of the name
    const int64_t address = in.address(format_);
    if (address == kNoAddress || address < format_.base || address >= file_.size())
      damaged("a shared message that is nowhere");
    return address;
  }

  // A type given by a reference; its size where it is known, else 0.
  int64_t shared_type(Cursor& in) {
    const std::optional<int64_t> address = shared_address(in);
    if (!address) return 0;
    int64_t bytes = 0;
    for_each_message(file_, format_, *address - format_.base, [&](const HeaderMessage& message) {
      if (message.type != HeaderMessage::kDatatype) return true;
      if (message.shared) damaged("a named type that is itself shared");
      Cursor type(message.body, "a named type");
      bytes = datatype(type, 0);
      return false;
    });
    if (bytes == 0) damaged("a named type without a type");
    return bytes;
  }

  Extent dataspace(Cursor& in) {
    const unsigned version = in.u8(), rank = in.u8(), flags = in.u8();
    if (version < 1 || version > 2) damaged(fmt::format("a dataspace of version {}", version));
    if (rank > 32) damaged(fmt::format("a dataspace of rank {}", rank));
    Extent out;
    if (version == 1)
      in.skip(5);
    else if (in.u8() == 2)
      out.elements = 0;  // null
    for (unsigned d = 0; d < rank; ++d)
      if (__builtin_mul_overflow(out.elements, in.number(format_.length_bytes), &out.elements)) out.known = false;
    if (flags & 0x01) in.skip(rank * static_cast<size_t>(format_.length_bytes));
    return out;
  }

  void fill(Cursor& in) {
    const unsigned version = in.u8();
    if (version < 1 || version > 3) damaged(fmt::format("a fill value of version {}", version));
    if (version == 3) {
      if (in.u8() & 0x20) sized_fill(in);
      return;
    }
    in.skip(2);
    const unsigned defined = in.u8();
    if (version == 1 || defined) sized_fill(in);
  }

  void sized_fill(Cursor& in) {
    const uint32_t bytes = in.u32();
    if (bytes == 0 || bytes == UINT32_MAX) return;  // the default, or undefined
    in.skip(bytes);
    fill_bytes_ = bytes;
  }

  void compact(Cursor& in) {
    constexpr unsigned kCompact = 0;
    const unsigned version = in.u8();
    if (version >= 3) {
      if (in.u8() != kCompact) return;
      compact_bytes_ = in.u16();
    } else {
      const size_t rank = in.u8();
      if (in.u8() != kCompact) return;
      in.skip(5 + 4 * rank);
      compact_bytes_ = in.u32();
    }
    in.skip(static_cast<size_t>(*compact_bytes_));
  }

  static void filters(Cursor& in) {
    const unsigned version = in.u8(), count = in.u8();
    if (version < 1 || version > 2) damaged(fmt::format("a filter message of version {}", version));
    if (count > kMaxFilters) damaged(fmt::format("{} filters", count));
    if (version == 1) in.skip(6);
    for (unsigned i = 0; i < count; ++i) {
      const unsigned id = in.u16();
      const size_t name_bytes = version == 1 || id >= 256 ? in.u16() : 0;
      in.skip(2);  // flags
      const size_t values = in.u16();
      in.skip(version == 1 ? (name_bytes + 7) / 8 * 8 : name_bytes);
      in.skip(4 * values);
      if (version == 1 && values % 2) in.skip(4);
    }
  }

  void attribute(Cursor& in) {
    const unsigned version = in.u8(), flags = in.u8();
    if (version < 1 || version > 3) damaged(fmt::format("an attribute of version {}", version));
    const size_t name_bytes = in.u16(), type_bytes = in.u16(), space_bytes = in.u16();
    if (version == 3) in.skip(1);  // character set
    const auto padded = [&](size_t bytes) { return version == 1 ? (bytes + 7) / 8 * 8 : bytes; };
    const auto text = in.take(padded(name_bytes)).first(name_bytes);
    if (text.empty() || text.back() != std::byte{0}) damaged("an attribute's name has no end");
    const auto type_message = in.take(padded(type_bytes));
    Cursor type(type_message, "an attribute's type");
    Cursor space(in.take(padded(space_bytes)), "an attribute's dataspace");
    const bool is_variable = type.left() > 0 && (std::to_integer<unsigned>(type_message.front()) & 0x0f) == kVariable;
    const bool shared_types = version > 1 && (flags & 0x01), shared_spaces = version > 1 && (flags & 0x02);
    const auto bytes = static_cast<uint64_t>(shared_types ? shared_type(type) : datatype(type, 0));
    const Extent extent = shared_spaces ? Extent{0, false} : dataspace(space);
    if (shared_spaces) return;
    uint64_t all = 0;
    if (!extent.known || __builtin_mul_overflow(bytes, extent.elements, &all) || all > in.left())
      damaged("an attribute's values do not fit its message");
    if (!shared_types && is_variable) variable_values(in, extent.elements);
  }

  // Each value is a length and a place in the file's heap: (collection, object).
  void variable_values(Cursor& in, uint64_t elements) {
    for (uint64_t i = 0; i < elements; ++i) {
      const uint64_t length = in.u32();  // in values of at least a byte
      const int64_t collection = in.address(format_);
      const unsigned object = in.u32();
      if (collection == kNoAddress || collection == format_.base) continue;  // empty
      const auto& objects = heap(collection);
      const auto found = objects.find(object);
      if (found == objects.end() || length > found->second)
        damaged(fmt::format("object {} of {} values is not in the heap at {}", object, length, collection));
    }
  }

  // The objects of a heap collection and their sizes, which stay inside it.
  const std::map<unsigned, uint64_t>& heap(int64_t address) {
    const auto [at, fresh] = heaps_.try_emplace(address);
    if (!fresh) return at->second;
    constexpr const char* kWhat = "a heap of variable-length values";
    const int64_t head_bytes = 8 + format_.length_bytes;
    const auto head = read_range(file_, address, head_bytes, kWhat);
    Cursor size(head, kWhat);
    size.signature("GCOL");
    size.skip(4);
    const int64_t bytes = size.length(format_);
    heap_bytes_ += bytes;
    if (bytes < head_bytes || bytes > file_.size() || heap_bytes_ > 8 * file_.size()) damaged("a heap of wild size");
    const auto collection = read_range(file_, address, bytes, kWhat);
    Cursor in(collection, kWhat);
    in.skip(static_cast<size_t>(head_bytes));
    const auto object_head = 8 + static_cast<size_t>(format_.length_bytes);
    while (in.left() >= object_head) {
      const unsigned object = in.u16();
      in.skip(6);
      const auto object_bytes = static_cast<uint64_t>(in.length(format_));
      if (object == 0) {  // free space; its size counts its head
        if (object_bytes < object_head) damaged("free space of a heap of no size");
        in.skip(object_bytes - object_head);
      } else {
        if (object_bytes > static_cast<uint64_t>(bytes)) damaged("a heap object larger than its heap");
        in.skip((object_bytes + 7) / 8 * 8);
        if (!at->second.emplace(object, object_bytes).second)
          damaged(fmt::format("heap object {} is there twice", object));
      }
    }
    return at->second;
  }

  const ByteSource& file_;
  const FileFormat& format_;
  int64_t element_bytes_ = 0, fill_bytes_ = 0, chunk_item_bytes_ = 0;
  std::optional<int64_t> compact_bytes_;
  Extent extent_;
  bool attributes_sound_ = true;
  std::map<int64_t, std::map<unsigned, uint64_t>> heaps_;
  int64_t heap_bytes_ = 0;
};

}  // namespace

bool check_object_header(const ByteSource& file, const FileFormat& format, int64_t header) {
  return Checker(file, format).run(header);
}

}  // namespace quarry::io::hdf5
