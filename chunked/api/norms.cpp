// Norms, chains of products and the array API's names of linalg.
#include <fmt/format.h>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/linalg/norm_rules.h"

namespace quarry::linalg {

using namespace compose;

namespace {

struct Functions {
  using Array = quarry::Array;
  static Array inexact(const Array& x) { return is_inexact(x.dtype()) ? x : x.astype(DType::float64); }
  static Array root_of_squares(const Array& x, const Axes& axes, bool keepdims) {
    if (!local::is_complex(x.dtype())) return sqrt(quarry::sum(multiply(x, x), axes, {.keepdims = keepdims}));
    const Array re = real(x), im = imag(x);
    return sqrt(quarry::sum(add(multiply(re, re), multiply(im, im)), axes, {.keepdims = keepdims}));
  }
  static Array sum(const Array& x, const Axes& axis, bool keepdims) {
    return quarry::sum(x, axis, {.keepdims = keepdims});
  }
  static Array max(const Array& x, const Axes& axis, bool keepdims) {
    // No elements have the maximum 0.
    const uint32_t axes = axis.mask(x.ndim());
    for (int d = 0; d < x.ndim(); ++d)
      if ((axes >> d & 1) && x.shape()[d] == 0) return sum(x, axis, keepdims);
    return quarry::max(x, axis, {.keepdims = keepdims});
  }
  static Array min(const Array& x, const Axes& axis, bool keepdims) {
    return quarry::min(x, axis, {.keepdims = keepdims});
  }
  static Array absolute(const Array& x) { return quarry::absolute(x); }
  static Array power(const Array& x, double p) { return quarry::power(x, p); }
  static Array nonzero_as_real(const Array& x) { return not_equal(x, 0).astype(local::real_type(x.dtype())); }
  static Array singular_values(const Array& x) { return svdvals(x); }
  static Array moveaxis(const Array& x, const Ints& from, const Ints& to) { return quarry::moveaxis(x, from, to); }
  static Array kept(const Array& reduced, const Dims& shape, std::span<const int> axes) {
    Dims full = shape;
    for (const int axis : axes) full[axis] = 1;
    return reshape(reduced, full);
  }
};

using Rule = local::linalg::NormOrderRule;

Array product_of(const std::vector<Array>& arrays, const std::vector<std::vector<size_t>>& split, size_t i, size_t j) {
  if (i == j) return arrays[i];
  const size_t k = split[i][j];
  return dot(product_of(arrays, split, i, k), product_of(arrays, split, k + 1, j));
}

}  // namespace

Array cross(const Array& x1, const Array& x2, int64_t axis) {
  if (x1.shape(axis) != 3 || x2.shape(axis) != 3)
    throw InvalidArgument(
        fmt::format("Both input arrays must be (arrays of) 3-dimensional vectors, but they are {} and {} dimensional "
                    "instead.",
                    x1.shape(axis), x2.shape(axis)));
  return quarry::cross(x1, x2, -1, -1, -1, axis);
}
Array outer(const Array& x1, const Array& x2) {
  if (x1.ndim() != 1 || x2.ndim() != 1)
    throw InvalidArgument(fmt::format("Input arrays must be one-dimensional, but they are x1.ndim={} and x2.ndim={}.",
                                      x1.ndim(), x2.ndim()));
  return quarry::outer(x1, x2);
}
Array diagonal(const Array& x, int64_t offset) { return quarry::diagonal(x, offset, -2, -1); }
Array trace(const Array& x, int64_t offset, std::optional<DType> dtype) {
  return quarry::trace(x, offset, -2, -1, dtype);
}
Array matrix_transpose(const Array& x) { return quarry::matrix_transpose(x); }

Array multi_dot(const std::vector<Array>& given) {
  if (given.size() < 2) throw InvalidArgument("Expecting at least two arrays.");
  if (given.size() == 2) return dot(given[0], given[1]);
  std::vector<Array> arrays = given;
  const bool first = arrays.front().ndim() == 1, last = arrays.back().ndim() == 1;
  if (first) arrays.front() = with_axes(arrays.front(), 0);
  if (last) arrays.back() = with_axes(arrays.back(), 1);
  std::vector<double> extents;
  for (const Array& array : arrays) {
    if (array.ndim() != 2)
      throw InvalidArgument(fmt::format("{}-dimensional array given. Array must be two-dimensional", array.ndim()));
    extents.push_back(static_cast<double>(array.shape(0)));
  }
  extents.push_back(static_cast<double>(arrays.back().shape(1)));
  Array result = product_of(arrays, local::linalg::best_splits(extents), 0, arrays.size() - 1);
  if (last) result = squeeze(result, 1);
  return first ? squeeze(result, 0) : result;
}

Array matrix_power(const Array& a, int64_t n) {
  check_square(a);
  if (n == 0) return broadcast_to(identity(a.shape(-1), a.dtype()), a.shape());
  const uint64_t power = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  return local::linalg::power_by_squaring(n < 0 ? inv(a) : a, power,
                                          [](const Array& x, const Array& y) { return matmul(x, y); });
}

Array norm(const Array& x, std::optional<double> ord, const Axes& axis, bool keepdims) {
  return local::linalg::norm<Functions>(x, ord ? Rule(*ord) : Rule(), axis, keepdims);
}
Array norm(const Array& x, const char* ord, const Axes& axis, bool keepdims) {
  return local::linalg::norm<Functions>(x, Rule(std::string(ord)), axis, keepdims);
}
Array matrix_norm(const Array& x, const char* ord, bool keepdims) { return norm(x, ord, {-2, -1}, keepdims); }
Array matrix_norm(const Array& x, double ord, bool keepdims) { return norm(x, ord, {-2, -1}, keepdims); }

Array vector_norm(const Array& x_in, const Axes& axis, double ord, bool keepdims) {
  const Array x = Functions::inexact(x_in);
  return local::linalg::vector_norm_along<Functions>(x, Rule(ord), local::linalg::listed_axes(axis, x.ndim()),
                                                     keepdims);
}

}  // namespace quarry::linalg
