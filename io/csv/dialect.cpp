#include "quarry/io/csv/dialect.h"

#include <fmt/format.h>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

namespace quarry::io::csv {
namespace {

using local::InvalidArgument;

struct UnitRow {
  DateUnit unit;
  const char* shown;
  const char* word;
  int64_t nanoseconds;
};
constexpr UnitRow kUnits[] = {
    {DateUnit::days, "days", "days", 86'400'000'000'000},      {DateUnit::seconds, "seconds", "s", 1'000'000'000},
    {DateUnit::milliseconds, "milliseconds", "ms", 1'000'000}, {DateUnit::microseconds, "microseconds", "us", 1'000},
    {DateUnit::nanoseconds, "nanoseconds", "ns", 1},
};

char character(const std::string& key, const std::string& value) {
  if (value == "tab" || value == "\\t") return '\t';
  if (value.size() != 1 || value == "\"" || value == "\n" || value == "\r")
    throw InvalidArgument(fmt::format("{} is one character or the word tab, not '{}'", key, value));
  return value[0];
}

void set(Dialect& dialect, const std::string& key, const std::string& value) {
  if (key == "delimiter") {
    dialect.delimiter = character(key, value);
  } else if (key == "decimal") {
    dialect.decimal = character(key, value);
  } else if (key == "header") {
    if (value != "yes" && value != "no") throw InvalidArgument(fmt::format("header is yes or no, not '{}'", value));
    dialect.header = value == "yes";
  } else if (key == "missing") {
    dialect.missing = value;
  } else if (key == "dtype") {
    dialect.dtype = local::parse_dtype(value);
    if (!dialect.dtype || local::is_complex(*dialect.dtype) || local::is_half(*dialect.dtype))
      throw InvalidArgument(fmt::format("dtype is a real one of NumPy's, and no float16, not '{}'", value));
  } else if (key == "dates") {
    for (const UnitRow& row : kUnits)
      if (value == row.word || value == row.shown) dialect.dates = row.unit;
    if (!dialect.dates) throw InvalidArgument(fmt::format("dates is days, s, ms, us or ns, not '{}'", value));
  } else {
    const std::string keys[] = {"delimiter", "decimal", "header", "missing", "dtype", "dates"};
    throw InvalidArgument(fmt::format("a CSV file has no option '{}'{}", key, local::suggestion(key, keys)));
  }
}

}  // namespace

const char* name(DateUnit unit) { return kUnits[static_cast<size_t>(unit)].shown; }
int64_t nanoseconds(DateUnit unit) { return kUnits[static_cast<size_t>(unit)].nanoseconds; }

Selection parse_selection(const std::string& object) {
  Selection out;
  const size_t begin = std::min(object.find_first_not_of('/'), object.size());
  const size_t mark = object.find('?', begin), equals = object.find('=', mark == std::string::npos ? 0 : mark);
  // A question mark may also be of a column's name.
  const bool has_options = mark != std::string::npos && equals != std::string::npos;
  out.columns = object.substr(begin, (has_options ? mark : object.size()) - begin);
  out.object = "/" + object.substr(begin);
  if (!has_options) return out;
  for (size_t at = mark + 1; at < object.size();) {
    const size_t end = std::min(object.find('&', at + 1), object.size());
    const std::string pair = object.substr(at, end - at);
    const size_t split = pair.find('=');
    if (split == std::string::npos)
      throw InvalidArgument(fmt::format("options of a CSV file are KEY=VALUE, not '{}'", pair));
    set(out.dialect, pair.substr(0, split), pair.substr(split + 1));
    at = end + 1;
  }
  if (out.dialect.delimiter != 0 && out.dialect.delimiter == out.dialect.decimal)
    throw InvalidArgument("the delimiter and the decimal point are the same character");
  return out;
}

}  // namespace quarry::io::csv
