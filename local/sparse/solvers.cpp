#include "quarry/local/sparse/solvers.h"

#include "quarry/local/sparse/krylov.h"
#include "quarry/local/sparse/vectors.h"

namespace quarry::local::sparse::linalg {

Solution cg(const LinearOperator& a, const NdArray& b, const SolveOptions& options) {
  return krylov::cg<LocalVectors>(a, b, options);
}
Solution cgs(const LinearOperator& a, const NdArray& b, const SolveOptions& options) {
  return krylov::cgs<LocalVectors>(a, b, options);
}
Solution bicgstab(const LinearOperator& a, const NdArray& b, const SolveOptions& options) {
  return krylov::bicgstab<LocalVectors>(a, b, options);
}
Solution gmres(const LinearOperator& a, const NdArray& b, const SolveOptions& options, int64_t restart,
               std::string_view callback_type) {
  return krylov::gmres<LocalVectors>(a, b, options, restart, callback_type);
}
Solution minres(const LinearOperator& a, const NdArray& b, const SolveOptions& options, double shift) {
  return krylov::minres<LocalVectors>(a, b, options, shift);
}

}  // namespace quarry::local::sparse::linalg
