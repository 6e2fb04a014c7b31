// LOBPCG, for the vectors that krylov.h is for, as the columns of matrices. Private.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/lanczos.h"

namespace quarry::local::sparse::krylov {

// Columns that span the same space, orthonormal in the inner product of which `gram` has their products; directions
// that are too small beside the others are left out.
inline NdArray whitening(const NdArray& gram) {
  const auto [values, vectors] = local::linalg::eigh(gram);
  const std::vector<double> sizes = to_vector<double>(values.astype(DType::float64, context_for(values.device())));
  const double largest = sizes.empty() ? 0 : sizes.back();
  const double least = largest * static_cast<double>(sizes.size()) * epsilon(gram.dtype()) * 10;
  const auto first =
      static_cast<int64_t>(std::count_if(sizes.begin(), sizes.end(), [&](double s) { return !(s > least); }));
  const auto count = static_cast<int64_t>(sizes.size());
  return vectors[{full_slice, Slice{first, count, std::nullopt}}] /
         apply("sqrt"_op, {values[{Slice{first, count, std::nullopt}}]});
}

template <class Vector>
struct BlockOf {
  Vector x, ax, bx;  // columns, and what a and B make of them
};

// Knyazev (2001). Small matrices are NdArrays where V has them: beside the vectors, or on the host of every rank.
template <class V>
typename V::LobpcgResult lobpcg(const typename V::Operator& a, const typename V::Vector& X,
                                const typename V::LobpcgOptions& options) {
  using Vector = typename V::Vector;
  using Block = BlockOf<Vector>;
  const int64_t n = a.shape()[0];
  if (X.ndim() != 2 || a.shape()[1] != n || X.shape()[0] != n)
    throw InvalidArgument(fmt::format("X: shape {} does not fit a of shape {}", local::to_string(X.shape()),
                                      local::to_string(a.shape())));
  const int64_t k = X.shape()[1];
  if (k < 1 || k > n) throw InvalidArgument(fmt::format("X: {} columns are not between 1 and {}", k, n));
  const DType dtype = eigen_dtype(promote_types(a.dtype(), X.dtype()));
  const auto own = [&](const Vector& m) { return V::own_columns(m, a, dtype); };
  const auto image = [&](const Vector& m) { return own(a.matmat(m)); };
  const auto metric = [&](const Vector& m) { return options.B ? own(options.B->matmat(m)) : m; };
  const double tol = options.tol.value_or(std::sqrt(epsilon(dtype)) * static_cast<double>(n));
  std::optional<Vector> constraints, metric_constraints;
  if (options.Y) {
    if (options.Y->ndim() != 2 || options.Y->shape()[0] != n)
      throw InvalidArgument("Y: shape " + local::to_string(options.Y->shape()) + " does not fit a");
    Vector y = own(*options.Y), by = metric(y);
    V::compute({}, {&y, &by});
    const NdArray white = whitening(V::gram(y, by));
    constraints = V::times(y, white);
    metric_constraints = V::times(by, white);
    V::compute({}, {&*constraints, &*metric_constraints});
  }
  const auto constrained = [&](const Vector& m) {
    return constraints ? m - V::projected(*constraints, *metric_constraints, m) : m;
  };
  const auto computed = [](Block block) {
    V::compute({}, {&block.x, &block.ax, &block.bx});
    return block;
  };
  const auto made = [&](Vector m) {
    V::compute({}, {&m});
    return computed({m, image(m), metric(m)});
  };
  const auto turned = [&](const Block& block, const NdArray& by) {
    const Vector x = V::times(block.x, by);
    return computed({x, V::times(block.ax, by), options.B ? V::times(block.bx, by) : x});
  };
  struct Best {
    Block x;
    NdArray values, coefficients;  // of x in the space's columns
  };
  // The best k vectors of a space. Its columns are made orthonormal twice (A. Stathopoulos, K. Wu, A Block
  // Orthogonalization Procedure with Constant Synchronization Requirements, 2002): near convergence they depend on each
  // other but for rounding, and once would leave errors of the inverse of their smallest singular value squared.
  const auto rayleigh_ritz = [&](const Block& space) {
    const NdArray white = whitening(V::gram(space.x, space.bx));
    if (white.shape()[1] < k) throw InvalidArgument("X: its columns are linearly dependent");
    const Block once = turned(space, white);
    const NdArray again = whitening(V::gram(once.x, once.bx));
    const Block basis = turned(once, again);
    const int64_t rank = again.shape()[1];
    const auto [values, vectors] = local::linalg::eigh(V::gram(basis.x, basis.ax));
    const Slice ends = options.largest ? Slice{rank - 1, rank == k ? std::nullopt : std::optional(rank - 1 - k), -1}
                                       : Slice{0, k, std::nullopt};
    const NdArray chosen = vectors[{full_slice, ends}];
    return Best{turned(basis, chosen), values[{ends}].copy(context_for(values.device())),
                local::linalg::matmul(white, local::linalg::matmul(again, chosen))};
  };
  Block x = made(constrained(own(X)));
  Best best = rayleigh_ritz(x);
  x = best.x;
  std::optional<Block> p;
  bool exact = true;  // whether x.ax is a's image of x but for one product's rounding
  typename V::LobpcgResult result;
  for (int64_t iteration = 0;; ++iteration) {
    Vector residual;
    NdArray norms;
    const auto measure = [&] {
      residual = x.ax - x.bx * V::small(best.values);
      V::compute({}, {&residual});
      norms = V::small_value(V::column_norms(residual));
    };
    measure();
    if (!exact && ops::max(norms).item().as_double() <= tol) {
      // Images that are combined step by step gather errors: the end is seen with new ones, or not reached.
      best = rayleigh_ritz(made(x.x));
      x = best.x;
      p.reset();
      measure();
    }
    result.residual_norms.push_back(norms);
    if (ops::max(norms).item().as_double() <= tol || iteration >= options.maxiter) break;
    Vector w = constrained(options.M ? own(options.M->matmat(residual)) : residual);
    V::compute({}, {&w});
    w = w - V::projected(x.x, x.bx, w);
    V::compute({}, {&w});
    const Block ws = made(V::columns_over(w, V::column_norms(w)));
    std::vector<Vector> xs{x.x, ws.x}, axs{x.ax, ws.ax}, bxs{x.bx, ws.bx};
    if (p) {
      xs.push_back(p->x);
      axs.push_back(p->ax);
      bxs.push_back(p->bx);
    }
    const Vector columns = V::joined(xs);
    const Block space = computed({columns, V::joined(axs), options.B ? V::joined(bxs) : columns});
    best = rayleigh_ritz(space);
    exact = false;
    // The new directions are the part of the new vectors that the old ones do not span.
    const auto part = [&](const Vector& m) { return V::columns_from(m, k); };
    const Block others{part(space.x), part(space.ax), part(space.bx)};
    p = turned(others, best.coefficients[{Slice{k, std::nullopt, std::nullopt}}]);
    const Vector sizes = V::column_norms(p->x), scaled = V::columns_over(p->x, sizes);
    p = computed({scaled, V::columns_over(p->ax, sizes), options.B ? V::columns_over(p->bx, sizes) : scaled});
    x = best.x;
  }
  result.values = V::small(best.values);
  result.vectors = x.x;
  return result;
}

}  // namespace quarry::local::sparse::krylov
