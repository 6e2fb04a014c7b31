// Fourier transforms, as NumPy's numpy.fft. C++ names are those of the module: quarry::local::fft::rfft2.
//
// float32 and complex64 are computed in single precision, as are the 16-bit floats; everything else in double. Results
// are complex64 or complex128; those of irfft and hfft real, float16 and bfloat16 where the input was (but float32
// along several axes). `norm` is "backward" (which none means: the inverse divides by the number of points), "ortho"
// (both divide by its root) or "forward" (the forward one divides). A length cuts the axis off or fills it up with
// zeros. `out` takes the result, converted as same_kind allows, and may share memory with `a`. Throw InvalidArgument
// for lengths below 1, another norm and an `out` of another shape; IndexError for axes; TypeError for a complex input
// where a real one is wanted, and where `out` cannot hold the result. None waits for its result.
#pragma once

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops::fft {

using Norm = std::optional<std::string_view>;
using Lengths = std::optional<std::vector<int64_t>>;
// The last of the axes, or the only one, is the one of which the real transforms have but half; it goes first in them.
inline std::vector<int64_t> last_two() { return {-2, -1}; }

NdArray fft(const NdArray& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {},
            const std::optional<NdArray>& out = {});
NdArray ifft(const NdArray& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {},
             const std::optional<NdArray>& out = {});
// Of a real array: the first n / 2 + 1 results; the others are their mirror images.
NdArray rfft(const NdArray& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {},
             const std::optional<NdArray>& out = {});
// n is the length of the result, by default 2 (m - 1) for an input of m.
NdArray irfft(const NdArray& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {},
              const std::optional<NdArray>& out = {});
// The real spectrum of a signal whose other half is the mirror image of `a`, and back.
NdArray hfft(const NdArray& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {},
             const std::optional<NdArray>& out = {});
NdArray ihfft(const NdArray& a, std::optional<int64_t> n = {}, int64_t axis = -1, Norm norm = {},
              const std::optional<NdArray>& out = {});

// Along several axes: by default all, or, where lengths `s` are given, as many from the end. A length of -1 is that of
// the input. An axis that occurs twice is transformed twice.
NdArray fftn(const NdArray& a, const Lengths& s = {}, const Lengths& axes = {}, Norm norm = {},
             const std::optional<NdArray>& out = {});
NdArray ifftn(const NdArray& a, const Lengths& s = {}, const Lengths& axes = {}, Norm norm = {},
              const std::optional<NdArray>& out = {});
NdArray rfftn(const NdArray& a, const Lengths& s = {}, const Lengths& axes = {}, Norm norm = {},
              const std::optional<NdArray>& out = {});
NdArray irfftn(const NdArray& a, const Lengths& s = {}, const Lengths& axes = {}, Norm norm = {},
               const std::optional<NdArray>& out = {});
NdArray fft2(const NdArray& a, const Lengths& s = {}, const Lengths& axes = last_two(), Norm norm = {},
             const std::optional<NdArray>& out = {});
NdArray ifft2(const NdArray& a, const Lengths& s = {}, const Lengths& axes = last_two(), Norm norm = {},
              const std::optional<NdArray>& out = {});
NdArray rfft2(const NdArray& a, const Lengths& s = {}, const Lengths& axes = last_two(), Norm norm = {},
              const std::optional<NdArray>& out = {});
NdArray irfft2(const NdArray& a, const Lengths& s = {}, const Lengths& axes = last_two(), Norm norm = {},
               const std::optional<NdArray>& out = {});

// 0, 1 ... in steps of 1 / (n d), the upper half negative; float64. Throws InvalidArgument for n d == 0, and for n < 0.
NdArray fftfreq(int64_t n, double d = 1.0, std::optional<Device> device = {});
// Not negative: n / 2 + 1 of them, none for n < 0.
NdArray rfftfreq(int64_t n, double d = 1.0, std::optional<Device> device = {});
// Rolls the axes, by default all, by half of their lengths, rounded down: the zero frequency comes to the middle.
NdArray fftshift(const NdArray& x, const Axes& axes = {});
NdArray ifftshift(const NdArray& x, const Axes& axes = {});

}  // namespace quarry::local::ops::fft
