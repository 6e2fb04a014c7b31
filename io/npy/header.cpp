#include "quarry/io/npy/header.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <variant>

#include "quarry/local/base/error.h"

namespace quarry::io::npy {
namespace {

using local::Dims;
using local::DType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kLongestHeader = 1 << 20;  // of ten thousand fields; NumPy itself reads 10 000 bytes
constexpr int64_t kMostPaths = 16 << 20;     // bytes of the fields' paths, which repeat the names around them
constexpr int kDeepest = 32;                 // of literals in each other
constexpr int64_t kAlignment = 64;           // of the data

// --- Python literals ---

struct Literal;
struct Sequence {
  std::vector<Literal> items;
  bool is_tuple = false;
};
struct Pairs;
struct Literal {
  std::variant<std::monostate, bool, int64_t, std::string, Sequence, std::shared_ptr<Pairs>> value;  // monostate: None

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};
struct Pairs {
  std::vector<std::pair<Literal, Literal>> items;
};

class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : text_(text) {}

  Literal whole() {
    Literal literal = parse(0);
    skip_space();
    if (at_ != text_.size()) fail("text behind the dictionary");
    return literal;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw local::IoError(fmt::format("{} at character {}", what, at_));
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n\f").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Literal parse(int depth) {
    if (depth > kDeepest) fail("brackets that are too deep");
    skip_space();
    if (at_ >= text_.size()) fail("an end that is not expected");
    const char c = text_[at_];
    if (take('(')) return {sequence(')', depth)};
    if (take('[')) return {sequence(']', depth)};
    if (take('{')) return {pairs(depth)};
    if (c == '\'' || c == '"') return {string()};
    if (c == '-' || (c >= '0' && c <= '9')) return {integer()};
    if (take("True")) return {true};
    if (take("False")) return {false};
    if (take("None")) return {};
    if ((c == 'u' || c == 'b') && at_ + 1 < text_.size() && (text_[at_ + 1] == '\'' || text_[at_ + 1] == '"')) {
      ++at_;  // Python 2
      return {string()};
    }
    fail("something that is no literal");
  }

  Sequence sequence(char end, int depth) {
    Sequence out;
    out.is_tuple = end == ')';
    bool comma = false;
    while (!take(end)) {
      if (!out.items.empty() && !comma) fail("a missing comma");
      out.items.push_back(parse(depth + 1));
      comma = take(',');
    }
    // (x) is x.
    if (out.is_tuple && out.items.size() == 1 && !comma) out.is_tuple = false;
    return out;
  }

  std::shared_ptr<Pairs> pairs(int depth) {
    auto out = std::make_shared<Pairs>();
    bool comma = true;
    while (!take('}')) {
      if (!comma) fail("a missing comma");
      Literal key = parse(depth + 1);
      if (!take(':')) fail("a missing colon");
      out->items.emplace_back(std::move(key), parse(depth + 1));
      comma = take(',');
    }
    return out;
  }

  std::string string() {
    const char quote = text_[at_++];
    std::string out;
    for (;;) {
      if (at_ >= text_.size() || text_[at_] == '\n') fail("a text without an end");
      const char c = text_[at_++];
      if (c == quote) return out;
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      if (at_ >= text_.size()) fail("a text without an end");
      escape(text_[at_++], out);
    }
  }

  void escape(char c, std::string& out) {
    int digits = 0;
    switch (c) {
      case '\\':
      case '\'':
      case '"':
        out.push_back(c);
        return;
      case 'n':
        out.push_back('\n');
        return;
      case 't':
        out.push_back('\t');
        return;
      case 'r':
        out.push_back('\r');
        return;
      case 'x':
        digits = 2;
        break;
      case 'u':
        digits = 4;
        break;
      case 'U':
        digits = 8;
        break;
      default:
        fail("an unknown escape");
    }
    uint32_t code = 0;
    const auto hex = text_.substr(at_, static_cast<size_t>(digits));
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (error != std::errc{} || end != hex.data() + digits) fail("an unknown escape");
    at_ += static_cast<size_t>(digits);
    put_utf8(code, out);
  }

  int64_t integer() {
    int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("a number that is too large");
    if (error != std::errc{}) fail("something that is no number");
    at_ += static_cast<size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2
    if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e')) fail("a number that is not whole");
    return value;
  }

 public:
  static void put_utf8(uint32_t code, std::string& out) {
    constexpr uint32_t kContinuation = 0x80, kSix = 0x3f;
    const auto rest = [&](int count) {
      while (count-- > 0) out.push_back(static_cast<char>(kContinuation | (code >> (6 * count) & kSix)));
    };
    if (code < 0x80) {
      out.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      out.push_back(static_cast<char>(0xc0 | code >> 6));
      rest(1);
    } else if (code < 0x10000) {
      out.push_back(static_cast<char>(0xe0 | code >> 12));
      rest(2);
    } else {
      out.push_back(static_cast<char>(0xf0 | (code >> 18 & 7)));
      rest(3);
    }
  }

 private:
  const std::string_view text_;
  size_t at_ = 0;
};

// --- dtypes ---

// A type by NumPy's kind and bytes.
struct TypeRow {
  DType dtype;
  std::string_view code;
};
constexpr TypeRow kTypes[] = {
    {DType::bool_, "b1"},     {DType::int8, "i1"},        {DType::int16, "i2"},    {DType::int32, "i4"},
    {DType::int64, "i8"},     {DType::uint8, "u1"},       {DType::uint16, "u2"},   {DType::uint32, "u4"},
    {DType::uint64, "u8"},    {DType::float16, "f2"},     {DType::float32, "f4"},  {DType::float64, "f8"},
    {DType::complex64, "c8"}, {DType::complex128, "c16"}, {DType::bfloat16, "V2"},
};

std::string units_word(std::string_view code) {
  constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
      {"Y", "years"},         {"M", "months"},       {"W", "weeks"},        {"D", "days"},
      {"h", "hours"},         {"m", "minutes"},      {"s", "seconds"},      {"ms", "milliseconds"},
      {"us", "microseconds"}, {"ns", "nanoseconds"}, {"ps", "picoseconds"}, {"fs", "femtoseconds"},
      {"as", "attoseconds"},
  };
  for (const auto& [unit, word] : kUnits)
    if (unit == code) return std::string(word);
  return {};
}

class Types {
 public:
  explicit Types(std::vector<Field>& fields) : fields_(fields) {}

  // Adds the fields of a type at `offset` of the record; returns its bytes.
  int64_t add(const Literal& descr, const std::string& path, int64_t offset, const Dims& subarray, int depth) {
    if (depth > kDeepest) fail("records that are too deep");
    if (const auto* code = descr.as<std::string>()) return add_code(*code, path, offset, subarray);
    const auto* list = descr.as<Sequence>();
    if (!list || list->is_tuple) fail("its descr is neither a text nor a list of fields");
    int64_t bytes = 0;
    for (const Literal& item : list->items)
      bytes = sum(bytes, add_field(item, path, sum(offset, bytes), subarray, depth));
    return bytes;
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw local::IoError(what); }
  static int64_t sum(int64_t a, int64_t b) {
    int64_t out = 0;
    if (__builtin_add_overflow(a, b, &out)) fail("its records are too large");
    return out;
  }

  int64_t add_field(const Literal& literal, const std::string& path, int64_t offset, const Dims& outer, int depth) {
    const auto* field = literal.as<Sequence>();
    if (!field || !field->is_tuple || field->items.size() < 2 || field->items.size() > 3)
      fail("a field of its descr is no tuple of a name and a type");
    const auto* name = field->items[0].as<std::string>();
    if (const auto* titled = field->items[0].as<Sequence>(); titled && titled->items.size() == 2)
      name = titled->items[1].as<std::string>();
    if (!name) fail("a field of its descr has no name");
    Dims subarray = outer;
    int64_t count = 1;
    if (field->items.size() == 3) {
      Sequence extents;
      if (const auto* extent = field->items[2].as<int64_t>()) {
        extents.items.push_back({*extent});
      } else if (const auto* several = field->items[2].as<Sequence>()) {
        extents = *several;
      } else {
        fail("a field of its descr has a shape that is none");
      }
      for (const Literal& item : extents.items) {
        const auto* extent = item.as<int64_t>();
        if (!extent || *extent < 0) fail("a field of its descr has a shape that is none");
        if (__builtin_mul_overflow(count, *extent, &count)) fail("its records are too large");
        if (subarray.size() == local::kMaxDims) fail("a field of its descr has too many axes");
        subarray.push_back(*extent);
      }
    }
    const size_t first = fields_.size();
    const int64_t bytes = add(field->items[1], path + "/" + *name, offset, subarray, depth + 1);
    // An array of records inside records has two distances between elements, which no field has here.
    if (subarray.size() > outer.size() && !field->items[1].as<std::string>())
      for (size_t i = first; i < fields_.size(); ++i) fields_[i].problem = "a field of an array of records in a record";
    int64_t all = 0;
    if (__builtin_mul_overflow(bytes, count, &all)) fail("its records are too large");
    return all;
  }

  int64_t add_code(const std::string& code, const std::string& path, int64_t offset, const Dims& subarray) {
    std::string_view rest = code;
    char order = '=';
    if (!rest.empty() && std::string_view("<>|=").find(rest[0]) != std::string_view::npos) {
      order = rest[0];
      rest.remove_prefix(1);
    }
    if (rest.empty()) fail(fmt::format("the type '{}' is none", code));
    const char kind = rest[0];
    const size_t bracket = rest.find('[');
    const std::string_view digits = rest.substr(1, bracket == std::string_view::npos ? bracket : bracket - 1);
    int64_t size = kind == 'O' ? 8 : 0;
    if (!digits.empty()) {
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
      if (error != std::errc{} || end != digits.data() + digits.size() || size < 0)
        fail(fmt::format("the type '{}' is none", code));
    }
    Field field;
    field.path = path;
    field.offset = offset;
    field.subarray = subarray;
    field.swapped = (std::endian::native == std::endian::little ? order == '>' : order == '<');
    field.bytes = size;
    switch (kind) {
      case 'M':
      case 'm':
        add_dates(field, kind == 'M', bracket == std::string_view::npos ? "" : rest.substr(bracket), code);
        break;
      case 'U':
        if (__builtin_mul_overflow(size, int64_t{4}, &field.bytes)) fail("its records are too large");
        field.problem = fmt::format("text ('{}')", code);
        break;
      case 'S':
      case 'a':
        field.problem = fmt::format("bytes ('{}')", code);
        break;
      case 'O':
        field.problem = "Python objects, which only unpickling them would read";
        break;
      default:
        add_number(field, rest, code);
    }
    if (field.bytes == 1) field.swapped = false;
    const int64_t bytes = field.bytes;
    // Padding has no name.
    if (kind == 'V' && path.ends_with('/')) return bytes;
    path_bytes_ += std::ssize(path);
    if (path_bytes_ > kMostPaths) fail("the names of its fields are too long");
    fields_.push_back(std::move(field));
    return bytes;
  }

  static void add_number(Field& field, std::string_view rest, const std::string& code) {
    for (const TypeRow& row : kTypes) {
      if (row.code != rest) continue;
      field.dtype = row.dtype;
      return;
    }
    const bool has_size = std::string_view("biufcV").find(rest[0]) != std::string_view::npos;
    if (!has_size || (rest.size() < 2)) fail(fmt::format("the type '{}' is none", code));
    field.problem =
        rest[0] == 'f' || rest[0] == 'c' ? fmt::format("long double ('{}')", code) : fmt::format("the type '{}'", code);
  }

  static void add_dates(Field& field, bool are_points, std::string_view unit, const std::string& code) {
    if (field.bytes != 8) fail(fmt::format("the type '{}' is none", code));
    field.dtype = DType::int64;
    std::string text;
    if (unit.size() > 2 && unit.front() == '[' && unit.back() == ']') {
      unit = unit.substr(1, unit.size() - 2);
      size_t digits = 0;
      while (digits < unit.size() && unit[digits] >= '0' && unit[digits] <= '9') ++digits;
      const std::string word = units_word(unit.substr(digits));
      if (word.empty()) fail(fmt::format("the type '{}' is none", code));
      text = (digits > 0 ? std::string(unit.substr(0, digits)) + " " : "") + word;
    } else if (!unit.empty()) {
      fail(fmt::format("the type '{}' is none", code));
    }
    if (!text.empty()) field.attributes["units"] = are_points ? text + " since 1970-01-01" : text;
    field.attributes["_FillValue"] = std::numeric_limits<int64_t>::min();  // NaT
  }

  std::vector<Field>& fields_;
  int64_t path_bytes_ = 0;
};

// --- the header ---

uint32_t little_endian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint32_t>(bytes[i]);
  return value;
}

// Version 3 is UTF-8, the others are Latin-1.
std::string as_utf8(std::string_view text, int version) {
  if (version >= 3) return std::string(text);
  std::string out;
  for (const char c : text) LiteralParser::put_utf8(static_cast<unsigned char>(c), out);
  return out;
}

void parse_dictionary(std::string_view text, Header& header) {
  const Literal whole = LiteralParser(text).whole();
  const auto* pairs = whole.as<std::shared_ptr<Pairs>>();
  if (!pairs) throw local::IoError("it is no dictionary");
  const Literal *descr = nullptr, *order = nullptr, *shape = nullptr;
  for (const auto& [key, value] : (*pairs)->items) {
    const auto* name = key.as<std::string>();
    const Literal** const slot = !name                      ? nullptr
                                 : *name == "descr"         ? &descr
                                 : *name == "shape"         ? &shape
                                 : *name == "fortran_order" ? &order
                                                            : nullptr;
    if (!slot || *slot) throw local::IoError("it has other keys than descr, fortran_order and shape");
    *slot = &value;
  }
  if (!descr || !order || !shape) throw local::IoError("it lacks descr, fortran_order or shape");
  const auto* fortran = order->as<bool>();
  if (!fortran) throw local::IoError("its fortran_order is neither True nor False");
  header.fortran_order = *fortran;
  const auto* extents = shape->as<Sequence>();
  if (!extents || !extents->is_tuple) throw local::IoError("its shape is no tuple");
  if (extents->items.size() > static_cast<size_t>(local::kMaxDims))
    throw local::NotSupported(
        fmt::format("it has {} axes, and quarry's arrays have at most {}", extents->items.size(), local::kMaxDims));
  for (const Literal& item : extents->items) {
    const auto* extent = item.as<int64_t>();
    if (!extent || *extent < 0) throw local::IoError("its shape has something that is no extent");
    header.shape.push_back(*extent);
  }
  header.record_bytes = Types(header.fields).add(*descr, "", 0, {}, 0);
}

// Bytes of the data as NumPy counts them: an axis of 0 does not make the others right.
int64_t data_bytes(const Header& header) {
  int64_t bytes = header.record_bytes;
  bool is_empty = false;
  for (const int64_t extent : header.shape) {
    is_empty = is_empty || extent == 0;
    if (extent != 0 && __builtin_mul_overflow(bytes, extent, &bytes))
      throw local::IoError(
          fmt::format("its shape {} is more bytes than 64 bits count", local::to_string(header.shape)));
  }
  return is_empty ? 0 : bytes;
}

void check_fields(const Header& header) {
  std::set<std::string> paths;
  for (const Field& field : header.fields) {
    if (!paths.insert(field.path).second) throw local::IoError(fmt::format("two fields are called '{}'", field.path));
    if (header.shape.size() + field.subarray.size() > local::kMaxDims)
      throw local::NotSupported(
          fmt::format("'{}' has more axes than quarry's arrays, {}", field.path, local::kMaxDims));
  }
}

}  // namespace

bool begins_as_npy(const ByteSource& source, int64_t offset) {
  std::array<char, kMagic.size()> found{};
  if (source.size() - offset < std::ssize(found)) return false;
  source.read_at(offset, std::as_writable_bytes(std::span(found)));
  return std::string_view(found.data(), found.size()) == kMagic;
}

Header read_header(const ByteSource& source, int64_t offset, int64_t end, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    throw local::IoError(fmt::format("'{}' is damaged: {}", name, what));
  };
  constexpr int64_t kVersionBytes = 2;
  int64_t at = offset + std::ssize(kMagic);
  if (end - at < kVersionBytes + 2 || !begins_as_npy(source, offset)) fail("it does not begin as a NumPy file");
  std::array<std::byte, kVersionBytes> version{};
  source.read_at(at, version);
  at += kVersionBytes;
  Header header;
  header.version = static_cast<int>(version[0]);
  if (header.version < 1 || header.version > 3 || version[1] != std::byte{0}) {
    throw local::NotSupported(fmt::format("'{}' is of version {}.{} of NumPy's format, and quarry reads 1.0 to 3.0",
                                          name, header.version, static_cast<int>(version[1])));
  }
  std::array<std::byte, 4> length{};
  const auto length_bytes = static_cast<size_t>(header.version == 1 ? 2 : 4);
  if (end - at < static_cast<int64_t>(length_bytes)) fail("it ends inside its header");
  source.read_at(at, std::span(length).first(length_bytes));
  at += static_cast<int64_t>(length_bytes);
  const auto text_bytes = static_cast<int64_t>(little_endian(std::span(length).first(length_bytes)));
  if (text_bytes > kLongestHeader) fail(fmt::format("its header of {} bytes is too long", text_bytes));
  if (text_bytes > end - at) fail("it ends inside its header");
  std::string text(static_cast<size_t>(text_bytes), '\0');
  source.read_at(at, std::as_writable_bytes(std::span(text)));
  header.data_offset = at + text_bytes;
  try {
    parse_dictionary(as_utf8(text, header.version), header);
    check_fields(header);
    const int64_t bytes = data_bytes(header), there = end - header.data_offset;
    bool has_objects = false;
    for (const Field& field : header.fields) has_objects = has_objects || field.problem.starts_with("Python");
    if (bytes > there && !has_objects) {
      throw local::IoError(
          fmt::format("it is truncated: its shape {} takes {} bytes of data and {} are there, {} are missing",
                      local::to_string(header.shape), bytes, there, bytes - there));
    }
  } catch (const local::NotSupported& error) {
    throw local::NotSupported(fmt::format("'{}': {}", name, error.what()));
  } catch (const local::IoError& error) {
    fail(fmt::format("its header: {}", error.what()));
  }
  return header;
}

Field parse_type(const std::string& code) {
  std::vector<Field> fields;
  Types(fields).add({code}, "", 0, {}, 0);
  QUARRY_CHECK(fields.size() == 1);
  return fields[0];
}

namespace {

std::string padded(std::string dictionary) {
  constexpr int64_t kBefore = 10;  // magic, version and length of version 1
  const auto used = static_cast<int64_t>(dictionary.size()) + kBefore + 1;
  dictionary.append(static_cast<size_t>(kAlignment - used % kAlignment), ' ');
  dictionary.push_back('\n');
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  return out + dictionary;
}

}  // namespace

std::string type_code(DType dtype) {
  std::string_view code;
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) code = row.code;
  return fmt::format("{}{}", local::itemsize(dtype) == 1 ? '|' : '<', code);
}

std::string header_text(DType dtype, const Dims& shape) {
  std::string extents;
  for (int d = 0; d < shape.size(); ++d) extents += fmt::format("{}{}", d > 0 ? ", " : "", shape[d]);
  if (shape.size() == 1) extents += ",";
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type_code(dtype), extents);
  // Room for the first extent to grow, as NumPy leaves it.
  constexpr size_t kDigits = 21;
  if (!shape.empty()) text.append(kDigits - std::min(kDigits, std::to_string(shape[0]).size()), ' ');
  return padded(std::move(text));
}

std::string text_header(bool is_bytes, int64_t characters) {
  return padded(
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (), }}", text_code(is_bytes, characters)));
}

std::string text_code(bool is_bytes, int64_t characters) {
  return fmt::format("{}{}", is_bytes ? "|S" : "<U", characters);
}

std::string text_element(const std::string& text, bool is_bytes) {
  if (is_bytes) return text.empty() ? std::string(1, '\0') : text;
  // UTF-8 to UTF-32, which has no invalid text: it comes from a program's own strings.
  std::string data;
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const int length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    constexpr unsigned kFirstBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = first & kFirstBits[length];
    for (int i = 1; i < length && at + static_cast<size_t>(i) < text.size(); ++i)
      code = code << 6 | (static_cast<unsigned char>(text[at + static_cast<size_t>(i)]) & 0x3fU);
    for (int shift = 0; shift < 32; shift += 8) data.push_back(static_cast<char>(code >> shift));
    at += static_cast<size_t>(length);
  }
  if (data.empty()) data.assign(4, '\0');
  return data;
}

}  // namespace quarry::io::npy
