// Values of attributes of files.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace quarry::io {

// Lists of integers are only written: those of a file are read as lists of double.
using Attribute =
    std::variant<int64_t, double, std::string, std::vector<double>, std::vector<std::string>, std::vector<int64_t>>;

// Bytes of its texts.
inline int64_t text_bytes(const Attribute& attribute) {
  if (const auto* const text = std::get_if<std::string>(&attribute)) return static_cast<int64_t>(text->size());
  int64_t bytes = 0;
  if (const auto* const texts = std::get_if<std::vector<std::string>>(&attribute))
    for (const std::string& text : *texts) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

}  // namespace quarry::io
