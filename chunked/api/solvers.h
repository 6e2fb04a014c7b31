// Iterative solvers for a x = b and least squares, by SciPy's names, parameters, rules to stop and results, on chunked
// arrays: for matrices that exceed a device or memory, and for operators. local/sparse/solvers.h is the same for one
// process, with the same iterates but for rounding.
//
// `a` and `M` (an approximation of the inverse of a) are matrices or operators; b is (n,) or (n, 1). Vectors have the
// matrix's chunks of rows, or b's; a method keeps a few of them, spilled where the budget wants that, and reads the
// matrix once a product. Computed in float32, float64, complex64 or complex128: what a, M, x0 and b promote to. Every
// call is collective and blocks: a step is one or two computations, and every rank decides by the same numbers. x is
// persisted.
//
// A method stops where ||b - a x|| <= max(rtol ||b||, atol). `info` is 0 then, the number of iterations where that did
// not suffice (x is the last iterate, `residual` what it reached), negative for a breakdown: -1 for NaN and infinity,
// -10 and -11 where a method's numbers vanish. Throw InvalidArgument for shapes that do not fit.
#pragma once

#include <functional>
#include <string_view>

#include "quarry/chunked/api/linear_operator.h"

namespace quarry::sparse::linalg {

struct SolveOptions {
  std::optional<Array> x0 = {};  // zeros
  double rtol = 1e-5, atol = 0;
  std::optional<int64_t> maxiter = {};  // 10 n
  std::optional<LinearOperator> M = {};
  std::function<void(const Array&)> callback = {};  // with the iterate, which is persisted
};
struct Solution {
  Array x;
  int64_t info = 0;
  double residual = 0;  // ||b - a x||, as far as the method knows it
};

// For a Hermitian positive-definite a. Hestenes and Stiefel (1952).
Solution cg(const LinearOperator& a, const Array& b, const SolveOptions& options = {});
// For any square a. Sonneveld (1989); van der Vorst (1992).
Solution cgs(const LinearOperator& a, const Array& b, const SolveOptions& options = {});
Solution bicgstab(const LinearOperator& a, const Array& b, const SolveOptions& options = {});
// Saad and Schultz (1986), preconditioned from the right; `restart` vectors are kept. `maxiter` counts restarts
// (cycles). The callback gets the residual's norm relative to ||b||, 0-d ("pr_norm"), or the iterate at the end of each
// cycle ("x").
Solution gmres(const LinearOperator& a, const Array& b, const SolveOptions& options = {}, int64_t restart = 20,
               std::string_view callback_type = "pr_norm");
// (a - shift I) x = b for a Hermitian a; M must be positive definite. maxiter 5 n. Paige and Saunders (1975).
Solution minres(const LinearOperator& a, const Array& b, const SolveOptions& options = {}, double shift = 0);

struct LsqrResult {
  Array x;
  int64_t istop = 0;  // 0: x = 0 solves it; 1: a x = b; 2: least squares; 3: conlim; 7: iter_lim
  int64_t itn = 0;
  double r1norm = 0, r2norm = 0, anorm = 0, acond = 0, arnorm = 0, xnorm = 0;
  Array var;  // of x, estimated; only with calc_var
};
// min ||a x - b||^2 + damp^2 ||x||^2 by Paige and Saunders (1982). iter_lim 2 n. An operator needs rmatvec. Throws
// InvalidArgument for NaN and infinity too.
LsqrResult lsqr(const LinearOperator& a, const Array& b, double damp = 0, double atol = 1e-6, double btol = 1e-6,
                double conlim = 1e8, std::optional<int64_t> iter_lim = {}, bool calc_var = false,
                const std::optional<Array>& x0 = {});

struct LsmrResult {
  Array x;
  int64_t istop = 0, itn = 0;
  double normr = 0, normar = 0, norma = 0, conda = 0, normx = 0;
};
// The same problem by Fong and Saunders (2011), whose ||a^H r|| falls from step to step. maxiter min(m, n).
LsmrResult lsmr(const LinearOperator& a, const Array& b, double damp = 0, double atol = 1e-6, double btol = 1e-6,
                double conlim = 1e8, std::optional<int64_t> maxiter = {}, const std::optional<Array>& x0 = {});

}  // namespace quarry::sparse::linalg
