// Solving and inverting by LU, Cholesky factors, triangles and singular values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/program/program.h"

namespace quarry::local::ops {

using namespace linalg;

namespace {

// The right-hand sides of a system of n equations for every matrix of the batch that a and b broadcast to. A matrix
// that serves all of them sees them as one matrix with many columns.
class RightHandSides {
 public:
  RightHandSides(const NdArray& a, const NdArray& b, bool vector, DType dtype) : vector_(vector) {
    const int64_t n = a.shape(-1);
    const int core = vector ? 1 : 2;
    if (b.ndim() < core || b.shape(vector ? -1 : -2) != n)
      throw InvalidArgument(fmt::format("a of shape {} and b of shape {} do not make a system of equations",
                                        to_string(a.shape()), to_string(b.shape())));
    const NdArray given = vector ? b[{ellipsis, newaxis}] : b;
    batch_ = broadcast_shapes(linalg::batch_of(a), linalg::batch_of(given));
    const int64_t k = given.shape(-1);
    columns_ = copied(swapped(given).broadcast_to(joined(batch_, {k, n})), dtype);
    one_matrix_ = element_count(linalg::batch_of(a)) == 1;
  }
  // The factors of a, repeated where the batch asks for it.
  NdArray repeated(const NdArray& factors, int core) const {
    Dims shape = one_matrix_ ? Dims{} : batch_;
    for (int d = core; d > 0; --d) shape.push_back(factors.shape(-d));
    if (one_matrix_) return factors.reshape(shape);
    const NdArray all = factors.broadcast_to(shape);
    return all.is_contiguous() ? all : all.copy();
  }
  MatrixStack stack() const {
    MatrixStack result = stack_of(columns_);
    if (one_matrix_) {
      result.columns *= result.count;
      result.count = 1;
    }
    return result;
  }
  bool empty() const { return columns_.size() == 0; }
  // Whether every matrix of `a` has sides of its own.
  bool are_of(const NdArray& a) const { return linalg::batch_of(a) == batch_; }
  NdArray solution() const { return vector_ ? columns_[{ellipsis, int64_t{0}, full_slice}] : swapped(columns_); }

 private:
  bool vector_;
  Dims batch_;
  NdArray columns_;
  bool one_matrix_;
};

void check_device(const NdArray& a, const NdArray& b) {
  const NdArray* both[] = {&a, &b};
  common_device(both);
}

// A matrix as the engines take it, column by column; or `transposed`, so that they see its transpose. A copy only where
// neither is there.
struct SeenMatrix {
  NdArray columns;
  bool transposed;
};
SeenMatrix seen(const NdArray& a, DType dtype, bool transposed_serves) {
  const bool as_is = a.dtype() == dtype;
  const NdArray columns = swapped(a);
  if (as_is && columns.is_contiguous()) return {columns, false};
  if (as_is && transposed_serves && a.is_contiguous()) return {a, true};
  return {copied(columns, dtype), false};
}

// The engine reads an array that is not new.
void use_here(const NdArray& a) { a.begin_read(context_for(a.device()).stream); }

void solve_by_lu(const NdArray& factors, const NdArray& pivots, MatrixOp op, const RightHandSides& sides, DType dtype) {
  if (sides.empty()) return;
  const NdArray lu = sides.repeated(factors, 2), swaps = sides.repeated(pivots, 1);
  use_here(lu);
  run(LuSolve{dtype, op, stack_of(lu), swaps.data<const int32_t>(), sides.stack()}, lu);
}

void solve_by_triangle(const NdArray& matrix, Triangle triangle, MatrixOp op, bool unit, const RightHandSides& sides,
                       DType dtype) {
  if (sides.empty()) return;
  const SeenMatrix given = seen(matrix, dtype, op != MatrixOp::conjugate_transpose || !is_complex(dtype));
  const NdArray a = sides.repeated(given.columns, 2);
  use_here(a);
  if (given.transposed) {
    triangle = triangle == Triangle::lower ? Triangle::upper : Triangle::lower;
    op = op == MatrixOp::none ? MatrixOp::transpose : MatrixOp::none;
  }
  run(TriangularSolve{dtype, triangle, op, unit, stack_of(a), sides.stack()}, a);
}

// Whether the engine has solved it at once; then info says of which matrices.
bool solve_at_once(const NdArray& a, const RightHandSides& sides, const Info& info, DType dtype) {
  if (sides.empty() || !sides.are_of(a)) return false;
  const ExecContext context = context_for(a.device());
  const int64_t n = a.shape(-1);
  Solve task{dtype, {nullptr, element_count(linalg::batch_of(a)), n, n}, false, sides.stack(), info.data()};
  if (task.b.count != task.a.count || !engine(context.device).decompositions().takes(task, context)) return false;
  const SeenMatrix given = seen(a, dtype, /*transposed_serves=*/true);
  use_here(given.columns);
  task.a = stack_of(given.columns);
  task.by_rows = given.transposed;
  engine(context.device).decompositions().run_at_once(task, context);
  return true;
}

std::optional<SlogdetResult> slogdet_at_once(const NdArray& a, DType dtype) {
  if (a.size() == 0) return std::nullopt;
  const ExecContext context = context_for(a.device());
  const Dims batch = linalg::batch_of(a);
  const int64_t n = a.shape(-1);
  LogDeterminant task{dtype, {nullptr, element_count(batch), n, n}, nullptr, nullptr};
  if (!engine(context.device).decompositions().takes(task, context)) return std::nullopt;
  SlogdetResult result{NdArray(batch, dtype, context), NdArray(batch, real_type(dtype), context)};
  // A matrix and its transpose have one determinant.
  const NdArray given = seen(a, dtype, /*transposed_serves=*/true).columns;
  use_here(given);
  task.a = stack_of(given);
  task.sign = result.sign.raw();
  task.logarithm = result.logabsdet.raw();
  engine(context.device).decompositions().run_at_once(task, context);
  return result;
}

NdArray diagonal_of(const NdArray& a) { return diagonal(a, 0, -2, -1); }

// -1 or 1 by the number of rows that LU swapped, as real numbers: the product of a sign per row.
NdArray parity(const NdArray& pivots, DType dtype) {
  const DType real = real_type(dtype);
  const int last = pivots.ndim() - 1;
  Program program;
  const ValueId place =
      program.apply("add"_op, std::array{program.index(last), program.constant(Scalar(1), DType::int64)});
  const ValueId moved =
      program.apply("not_equal"_op, std::array{program.cast(program.input(DType::int32), DType::int64), place});
  const std::array signs{moved, program.constant(Scalar(-1), real), program.constant(Scalar(1), real)};
  program.reduce("prod"_reduction, std::array{program.apply("where"_op, signs)}, real);
  const NdArray* inputs[] = {&pivots};
  const ExecContext context = context_for(pivots.device());
  const std::vector<NdArray> states = run_reductions(program, inputs, pivots.shape(), uint32_t{1} << last, context);
  const Dims batch(pivots.shape().begin(), pivots.shape().end() - 1);
  return finish_states("prod"_reduction, real, 0, states, context).reshape(batch);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Whether it is known, without waiting, that no matrix is singular.
bool is_regular(const LuOfTranspose& lu) { return acts_as(lu.factors.device()) == DeviceKind::cpu && !lu.info.any(); }
// `otherwise` where a matrix is singular, NaN where it is `unknown`.
NdArray unless_singular(const LuOfTranspose& lu, const NdArray& unknown, const NdArray& value, double otherwise) {
  const NdArray instead = where(unknown, kNan, otherwise).astype(value.dtype());
  return where(equal(lu.info.array(), 0), value, instead);
}
// After check_singular(): x is NaN for the matrices that were not factored.
NdArray unless_unknown(const Info& info, const NdArray& x, int core) {
  if (!info.any()) return x;
  NdArray failed = not_equal(info.array(), 0);
  for (int d = 0; d < core; ++d) failed = failed[{ellipsis, newaxis}];
  return where(failed, kNan, x);
}

NdArray conjugate_transpose(const NdArray& a) { return is_complex(a.dtype()) ? conjugate(swapped(a)) : swapped(a); }

}  // namespace

NdArray solve(const NdArray& a, const NdArray& b) {
  check_square(a);
  check_device(a, b);
  const LoopDTypes dtypes = loop_dtypes(a, b);
  const RightHandSides sides(a, b, b.ndim() == 1, dtypes.compute);
  const auto result = [&](const Info& info) {
    check_singular(info, a);
    return converted(unless_unknown(info, sides.solution(), b.ndim() == 1 ? 1 : 2), dtypes.result);
  };
  if (const Info info(linalg::batch_of(a), context_for(a.device())); solve_at_once(a, sides, info, dtypes.compute))
    return result(info);
  const LuOfTranspose lu = lu_of_transpose(a, dtypes.compute);
  // What a singular matrix gives is dropped: the engine need not wait for the check.
  solve_by_lu(lu.factors, lu.pivots, MatrixOp::transpose, sides, dtypes.compute);
  return result(lu.info);
}

NdArray inv(const NdArray& a) {
  check_square(a);
  const LoopDTypes dtypes = loop_dtypes(a);
  const Inverses result = inverses(a, dtypes.compute);
  check_singular(result.info, a);
  return converted(unless_unknown(result.info, result.values, 2), dtypes.result);
}

NdArray det(const NdArray& a) {
  check_square(a);
  const LoopDTypes dtypes = loop_dtypes(a);
  const LuOfTranspose lu = lu_of_transpose(a, dtypes.compute);
  const NdArray product = multiply(prod(diagonal_of(lu.factors), -1), parity(lu.pivots, dtypes.compute));
  if (is_regular(lu)) return converted(product, dtypes.result);
  return converted(unless_singular(lu, unknown(lu.info, a), product, 0), dtypes.result);
}

SlogdetResult slogdet(const NdArray& a) {
  check_square(a);
  const LoopDTypes dtypes = loop_dtypes(a);
  if (const std::optional<SlogdetResult> found = slogdet_at_once(a, dtypes.compute))
    return {converted(found->sign, dtypes.result), converted(found->logabsdet, real_type(dtypes.result))};
  const LuOfTranspose lu = lu_of_transpose(a, dtypes.compute);
  const NdArray pivots = diagonal_of(lu.factors), sizes = absolute(pivots);
  const NdArray signs = is_complex(pivots.dtype()) ? divide(pivots, sizes) : sign(pivots);
  const NdArray product = multiply(prod(signs, -1), parity(lu.pivots, dtypes.compute));
  const NdArray logarithm = sum(log(sizes), -1);
  if (is_regular(lu)) return {converted(product, dtypes.result), converted(logarithm, real_type(dtypes.result))};
  const NdArray lost = unknown(lu.info, a);
  return {converted(unless_singular(lu, lost, product, 0), dtypes.result),
          converted(unless_singular(lu, lost, logarithm, -std::numeric_limits<double>::infinity()),
                    real_type(dtypes.result))};
}

namespace {

std::optional<NdArray> cholesky_at_once(const NdArray& a, Triangle triangle, const Info& info, DType dtype) {
  if (a.size() == 0) return std::nullopt;
  const ExecContext context = context_for(a.device());
  const int64_t n = a.shape(-1);
  CholeskyFactor task{dtype, triangle, {nullptr, element_count(linalg::batch_of(a)), n, n}, false, {}, info.data()};
  if (!engine(context.device).decompositions().takes(task, context)) return std::nullopt;
  NdArray factor(a.shape(), dtype, context);
  const SeenMatrix given = seen(a, dtype, /*transposed_serves=*/true);
  use_here(given.columns);
  task.a = stack_of(given.columns);
  task.by_rows = given.transposed;
  task.out = stack_of(factor);
  engine(context.device).decompositions().run_at_once(task, context);
  if (info.any()) throw_not_definite(info);
  return factor;
}

// The factor in C order; the other triangle is 0.
NdArray cholesky_factor(const NdArray& a, bool upper, DType dtype) {
  check_square(a);
  const Info info(linalg::batch_of(a), context_for(a.device()));
  if (std::optional<NdArray> factor = cholesky_at_once(a, upper ? Triangle::upper : Triangle::lower, info, dtype))
    return *std::move(factor);
  // The engine sees the transposes: of a lower triangle an upper one, whose U^H U = a^T makes L = U^T.
  NdArray factor = copied(a, dtype);
  if (factor.size() == 0) return factor;
  run(Cholesky{dtype, upper ? Triangle::lower : Triangle::upper, stack_of(factor), info.data()}, a);
  // Libraries differ in what they say of NaN.
  Program program;
  const ValueId told = program.input(DType::int32), pivot = program.input(dtype);
  const ValueId failed = program.apply("not_equal"_op, std::array{told, program.constant(Scalar(0), DType::int32)});
  const ValueId unknown = program.apply("isnan"_op, std::array{pivot});
  program.reduce("any"_reduction, std::array{program.apply("logical_or"_op, std::array{failed, unknown})},
                 DType::bool_);
  const NdArray pivots = diagonal_of(factor), status = info.array()[{ellipsis, newaxis}].broadcast_to(pivots.shape());
  const NdArray* inputs[] = {&status, &pivots};
  const uint32_t every = (uint32_t{1} << pivots.ndim()) - 1;
  const NdArray state = run_reductions(program, inputs, pivots.shape(), every, context_for(a.device()))[0];
  keep_triangle(factor, upper ? Triangle::upper : Triangle::lower);  // need not wait for the check
  if (item_or(state, false).as_bool()) throw_not_definite(info);
  return factor;
}

}  // namespace

NdArray cholesky(const NdArray& a, bool upper) {
  const LoopDTypes dtypes = loop_dtypes(a);
  return converted(cholesky_factor(a, upper, dtypes.compute), dtypes.result);
}

namespace {

// What is left of a least-squares problem behind Householder's reflections, R x = Q^H b, and the singular values of R,
// which are those of a. Both sides are columns.
struct Triangular {
  NdArray root, sides, s;

  // Of full rank. In C order.
  NdArray solution() const {
    run(TriangularSolve{root.dtype(), Triangle::upper, MatrixOp::none, false, stack_of(root), stack_of(sides)}, root);
    return swapped(sides).copy(context_for(sides.device()));
  }
};
// The sides are reflected as further columns of the matrix. Nothing for problems of other shapes, and on a GPU, where
// few columns at a time are slow.
std::optional<Triangular> triangular_system(const NdArray& a, const NdArray& b, DType dtype) {
  const int64_t m = a.shape(0), n = a.shape(1), k = b.shape(1);
  const ExecContext context = context_for(a.device());
  if (m < n || n == 0 || k == 0 || k > n || acts_as(context.device) == DeviceKind::cuda) return std::nullopt;
  check_finite(a, "SVD did not converge");
  const NdArray both({n + k, m}, dtype, context), tau({std::min(m, n + k)}, dtype, context);
  const Slice first{0, n, 1}, others{n, n + k, 1};
  both[{first}].assign(swapped(a), context);
  both[{others}].assign(swapped(b), context);
  run(Qr{dtype, stack_of(both), tau.raw()}, a);
  const Triangular result{both[{first, first}].copy(context), both[{others, first}].copy(context), {}};
  keep_triangle(result.root, Triangle::lower);
  return Triangular{result.root, result.sides, singular(result.root, dtype, /*full=*/false, /*vectors=*/false).s};
}

}  // namespace

LeastSquares least_squares(const NdArray& a, const NdArray& b, std::optional<double> rcond) {
  check_matrix(a);
  check_device(a, b);
  const bool vector = b.ndim() == 1;
  const NdArray given = vector ? b[{full_slice, newaxis}] : b;
  check_matrix(given);
  const int64_t m = a.shape(0), n = a.shape(1);
  if (given.shape(0) != m)
    throw LinAlgError(fmt::format("Incompatible dimensions: a has {} rows, b has {}", m, given.shape(0)));
  const LoopDTypes dtypes = loop_dtypes(a, b);
  const DType dtype = dtypes.compute;
  const ExecContext context = context_for(a.device());
  const DeviceScope scope(context);
  const NdArray matrix = converted(a, dtype), rhs = converted(given, dtype);
  // NumPy: -1 asks for machine precision.
  const double cut =
      rcond && *rcond >= 0 ? *rcond : epsilon_of(dtype) * (rcond ? 1.0 : static_cast<double>(std::max(m, n)));
  const auto counts = [&](const NdArray& s) { return greater(s, multiply(s[{Slice{0, 1, 1}}], cut)); };
  // A trial takes the dearer way, by singular vectors.
  const auto is_full = [&](const NdArray& s) { return item_or(all(counts(s)), false).as_bool(); };
  NdArray x = zeros({n, rhs.shape(1)}, dtype), rest = rhs;
  std::optional<Triangular> triangular = triangular_system(matrix, rhs, dtype);
  if (triangular && !is_full(triangular->s)) triangular.reset();
  const Singular svd =
      triangular ? Singular{{}, triangular->s, {}} : singular(matrix, dtype, /*full=*/false, /*vectors=*/true);
  if (triangular) {
    x = triangular->solution();
    if (m > n) rest = subtract(rhs, matmul(matrix, x));
  } else if (svd.s.size() != 0) {
    const NdArray counted = counts(svd.s);
    const NdArray inverse = where(counted, divide(1.0, svd.s), 0)[{full_slice, newaxis}];
    const NdArray uh = conjugate_transpose(svd.u), v = conjugate_transpose(svd.vh);
    // Each step adds the solution for the residuals. The first one makes up for what rounding of singular vectors costs
    // where columns differ much in length.
    constexpr int kRefinements = 2;
    for (int step = 0; step <= kRefinements; ++step) {
      x = add(x, matmul(v, multiply(inverse, matmul(uh, rest))));
      rest = subtract(rhs, matmul(matrix, x));
    }
  }
  const NdArray size = absolute(rest), squares = sum(multiply(size, size), 0);
  const NdArray rank = svd.s.size() == 0 ? zeros({}, DType::int64) : count_nonzero(counts(svd.s));
  x = converted(x, dtypes.result);
  return {vector ? x[{full_slice, int64_t{0}}] : x, converted(squares, real_type(dtypes.result)), rank,
          converted(svd.s, real_type(dtypes.result))};
}

std::tuple<NdArray, NdArray, Scalar, NdArray> lstsq(const NdArray& a, const NdArray& b, std::optional<double> rcond) {
  const Range named("linalg.lstsq");
  const LeastSquares found = least_squares(a, b, rcond);
  const int64_t rank = found.rank.item<int64_t>(), m = a.shape(0), n = a.shape(1);
  const bool has_residuals = rank == n && m > n;
  const NdArray residuals = has_residuals ? found.squares : found.squares[{Slice{0, 0, 1}}].copy();
  return {found.x, residuals, Scalar::strong(Scalar(rank), DType::int32), found.s};
}

NdArray pinv(const NdArray& a, const std::optional<NdArray>& rcond, bool hermitian, const PinvTolerance& rtol) {
  const auto* given = std::get_if<std::optional<NdArray>>(&rtol);
  if (!given && std::get<std::string>(rtol) != "no value")
    throw InvalidArgument(fmt::format("rtol must be a number, not '{}'", std::get<std::string>(rtol)));
  if (rcond && given) throw InvalidArgument("`rtol` and `rcond` can't be both set.");
  check_stacked(a);
  const LoopDTypes dtypes = loop_dtypes(a);
  const int64_t m = a.shape(-2), n = a.shape(-1);
  const DeviceScope scope(context_for(a.device()));
  if (a.size() == 0) return NdArray(joined(linalg::batch_of(a), {n, m}), dtypes.result, current_context());
  if (hermitian) check_square(a);
  const auto parts = std::get<SVDResult>(svd(converted(a, dtypes.compute), false, true, hermitian));
  const NdArray largest = max(parts.S, -1, {.keepdims = true});
  NdArray cut;
  const std::optional<NdArray>& tolerance = rcond || !given ? rcond : *given;
  if (tolerance) {
    cut = multiply((*tolerance)[{ellipsis, newaxis}], largest);
  } else {
    constexpr double kDefault = 1e-15;
    const double precise = epsilon_of(dtypes.compute) * static_cast<double>(std::max(m, n));
    cut = multiply(largest, real_type(dtypes.compute) == DType::float64 && !given ? kDefault : precise);
  }
  const NdArray large = greater(parts.S, cut);
  const NdArray inverse = where(large, divide(1.0, parts.S), 0);
  const NdArray result =
      matmul(conjugate_transpose(parts.Vh), multiply(inverse[{ellipsis, newaxis}], conjugate_transpose(parts.U)));
  return converted(result, dtypes.result);
}

NdArray tensorsolve(const NdArray& a, const NdArray& b, const std::optional<Ints>& axes) {
  const TensorMatrix parts = system_of_tensor(a.shape(), b.ndim(), axes);
  return solve(a.transpose(parts.order).reshape(parts.matrix), b.reshape({b.size()})).reshape(parts.result);
}

NdArray tensorinv(const NdArray& a, int64_t ind) {
  const TensorMatrix parts = inverse_of_tensor(a.shape(), ind);
  return inv(a.reshape(parts.matrix)).reshape(parts.result);
}

// ---- scipy.linalg ----

namespace {

// L U of the matrices themselves: (..., columns, rows), what the engine works on.
struct PlainLu {
  NdArray columns, pivots;
};
PlainLu plain_lu(const NdArray& a, DType dtype) {
  check_stacked(a);
  const ExecContext context = context_for(a.device());
  const Dims batch = linalg::batch_of(a);
  const int64_t k = std::min(a.shape(-2), a.shape(-1));
  PlainLu result{copied(swapped(a), dtype), NdArray(joined(batch, {k}), DType::int32, context)};
  const Info info(batch, context);
  if (a.size() != 0)
    run(Lu{dtype, stack_of(result.columns), result.pivots.data<int32_t>(), info.data(),
           /*complete=*/true},
        a);
  return result;
}

// The upper triangle of each matrix, or the lower one with ones on the diagonal.
NdArray triangular(const NdArray& a, Triangle triangle, DType dtype) {
  NdArray result = copied(a, dtype);
  keep_triangle(result, triangle, /*unit_diagonal=*/triangle == Triangle::lower);
  return result;
}

}  // namespace

ArrayTuple lu(const NdArray& a, bool permute_l, bool, bool check_finite, bool p_indices) {
  check_stacked(a);
  check_values(a, check_finite);
  const LoopDTypes dtypes = loop_dtypes(a);
  const int64_t m = a.shape(-2), k = std::min(m, a.shape(-1));
  const PlainLu plain = plain_lu(a, dtypes.compute);
  const DeviceScope scope(context_for(a.device()));
  const NdArray both = swapped(plain.columns);
  const NdArray lower = triangular(both[{ellipsis, Slice{0, k, 1}}], Triangle::lower, dtypes.result);
  const NdArray u = triangular(both[{ellipsis, Slice{0, k, 1}, full_slice}], Triangle::upper, dtypes.result);
  const NdArray order = row_order(plain.pivots, m);  // P^T a = L U: row i of L is row order[i] of P L
  const NdArray place = argsort(order);
  if (permute_l) return {take_along_axis(lower, place[{ellipsis, newaxis}].broadcast_to(lower.shape()), -2), u};
  if (p_indices) return {place, lower, u};
  // P[i, j] = 1 where row i of a is row j of L U.
  const NdArray p(joined(linalg::batch_of(a), {m, m}), real_type(dtypes.result), current_context());
  p.fill(0, current_context());
  put_along_axis(p, place[{ellipsis, newaxis}], 1, -1);
  return {p, lower, u};
}

std::pair<NdArray, NdArray> lu_factor(const NdArray& a, bool, bool check_finite) {
  check_values(a, check_finite);
  const LoopDTypes dtypes = loop_dtypes(a);
  const PlainLu plain = plain_lu(a, dtypes.compute);
  return {converted(swapped(plain.columns), dtypes.result), subtract(plain.pivots, 1)};
}

namespace {

// SciPy takes b as a vector where it has one axis.
bool is_vector(const NdArray& b) { return b.ndim() == 1; }

MatrixOp operation(int64_t trans) {
  if (trans < 0 || trans > 2) throw InvalidArgument(fmt::format("trans must be 0, 1 or 2, not {}", trans));
  return static_cast<MatrixOp>(trans);
}

}  // namespace

NdArray lu_solve(const std::pair<NdArray, NdArray>& lu_and_piv, const NdArray& b, int64_t trans, bool,
                 bool check_finite) {
  const auto& [factors, piv] = lu_and_piv;
  check_square(factors);
  check_device(factors, b);
  const MatrixOp op = operation(trans);
  check_values(b, check_finite);
  Dims expected = linalg::batch_of(factors);
  expected.push_back(factors.shape(-1));
  if (piv.shape() != expected)
    throw InvalidArgument(fmt::format("pivots of shape {} do not fit factors of shape {}", to_string(piv.shape()),
                                      to_string(factors.shape())));
  const LoopDTypes dtypes = loop_dtypes(factors, b);
  check_swaps(piv, factors.shape(-1));
  const RightHandSides sides(factors, b, is_vector(b), dtypes.compute);
  solve_by_lu(seen(factors, dtypes.compute, /*transposed_serves=*/false).columns, add(piv, 1).astype(DType::int32), op,
              sides, dtypes.compute);
  return converted(sides.solution(), dtypes.result);
}

NdArray solve_triangular(const NdArray& a, const NdArray& b, const std::variant<int64_t, std::string>& trans,
                         bool lower, bool unit_diagonal, bool, bool check_finite) {
  check_square(a);
  check_device(a, b);
  check_values(a, check_finite);
  check_values(b, check_finite);
  const auto* letter = std::get_if<std::string>(&trans);
  const std::string_view letters = "NTC";
  if (letter && (letter->size() != 1 || letters.find(*letter) == std::string_view::npos))
    throw InvalidArgument(fmt::format("trans must be 'N', 'T' or 'C', not '{}'", *letter));
  const MatrixOp op = operation(letter ? static_cast<int64_t>(letters.find(*letter)) : std::get<int64_t>(trans));
  const LoopDTypes dtypes = loop_dtypes(a, b);
  if (!unit_diagonal && a.size() != 0 && item_or(any(equal(diagonal_of(a), 0)), false).as_bool()) {
    const std::vector<int64_t> zero = to_vector<int64_t>(equal(diagonal_of(a), 0).astype(DType::int64));
    const auto at = std::ranges::find(zero, 1) - zero.begin();
    throw LinAlgError(fmt::format("singular matrix: a diagonal element is zero, number {}", at % a.shape(-1) + 1));
  }
  const RightHandSides sides(a, b, is_vector(b), dtypes.compute);
  solve_by_triangle(a, lower ? Triangle::lower : Triangle::upper, op, unit_diagonal, sides, dtypes.compute);
  return converted(sides.solution(), dtypes.result);
}

std::pair<NdArray, bool> cho_factor(const NdArray& a, bool lower, bool, bool check_finite) {
  check_values(a, check_finite);
  return {cholesky(a, !lower), lower};
}

NdArray cho_solve(const std::pair<NdArray, bool>& c_and_lower, const NdArray& b, bool, bool check_finite) {
  const auto& [c, lower] = c_and_lower;
  check_square(c);
  check_device(c, b);
  check_values(c, check_finite);
  check_values(b, check_finite);
  const LoopDTypes dtypes = loop_dtypes(c, b);
  const RightHandSides sides(c, b, is_vector(b), dtypes.compute);
  const Triangle triangle = lower ? Triangle::lower : Triangle::upper;
  const MatrixOp first = lower ? MatrixOp::none : MatrixOp::conjugate_transpose;
  const MatrixOp second = lower ? MatrixOp::conjugate_transpose : MatrixOp::none;
  for (const MatrixOp op : {first, second}) solve_by_triangle(c, triangle, op, /*unit=*/false, sides, dtypes.compute);
  return converted(sides.solution(), dtypes.result);
}

}  // namespace quarry::local::ops
