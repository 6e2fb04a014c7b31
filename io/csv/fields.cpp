#include "quarry/io/csv/fields.h"

#include <fast_float/fast_float.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <type_traits>

#include "quarry/local/base/message.h"

namespace quarry::io::csv {
namespace {

constexpr int64_t kDay = 86'400'000'000'000;  // nanoseconds

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Days since 1970-01-01 of a date of the proleptic Gregorian calendar: years begin in March, so that leap days are at
// the end (Howard Hinnant, chrono-Compatible Low-Level Date Algorithms).
int64_t days_of(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

int64_t days_in_month(int64_t year, int64_t month) {
  constexpr int64_t kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return kDays[month - 1] + (month == 2 && is_leap ? 1 : 0);
}

// Takes digits and marks from the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  bool number(size_t digits, int64_t& out) {
    if (text_.size() < digits) return false;
    out = 0;
    for (size_t i = 0; i < digits; ++i) {
      if (text_[i] < '0' || text_[i] > '9') return false;
      out = out * 10 + (text_[i] - '0');
    }
    text_.remove_prefix(digits);
    return true;
  }
  bool mark(char c) {
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  char front() const { return text_.empty() ? '\0' : text_[0]; }
  bool empty() const { return text_.empty(); }

 private:
  std::string_view text_;
};

bool parse_clock(Scanner& in, Date& date) {
  int64_t hour = 0, minute = 0, second = 0, fraction = 0;
  if (!in.number(2, hour) || !in.mark(':') || !in.number(2, minute)) return false;
  date.digits = 0;
  if (in.mark(':')) {
    if (!in.number(2, second)) return false;
    if (in.mark('.')) {
      int64_t scale = 1'000'000'000, digit = 0;
      while (in.number(1, digit)) {
        if (++date.digits > 9) return false;
        scale /= 10;
        fraction += digit * scale;
      }
      if (date.digits == 0) return false;
    }
  }
  if (hour > 23 || minute > 59 || second > 59) return false;
  date.nanoseconds = ((hour * 60 + minute) * 60 + second) * 1'000'000'000 + fraction;
  if (in.mark('Z')) return true;
  const char sign = in.front();
  if (sign != '+' && sign != '-') return true;
  in.mark(sign);
  if (!in.number(2, hour)) return false;
  in.mark(':');
  if (!in.number(2, minute) || hour > 23 || minute > 59) return false;
  date.nanoseconds -= (sign == '+' ? 1 : -1) * (hour * 60 + minute) * 60 * 1'000'000'000;
  return true;
}

// A number at the beginning of a text; where it ends, or null.
template <class T>
const char* parse_number(const char* begin, const char* end, char decimal, T& out) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto [stop, error] = fast_float::from_chars_advanced(
        begin, end, out, fast_float::parse_options(fast_float::chars_format::general, decimal));
    return error == std::errc{} ? stop : nullptr;
  } else if constexpr (std::is_same_v<T, bool>) {
    return nullptr;
  } else {
    const auto [stop, error] = std::from_chars(begin, end, out);
    return error == std::errc{} ? stop : nullptr;
  }
}

std::optional<bool> parse_truth(std::string_view text) {
  for (const std::string_view word : {"True", "true", "TRUE"})
    if (text == word) return true;
  for (const std::string_view word : {"False", "false", "FALSE"})
    if (text == word) return false;
  return std::nullopt;
}

}  // namespace

const char* field_end(const char* begin, const char* end, char delimiter) {
  if (begin < end && *begin == '"') {
    for (++begin; begin < end; ++begin) {
      if (*begin != '"') continue;
      if (begin + 1 < end && begin[1] == '"')
        ++begin;
      else
        break;
    }
  }
  const void* const found = begin < end ? std::memchr(begin, delimiter, static_cast<size_t>(end - begin)) : nullptr;
  return found ? static_cast<const char*>(found) : end;
}

std::string field_text(const char* begin, const char* end) {
  std::string_view text = trimmed({begin, static_cast<size_t>(end - begin)});
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') ++i;
  }
  return out;
}

std::vector<std::string> split_line(std::string_view line, char delimiter) {
  std::vector<std::string> out;
  const char *at = line.data(), *const end = at + line.size();
  for (;;) {
    const char* const stop = field_end(at, end, delimiter);
    out.push_back(field_text(at, stop));
    if (stop == end) return out;
    at = stop + 1;
  }
}

int64_t count_delimiters(const char* begin, const char* end, char delimiter) {
  if (begin == end) return 0;
  if (!std::memchr(begin, '"', static_cast<size_t>(end - begin))) return std::count(begin, end, delimiter);
  int64_t count = 0;
  for (begin = field_end(begin, end, delimiter); begin < end; begin = field_end(begin + 1, end, delimiter)) ++count;
  return count;
}

bool is_missing(std::string_view text, const Dialect& dialect) {
  constexpr std::string_view kWords[] = {"",        "NaN",      "nan",    "NA",      "N/A",      "n/a",  "null",
                                         "NULL",    "None",     "<NA>",   "#N/A",    "#NA",      "-NaN", "-nan",
                                         "1.#QNAN", "-1.#QNAN", "1.#IND", "-1.#IND", "#N/A N/A", "NaT"};
  return std::ranges::find(kWords, text) != std::end(kWords) || (!dialect.missing.empty() && text == dialect.missing);
}

std::optional<Date> parse_date(std::string_view text) {
  Scanner in(text);
  int64_t year = 0, month = 0, day = 0;
  if (!in.number(4, year)) return std::nullopt;
  const char mark = in.front();
  if ((mark != '-' && mark != '/') || !in.mark(mark) || !in.number(2, month) || !in.mark(mark) || !in.number(2, day))
    return std::nullopt;
  if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month)) return std::nullopt;
  Date date{days_of(year, month, day), 0, -1};
  if (in.empty()) return date;
  if (!in.mark('T') && !in.mark(' ')) return std::nullopt;
  if (!parse_clock(in, date) || !in.empty()) return std::nullopt;
  return date;
}

std::optional<int64_t> in_unit(const Date& date, DateUnit unit) {
  const int64_t step = nanoseconds(unit);
  if (date.nanoseconds % step != 0) return std::nullopt;
  int64_t out = 0;
  if (__builtin_mul_overflow(date.days, kDay / step, &out) ||
      __builtin_add_overflow(out, date.nanoseconds / step, &out))
    return std::nullopt;
  return out;
}

template <class T>
LineParser<T>::LineParser(const Dialect& dialect, std::vector<int64_t> chosen, int64_t fields, bool are_dates,
                          DateUnit unit)
    : dialect_(dialect), chosen_(std::move(chosen)), fields_(fields), are_dates_(are_dates), unit_(unit) {}

template <class T>
std::optional<std::string> LineParser<T>::parse_rest(const char* begin, const char* end, T& out) const {
  const std::string text = field_text(begin, end);
  const bool missing = is_missing(text, dialect_);
  if constexpr (std::is_same_v<T, int64_t>) {
    if (are_dates_) {
      out = kNoDate;
      if (missing) return std::nullopt;
      const std::optional<Date> date = parse_date(text);
      if (!date) return fmt::format("'{}' is no date", local::excerpt(text));
      const std::optional<int64_t> value = in_unit(*date, unit_);
      if (!value) return fmt::format("'{}' is no whole number of {} in 64 bits", local::excerpt(text), name(unit_));
      out = *value;
      return std::nullopt;
    }
  }
  if (missing) {
    if constexpr (std::is_floating_point_v<T>) {
      out = std::numeric_limits<T>::quiet_NaN();
      return std::nullopt;
    }
    return "a value is missing, for which only floating point has one (NaN)";
  }
  if (const std::optional<bool> truth = parse_truth(text)) {
    out = static_cast<T>(*truth);
    return std::nullopt;
  }
  const char *first = text.data(), *const last = first + text.size();
  if (first < last && *first == '+' && first + 1 < last && first[1] != '-') ++first;
  if (first < last && parse_number(first, last, dialect_.decimal, out) == last) return std::nullopt;
  return fmt::format("'{}' is no {}", local::excerpt(text),
                     std::is_same_v<T, bool>       ? "truth value"
                     : std::is_floating_point_v<T> ? "number"
                                                   : "whole number of the dtype");
}

template <class T>
std::optional<Problem> LineParser<T>::parse(const char* begin, const char* end, T* out, int64_t stride) const {
  const char* at = begin;
  int64_t field = 0;
  const auto ragged = [&](int64_t found, const char* place) {
    return Problem{place, std::min(found, fields_),
                   fmt::format("the line has {} fields, the first one has {}", found, fields_)};
  };
  for (size_t i = 0; i < chosen_.size(); ++i) {
    for (; field < chosen_[i]; ++field) {
      at = field_end(at, end, dialect_.delimiter);
      if (at == end) return ragged(field + 1, at);
      ++at;
    }
    T& value = out[static_cast<int64_t>(i) * stride];
    const char* stop = are_dates_ ? nullptr : parse_number(at, end, dialect_.decimal, value);
    if (!stop || (stop != end && *stop != dialect_.delimiter)) [[unlikely]] {
      stop = field_end(at, end, dialect_.delimiter);
      if (const auto what = parse_rest(at, stop, value)) return Problem{at, field, *what};
    }
    ++field;
    at = stop;
    if (at == end) {
      if (field < fields_) return ragged(field, at);
      return std::nullopt;
    }
    ++at;
  }
  const int64_t found = field + 1 + count_delimiters(at, end, dialect_.delimiter);
  if (found != fields_) return ragged(found, at);
  return std::nullopt;
}

template class LineParser<bool>;
template class LineParser<int8_t>;
template class LineParser<int16_t>;
template class LineParser<int32_t>;
template class LineParser<int64_t>;
template class LineParser<uint8_t>;
template class LineParser<uint16_t>;
template class LineParser<uint32_t>;
template class LineParser<uint64_t>;
template class LineParser<float>;
template class LineParser<double>;

}  // namespace quarry::io::csv
