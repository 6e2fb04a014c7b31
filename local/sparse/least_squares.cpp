#include "quarry/local/sparse/bidiagonal.h"
#include "quarry/local/sparse/solvers.h"
#include "quarry/local/sparse/vectors.h"

namespace quarry::local::sparse::linalg {

LsqrResult lsqr(const LinearOperator& a, const NdArray& b, double damp, double atol, double btol, double conlim,
                std::optional<int64_t> iter_lim, bool calc_var, const std::optional<NdArray>& x0) {
  return krylov::lsqr<LocalVectors>(a, b, damp, atol, btol, conlim, iter_lim, calc_var, x0);
}

LsmrResult lsmr(const LinearOperator& a, const NdArray& b, double damp, double atol, double btol, double conlim,
                std::optional<int64_t> maxiter, const std::optional<NdArray>& x0) {
  return krylov::lsmr<LocalVectors>(a, b, damp, atol, btol, conlim, maxiter, x0);
}

}  // namespace quarry::local::sparse::linalg
