#include "quarry/local/sparse/eigen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/sparse/arithmetic.h"
#include "quarry/local/sparse/arnoldi.h"
#include "quarry/local/sparse/construct.h"
#include "quarry/local/sparse/direct.h"
#include "quarry/local/sparse/lanczos.h"
#include "quarry/local/sparse/lobpcg.h"
#include "quarry/local/sparse/vectors.h"

namespace quarry::local::sparse::linalg {
namespace {

std::vector<double> host_values(const NdArray& values) {
  return to_vector<double>(values.astype(DType::float64, context_for(values.device())));
}
NdArray picked_columns(const NdArray& m, const std::vector<int64_t>& columns) {
  return ops::get(m, {IndexTerm(full_slice), IndexTerm(columns)});
}

}  // namespace

EigenResult eigsh(const LinearOperator& a, int64_t k, const EigenOptions& options) {
  if (options.sigma) throw NotSupported("sigma: the operator's matrix is not known: give a sparse matrix");
  return krylov::eigsh<LocalVectors>(a, k, options, options.which);
}

EigenResult eigsh(const SparseArray& a, int64_t k, const EigenOptions& given) {
  EigenOptions options = given;
  if (!options.v0 && a.rows() > 0) options.v0 = random_vector(a.rows(), krylov::eigen_dtype(a.dtype()), a.device());
  if (!options.sigma) return eigsh(LinearOperator(a), k, options);
  if (a.rows() != a.columns()) throw InvalidArgument("a: expected a square matrix, got " + local::to_string(a.shape()));
  const DType dtype = krylov::eigen_dtype(a.dtype());
  const SparseArray shift =
      eye_array(a.rows(), a.rows(), 0, dtype, Format::csc).to(a.device()) * Scalar(*options.sigma);
  const SuperLU lu = splu(a.astype(dtype).tocsc() - shift);
  const LinearOperator inverse(
      a.shape(), [&lu](const NdArray& x) { return lu.solve(x); }, {}, dtype);
  EigenResult result = krylov::eigsh<LocalVectors>(inverse, k, options, options.which);
  // lambda = sigma + 1 / nu, in ascending order again.
  result.values =
      Scalar::strong(Scalar(*options.sigma), result.values.dtype()) + apply("reciprocal"_op, {result.values});
  const std::vector<double> values = host_values(result.values);
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](int64_t x, int64_t y) { return values[static_cast<size_t>(x)] < values[static_cast<size_t>(y)]; });
  result.values = ops::get(result.values, {IndexTerm(order)});
  if (options.return_eigenvectors) result.vectors = picked_columns(result.vectors, order);
  return result;
}

EigenResult eigs(const LinearOperator& a, int64_t k, const EigenOptions& options) {
  if (options.sigma) throw NotSupported("sigma: eigs() has no shifts");
  return krylov::eigs<LocalVectors>(a, k, options, options.which);
}

// ---- Singular values ----

SvdsResult svds(const LinearOperator& a, int64_t k, const SvdsOptions& options) {
  return krylov::svds<LocalVectors>(a, k, options);
}

LobpcgResult lobpcg(const LinearOperator& a, const NdArray& X, const LobpcgOptions& options) {
  return krylov::lobpcg<LocalVectors>(a, X, options);
}

}  // namespace quarry::local::sparse::linalg
