// Which axes a Fourier transform goes along, and the lengths that it has there: the same for arrays of one process and
// chunked ones. Errors are those of fft.h.
#pragma once

#include <vector>

#include "quarry/local/ops/fft/fft.h"
#include "quarry/local/program/transforms.h"

namespace quarry::local::ops::fft {

// Axes with their lengths. The last one goes first, and is the one of which real transforms have but half.
struct Request {
  std::vector<int> axes;
  std::vector<int64_t> lengths;
};

// For one axis of an array of `shape`.
Request request_along(TransformKind kind, const Dims& shape, std::optional<int64_t> n, int64_t axis);
// For several, which may repeat; a complex transform may have none.
Request request_along_all(TransformKind kind, const Dims& shape, const Lengths& s, const Lengths& axes);
bool has_distinct_axes(const Request& request);

// How many elements along axis number `i` of a request are read at most, and how many are made.
inline int64_t read_extent(TransformKind kind, const Request& request, size_t i) {
  const bool halved = kind == TransformKind::half_to_real && i + 1 == request.axes.size();
  return halved ? request.lengths[i] / 2 + 1 : request.lengths[i];
}
inline int64_t made_extent(TransformKind kind, const Request& request, size_t i) {
  const bool halved = kind == TransformKind::real_to_half && i + 1 == request.axes.size();
  return halved ? request.lengths[i] / 2 + 1 : request.lengths[i];
}

}  // namespace quarry::local::ops::fft
