// What functions of local arrays take, found by running them on the trial device.
#pragma once

#include <span>

#include "quarry/chunked/op/operator.h"

namespace quarry::op {

// The bytes that a function takes at most at once, results included, on a device of that kind: by a trial
// (local/ndarray/trial.h), laid out as its scratch is, and at least a quarter more than what it holds. For functions
// that call quarry::local alone and read no values; what cannot be tried gets the estimate of function_peak_bytes().
int64_t tried_peak_bytes(const LocalFunction& function, std::span<const ArraySpec> arguments, int64_t result_bytes,
                         local::DeviceKind kind);

}  // namespace quarry::op
