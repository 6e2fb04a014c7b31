// Of scipy.linalg: the generalized eigenvalue problem, and what LAPACK alone has.
#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/structured.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/program/engine.h"

namespace quarry::local::ops {

using namespace linalg;

namespace {

NdArray conjugate_transpose(const NdArray& a) { return conjugated(swapped(a)); }

// The whole of a Hermitian matrix of which one triangle is read; of the diagonal the real part.
NdArray whole(const NdArray& a, bool lower, DType dtype) {
  const NdArray triangle = copied(a, dtype), strict = copied(a, dtype);
  keep_triangle(triangle, lower ? Triangle::lower : Triangle::upper);
  keep_triangle(strict, lower ? Triangle::lower : Triangle::upper, /*unit_diagonal=*/true);
  const NdArray diagonal = identities({}, a.shape(-1), a.shape(-1), dtype).to(a.device());
  const NdArray other = apply("subtract"_op, {conjugate_transpose(strict), diagonal});
  NdArray sum = apply("add"_op, {triangle, other});
  if (!is_complex(dtype)) return sum;
  const NdArray imaginary = apply("where"_op, {apply("equal"_op, {diagonal.real(), 1}), 0, sum.imag()});
  sum.imag().assign(imaginary, context_for(a.device()));
  return sum;
}

constexpr const char* kNoFactor = "The matrix b is not positive definite: no eigenvalues or eigenvectors were computed";

// The problem of two matrices as one of one.
class Generalized {
 public:
  Generalized(const NdArray& a, const NdArray& b, bool lower, int64_t type, bool check_finite);
  const NdArray& matrix() const { return matrix_; }
  NdArray values(const NdArray& values) const { return converted(values, real_type(dtypes_.result)); }
  NdArray vectors(const NdArray& vectors) const {
    return converted(type_ == 3 ? matmul(factor_, vectors) : solved(vectors, "C"), dtypes_.result);
  }

 private:
  NdArray solved(const NdArray& sides, const char* trans) const {
    return solve_triangular(factor_, sides, std::string(trans), /*lower=*/true, false, false, /*check_finite=*/false);
  }
  int64_t type_;
  LoopDTypes dtypes_;
  NdArray factor_, matrix_;
};

Generalized::Generalized(const NdArray& a, const NdArray& b, bool lower, int64_t type, bool check_finite)
    : type_(type) {
  if (type < 1 || type > 3)
    throw InvalidArgument(fmt::format("\"type\" keyword only accepts 1, 2, and 3, not {}", type));
  check_square(a);
  check_square(b);
  const NdArray* both[] = {&a, &b};
  const ExecContext context = context_for(common_device(both));
  const DeviceScope scope(context);
  if (a.shape(-1) != b.shape(-1))
    throw InvalidArgument(fmt::format("wrong b dimensions {}, a has {}", to_string(b.shape()), to_string(a.shape())));
  check_values(a, check_finite);
  check_values(b, check_finite);
  dtypes_ = loop_dtypes(a, b);
  const DType dtype = dtypes_.compute;
  try {
    factor_ = cholesky(converted(b, dtype), /*upper=*/!lower);
  } catch (const LinAlgError&) {
    throw LinAlgError(kNoFactor);
  }
  if (!lower) factor_ = conjugate_transpose(factor_);
  const NdArray all = whole(a, lower, dtype);
  // Both sides of a are divided by the factor, or multiplied by it.
  matrix_ = type == 1 ? solved(conjugate_transpose(solved(all, "N")), "N")
                      : matmul(matmul(conjugate_transpose(factor_), all), factor_);
}

}  // namespace

EighResult eigh(const NdArray& a, const NdArray& b, bool lower, int64_t type, bool check_finite,
                const std::optional<Subset>& subset) {
  const Generalized problem(a, b, lower, type, check_finite);
  const auto [values, vectors] = subset ? eigh(problem.matrix(), *subset, "L") : eigh(problem.matrix(), "L");
  return {problem.values(values), problem.vectors(vectors)};
}
SomeEigen some_eigen(const NdArray& a, const NdArray& b, const Subset& subset, bool lower, int64_t type,
                     bool check_finite) {
  const Generalized problem(a, b, lower, type, check_finite);
  const auto [values, vectors, found] = some_eigen(problem.matrix(), subset, "L", /*vectors=*/true);
  return {problem.values(values), problem.vectors(vectors), found};
}

std::variant<EighResult, NdArray> eigh_of(const NdArray& a, const std::variant<std::string, NdArray>& UPLO,
                                          const std::optional<NdArray>& b, std::optional<bool> lower, bool eigvals_only,
                                          int64_t type, bool check_finite, const IndexRange& subset_by_index,
                                          const ValueRange& subset_by_value) {
  const std::optional<Subset> subset = subset_of(subset_by_index, subset_by_value);
  const auto* text = std::get_if<std::string>(&UPLO);
  const auto* second = std::get_if<NdArray>(&UPLO);
  if (second && b) throw TypeError("eigh() got multiple values for argument 'b'");
  if (const NdArray* other = b ? &*b : second) {
    const bool upper = text && (*text == "U" || *text == "u");
    const EighResult result = eigh(a, *other, lower.value_or(!upper), type, check_finite, subset);
    if (eigvals_only) return result.eigenvalues;
    return result;
  }
  const std::string triangle = lower ? (*lower ? "L" : "U") : *text;
  if (eigvals_only) return subset ? eigvalsh(a, *subset, triangle) : eigvalsh(a, triangle);
  return subset ? eigh(a, *subset, triangle) : eigh(a, triangle);
}

// ---- By LAPACK on the CPU: cuSOLVER has no banded solver, no LDL for Hermitian matrices and no Schur vectors ----

namespace {

// The CPU, also where a trial stands for it.
Device host_of(const NdArray& a) { return acts_as(a.device()) == DeviceKind::cpu ? a.device() : kCpu; }

void run_on_host(const HostDecomposition& task, const NdArray& like) {
  engine(like.device()).decompositions().run_on_host(task, context_for(like.device()));
}

// b of a system of n equations as columns in the CPU's memory, (batch, k, n), and what the solution is to be.
struct HostSides {
  Device device;
  LoopDTypes dtypes;
  NdArray columns;
  bool vector;

  HostSides(const NdArray& a, const Dims& batch, int64_t n, const NdArray& b) : dtypes(loop_dtypes(a, b)) {
    const NdArray* both[] = {&a, &b};
    device = common_device(both);
    if (b.ndim() == 0) throw InvalidArgument("b must have at least one axis");
    vector = b.ndim() == 1;
    const NdArray given = vector ? b[{ellipsis, newaxis}] : b;
    if (given.shape(-2) != n)
      throw InvalidArgument(fmt::format("shapes of the matrix and b are not compatible: {} and {}",
                                        to_string(a.shape()), to_string(b.shape())));
    const NdArray sides = swapped(given.to(host_of(given)));
    const Dims all = broadcast_shapes(batch, linalg::batch_of(given));
    columns = copied(sides.broadcast_to(joined(all, {sides.shape(-2), n})), dtypes.compute);
  }
  NdArray solution() const {
    const NdArray x = vector ? columns[{ellipsis, int64_t{0}, full_slice}] : swapped(columns);
    return converted(x, dtypes.result).to(device);
  }
};
HostSides banded_sides(const NdArray& ab, const NdArray& b, bool check_finite) {
  check_stacked(ab);
  check_values(ab, check_finite);
  check_values(b, check_finite);
  return {ab, linalg::batch_of(ab), ab.shape(-1), b};
}
// The band of each matrix of the batch of `sides`, column by column, below `more` rows.
NdArray band_of(const NdArray& ab, const NdArray& sides, int64_t more, DType dtype) {
  const int64_t rows = ab.shape(-2), n = ab.shape(-1);
  const ExecContext context = context_for(host_of(ab));
  NdArray band(joined(linalg::batch_of(sides), {n, more + rows}), dtype, context);
  band.fill(0, context);
  const NdArray given = swapped(ab.to(host_of(ab)));
  band[{ellipsis, Slice{more, more + rows, 1}}].assign(given.broadcast_to(joined(linalg::batch_of(sides), {n, rows})),
                                                       context);
  return band;
}

}  // namespace

NdArray solve_banded(const std::pair<int64_t, int64_t>& l_and_u, const NdArray& ab, const NdArray& b, bool, bool,
                     bool check_finite) {
  const auto [l, u] = l_and_u;
  const HostSides sides = banded_sides(ab, b, check_finite);
  if (l < 0 || u < 0 || l + u + 1 != ab.shape(-2))
    throw InvalidArgument(fmt::format(
        "invalid values for the number of lower and upper diagonals: l+u+1 ({}) does not equal ab.shape[-2] ({})",
        l + u + 1, ab.shape(-2)));
  if (sides.columns.size() != 0) {
    const NdArray band = band_of(ab, sides.columns, l, sides.dtypes.compute);
    const Info info(linalg::batch_of(band), context_for(band.device()));
    run_on_host(BandedSolve{sides.dtypes.compute, l, u, stack_of(band), stack_of(sides.columns), info.data()}, band);
    info.check("singular matrix");
  }
  return sides.solution();
}

NdArray solveh_banded(const NdArray& ab, const NdArray& b, bool, bool, bool lower, bool check_finite) {
  const HostSides sides = banded_sides(ab, b, check_finite);
  if (ab.shape(-2) == 0) throw InvalidArgument("ab must have at least one row");
  if (sides.columns.size() != 0) {
    const NdArray band = band_of(ab, sides.columns, 0, sides.dtypes.compute);
    const Info info(linalg::batch_of(band), context_for(band.device()));
    run_on_host(HermitianBandedSolve{sides.dtypes.compute, lower ? Triangle::lower : Triangle::upper, stack_of(band),
                                     stack_of(sides.columns), info.data()},
                band);
    if (info.any()) throw_not_definite(info);
  }
  return sides.solution();
}

NdArray solve_toeplitz(const std::variant<std::pair<NdArray, NdArray>, NdArray>& c_or_cr, const NdArray& b,
                       bool check_finite) {
  const auto* both = std::get_if<std::pair<NdArray, NdArray>>(&c_or_cr);
  const NdArray& c = both ? both->first : std::get<NdArray>(c_or_cr);
  const NdArray r = both ? both->second : conjugated(c);
  if (c.ndim() != 1 || r.ndim() != 1 || c.size() != r.size())
    throw InvalidArgument(fmt::format("the first column and row must be vectors of one length, not {} and {}",
                                      to_string(c.shape()), to_string(r.shape())));
  for (const NdArray* given : {&c, &r, &b}) check_values(*given, check_finite);
  const HostSides sides(c.astype(promote_types(c.dtype(), r.dtype())), {}, c.size(), b);
  if (sides.columns.size() != 0) {
    const DType dtype = sides.dtypes.compute;
    const NdArray column = copied(c.to(host_of(c)), dtype), row = copied(r.to(host_of(r)), dtype);
    const Info info(linalg::batch_of(sides.columns), context_for(column.device()));
    run_on_host(ToeplitzSolve{dtype, column.raw(), row.raw(), stack_of(sides.columns), info.data()}, column);
    info.check("Singular principal minor");
  }
  return sides.solution();
}

std::pair<NdArray, NdArray> schur(const NdArray& a, std::string_view output, bool, bool check_finite) {
  const bool complex = output == "complex" || output == "c";
  if (!complex && output != "real" && output != "r")
    throw InvalidArgument(fmt::format("argument must be 'real', or 'complex', not '{}'", output));
  check_square(a);
  check_values(a, check_finite);
  const LoopDTypes dtypes = loop_dtypes(a);
  const DType dtype = complex ? complex_type(dtypes.compute) : dtypes.compute;
  const DType result = complex ? dtype : dtypes.result;
  const NdArray work = copied(swapped(a.to(host_of(a))), dtype);
  const NdArray vectors(work.shape(), dtype, context_for(work.device()));
  if (work.size() != 0) {
    constexpr const char* kFailed = "Schur form not found. Possibly ill-conditioned.";
    linalg::check_finite(work, kFailed);
    const Info info(linalg::batch_of(a), context_for(work.device()));
    run_on_host(Schur{dtype, stack_of(work), stack_of(vectors), info.data()}, work);
    info.check(kFailed);
  }
  const auto delivered = [&](const NdArray& columns) { return converted(swapped(columns), result).to(a.device()); };
  return {delivered(work), delivered(vectors)};
}

std::tuple<NdArray, NdArray, NdArray> ldl(const NdArray& A, bool lower, bool hermitian, bool, bool check_finite) {
  check_square(A);
  check_values(A, check_finite);
  const LoopDTypes dtypes = loop_dtypes(A);
  const DType dtype = dtypes.compute;
  const ExecContext context = context_for(host_of(A));
  const int64_t n = A.shape(-1);
  const NdArray work = copied(swapped(A.to(host_of(A))), dtype);
  const NdArray d(work.shape(), dtype, context);
  const NdArray order(joined(linalg::batch_of(A), {n}), DType::int64, context);
  if (work.size() != 0)
    run_on_host(Ldl{dtype, lower ? Triangle::lower : Triangle::upper, hermitian && is_complex(dtype), stack_of(work),
                    stack_of(d), order.data<int64_t>()},
                work);
  const auto delivered = [&](const NdArray& columns) {
    return converted(swapped(columns), dtypes.result).to(A.device());
  };
  return {delivered(work), delivered(d), order.to(A.device())};
}

}  // namespace quarry::local::ops
