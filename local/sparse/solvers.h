// Iterative solvers for a x = b, by SciPy's names, parameters and results.
//
// `a` and `M` (an approximation of the inverse of a) are sparse matrices, dense ones or operators; b is (n,) or (n, 1).
// A method stops where ||b - a x|| <= max(rtol ||b||, atol). `info` is 0 then, the number of iterations where that did
// not suffice, negative for a breakdown. Everything runs on b's device; an iteration blocks once or twice, for its norm
// and for what the method decides by. Computed in float32, float64, complex64 or complex128: what a, M, x0 and b
// promote to. Throw InvalidArgument for shapes that do not fit.
#pragma once

#include <functional>
#include <string_view>

#include "quarry/local/sparse/linear_operator.h"

namespace quarry::local::sparse::linalg {

struct SolveOptions {
  std::optional<NdArray> x0 = {};  // zeros
  double rtol = 1e-5, atol = 0;
  std::optional<int64_t> maxiter = {};  // 10 n
  std::optional<LinearOperator> M = {};
  std::function<void(const NdArray&)> callback = {};  // with the iterate
};
struct Solution {
  NdArray x;
  int64_t info = 0;
  double residual = 0;  // ||b - a x||, as far as the method knows it
};

// For a Hermitian positive-definite a.
Solution cg(const LinearOperator& a, const NdArray& b, const SolveOptions& options = {});
// For any square a.
Solution cgs(const LinearOperator& a, const NdArray& b, const SolveOptions& options = {});
Solution bicgstab(const LinearOperator& a, const NdArray& b, const SolveOptions& options = {});
// `maxiter` counts restarts (cycles). The callback gets the residual's norm relative to ||b||, 0-d ("pr_norm"), or the
// iterate at the end of each cycle ("x").
Solution gmres(const LinearOperator& a, const NdArray& b, const SolveOptions& options = {}, int64_t restart = 20,
               std::string_view callback_type = "pr_norm");
// (a - shift I) x = b for a Hermitian a; M must be positive definite. maxiter 5 n.
Solution minres(const LinearOperator& a, const NdArray& b, const SolveOptions& options = {}, double shift = 0);

struct LsqrResult {
  NdArray x;
  int64_t istop = 0;  // 0: x = 0 solves it; 1: a x = b; 2: least squares; 3: conlim; 7: iter_lim
  int64_t itn = 0;
  double r1norm = 0, r2norm = 0, anorm = 0, acond = 0, arnorm = 0, xnorm = 0;
  NdArray var;  // of x, estimated; only with calc_var
};
// min ||a x - b||^2 + damp^2 ||x||^2 by Paige and Saunders (1982). iter_lim 2 n.
LsqrResult lsqr(const LinearOperator& a, const NdArray& b, double damp = 0, double atol = 1e-6, double btol = 1e-6,
                double conlim = 1e8, std::optional<int64_t> iter_lim = {}, bool calc_var = false,
                const std::optional<NdArray>& x0 = {});

struct LsmrResult {
  NdArray x;
  int64_t istop = 0, itn = 0;
  double normr = 0, normar = 0, norma = 0, conda = 0, normx = 0;
};
// Throw InvalidArgument for NaN and infinity. The same problem by Fong and Saunders (2011), whose ||a^H r|| falls from
// step to step. maxiter min(m, n).
LsmrResult lsmr(const LinearOperator& a, const NdArray& b, double damp = 0, double atol = 1e-6, double btol = 1e-6,
                double conlim = 1e8, std::optional<int64_t> maxiter = {}, const std::optional<NdArray>& x0 = {});

}  // namespace quarry::local::sparse::linalg
