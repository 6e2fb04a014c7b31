// Products of vectors, matrices and tensors, by NumPy's names.
//
// Sums are accumulated in an order that depends on shapes and strides only, and on whether one operand is a transposed
// view of the other; float16 and bfloat16 accumulate in float32; bool multiplies by `and` and sums by `or`; integers
// wrap. The result's dtype is the promoted one. Results are new, in C order, on the arrays' device; no call waits for
// its result. `precision` may round products of float32 matrices on a GPU (local/program/precision.h). All throw
// InvalidArgument where shapes do not fit, with NumPy's texts, or where the arrays are on different devices.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/precision.h"

namespace quarry::local::ops {

// One entry per operand and result: the axes that hold its core dimensions.
using CoreAxes = std::optional<std::vector<Ints>>;

// The four with NumPy's ufunc keywords: `dtype` forces the loop; `out` may have any dtype that `casting` allows and any
// strides; `order` is a new result's layout, C, F, A (F where both operands have it) or K (C); `subok` has no meaning
// here.

// (..., m, k) by (..., k, n); a vector is a row on the left, a column on the right; leading axes broadcast.
NdArray matmul(const NdArray& x1, const NdArray& x2, const std::optional<NdArray>& out = std::nullopt,
               Casting casting = Casting::same_kind, std::string_view order = "K",
               std::optional<DType> dtype = std::nullopt, bool subok = true, const CoreAxes& axes = std::nullopt,
               Precision precision = Precision::exact);
// Sum of conj(x1) x2 over the last axis (`axis`) of both.
NdArray vecdot(const NdArray& x1, const NdArray& x2, const std::optional<NdArray>& out = std::nullopt,
               const CoreAxes& axes = std::nullopt, std::optional<int64_t> axis = std::nullopt, bool keepdims = false,
               Casting casting = Casting::same_kind, std::string_view order = "K",
               std::optional<DType> dtype = std::nullopt, bool subok = true);
// (..., m, n) by (..., n), and (..., n), conjugated, by (..., n, m).
NdArray matvec(const NdArray& x1, const NdArray& x2, const std::optional<NdArray>& out = std::nullopt,
               const CoreAxes& axes = std::nullopt, Casting casting = Casting::same_kind, std::string_view order = "K",
               std::optional<DType> dtype = std::nullopt, bool subok = true);
NdArray vecmat(const NdArray& x1, const NdArray& x2, const std::optional<NdArray>& out = std::nullopt,
               const CoreAxes& axes = std::nullopt, Casting casting = Casting::same_kind, std::string_view order = "K",
               std::optional<DType> dtype = std::nullopt, bool subok = true);

// The sum over a's last axis and b's last but one (b's only one); a 0-d operand multiplies. `out` must be exactly the
// result's dtype and shape, in C order.
NdArray dot(const NdArray& a, const NdArray& b, const std::optional<NdArray>& out = std::nullopt,
            Precision precision = Precision::exact);
// Sum of conj(a) b over all elements of both, in C order.
NdArray vdot(const NdArray& a, const NdArray& b);
// The sum over the last axes of both.
NdArray inner(const NdArray& a, const NdArray& b, Precision precision = Precision::exact);
// Every element of a times every element of b, both in C order: (a.size, b.size).
NdArray outer(const NdArray& a, const NdArray& b, const std::optional<NdArray>& out = std::nullopt);
// The sum over a's last `axes` axes and b's first, or over the listed axes of each: a pair of equally many.
NdArray tensordot(const NdArray& a, const NdArray& b, const std::variant<int64_t, std::vector<Ints>>& axes = 2,
                  Precision precision = Precision::exact);
// The Kronecker product; the smaller shape gets leading axes of one element.
NdArray kron(const NdArray& a, const NdArray& b);
// The cross product of vectors of 2 or 3 elements along axisa and axisb; the result has its 3 along axisc, or no such
// axis where both have 2. `axis` sets all three.
NdArray cross(const NdArray& a, const NdArray& b, int64_t axisa = -1, int64_t axisb = -1, int64_t axisc = -1,
              std::optional<int64_t> axis = std::nullopt);

}  // namespace quarry::local::ops
