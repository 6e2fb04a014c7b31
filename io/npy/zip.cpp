#include "quarry/io/npy/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "quarry/local/base/error.h"

namespace quarry::io::npy {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr int64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint64_t kLongestDirectory = 64 << 20;  // of half a million members
constexpr int64_t kLongestComment = 0xffff;
constexpr uint32_t kSmall = 0xffffffff;   // a size that is in the ZIP64 field
constexpr uint16_t kSmallCount = 0xffff;  // the same of the number of members
constexpr uint16_t kExtra64 = 1;          // the id of that field
constexpr uint16_t kUtf8 = 1 << 11, kEncrypted = 1;
constexpr uint16_t kVersion = 20, kVersion64 = 45, kUnix = 3 << 8;
constexpr uint16_t kFirstDay = 0x21;  // 1980-01-01, as numpy.savez() writes it

// Little-endian fields of a record one after the other.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    QUARRY_CHECK(at_ + sizeof(T) <= bytes_.size());
    uint64_t value = 0;
    for (size_t i = sizeof(T); i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes_[at_ + i]);
    at_ += sizeof(T);
    return static_cast<T>(value);
  }
  size_t left() const { return bytes_.size() - at_; }
  std::span<const std::byte> take(size_t count) {
    QUARRY_CHECK(count <= left());
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }

 private:
  const std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}

std::vector<std::byte> read(const ByteSource& file, int64_t offset, int64_t bytes) {
  std::vector<std::byte> out(static_cast<size_t>(bytes));
  if (bytes > 0) file.read_at(offset, out);
  return out;
}

// Where the directory is.
struct End {
  uint64_t count = 0, bytes = 0, offset = 0;
  int64_t at = 0;  // behind the directory
};

class Reader {
 public:
  Reader(const ByteSource& file, const std::string& name) : file_(file), name_(name) {}

  ZipDirectory directory() {
    const End end = find_end();
    const auto limit = static_cast<uint64_t>(end.at);
    if (end.bytes > limit || end.offset > limit - end.bytes) fail("its directory lies outside of the file");
    if (end.count > end.bytes / kCentralBytes) fail("its directory is too short for its members");
    if (end.bytes > kLongestDirectory) fail(fmt::format("its directory of {} bytes is too long", end.bytes));
    // Something may stand before the archive, which its offsets do not count.
    shift_ = static_cast<int64_t>(limit - end.bytes - end.offset);
    ZipDirectory out;
    out.offset = end.at - static_cast<int64_t>(end.bytes);
    const std::vector<std::byte> bytes = read(file_, out.offset, static_cast<int64_t>(end.bytes));
    Fields fields(bytes);
    int64_t room = out.offset;
    for (uint64_t i = 0; i < end.count; ++i) {
      out.members.push_back(member(fields, out.offset));
      room -= out.members.back().stored_bytes;
      if (room < 0) fail("its members overlap");
    }
    return out;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw local::IoError(fmt::format("'{}' is damaged: {}", name_, what));
  }

 private:
  End find_end() const {
    const int64_t size = file_.size(), bytes = std::min(size, kEndBytes + kLongestComment);
    const std::vector<std::byte> tail = read(file_, size - bytes, bytes);
    for (int64_t at = bytes - kEndBytes; at >= 0; --at) {
      Fields fields{std::span(tail).subspan(static_cast<size_t>(at))};
      if (fields.get<uint32_t>() != kEnd) continue;
      fields.take(6);
      End end;
      end.count = fields.get<uint16_t>();
      end.bytes = fields.get<uint32_t>();
      end.offset = fields.get<uint32_t>();
      const auto comment = fields.get<uint16_t>();
      if (fields.left() != comment) continue;
      end.at = size - bytes + at;
      if (end.count == kSmallCount || end.bytes == kSmall || end.offset == kSmall) find_end64(end);
      return end;
    }
    fail("it has no ZIP directory, or is truncated");
  }

  void find_end64(End& end) const {
    const int64_t at = end.at - kLocatorBytes;
    if (at < kEnd64Bytes) return;
    const std::vector<std::byte> locator = read(file_, at, kLocatorBytes);
    Fields fields(locator);
    if (fields.get<uint32_t>() != kLocator64) return;
    const std::vector<std::byte> record = read(file_, at - kEnd64Bytes, kEnd64Bytes);
    Fields values(record);
    if (values.get<uint32_t>() != kEnd64) fail("its ZIP64 directory is not where it should be");
    values.take(28);
    end.count = values.get<uint64_t>();
    end.bytes = values.get<uint64_t>();
    end.offset = values.get<uint64_t>();
    end.at = at - kEnd64Bytes;
  }

  ZipMember member(Fields& fields, int64_t behind) const {
    if (fields.left() < kCentralBytes || fields.get<uint32_t>() != kCentral)
      fail("its directory is no list of members");
    fields.take(4);
    ZipMember out;
    const auto flags = fields.get<uint16_t>();
    out.encrypted = (flags & kEncrypted) != 0;
    out.method = fields.get<uint16_t>();
    fields.take(4);
    out.crc32 = fields.get<uint32_t>();
    uint64_t stored = fields.get<uint32_t>(), bytes = fields.get<uint32_t>();
    const auto name = fields.get<uint16_t>(), extra = fields.get<uint16_t>(), comment = fields.get<uint16_t>();
    fields.take(8);
    uint64_t offset = fields.get<uint32_t>();
    if (fields.left() < size_t{name} + extra + comment) fail("its directory is no list of members");
    const auto text = fields.take(name);
    out.name.assign(reinterpret_cast<const char*>(text.data()), text.size());
    Fields extras(fields.take(extra));
    fields.take(comment);
    while (extras.left() >= 4) {
      const auto id = extras.get<uint16_t>(), length = extras.get<uint16_t>();
      if (length > extras.left()) break;
      Fields field(extras.take(length));
      if (id != kExtra64) continue;
      for (uint64_t* value : {&bytes, &stored, &offset})
        if (*value == kSmall && field.left() >= sizeof(uint64_t)) *value = field.get<uint64_t>();
    }
    const auto limit = static_cast<uint64_t>(behind - shift_);
    if (offset > limit || stored > limit - offset)
      fail(fmt::format("its member '{}' lies outside of the file", out.name));
    if (bytes > static_cast<uint64_t>(INT64_MAX) || (out.method == ZipMember::kStored && bytes != stored))
      fail(fmt::format("its member '{}' has sizes that contradict each other", out.name));
    out.stored_bytes = static_cast<int64_t>(stored);
    out.bytes = static_cast<int64_t>(bytes);
    out.header_offset = static_cast<int64_t>(offset) + shift_;
    return out;
  }

  const ByteSource& file_;
  const std::string& name_;
  int64_t shift_ = 0;
};

// Sizes of 64 bits, in the order of the specification.
std::string extra_field(std::initializer_list<int64_t> values) {
  std::string out;
  put(out, kExtra64);
  put(out, static_cast<uint16_t>(values.size() * sizeof(uint64_t)));
  for (const int64_t value : values) put(out, static_cast<uint64_t>(value));
  return out;
}

// What both headers of a member have in the middle.
void put_description(std::string& out, const ZipMember& member, bool is_large, bool sizes_elsewhere) {
  put(out, is_large ? kVersion64 : kVersion);
  put(out, kUtf8);
  put(out, static_cast<uint16_t>(member.method));
  put(out, uint16_t{0});
  put(out, kFirstDay);
  put(out, member.crc32);
  put(out, sizes_elsewhere ? kSmall : static_cast<uint32_t>(member.stored_bytes));
  put(out, sizes_elsewhere ? kSmall : static_cast<uint32_t>(member.bytes));
  put(out, static_cast<uint16_t>(member.name.size()));
}

}  // namespace

ZipDirectory read_zip(const ByteSource& file, const std::string& name) { return Reader(file, name).directory(); }

int64_t member_offset(const ByteSource& file, const ZipDirectory& directory, const ZipMember& member,
                      const std::string& name) {
  const Reader reader(file, name);
  const auto fail = [&] {
    reader.fail(fmt::format("the header of its member '{}' is not where the directory says", member.name));
  };
  if (member.header_offset > directory.offset - kLocalBytes) fail();
  const std::vector<std::byte> bytes = read(file, member.header_offset, kLocalBytes);
  Fields fields(bytes);
  if (fields.get<uint32_t>() != kLocal) fail();
  fields.take(22);
  const auto name_bytes = fields.get<uint16_t>(), extra_bytes = fields.get<uint16_t>();
  const int64_t offset = member.header_offset + kLocalBytes + name_bytes + extra_bytes;
  if (offset > directory.offset || member.stored_bytes > directory.offset - offset) fail();
  return offset;
}

std::string zip_local_header(const ZipMember& member, bool is_large) {
  std::string out;
  put(out, kLocal);
  put_description(out, member, is_large, is_large);
  const std::string extra = is_large ? extra_field({member.bytes, member.stored_bytes}) : "";
  put(out, static_cast<uint16_t>(extra.size()));
  return out + member.name + extra;
}

std::string zip_directory(const std::vector<ZipMember>& members, int64_t offset) {
  std::string out;
  for (const ZipMember& member : members) {
    const bool is_large = std::max({member.bytes, member.stored_bytes, member.header_offset}) >= int64_t{kSmall};
    const std::string extra =
        is_large ? extra_field({member.bytes, member.stored_bytes, member.header_offset}) : std::string();
    put(out, kCentral);
    put(out, static_cast<uint16_t>(kUnix | (is_large ? kVersion64 : kVersion)));
    put_description(out, member, is_large, is_large);
    put(out, static_cast<uint16_t>(extra.size()));
    put(out, uint16_t{0});  // comment
    put(out, uint16_t{0});  // disk
    put(out, uint16_t{0});  // not text
    constexpr uint32_t kMode = 0600;
    put(out, kMode << 16);
    put(out, is_large ? kSmall : static_cast<uint32_t>(member.header_offset));
    out += member.name + extra;
  }
  const auto bytes = static_cast<int64_t>(out.size()), count = std::ssize(members);
  const int64_t end = offset + bytes;
  const bool is_large = count >= kSmallCount || bytes >= int64_t{kSmall} || offset >= int64_t{kSmall};
  if (is_large) {
    put(out, kEnd64);
    put(out, static_cast<uint64_t>(kEnd64Bytes - 12));
    put(out, static_cast<uint16_t>(kUnix | kVersion64));
    put(out, kVersion64);
    put(out, uint32_t{0});
    put(out, uint32_t{0});
    put(out, static_cast<uint64_t>(count));
    put(out, static_cast<uint64_t>(count));
    put(out, static_cast<uint64_t>(bytes));
    put(out, static_cast<uint64_t>(offset));
    put(out, kLocator64);
    put(out, uint32_t{0});
    put(out, static_cast<uint64_t>(end));
    put(out, uint32_t{1});
  }
  put(out, kEnd);
  put(out, uint16_t{0});
  put(out, uint16_t{0});
  put(out, static_cast<uint16_t>(is_large ? kSmallCount : count));
  put(out, static_cast<uint16_t>(is_large ? kSmallCount : count));
  put(out, is_large ? kSmall : static_cast<uint32_t>(bytes));
  put(out, is_large ? kSmall : static_cast<uint32_t>(offset));
  put(out, uint16_t{0});
  return out;
}

}  // namespace quarry::io::npy
