// Spectral divide and conquer (Nakatsukasa and Higham, SIAM J. Sci. Comput. 35(3), 2013). The polar factor of A - s I,
// A Hermitian, is its sign S: 1 for eigenvalues above s, -1 for those below. (S + I) / 2 is the projector on the upper
// ones, k of them; with Q = [Q1 Q2] whose first k columns are a basis of its range,
//   Q^H A Q = diag(A1, A2)   but for roundings,
// and A1 and A2 are decomposed in turn, until a device takes one. The singular value decomposition is that of the
// Hermitian factor of A = U H: with H = V S V^H, A V = U V S has orthogonal columns, which a QR decomposition makes
// orthonormal.
//
// The polar factor is found by the dynamically weighted Halley iteration (Nakatsukasa, Bai and Gygi, SIAM J. Matrix
// Anal. Appl. 31(5), 2010): by a QR decomposition while a matrix is ill-conditioned, about 9 n^3 operations, and then
// by Cholesky's, 3 1/3 n^3, four times or five. Dividing costs 8 n^3 more: 30 n^3 for a matrix whose halves fit a
// device, 35 n^3 for one that is divided to the end. At once there are about eight matrices of n^2, spilled where they
// do not fit. A rank of P x Q receives about 18 n^2 (1 / P + 1 / Q) elements for the first division, in products, QR
// and Cholesky decompositions, and half as many for each level below. Tasks hold what those of these programs do.
#include "quarry/chunked/api/spectral.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/tiled.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/op/trial.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/sorting/sorting.h"

namespace quarry::linalg::spectral {
namespace {

using namespace compose;
namespace ops = local::ops;

constexpr int64_t kSeed = 5;  // of the vectors that are drawn: the same at every call

double epsilon_of(const Array& a) { return local::linalg::epsilon_of(a.dtype()); }
Array hermitian_part(const Array& a) { return (a + adjoint(a)) * 0.5; }
Array rows_of(const Array& a, int64_t first, int64_t count) { return arrange::part(a, 0, first, count); }
Array columns_of(const Array& a, int64_t first, int64_t count) { return arrange::part(a, 1, first, count); }
Array block_of(const Array& a, int64_t first, int64_t count) {
  return columns_of(rows_of(a, first, count), first, count);
}
Array ones_of(const Array& a) { return eye(a.shape(0), std::nullopt, 0, a.dtype()); }
Array sum_of_squares(const Array& a) { return sum(square(absolute(a).astype(DType::float64))); }
Array drawn(int64_t rows, int64_t columns, DType dtype) {
  return random::default_rng(kSeed).normal(0, 1, {rows, columns}).astype(dtype);
}

void check_finite(const char* name, double norm) {
  if (!std::isfinite(norm)) throw InvalidArgument(fmt::format("{}(): the matrix has NaN or infinite elements", name));
}

// Numbers of one plan, which keeps an array beside.
struct Step {
  std::vector<double> numbers;
  Array kept;
  bool is_planned;
};
Step step(const std::vector<Array>& numbers, const Array& keep) {
  const Settled settled = settle(numbers, std::span(&keep, 1), InPlans::zeros);
  Step result{{}, settled.kept[0], settled.is_planned};
  for (const NdArray& number : settled.values) result.numbers.push_back(number.item().as_double());
  return result;
}

// Whether all that the function takes and makes is in memory at once, also by the planner's estimate.
bool fits(const op::LocalFunction& function, const Dims& shape, DType dtype, int64_t result_elements) {
  const op::ArraySpec spec = op::in_one_chunk(shape, dtype);
  const int64_t results = result_elements * local::itemsize(dtype);
  const int64_t tried = op::tried_peak_bytes(function, std::span(&spec, 1), results, chunk_policy().device);
  const int64_t planned = spec.bytes() + results + op::estimated_peak_bytes(spec.bytes() + results);
  return std::max(spec.bytes() + tried, planned) <= Runtime::current().plan_bytes();
}

// ---- The polar factor ----

// The weights of a step for singular values in [least, 1], and where they are behind it.
struct Weights {
  double a = 3, b = 1, c = 3, least = 1;
};
Weights weights_of(double least) {
  const double l2 = least * least;
  Weights w;
  if (1 - least > 1e-15) {
    const double d = std::cbrt(4 * (1 - l2) / (l2 * l2)), root = std::sqrt(1 + d);
    w.a = root + 0.5 * std::sqrt(8 - 4 * d + 8 * (2 - l2) / (l2 * root));
    w.b = (w.a - 1) * (w.a - 1) / 4;
    w.c = w.a + w.b - 1;
  }
  w.least = std::min(1., least * (w.a + w.b * l2) / (1 + w.c * l2));
  return w;
}

// X (a I + b X^H X) (I + c X^H X)^-1.
Array stepped(const Array& x, const Weights& w) {
  constexpr double kMostByCholesky = 100;  // of c: the condition of what Cholesky's factorisation takes
  const int64_t n = x.shape(0);
  const Array ones = ones_of(x);
  if (w.c > kMostByCholesky) {
    // [sqrt(c) X; I] = [Q1; Q2] R: X (I + c X^H X)^-1 = Q1 Q2^H / sqrt(c).
    const double root = std::sqrt(w.c);
    const Array q = *tiled::qr(joined({x * root, ones}, 0), /*with_q=*/true, /*complete=*/false).q;
    return x * (w.b / w.c) + matmul(rows_of(q, 0, n), adjoint(rows_of(q, n, n))) * ((w.a - w.b / w.c) / root);
  }
  const Array factor = tiled::cholesky(ones + matmul(adjoint(x), x) * w.c, /*upper=*/false);
  const Array half = tiled::solve_triangular(factor, adjoint(x), Triangle::lower, local::MatrixOp::none, false);
  const Array solved =
      tiled::solve_triangular(factor, half, Triangle::lower, local::MatrixOp::conjugate_transpose, false);
  return x * (w.b / w.c) + adjoint(solved) * (w.a - w.b / w.c);
}

// The unitary U of A = U H, H positive semidefinite. `least`: where singular values are expected to begin, of the
// largest; smaller ones take more steps. Those of 0 stay 0.
Array polar_factor(const char* name, const Array& a, double least, bool hermitian) {
  constexpr int kMostSteps = 60;
  const Array magnitude = absolute(a);
  const Array bounds = sqrt(max(sum(magnitude, Axes(0)))) * sqrt(max(sum(magnitude, Axes(1))));
  const double bound = settled_number(bounds.astype(DType::float64), /*in_plans=*/1);  // of the largest singular value
  check_finite(name, bound);
  if (bound == 0) return ones_of(a);
  Array x = (a / bound).persist();
  const double tolerance = std::cbrt(4 * epsilon_of(a));
  for (int i = 0; i < kMostSteps; ++i) {
    const Weights w = weights_of(least);
    least = w.least;
    Array next = stepped(x, w);
    if (hermitian) next = hermitian_part(next);
    const Array change = sum_of_squares(next - x);
    const Step done = step({change}, next);
    x = done.kept;
    // Convergence is cubic: what is left is the cube of the last change.
    if (1 - least < 1e-8 && std::sqrt(done.numbers[0]) < tolerance) return x;
  }
  throw local::LinAlgError(fmt::format("{}(): the polar decomposition did not converge in {} steps", name, kMostSteps));
}

// ---- Dividing a spectrum ----

// Numbers that stand for the eigenvalues, and how much of the spectrum is near each: by Lanczos from a vector that is
// drawn (Golub and Meurant, Matrices, Moments and Quadrature, 2010, chapter 6).
struct Spectrum {
  std::vector<double> values, weights;  // ascending
};
Spectrum spectrum_of(const Array& a) {
  constexpr int64_t kSteps = 24;
  const int64_t n = a.shape(0);
  const Array start = drawn(n, 1, a.dtype());
  std::vector<Array> basis{(start / sqrt(sum(square(start)))).persist()};
  std::vector<double> diagonal, beside;
  double scale = 0;
  while (true) {
    const Array all = joined(basis, 1), image = matmul(a, basis.back());
    const Array along = matmul(adjoint(all), image), once = image - matmul(all, along);
    const Array left = once - matmul(all, matmul(adjoint(all), once)), length = sqrt(sum(square(absolute(left))));
    const Step known = step({real(along).astype(DType::float64)(std::ssize(basis) - 1, 0), length}, left / length);
    const double beyond = known.is_planned ? 1 : known.numbers[1];
    diagonal.push_back(known.numbers[0]);
    scale = std::max({scale, std::abs(known.numbers[0]), beyond});
    const bool is_last = std::ssize(basis) == std::min(n, kSteps);
    if (is_last || beyond <= static_cast<double>(n) * epsilon_of(a) * scale) break;
    beside.push_back(beyond);
    basis.push_back(known.kept);
  }
  const auto count = std::ssize(diagonal);
  const auto row = static_cast<size_t>(count);
  std::vector<double> elements(row * row, 0);
  for (size_t i = 0; i < row; ++i) {
    elements[i * row + i] = diagonal[i];
    if (i > 0) elements[i * row + i - 1] = beside[i - 1];
  }
  const ops::EighResult found = ops::eigh(local::from_vector(elements).reshape(count, count), "L");
  Spectrum spectrum{local::to_vector<double>(found.eigenvalues), local::to_vector<double>(found.eigenvectors)};
  spectrum.weights.resize(row);  // of the first row
  for (double& weight : spectrum.weights) weight *= weight;
  return spectrum;
}

// Numbers between eigenvalues that leave about as many on either side, the best first. None where all are equal but for
// roundings.
std::vector<double> shifts_of(const Spectrum& spectrum, double roundings) {
  std::vector<std::pair<double, double>> by_balance;
  double below = 0;
  for (size_t i = 0; i + 1 < spectrum.values.size(); ++i) {
    below += spectrum.weights[i];
    const double low = spectrum.values[i], high = spectrum.values[i + 1];
    if (high - low > roundings * std::max(std::abs(low), std::abs(high)))
      by_balance.emplace_back(std::abs(below - 0.5), (low + high) / 2);
  }
  std::ranges::sort(by_balance);
  std::vector<double> shifts;
  for (const auto& [balance, shift] : by_balance) shifts.push_back(shift);
  return shifts;
}

// A basis, the first `count` columns of which span what belongs to the eigenvalues above a number, and the matrix in
// it.
struct Halves {
  Array basis;
  int64_t count;
  Array upper, lower;
};
std::optional<Halves> divided(const Array& a, double shift, double norm) {
  constexpr double kUsual = 1e-5;  // least distance of eigenvalues from the shift
  constexpr double kMostRoundings = 20;
  const int64_t n = a.shape(0);
  const Array sign = polar_factor("eigh", (a - ones_of(a) * shift), kUsual, /*hermitian=*/true);
  const Step projector = step({real(trace(sign)).astype(DType::float64)}, (sign + ones_of(a)) * 0.5);
  const double upper = (projector.numbers[0] + static_cast<double>(n)) / 2;
  const auto count = static_cast<int64_t>(std::llround(upper));
  if (count <= 0 || count >= n) return std::nullopt;
  const Array range = *tiled::qr(matmul(projector.kept, drawn(n, count, a.dtype())), true, false).q;
  const Array basis = tiled::qr(matmul(projector.kept, range), true, /*complete=*/true).q->persist();
  const Array turned = matmul(adjoint(basis), matmul(a, basis));
  const Array beside = rows_of(columns_of(turned, 0, count), count, n - count);
  const std::vector<Array> values{sum_of_squares(beside)};
  const std::vector<Array> keep{hermitian_part(block_of(turned, 0, count)),
                                hermitian_part(block_of(turned, count, n - count))};
  const Settled known = settle(values, keep, InPlans::zeros);
  const double error = std::sqrt(known.values[0].item().as_double());
  if (!(error <= kMostRoundings * std::sqrt(static_cast<double>(n)) * epsilon_of(a) * norm)) return std::nullopt;
  return Halves{basis, count, known.kept[0], known.kept[1]};
}

using MaybeSubset = std::optional<local::Subset>;

// What a subset has on the side of `count` eigenvalues from number `first` on, which lie in (low, high]. None: nothing.
struct Side {
  bool is_wanted = true;
  MaybeSubset subset;
};
Side side_of(const MaybeSubset& subset, int64_t first, int64_t count, double low, double high) {
  if (!subset) return {};
  if (const auto* by_index = std::get_if<local::ByIndex>(&*subset)) {
    const local::ByIndex here{std::max<int64_t>(by_index->first - first, 0),
                              std::min(by_index->last - first, count - 1)};
    return {here.first <= here.last, here};
  }
  const auto& by_value = std::get<local::ByValue>(*subset);
  return {by_value.low < high && by_value.high > low, by_value};
}

// Those of equal eigenvalues that a subset has: of the vectors any.
Eigen some_equal(const Array& a, const Array& values, bool with_vectors, const MaybeSubset& subset) {
  int64_t first = 0, count = a.shape(0);
  if (const auto* by_index = subset ? std::get_if<local::ByIndex>(&*subset) : nullptr) {
    first = by_index->first, count = by_index->last - first + 1;
  } else if (subset) {
    const auto& by_value = std::get<local::ByValue>(*subset);
    const double value = values.astype(DType::float64)(0).item<double>();
    if (!(value > by_value.low && value <= by_value.high)) count = 0;
  }
  return {arrange::part(values, 0, first, count),
          with_vectors ? std::optional(columns_of(ones_of(a), first, count)) : std::nullopt};
}

Eigen decomposed(const Array& a, bool with_vectors, const MaybeSubset& subset) {
  constexpr size_t kMostTries = 4;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t n = a.shape(0);
  if (subset && eigh_fits(n, a.dtype(), subset)) {
    if (!with_vectors) return {eigvalsh(a, *subset), std::nullopt};
    const EigResult found = linalg::eigh(a, *subset);
    return {found.eigenvalues, found.eigenvectors};
  }
  if (!subset && eigh_fits(n, a.dtype())) {
    const expr::NodePtr node = algo::eigh(a.node(), Triangle::lower);
    return {Array(expr::item(node, 0)), with_vectors ? std::optional(Array(expr::item(node, 1))) : std::nullopt};
  }
  const double norm = std::sqrt(settled_number(sum_of_squares(a), /*in_plans=*/1));
  check_finite("eigh", norm);
  const std::vector<double> shifts = shifts_of(spectrum_of(a), static_cast<double>(n) * epsilon_of(a));
  if (shifts.empty()) {  // a multiple of the identity
    return some_equal(a, real(diagonal(a)).persist(), with_vectors, subset);
  }
  std::optional<Halves> halves;
  double shift = 0;
  for (size_t i = 0; !halves && i < std::min(shifts.size(), kMostTries); ++i)
    halves = divided(a, shift = shifts[i], norm);
  if (!halves)
    throw local::LinAlgError(
        fmt::format("Eigenvalues did not converge: the spectrum of a matrix of {} rows was not divided", n));
  std::vector<Array> values, vectors;
  const auto add = [&](const Array& matrix, int64_t first, double low, double high, const Array& basis) {
    const Side side = side_of(subset, first, matrix.shape(0), low, high);
    if (!side.is_wanted) return;
    const Eigen part = decomposed(matrix, with_vectors, side.subset);
    values.push_back(part.values);
    if (with_vectors) vectors.push_back(matmul(basis, *part.vectors));
  };
  const int64_t count = halves->count, below = n - count;
  add(halves->lower, 0, -kInfinity, shift, columns_of(halves->basis, count, below));
  add(halves->upper, below, shift, kInfinity, columns_of(halves->basis, 0, count));
  std::vector<Array> found{joined(values, 0)};
  if (with_vectors) found.push_back(joined(vectors, 1));
  const std::vector<Array> kept = persist(found);
  return {kept[0], with_vectors ? std::optional(kept[1]) : std::nullopt};
}

// Computed, in one plan; in order where roundings have left it.
Eigen in_order(const Eigen& found) {
  std::vector<Array> keep{found.values};
  if (found.vectors) keep.push_back(*found.vectors);
  const Settled known = settle(std::span(&found.values, 1), keep, InPlans::zeros);
  const auto noted = [&](size_t i) {
    return Array(expr::noted(known.kept[i].node(), "by dividing the spectrum until devices held the parts"));
  };
  Eigen result{noted(0), found.vectors ? std::optional(noted(1)) : std::nullopt};
  const NdArray& values = known.values[0];
  if (std::ranges::is_sorted(local::to_vector<double>(values.astype(DType::float64)))) return result;
  const NdArray order = ops::argsort(values);
  result.values = take(result.values, order, 0);
  if (result.vectors) result.vectors = take(*result.vectors, order, 1);
  return result;
}

}  // namespace

bool eigh_fits(int64_t n, DType dtype, const MaybeSubset& subset) {
  const auto function = [&](std::span<const NdArray> given) {
    if (subset) {
      const ops::SomeEigen parts = ops::some_eigen(given[0], *subset, "L", /*vectors=*/true);
      return std::vector<NdArray>{parts.values, parts.vectors};
    }
    const ops::EighResult parts = ops::eigh(given[0], "L");
    return std::vector<NdArray>{parts.eigenvalues, parts.eigenvectors};
  };
  return fits(function, {n, n}, dtype, n * n + n);
}

bool svd_fits(const Dims& shape, DType dtype, bool with_vectors, bool full) {
  const int64_t m = shape[0], n = shape[1], k = std::min(m, n);
  const auto function = [=](std::span<const NdArray> given) {
    const auto found = ops::svd(given[0], full, with_vectors, /*hermitian=*/false);
    if (const auto* values = std::get_if<NdArray>(&found)) return std::vector<NdArray>{*values};
    const auto& parts = std::get<ops::SVDResult>(found);
    return std::vector<NdArray>{parts.U, parts.S, parts.Vh};
  };
  return fits(function, shape, dtype, !with_vectors ? k : full ? m * m + n * n + k : (m + n + 1) * k);
}

Eigen eigh(const Array& a, bool with_vectors, const MaybeSubset& subset) {
  return in_order(decomposed(a.persist(), with_vectors, subset));
}

Singular svd(const Array& given, bool with_vectors, bool full) {
  const int64_t m = given.shape(0), n = given.shape(1);
  if (m < n) {
    Singular turned = svd(adjoint(given), with_vectors, full);
    if (!with_vectors) return turned;
    return {turned.values, adjoint(*turned.vh), adjoint(*turned.u)};
  }
  if (m > n) {
    const tiled::Orthogonal parts = tiled::qr(given, with_vectors, full && with_vectors);
    const std::vector<Array> all =
        with_vectors ? std::vector{rows_of(parts.r, 0, n), *parts.q} : std::vector{rows_of(parts.r, 0, n)};
    const std::vector<Array> kept = persist(all);
    Singular square = svd(kept[0], with_vectors, false);
    if (!with_vectors) return square;
    const Array u = matmul(columns_of(kept[1], 0, n), *square.u);
    return {square.values, full ? joined({u, columns_of(kept[1], n, m - n)}, 1) : u, square.vh};
  }
  const Array a = given.persist();
  const Array hermitian = matmul(adjoint(polar_factor("svd", a, epsilon_of(a), false)), a);
  const Eigen ordered = in_order(decomposed(hermitian_part(hermitian).persist(), with_vectors, std::nullopt));
  // The eigenvalues of a semidefinite matrix are not negative but for roundings.
  const Array values = maximum(arrange::backwards(ordered.values, 0), 0);
  if (!with_vectors) return {values, std::nullopt, std::nullopt};
  const Array v = arrange::backwards(*ordered.vectors, 1).persist();
  const tiled::Orthogonal parts = tiled::qr(matmul(a, v), /*with_q=*/true, /*complete=*/false);
  const Array pivots = diagonal(parts.r), phases = where(equal(pivots, 0), 1, sign(pivots));
  return {values, *parts.q * phases.astype(a.dtype()), adjoint(v)};
}

}  // namespace quarry::linalg::spectral
