#include "quarry/io/hdf5/parse/datatype.h"

#include <fmt/format.h>

#include <algorithm>

namespace quarry::io::hdf5 {
namespace {

constexpr int kMaxTypeDepth = 32;

class TypeReader {
 public:
  TypeReader(Cursor& in, const FileFormat& format) : in_(in), format_(format) {}

  Type read(int depth) {
    if (depth > kMaxTypeDepth) damaged("types are nested too deeply");
    const unsigned head = in_.u8(), version = head >> 4, kind = head & 0x0f;
    if (version < 1 || version > 5) damaged(fmt::format("a type message of version {}", version));
    const uint64_t bits = in_.number(3);
    Type out;
    out.bytes = in_.u32();
    if (out.bytes == 0) damaged("a type of no size");
    using enum Type::Kind;
    static constexpr Type::Kind kKinds[] = {integer,  real,      time,        text,     bitfield, opaque,
                                            compound, reference, enumeration, sequence, array,    complex};
    if (kind >= std::size(kKinds)) damaged(fmt::format("a type of class {}", kind));
    out.kind = kKinds[kind];
    switch (out.kind) {
      case integer:
      case bitfield:
        out.order = bits & 1 ? Type::Order::big : Type::Order::little;
        out.is_signed = out.kind == integer && (bits & 8) != 0;
        number_bits(out);
        break;
      case real:
        float_parts(out, bits);
        break;
      case time:
        in_.skip(2);
        break;
      case text:
        out.is_text = true;
        out.padding = padding(bits & 0x0f);
        break;
      case reference:
        break;
      case opaque:  // with a tag
        in_.skip(bits & 0xff);
        break;
      case compound:
        members(out, version, bits & 0xffff, depth);
        break;
      case enumeration:
        values(out, version, bits & 0xffff, depth);
        break;
      case sequence:  // a length and a place in the heap
        if (out.bytes != 8 + format_.offset_bytes)
          damaged(fmt::format("a variable-length type of {} bytes", out.bytes));
        out.is_text = (bits & 0x0f) == 1;
        out.padding = padding((bits >> 4) & 0x0f);
        out.parts.push_back(read(depth + 1));
        break;
      case array:
        extents(out, version, depth);
        break;
      case complex:
        out.parts.push_back(read(depth + 1));
        if (out.part().kind != real || 2 * out.part().bytes != out.bytes)
          damaged(fmt::format("a complex type of {} bytes of parts of {}", out.bytes, out.part().bytes));
        break;
    }
    return out;
  }

 private:
  static Type::Padding padding(uint64_t bits) {
    return bits == 1 ? Type::Padding::zeros : bits == 2 ? Type::Padding::spaces : Type::Padding::terminator;
  }

  // Ends with a zero byte; up to version 2 it is padded to eight bytes.
  std::string name(bool padded) {
    std::string out;
    for (uint8_t c = in_.u8(); c != 0; c = in_.u8()) out += static_cast<char>(c);
    if (padded) in_.skip((8 - (out.size() + 1) % 8) % 8);
    return out;
  }

  void number_bits(Type& out) {
    out.offset = in_.u16();
    out.precision = in_.u16();
    if (out.precision == 0 || out.offset + out.precision > 8 * out.bytes)
      damaged(fmt::format("a number of {} bits at {} in {} bytes", out.precision, out.offset, out.bytes));
  }

  void float_parts(Type& out, uint64_t bits) {
    constexpr uint64_t kBig = 0x01, kVax = 0x41;
    constexpr uint64_t kImplied = 2;
    const uint64_t order = bits & kVax;
    out.order = order == 0 ? Type::Order::little : order == kBig ? Type::Order::big : Type::Order::other;
    out.implied = ((bits >> 4) & 3) == kImplied;
    out.sign = static_cast<int64_t>((bits >> 8) & 0xff);
    number_bits(out);
    out.exponent = in_.u8();
    out.exponent_bits = in_.u8();
    out.mantissa = in_.u8();
    out.mantissa_bits = in_.u8();
    out.bias = in_.u32();
    if (out.exponent_bits == 0 || out.mantissa_bits == 0 || out.exponent + out.exponent_bits > 8 * out.bytes ||
        out.mantissa + out.mantissa_bits > 8 * out.bytes || out.sign >= 8 * out.bytes)
      damaged("a float whose parts do not fit");
  }

  static int64_t copies_of(const std::vector<int64_t>& extents) {
    int64_t copies = 1;
    for (const int64_t extent : extents)
      if (extent == 0 || __builtin_mul_overflow(copies, extent, &copies)) damaged("an array type of no or wild extent");
    return copies;
  }

  void members(Type& out, unsigned version, uint64_t count, int depth) {
    if (count == 0) damaged("a compound of no members");
    int width = 4;
    if (version >= 3) width = out.bytes < 256 ? 1 : out.bytes < 65536 ? 2 : out.bytes < (1 << 24) ? 3 : 4;
    for (uint64_t i = 0; i < count; ++i) {
      out.names.push_back(name(version < 3));
      const auto place = static_cast<int64_t>(in_.number(width));
      Type around;
      around.kind = Type::Kind::array;
      if (version == 1) {
        const unsigned rank = in_.u8();
        if (rank > 4) damaged(fmt::format("a compound member of rank {}", rank));
        in_.skip(3 + 4 + 4);
        for (unsigned d = 0; d < 4; ++d) {
          const int64_t extent = in_.u32();
          if (d < rank) around.extents.push_back(extent);
        }
      }
      Type member = read(depth + 1);
      int64_t all = 0;
      if (__builtin_mul_overflow(member.bytes, copies_of(around.extents), &all) || place > out.bytes ||
          all > out.bytes - place)
        damaged(fmt::format("a compound member of {} bytes at {} of {}", member.bytes, place, out.bytes));
      out.places.push_back(place);
      if (around.extents.empty()) {
        out.parts.push_back(std::move(member));
        continue;
      }
      around.bytes = all;
      around.parts.push_back(std::move(member));
      out.parts.push_back(std::move(around));
    }
  }

  void values(Type& out, unsigned version, uint64_t count, int depth) {
    out.parts.push_back(read(depth + 1));
    if (out.part().bytes != out.bytes)
      damaged(fmt::format("an enum of {} bytes over values of {}", out.bytes, out.part().bytes));
    if (count == 0) damaged("an enum of no members");
    for (uint64_t i = 0; i < count; ++i) out.names.push_back(name(version < 3));
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(out.bytes), count, &bytes)) damaged("an enum of wild size");
    const auto values = in_.take(bytes);
    out.values.assign(values.begin(), values.end());
  }

  void extents(Type& out, unsigned version, int depth) {
    const unsigned rank = in_.u8();
    if (rank > 32) damaged(fmt::format("an array type of rank {}", rank));
    if (version < 3) in_.skip(3);
    for (unsigned d = 0; d < rank; ++d) out.extents.push_back(in_.u32());
    if (version < 3) in_.skip(4 * static_cast<size_t>(rank));
    const int64_t copies = copies_of(out.extents);
    out.parts.push_back(read(depth + 1));
    int64_t all = 0;
    if (__builtin_mul_overflow(out.part().bytes, copies, &all) || all != out.bytes)
      damaged(fmt::format("an array type of {} times {} bytes in {}", copies, out.part().bytes, out.bytes));
  }

  Cursor& in_;
  const FileFormat& format_;
};

}  // namespace

Type read_type(Cursor& in, const FileFormat& format) { return TypeReader(in, format).read(0); }

}  // namespace quarry::io::hdf5
