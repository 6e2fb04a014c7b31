// Orthogonal factors, singular values and eigenvalues.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/program/program.h"

namespace quarry::local::ops {

using namespace linalg;

namespace {

constexpr const char* kNoConvergence = "Eigenvalues did not converge";

Triangle parse_triangle(std::string_view text) {
  if (text == "L" || text == "l") return Triangle::lower;
  if (text == "U" || text == "u") return Triangle::upper;
  throw InvalidArgument("UPLO argument must be 'L' or 'U'");
}

}  // namespace

std::variant<QRResult, NdArray, ArrayTuple> qr(const NdArray& a, std::string_view mode) {
  if (mode != "reduced" && mode != "complete" && mode != "r" && mode != "raw")
    throw InvalidArgument(fmt::format("Unrecognized mode '{}'", mode));
  check_stacked(a);
  const LoopDTypes dtypes = loop_dtypes(a);
  const DType dtype = dtypes.compute;
  const ExecContext context = context_for(a.device());
  const DeviceScope scope(context);
  const Dims batch = linalg::batch_of(a);
  const int64_t m = a.shape(-2), n = a.shape(-1), k = std::min(m, n);
  if (mode == "reduced" || mode == "r") {
    if (const std::optional<TallQr> factors = tall_qr(a, dtype, mode == "reduced")) {
      const NdArray r = converted(factors->r, dtypes.result);
      if (mode == "r") return r;
      return QRResult{converted(factors->q, dtypes.result), r};
    }
  }
  const NdArray columns = copied(swapped(a), dtype);  // (..., n, m)
  const NdArray tau(joined(batch, {k}), dtype, context);
  if (a.size() != 0) run(Qr{dtype, stack_of(columns), tau.raw()}, a);
  if (mode == "raw") return ArrayTuple{converted(columns, dtypes.result), converted(tau, dtypes.result)};
  const int64_t width = mode == "complete" ? m : k;  // of Q
  const NdArray r = swapped(columns)[{ellipsis, Slice{0, width, 1}, full_slice}].copy(context);
  keep_triangle(r, Triangle::upper);
  if (mode == "r") return converted(r, dtypes.result);
  if (k == 0 || a.size() == 0) return QRResult{identities(batch, m, width, dtypes.result), converted(r, dtypes.result)};
  NdArray q = columns;
  if (width < n) {
    q = columns[{ellipsis, Slice{0, width, 1}, full_slice}].copy(context);
  } else if (width > n) {
    q = NdArray(joined(batch, {width, m}), dtype, context);
    q.fill(0, context);
    q[{ellipsis, Slice{0, n, 1}, full_slice}].assign(columns, context);
  }
  run(FormQ{dtype, stack_of(q), k, tau.raw(), k}, a);
  return QRResult{converted(swapped(q), dtypes.result), converted(r, dtypes.result)};
}

std::variant<SVDResult, NdArray> svd(const NdArray& a, bool full_matrices, bool compute_uv, bool hermitian) {
  const LoopDTypes dtypes = loop_dtypes(a);
  if (hermitian) {
    if (!compute_uv) return flip(sort(absolute(eigvalsh(a))), -1);
    const auto [values, vectors] = eigh(a);
    const NdArray signs = copysign(1, values), sizes = absolute(values);
    const NdArray order = flip(argsort(sizes), -1);
    const NdArray u = take_along_axis(vectors, broadcast_to(order[{ellipsis, newaxis, full_slice}], vectors.shape()));
    const NdArray sign = take_along_axis(signs, order);
    const NdArray v = multiply(u, sign[{ellipsis, newaxis, full_slice}]);
    return SVDResult{u, take_along_axis(sizes, order), conjugate(swapped(v))};
  }
  check_stacked(a);
  const Singular result = singular(a, dtypes.compute, full_matrices, compute_uv);
  const NdArray s = converted(result.s, real_type(dtypes.result));
  if (!compute_uv) return s;
  return SVDResult{converted(result.u, dtypes.result), s, converted(result.vh, dtypes.result)};
}

NdArray svdvals(const NdArray& x) { return std::get<NdArray>(svd(x, /*full_matrices=*/false, /*compute_uv=*/false)); }

namespace {

// Throws where a number in the triangle of a matrix is not finite; of the rest anything may be there.
void check_triangle(const NdArray& a, Triangle triangle) {
  Program program;
  const ValueId row = program.index(a.ndim() - 2), column = program.index(a.ndim() - 1);
  const Op inside = triangle == Triangle::lower ? "less_equal"_op : "greater_equal"_op;
  const ValueId finite = program.apply("isfinite"_op, std::array{program.input(a.dtype())});
  const ValueId counts = program.apply(inside, std::array{column, row});
  const ValueId no = program.apply("logical_not"_op, std::array{counts});
  program.reduce("all"_reduction, std::array{program.apply("logical_or"_op, std::array{finite, no})}, DType::bool_);
  const NdArray* inputs[] = {&a};
  const uint32_t every = (uint32_t{1} << a.ndim()) - 1;
  const NdArray state = run_reductions(program, inputs, a.shape(), every, context_for(a.device()))[0];
  if (!item_or(state, true).as_bool()) throw LinAlgError(kNoConvergence);
}

// Of a matrix of n rows.
void check_subset(const Subset& subset, int64_t n) {
  if (const auto* range = std::get_if<ByIndex>(&subset)) {
    if (range->first < 0 || range->first > range->last || range->last >= n)
      throw InvalidArgument(
          fmt::format("Requested eigenvalue indices are not valid. Valid range is [0, {}] and start <= end, but "
                      "start={}, end={} is "
                      "given",
                      n - 1, range->first, range->last));
    return;
  }
  const auto [low, high] = std::get<ByValue>(subset);
  if (!(low < high))
    throw InvalidArgument(fmt::format(
        "Requested eigenvalue bounds are not valid. Valid range is (-inf, inf) and low < high, but low={}, high={} is "
        "given",
        low, high));
}

// What a subset has in each matrix of a batch, of which all have as many by index.
EighResult cut(const SomeEigen& some, const Subset& subset) {
  int64_t count = most_of(subset, some.values.shape(-1));
  if (std::holds_alternative<ByValue>(subset)) {
    if (some.values.ndim() > 1)
      throw InvalidArgument("a subset by value is of one matrix: those of a stack may have as many each as they like");
    const Range named(some.vectors.size() == 0 ? "linalg.eigvalsh" : "linalg.eigh");
    count = some.found.item().as_int64();
  }
  const Slice first{0, count, 1};
  return {some.values[{ellipsis, first}].copy(),
          some.vectors.size() == 0 ? some.vectors : some.vectors[{ellipsis, full_slice, first}].copy()};
}

Eigen hermitian_eigen(const NdArray& a, std::string_view uplo, bool vectors, const std::optional<Subset>& subset = {},
                      const NdArray& found = {}) {
  const Triangle triangle = parse_triangle(uplo);
  check_square(a);
  const LoopDTypes dtypes = loop_dtypes(a);
  const DType dtype = dtypes.compute;
  const ExecContext context = context_for(a.device());
  const Dims batch = linalg::batch_of(a);
  Eigen result{NdArray(joined(batch, {a.shape(-1)}), real_type(dtype), context), {}};
  // Of a real matrix the engine may see the transpose, by its other triangle, which saves an exchange of rows and
  // columns.
  const bool transposed = !is_complex(dtype);
  const NdArray work = copied(transposed ? a : swapped(a), dtype);
  const bool lower = (triangle == Triangle::lower) != transposed;
  if (a.size() != 0) {
    // By rows it is the other triangle that the engine sees column by column.
    check_triangle(work, lower ? Triangle::upper : Triangle::lower);
    const Info info(batch, context);
    run(Eigh{dtype, lower ? Triangle::lower : Triangle::upper, vectors, stack_of(work), result.values.raw(),
             info.data(), subset, subset ? found.data<int32_t>() : nullptr},
        a);
    info.check(kNoConvergence);
  }
  result.values = converted(result.values, real_type(dtypes.result));
  if (vectors) result.vectors = converted(swapped(work), dtypes.result);
  return result;
}

// LAPACK's real eigenvectors of a real matrix: of a pair of conjugate eigenvalues the first column is the real part,
// the second one the imaginary part of the first eigenvalue's. `columns` is (..., n, n) with eigenvectors in rows.
NdArray unpacked(const NdArray& columns, const NdArray& values) {
  const ExecContext context = context_for(columns.device());
  NdArray result(columns.shape(), values.dtype(), context);
  // The neighbours of each row; what they hold at the ends is not used.
  const NdArray before = roll(columns, 1, -2), after = roll(columns, -1, -2);
  const NdArray side = values.imag()[{ellipsis, newaxis}];
  const NdArray second = less(side, 0), first = greater(side, 0);
  result.real().assign(where(second, before, columns), context);
  result.imag().assign(where(first, after, where(second, negative(columns), 0)), context);
  return result;
}

// As LAPACK has them: of real matrices the vectors are real, and of conjugate pairs in two columns.
Eigen general_eigen(const NdArray& a, bool vectors) {
  check_square(a);
  const DType dtype = loop_dtypes(a).compute;
  const ExecContext context = context_for(a.device());
  const Dims batch = linalg::batch_of(a);
  Eigen result{NdArray(joined(batch, {a.shape(-1)}), complex_type(dtype), context), {}};
  if (vectors) result.vectors = NdArray(a.shape(), dtype, context);
  if (a.size() == 0) return result;
  linalg::check_finite(a, "Array must not contain infs or NaNs");
  const NdArray work = copied(swapped(a), dtype);
  const Info info(batch, context);
  run(Eig{dtype, stack_of(work), result.values.raw(), vectors ? stack_of(result.vectors) : MatrixStack{}, info.data()},
      a);
  info.check(kNoConvergence);
  return result;
}

NdArray complex_vectors(const Eigen& found) {
  return swapped(is_complex(found.vectors.dtype()) ? found.vectors : unpacked(found.vectors, found.values));
}

// Real where all eigenvalues are.
Eigen eigen(const NdArray& a, bool vectors) {
  Eigen result = general_eigen(a, vectors);
  const LoopDTypes dtypes = loop_dtypes(a);
  if (is_complex(dtypes.compute) || (a.size() != 0 && !all(equal(result.values.imag(), 0)).item<bool>())) {
    if (vectors) result.vectors = complex_vectors(result);
    return result;
  }
  result.values = converted(result.values.real().copy(context_for(a.device())), dtypes.result);
  if (vectors) result.vectors = converted(swapped(result.vectors), dtypes.result);
  return result;
}

}  // namespace

Eigen complex_eigen(const NdArray& a, bool vectors) {
  Eigen result = general_eigen(a, vectors);
  if (vectors) result.vectors = complex_vectors(result);
  return result;
}

EighResult eigh(const NdArray& a, std::string_view UPLO) {
  const Eigen result = hermitian_eigen(a, UPLO, true);
  return {result.values, result.vectors};
}
NdArray eigvalsh(const NdArray& a, std::string_view UPLO) { return hermitian_eigen(a, UPLO, false).values; }
SomeEigen some_eigen(const NdArray& a, const Subset& subset, std::string_view uplo, bool vectors) {
  check_square(a);
  check_subset(subset, a.shape(-1));
  const ExecContext context = context_for(a.device());
  const NdArray found(linalg::batch_of(a), DType::int32, context);
  if (a.size() == 0) found.fill(0, context);
  const Eigen result = hermitian_eigen(a, uplo, vectors, subset, found);
  return {result.values, vectors ? result.vectors : NdArray({0}, a.dtype(), context), found};
}
EighResult eigh(const NdArray& a, const Subset& subset, std::string_view UPLO) {
  return cut(some_eigen(a, subset, UPLO, true), subset);
}
NdArray eigvalsh(const NdArray& a, const Subset& subset, std::string_view UPLO) {
  return cut(some_eigen(a, subset, UPLO, false), subset).eigenvalues;
}
std::optional<Subset> subset_of(const IndexRange& by_index, const ValueRange& by_value) {
  if (by_index && by_value) throw InvalidArgument("Either index or value subset can be requested.");
  if (by_index) return ByIndex{by_index->first, by_index->second};
  if (by_value) return ByValue{by_value->first, by_value->second};
  return std::nullopt;
}
NdArray eigvalsh_of(const NdArray& a, std::string_view UPLO, const IndexRange& subset_by_index,
                    const ValueRange& subset_by_value) {
  const std::optional<Subset> subset = subset_of(subset_by_index, subset_by_value);
  return subset ? eigvalsh(a, *subset, UPLO) : eigvalsh(a, UPLO);
}
EigResult eig(const NdArray& a) {
  const Range named("linalg.eig");
  const Eigen result = eigen(a, true);
  return {result.values, result.vectors};
}
NdArray eigvals(const NdArray& a) {
  const Range named("linalg.eigvals");
  return eigen(a, false).values;
}

NdArray matrix_rank(const NdArray& A, const std::optional<NdArray>& tol, bool hermitian,
                    const std::optional<NdArray>& rtol) {
  if (tol && rtol) throw InvalidArgument("`tol` and `rtol` can't be both set.");
  if (A.ndim() < 2) return any(not_equal(A, 0)).astype(DType::int64);
  const NdArray s = std::get<NdArray>(svd(A, /*full_matrices=*/false, /*compute_uv=*/false, hermitian));
  NdArray cut;
  if (tol) {
    cut = (*tol)[{ellipsis, newaxis}];
  } else {
    const NdArray largest = max(s, -1, {.keepdims = true, .initial = Scalar(0)});
    cut = rtol ? multiply(largest, (*rtol)[{ellipsis, newaxis}])
               : multiply(largest, static_cast<double>(std::max(A.shape(-2), A.shape(-1))) * epsilon_of(s.dtype()));
  }
  return count_nonzero(greater(s, cut), -1);
}

}  // namespace quarry::local::ops
