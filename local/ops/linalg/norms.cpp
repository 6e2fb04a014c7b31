// Norms, powers, chains of products, matrix functions and matrices of given structure.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/linalg/exponential.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/norm_rules.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/ufunc.h"

namespace quarry::local::ops {

using namespace linalg;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

NdArray inexact(const NdArray& a) {
  return is_float(a.dtype()) || is_complex(a.dtype()) ? a : a.astype(DType::float64);
}
// The sum of x x.
Program squares_program(DType dtype) {
  Program program;
  const ValueId x = program.input(dtype);
  program.reduce("sum"_reduction, std::array{program.apply("multiply"_op, std::array{x, x})}, dtype);
  program.keep_key();
  return program;
}
// The sum of |x|^2.
NdArray sum_of_squares(const NdArray& x, const Axes& axes, bool keepdims) {
  const ReduceOptions kept{.keepdims = keepdims};
  if (is_complex(x.dtype())) {
    const NdArray re = x.real(), im = x.imag();
    return sum(add(multiply(re, re), multiply(im, im)), axes, kept);
  }
  if (is_half(x.dtype())) return sum(multiply(x, x), axes, kept);
  static const Program of_float = squares_program(DType::float32), of_double = squares_program(DType::float64);
  const uint32_t mask = axes.mask(x.ndim());
  const ExecContext context = context_for(x.device());
  const NdArray* const inputs[] = {&x};
  const std::vector<NdArray> states =
      run_reductions(x.dtype() == DType::float32 ? of_float : of_double, inputs, x.shape(), mask, context);
  const NdArray result = finish_states("sum"_reduction, x.dtype(), 0, states, context);
  return deliver("sum", result, x.shape(), mask, keepdims, std::nullopt);
}
// The shape with these axes of one element.
NdArray kept(const NdArray& reduced, const Dims& shape, std::span<const int> axes) {
  Dims full = shape;
  for (const int axis : axes) full[axis] = 1;
  return reduced.reshape(full);
}

struct Functions {
  using Array = NdArray;
  static NdArray inexact(const NdArray& x) { return ops::inexact(x); }
  static NdArray root_of_squares(const NdArray& x, const Axes& axes, bool keepdims) {
    return sqrt(sum_of_squares(x, axes, keepdims));
  }
  static NdArray sum(const NdArray& x, const Axes& axis, bool keepdims) {
    return ops::sum(x, axis, {.keepdims = keepdims});
  }
  static NdArray max(const NdArray& x, const Axes& axis, bool keepdims) {
    return ops::max(x, axis, {.keepdims = keepdims, .initial = Scalar(0)});
  }
  static NdArray min(const NdArray& x, const Axes& axis, bool keepdims) {
    return ops::min(x, axis, {.keepdims = keepdims});
  }
  static NdArray absolute(const NdArray& x) { return ops::absolute(x); }
  static NdArray power(const NdArray& x, double p) { return ops::power(x, p); }
  static NdArray nonzero_as_real(const NdArray& x) { return not_equal(x, 0).astype(real_type(x.dtype())); }
  static NdArray singular_values(const NdArray& x) { return svdvals(x); }
  static NdArray moveaxis(const NdArray& x, const Ints& from, const Ints& to) { return ops::moveaxis(x, from, to); }
  static NdArray kept(const NdArray& reduced, const Dims& shape, std::span<const int> axes) {
    return ops::kept(reduced, shape, axes);
  }
};

}  // namespace

NdArray norm(const NdArray& x, const NormOrder& ord, const Axes& axis, bool keepdims) {
  return linalg::norm<Functions>(x, ord, axis, keepdims);
}

NdArray matrix_norm(const NdArray& x, bool keepdims, const NormOrder& ord) { return norm(x, ord, {-2, -1}, keepdims); }

NdArray vector_norm(const NdArray& x_in, const Axes& axis, bool keepdims, const NormOrder& ord) {
  const NdArray x = inexact(x_in);
  const int ndim = x.ndim();
  const std::vector<int> normal = normalize_axes(listed_axes(axis, ndim), ndim, "repeated axis");
  std::vector<int64_t> order(normal.begin(), normal.end());
  Dims shape{1};
  for (const int d : normal) shape[0] *= x.shape()[d];
  for (int d = 0; d < ndim; ++d) {
    if (std::find(normal.begin(), normal.end(), d) != normal.end()) continue;
    order.push_back(d);
    shape.push_back(x.shape()[d]);
  }
  const NdArray lines = (order.empty() ? x : x.transpose(order)).reshape(shape);
  const NdArray result = vector_norm_along<Functions>(lines, ord, 0, false);
  return keepdims ? kept(result, x.shape(), normal) : result;
}

NdArray cond(const NdArray& x, const NormOrder& p) {
  if (x.size() == 0 && x.ndim() >= 2 && (x.shape(-1) == 0 || x.shape(-2) == 0))
    throw LinAlgError("cond is not defined on empty arrays");
  check_stacked(x);
  const double* number_of = norm_number(p);
  NdArray result;
  if (!p || (number_of && std::abs(*number_of) == 2)) {
    const NdArray s = svdvals(x);
    const NdArray first = s[{ellipsis, int64_t{0}}], last = s[{ellipsis, int64_t{-1}}];
    result = number_of && *number_of < 0 ? divide(last, first) : divide(first, last);
  } else {
    check_square(x);
    const LoopDTypes dtypes = loop_dtypes(x);
    const NdArray a = converted(x, dtypes.compute);
    const Inverses inverse = inverses(a, dtypes.compute);
    const NdArray values = where(equal(inverse.info.array()[{ellipsis, newaxis, newaxis}], 0), inverse.values,
                                 std::numeric_limits<double>::quiet_NaN());
    result = multiply(norm(a, p, {-2, -1}), norm(values, p, {-2, -1}));
    result = converted(result, real_type(dtypes.result));
  }
  // A singular matrix has an infinite condition number, but one with NaN has none.
  const NdArray unknown = is_float(x.dtype()) || is_complex(x.dtype())
                              ? logical_and(isnan(result), logical_not(any(isnan(x), {-2, -1})))
                              : isnan(result);
  return where(unknown, kInfinity, result);
}

// ---- Products ----

NdArray matrix_power(const NdArray& a_in, int64_t n) {
  check_square(a_in);
  if (n == 0) {
    const DeviceScope scope(context_for(a_in.device()));
    return identities(linalg::batch_of(a_in), a_in.shape(-1), a_in.shape(-1), a_in.dtype());
  }
  const NdArray base = n < 0 ? inv(a_in) : a_in;
  const uint64_t times = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  if (times == 1) return n < 0 ? base : base.copy();
  return power_by_squaring(base, times, [](const NdArray& a, const NdArray& b) { return matmul(a, b); });
}

namespace {

NdArray product_of(const std::vector<NdArray>& arrays, const std::vector<std::vector<size_t>>& split, size_t i,
                   size_t j, const std::optional<NdArray>& out = std::nullopt) {
  if (i == j) return arrays[i];
  const size_t k = split[i][j];
  return dot(product_of(arrays, split, i, k), product_of(arrays, split, k + 1, j), out);
}

}  // namespace

NdArray multi_dot(const std::vector<NdArray>& given, const std::optional<NdArray>& out) {
  if (given.size() < 2) throw InvalidArgument("Expecting at least two arrays.");
  if (given.size() == 2) return dot(given[0], given[1], out);
  std::vector<NdArray> arrays = given;
  const bool first = arrays.front().ndim() == 1, last = arrays.back().ndim() == 1;
  if (first) arrays.front() = arrays.front()[{newaxis}];
  if (last) arrays.back() = arrays.back()[{full_slice, newaxis}];
  std::vector<double> extents;
  for (const NdArray& array : arrays) {
    check_matrix(array);
    extents.push_back(static_cast<double>(array.shape(0)));
  }
  extents.push_back(static_cast<double>(arrays.back().shape(1)));
  const NdArray result = product_of(arrays, best_splits(extents), 0, arrays.size() - 1, out);
  if (first && last) return result[{0, 0}];
  return first || last ? result.reshape({result.size()}) : result;
}

NdArray linalg_cross(const NdArray& x1, const NdArray& x2, int64_t axis) {
  if (x1.shape(axis) != 3 || x2.shape(axis) != 3)
    throw InvalidArgument(
        fmt::format("Both input arrays must be (arrays of) 3-dimensional vectors, but they are {} and {} dimensional "
                    "instead.",
                    x1.shape(axis), x2.shape(axis)));
  return cross(x1, x2, -1, -1, -1, axis);
}
NdArray linalg_outer(const NdArray& x1, const NdArray& x2) {
  if (x1.ndim() != 1 || x2.ndim() != 1)
    throw InvalidArgument(fmt::format("Input arrays must be one-dimensional, but they are x1.ndim={} and x2.ndim={}.",
                                      x1.ndim(), x2.ndim()));
  return outer(x1, x2);
}
NdArray linalg_matmul(const NdArray& x1, const NdArray& x2) { return matmul(x1, x2); }
NdArray linalg_tensordot(const NdArray& x1, const NdArray& x2, const std::variant<int64_t, std::vector<Ints>>& axes) {
  return tensordot(x1, x2, axes);
}
NdArray linalg_vecdot(const NdArray& x1, const NdArray& x2, int64_t axis) {
  return vecdot(x1, x2, std::nullopt, std::nullopt, axis);
}
NdArray linalg_diagonal(const NdArray& x, int64_t offset) { return diagonal(x, offset, -2, -1); }
NdArray linalg_trace(const NdArray& x, int64_t offset, std::optional<DType> dtype) {
  return trace(x, offset, -2, -1, dtype);
}

// ---- Functions of matrices ----

namespace {

struct Matrices {
  using Array = NdArray;
  static NdArray product(const NdArray& a, const NdArray& b) { return matmul(a, b); }
  static NdArray sum(const NdArray& a, const NdArray& b) { return add(a, b); }
  static NdArray scaled(const NdArray& a, double factor) { return multiply(a, factor); }
  static NdArray ones(const NdArray& like) { return identities({}, like.shape(-1), like.shape(-1), like.dtype()); }
};

}  // namespace

NdArray expm(const NdArray& A) {
  const Range named("linalg.expm");
  check_square(A);
  const LoopDTypes dtypes = loop_dtypes(A);
  const DType dtype = dtypes.compute;
  const DeviceScope scope(context_for(A.device()));
  NdArray a = converted(A, dtype);
  if (A.size() == 0) return converted(a, dtypes.result);
  const NdArray size = norm_of_matrices<Functions>(a, NormOrder(1.0));
  constexpr double kInTrial = -1;
  double largest = item_or(max(size), kInTrial).as_double();
  if (largest == kInTrial) {  // any of them may be the dearest
    for (const Pade& each : kPade) {
      if (each.bound(dtype) == 0) continue;
      const auto [u, v] = pade_terms<Matrices>(a, each);
      solve(subtract(v, u), add(v, u));
      largest = 2 * each.bound(dtype);
    }
  }
  if (!std::isfinite(largest)) return converted(multiply(a, std::numeric_limits<double>::quiet_NaN()), dtypes.result);
  const Pade& pade = approximant(largest, dtype);
  const double bound = pade.bound(dtype);
  // Matrices beyond the bound are scaled by 2^-s.
  const NdArray steps = maximum(ceil(log2(divide(size, bound))), 0);
  const double most = largest > bound ? item_or(max(steps), 1).as_double() : 0;
  if (most > 0) a = multiply(a, exp2(negative(steps))[{ellipsis, newaxis, newaxis}]);
  const auto [u, v] = pade_terms<Matrices>(a, pade);
  NdArray result = solve(subtract(v, u), add(v, u));
  // Each matrix is squared as often as it was halved.
  const NdArray squarings = steps[{ellipsis, newaxis, newaxis}];
  for (double step = 0; step < most; ++step) {
    const NdArray square = matmul(result, result);
    result = A.ndim() == 2 ? square : where(greater(squarings, step), square, result);
  }
  return converted(result, dtypes.result);
}

NdArray sqrtm(const NdArray& A) {
  const Range named("linalg.sqrtm");
  check_square(A);
  const LoopDTypes dtypes = loop_dtypes(A);
  const NdArray a = converted(A, dtypes.compute);
  if (A.size() == 0) return converted(a, dtypes.result);
  const NdArray adjoint = is_complex(a.dtype()) ? conjugate(swapped(a)) : swapped(a);
  const double largest = max(absolute(a)).item().as_double();
  const double rounding = static_cast<double>(a.shape(-1)) * epsilon_of(dtypes.result) * largest;
  if (max(absolute(subtract(a, adjoint))).item().as_double() > rounding)
    throw InvalidArgument("sqrtm takes symmetric or Hermitian matrices only");
  auto [values, vectors] = eigh(a);
  // Rounding makes small negative values of zeros.
  const NdArray zero = less_equal(absolute(values), rounding);
  values = where(logical_and(zero, less(values, 0)), 0, values);
  DType result = dtypes.result;
  if (any(less(values, 0)).item<bool>()) {
    values = values.astype(complex_type(dtypes.compute));
    result = complex_type(dtypes.result);
  }
  const NdArray scaled = multiply(vectors, sqrt(values)[{ellipsis, newaxis, full_slice}]);
  return converted(matmul(scaled, is_complex(vectors.dtype()) ? conjugate(swapped(vectors)) : swapped(vectors)),
                   result);
}

// ---- Structure ----

NdArray block_diag(const std::vector<NdArray>& arrs) {
  if (arrs.empty()) return zeros({1, 0});
  std::vector<NdArray> blocks;
  std::vector<PromotionOperand> operands;
  int64_t rows = 0, columns = 0;
  Dims batch;
  for (const NdArray& given : arrs) {
    const NdArray block = given.ndim() == 0 ? given.reshape({1, 1}) : given.ndim() == 1 ? given[{newaxis}] : given;
    rows += block.shape(-2);
    columns += block.shape(-1);
    batch = broadcast_shapes(batch, linalg::batch_of(block));
    operands.push_back({block.dtype(), false});
    blocks.push_back(block);
  }
  const ExecContext context = context_for(local::common_device(blocks));
  NdArray result(joined(batch, {rows, columns}), local::result_type(operands), context);
  result.fill(0, context);
  int64_t row = 0, column = 0;
  for (const NdArray& block : blocks) {
    const int64_t m = block.shape(-2), n = block.shape(-1);
    if (block.size() != 0)
      result[{ellipsis, Slice{row, row + m, 1}, Slice{column, column + n, 1}}].assign(converted(block, result.dtype()),
                                                                                      context);
    row += m;
    column += n;
  }
  return result;
}

NdArray toeplitz(const NdArray& c_in, const std::optional<NdArray>& r_in) {
  const NdArray c = c_in.reshape({c_in.size()});
  const NdArray r = r_in ? r_in->reshape({r_in->size()}) : is_complex(c.dtype()) ? conjugate(c) : c;
  const int64_t m = c.size(), n = r.size();
  if (m == 0 || n == 0) return NdArray({m, n}, promote_types(c.dtype(), r.dtype()), context_for(c.device()));
  // Element (i, j) is number m - 1 - i + j of the column upwards and then the row.
  const NdArray line = concatenate({flip(c), r[{Slice{1, {}, {}}}]});
  const int64_t item = line.itemsize();
  return with_strides(line, {m, n}, {-item, item}, line.offset() + (m - 1) * item).copy();
}

}  // namespace quarry::local::ops
