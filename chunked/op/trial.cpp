#include "quarry/chunked/op/trial.h"

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
    const int64_t bytes = local::trial(function, specs, kind).peak_bytes;
    return bytes + bytes / 4 + kSmall;
  } catch (const local::NeedsValue&) {
  } catch (const local::DeviceError&) {  // its libraries are not here
  }
  return function_peak_bytes(function, arguments, result_bytes);
}

}  // namespace quarry::op
