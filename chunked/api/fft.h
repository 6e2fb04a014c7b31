// Fourier transforms, as NumPy's numpy.fft: quarry::fft::rfft(x, none, 0). Lazy.
//
// Values, dtypes and errors are those of arrays of one process (local/ops/fft/fft.h), along axes of any chunks. The
// axes of a transform are whole in the chunks of its result. The others are cut until a chunk has about the usual
// bytes, and until a task fits the budget where all lines have more than 64 points. Several axes are transformed
// together where they fit one chunk, else one group of them after the other, and what is between is stored. A line of
// more than 4 usual chunks is transformed in four steps, as a matrix, if its length has two factors of like size; else
// as a convolution of twice its length (Bluestein), at about four times the cost and in twice the memory. fftfreq,
// rfftfreq, fftshift and ifftshift are in creation.h and arrangement.h.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry::detail {
inline std::vector<int64_t> last_two() { return {-2, -1}; }
}  // namespace quarry::detail

namespace quarry::fft {

// "backward" (which none means: the inverse divides by the number of points), "ortho" or "forward".
using Norm = std::optional<std::string_view>;
using Lengths = std::optional<std::vector<int64_t>>;

// `n` cuts the axis off or fills it up with zeros. Throw InvalidArgument for lengths below 1 and another norm,
// IndexError for axes, TypeError for a complex input where a real one is wanted.
Array fft(const Array& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {});
Array ifft(const Array& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {});
// Of a real array: the first n / 2 + 1 results.
Array rfft(const Array& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {});
// n is the length of the result, by default 2 (m - 1) for an input of m.
Array irfft(const Array& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {});
// The real spectrum of a signal whose other half is the mirror image of `a`, and back.
Array hfft(const Array& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {});
Array ihfft(const Array& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {});

// Along several axes: by default all, or, where lengths `s` are given, as many from the end. A length of -1 is that of
// the input. An axis that occurs twice is transformed twice.
Array fftn(const Array& a, const Lengths& s = {}, const Lengths& axes = {}, Norm norm = {});
Array ifftn(const Array& a, const Lengths& s = {}, const Lengths& axes = {}, Norm norm = {});
Array rfftn(const Array& a, const Lengths& s = {}, const Lengths& axes = {}, Norm norm = {});
Array irfftn(const Array& a, const Lengths& s = {}, const Lengths& axes = {}, Norm norm = {});
Array fft2(const Array& a, const Lengths& s = {}, const Lengths& axes = detail::last_two(), Norm norm = {});
Array ifft2(const Array& a, const Lengths& s = {}, const Lengths& axes = detail::last_two(), Norm norm = {});
Array rfft2(const Array& a, const Lengths& s = {}, const Lengths& axes = detail::last_two(), Norm norm = {});
Array irfft2(const Array& a, const Lengths& s = {}, const Lengths& axes = detail::last_two(), Norm norm = {});

}  // namespace quarry::fft
