// Columns of a text file as data sets: any rank parses any rows, from the nearest place that the index knows.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "quarry/io/csv/dialect.h"
#include "quarry/io/csv/fields.h"
#include "quarry/io/csv/format.h"
#include "quarry/io/csv/lines.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/strided.h"
#include "quarry/io/storage/trace.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"

namespace quarry::io::csv {
namespace {

using local::Dims;
using local::DType;

constexpr int64_t kTextBytes = 256 << 10;   // read at once: it stays in a core's L2 cache
constexpr int64_t kPieceBytes = 256 << 10;  // of values
constexpr int64_t kChunkBytes = 4 << 20;    // of text, that a chunk of rows has about
constexpr int64_t kLongestHead = 16 << 20;  // of the first line
constexpr int64_t kMostColumns = 1 << 18;   // whose names and kinds are held in memory
constexpr int64_t kSampleBytes = 256 << 10;
constexpr int64_t kSampleRows = 100;
constexpr int64_t kAlignment = 64;

// --- what a file holds ---

struct Column {
  std::string name;
  Kind kind = Kind::number;
  DateUnit unit = DateUnit::days;
};

struct Table {
  Dialect dialect;  // with all of it known
  std::vector<Column> columns;
  int64_t begin = 0;  // of the first row
};

char delimiter_of(std::string_view line, const std::string& file) {
  if (file.ends_with(".tsv")) return '\t';
  for (const char c : {',', '\t', ';', '|'})
    if (count_delimiters(line.data(), line.data() + line.size(), c) > 0) return c;
  return ',';
}

// The beginning of a file, with its first line whole.
class Head {
 public:
  Head(const ByteSource& file, const std::string& name) : name_(name) {
    for (int64_t bytes = kSampleBytes;; bytes *= 4) {
      text_.resize(static_cast<size_t>(std::min(bytes, file.size())));
      if (!text_.empty()) file.read_at(0, std::as_writable_bytes(std::span(text_)));
      if (text_.starts_with("\xef\xbb\xbf")) begin_ = 3;  // the mark of UTF-8
      whole_ = std::ssize(text_) == file.size();
      size_t at = begin_;
      if (next(at)) return;
      if (whole_) return;
      if (bytes >= kLongestHead)
        throw local::IoError(fmt::format("'{}' is no CSV file: its first line is longer than {} bytes", name, bytes));
    }
  }

  // The line at `at`, which then is behind it; nothing where it is not whole here. Lines without anything are passed.
  std::optional<std::string_view> next(size_t& at) const {
    for (;;) {
      bool inside = false;
      size_t end = at;
      for (; end < text_.size() && (inside || text_[end] != '\n'); ++end) inside = inside != (text_[end] == '"');
      if (end == text_.size() && (!whole_ || end == at)) return std::nullopt;
      std::string_view line = std::string_view(text_).substr(at, end - at);
      at = std::min(end + 1, text_.size());
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) return line;
    }
  }
  size_t begin() const { return begin_; }
  void check_text() const {
    if (text_.find('\0') != std::string::npos)
      throw local::IoError(fmt::format("'{}' is no CSV file: it holds zero bytes, which text has not", name_));
  }

 private:
  const std::string& name_;
  std::string text_;
  size_t begin_ = 0;
  bool whole_ = false;
};

bool is_number(const std::string& text, const Dialect& dialect) {
  const LineParser<double> parser(dialect, {0}, 1, false, DateUnit::days);
  Dialect plain = dialect;
  double value = 0;
  // Quotes are gone already; a delimiter would split it.
  return text.find(plain.delimiter) == std::string::npos &&
         !parser.parse(text.data(), text.data() + text.size(), &value, 1);
}

Kind kind_of(const std::string& text, const Dialect& dialect) {
  if (text == "True" || text == "False" || text == "true" || text == "false" || text == "TRUE" || text == "FALSE")
    return Kind::boolean;
  if (is_number(text, dialect)) return Kind::number;
  return parse_date(text) ? Kind::date : Kind::text;
}

// What the first rows say of a column.
class Evidence {
 public:
  void add(const std::string& text, const Dialect& dialect) {
    if (is_missing(text, dialect)) {
      missing_ = true;
      return;
    }
    seen_.insert(kind_of(text, dialect));
    if (const auto date = parse_date(text)) digits_ = std::max(digits_, date->digits);
  }
  Column column(std::string name, const Dialect& dialect) const {
    Column out{std::move(name)};
    if (seen_.contains(Kind::text) || (seen_.contains(Kind::date) && seen_.size() > 1))
      out.kind = Kind::text;
    else if (seen_.contains(Kind::date))
      out.kind = Kind::date;
    else if (seen_ == std::set{Kind::boolean} && !missing_)
      out.kind = Kind::boolean;
    constexpr int kMicroseconds = 6;
    out.unit = dialect.dates.value_or(digits_ < 0                ? DateUnit::days
                                      : digits_ <= kMicroseconds ? DateUnit::microseconds
                                                                 : DateUnit::nanoseconds);
    return out;
  }

 private:
  std::set<Kind> seen_;
  bool missing_ = false;
  int digits_ = -1;
};

// Without names or with one twice, pandas' names are NAME.1, NAME.2 ...
void name_columns(std::vector<std::string>& names) {
  std::set<std::string> taken;
  std::map<std::string, int64_t> times;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) names[i] = fmt::format("Unnamed: {}", i);
    std::string name = names[i];
    for (int64_t& n = times[names[i]]; !taken.insert(name).second;) name = fmt::format("{}.{}", names[i], ++n);
    names[i] = name;
  }
}

Table describe(const ByteSource& file, const std::string& name, const Dialect& wanted) {
  const Head head(file, name);
  head.check_text();
  Table table;
  table.dialect = wanted;
  size_t at = head.begin();
  const auto first = head.next(at);
  if (!first) throw local::IoError(fmt::format("'{}' is no CSV file: it has no line", name));
  if (table.dialect.delimiter == 0) table.dialect.delimiter = delimiter_of(*first, name);
  const int64_t count = 1 + count_delimiters(first->data(), first->data() + first->size(), table.dialect.delimiter);
  if (count > kMostColumns) {
    throw local::NotSupported(
        fmt::format("'{}' has {} columns, and quarry reads CSV files of at most {}", name, count, kMostColumns));
  }
  std::vector<std::string> fields = split_line(*first, table.dialect.delimiter);
  if (!table.dialect.header) {
    table.dialect.header = std::ranges::any_of(fields, [&](const std::string& field) {
      const Kind kind = kind_of(field, table.dialect);
      return !is_missing(field, table.dialect) && (kind == Kind::text || kind == Kind::boolean);
    });
    // A row of dates and numbers has dates.
    if (std::ranges::all_of(fields, [&](const std::string& f) { return is_missing(f, table.dialect); }))
      table.dialect.header = true;
  }
  const size_t rows_begin = *table.dialect.header ? at : head.begin();
  table.begin = static_cast<int64_t>(rows_begin);
  std::vector<Evidence> evidence(fields.size());
  at = rows_begin;
  for (int64_t row = 0; row < kSampleRows; ++row) {
    const auto line = head.next(at);
    if (!line) break;
    const std::vector<std::string> values = split_line(*line, table.dialect.delimiter);
    for (size_t i = 0; i < std::min(values.size(), fields.size()); ++i) evidence[i].add(values[i], table.dialect);
  }
  if (!*table.dialect.header)
    for (size_t i = 0; i < fields.size(); ++i) fields[i] = std::to_string(i);
  name_columns(fields);
  for (size_t i = 0; i < fields.size(); ++i)
    table.columns.push_back(evidence[i].column(std::move(fields[i]), table.dialect));
  return table;
}

// --- a data set of it ---

struct Stored {
  DatasetInfo info;
  Dialect dialect;
  std::vector<int64_t> fields;     // of the columns, in the order of the data set
  std::vector<std::string> names;  // of all columns
  bool are_dates = false;
  DateUnit unit = DateUnit::days;
  int64_t file_bytes = 0;
  RowIndex index;
};

void put_numbers(ByteWriter& out, const std::vector<int64_t>& values) {
  out.put_bytes(std::as_bytes(std::span(values)));
}
std::vector<int64_t> get_numbers(ByteReader& in) {
  const auto bytes = in.get_bytes();
  std::vector<int64_t> out(bytes.size() / sizeof(int64_t));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

void describe_storage(Stored& stored) {
  DatasetInfo& info = stored.info;
  info.layout = "text";
  info.direct = true;
  info.filters = {{Filter::Kind::other, 0, "text"}};
  info.stored_bytes = stored.file_bytes;
  if (stored.are_dates) {
    info.attributes["units"] = fmt::format("{} since 1970-01-01", name(stored.unit));
    info.attributes["_FillValue"] = kNoDate;
  }
  Dims chunks = info.shape;
  for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
  chunks[0] = std::clamp<int64_t>(kChunkBytes / std::max<int64_t>(stored.file_bytes / chunks[0], 1), 1, chunks[0]);
  info.chunks = chunks;
}

std::string to_layout(const Stored& stored) {
  ByteWriter out;
  out.put_string(stored.info.file);
  out.put_string(stored.info.object);
  out.put_dims(stored.info.shape);
  out.put(stored.info.dtype);
  out.put(stored.dialect.delimiter);
  out.put(stored.dialect.decimal);
  out.put_string(stored.dialect.missing);
  put_numbers(out, stored.fields);
  out.put<int64_t>(std::ssize(stored.names));
  for (const std::string& name : stored.names) out.put_string(name);
  out.put(stored.are_dates);
  out.put(stored.unit);
  out.put(stored.file_bytes);
  out.put(stored.index.rows);
  out.put(stored.index.longest_line);
  out.put(stored.index.has_quotes);
  put_numbers(out, stored.index.numbers);
  put_numbers(out, stored.index.offsets);
  return out.take();
}

Stored from_layout(const std::string& bytes) {
  ByteReader in(bytes);
  Stored stored;
  stored.info.file = in.get_string();
  stored.info.object = in.get_string();
  stored.info.shape = in.get_dims();
  stored.info.dtype = in.get<DType>();
  stored.dialect.delimiter = in.get<char>();
  stored.dialect.decimal = in.get<char>();
  stored.dialect.missing = in.get_string();
  stored.fields = get_numbers(in);
  stored.names.resize(static_cast<size_t>(in.get<int64_t>()));
  for (std::string& name : stored.names) name = in.get_string();
  stored.are_dates = in.get<bool>();
  stored.unit = in.get<DateUnit>();
  stored.file_bytes = in.get<int64_t>();
  stored.index.rows = in.get<int64_t>();
  stored.index.longest_line = in.get<int64_t>();
  stored.index.has_quotes = in.get<bool>();
  stored.index.numbers = get_numbers(in);
  stored.index.offsets = get_numbers(in);
  describe_storage(stored);
  return stored;
}

class CsvDataset final : public Dataset {
 public:
  explicit CsvDataset(Stored stored)
      : stored_(std::move(stored)),
        file_(stored_.info.file, stored_.file_bytes),
        item_(local::itemsize(stored_.info.dtype)) {}

  const DatasetInfo& info() const override { return stored_.info; }
  const Format& format() const override { return csv::format(); }
  std::string layout() const override { return to_layout(stored_); }

  int64_t read_scratch_bytes(const local::Region& region) const override { return visit_scratch_bytes(region); }
  int64_t visit_scratch_bytes(const local::Region& region) const override {
    return text_bytes() + piece_rows(region) * row_bytes(region);
  }

  void read(const local::Region& region, void* to, std::span<std::byte> scratch) const override {
    const AscendingRegion ascending(region, stored_.info.shape);
    if (ascending.empty()) return;
    const TraceCall traced("read", "read", info().object, region.start, region.elements() * item_, "text");
    if (!ascending.flipped()) {
      parse(
          ascending, scratch, [&](int64_t row) { return static_cast<std::byte*>(to) + row * row_bytes(region); },
          [](int64_t) {});
    } else {
      const Dims strides = local::contiguous_strides(region.count, item_);
      visit(region, scratch,
            [&](const Piece& piece) { copy_piece(piece, item_, static_cast<std::byte*>(to), strides); });
    }
  }

  void visit(const local::Region& region, std::span<std::byte> scratch,
             const std::function<void(const Piece&)>& consume) const override {
    const AscendingRegion ascending(region, stored_.info.shape);
    if (ascending.empty()) return;
    const TraceCall traced("read", "visit", info().object, region.start, region.elements() * item_, "text");
    const int64_t rows = piece_rows(region), bytes = row_bytes(region);
    std::byte* const values = scratch.data() + text_bytes();
    const Dims nowhere = Dims::filled(region.ndim(), 0);
    Piece piece;
    const auto give = [&](int64_t first, int64_t count) {
      Dims index = nowhere, extent = region.count;
      index[0] = first;
      extent[0] = count;
      place_piece(ascending, nowhere, index, extent, values, local::contiguous_strides(extent, item_), piece);
      consume(piece);
    };
    const int64_t last = region.count[0] - 1;
    parse(
        ascending, scratch, [&](int64_t row) { return values + row % rows * bytes; },
        [&](int64_t row) {
          if (row % rows == rows - 1 || row == last) give(row - row % rows, row % rows + 1);
        });
  }
  int64_t bytes_read() const override { return bytes_read_; }

 private:
  int64_t text_bytes() const {
    return local::align_up(std::max(kTextBytes, stored_.index.longest_line + 1), kAlignment);
  }
  int64_t row_bytes(const local::Region& region) const { return (region.ndim() > 1 ? region.count[1] : 1) * item_; }
  int64_t piece_rows(const local::Region& region) const {
    const int64_t most = std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(row_bytes(region), 1));
    return std::clamp<int64_t>(region.count[0], 1, most);
  }

  // Puts each row of the region to place(row), then calls done(row); rows are counted in ascending order.
  template <class Place, class Done>
  void parse(const AscendingRegion& region, std::span<std::byte> scratch, Place&& place, Done&& done) const {
    QUARRY_CHECK(static_cast<int64_t>(scratch.size()) >= text_bytes());
    local::dispatch(stored_.info.dtype, [&]<class T>() {
      if constexpr (std::is_arithmetic_v<T>) {
        parse_as<T>(region, {reinterpret_cast<char*>(scratch.data()), static_cast<size_t>(text_bytes())}, place, done);
      } else {
        QUARRY_CHECK(false);
      }
    });
  }

  template <class T, class Place, class Done>
  void parse_as(const AscendingRegion& region, std::span<char> text, Place&& place, Done&& done) const {
    // Fields in the line's order, and where each goes.
    const int64_t width = region.count.size() > 1 ? region.count[1] : 1;
    std::vector<int64_t> order(static_cast<size_t>(width)), chosen;
    std::iota(order.begin(), order.end(), 0);
    const auto field_of = [&](int64_t column) {
      return stored_.fields[static_cast<size_t>(region.count.size() > 1 ? region.low[1] + column * region.step[1] : 0)];
    };
    std::ranges::sort(order, {}, field_of);
    for (const int64_t column : order) chosen.push_back(field_of(column));
    const bool in_order = std::ranges::is_sorted(order);
    const LineParser<T> parser(stored_.dialect, chosen, std::ssize(stored_.names), stored_.are_dates, stored_.unit);
    const auto unordered = std::make_unique<T[]>(in_order ? 0 : order.size());

    const RowIndex& index = stored_.index;
    const size_t entry = index.entry_before(region.low[0]);
    LineReader lines(file_, index.offsets[entry], index.has_quotes, text);
    int64_t skip = region.low[0] - index.numbers[entry];
    for (int64_t row = 0; row < region.count[0]; ++row) {
      std::string_view line;
      for (; skip >= 0; --skip) {
        if (!lines.next(line))
          throw local::IoError(fmt::format("'{}' has fewer lines than when it was opened", stored_.info.file));
      }
      skip = region.step[0] - 1;
      T* const to = reinterpret_cast<T*>(place(row));
      const auto problem = parser.parse(line.data(), line.data() + line.size(), in_order ? to : unordered.get(), 1);
      if (problem) [[unlikely]]
        fail(*problem, lines.offset_of(problem->at));
      if (!in_order)
        for (size_t i = 0; i < order.size(); ++i) to[order[i]] = unordered[i];
      done(row);
    }
    bytes_read_.fetch_add(lines.bytes_read(), std::memory_order_relaxed);
  }

  [[noreturn]] void fail(const Problem& problem, int64_t offset) const {
    const auto field = static_cast<size_t>(problem.field);
    const std::string column = field < stored_.names.size() ? fmt::format("{} ({})", field + 1, stored_.names[field])
                                                            : std::to_string(field + 1);
    throw local::IoError(fmt::format("'{}', line {}, column {}: {}", stored_.info.file, line_number(file_, offset),
                                     column, problem.what));
  }

  const Stored stored_;
  const LazyFile file_;
  const int64_t item_;
  mutable std::atomic<int64_t> bytes_read_{0};
};

// Numbers of the chosen columns. Throws InvalidArgument.
std::vector<int64_t> chosen_columns(const Table& table, const std::string& wanted, const std::string& file) {
  const auto number = [&](const std::string& name) -> int64_t {
    const auto found = std::ranges::find(table.columns, name, &Column::name);
    return found == table.columns.end() ? -1 : found - table.columns.begin();
  };
  if (const int64_t whole = number(wanted); whole >= 0) return {whole};
  std::vector<int64_t> out;
  for (size_t at = 0; at <= wanted.size();) {
    const size_t end = std::min(wanted.find(',', at), wanted.size());
    const std::string name = wanted.substr(at, end - at);
    out.push_back(number(name));
    if (out.back() < 0) {
      std::vector<std::string> names;
      for (const Column& column : table.columns) names.push_back("/" + column.name);
      throw_no_object(file, "/" + name, names);
    }
    if (std::ranges::count(out, out.back()) > 1)
      throw local::InvalidArgument(fmt::format("the column '{}' of '{}' is named twice", name, file));
    at = end + 1;
  }
  return out;
}

// dtype and units of columns together. Throws TypeError.
void choose_dtype(const Table& table, const std::string& object, Stored& stored) {
  std::string others;
  int64_t dates = 0, truths = 0;
  std::set<DateUnit> units;
  for (const int64_t field : stored.fields) {
    const Column& column = table.columns[static_cast<size_t>(field)];
    switch (column.kind) {
      case Kind::number:
        break;
      case Kind::boolean:
        ++truths;
        break;
      case Kind::date:
        ++dates;
        stored.unit = std::max(stored.unit, column.unit);
        break;
      case Kind::text:
        others += (others.empty() ? "" : ", ") + column.name + " (text)";
        break;
    }
  }
  const int64_t count = std::ssize(stored.fields);
  if (dates > 0 && dates < count)
    for (const int64_t field : stored.fields)
      if (const Column& column = table.columns[static_cast<size_t>(field)]; column.kind == Kind::date)
        others += (others.empty() ? "" : ", ") + column.name + " (dates)";
  if (!others.empty()) {
    const std::string which = count == 1 ? "it is no column" : "these are no columns";
    throw local::TypeError(fmt::format("'{}' in '{}': {} of numbers: {}{}", object, stored.info.file, which, others,
                                       count == 1 ? "" : "; choose others by name, as in /open,close"));
  }
  stored.are_dates = dates > 0;
  stored.info.dtype = stored.are_dates      ? DType::int64
                      : table.dialect.dtype ? *table.dialect.dtype
                      : truths == count     ? DType::bool_
                                            : DType::float64;
}

// What the data set of some columns is, without what reading it needs.
Stored stored_of(const std::string& file, const std::string& object, const Table& table, std::vector<int64_t> fields,
                 bool is_column, int64_t file_bytes, int64_t rows) {
  Stored stored;
  stored.info.file = file;
  stored.info.object = object;
  stored.dialect = table.dialect;
  stored.fields = std::move(fields);
  stored.file_bytes = file_bytes;
  choose_dtype(table, object, stored);
  stored.info.shape = Dims{rows};
  if (!is_column) stored.info.shape.push_back(std::ssize(stored.fields));
  describe_storage(stored);
  return stored;
}

std::vector<int64_t> all_columns(const Table& table) {
  std::vector<int64_t> out(table.columns.size());
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

std::shared_ptr<Dataset> open_dataset(const std::string& file, const std::string& object) {
  const Selection selection = parse_selection(object);
  const auto source = ByteFile::shared(file);
  const Table table = describe(*source, file, selection.dialect);
  const bool is_table = selection.columns.empty();
  std::vector<int64_t> fields = is_table ? all_columns(table) : chosen_columns(table, selection.columns, file);
  const bool is_column = !is_table && fields.size() == 1;
  // What is wrong with the columns is said before the file is read.
  stored_of(file, selection.object, table, fields, is_column, source->size(), /*rows=*/0);
  RowIndex index = index_rows(*source, table.begin, file);
  Stored stored = stored_of(file, selection.object, table, std::move(fields), is_column, source->size(), index.rows);
  for (const Column& column : table.columns) stored.names.push_back(column.name);
  stored.index = std::move(index);
  return std::make_shared<CsvDataset>(std::move(stored));
}

std::vector<ObjectInfo> list_objects(const std::string& file, const std::string& object) {
  const Selection selection = parse_selection(object);
  const auto source = ByteFile::shared(file);
  const Table table = describe(*source, file, selection.dialect);
  const int64_t rows = index_rows(*source, table.begin, file).rows;
  std::vector<ObjectInfo> out;
  const auto add = [&](const std::string& path, const std::vector<int64_t>& fields, bool is_column) {
    try {
      DatasetInfo info = stored_of(file, path, table, fields, is_column, source->size(), rows).info;
      info.filters.clear();  // whose ratio would be one of the whole file to a part of it
      info.chunks.reset();
      out.push_back({path, false, std::move(info), ""});
    } catch (const local::TypeError&) {
      out.push_back({path, is_column ? false : true, std::nullopt, is_column ? "text" : "columns of several kinds"});
    }
  };
  if (!selection.columns.empty()) {
    add("/" + selection.columns, chosen_columns(table, selection.columns, file), true);
    return out;
  }
  add("/", all_columns(table), false);
  for (size_t i = 0; i < table.columns.size(); ++i) add("/" + table.columns[i].name, {static_cast<int64_t>(i)}, true);
  return out;
}

std::shared_ptr<Dataset> dataset_of(const std::string& layout) {
  return std::make_shared<CsvDataset>(from_layout(layout));
}

}  // namespace quarry::io::csv
