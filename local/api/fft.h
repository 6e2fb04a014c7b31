// Fourier transforms: ql::fft::rfft(x, none, 0). See local/ops/fft/fft.h.
#pragma once

#include "quarry/local/ops/fft/fft.h"

namespace quarry::local::fft {

using ops::fft::fft;
using ops::fft::fft2;
using ops::fft::fftfreq;
using ops::fft::fftn;
using ops::fft::fftshift;
using ops::fft::hfft;
using ops::fft::ifft;
using ops::fft::ifft2;
using ops::fft::ifftn;
using ops::fft::ifftshift;
using ops::fft::ihfft;
using ops::fft::irfft;
using ops::fft::irfft2;
using ops::fft::irfftn;
using ops::fft::rfft;
using ops::fft::rfft2;
using ops::fft::rfftfreq;
using ops::fft::rfftn;

}  // namespace quarry::local::fft
