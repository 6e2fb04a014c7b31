// Eigenvalues and vectors of D + rho z z^T, D diagonal: the step of divide and conquer (Cuppen 1981; Gu and Eisenstat
// 1994, 1995). Eigenvalues are zeros of f(x) = 1/rho + sum z_j^2 / (d_j - x), one behind each pole d_j. They are kept
// as a pole and the distance from it, so that all d_j - x have small relative errors; the weights z are then replaced
// by those for which the zeros found are exact (Loewner's formula), whose vectors are orthogonal. Host and device code,
// without CUDA.
//
// Several threads share the sums of a zero: Lanes has number, count, and sum() and product() over them, the same on
// all.
#pragma once

#include <cmath>
#include <cstdint>

#include "quarry/local/cuda/eigh/device_function.h"

namespace quarry::local::cuda::eigh {

struct OneLane {
  static constexpr int count = 1;
  int number = 0;
  double sum(double x) const { return x; }
  double product(double x) const { return x; }
};

// Poles ascend; rho > 0; the squares of the weights add up to about 1 at most. Poles are farther apart, and
// rho * weight is larger, than a few roundings of the largest of poles and rho.
struct Secular {
  int32_t count;
  const double* poles;
  const double* weights;
  double rho;
};
// origin + offset.
struct Zero {
  double origin, offset;
  bool converged;
};

// The zero between low and high of c x^2 - a x + b, or NaN.
QUARRY_EIGH_FUNCTION double quadratic_zero(double c, double a, double b, double low, double high) {
  const double square = a * a - 4 * b * c;
  const double q = (a + std::copysign(std::sqrt(square > 0 ? square : 0.0), a)) / 2;
  const double first = q / c, second = b / q;
  if (first > low && first < high) return first;
  return second > low && second < high ? second : double{NAN};
}

// Number i. Each step replaces f by c + s / (d_l - x) + t / (d_r - x), l and r the poles beside the zero (of the last
// zero, the last two), which has f's value and derivative: with the nearest pole's own weight, or with the derivatives
// of the sums over both sides ("middle way", Li 1993), in turn where one is slow. The bracket makes each step safe.
template <class Lanes>
QUARRY_EIGH_FUNCTION Zero secular_zero(const Secular& p, int32_t i, const Lanes& lanes) {
  constexpr double kHalfPlace = 0x1p-53;
  constexpr int kMostSteps = 400;  // halving alone takes fewer
  const double* const poles = p.poles;
  const double* const z = p.weights;
  if (p.count == 1) return {poles[0], p.rho * z[0] * z[0], true};
  const bool is_last = i == p.count - 1;
  const int32_t left = is_last ? i - 1 : i, right = left + 1;
  const double gap = poles[right] - poles[left], inverse = 1 / p.rho;
  const double left_square = z[left] * z[left], right_square = z[right] * z[right];

  // The sign in the middle tells the nearest pole; the other terms there start the iteration.
  double origin = is_last ? poles[right] : poles[left];
  const double middle = is_last ? p.rho / 2 : gap / 2;
  double others = 0;
  for (int32_t j = lanes.number; j < p.count; j += Lanes::count)
    if (j != left && j != right) others += z[j] * z[j] / ((poles[j] - origin) - middle);
  others = inverse + lanes.sum(others);
  const double in_middle =
      others + left_square / ((poles[left] - origin) - middle) + right_square / ((poles[right] - origin) - middle);
  double low = 0, high = middle;
  if (is_last && !(in_middle > 0)) {
    constexpr double kWeights = 1 + 0x1p-40;
    low = middle, high = p.rho * kWeights;
  } else if (!is_last && in_middle < 0) {
    origin = poles[right];
    low = -middle, high = 0;
  }
  const bool by_left = !is_last && origin == poles[left];  // whose weight is kept
  const double to_left = poles[left] - origin, to_right = poles[right] - origin;
  double x = quadratic_zero(others, others * (to_left + to_right) + left_square + right_square,
                            others * to_left * to_right + left_square * to_right + right_square * to_left, low, high);
  if (std::isnan(x)) x = (low + high) / 2;

  bool by_weight = true;
  int slow = 0;
  double last = INFINITY;
  for (int step = 0; step < kMostSteps; ++step) {
    double psi = 0, psi_slope = 0, phi = 0, phi_slope = 0;  // of poles up to left, and from right on
    int32_t j = lanes.number;
    for (; j <= left; j += Lanes::count) {
      const double quotient = z[j] / ((poles[j] - origin) - x);
      psi += z[j] * quotient;
      psi_slope += quotient * quotient;
    }
    for (; j < p.count; j += Lanes::count) {
      const double quotient = z[j] / ((poles[j] - origin) - x);
      phi += z[j] * quotient;
      phi_slope += quotient * quotient;
    }
    psi = lanes.sum(psi), psi_slope = lanes.sum(psi_slope);
    phi = lanes.sum(phi), phi_slope = lanes.sum(phi_slope);
    const double f = inverse + psi + phi, slope = psi_slope + phi_slope;
    const double rounding = 8 * (std::fabs(psi) + std::fabs(phi)) + inverse + std::fabs(x) * slope;
    if (std::fabs(f) <= kHalfPlace * rounding) return {origin, x, true};
    (f < 0 ? low : high) = x;
    const double far = std::fabs(low) > std::fabs(high) ? std::fabs(low) : std::fabs(high);
    if (high - low <= 2 * kHalfPlace * far) return {origin, x, true};

    const bool is_slow = std::fabs(f) > std::fabs(last) / 10;
    last = f;
    slow = is_slow ? slow + 1 : 0;
    if (is_slow) by_weight = !by_weight;
    const double l = to_left - x, r = to_right - x;
    double c;
    if (!by_weight) {
      c = f - l * psi_slope - r * phi_slope;
    } else if (by_left) {
      c = f - r * slope + gap * (left_square / (l * l));
    } else {
      c = f - l * slope - gap * (right_square / (r * r));
    }
    double change = quadratic_zero(c, (l + r) * f - l * r * slope, l * r * f, low - x, high - x);
    if (std::isnan(change)) change = -f / slope;
    double next = x + change;
    constexpr int kPatience = 3;
    if (slow >= kPatience || !(next > low && next < high)) {
      // Halves what is left; where that spans many powers of two, their number.
      const bool is_wide = low * high > 0 && (low / high > 4 || high / low > 4);
      next = is_wide ? std::copysign(std::sqrt(std::fabs(low)) * std::sqrt(std::fabs(high)), low) : (low + high) / 2;
      slow = 0;
    }
    if (std::fabs(next - x) <= kHalfPlace * std::fabs(x)) return {origin, next, true};
    x = next;
  }
  return {origin, x, false};
}

// Weight number j for which the zeros are exact, but for a factor that all weights share.
template <class Lanes>
QUARRY_EIGH_FUNCTION double exact_weight(const Secular& p, const double* origins, const double* offsets, int32_t j,
                                         const Lanes& lanes) {
  double product = 1;
  const double pole = p.poles[j];
  for (int32_t i = lanes.number; i < p.count; i += Lanes::count) {
    const double distance = (origins[i] - pole) + offsets[i];
    product *= i == j ? distance : distance / (p.poles[i] - pole);
  }
  return std::copysign(std::sqrt(std::fabs(lanes.product(product))), p.weights[j]);
}

// An element of the vector of a zero, whose length is not 1 yet.
QUARRY_EIGH_FUNCTION double vector_element(double pole, double exact_weight, double origin, double offset) {
  return exact_weight / ((pole - origin) - offset);
}

}  // namespace quarry::local::cuda::eigh
