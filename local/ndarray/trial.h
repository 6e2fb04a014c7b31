// What functions of arrays give and take, before they are run.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {

struct ArraySpec {
  Dims shape;
  DType dtype = DType::float64;
  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

struct Trial {
  std::vector<ArraySpec> results;
  int64_t peak_bytes = 0;    // most that the function's own arrays and scratch take together; not its arguments
  int64_t extent_bytes = 0;  // of a piece of memory that holds them, each at the lowest place that has room
  int64_t allocations = 0;   // of arrays and scratch
};

using TrialFunction = std::function<std::vector<NdArray>(std::span<const NdArray>)>;

// Calls the function with arrays that have shape, dtype and addresses, but no data, on the trial device that stands for
// `kind`: nothing is computed, and no memory is taken. Functions choose their method as on that kind, for as many
// `threads` as ExecContext has. Small arrays that it makes of numbers have values as long as they are not written to:
// widths, positions, quantiles. Costs some microseconds for each call of a function.
//
// The bytes are upper bounds, exact but for what depends on values: where those choose between methods, the dearer one
// is tried. For the CPU they hold the arrays of the host that functions compute with beside.
//   const auto [results, peak_bytes, allocations] =
//       ql::trial([](auto x) { return std::vector{ql::linalg::inv(x[0] + 1)}; }, {{{{100, 100}, ql::DType::float32}}});
//
// Throws what the function throws of shapes and dtypes; NeedsValue, naming the function, where it reads a value
// (item(), selection by a mask, unique ...); NotSupported for products of sparse matrices; DeviceError where `kind` has
// no device here, whose libraries know the scratch.
Trial trial(const TrialFunction& function, std::span<const ArraySpec> arguments,
            DeviceKind kind = detail::acts_as(current_device()), int threads = 0);

}  // namespace quarry::local
