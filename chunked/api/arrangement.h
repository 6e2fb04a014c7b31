// Axes and elements in another order: views where NumPy's are, and arrays joined of views. Lazy.
#pragma once

#include "quarry/chunked/api/operand.h"

namespace quarry {

// ---- Axes ----

Array permute_dims(const Array& a, const Axes& axes = {});
// Each axis of `source` to the position of the same rank in `destination`; the others keep their order. Throws
// InvalidArgument for repeated axes and lists of different lengths.
Array moveaxis(const Array& a, const Ints& source, const Ints& destination);
Array rollaxis(const Array& a, int64_t axis, int64_t start = 0);
Array atleast_1d(const Array& a);
Array atleast_2d(const Array& a);
Array atleast_3d(const Array& a);

// ---- Order ----

// Backwards along all axes, or those given: a view.
Array flip(const Array& m, const Axes& axis = {});
Array fliplr(const Array& m);
Array flipud(const Array& m);
Array rot90(const Array& m, int64_t k = 1, const Ints& axes = {0, 1});
// Elements moved along the axes given, those beyond the end to the front; several shifts and axes are paired as by
// broadcasting; without an axis over the raveled array.
Array roll(const Array& a, const Ints& shift, const Axes& axis = {});

namespace fft {
// Rolls the axes, by default all, by half of their lengths, rounded down: the zero frequency comes to the middle.
Array fftshift(const Array& x, const Axes& axes = {});
Array ifftshift(const Array& x, const Axes& axes = {});
}  // namespace fft

// ---- Copies ----

Array tile(const Array& A, const Ints& reps);
// Of another shape, with the elements in C order as often as there is room for them; zeros where there are none. Throws
// InvalidArgument for negative extents.
Array resize(const Array& a, const Ints& new_shape);
// Each element `repeats` times: one number for all, or one for each position along the axis, which is brought to every
// rank (blocking, collective) and makes a slice for each run. Without an axis of the raveled array.
Array repeat(const Array& a, int64_t repeats, std::optional<int64_t> axis = std::nullopt);
Array repeat(const Array& a, const Array& repeats, std::optional<int64_t> axis = std::nullopt);

}  // namespace quarry
