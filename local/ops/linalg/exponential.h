// What expm() is made of, written once for arrays of one process and chunked ones. F names the functions: Array,
// product, sum, scaled (by a number), ones (the identity matrix like another).
#pragma once

#include <utility>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/dtype.h"

namespace quarry::local::linalg {

// The approximant of degree `terms` - 1, (v - u)^-1 (v + u) with u odd and v even in a: its coefficients, and the
// largest 1-norm for which it is exact to the last bit in float32 and float64 (Higham 2005; 0: not used).
struct Pade {
  int terms;
  double coefficients[14];
  double single_bound, double_bound;
  double bound(DType dtype) const { return real_type(dtype) == DType::float32 ? single_bound : double_bound; }
};
inline constexpr Pade kPade[] = {
    {4, {120, 60, 12, 1}, 4.258730016922831e-1, 1.495585217958292e-2},
    {6, {30240, 15120, 3360, 420, 30, 1}, 1.880152677804762, 2.539398330063230e-1},
    {8, {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}, 3.925724783138660, 9.504178996162932e-1},
    {10,
     {17643225600, 8821612800, 2075673600, 302702400, 30270240, 2162160, 110880, 3960, 90, 1},
     0,
     2.097847961257068},
    {14,
     {64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
      670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1},
     0,
     5.371920351148152},
};
// The smallest that serves without scaling, else the largest.
inline const Pade& approximant(double size, DType dtype) {
  const Pade* last = nullptr;
  for (const Pade& pade : kPade) {
    if (pade.bound(dtype) == 0) continue;
    last = &pade;
    if (size <= pade.bound(dtype)) break;
  }
  return *last;
}

template <class F, class A = typename F::Array>
std::pair<A, A> pade_terms(const A& a, const Pade& pade) {
  const double* const b = pade.coefficients;
  std::vector<A> even{F::ones(a), F::product(a, a)};  // a^0, a^2, a^4 ...
  const bool largest = pade.terms == 14;
  const int powers = largest ? 4 : pade.terms / 2;
  while (static_cast<int>(even.size()) < powers) even.push_back(F::product(even.back(), even[1]));
  // The sum of even powers from `first` with every second coefficient from b[from].
  const auto combined = [&](int from, int first) {
    A sum = F::scaled(even[static_cast<size_t>(first)], b[from]);
    for (int i = first + 1; i < powers; ++i) sum = F::sum(sum, F::scaled(even[static_cast<size_t>(i)], b[from += 2]));
    return sum;
  };
  if (!largest) return {F::product(a, combined(1, 0)), combined(0, 0)};
  // Degree 13 needs no power above the sixth (Paterson and Stockmeyer).
  return {F::product(a, F::sum(F::product(even[3], combined(9, 1)), combined(1, 0))),
          F::sum(F::product(even[3], combined(8, 1)), combined(0, 0))};
}

}  // namespace quarry::local::linalg
