// Fields of lines: where they end, and which numbers they are.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/io/csv/dialect.h"

namespace quarry::io::csv {

inline constexpr int64_t kNoDate = std::numeric_limits<int64_t>::min();  // NumPy's NaT

// What the fields of a column are.
enum class Kind : uint8_t { number, boolean, date, text };

// The end of the field at `begin`: its delimiter, or `end`. Quotes count where a field begins with one.
const char* field_end(const char* begin, const char* end, char delimiter);
// A field without its quotes, and without space around what is not quoted.
std::string field_text(const char* begin, const char* end);
std::vector<std::string> split_line(std::string_view line, char delimiter);
// Delimiters outside of quotes.
int64_t count_delimiters(const char* begin, const char* end, char delimiter);

// A missing value, by the words that pandas takes for one.
bool is_missing(std::string_view text, const Dialect& dialect);

// 2020-01-31 or 2020/01/31, also with 12:30, 12:30:59 or 12:30:59.123456789 behind T or a space, and Z or +01:00
// behind that, which is taken to UTC.
struct Date {
  int64_t days = 0;         // since 1970-01-01, proleptic Gregorian calendar
  int64_t nanoseconds = 0;  // of the day; with a time zone also before or behind it
  int digits = -1;          // of the second's fraction; -1: no time
};
std::optional<Date> parse_date(std::string_view text);
// In the unit; nothing where it is no whole number of them or does not fit 64 bits.
std::optional<int64_t> in_unit(const Date& date, DateUnit unit);

// What is wrong with a line, and where.
struct Problem {
  const char* at;
  int64_t field;
  std::string what;
};

// Reads chosen fields of lines that have `fields` of them.
template <class T>
class LineParser {
 public:
  // `chosen`: ascending numbers of fields, none twice. `unit`: of dates, where these are meant.
  LineParser(const Dialect& dialect, std::vector<int64_t> chosen, int64_t fields, bool are_dates, DateUnit unit);

  // Puts the chosen fields to out[i * stride], or returns what is wrong.
  std::optional<Problem> parse(const char* begin, const char* end, T* out, int64_t stride) const;

 private:
  // What is not plainly a number.
  std::optional<std::string> parse_rest(const char* begin, const char* end, T& out) const;

  const Dialect& dialect_;
  const std::vector<int64_t> chosen_;
  const int64_t fields_;
  const bool are_dates_;
  const DateUnit unit_;
};

}  // namespace quarry::io::csv
