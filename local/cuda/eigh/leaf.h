// Eigenvectors of small symmetric tridiagonal matrices by the implicit QL method with Wilkinson's shift (Bowdler,
// Martin, Reinsch, Wilkinson 1968). One thread makes the rotations of a sweep; a thread for each row of the vectors
// applies them. Host and device code, without CUDA.
#pragma once

#include <cmath>

#include "quarry/local/cuda/eigh/device_function.h"

namespace quarry::local::cuda::eigh {

// Largest matrix, and how many sweeps are too many: about two are needed for a value.
inline constexpr int kMostLeaf = 64;
inline constexpr int kMostSweeps = 60 * kMostLeaf;

// Rotations number `last` down to `first`, of columns i and i + 1 by cosines[i] and sines[i].
struct Sweep {
  int first, last;
};

QUARRY_EIGH_FUNCTION bool is_negligible(double e, double d, double next) {
  constexpr double kHalfPlace = 0x1p-53, kNothing = 0x1p-900;  // the matrix is scaled to 1
  return std::fabs(e) <= kHalfPlace * (std::fabs(d) + std::fabs(next)) + kNothing;
}

// One sweep of the matrix with diagonal d and off-diagonal e, which has room for n; values in front of `begin` are
// there. False: all are.
QUARRY_EIGH_FUNCTION bool next_sweep(int n, double* d, double* e, int& begin, double* cosines, double* sines,
                                     Sweep& sweep) {
  for (;; ++begin) {
    if (begin >= n) return false;
    int end = begin;
    while (end + 1 < n && !is_negligible(e[end], d[end], d[end + 1])) ++end;
    if (end == begin) continue;

    const double half = (d[begin + 1] - d[begin]) / (2 * e[begin]);
    double g = d[end] - d[begin] + e[begin] / (half + std::copysign(std::hypot(half, 1.0), half));
    double sine = 1, cosine = 1, shift = 0;
    int i = end - 1;
    for (; i >= begin; --i) {
      const double bulge = sine * e[i], b = cosine * e[i], length = std::hypot(bulge, g);
      e[i + 1] = length;
      if (length == 0) break;  // the matrix falls apart here
      sine = bulge / length;
      cosine = g / length;
      g = d[i + 1] - shift;
      const double r = (d[i] - g) * sine + 2 * cosine * b;
      shift = sine * r;
      d[i + 1] = g + shift;
      g = cosine * r - b;
      cosines[i] = cosine;
      sines[i] = sine;
    }
    sweep = {i + 1, end - 1};
    if (i >= begin) {
      d[i + 1] -= shift;
    } else {
      d[begin] -= shift;
      e[begin] = g;
    }
    e[end] = 0;
    return true;
  }
}

// To a row of the vectors.
QUARRY_EIGH_FUNCTION void apply_sweep(const Sweep& sweep, const double* cosines, const double* sines, double* row) {
  for (int i = sweep.last; i >= sweep.first; --i) {
    const double low = row[i], high = row[i + 1];
    row[i + 1] = sines[i] * low + cosines[i] * high;
    row[i] = cosines[i] * low - sines[i] * high;
  }
}

}  // namespace quarry::local::cuda::eigh
