// Writing text files of columns. The length of a line is known when it is made, so ranks format blocks of rows, which
// wait as parts and are put together at commit.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <filesystem>
#include <optional>

#include "quarry/io/csv/dialect.h"
#include "quarry/io/csv/format.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/parts.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::io::csv {
namespace {

using local::Dims;

constexpr int64_t kPartBytes = 1 << 20;  // of values
constexpr int64_t kCopyBytes = 1 << 20;  // of text, at once
constexpr int64_t kSlotBytes = 16;       // of a single value until commit

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

int64_t columns_of(const Dims& shape) { return shape.size() > 1 ? shape[1] : 1; }

// As pandas writes them: the shortest text that is this number, with a point in it; nothing for NaN.
template <class T>
void put(std::string& out, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "True" : "False";
  } else if constexpr (std::is_integral_v<T>) {
    fmt::format_to(std::back_inserter(out), "{}", value);
  } else {
    const auto number = static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value);
    if (std::isnan(number)) return;
    const size_t begin = out.size();
    fmt::format_to(std::back_inserter(out), "{}", number);
    if (out.find_first_not_of("-0123456789", begin) == std::string::npos) out += ".0";
  }
}

template <class T>
bool equal(T value, T other) {
  if constexpr (requires { value == other; })
    return value == other;
  else
    return static_cast<float>(value) == static_cast<float>(other);
}

// The fields of rows, as lines.
std::string format_rows(const OutputSpec& spec, char delimiter, const void* data, int64_t rows) {
  std::string out;
  const int64_t columns = columns_of(spec.shape);
  local::dispatch(spec.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      QUARRY_CHECK(false);
    } else {
      const auto* values = static_cast<const T*>(data);
      std::optional<T> missing;
      if (spec.fill_value) {
        alignas(kSlotBytes) std::byte fill[kSlotBytes];
        spec.fill_value->store(spec.dtype, fill);
        missing.emplace();
        std::memcpy(&*missing, fill, sizeof(T));
      }
      for (int64_t row = 0; row < rows; ++row) {
        const size_t begin = out.size();
        for (int64_t c = 0; c < columns; ++c, ++values) {
          if (c > 0) out.push_back(delimiter);
          if (!missing || !equal(*values, *missing)) put(out, *values);
        }
        if (out.size() == begin) out += "\"\"";  // a line without anything would be no row
        out.push_back('\n');
      }
    }
  });
  return out;
}

class CsvWriter final : public Writer {
 public:
  // `parts`: where the creating process keeps them; null elsewhere. `slot`: of a single value.
  CsvWriter(OutputSpec spec, char delimiter, std::string path, int64_t slot, std::shared_ptr<OrderedParts> parts)
      : spec_(std::move(spec)),
        delimiter_(delimiter),
        path_(std::move(path)),
        slot_(slot),
        parts_(std::move(parts)),
        file_(path_, ByteFile::Mode::write) {}

  const OutputSpec& spec() const override { return spec_; }
  const Format& format() const override { return csv::format(); }
  std::string layout() const override {
    ByteWriter out;
    serialize_array(spec_, out);
    std::array<std::byte, kSlotBytes> fill{};
    if (spec_.fill_value) spec_.fill_value->store(spec_.dtype, fill.data());
    out.put(spec_.fill_value.has_value());
    out.put(fill);
    out.put(delimiter_);
    out.put_string(path_);
    out.put(slot_);
    return out.take();
  }

  void write(const local::Region& region, const void* from) override {
    const int64_t item = local::itemsize(spec_.dtype);
    if (spec_.shape.empty()) {
      file_.write_at(slot_, {static_cast<const std::byte*>(from), static_cast<size_t>(item)});
      bytes_written_ += item;
      return;
    }
    // All of it, from the process that made the file; others encode.
    if (!parts_ || region.count != spec_.shape)
      throw local::InvalidArgument(fmt::format("'{}' is text: encode it", spec_.object));
    const int64_t rows = (*spec_.chunks)[0], row_bytes = columns_of(spec_.shape) * item;
    for (int64_t first = 0; first < spec_.shape[0]; first += rows) {
      const int64_t count = std::min(rows, spec_.shape[0] - first);
      const std::string text =
          format_rows(spec_, delimiter_, static_cast<const std::byte*>(from) + first * row_bytes, count);
      parts_->add(first / rows, as_bytes(text));
      bytes_written_ += std::ssize(text);
    }
  }

  // The elements without gaps, and behind them the text.
  int64_t encode_scratch_bytes() const override {
    if (spec_.shape.empty()) return 0;
    constexpr int64_t kLongestField = 26;  // -1.7976931348623157e+308 and what separates it
    const int64_t elements = local::element_count(*spec_.chunks);
    return elements * (local::itemsize(spec_.dtype) + kLongestField) + 2 * (*spec_.chunks)[0];
  }
  using Writer::encode;
  std::span<const std::byte> encode(const Dims& /*chunk*/, const void* from, const Dims& strides, const Dims& count,
                                    std::span<std::byte> scratch) const override {
    const int64_t item = local::itemsize(spec_.dtype);
    const auto data = scratch.first(static_cast<size_t>(local::element_count(count) * item));
    copy_box(count, item, static_cast<const std::byte*>(from), strides, data.data(),
             local::contiguous_strides(count, item));
    // A part has a mebibyte of values: its text is no matter beside the budget.
    const std::string text = format_rows(spec_, delimiter_, data.data(), count[0]);
    const auto out = scratch.subspan(data.size());
    QUARRY_CHECK(text.size() <= out.size());
    std::memcpy(out.data(), text.data(), text.size());
    return out.first(text.size());
  }
  void sync() const override { file_.sync(); }
  int64_t bytes_written() const override { return bytes_written_; }
  void count_written(int64_t bytes) { bytes_written_ += bytes; }

 private:
  const OutputSpec spec_;
  const char delimiter_;
  const std::string path_;
  const int64_t slot_;
  const std::shared_ptr<OrderedParts> parts_;
  const ByteFile file_;
  std::atomic<int64_t> bytes_written_{0};
};

// The text of an item from its parts, in order.
class PartLines {
 public:
  explicit PartLines(const OrderedParts& parts) : parts_(parts) {}

  // Some of what comes next; empty at the end. Valid until the next call.
  std::string_view some() {
    if (at_ < text_.size()) {
      const std::string_view rest = std::string_view(text_).substr(at_);
      at_ = text_.size();
      return rest;
    }
    return fill() ? some() : std::string_view{};
  }
  // The next line with its end, appended; false at the end.
  bool append_line(std::string& out) {
    for (bool any = false;; any = true) {
      if (at_ == text_.size() && !fill()) return any;
      const size_t end = text_.find('\n', at_);
      const size_t stop = end == std::string::npos ? text_.size() : end + 1;
      out.append(text_, at_, stop - at_);
      at_ = stop;
      if (end != std::string::npos) return true;
    }
  }

 private:
  bool fill() {
    while (number_ < parts_.count() && from_ == parts_.size(number_)) {
      ++number_;
      from_ = 0;
    }
    if (number_ == parts_.count()) return false;
    text_.resize(static_cast<size_t>(std::min(kCopyBytes, parts_.size(number_) - from_)));
    parts_.read(number_, from_, std::as_writable_bytes(std::span(text_)));
    from_ += std::ssize(text_);
    at_ = 0;
    return true;
  }

  const OrderedParts& parts_;
  int64_t number_ = 0, from_ = 0;
  std::string text_;
  size_t at_ = 0;
};

class CsvOutput final : public OutputFile {
 public:
  CsvOutput(std::string file, std::vector<OutputSpec> specs, bool overwrite) : file_(std::move(file)) {
    if (specs.empty()) throw local::InvalidArgument(fmt::format("'{}': a CSV file has at least one column", file_));
    if (std::error_code none; !overwrite && std::filesystem::exists(file_, none))
      throw local::InvalidArgument(fmt::format("'{}' exists; it is replaced only with overwrite", file_));
    for (OutputSpec& spec : specs) add(std::move(spec));
    place_.emplace(file_, 0, Replacement::Content::nothing);
    const ByteFile made(place_->path(), ByteFile::Mode::write);
    made.resize(std::ssize(items_) * kSlotBytes);
    for (size_t i = 0; i < items_.size(); ++i) {
      Item& item = items_[i];
      item.writer = std::make_shared<CsvWriter>(item.spec, delimiter_, place_->path(),
                                                static_cast<int64_t>(i) * kSlotBytes, item.parts);
    }
  }

  std::shared_ptr<Writer> writer(size_t index) override { return items_.at(index).writer; }

  void write_encoded(size_t index, const Dims& chunk, std::span<const std::byte> bytes) override {
    Item& item = items_.at(index);
    item.parts->add(chunk[0], bytes);
    item.writer->count_written(std::ssize(bytes));
  }

  void commit() override {
    made_.emplace(place_->path(), ByteFile::Mode::write);
    add_single_values();
    made_->resize(0);
    append(header());
    if (items_.size() == 1) {
      PartLines lines(*items_[0].parts);
      for (std::string_view text; !(text = lines.some()).empty();) append(text);
    } else {
      join_columns();
    }
    flush();
    made_.reset();
    place_->commit();
  }

 private:
  struct Item {
    OutputSpec spec;
    std::shared_ptr<OrderedParts> parts;
    std::shared_ptr<CsvWriter> writer;
  };

  void add(OutputSpec spec) {
    const auto fail = [&](const std::string& what) {
      throw local::InvalidArgument(fmt::format("cannot write '{}' to '{}': {}", spec.object, file_, what));
    };
    const Selection selection = parse_selection(spec.object);
    char delimiter = selection.dialect.delimiter;
    if (delimiter == 0) delimiter = file_.ends_with(".tsv") ? '\t' : ',';
    if (!items_.empty() && delimiter != delimiter_) fail("the columns of a file have one delimiter");
    delimiter_ = delimiter;
    header_ = header_ && selection.dialect.header.value_or(true);
    if (spec.text) fail("text is no column of numbers");
    prepare(spec);
    spec.object = "/" + selection.columns;
    const int64_t rows = spec.shape.empty() ? 1 : spec.shape[0];
    if (!items_.empty() && rows != rows_) fail(fmt::format("it has {} rows and others have {}", rows, rows_));
    rows_ = rows;
    if (columns_of(spec.shape) == 0) fail("it has no columns");
    for (const Item& other : items_)
      if (other.spec.object == spec.object) fail("it is to be written twice");
    const std::string parts = fmt::format("{}.partial.{}", file_, items_.size());
    items_.push_back({std::move(spec), std::make_shared<OrderedParts>(parts), nullptr});
  }

  void add_single_values() {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!items_[i].spec.shape.empty()) continue;
      alignas(kSlotBytes) std::byte value[kSlotBytes];
      made_->read_at(static_cast<int64_t>(i) * kSlotBytes, value);
      items_[i].parts->add(0, as_bytes(format_rows(items_[i].spec, delimiter_, value, 1)));
    }
  }

  std::string header() const {
    if (!header_) return {};
    std::string out;
    const auto put_name = [&](const std::string& name) {
      if (!out.empty()) out.push_back(delimiter_);
      if (name.find_first_of(std::string("\"\r\n ") + delimiter_) == std::string::npos) {
        out += name;
        return;
      }
      out.push_back('"');
      for (const char c : name) out.append(c == '"' ? 2 : 1, c);
      out.push_back('"');
    };
    for (const Item& item : items_) {
      const std::string name = item.spec.object.substr(1);
      if (item.spec.shape.size() < 2) {
        put_name(name);
        continue;
      }
      for (int64_t c = 0; c < item.spec.shape[1]; ++c) put_name(fmt::format("{}.{}", name, c));
    }
    return out + "\n";
  }

  // Line by line, with what each item has of it.
  void join_columns() {
    std::vector<PartLines> lines;
    for (const Item& item : items_) lines.emplace_back(*item.parts);
    std::string line;
    for (int64_t row = 0; row < rows_; ++row) {
      line.clear();
      for (size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) line.back() = delimiter_;  // the end of what was before
        const size_t begin = line.size();
        QUARRY_CHECK(lines[i].append_line(line));
        if (std::string_view(line).substr(begin) == "\"\"\n") line.erase(begin, 2);  // which is needed alone only
      }
      append(line);
    }
  }

  void append(std::string_view text) {
    pending_ += text;
    if (std::ssize(pending_) >= kCopyBytes) flush();
  }
  void flush() {
    made_->write_at(end_, as_bytes(pending_));
    end_ += std::ssize(pending_);
    pending_.clear();
  }

  const std::string file_;
  char delimiter_ = ',';
  bool header_ = true;
  int64_t rows_ = 0;
  std::vector<Item> items_;
  std::optional<Replacement> place_;
  std::optional<ByteFile> made_;
  std::string pending_;
  int64_t end_ = 0;
};

}  // namespace

void prepare(OutputSpec& spec) {
  const auto fail = [&](const std::string& what) {
    throw local::InvalidArgument(fmt::format("cannot write '{}' as CSV: {}", spec.object, what));
  };
  if (spec.text) return;
  if (spec.shape.size() > 2) fail(fmt::format("it has {} axes, and a table has two", spec.shape.size()));
  if (local::is_complex(spec.dtype)) fail("complex numbers are no fields: write real and imag");
  for (const Filter& filter : spec.filters)
    if (filter.kind != Filter::Kind::other) fail("text has no filters");
  spec.filters.clear();
  spec.chunks.reset();
  if (spec.shape.empty()) return;
  spec.filters = {{Filter::Kind::other, 0, "text"}};
  Dims chunks = spec.shape;
  for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
  const int64_t row_bytes = columns_of(chunks) * local::itemsize(spec.dtype);
  chunks[0] = std::clamp<int64_t>(kPartBytes / row_bytes, 1, chunks[0]);
  spec.chunks = chunks;
}

std::unique_ptr<OutputFile> create_output(const std::string& file, std::vector<OutputSpec> specs, bool overwrite) {
  return std::make_unique<CsvOutput>(file, std::move(specs), overwrite);
}

std::shared_ptr<Writer> writer_of(const std::string& layout) {
  ByteReader in(layout);
  OutputSpec spec = deserialize_array(in);
  const bool has_fill = in.get<bool>();
  const auto fill = in.get<std::array<std::byte, kSlotBytes>>();
  if (has_fill) spec.fill_value = local::Scalar::load(spec.dtype, fill.data());
  const char delimiter = in.get<char>();
  std::string path = in.get_string();
  const auto slot = in.get<int64_t>();
  return std::make_shared<CsvWriter>(std::move(spec), delimiter, std::move(path), slot, nullptr);
}

}  // namespace quarry::io::csv
