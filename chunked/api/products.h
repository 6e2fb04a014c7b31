// Products of vectors, matrices and tensors, by NumPy's names. Lazy. The dtype is the promoted one; bool multiplies by
// `and` and sums by `or`. Sums over one axis of a matrix are matrix products, which read each operand in tiles; sums
// without a free axis of one of the operands are fused reductions. Operands whose axes must be merged for that are
// reshaped, which moves them once. `precision` may round products of float32 on GPUs, as in matmul(). All throw
// InvalidArgument where shapes do not fit, with NumPy's texts.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/chunked/api/linalg.h"

namespace quarry {

// The sum over a's last axis and b's last but one (b's only one); a 0-d operand multiplies.
Array dot(const Array& a, const Array& b, Precision precision = Precision::exact);
// Sum of conj(a) b over all elements of both, in C order.
Array vdot(const Array& a, const Array& b);
// The sum over the last axes of both.
Array inner(const Array& a, const Array& b, Precision precision = Precision::exact);
// Every element of a times every element of b, both in C order: (a.size, b.size).
Array outer(const Array& a, const Array& b);
// Sum of conj(x1) x2 over an axis of both.
Array vecdot(const Array& x1, const Array& x2, int64_t axis = -1);
// (..., m, n) by (..., n), and (..., n), conjugated, by (..., n, m).
Array matvec(const Array& x1, const Array& x2);
Array vecmat(const Array& x1, const Array& x2);
// The sum over a's last `axes` axes and b's first, or over pairs: tensordot(a, b, {{1, 2}, {0, 1}}).
Array tensordot(const Array& a, const Array& b, int64_t axes = 2, Precision precision = Precision::exact);
Array tensordot(const Array& a, const Array& b, const std::vector<Ints>& axes, Precision precision = Precision::exact);
// The Kronecker product; the smaller shape gets leading axes of one element.
Array kron(const Array& a, const Array& b);
// The cross product of vectors of 2 or 3 elements along axisa and axisb; the result has its 3 along axisc, or no such
// axis where both have 2. `axis` sets all three.
Array cross(const Array& a, const Array& b, int64_t axisa = -1, int64_t axisb = -1, int64_t axisc = -1,
            std::optional<int64_t> axis = std::nullopt);

// einsum("ij,jk->ik", a, b): all of NumPy's subscripts. Three or more operands are contracted in pairs, in an order
// found greedily whose intermediates are not larger than the largest operand or the result.
Array einsum(std::string_view subscripts, const std::vector<Array>& operands, std::optional<DType> dtype = std::nullopt,
             local::Casting casting = local::Casting::safe, Precision precision = Precision::exact);
template <class... Arrays>
requires(sizeof...(Arrays) > 0 && (std::is_convertible_v<const Arrays&, Array> && ...)) Array
    einsum(std::string_view subscripts, const Arrays&... operands) {
  return einsum(subscripts, std::vector<Array>{Array(operands)...});
}
template <class... Arrays>
requires(sizeof...(Arrays) > 0 && (std::is_convertible_v<const Arrays&, Array> && ...)) Array
    einsum(Precision precision, std::string_view subscripts, const Arrays&... operands) {
  return einsum(subscripts, std::vector<Array>{Array(operands)...}, std::nullopt, local::Casting::safe, precision);
}

namespace linalg {

Array cross(const Array& x1, const Array& x2, int64_t axis = -1);
Array outer(const Array& x1, const Array& x2);
using quarry::matmul;
using quarry::tensordot;
using quarry::vecdot;
Array diagonal(const Array& x, int64_t offset = 0);
Array trace(const Array& x, int64_t offset = 0, std::optional<DType> dtype = std::nullopt);
Array matrix_transpose(const Array& x);

// The product of two matrices or more, in the order of the fewest operations; the first and the last may be vectors.
Array multi_dot(const std::vector<Array>& arrays);
// The matrices in the last two axes, or for n < 0 their inverses, multiplied n times, by squaring.
Array matrix_power(const Array& a, int64_t n);

// ord: none, a number, "fro" or "nuc": norm(x), norm(x, 1), norm(x, inf, 0), norm(a, "fro"). The norms 2, -2 and "nuc"
// of matrices are by svdvals(). Throws InvalidArgument for other orders and for more than two axes.
Array norm(const Array& x, std::optional<double> ord = std::nullopt, const Axes& axis = {}, bool keepdims = false);
Array norm(const Array& x, const char* ord, const Axes& axis = {}, bool keepdims = false);
template <std::integral T>  // 0 is no null pointer
Array norm(const Array& x, T ord, const Axes& axis = {}, bool keepdims = false) {
  return norm(x, std::optional<double>(static_cast<double>(ord)), axis, keepdims);
}
Array matrix_norm(const Array& x, const char* ord = "fro", bool keepdims = false);
Array matrix_norm(const Array& x, double ord, bool keepdims = false);
Array vector_norm(const Array& x, const Axes& axis = {}, double ord = 2.0, bool keepdims = false);

}  // namespace linalg
}  // namespace quarry
