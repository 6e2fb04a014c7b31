#include "quarry/local/ops/linalg/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/engine.h"

namespace quarry::local::linalg {
namespace {

DType inexact(DType dtype) { return is_float(dtype) || is_complex(dtype) ? dtype : DType::float64; }
LoopDTypes dtypes(DType result) { return {is_half(result) ? DType::float32 : result, result}; }
std::vector<int64_t> axis_numbers(int count) {
  std::vector<int64_t> axes(static_cast<size_t>(count));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return axes;
}

}  // namespace

LoopDTypes loop_dtypes(const NdArray& a) { return dtypes(inexact(a.dtype())); }
LoopDTypes loop_dtypes(const NdArray& a, const NdArray& b) {
  return dtypes(promote_types(inexact(a.dtype()), inexact(b.dtype())));
}
DType complex_type(DType dtype) { return real_type(dtype) == DType::float64 ? DType::complex128 : DType::complex64; }
double epsilon_of(DType dtype) {
  const DType real = real_type(dtype);
  if (real == DType::float16) return 0x1p-10;
  if (real == DType::bfloat16) return 0x1p-7;
  return real == DType::float32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
}
NdArray converted(const NdArray& a, DType dtype) { return a.dtype() == dtype ? a : a.astype(dtype); }

void check_stacked(const NdArray& a) {
  if (a.ndim() < 2)
    throw LinAlgError(fmt::format("{}-dimensional array given. Array must be at least two-dimensional", a.ndim()));
}
void check_square(const NdArray& a) {
  check_stacked(a);
  if (a.shape(-1) != a.shape(-2))
    throw LinAlgError(
        fmt::format("Last 2 dimensions of the array must be square, not {} by {}", a.shape(-2), a.shape(-1)));
}
void check_matrix(const NdArray& a) {
  if (a.ndim() != 2)
    throw LinAlgError(fmt::format("{}-dimensional array given. Array must be two-dimensional", a.ndim()));
}
void check_finite(const NdArray& a, const char* message) {
  if (a.size() == 0 || !(is_float(a.dtype()) || is_complex(a.dtype()))) return;
  Program program;
  const ValueId x = program.input(a.dtype());
  program.reduce("all"_reduction, std::array{program.apply("isfinite"_op, std::array{x})}, DType::bool_);
  const NdArray* inputs[] = {&a};
  const uint32_t every = a.ndim() == 0 ? 0 : (uint32_t{1} << a.ndim()) - 1;
  const NdArray state = run_reductions(program, inputs, a.shape(), every, context_for(a.device()))[0];
  if (!item_or(state, true).as_bool()) throw LinAlgError(message);
}

void check_values(const NdArray& a, bool wanted) {
  if (!wanted) return;
  try {
    check_finite(a, "array must not contain infs or NaNs");
  } catch (const LinAlgError& error) {
    throw InvalidArgument(error.what());
  }
}

NdArray swapped(const NdArray& a) {
  std::vector<int64_t> axes(static_cast<size_t>(a.ndim()));
  for (size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<int64_t>(d);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return a.transpose(axes);
}
Dims batch_of(const NdArray& a) { return Dims(a.shape().begin(), a.shape().end() - 2); }
Dims joined(const Dims& batch, std::initializer_list<int64_t> core) {
  Dims shape = batch;
  for (const int64_t extent : core) shape.push_back(extent);
  return shape;
}

NdArray copied(const NdArray& a, DType dtype) { return a.astype(dtype, context_for(a.device())); }
MatrixStack stack_of(const NdArray& columns) {
  QUARRY_CHECK(columns.is_contiguous());
  return {columns.raw(), element_count(batch_of(columns)), columns.shape(-1), columns.shape(-2)};
}
void run(const Decomposition& task, const NdArray& like) {
  const ExecContext context = context_for(like.device());
  engine(context.device).decompositions().run(task, context);
}

namespace {

// Where matrix `number` of a stack is.
Dims index_of(int64_t number, const Dims& batch) {
  Dims index = batch;
  for (int d = batch.size() - 1; d >= 0; --d) {
    index[d] = number % batch[d];
    number /= batch[d];
  }
  return index;
}
// What a message says of it.
std::string of_matrix(const Dims& index) { return index.size() == 0 ? "" : ", of matrix " + to_string(index); }

}  // namespace

bool Info::any() const {
  if (any_) return *any_;
  const int64_t count = values_.size();
  if (count == 0) return false;
  const NdArray worst = count == 1 ? values_ : reduce("max"_reduction, values_);
  any_ = item_or(worst, 0).as_int64() != 0;
  return *any_;
}
void Info::check(const char* message) const {
  if (any()) throw LinAlgError(message);
}

NdArray unknown(const Info& info, const NdArray& a) {
  NdArray failed = apply("not_equal"_op, {info.array(), 0});
  if (!is_float(a.dtype()) && !is_complex(a.dtype())) return apply("logical_and"_op, {failed, false});
  if (a.size() == 0) return failed;
  Program program;
  const ValueId x = program.input(a.dtype());
  program.reduce("any"_reduction, std::array{program.apply("isnan"_op, std::array{x})}, DType::bool_);
  const NdArray* inputs[] = {&a};
  const uint32_t core = uint32_t{3} << (a.ndim() - 2);
  const NdArray found = run_reductions(program, inputs, a.shape(), core, context_for(a.device()))[0];
  return apply("logical_and"_op, {failed, found.reshape(failed.shape())});
}
void check_singular(const Info& info, const NdArray& a) {
  if (!info.any()) return;
  const NdArray singular = apply("greater"_op, {apply("not_equal"_op, {info.array(), 0}), unknown(info, a)});
  const std::vector<int64_t> all = to_vector<int64_t>(singular.astype(DType::int64));
  const auto first = std::ranges::find(all, 1);
  if (first == all.end()) return;
  // Others have decomposed the transpose.
  const Dims index = index_of(first - all.begin(), singular.shape());
  const std::vector<IndexItem> items(index.begin(), index.end());
  const NdArray matrix = a[std::span<const IndexItem>(items)];
  const int64_t pivot = lu_of_transpose(matrix.T(), loop_dtypes(a).compute).info.array().item<int64_t>();
  throw LinAlgError("Singular matrix" + (pivot > 0 ? fmt::format(": pivot {} is 0", pivot) : "") + of_matrix(index));
}

void throw_not_definite(const Info& info) {
  const std::vector<int64_t> all = to_vector<int64_t>(info.array().astype(DType::int64));
  const auto first = std::ranges::find_if(all, [](int64_t order) { return order > 0; });
  std::string message = "Matrix is not positive definite";
  if (first != all.end())
    message += fmt::format(": its leading minor of order {} is not", *first) +
               of_matrix(index_of(first - all.begin(), info.array().shape()));
  throw LinAlgError(message);
}

void keep_triangle(const NdArray& a, Triangle triangle, bool unit_diagonal) {
  if (a.size() == 0) return;
  const ExecContext context = context_for(a.device());
  if (a.is_contiguous()) {
    a.begin_write(context.stream);
    const KeptTriangle task{a.dtype(),   triangle,   unit_diagonal, a.raw(), element_count(batch_of(a)),
                            a.shape(-2), a.shape(-1)};
    if (engine(context.device).decompositions().keep(task, context)) return;
  }
  Program program;
  const ValueId x = program.input(a.dtype());
  const ValueId row = program.index(a.ndim() - 2), column = program.index(a.ndim() - 1);
  const bool lower = triangle == Triangle::lower;
  const Op inside = unit_diagonal ? (lower ? "less"_op : "greater"_op) : lower ? "less_equal"_op : "greater_equal"_op;
  const ValueId rest = unit_diagonal ? program.cast(program.apply("equal"_op, std::array{column, row}), a.dtype())
                                     : program.constant(Scalar(0), a.dtype());
  program.output(program.apply("where"_op, std::array{program.apply(inside, std::array{column, row}), x, rest}));
  const NdArray* both[] = {&a};
  run_elementwise(program, both, both, context);
}

NdArray identities(const Dims& batch, int64_t rows, int64_t columns, DType dtype) {
  const ExecContext context = current_context();
  NdArray result(joined(batch, {rows, columns}), dtype, context);
  Program program;
  const int last = result.ndim() - 1;
  program.output(
      program.cast(program.apply("equal"_op, std::array{program.index(last - 1), program.index(last)}), dtype));
  const NdArray* out[] = {&result};
  run_elementwise(program, {}, out, context);
  return result;
}

LuOfTranspose lu_of_transpose(const NdArray& a, DType dtype) {
  const ExecContext context = context_for(a.device());
  const Dims batch = batch_of(a);
  const int64_t n = a.shape(-1);
  LuOfTranspose result{copied(a, dtype), NdArray(joined(batch, {n}), DType::int32, context), Info(batch, context)};
  if (result.factors.size() != 0)
    run(Lu{dtype, stack_of(result.factors), result.pivots.data<int32_t>(), result.info.data()}, a);
  else
    result.info.array().fill(0, context);
  return result;
}

NdArray row_order(const NdArray& pivots, int64_t m) {
  const Dims batch(pivots.shape().begin(), pivots.shape().end() - 1);
  NdArray order(joined(batch, {m}), DType::int64, context_for(pivots.device()));
  if (order.size() != 0)
    run(RowOrder{pivots.data<int32_t>(), element_count(batch), pivots.shape(-1), m, order.data<int64_t>()}, pivots);
  return order;
}

NdArray swaps_to(const NdArray& order, int64_t k) {
  const std::vector<int64_t> wanted = to_vector<int64_t>(order.to(kCpu));
  std::vector<int64_t> rows(wanted.size()), places(wanted.size()), swaps;  // the row at a place, and the reverse
  std::iota(rows.begin(), rows.end(), int64_t{0});
  std::iota(places.begin(), places.end(), int64_t{0});
  for (int64_t i = 0; i < k; ++i) {
    const int64_t from = places[static_cast<size_t>(wanted[static_cast<size_t>(i)])];
    swaps.push_back(from);
    std::swap(rows[static_cast<size_t>(i)], rows[static_cast<size_t>(from)]);
    places[static_cast<size_t>(rows[static_cast<size_t>(from)])] = from;
  }
  return from_vector(swaps).to(order.device());
}

void check_swaps(const NdArray& swaps, int64_t n) {
  // Others would be read as addresses.
  const NdArray outside = apply("logical_or"_op, {apply("less"_op, {swaps, 0}), apply("greater_equal"_op, {swaps, n})});
  if (swaps.size() != 0 && item_or(reduce("any"_reduction, outside), false).as_bool())
    throw InvalidArgument(fmt::format("pivots must lie in [0, {})", n));
}

Inverses inverses(const NdArray& a, DType dtype) {
  const ExecContext context = context_for(a.device());
  const NdArray work = copied(a, dtype);
  Inverses result{NdArray(a.shape(), dtype, context), Info(batch_of(a), context)};
  if (work.size() != 0)
    run(Inverse{dtype, stack_of(work), stack_of(result.values), result.info.data()}, a);
  else
    result.info.array().fill(0, context);
  return result;
}

namespace {

// R with R^H R = gram, in C order (the engine sees R^T, by columns); nothing if gram is not positive definite.
std::optional<NdArray> root_of(NdArray gram) {
  const Info info({}, context_for(gram.device()));
  run(Cholesky{gram.dtype(), Triangle::lower, stack_of(gram), info.data()}, gram);
  if (item_or(info.array(), 0).as_int64() != 0) return std::nullopt;
  keep_triangle(gram, Triangle::upper);
  return gram;
}

// What makes a Gram matrix of an ill-conditioned m x n matrix positive definite in spite of rounding (Fukaya et al.
// 2020, "Shifted Cholesky QR for computing the QR factorization of ill-conditioned matrices").
NdArray shifted(const NdArray& gram, int64_t m) {
  const int64_t n = gram.shape(0);
  const double trace = reduce("sum"_reduction, ops::diagonal(gram).real()).item().as_double();
  const double shift = 11 * static_cast<double>(m + n + 1) * static_cast<double>(n) * epsilon_of(gram.dtype()) * trace /
                       static_cast<double>(n);
  return gram + identities({}, n, n, gram.dtype()) * Scalar(shift);
}

// ReflectionSigns, by halves: those of the second half are those of the Schur complement.
NdArray reflection_signs(const NdArray& top) {
  constexpr int64_t kMost = 1024;
  const int64_t n = top.shape(0);
  const DType real = real_type(top.dtype());
  if (n <= kMost) {
    const NdArray work = copied(top, top.dtype());
    NdArray signs({n}, real, context_for(top.device()));
    run(ReflectionSigns{top.dtype(), stack_of(work), signs.raw()}, top);
    return signs;
  }
  const Slice first{0, n / 2, 1}, second{n / 2, n, 1};
  const NdArray signs = reflection_signs(top[{first, first}]);
  const NdArray chosen = identities({}, n / 2, n / 2, top.dtype()) * signs;
  const NdArray eliminated =
      matmul(top[{second, first}], ops::solve(top[{first, first}] - chosen, top[{first, second}]));
  return ops::concatenate({signs, reflection_signs(top[{second, second}] - eliminated)});
}

// R^-1 of an upper triangle.
NdArray inverse_of(const NdArray& root) {
  const int64_t n = root.shape(0);
  NdArray inverse = identities({}, n, n, root.dtype());
  run(TriangularSolve{root.dtype(), Triangle::lower, MatrixOp::none, false, stack_of(root), stack_of(inverse)}, root);
  return inverse;
}

// Whether Q = A R^-1 may be a product with the inverse: its residual is that of the triangular solution times the
// condition of R, of which this is a bound.
bool is_well_conditioned(const NdArray& root, const NdArray& inverse) {
  const auto squares = [](const NdArray& x) {
    return reduce("sum"_reduction, apply("square"_op, {apply("absolute"_op, {x})}));
  };
  const double bound = std::sqrt(item_or(squares(root) * squares(inverse), 0).as_double());
  return bound <= 8.0 * static_cast<double>(root.shape(0));
}

}  // namespace

std::optional<TallQr> tall_qr(const NdArray& a, DType dtype, bool with_q, bool with_signs) {
  constexpr int64_t kLeastColumns = 16, kLeastShape = 4, kLeastElements = 1 << 17;
  if (a.ndim() != 2) return std::nullopt;
  const int64_t m = a.shape(0), n = a.shape(1);
  if (n < kLeastColumns || m < kLeastShape * n || m * n < kLeastElements) return std::nullopt;
  const ExecContext context = context_for(a.device());
  if (acts_as(context.device) == DeviceKind::cpu) return std::nullopt;  // LAPACK's panels are products there
  const DeviceScope scope(context);
  bool own = a.dtype() != dtype || !a.is_contiguous();  // q is no view of a
  TallQr result{own ? copied(a, dtype) : a, {}};
  constexpr int kMostPasses = 4;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const NdArray gram = linalg::gram(result.q);
    bool last = false;
    if (pass > 0) {
      // How far the columns are from orthonormal: near enough, one more pass makes them so to the last bit.
      constexpr double kNear = 0.1;
      const NdArray differences = apply("absolute"_op, {gram - identities({}, n, n, dtype)});
      const double distance = item_or(reduce("max"_reduction, differences), 0).as_double();
      if (std::isnan(distance)) return std::nullopt;
      last = distance <= kNear;
    }
    std::optional<NdArray> root = root_of(gram.copy(context));
    if (!root && pass == 0) root = root_of(shifted(gram, m));
    if (!root) return std::nullopt;
    result.r = pass == 0 ? *root : matmul(*root, result.r);
    // A GPU solves by triangles several times more slowly than it multiplies.
    const NdArray inverse = inverse_of(*root);
    const bool product = is_well_conditioned(*root, inverse);
    if (!product) {
      if (!own) result.q = copied(result.q, dtype);
      own = true;
      run(TriangularSolve{dtype, Triangle::lower, MatrixOp::none, false, stack_of(*root), stack_of(result.q)}, a);
    } else if (!last) {
      result.q = matmul(result.q, inverse);
      own = true;
    }
    if (!last) continue;
    if (!with_signs) {
      if (with_q && product) result.q = matmul(result.q, inverse);
      return result;
    }
    const Slice top{0, n, 1};
    const NdArray signs = reflection_signs(product ? matmul(result.q[{top}], inverse) : result.q[{top}]);
    apply("multiply"_op, {result.r, signs[{full_slice, newaxis}]}, {.out = result.r});
    if (!with_q) return result;
    if (product)
      result.q = matmul(result.q, inverse * signs);
    else
      apply("multiply"_op, {result.q, signs}, {.out = result.q});
    return result;
  }
  return std::nullopt;
}

Singular singular(const NdArray& a, DType dtype, bool full, bool vectors) {
  const ExecContext context = context_for(a.device());
  const Dims batch = batch_of(a);
  const int64_t m = a.shape(-2), n = a.shape(-1), k = std::min(m, n);
  const int64_t u_columns = full ? m : k, vh_rows = full ? n : k;
  Singular result;
  result.s = NdArray(joined(batch, {k}), real_type(dtype), context);
  if (a.size() == 0) {
    if (vectors) {
      const DeviceScope scope(context);
      result.u = identities(batch, m, u_columns, dtype);
      result.vh = identities(batch, vh_rows, n, dtype);
    }
    return result;
  }
  check_finite(a, "SVD did not converge");
  if (!full) {
    if (const std::optional<TallQr> factors = tall_qr(a, dtype, vectors)) {
      result = singular(factors->r, dtype, full, vectors);
      if (vectors) result.u = matmul(factors->q, result.u);
      return result;
    }
  }
  // The engines take matrices with at least as many rows as columns. Of a wide one they see the transpose, which is
  // conj(v) s u^T.
  const bool wide = n > m;
  const NdArray work = copied(wide ? a : swapped(a), dtype);
  Svd task{dtype, stack_of(work), result.s.raw(), {}, {}, nullptr};
  NdArray left, right;
  if (vectors) {
    left = NdArray(joined(batch, {wide ? vh_rows : u_columns, wide ? n : m}), dtype, context);
    right = NdArray(joined(batch, {k, k}), dtype, context);
    task.u = stack_of(left);
    task.vh = stack_of(right);
  }
  const Info info(batch, context);
  task.info = info.data();
  run(task, a);
  info.check("SVD did not converge");
  if (vectors) {
    result.u = wide ? right : swapped(left);
    result.vh = wide ? left : swapped(right);
  }
  return result;
}

TensorMatrix inverse_of_tensor(const Dims& shape, int64_t ind) {
  if (ind <= 0) throw InvalidArgument("Invalid ind argument.");
  TensorMatrix parts{axis_numbers(shape.size()), {}, {}};
  const int split = static_cast<int>(std::min<int64_t>(ind, shape.size()));
  parts.result = Dims(shape.begin() + split, shape.end());
  for (int d = 0; d < split; ++d) parts.result.push_back(shape[d]);
  const int64_t rows = element_count(Dims(shape.begin(), shape.begin() + split));
  parts.matrix = {rows, rows == 0 ? 0 : element_count(shape) / rows};
  return parts;
}

TensorMatrix system_of_tensor(const Dims& shape, int b_ndim, const std::optional<Ints>& axes) {
  TensorMatrix parts{axis_numbers(shape.size()), {}, {}};
  for (const int64_t axis : axes ? axes->values() : std::vector<int64_t>()) {
    const auto found = std::find(parts.order.begin(), parts.order.end(), axis);
    if (found == parts.order.end())
      throw InvalidArgument(fmt::format("axis {} is not one of an array with {} axes", axis, shape.size()));
    parts.order.erase(found);
    parts.order.push_back(axis);
  }
  for (int d = b_ndim; d < shape.size(); ++d)
    parts.result.push_back(shape[static_cast<int>(parts.order[static_cast<size_t>(d)])]);
  const int64_t unknowns = element_count(parts.result);
  if (element_count(shape) != unknowns * unknowns)
    throw LinAlgError(
        "Input arrays must satisfy the requirement             prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])");
  parts.matrix = {unknowns, unknowns};
  return parts;
}

}  // namespace quarry::local::linalg
