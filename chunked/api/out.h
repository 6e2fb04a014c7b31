// The parameter `out` of NumPy's functions.
#pragma once

#include <fmt/format.h>

#include <optional>

#include "quarry/chunked/api/array.h"
#include "quarry/local/base/error.h"

namespace quarry {

inline void refuse_out(const char* function, const std::optional<Array>& out) {
  if (out)
    throw local::TypeError(
        fmt::format("{}(): chunked arrays do not change; out= is for arrays of one process", function));
}

}  // namespace quarry
