// The loop of LAPACK's dsgesv, written once for arrays of one process and chunked ones (Buttari et al. 2007, "Mixed
// precision iterative refinement techniques for the solution of dense linear systems").
#pragma once

#include "quarry/local/base/error.h"

namespace quarry::local::linalg {

template <class A>
struct Residual {
  A r;             // b - a x
  bool is_small;   // ||r|| <= ||x|| ||a|| eps sqrt(n) for each right-hand side, by the largest elements
  bool is_finite;  // else the matrix or its factors exceed single precision
};

// single(r): the solution of a d = r by the factors in single precision. residual(x): a Residual. full(): the solution
// without single precision, which also says what is wrong with the matrix.
template <class A, class Single, class ResidualOf, class Full>
A solve_refined(const A& b, const Single& single, const ResidualOf& residual, const Full& full) {
  constexpr int kMostSteps = 30;
  try {
    A x = single(b);
    for (int step = 0; step <= kMostSteps; ++step) {
      const Residual<A> left = residual(x);
      if (left.is_small) return x;
      if (!left.is_finite) break;
      x = x + single(left.r);
    }
  } catch (const LinAlgError&) {  // singular in single precision
  }
  return full();
}

}  // namespace quarry::local::linalg
