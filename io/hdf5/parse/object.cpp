#include "quarry/io/hdf5/parse/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "quarry/io/hdf5/parse/heaps.h"
#include "quarry/io/hdf5/parse/object_header.h"
#include "quarry/io/hdf5/parse/parser.h"
#include "quarry/io/hdf5/parse/record_tree.h"
#include "quarry/io/hdf5/parse/values.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

constexpr size_t kMaxAttributes = 4096;

Dataspace read_space(Cursor& in, const FileFormat& format) {
  constexpr int kMaxRank = 32;
  constexpr unsigned kHasLimits = 0x01, kScalar = 0, kSimple = 1, kNull = 2;
  const unsigned version = in.u8(), rank = in.u8(), flags = in.u8();
  if (version < 1 || version > 2) damaged(fmt::format("a dataspace of version {}", version));
  if (rank > kMaxRank) damaged(fmt::format("a dataspace of rank {}", rank));
  Dataspace out;
  unsigned kind = rank == 0 ? kScalar : kSimple;
  if (version == 1)
    in.skip(5);
  else
    kind = in.u8();
  if (kind > kNull || (kind != kSimple && rank > 0)) damaged(fmt::format("a dataspace of kind {}", kind));
  out.is_null = kind == kNull;
  out.is_scalar = kind == kScalar || (kind == kSimple && rank == 0);
  const uint64_t none = format.length_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * format.length_bytes) - 1;
  for (unsigned d = 0; d < rank; ++d) out.stated.push_back(in.number(format.length_bytes));
  out.stated_limits = out.stated;
  if (flags & kHasLimits)
    for (uint64_t& limit : out.stated_limits) {
      limit = in.number(format.length_bytes);
      if (limit == none) limit = ~uint64_t{0};
    }
  int64_t product = 1;
  for (const uint64_t extent : out.stated) {
    if (extent > static_cast<uint64_t>(INT64_MAX) ||
        __builtin_mul_overflow(product, static_cast<int64_t>(extent), &product))
      out.countable = false;
  }
  for (unsigned d = 0; out.countable && d < rank; ++d) {
    if (out.stated_limits[d] < out.stated[d]) damaged("a dataspace larger than its limits");
    out.shape.push_back(static_cast<int64_t>(out.stated[d]));
    out.limits.push_back(static_cast<int64_t>(std::min(out.stated_limits[d], static_cast<uint64_t>(kUnlimited))));
  }
  return out;
}

class ObjectReader {
 public:
  explicit ObjectReader(const Metadata& file) : file_(file), format_(file.format()) {}

  Object run(int64_t header) {
    out_.header = header;
    for_each_message(file_.bytes(), format_, header, [&](const HeaderMessage& message) {
      use(message);
      return true;
    });
    if (!out_.fill.empty() && out_.type && std::ssize(out_.fill) != out_.type->bytes)
      damaged(fmt::format("a fill value of {} bytes for elements of {}", out_.fill.size(), out_.type->bytes));
    using enum Object::Kind;
    if (out_.symbols || out_.dense_links || !out_.compact_links.empty() || has_link_info_)
      out_.kind = group;
    else if (out_.type && out_.space && out_.layout)
      out_.kind = dataset;
    else if (out_.type)
      out_.kind = type;
    if (out_.kind == dataset) check_dataset();
    if (out_.dense_attributes) read_dense_attributes();
    return std::move(out_);
  }

 private:
  void use(const HeaderMessage& message) {
    std::vector<std::byte> copy;
    const char* const what = "a message of the object header";
    switch (message.type) {
      case HeaderMessage::kAttribute:
        add_attribute(message);
        return;
      case HeaderMessage::kDataspace:
      case HeaderMessage::kDatatype:
      case HeaderMessage::kOldFill:
      case HeaderMessage::kFill:
      case HeaderMessage::kFilters:
      case HeaderMessage::kLayout:
        break;
      case HeaderMessage::kExternal:
      case HeaderMessage::kLinkInfo:
      case HeaderMessage::kLink:
      case HeaderMessage::kSymbolTable:
      case HeaderMessage::kAttributeInfo:
        if (message.shared) damaged("a message is shared that cannot be");
        break;
      default:  // of no use here
        return;
    }
    const std::span<const std::byte> body = file_.body(message, copy);
    Cursor in(body, what);
    switch (message.type) {
      case HeaderMessage::kDataspace:
        out_.space = read_space(in, format_);
        return;
      case HeaderMessage::kDatatype:
        out_.type = read_type(in, format_);
        return;
      case HeaderMessage::kOldFill:
        if (!newer_fill_) take_fill(in, in.u32());
        return;
      case HeaderMessage::kFill:
        newer_fill_ = true;
        fill(in);
        return;
      case HeaderMessage::kLayout:
        if (message.shared) damaged("a shared layout message");
        out_.layout = parse_layout(body, format_);
        compact(in);
        return;
      case HeaderMessage::kFilters:
        filters(in);
        return;
      case HeaderMessage::kExternal:
        external(in);
        return;
      case HeaderMessage::kLinkInfo:
        link_info(in);
        return;
      case HeaderMessage::kLink:
        out_.compact_links.push_back(read_link(in, format_));
        return;
      case HeaderMessage::kSymbolTable:
        out_.symbols = Object::SymbolTable{};
        out_.symbols->tree = in.address(format_);
        out_.symbols->heap = in.address(format_);
        return;
      case HeaderMessage::kAttributeInfo:
        attribute_info(in);
        return;
      default:
        return;
    }
  }

  void check_dataset() const {
    const int64_t item = out_.layout->itemsize;
    if (item > 0 && item != out_.type->bytes)
      damaged(fmt::format("chunks of elements of {} bytes, which have {}", item, out_.type->bytes));
    if (out_.layout->kind != LayoutMessage::Kind::compact || !out_.space->countable) return;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(out_.space->elements(), out_.type->bytes, &bytes) || bytes > std::ssize(out_.compact))
      damaged(fmt::format("{} elements of {} bytes in compact storage of {}", out_.space->elements(), out_.type->bytes,
                          out_.compact.size()));
  }

  void fill(Cursor& in) {
    const unsigned version = in.u8();
    if (version < 1 || version > 3) damaged(fmt::format("a fill value of version {}", version));
    if (version == 3) {
      constexpr unsigned kDefined = 0x20;
      if (in.u8() & kDefined) take_fill(in, in.u32());
      return;
    }
    in.skip(2);
    const unsigned defined = in.u8();
    if (version == 1 || defined) take_fill(in, in.u32());
  }

  void take_fill(Cursor& in, uint32_t bytes) {
    out_.fill.clear();
    if (bytes == 0 || bytes == UINT32_MAX) return;  // the default, or undefined
    const auto value = in.take(bytes);
    out_.fill.assign(value.begin(), value.end());
  }

  void compact(Cursor& in) {
    constexpr unsigned kCompact = 0;
    const unsigned version = in.u8();
    uint64_t bytes = 0;
    if (version >= 3) {
      if (in.u8() != kCompact) return;
      bytes = in.u16();
    } else {
      const size_t rank = in.u8();
      if (in.u8() != kCompact) return;
      in.skip(5 + 4 * rank);
      bytes = in.u32();
    }
    const auto data = in.take(bytes);
    out_.compact.assign(data.begin(), data.end());
  }

  void filters(Cursor& in) {
    constexpr unsigned kMaxFilters = 32;
    constexpr unsigned kOptional = 0x01;
    const unsigned version = in.u8(), count = in.u8();
    if (version < 1 || version > 2) damaged(fmt::format("a filter message of version {}", version));
    if (count > kMaxFilters) damaged(fmt::format("{} filters", count));
    if (version == 1) in.skip(6);
    for (unsigned i = 0; i < count; ++i) {
      StoredFilter filter;
      filter.id = in.u16();
      const size_t name_bytes = version == 1 || filter.id >= 256 ? in.u16() : 0;
      filter.optional = in.u16() & kOptional;
      const size_t values = in.u16();
      filter.name = fixed_text(in.take(version == 1 ? (name_bytes + 7) / 8 * 8 : name_bytes), Type::Padding::zeros);
      for (size_t v = 0; v < values; ++v) filter.values.push_back(in.u32());
      if (version == 1 && values % 2) in.skip(4);
      out_.filters.push_back(std::move(filter));
    }
  }

  void external(Cursor& in) {
    if (in.u8() != 1) damaged("a list of external files of unknown version");
    in.skip(3);
    const unsigned room = in.u16(), used = in.u16();
    const int64_t heap = in.address(format_);
    if (used > room || heap == kNoAddress) damaged("a list of external files that does not fit");
    const LocalHeap names(file_.bytes(), format_, heap);
    out_.external.emplace();
    for (unsigned i = 0; i < used; ++i) {
      out_.external->push_back(names.text(static_cast<uint64_t>(in.length(format_))));
      in.length(format_);                                  // where in the file
      in.skip(static_cast<size_t>(format_.length_bytes));  // how much of it
    }
  }

  void link_info(Cursor& in) {
    constexpr unsigned kOrdered = 0x01;
    if (in.u8() != 0) damaged("information on links of unknown version");
    const unsigned flags = in.u8();
    if (flags & kOrdered) in.skip(8);
    has_link_info_ = true;
    take_dense(in, out_.dense_links);
  }

  void attribute_info(Cursor& in) {
    constexpr unsigned kOrdered = 0x01;
    if (in.u8() != 0) damaged("information on attributes of unknown version");
    const unsigned flags = in.u8();
    if (flags & kOrdered) in.skip(2);
    take_dense(in, out_.dense_attributes);
  }

  void take_dense(Cursor& in, std::optional<Object::Dense>& out) const {
    Object::Dense dense;
    dense.heap = in.address(format_);
    dense.tree = in.address(format_);
    if (dense.heap != kNoAddress && dense.tree != kNoAddress) out = dense;
  }

 public:
  static Link read_link(Cursor& in, const FileFormat& format) {
    constexpr unsigned kWidth = 0x03, kOrdered = 0x04, kKind = 0x08, kCharacters = 0x10;
    enum : unsigned { kHard = 0, kSoft = 1, kExternal = 64 };
    if (in.u8() != 1) damaged("a link of unknown version");
    const unsigned flags = in.u8();
    const unsigned kind = flags & kKind ? unsigned{in.u8()} : unsigned{kHard};
    if (flags & kOrdered) in.skip(8);
    if (flags & kCharacters) in.skip(1);
    const uint64_t bytes = in.number(1 << (flags & kWidth));
    const auto text = [](std::span<const std::byte> b) {
      return std::string(reinterpret_cast<const char*>(b.data()), b.size());
    };
    Link out;
    out.name = text(in.take(bytes));
    if (out.name.empty() || out.name.find('\0') != std::string::npos) damaged("a link without a proper name");
    if (kind == kHard) {
      const int64_t address = in.address(format);
      if (address == kNoAddress) damaged("a link to nowhere");
      out.header = address - format.base;
      return out;
    }
    Cursor value(in.take(in.u16()), "a link");
    if (kind == kSoft) {
      out.kind = Link::Kind::soft;
      out.target = fixed_text(value.take(value.left()), Type::Padding::zeros);
    } else if (kind == kExternal) {
      out.kind = Link::Kind::external;
      if (value.u8() >> 4 != 0) damaged("an external link of unknown version");
      const std::string both = text(value.take(value.left()));
      const size_t end = both.find('\0');
      if (end == std::string::npos) damaged("an external link without an object");
      out.target_file = both.substr(0, end);
      out.target = both.substr(end + 1, both.find('\0', end + 1) - end - 1);
    } else {
      out.kind = Link::Kind::other;
    }
    return out;
  }

 private:
  // A damaged one is left out: what it belongs to is read without it.
  void add_attribute(const HeaderMessage& message) {
    if (out_.attributes.size() >= kMaxAttributes) return;
    try {
      std::vector<std::byte> copy;
      attribute(file_.body(message, copy));
    } catch (const local::IoError& error) {
      if (out_.attributes_reason.empty()) out_.attributes_reason = error.what();
    }
  }

  void attribute(std::span<const std::byte> body) {
    constexpr unsigned kSharedType = 0x01, kSharedSpace = 0x02;
    Cursor in(body, "an attribute");
    const unsigned version = in.u8(), flags = in.u8();
    if (version < 1 || version > 3) damaged(fmt::format("an attribute of version {}", version));
    const size_t name_bytes = in.u16(), type_bytes = in.u16(), space_bytes = in.u16();
    if (version == 3) in.skip(1);  // character set
    const auto padded = [&](size_t bytes) { return version == 1 ? (bytes + 7) / 8 * 8 : bytes; };
    const auto text = in.take(padded(name_bytes)).first(name_bytes);
    if (text.empty() || text.back() != std::byte{0}) damaged("an attribute's name has no end");
    const std::string name = fixed_text(text, Type::Padding::zeros);
    const auto part = [&](size_t bytes, bool shared, unsigned type) {
      const auto message = in.take(padded(bytes));
      if (!shared) return std::vector<std::byte>(message.begin(), message.end());
      Cursor reference(message, "an attribute's type");
      return file_.shared_body(type, reference);
    };
    const auto type_message = part(type_bytes, version > 1 && (flags & kSharedType), HeaderMessage::kDatatype);
    const auto space_message = part(space_bytes, version > 1 && (flags & kSharedSpace), HeaderMessage::kDataspace);
    Cursor type_in(type_message, "an attribute's type"), space_in(space_message, "an attribute's dataspace");
    const Type type = read_type(type_in, format_);
    const Dataspace space = read_space(space_in, format_);
    int64_t bytes = 0;
    if (!space.countable || __builtin_mul_overflow(space.elements(), type.bytes, &bytes) ||
        static_cast<uint64_t>(bytes) > in.left())
      damaged(fmt::format("the values of attribute '{}' do not fit its message", name));
    if (space.is_null) return;
    auto value =
        read_attribute_value(file_, type, space.elements(), space.is_scalar, in.take(static_cast<size_t>(bytes)));
    if (!value) return;
    text_bytes_ += text_bytes(*value);
    if (text_bytes_ > file_.bytes().size()) damaged("the texts of attributes are longer than the file");
    out_.attributes.emplace(name, std::move(*value));
  }

  void read_dense_attributes() {
    constexpr size_t kIdBytes = 8;
    constexpr unsigned kShared = 0x02;
    try {
      FractalHeap heap(file_.bytes(), format_, out_.dense_attributes->heap);
      BlockReader blocks(file_.bytes());
      for_each_record(
          blocks, format_, out_.dense_attributes->tree, record_type::kAttributeName,
          [](int64_t bytes) {
            if (bytes != 8 + 1 + 4 + 4) damaged("records of attributes");
          },
          [&](Cursor& record) {
            const auto id = record.take(kIdBytes);
            const bool shared = record.u8() & kShared;
            if (out_.attributes.size() >= kMaxAttributes) return;
            try {
              attribute(shared ? file_.message_of_heap(HeaderMessage::kAttribute, id) : heap.object(id));
            } catch (const local::IoError& error) {
              if (out_.attributes_reason.empty()) out_.attributes_reason = error.what();
            }
          });
    } catch (const local::Error& error) {
      if (out_.attributes_reason.empty()) out_.attributes_reason = error.what();
    }
  }

  const Metadata& file_;
  const FileFormat& format_;
  Object out_;
  bool newer_fill_ = false, has_link_info_ = false;
  int64_t text_bytes_ = 0;
};

// The links of a group. Their names and targets are in the file once each, so that all together are no longer than it.
class LinkCollector {
 public:
  LinkCollector(const ByteSource& file, std::vector<Link> links) : left_(file.size()), links_(std::move(links)) {}
  void add(Link link) {
    left_ -= std::ssize(link.name) + std::ssize(link.target) + std::ssize(link.target_file);
    if (left_ < 0) damaged("the names of links are longer than the file");
    links_.push_back(std::move(link));
  }
  std::vector<Link> take() { return std::move(links_); }

 private:
  int64_t left_;
  std::vector<Link> links_;
};

// Groups as before HDF5 1.8: a B-tree of version 1 over nodes of entries, whose names are in a heap.
class SymbolWalk {
 public:
  SymbolWalk(const Metadata& file, const Object::SymbolTable& symbols, LinkCollector& out)
      : file_(file), format_(file.format()), blocks_(file.bytes()), names_(heap_of(file, symbols)), out_(out) {
    if (symbols.tree == kNoAddress) damaged("a group without a B-tree");
    node(symbols.tree, -1);
  }

 private:
  static LocalHeap heap_of(const Metadata& file, const Object::SymbolTable& symbols) {
    if (symbols.heap == kNoAddress) damaged("a group without a heap of names");
    return {file.bytes(), file.format(), symbols.heap};
  }

  // Levels count down to 0 from parent to child, so depth is bounded by the level's one byte.
  void node(int64_t address, int expected_level) {
    constexpr const char* kWhat = "a node of a group";
    const int64_t head_bytes = 8 + 2 * format_.offset_bytes;
    const auto head_block = read_range(file_.bytes(), address, head_bytes, kWhat);
    Cursor head(head_block, kWhat);
    head.signature("TREE");
    if (head.u8() != 0) damaged("a node of a group is of another kind");
    const int level = head.u8();
    const int entries = head.u16();
    if (expected_level >= 0 && level != expected_level)
      damaged(fmt::format("a node of a group has level {} instead of {}", level, expected_level));
    const int64_t bytes = head_bytes + entries * (format_.length_bytes + format_.offset_bytes);
    blocks_.count(address, bytes);
    const auto block = read_range(file_.bytes(), address, bytes, kWhat);
    Cursor in(block, kWhat);
    in.skip(static_cast<size_t>(head_bytes));
    for (int i = 0; i < entries; ++i) {
      in.skip(static_cast<size_t>(format_.length_bytes));
      const int64_t child = in.address(format_);
      if (child == kNoAddress) damaged("a node of a group has no child");
      if (level > 0)
        node(child, level - 1);
      else
        leaf(child);
    }
  }

  void leaf(int64_t address) {
    constexpr const char* kWhat = "the entries of a group";
    constexpr int64_t kHead = 8, kScratch = 16;
    const int64_t entry = 2 * format_.offset_bytes + 4 + 4 + kScratch;
    const auto head_block = read_range(file_.bytes(), address, kHead, kWhat);
    Cursor head(head_block, kWhat);
    head.signature("SNOD");
    if (head.u8() != 1) damaged("entries of a group of unknown version");
    head.skip(1);
    const int64_t entries = head.u16();
    blocks_.count(address, kHead + entries * entry);
    const auto block = read_range(file_.bytes(), address + kHead, entries * entry, kWhat);
    Cursor in(block, kWhat);
    for (int64_t i = 0; i < entries; ++i) {
      constexpr unsigned kSoft = 2;
      Link link;
      const uint64_t name = in.number(format_.offset_bytes);
      const int64_t header = in.address(format_);
      const unsigned cached = in.u32();
      in.skip(4);
      Cursor scratch(in.take(kScratch), kWhat);
      link.name = names_.text(name);
      if (link.name.empty()) damaged("a link without a name");
      if (cached == kSoft) {
        link.kind = Link::Kind::soft;
        link.target = names_.text(scratch.u32());
      } else if (header == kNoAddress) {
        damaged("a link to nowhere");
      } else {
        link.header = header - format_.base;
      }
      out_.add(std::move(link));
    }
  }

  const Metadata& file_;
  const FileFormat& format_;
  BlockReader blocks_;
  const LocalHeap names_;
  LinkCollector& out_;
};

}  // namespace

int64_t Dataspace::elements() const { return is_null ? 0 : local::element_count(shape); }

Object read_object(const Metadata& file, int64_t header) { return ObjectReader(file).run(header); }

std::vector<Link> read_links(const Metadata& file, const Object& group) {
  LinkCollector found(file.bytes(), group.compact_links);
  if (group.symbols) SymbolWalk(file, *group.symbols, found);
  if (group.dense_links) {
    constexpr size_t kHashBytes = 4;
    FractalHeap heap(file.bytes(), file.format(), group.dense_links->heap);
    BlockReader blocks(file.bytes());
    for_each_record(
        blocks, file.format(), group.dense_links->tree, record_type::kLinkName,
        [&](int64_t bytes) {
          if (bytes != static_cast<int64_t>(kHashBytes + heap.id_bytes())) damaged("records of links");
        },
        [&](Cursor& record) {
          record.skip(kHashBytes);
          const auto message = heap.object(record.take(heap.id_bytes()));
          Cursor in(message, "a link");
          found.add(ObjectReader::read_link(in, file.format()));
        });
  }
  std::vector<Link> links = found.take();
  std::ranges::sort(links, {}, &Link::name);
  return links;
}

}  // namespace quarry::io::hdf5
