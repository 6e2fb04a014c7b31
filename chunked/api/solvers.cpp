#include "quarry/chunked/api/solvers.h"

#include "quarry/chunked/api/eigen_calls.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/api/vectors.h"
#include "quarry/local/sparse/arnoldi.h"
#include "quarry/local/sparse/bidiagonal.h"
#include "quarry/local/sparse/krylov.h"
#include "quarry/local/sparse/lobpcg.h"

namespace quarry::sparse::linalg {

namespace krylov = local::sparse::krylov;

Solution cg(const LinearOperator& a, const Array& b, const SolveOptions& options) {
  return krylov::cg<ChunkedVectors>(a, b, options);
}
Solution cgs(const LinearOperator& a, const Array& b, const SolveOptions& options) {
  return krylov::cgs<ChunkedVectors>(a, b, options);
}
Solution bicgstab(const LinearOperator& a, const Array& b, const SolveOptions& options) {
  return krylov::bicgstab<ChunkedVectors>(a, b, options);
}
Solution gmres(const LinearOperator& a, const Array& b, const SolveOptions& options, int64_t restart,
               std::string_view callback_type) {
  return krylov::gmres<ChunkedVectors>(a, b, options, restart, callback_type);
}
Solution minres(const LinearOperator& a, const Array& b, const SolveOptions& options, double shift) {
  return krylov::minres<ChunkedVectors>(a, b, options, shift);
}

LsqrResult lsqr(const LinearOperator& a, const Array& b, double damp, double atol, double btol, double conlim,
                std::optional<int64_t> iter_lim, bool calc_var, const std::optional<Array>& x0) {
  return krylov::lsqr<ChunkedVectors>(a, b, damp, atol, btol, conlim, iter_lim, calc_var, x0);
}
LsmrResult lsmr(const LinearOperator& a, const Array& b, double damp, double atol, double btol, double conlim,
                std::optional<int64_t> maxiter, const std::optional<Array>& x0) {
  return krylov::lsmr<ChunkedVectors>(a, b, damp, atol, btol, conlim, maxiter, x0);
}

namespace eigen {

DType computed_in(DType dtype) { return krylov::eigen_dtype(dtype); }
EigenResult of_hermitian(const LinearOperator& a, int64_t k, const EigenOptions& options) {
  return krylov::eigsh<ChunkedVectors>(a, k, options, options.which);
}
EigenResult of_general(const LinearOperator& a, int64_t k, const EigenOptions& options) {
  return krylov::eigs<ChunkedVectors>(a, k, options, options.which);
}

}  // namespace eigen

LobpcgResult lobpcg(const LinearOperator& a, const Array& X, const LobpcgOptions& options) {
  return krylov::lobpcg<ChunkedVectors>(a, X, options);
}
SvdsResult svds(const LinearOperator& a, int64_t k, const SvdsOptions& options) {
  return krylov::svds<ChunkedVectors>(a, k, options);
}

}  // namespace quarry::sparse::linalg
