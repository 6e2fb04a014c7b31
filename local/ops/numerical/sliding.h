// Which sliding products of two vectors convolve() and correlate() give.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "quarry/local/base/error.h"

namespace quarry::local::ops {

// The shorter vector begins `before` positions in front of the longer one, and makes so many `results`.
struct SlidingExtent {
  int64_t before = 0, results = 0;
};
// Throws InvalidArgument for another mode than "full", "same" and "valid".
inline SlidingExtent sliding_extent(std::string_view mode, int64_t elements, int64_t taps) {
  if (mode == "full") return {taps - 1, elements + taps - 1};
  if (mode == "same") return {taps / 2, elements};
  if (mode == "valid") return {0, elements - taps + 1};
  throw InvalidArgument(fmt::format("mode must be one of 'valid', 'same', or 'full' (got '{}')", mode));
}

}  // namespace quarry::local::ops
