#include "quarry/local/base/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

namespace quarry::local {
namespace {

constexpr OptionRow kTable[] = {
#define QUARRY_OPTION(member, type, option, environment, values, otherwise, shown, scope, layer, help) \
  {Option::member, #member, OptionType::type,   option, environment, values,                           \
   otherwise,      shown,   OptionScope::scope, layer,  help},
#include "quarry/local/base/options.def"
#undef QUARRY_OPTION
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// LEAST..MOST of a row, as text; either may be empty.
struct Bounds {
  std::string_view least, most;
};
Bounds bounds_of(const OptionRow& row) {
  const size_t dots = row.values.find("..");
  if (dots == std::string_view::npos) return {};
  return {row.values.substr(0, dots), row.values.substr(dots + 2)};
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "auto, cpu or cuda"
std::string alternatives(std::span<const std::string_view> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string in_bounds(const char* what, const OptionRow& row) {
  const auto [least, most] = bounds_of(row);
  if (!least.empty() && !most.empty()) return fmt::format("{} from {} to {}", what, least, most);
  if (!least.empty()) return fmt::format("{}, at least {}", what, least);
  return most.empty() ? what : fmt::format("{}, at most {}", what, most);
}

constexpr std::string_view kOn[] = {"on", "1", "true", "yes"}, kOff[] = {"off", "0", "false", "no"};

}  // namespace

std::span<const OptionRow> option_table() { return kTable; }
const OptionRow& option_row(Option option) { return kTable[static_cast<size_t>(option)]; }

std::string_view name(OptionType type) {
  switch (type) {
    case OptionType::flag:
      return "flag";
    case OptionType::integer:
      return "integer";
    case OptionType::number:
      return "number";
    case OptionType::size:
      return "size";
    case OptionType::seconds:
      return "seconds";
    case OptionType::choice:
      return "choice";
    case OptionType::extents:
      return "extents";
    case OptionType::path:
      return "path";
    case OptionType::text:
      return "text";
  }
  return "unknown";
}

std::string_view name(OptionScope scope) {
  switch (scope) {
    case OptionScope::runtime:
      return "runtime";
    case OptionScope::tool:
      return "tool";
    case OptionScope::diagnostics:
      return "diagnostics";
    case OptionScope::test:
      return "test";
  }
  return "unknown";
}

std::string_view OptionRow::placeholder() const {
  switch (type) {
    case OptionType::flag:
      return "";
    case OptionType::integer:
      return "N";
    case OptionType::number:
      return "X";
    case OptionType::size:
    case OptionType::seconds:
    case OptionType::choice:
    case OptionType::extents:
    case OptionType::path:
    case OptionType::text:
      break;
  }
  return values;
}

OptionValue::OptionValue(Option option) : OptionValue(option, "", OptionGiver::nobody) {}

OptionValue::OptionValue(Option option, std::string text, OptionGiver giver, std::string file)
    : row_(&option_row(option)), text_(std::move(text)), file_(std::move(file)), giver_(giver) {
  if (!text_.empty()) return;
  if (!row_->environment.empty()) text_ = local::environment(row_->environment.data(), "");
  giver_ = text_.empty() ? OptionGiver::nobody : OptionGiver::environment;
  if (text_.empty()) text_ = row_->otherwise;
}

std::string OptionValue::source() const {
  switch (giver_) {
    case OptionGiver::command_line:
      return std::string(row_->option);
    case OptionGiver::environment:
      return std::string(row_->environment);
    case OptionGiver::file:
      return fmt::format("{}: {}", file_, row_->member);
    case OptionGiver::program:
    case OptionGiver::nobody:
      break;
  }
  return std::string(row_->member);
}

std::string OptionValue::shown() const {
  switch (giver_) {
    case OptionGiver::command_line:
      return fmt::format("{} {}", source(), excerpt(text_));
    case OptionGiver::file:
    case OptionGiver::environment:
      return fmt::format("{}={}", source(), excerpt(text_));
    case OptionGiver::program:
    case OptionGiver::nobody:
      break;
  }
  return fmt::format("{}: \"{}\"", source(), excerpt(text_));
}

void OptionValue::reject(const std::string& expected) const {
  throw InvalidArgument(fmt::format("{}: expected {}", shown(), expected));
}

void OptionValue::require_type(OptionType type) const { QUARRY_CHECK(row_->type == type); }

bool OptionValue::flag() const {
  require_type(OptionType::flag);
  if (std::ranges::find(kOn, text_) != std::end(kOn)) return true;
  if (std::ranges::find(kOff, text_) != std::end(kOff)) return false;
  reject("on or off");
}

uint64_t OptionValue::natural() const {
  require_type(OptionType::integer);
  const auto [least, most] = bounds_of(*row_);
  const std::optional<uint64_t> value = parse_whole<uint64_t>(text_);
  if (!value || (!least.empty() && *value < *parse_whole<uint64_t>(least)) ||
      (!most.empty() && *value > *parse_whole<uint64_t>(most))) {
    reject(in_bounds("a whole number", *row_));
  }
  return *value;
}

int64_t OptionValue::integer() const {
  const uint64_t value = natural();
  QUARRY_CHECK(value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));  // the row's bounds
  return static_cast<int64_t>(value);
}

// NaN where the text is no number.
double OptionValue::real() const {
  double value = 0;
  const char* const end = text_.data() + text_.size();
  const auto [at, error] = std::from_chars(text_.data(), end, value);
  return text_.empty() || error != std::errc() || at != end ? std::nan("") : value;
}

double OptionValue::number() const {
  require_type(OptionType::number);
  const auto [least, most] = bounds_of(*row_);
  const double value = real();
  if (!std::isfinite(value) || (!least.empty() && value < std::strtod(least.data(), nullptr)) ||
      (!most.empty() && value > std::strtod(most.data(), nullptr))) {
    reject(in_bounds("a number", *row_));
  }
  return value;
}

double OptionValue::seconds() const {
  require_type(OptionType::seconds);
  const double value = real();
  if (!(value >= 0)) reject("seconds");
  return value;
}

int64_t OptionValue::bytes(std::optional<int64_t> free_bytes) const {
  require_type(OptionType::size);
  try {
    return parse_size(text_, free_bytes);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", source(), error.what()));
  }
}

size_t OptionValue::word() const {
  require_type(OptionType::choice);
  const std::vector<std::string_view> words = split(row_->values, '|');
  const auto found = std::ranges::find(words, text_);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  const std::vector<std::string> known(words.begin(), words.end());
  reject(alternatives(words) + suggestion(text_, known));
}

std::optional<Dims> OptionValue::extents() const {
  require_type(OptionType::extents);
  std::vector<std::string_view> words = split(row_->values, '|');
  words.erase(words.begin());  // what stands for the extents
  if (std::ranges::find(words, text_) != words.end()) return std::nullopt;
  const auto bad = [&]() {
    reject("extents of at least 1 as in 4096,512 (-1: a whole axis), or " + alternatives(words));
  };
  std::string_view inner = text_;
  if (inner.starts_with('(') && inner.ends_with(')')) inner = inner.substr(1, inner.size() - 2);
  std::vector<std::string_view> parts = split(inner, ',');
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back();  // "(4096,)"
  Dims extents;
  for (const std::string_view part : parts) {
    const auto extent = parse_whole<int64_t>(part.substr(std::min(part.find_first_not_of(' '), part.size())));
    if (!extent || *extent == 0 || *extent < -1) bad();
    extents.push_back(*extent);
  }
  return extents;
}

void OptionValue::check() const {
  if (text_.empty()) return;  // a default that is found out later
  constexpr int64_t kSomeBytes = int64_t{1} << 40;
  switch (row_->type) {
    case OptionType::flag:
      static_cast<void>(flag());
      break;
    case OptionType::integer:
      static_cast<void>(natural());
      break;
    case OptionType::number:
      static_cast<void>(number());
      break;
    case OptionType::size:
      static_cast<void>(bytes(kSomeBytes));
      break;
    case OptionType::seconds:
      static_cast<void>(seconds());
      break;
    case OptionType::choice:
      static_cast<void>(word());
      break;
    case OptionType::extents:
      static_cast<void>(extents());
      break;
    case OptionType::path:
    case OptionType::text:
      break;
  }
}

int64_t parse_size(const std::string& text, std::optional<int64_t> free_bytes) {
  struct Unit {
    std::string_view name;
    int64_t bytes;
  };
  static constexpr Unit kUnits[] = {
      {"", 1},
      {"b", 1},
      {"kb", 1000},
      {"mb", 1000000},
      {"gb", 1000000000},
      {"tb", 1000000000000},
      {"kib", int64_t{1} << 10},
      {"mib", int64_t{1} << 20},
      {"gib", int64_t{1} << 30},
      {"tib", int64_t{1} << 40},
  };
  const auto bad = [&](const std::string& why) {
    return InvalidArgument(fmt::format(
        "\"{}\" is no size: {}; write 1536, 256MiB, 1.5 GiB, 512 MB (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB){}",
        excerpt(text), why, free_bytes ? " or 50%" : ""));
  };
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end && is_space(static_cast<unsigned char>(*at))) ++at;
  while (at < end && is_space(static_cast<unsigned char>(end[-1]))) --end;
  if (at == end) throw bad("it is empty");
  const char* digits = at;
  while (at < end && (std::isdigit(static_cast<unsigned char>(*at)) != 0 || *at == '.')) ++at;
  if (at == digits) throw bad("it does not start with a number");
  // A plain integer stays exact; a fraction goes through long double, which holds every int64.
  int64_t whole = 0;
  long double number = 0;
  const bool integral = std::find(digits, at, '.') == at;
  if (integral) {
    if (std::from_chars(digits, at, whole).ec != std::errc()) throw bad("the number is too large");
    number = static_cast<long double>(whole);
  } else {
    double fraction = 0;
    const auto result = std::from_chars(digits, at, fraction, std::chars_format::fixed);
    if (result.ec != std::errc() || result.ptr != at) throw bad("the number cannot be read");
    number = fraction;
  }
  while (at < end && is_space(static_cast<unsigned char>(*at))) ++at;
  std::string unit(at, end);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (unit == "%") {
    if (!free_bytes) throw bad("there is nothing for it to be a part of");
    if (number > 100) throw bad("more than all there is");
    return static_cast<int64_t>(number / 100 * static_cast<long double>(std::max<int64_t>(*free_bytes, 0)));
  }
  const auto* found = std::ranges::find(kUnits, std::string_view(unit), &Unit::name);
  if (found == std::end(kUnits)) throw bad(fmt::format("unknown unit \"{}\"", excerpt(std::string(at, end))));
  const long double bytes = number * static_cast<long double>(found->bytes);
  if (bytes > static_cast<long double>(std::numeric_limits<int64_t>::max())) throw bad("the number is too large");
  return integral ? whole * found->bytes : static_cast<int64_t>(bytes);
}

std::optional<int64_t> parse_integer(std::string_view text) { return parse_whole<int64_t>(text); }

std::optional<std::string> environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string environment(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

void set_default_environment(const char* name, const char* value) { ::setenv(name, value, /*overwrite=*/0); }
void unset_environment(const char* name) { ::unsetenv(name); }

std::vector<std::string> environment_entries() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

void check_environment(std::span<const OptionScope> scopes, std::span<const Option> given) {
  for (const OptionRow& row : kTable) {
    const bool hidden = std::ranges::find(given, row.id) != given.end();
    if (!hidden && std::ranges::find(scopes, row.scope) != scopes.end()) OptionValue(row.id).check();
  }
}

std::vector<std::string> misspelt_variables() {
  std::vector<std::string> lines, names;
  for (const OptionRow& row : kTable) {
    if (!row.environment.empty()) names.emplace_back(row.environment);
  }
  for (const std::string& entry : environment_entries()) {
    const std::string variable = entry.substr(0, entry.find('='));
    constexpr std::string_view kPrefix = "QUARRY_";
    if (!variable.starts_with(kPrefix) || std::ranges::find(names, variable) != names.end()) continue;
    // Two edits are a slip; what is farther away may be somebody's own.
    constexpr size_t kSlip = 2;
    const auto near = [&](const std::string& known) { return edit_distance(variable, known) <= kSlip; };
    const std::string hint = std::ranges::any_of(names, near) ? suggestion(variable, names) : "";
    if (!hint.empty()) lines.push_back(variable + " is no option" + hint);
  }
  return lines;
}

}  // namespace quarry::local
