#include "quarry/io/zarr/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "quarry/local/base/error.h"

namespace quarry::io::zarr {
namespace {

using nlohmann::json;

// A word of Python's that is no JSON, as a text: behind a character that no text of a file has unescaped.
constexpr std::string_view kMark = "\x01";
constexpr std::string_view kMarkEscaped = "\\u0001";
constexpr std::string_view kWords[] = {"NaN", "Infinity", "-Infinity"};

double real_of_word(std::string_view word) {
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return word == "Infinity" ? infinity : -infinity;
}

std::string_view word_of(double value) {
  if (std::isnan(value)) return kWords[0];
  return value > 0 ? kWords[1] : kWords[2];
}

constexpr int kDeepest = 256;  // of lists and objects in each other: copies and texts of values are made recursively

// Words outside of texts become marked texts. Throws IoError for a text that is too deep.
std::string with_marks(const std::string& text, const std::string& name) {
  std::string out;
  bool in_text = false;
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') in_text = !in_text;
    if (!in_text && (text[at] == '[' || text[at] == '{') && ++depth > kDeepest)
      throw local::IoError(fmt::format("'{}' is damaged: it has brackets that are too deep", name));
    if (!in_text && (text[at] == ']' || text[at] == '}')) --depth;
    size_t taken = in_text && text[at] == '\\' ? 2 : 1;
    std::string_view word;
    for (const std::string_view each : kWords)
      if (!in_text && text.compare(at, each.size(), each) == 0) word = each;
    if (word.empty()) {
      out.append(text, at, taken);
    } else {
      out += fmt::format("\"{}{}\"", kMarkEscaped, word);
      taken = word.size();
    }
    at += taken;
  }
  return out;
}

std::optional<double> number_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  if (!text.starts_with(kMark)) return std::nullopt;
  const std::string_view word = std::string_view(text).substr(kMark.size());
  if (std::ranges::find(kWords, word) == std::end(kWords)) return std::nullopt;
  return real_of_word(word);
}

json marked(double value) {
  if (std::isfinite(value)) return value;
  return std::string(kMark) + std::string(word_of(value));
}

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr size_t kRealText = 12;  // of eight bytes, the last character a '='

}  // namespace

json parse_object(const std::string& text, const std::string& name) {
  try {
    json out = json::parse(with_marks(text, name));
    if (!out.is_object()) throw local::IoError(fmt::format("'{}' is damaged: it is no JSON object", name));
    return out;
  } catch (const json::exception& error) {
    throw local::IoError(fmt::format("'{}' is damaged: {}", name, error.what()));
  }
}

std::string to_text(const json& value) {
  constexpr int kIndent = 4;
  // What is no UTF-8 is replaced: a file may have given it.
  std::string out = value.dump(kIndent, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  for (const std::string_view word : kWords) {
    const std::string from = fmt::format("\"{}{}\"", kMarkEscaped, word);
    for (size_t at = 0; (at = out.find(from, at)) != std::string::npos; at += word.size())
      out.replace(at, from.size(), word);
  }
  return out;
}

std::map<std::string, Attribute> attributes_of(const json& object) {
  std::map<std::string, Attribute> out;
  if (!object.is_object()) return out;
  for (const auto& [name, value] : object.items()) {
    const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    if (value.is_boolean()) {
      out.emplace(name, int64_t{value.get<bool>()});
    } else if (value.is_number_integer() && !is_large) {
      out.emplace(name, value.get<int64_t>());
    } else if (const std::optional<double> number = number_of(value)) {
      out.emplace(name, *number);
    } else if (value.is_string()) {
      out.emplace(name, value.get<std::string>());
    } else if (value.is_array() && value.size() == 1 && number_of(value[0])) {
      out.merge(attributes_of({{name, value[0]}}));
    } else if (value.is_array()) {
      std::vector<double> numbers;
      for (const json& item : value)
        if (const std::optional<double> number = number_of(item)) numbers.push_back(*number);
      const bool are_texts = !value.empty() && std::ranges::all_of(value, &json::is_string);
      if (numbers.size() == value.size())
        out.emplace(name, std::move(numbers));
      else if (are_texts)
        out.emplace(name, value.get<std::vector<std::string>>());
    }
  }
  return out;
}

json json_of(const Attribute& attribute) {
  struct Maker {
    json operator()(int64_t value) const { return value; }
    json operator()(double value) const { return marked(value); }
    json operator()(const std::string& value) const { return value; }
    json operator()(const std::vector<double>& values) const {
      json out = json::array();
      for (const double value : values) out.push_back(marked(value));
      return out;
    }
    json operator()(const std::vector<std::string>& values) const { return values; }
    json operator()(const std::vector<int64_t>& values) const { return values; }
  };
  return std::visit(Maker{}, attribute);
}

json json_of_real(double value) {
  if (std::isfinite(value)) return value;
  return std::string(word_of(value));
}

std::string real_text(double value) {
  std::array<unsigned char, sizeof value + 1> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t three = uint32_t{bytes[i]} << 16 | uint32_t{bytes[i + 1]} << 8 | bytes[i + 2];
    for (int shift = 18; shift >= 0; shift -= 6) out.push_back(kDigits[three >> shift & 63]);
  }
  out.back() = '=';
  return out;
}

std::optional<double> real_of_text(const std::string& text) {
  if (text.size() != kRealText || text.back() != '=') return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < kRealText; i += 4) {
    uint32_t three = 0;
    for (size_t j = i; j < i + 4; ++j) {
      const size_t digit = j + 1 == kRealText ? 0 : kDigits.find(text[j]);
      if (digit == std::string_view::npos) return std::nullopt;
      three = three << 6 | static_cast<uint32_t>(digit);
    }
    for (int shift = 16; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(three >> shift & 0xff));
  }
  double value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace quarry::io::zarr
