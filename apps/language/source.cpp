#include "quarry/apps/language/source.h"

#include <algorithm>

namespace quarry::apps::expression {

namespace {

constexpr int64_t kContext = 60;  // characters shown on each side of the place in a long line

bool continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !continuation(c); });
}

// Control characters would move the cursor and break the caret's alignment.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return result;
}

}  // namespace

std::string point_at(const Source& source, Span span, const std::string& message) {
  const std::string& text = source.text;
  const auto size = static_cast<int64_t>(text.size());
  const int64_t begin = std::clamp<int64_t>(span.begin, 0, size);
  int64_t end = std::clamp<int64_t>(span.end, begin, size);

  const size_t before = begin == 0 ? std::string::npos : text.rfind('\n', static_cast<size_t>(begin - 1));
  int64_t line_begin = before == std::string::npos ? 0 : static_cast<int64_t>(before) + 1;
  const size_t after = text.find('\n', static_cast<size_t>(begin));
  int64_t line_end = after == std::string::npos ? size : static_cast<int64_t>(after);
  end = std::min(end, line_end);

  std::string head, tail;
  if (begin - line_begin > kContext) {
    line_begin = begin - kContext;
    while (line_begin < begin && continuation(text[static_cast<size_t>(line_begin)])) ++line_begin;
    head = "...";
  }
  if (line_end - begin > kContext) {
    line_end = begin + kContext;
    while (line_end > begin && continuation(text[static_cast<size_t>(line_end)])) --line_end;
    end = std::min(end, line_end);
    tail = "...";
  }
  const auto part = [&](int64_t from, int64_t to) {
    return std::string_view(text).substr(static_cast<size_t>(from), static_cast<size_t>(to - from));
  };
  const int64_t column = static_cast<int64_t>(head.size()) + code_points(part(line_begin, begin));
  const int64_t width = std::max<int64_t>(1, code_points(part(begin, end)));
  return message + "\n  " + head + printable(part(line_begin, line_end)) + tail + "\n  " +
         std::string(static_cast<size_t>(column), ' ') + "^" + std::string(static_cast<size_t>(width - 1), '~');
}

std::string place(const Source& source, Span span) {
  const auto begin = static_cast<size_t>(std::clamp<int64_t>(span.begin, 0, static_cast<int64_t>(source.text.size())));
  const std::string_view before = std::string_view(source.text).substr(0, begin);
  const auto newlines = std::count(before.begin(), before.end(), '\n');
  const size_t last = before.rfind('\n');
  const int64_t column = code_points(last == std::string_view::npos ? before : before.substr(last + 1)) + 1;
  if (source.line == 0 && !source.name.empty()) return source.name + ": ";
  if (source.line > 0) {
    return source.name + ":" + std::to_string(source.line + newlines) + ":" + std::to_string(column) + ": ";
  }
  return newlines > 0 ? "line " + std::to_string(newlines + 1) + ", column " + std::to_string(column) + ": "
                      : "column " + std::to_string(column) + ": ";
}

ExpressionError::ExpressionError(const Source& source, Span span, const std::string& message, local::ErrorCode code)
    : InvalidArgument(code, point_at(source, span, place(source, span) + message)) {}

}  // namespace quarry::apps::expression
