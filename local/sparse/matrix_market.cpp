#include "quarry/local/sparse/matrix_market.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <complex>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {
namespace {

enum class Field : uint8_t { real, integer, complex, pattern };
enum class Symmetry : uint8_t { general, symmetric, skew_symmetric, hermitian };
constexpr const char* kFields[] = {"real", "integer", "complex", "pattern"};
constexpr const char* kSymmetries[] = {"general", "symmetric", "skew-symmetric", "hermitian"};

template <class E, size_t N>
std::optional<E> parse_name(const char* const (&names)[N], std::string_view text) {
  for (size_t i = 0; i < N; ++i)
    if (text == names[i]) return static_cast<E>(i);
  return std::nullopt;
}

struct Header {
  bool coordinate = true;
  Field field = Field::real;
  Symmetry symmetry = Symmetry::general;
  int64_t rows = 0, columns = 0, entries = 0;
};

// The lines of a text by number, comments and blank ones left out.
class Lexer {
 public:
  // `beyond`: bytes of the file that follow after the text.
  Lexer(std::string_view text, std::string name, int64_t first_line = 1, int64_t beyond = 0)
      : text_(text), name_(std::move(name)), line_(first_line - 1), beyond_(beyond) {}

  // Names the last word that was read, or the line.
  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(column_ > 0 ? fmt::format("{}:{}:{}: {}", name_, line_, column_, problem)
                              : fmt::format("{}:{}: {}", name_, line_, problem));
  }
  void forget_word() { column_ = 0; }
  // False at the end. `comments`: they count as lines.
  bool next(bool comments = false) {
    forget_word();
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      rest_ = text_.substr(at_, end - at_);
      begin_ = at_;
      at_ = end + 1;
      ++line_;
      const size_t first = rest_.find_first_not_of(" \t\r");
      if (first != std::string_view::npos && (comments || rest_[first] != '%')) return true;
    }
    ++line_;
    rest_ = {};
    return false;
  }
  // The next word of the line, empty at its end.
  std::string_view word() {
    const size_t begin = std::min(rest_.find_first_not_of(" \t\r"), rest_.size());
    const size_t end = std::min(rest_.find_first_of(" \t\r", begin), rest_.size());
    const std::string_view found = rest_.substr(begin, end - begin);
    if (rest_.data() != nullptr)
      column_ = static_cast<int64_t>(static_cast<size_t>(found.data() - text_.data()) - begin_) + 1;
    rest_.remove_prefix(end);
    return found;
  }
  template <class T>
  T number(const char* what) {
    std::string_view text = word();
    if (text.empty()) fail(fmt::format("{} is missing", what));
    const std::string_view given = text;
    if (text.front() == '+') text.remove_prefix(1);
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
      if constexpr (std::is_floating_point_v<T>) {  // as strtod: 0 or infinity
        value = std::strtod(std::string(given).c_str(), nullptr);
        return value;
      } else {
        fail(fmt::format("{} '{}' is out of range", what, given));
      }
    }
    if (error != std::errc() || end != text.data() + text.size())
      fail(fmt::format("{} '{}' is not a number", what, given));
    return value;
  }
  void end_of_line() {
    const std::string_view left = word();
    if (!left.empty()) fail(fmt::format("'{}' follows after the numbers of the line", left));
    forget_word();
  }
  int64_t at() const { return static_cast<int64_t>(std::min(at_, text_.size())); }  // where the next line begins
  int64_t line() const { return line_; }
  int64_t remaining_bytes() const { return std::ssize(text_) - at() + beyond_; }

 private:
  std::string_view text_, rest_;
  std::string name_;
  size_t at_ = 0, begin_ = 0;  // where the next line begins, and this one
  int64_t line_, beyond_, column_ = 0;
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

void check_symmetry(Lexer& in, const Header& header) {
  if (header.symmetry != Symmetry::general && header.rows != header.columns)
    in.fail(fmt::format("a {} matrix is square, this one has {} rows and {} columns",
                        kSymmetries[static_cast<size_t>(header.symmetry)], header.rows, header.columns));
  if (header.symmetry == Symmetry::hermitian && header.field != Field::complex)
    in.fail("a hermitian matrix has the field complex");
  if (header.symmetry == Symmetry::skew_symmetric && header.field == Field::pattern)
    in.fail("a pattern is not skew-symmetric");
}

// Numbers of an array of that symmetry: all, or the lower triangle with or without its diagonal.
int64_t array_entries(const Header& header) {
  const int64_t n = header.rows;
  if (header.symmetry == Symmetry::general) return header.rows * header.columns;
  return header.symmetry == Symmetry::skew_symmetric ? n * (n - 1) / 2 : n * (n + 1) / 2;
}

Header read_header(Lexer& in) {
  if (!in.next(/*comments=*/true)) in.fail("the file is empty");
  const std::string_view banner = in.word();
  if (lower(banner) != "%%matrixmarket")
    in.fail(fmt::format("the file begins with '{}', not with %%MatrixMarket", banner));
  const std::string object = lower(in.word()), format = lower(in.word()), field = lower(in.word());
  const std::string symmetry = lower(in.word());
  in.forget_word();
  if (object != "matrix") in.fail(fmt::format("the object is '{}', not matrix", object));
  Header header;
  header.coordinate = format == "coordinate";
  if (!header.coordinate && format != "array")
    in.fail(fmt::format("the format is '{}', not coordinate or array", format));
  const auto known_field = parse_name<Field>(kFields, field == "double" ? "real" : field);
  if (!known_field) in.fail(fmt::format("the field is '{}', not real, integer, complex or pattern", field));
  const auto known_symmetry = parse_name<Symmetry>(kSymmetries, symmetry);
  if (!known_symmetry)
    in.fail(fmt::format("the symmetry is '{}', not general, symmetric, skew-symmetric or hermitian", symmetry));
  in.end_of_line();
  header.field = *known_field;
  header.symmetry = *known_symmetry;
  if (!header.coordinate && header.field == Field::pattern) in.fail("an array has values: its field is not pattern");
  if (!in.next()) in.fail("the line of sizes is missing");
  header.rows = in.number<int64_t>("the number of rows");
  header.columns = in.number<int64_t>("the number of columns");
  if (header.coordinate) header.entries = in.number<int64_t>("the number of entries");
  in.end_of_line();
  if (header.rows < 0 || header.columns < 0 || header.entries < 0) in.fail("a size is negative");
  int64_t elements = 0;
  if (!header.coordinate && __builtin_mul_overflow(header.rows, header.columns, &elements))
    in.fail("the array has more elements than 64 bits count");
  check_symmetry(in, header);
  if (!header.coordinate) header.entries = array_entries(header);
  // Every entry takes two bytes at least: sizes that the file cannot hold are not believed.
  if (header.entries > in.remaining_bytes() / 2 + 1)
    in.fail(fmt::format("the header tells of {} entries, more than the file can hold", header.entries));
  return header;
}

template <class T>
T read_value(Lexer& in, Field field) {
  if (field == Field::pattern) return T(1);
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    const auto real = in.number<double>("the real part");
    return {real, in.number<double>("the imaginary part")};
  } else {
    return in.number<T>("the value");
  }
}

template <class T>
T mirrored(const T& value, Symmetry symmetry) {
  if (symmetry == Symmetry::skew_symmetric) {
    if constexpr (std::is_same_v<T, int64_t>) return static_cast<int64_t>(0 - static_cast<uint64_t>(value));
    return -value;
  }
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (symmetry == Symmetry::hermitian) return std::conj(value);
  }
  return value;
}

void check_end(Lexer& in) {
  if (in.next()) in.fail("there are more lines than the header tells of");
}

template <class T>
struct Elements {
  std::vector<int64_t> rows, columns;  // counted from 0
  std::vector<T> values;

  void reserve(int64_t entries, const Header& header) {
    const size_t expected = static_cast<size_t>(entries) * (header.symmetry == Symmetry::general ? 1 : 2);
    rows.reserve(expected);
    columns.reserve(expected);
    values.reserve(expected);
  }
  void put(int64_t row, int64_t column, const T& value) {
    rows.push_back(row - 1);
    columns.push_back(column - 1);
    values.push_back(value);
  }
  // The entry of the line, and what mirrors it.
  void read(Lexer& in, const Header& header) {
    const auto row = in.number<int64_t>("the row");
    if (row < 1 || row > header.rows) in.fail(fmt::format("row {} is not between 1 and {}", row, header.rows));
    const auto column = in.number<int64_t>("the column");
    if (column < 1 || column > header.columns)
      in.fail(fmt::format("column {} is not between 1 and {}", column, header.columns));
    const T value = read_value<T>(in, header.field);
    in.end_of_line();
    if (header.symmetry != Symmetry::general && row < column)
      in.fail(fmt::format("element ({}, {}) is above the diagonal of a {} matrix", row, column,
                          kSymmetries[static_cast<size_t>(header.symmetry)]));
    if (header.symmetry == Symmetry::skew_symmetric && row == column)
      in.fail(fmt::format("element ({}, {}) is on the diagonal of a skew-symmetric matrix", row, column));
    put(row, column, value);
    if (header.symmetry != Symmetry::general && row != column) put(column, row, mirrored(value, header.symmetry));
  }
};

template <class T>
SparseArray read_coordinates(Lexer& in, const Header& header) {
  Elements<T> elements;
  elements.reserve(header.entries, header);
  for (int64_t k = 0; k < header.entries; ++k) {
    if (!in.next()) in.fail(fmt::format("the file ends after {} of {} entries", k, header.entries));
    elements.read(in, header);
  }
  check_end(in);
  const Dims shape{header.rows, header.columns};
  const DType index = index_dtype_for(shape, std::ssize(elements.values));
  return SparseArray(Format::coo, shape, from_vector(elements.values), cast(from_vector(elements.rows), index),
                     cast(from_vector(elements.columns), index));
}

// Column by column; of a symmetric array the lower triangle.
template <class T>
NdArray read_array(Lexer& in, const Header& header) {
  std::vector<T> values(static_cast<size_t>(header.rows * header.columns));
  const auto at = [&](int64_t row, int64_t column) -> T& {
    return values[static_cast<size_t>(row * header.columns + column)];
  };
  int64_t read = 0;
  const bool general = header.symmetry == Symmetry::general;
  for (int64_t column = 0; column < header.columns; ++column) {
    const int64_t first = general ? 0 : column + (header.symmetry == Symmetry::skew_symmetric ? 1 : 0);
    for (int64_t row = first; row < header.rows; ++row, ++read) {
      if (!in.next()) in.fail(fmt::format("the file ends after {} of {} values", read, header.entries));
      const T value = read_value<T>(in, header.field);
      in.end_of_line();
      if (!general) at(column, row) = mirrored(value, header.symmetry);
      at(row, column) = value;
    }
  }
  check_end(in);
  return from_vector(values, Dims{header.rows, header.columns});
}

// f.operator()<T>() with the type of the values.
template <class F>
auto with_value_type(Field field, const F& f) {
  switch (field) {
    case Field::integer:
      return f.template operator()<int64_t>();
    case Field::complex:
      return f.template operator()<std::complex<double>>();
    case Field::real:
    case Field::pattern:
      return f.template operator()<double>();
  }
  __builtin_unreachable();
}

Header header_of(const MatrixMarketInfo& info) {
  Header header;
  header.coordinate = info.format == "coordinate";
  header.field = parse_name<Field>(kFields, info.field).value();
  header.symmetry = parse_name<Symmetry>(kSymmetries, info.symmetry).value();
  header.rows = info.rows;
  header.columns = info.columns;
  header.entries = info.entries;
  return header;
}

// The lines of a file up to the one of sizes; and how many bytes follow.
std::pair<std::string, int64_t> file_head(const std::string& path) {
  constexpr size_t kStep = 1 << 16;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(fmt::format("{}: cannot be opened", path));
  std::string text;
  bool is_end = false;
  const auto line_end = [&](size_t from) {  // reads on until there is one
    for (;;) {
      const size_t end = text.find('\n', from);
      if (end != std::string::npos) return end + 1;
      if (is_end) return text.size();
      const size_t before = text.size();
      text.resize(before + kStep);
      file.read(text.data() + before, kStep);
      if (file.bad()) throw IoError(fmt::format("{}: cannot be read", path));
      text.resize(before + static_cast<size_t>(file.gcount()));
      is_end = file.gcount() < static_cast<std::streamsize>(kStep);
    }
  };
  for (size_t at = line_end(0); at < text.size() || !is_end;) {
    const size_t end = line_end(at);
    const size_t word = text.find_first_not_of(" \t\r", at);
    const bool is_sizes = word < end && text[word] != '\n' && text[word] != '%';
    at = end;
    if (is_sizes || (is_end && at == text.size())) {
      text.resize(at);
      break;
    }
  }
  file.clear();
  file.seekg(0, std::ios::end);
  return {std::move(text), static_cast<int64_t>(file.tellg()) - std::ssize(text)};
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(fmt::format("{}: cannot be opened", path));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) throw IoError(fmt::format("{}: cannot be read", path));
  return text;
}

}  // namespace

std::variant<SparseArray, NdArray> mmread_text(std::string_view text, const std::string& name) {
  Lexer in(text, name);
  const Header header = read_header(in);
  const auto read = [&]<class T>() -> std::variant<SparseArray, NdArray> {
    if (header.coordinate) return read_coordinates<T>(in, header);
    return read_array<T>(in, header);
  };
  return with_value_type(header.field, read);
}

std::variant<SparseArray, NdArray> mmread(const std::string& path) { return mmread_text(file_text(path), path); }

DType MatrixMarketInfo::dtype() const {
  return with_value_type(parse_name<Field>(kFields, field).value(), []<class T>() { return dtype_of_v<T>; });
}

MatrixMarketInfo mminfo(const std::string& path) {
  const auto [text, beyond] = file_head(path);
  Lexer in(text, path, /*first_line=*/1, beyond);
  const Header header = read_header(in);
  return {header.rows,
          header.columns,
          header.entries,
          header.coordinate ? "coordinate" : "array",
          kFields[static_cast<size_t>(header.field)],
          kSymmetries[static_cast<size_t>(header.symmetry)],
          in.at(),
          in.line()};
}

MatrixMarketCounts mmcount(std::string_view text, const MatrixMarketInfo& info) {
  MatrixMarketCounts counts;
  counts.lines = std::count(text.begin(), text.end(), '\n');
  const bool mirrors = info.symmetry != kSymmetries[static_cast<size_t>(Symmetry::general)];
  Lexer in(text, "");
  while (in.next()) {
    ++counts.entries;
    ++counts.elements;
    if (!mirrors) continue;
    // What is no number is said by who reads the line.
    const auto row = in.word(), column = in.word();
    int64_t i = 0, j = 0;
    const auto number = [](std::string_view word, int64_t& value) {
      if (word.starts_with('+')) word.remove_prefix(1);
      std::from_chars(word.data(), word.data() + word.size(), value);
    };
    number(row, i), number(column, j);
    if (i != j) ++counts.elements;
  }
  return counts;
}

MatrixMarketElements mmread_lines(std::string_view text, const MatrixMarketInfo& info, const std::string& name,
                                  int64_t first_line) {
  const Header header = header_of(info);
  Lexer in(text, name, first_line);
  return with_value_type(header.field, [&]<class T>() -> MatrixMarketElements {
    Elements<T> elements;
    elements.reserve(std::count(text.begin(), text.end(), '\n') + 1, header);
    while (in.next()) elements.read(in, header);
    return {from_vector(elements.rows), from_vector(elements.columns), from_vector(elements.values)};
  });
}

// ---- Writing ----

namespace {

struct Writer {
  Field field;
  Symmetry symmetry;
  int precision;
  bool is_single;  // of which fewer digits are enough
  std::string text;

  Writer(DType dtype, const MatrixMarketOptions& options)
      : precision(options.precision), is_single(dtype == DType::float32 || dtype == DType::complex64) {
    const Field natural = is_complex(dtype) ? Field::complex : is_float(dtype) ? Field::real : Field::integer;
    const auto known = parse_name<Field>(kFields, options.field);
    if (!options.field.empty() && !known)
      throw InvalidArgument(fmt::format("field: '{}' is none of real, integer, complex, pattern", options.field));
    field = known.value_or(natural);
    const auto form = parse_name<Symmetry>(kSymmetries, options.symmetry);
    if (!form)
      throw InvalidArgument(
          fmt::format("symmetry: '{}' is none of general, symmetric, skew-symmetric, hermitian", options.symmetry));
    symmetry = *form;
  }
  // The lines before those of numbers; `entries`: none in array format.
  void head(const Dims& shape, std::optional<int64_t> entries, const std::string& comment) {
    text = fmt::format("%%MatrixMarket matrix {} {} {}\n", entries ? "coordinate" : "array",
                       kFields[static_cast<size_t>(field)], kSymmetries[static_cast<size_t>(symmetry)]);
    if (!comment.empty()) {
      text += '%';
      for (const char c : comment) text += c == '\n' ? std::string("\n%") : std::string(1, c);
      text += '\n';
    }
    text += fmt::format("{} {}", shape[0], shape[1]) + (entries ? fmt::format(" {}\n", *entries) : "\n");
  }
  bool wants(int64_t row, int64_t column) const {
    if (symmetry == Symmetry::general) return true;
    return symmetry == Symmetry::skew_symmetric ? row > column : row >= column;
  }
  void real(double value) {
    auto out = std::back_inserter(text);
    if (precision < 0 && is_single)
      fmt::format_to(out, "{}", static_cast<float>(value));
    else if (precision < 0)
      fmt::format_to(out, "{}", value);
    else
      fmt::format_to(out, "{:.{}e}", value, std::max(precision - 1, 0));
  }
  void value(const Scalar& x) {
    switch (field) {
      case Field::pattern:
        break;
      case Field::integer:
        if (kind(x.dtype()) == 'u')
          fmt::format_to(std::back_inserter(text), "{}", x.as_uint64());
        else
          fmt::format_to(std::back_inserter(text), "{}", x.as_int64());
        break;
      case Field::real:
        real(x.as_double());
        break;
      case Field::complex:
        real(x.as_complex().real());
        text += ' ';
        real(x.as_complex().imag());
        break;
    }
    text += '\n';
  }
};

// The elements of a host array, one after the other.
class HostElements {
 public:
  explicit HostElements(const NdArray& array)
      : host_(array.to(kCpu).copy(default_context(kCpu))), bytes_(static_cast<const char*>(host_.raw())) {}
  int64_t size() const { return host_.size(); }
  Scalar operator[](int64_t i) const { return Scalar::load(host_.dtype(), bytes_ + i * host_.itemsize()); }

 private:
  NdArray host_;
  const char* bytes_;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw IoError(fmt::format("{}: cannot be written", path));
}

}  // namespace

namespace {

void add_lines(Writer& writer, const HostElements& rows, const HostElements& columns, const HostElements& values) {
  for (int64_t k = 0; k < values.size(); ++k) {
    const int64_t row = rows[k].as_int64(), column = columns[k].as_int64();
    if (!writer.wants(row, column)) continue;
    fmt::format_to(std::back_inserter(writer.text), "{} {}{}", row + 1, column + 1,
                   writer.field == Field::pattern ? "" : " ");
    writer.value(values[k]);
  }
}

}  // namespace

std::string mmwrite_head(DType dtype, const Dims& shape, std::optional<int64_t> entries) {
  Writer writer(dtype, {});
  writer.head(shape, entries, "");
  return writer.text;
}

std::string mmwrite_lines(const MatrixMarketElements& elements) {
  Writer writer(elements.data.dtype(), {});
  add_lines(writer, HostElements(elements.row), HostElements(elements.col), HostElements(elements.data));
  return writer.text;
}

std::string mmwrite_lines(const NdArray& values) {
  Writer writer(values.dtype(), {});
  const HostElements all(values);
  for (int64_t k = 0; k < all.size(); ++k) writer.value(all[k]);
  return writer.text;
}

std::string mmwrite_text(const SparseArray& a, const MatrixMarketOptions& options) {
  Writer writer(a.dtype(), options);
  const Triplets t = row_triplets(canonical(a));
  const HostElements rows(t.major), columns(t.minor), values(t.data);
  int64_t count = 0;
  for (int64_t k = 0; k < values.size(); ++k) count += writer.wants(rows[k].as_int64(), columns[k].as_int64()) ? 1 : 0;
  writer.head(a.shape(), count, options.comment);
  add_lines(writer, rows, columns, values);
  return writer.text;
}

std::string mmwrite_text(const NdArray& a, const MatrixMarketOptions& options) {
  if (a.ndim() != 2) throw InvalidArgument("a: a matrix has two dimensions, got shape " + local::to_string(a.shape()));
  check_dtype(a.dtype(), "a");
  Writer writer(a.dtype(), options);
  if (writer.field == Field::pattern) throw InvalidArgument("field: an array has values: pattern is not possible");
  const int64_t rows = a.shape()[0], columns = a.shape()[1];
  const HostElements values(a);
  writer.head(a.shape(), {}, options.comment);
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row)
      if (writer.wants(row, column)) writer.value(values[row * columns + column]);
  return writer.text;
}

void mmwrite(const std::string& path, const SparseArray& a, const MatrixMarketOptions& options) {
  write_file(path, mmwrite_text(a, options));
}
void mmwrite(const std::string& path, const NdArray& a, const MatrixMarketOptions& options) {
  write_file(path, mmwrite_text(a, options));
}

}  // namespace quarry::local::sparse
