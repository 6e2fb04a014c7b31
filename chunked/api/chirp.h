// Chirps, of which Bluestein's transforms are made (fft.cpp). Private to this folder and its tests.
#pragma once

#include "quarry/chunked/api/array.h"

namespace quarry::chirps {

// exp(-pi i j^2 / n) for positions j (int64) in [0, n), or the conjugates of that: complex64 or complex128. Lazy, as
// exact for any n < 2^60 as sine and cosine are: j^2 is reduced modulo 2 n in integers.
Array chirp(const Array& positions, int64_t n, bool conjugates, DType dtype);

// The length m >= n of few factors (2, 3, 5, 7) in which a convolution of n points is done as a matrix of m1 rows and
// m2 >= m1 columns, which are nearly equal; m is seldom more than some percent larger than n.
struct Padded {
  int64_t rows, columns;
};
Padded padded(int64_t n);

}  // namespace quarry::chirps
