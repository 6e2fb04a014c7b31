#include "quarry/local/base/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace quarry::local {
namespace {

// The length of the UTF-8 character at the front, 0 if it is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : (lead & 0xF0) == 0xE0        ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond Unicode.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF0 && byte(1) < 0x90) ||
      (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

// Calls append(character) for every character; bytes that are no UTF-8 (object names in files may hold any) become '?'.
template <class F>
void for_each_character(std::string_view text, F append) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    append(length == 0 ? std::string_view("?") : text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
}

}  // namespace

std::string escape_json(std::string_view text) {
  std::string out = "\"";
  for_each_character(text, [&](std::string_view c) {
    if (c == "\"" || c == "\\") {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c[0]) < 0x20 || c[0] == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c[0]));
    } else {
      out += c;
    }
  });
  return out + '"';
}

std::string escape_html(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view c) {
    switch (c[0]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c[0]) >= 0x20 || c[0] == '\n' || c[0] == '\t') {
          out += c;
        } else {
          out += '?';
        }
    }
  });
  return out;
}

}  // namespace quarry::local
