// Krylov spaces and blocks of vectors live on the device; the small projected problems are solved by the engine's
// eigh().
#include "quarry/local/sparse/eigen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/random/random.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/sparse/arithmetic.h"
#include "quarry/local/sparse/construct.h"
#include "quarry/local/sparse/direct.h"
#include "quarry/local/sparse/vectors.h"

namespace quarry::local::sparse::linalg {
namespace {

DType working_dtype(DType dtype) {
  if (dtype == DType::float32 || is_complex(dtype)) return dtype;
  return DType::float64;
}
double epsilon(DType dtype) {
  return real_type(dtype) == DType::float32 ? std::numeric_limits<float>::epsilon()
                                            : std::numeric_limits<double>::epsilon();
}

NdArray random_vector(int64_t n, DType dtype, Device device) {
  const DeviceScope scope(device);
  Generator generator(20261121);
  return generator.standard_normal(Ints(n), real_type(dtype)).astype(dtype);
}

NdArray first_rows(const NdArray& rows, int64_t count) { return rows[{Slice{0, count, std::nullopt}}]; }
NdArray columns_of(const NdArray& m, int64_t begin, int64_t end) {
  return m[{full_slice, Slice{begin, end, std::nullopt}}];
}

// Positions of the k wanted of the ascending values, ascending.
std::vector<int64_t> wanted(const std::vector<double>& values, int64_t k, std::string_view which) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto size = [&](int64_t i) { return std::abs(values[static_cast<size_t>(i)]); };
  if (which == "LM")
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) > size(b); });
  if (which == "SM")
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) < size(b); });
  if (which == "LA") std::reverse(order.begin(), order.end());
  if (which == "BE") {  // from both ends in turn, the upper one first
    for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i % 2 == 0 ? n - 1 - i / 2 : i / 2;
  }
  order.resize(static_cast<size_t>(std::min(k, n)));
  std::sort(order.begin(), order.end());
  return order;
}

void check_which(std::string_view which) {
  for (const char* known : {"LM", "SM", "LA", "SA", "BE"})
    if (which == known) return;
  throw InvalidArgument(fmt::format("which: '{}' is none of 'LM', 'SM', 'LA', 'SA', 'BE'", which));
}

std::vector<double> host_values(const NdArray& values) {
  return to_vector<double>(values.astype(DType::float64, context_for(values.device())));
}
NdArray picked_columns(const NdArray& m, const std::vector<int64_t>& columns) {
  return ops::get(m, {IndexTerm(full_slice), IndexTerm(columns)});
}

// ---- Lanczos ----

class Lanczos {
 public:
  Lanczos(const LinearOperator& a, int64_t space, const NdArray& start)
      : a_(a),
        space_(space),
        context_(context_for(start.device())),
        basis_({space + 1, start.size()}, start.dtype(), context_) {
    projected_.assign(static_cast<size_t>(space * space), Complex(0));
    const double length = norm2(start);
    if (!(length > 0) || !std::isfinite(length)) throw InvalidArgument("v0: the vector has no direction");
    basis_[{0}].assign(scaled(start, 1 / length), context_);
  }

  // Extends the space from `begin` vectors to all of it. Returns the length of the vector that follows.
  double extend(int64_t begin) {
    double length = 0;
    for (int64_t j = begin; j < space_; ++j) {
      NdArray w = a_.matvec(copy_of(basis_[{j}]));
      if (w.dtype() != basis_.dtype()) w = w.astype(basis_.dtype(), context_);
      const NdArray so_far = first_rows(basis_, j + 1);
      NdArray h;
      for (int pass = 0; pass < 2; ++pass) {
        const NdArray part = matmul(conjugate(so_far), w);
        w = w - matmul(part, so_far);
        h = pass == 0 ? part : h + part;
      }
      const std::vector<Complex> column = to_vector<Complex>(h.astype(DType::complex128, context_));
      for (int64_t i = 0; i <= j; ++i) {
        at(i, j) = column[static_cast<size_t>(i)];
        at(j, i) = std::conj(at(i, j));
      }
      at(j, j) = column.back().real();
      length = norm2(w);
      double scale = 0;
      for (const Complex& value : column) scale = std::max(scale, std::abs(value));
      if (!std::isfinite(length)) throw InvalidArgument("a: the operator gave NaN or infinity");
      if (length <= epsilon(basis_.dtype()) * std::max(scale, std::numeric_limits<double>::min())) {
        // The space is invariant: it goes on in a direction of its own.
        length = 0;
        w = fresh_direction(j + 1);
      } else {
        w = scaled(w, 1 / length);
      }
      basis_[{j + 1}].assign(w, context_);
    }
    return length;
  }

  // Ritz values, ascending, and the coefficients of their vectors, in columns.
  std::pair<std::vector<double>, NdArray> ritz() const {
    const NdArray t = from_vector(projected_, Dims{space_, space_}).to(basis_.device());
    const auto [values, vectors] = local::linalg::eigh(is_complex(basis_.dtype()) ? t : t.real().copy(context_));
    return {host_values(values), vectors};
  }

  // The space becomes that of the chosen Ritz vectors and the vector that followed.
  void restart(const std::vector<double>& values, const NdArray& coefficients, const std::vector<int64_t>& keep,
               double length) {
    const auto count = static_cast<int64_t>(keep.size());
    const NdArray chosen = picked_columns(coefficients, keep).astype(basis_.dtype(), context_);
    const NdArray vectors = matmul(chosen.T().copy(context_), first_rows(basis_, space_));
    const NdArray next = copy_of(basis_[{space_}]);
    first_rows(basis_, count).assign(vectors, context_);
    basis_[{count}].assign(next, context_);
    std::fill(projected_.begin(), projected_.end(), Complex(0));
    const std::vector<Complex> last =
        to_vector<Complex>(picked_columns(coefficients, keep)[{-1}].copy(context_).astype(DType::complex128, context_));
    for (int64_t i = 0; i < count; ++i) {
      at(i, i) = values[static_cast<size_t>(keep[static_cast<size_t>(i)])];
      at(i, count) = std::conj(last[static_cast<size_t>(i)]) * length;
      at(count, i) = std::conj(at(i, count));
    }
  }

  NdArray vectors(const NdArray& coefficients) const {
    return matmul(first_rows(basis_, space_).T(), coefficients.astype(basis_.dtype(), context_));
  }

 private:
  Complex& at(int64_t i, int64_t j) { return projected_[static_cast<size_t>(i * space_ + j)]; }
  NdArray fresh_direction(int64_t count) {
    if (count >= basis_.shape()[1]) return zeros_like(basis_[{0}]);
    NdArray w = random_vector(basis_.shape()[1], basis_.dtype(), basis_.device());
    const NdArray so_far = first_rows(basis_, count);
    for (int pass = 0; pass < 3; ++pass) {
      w = w - matmul(matmul(conjugate(so_far), w), so_far);
      w = scaled(w, 1 / norm2(w));
    }
    return w;
  }

  const LinearOperator& a_;
  int64_t space_;
  ExecContext context_;
  NdArray basis_;  // orthonormal, in rows
  std::vector<Complex> projected_;
};

EigenResult lanczos(const LinearOperator& a, int64_t k, const EigenOptions& options, std::string_view which) {
  const int64_t n = a.shape()[0];
  if (a.shape()[0] != a.shape()[1])
    throw InvalidArgument("a: expected a square operator, got shape " + local::to_string(a.shape()));
  if (k < 1 || k >= n) throw InvalidArgument(fmt::format("k: {} is not between 1 and {}", k, n - 1));
  check_which(which);
  const int64_t space = options.ncv.value_or(std::min(n, std::max<int64_t>(2 * k + 1, 20)));
  if (space <= k || space > n)
    throw InvalidArgument(fmt::format("ncv: {} is not above k = {} and at most {}", space, k, n));
  if (options.v0 && options.v0->size() != n)
    throw InvalidArgument(fmt::format("v0: shape {} does not fit a of shape {}", local::to_string(options.v0->shape()),
                                      local::to_string(a.shape())));
  const DType dtype = working_dtype(a.dtype());
  const NdArray start =
      options.v0 ? options.v0->reshape({-1}).astype(dtype) : random_vector(n, dtype, current_device());
  const double tol = options.tol > 0 ? options.tol : epsilon(dtype);
  const int64_t maxiter = options.maxiter.value_or(10 * n);
  Lanczos lanczos(a, space, start);
  int64_t begin = 0;
  for (int64_t iteration = 0; iteration < std::max<int64_t>(1, maxiter); ++iteration) {
    const double length = lanczos.extend(begin);
    const auto [values, coefficients] = lanczos.ritz();
    const std::vector<Complex> last =
        to_vector<Complex>(coefficients[{-1}].copy(default_context(coefficients.device())).astype(DType::complex128));
    const std::vector<int64_t> best = wanted(values, k, which);
    const double scale = std::pow(epsilon(dtype), 2.0 / 3);
    const auto converged = std::count_if(best.begin(), best.end(), [&, &values = values](int64_t i) {
      const double residual = length * std::abs(last[static_cast<size_t>(i)]);
      return residual <= tol * std::max(scale, std::abs(values[static_cast<size_t>(i)]));
    });
    if (converged == k || space == n) {
      std::vector<double> found;
      for (const int64_t i : best) found.push_back(values[static_cast<size_t>(i)]);
      const DType real = real_type(dtype);
      EigenResult result{from_vector(found).to(start.device()).astype(real), NdArray({n, 0}, dtype)};
      if (options.return_eigenvectors) result.vectors = lanczos.vectors(picked_columns(coefficients, best));
      return result;
    }
    // What has converged makes room for more: this keeps the space from standing still.
    const int64_t keep = std::min(k + converged / 2 + (space - k) / 2, space - 1);
    lanczos.restart(values, coefficients, wanted(values, keep, which), length);
    begin = keep;
  }
  throw LinAlgError(fmt::format("eigsh: no convergence to {} eigenvalues within {} restarts", k, maxiter));
}

}  // namespace

EigenResult eigsh(const LinearOperator& a, int64_t k, const EigenOptions& options) {
  if (options.sigma) throw NotSupported("sigma: the operator's matrix is not known: give a sparse matrix");
  return lanczos(a, k, options, options.which);
}

EigenResult eigsh(const SparseArray& a, int64_t k, const EigenOptions& given) {
  EigenOptions options = given;
  if (!options.v0 && a.rows() > 0) options.v0 = random_vector(a.rows(), working_dtype(a.dtype()), a.device());
  if (!options.sigma) return lanczos(LinearOperator(a), k, options, options.which);
  if (a.rows() != a.columns()) throw InvalidArgument("a: expected a square matrix, got " + local::to_string(a.shape()));
  const DType dtype = working_dtype(a.dtype());
  const SparseArray shift =
      eye_array(a.rows(), a.rows(), 0, dtype, Format::csc).to(a.device()) * Scalar(*options.sigma);
  const SuperLU lu = splu(a.astype(dtype).tocsc() - shift);
  const LinearOperator inverse(
      a.shape(), [&lu](const NdArray& x) { return lu.solve(x); }, {}, dtype);
  EigenResult result = lanczos(inverse, k, options, options.which);
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

// ---- Singular values ----

SvdsResult svds(const LinearOperator& given, int64_t k, const SvdsOptions& options) {
  if (options.which != "LM" && options.which != "SM")
    throw InvalidArgument(fmt::format("which: '{}' is none of 'LM', 'SM'", options.which));
  const int64_t m = given.shape()[0], n = given.shape()[1], least = std::min(m, n);
  if (k < 1 || k > least) throw InvalidArgument(fmt::format("k: {} is not between 1 and {}", k, least));
  const DType dtype = working_dtype(given.dtype());
  const Device device = options.v0 ? options.v0->device() : current_device();
  const ExecContext context = context_for(device);
  const bool wide = m < n;
  const LinearOperator a = wide ? given.adjoint() : given;  // (rows, least)
  NdArray v;
  if (k == least) {  // all: a dense problem of that size
    const NdArray unit = identity(least, dtype).to(device).toarray();
    const NdArray gram = a.rmatmat(a.matmat(unit));
    v = local::linalg::eigh(gram).second;
  } else {
    const LinearOperator gram(
        {least, least}, [&](const NdArray& x) { return a.rmatvec(a.matvec(x)); }, {}, dtype);
    EigenOptions eigen;
    eigen.ncv = options.ncv;
    eigen.tol = options.tol > 0 ? options.tol * options.tol : 0;
    eigen.maxiter = options.maxiter;
    eigen.v0 = options.v0 ? *options.v0 : random_vector(least, dtype, device);
    v = lanczos(gram, k, eigen, options.which == "LM" ? "LA" : "SA").vectors;
  }
  // a v = u s: the singular values and left vectors of the image, orthogonalised once more.
  const NdArray image = a.matmat(v.copy(context));
  const auto [squares, turn] = local::linalg::eigh(matmul(adjoint(image), image));
  const NdArray rotated = matmul(image, turn);
  const NdArray values = apply("sqrt"_op, {ops::sum(apply("square"_op, {apply("absolute"_op, {rotated})}), Axes(0))});
  SvdsResult result{NdArray({m, 0}, dtype, context), values, NdArray({0, n}, dtype, context)};
  if (!options.return_singular_vectors) return result;
  const NdArray right = matmul(v, turn);
  const NdArray left =
      rotated / apply("where"_op, {values == Scalar(0), Scalar::strong(Scalar(1), values.dtype()), values});
  result.u = wide ? right : left;
  result.vh = adjoint(wide ? left : right).copy(context);
  return result;
}

// ---- LOBPCG ----

namespace {

// Columns that span the same space, orthonormal in the inner product of which `gram` has their products; directions
// that are too small beside the others are left out.
NdArray whitening(const NdArray& gram) {
  const auto [values, vectors] = local::linalg::eigh(gram);
  const std::vector<double> sizes = host_values(values);
  const double largest = sizes.empty() ? 0 : sizes.back();
  const double least = largest * static_cast<double>(sizes.size()) * epsilon(gram.dtype()) * 10;
  const auto first =
      static_cast<int64_t>(std::count_if(sizes.begin(), sizes.end(), [&](double s) { return !(s > least); }));
  const auto count = static_cast<int64_t>(sizes.size());
  return columns_of(vectors, first, count) / apply("sqrt"_op, {values[{Slice{first, count, std::nullopt}}]});
}

struct Block {
  NdArray x, ax, bx;  // columns, and what a and B make of them
};

}  // namespace

LobpcgResult lobpcg(const LinearOperator& a, const NdArray& X, const LobpcgOptions& options) {
  const int64_t n = a.shape()[0];
  if (X.ndim() != 2 || a.shape()[1] != n || X.shape()[0] != n)
    throw InvalidArgument(fmt::format("X: shape {} does not fit a of shape {}", local::to_string(X.shape()),
                                      local::to_string(a.shape())));
  const int64_t k = X.shape()[1];
  if (k < 1 || k > n) throw InvalidArgument(fmt::format("X: {} columns are not between 1 and {}", k, n));
  const DType dtype = working_dtype(promote_types(a.dtype(), X.dtype()));
  const ExecContext context = context_for(X.device());
  const auto own = [&](const NdArray& m) { return m.dtype() == dtype ? m : m.astype(dtype, context); };
  const auto image = [&](const NdArray& m) { return own(a.matmat(m)); };
  const auto metric = [&](const NdArray& m) { return options.B ? own(options.B->matmat(m)) : m; };
  const double tol = options.tol.value_or(std::sqrt(epsilon(dtype)) * static_cast<double>(n));
  std::optional<NdArray> constraints, metric_constraints;
  if (options.Y) {
    if (options.Y->ndim() != 2 || options.Y->shape()[0] != n)
      throw InvalidArgument("Y: shape " + local::to_string(options.Y->shape()) + " does not fit a");
    const NdArray y = own(*options.Y), by = metric(y);
    const NdArray white = whitening(matmul(adjoint(y), by));
    constraints = matmul(y, white);
    metric_constraints = matmul(by, white);
  }
  const auto constrained = [&](const NdArray& m) {
    return constraints ? m - matmul(*constraints, matmul(adjoint(*metric_constraints), m)) : m;
  };
  const auto made = [&](const NdArray& m) { return Block{m, image(m), metric(m)}; };
  const auto turned = [&](const Block& block, const NdArray& by) {
    return Block{matmul(block.x, by), matmul(block.ax, by), options.B ? matmul(block.bx, by) : matmul(block.x, by)};
  };
  struct Best {
    Block x;
    NdArray values, coefficients;  // of x in the space's columns
  };
  // The best k vectors of a space. Its columns are made orthonormal twice (A. Stathopoulos, K. Wu, A Block
  // Orthogonalization Procedure with Constant Synchronization Requirements, 2002): near convergence they depend on each
  // other but for rounding, and once would leave errors of the inverse of their smallest singular value squared.
  const auto rayleigh_ritz = [&](const Block& space) {
    const NdArray white = whitening(matmul(adjoint(space.x), space.bx));
    if (white.shape()[1] < k) throw InvalidArgument("X: its columns are linearly dependent");
    const Block once = turned(space, white);
    const NdArray again = whitening(matmul(adjoint(once.x), once.bx));
    const Block basis = turned(once, again);
    const int64_t rank = again.shape()[1];
    const auto [values, vectors] = local::linalg::eigh(matmul(adjoint(basis.x), basis.ax));
    const Slice ends = options.largest ? Slice{rank - 1, rank == k ? std::nullopt : std::optional(rank - 1 - k), -1}
                                       : Slice{0, k, std::nullopt};
    const NdArray chosen = vectors[{full_slice, ends}];
    return Best{turned(basis, chosen), copy_of(values[{ends}]), matmul(white, matmul(again, chosen))};
  };
  Block x = made(constrained(own(X)));
  Best best = rayleigh_ritz(x);
  x = best.x;
  std::optional<Block> p;
  bool exact = true;  // whether x.ax is a's image of x but for one product's rounding
  LobpcgResult result;
  for (int64_t iteration = 0;; ++iteration) {
    const auto residual_of = [&] { return x.ax - x.bx * best.values; };
    const auto norms_of = [](const NdArray& m) {
      return apply("sqrt"_op, {ops::sum(apply("square"_op, {apply("absolute"_op, {m})}), Axes(0))});
    };
    NdArray residual = residual_of();
    NdArray norms = norms_of(residual);
    if (!exact && ops::max(norms).item().as_double() <= tol) {
      // Images that are combined step by step gather errors: the end is seen with new ones, or not reached.
      best = rayleigh_ritz(made(x.x));
      x = best.x;
      p.reset();
      residual = residual_of();
      norms = norms_of(residual);
    }
    result.residual_norms.push_back(norms);
    if (ops::max(norms).item().as_double() <= tol || iteration >= options.maxiter) break;
    NdArray w = constrained(options.M ? own(options.M->matmat(residual)) : residual);
    w = w - matmul(x.x, matmul(adjoint(x.bx), w));
    const NdArray lengths = apply("sqrt"_op, {ops::sum(apply("square"_op, {apply("absolute"_op, {w})}), Axes(0))});
    const Block ws =
        made(w / apply("where"_op, {lengths == Scalar(0), Scalar::strong(Scalar(1), lengths.dtype()), lengths}));
    std::vector<NdArray> xs{x.x, ws.x}, axs{x.ax, ws.ax}, bxs{x.bx, ws.bx};
    if (p) {
      xs.push_back(p->x);
      axs.push_back(p->ax);
      bxs.push_back(p->bx);
    }
    const Block space{ops::concatenate(xs, 1), ops::concatenate(axs, 1), ops::concatenate(bxs, 1)};
    best = rayleigh_ritz(space);
    exact = false;
    // The new directions are the part of the new vectors that the old ones do not span.
    const Block others{columns_of(space.x, k, space.x.shape()[1]), columns_of(space.ax, k, space.x.shape()[1]),
                       columns_of(space.bx, k, space.x.shape()[1])};
    const NdArray rest = best.coefficients[{Slice{k, std::nullopt, std::nullopt}}];
    p = turned(others, rest);
    const NdArray sizes = apply("sqrt"_op, {ops::sum(apply("square"_op, {apply("absolute"_op, {p->x})}), Axes(0))});
    const NdArray scale = apply("where"_op, {sizes == Scalar(0), Scalar::strong(Scalar(1), sizes.dtype()), sizes});
    p = Block{p->x / scale, p->ax / scale, p->bx / scale};
    x = best.x;
  }
  result.values = best.values;
  result.vectors = x.x;
  return result;
}

}  // namespace quarry::local::sparse::linalg
