// What is done to a file's chunks when they are written.
#pragma once

#include <cstdint>
#include <string>

namespace quarry::io {

struct Filter {
  enum class Kind : uint8_t { deflate, shuffle, fletcher32, other };
  Kind kind;
  int level = 0;     // deflate
  std::string name;  // as `h5dump` would call it; for `other` the registered name or number
};

}  // namespace quarry::io
