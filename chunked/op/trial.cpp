#include "quarry/chunked/op/trial.h"

#include <algorithm>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/trial.h"

namespace quarry::op {

int64_t tried_peak_bytes(const LocalFunction& function, std::span<const ArraySpec> arguments, int64_t result_bytes,
                         local::DeviceKind kind) {
  constexpr int64_t kSmall = 64 * 1024;  // rounding of small pieces
  std::vector<local::ArraySpec> specs;
  for (const ArraySpec& argument : arguments) specs.push_back({argument.shape, argument.dtype});
  try {
    const local::Trial tried = local::trial(function, specs, kind);
    return std::max(tried.extent_bytes, tried.peak_bytes + tried.peak_bytes / 4) + kSmall;
  } catch (const local::NeedsValue&) {
  } catch (const local::DeviceError&) {  // its libraries are not here
  }
  return function_peak_bytes(arguments, result_bytes) + library_bytes(kind);
}

}  // namespace quarry::op
