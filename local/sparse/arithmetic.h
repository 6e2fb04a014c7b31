// Elementwise arithmetic and comparisons of sparse matrices.
//
// Results have the dtypes of NumPy's ufuncs. Between two matrices they are CSR (CSC where the first one is), sorted,
// without duplicates and without zeros; what changes one matrix's values alone keeps its format and structure. Extents
// of 1 broadcast in products. A result that is not zero where the operands are (a == b, a <= 2, a < 1 ...) is computed
// dense and stores every element: SciPy warns there (SparseEfficiencyWarning), quarry logs it at level info.
#pragma once

#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::detail {

// Any ufunc of two arguments. Throws InvalidArgument for matrices of different shapes.
sparse::SparseArray elementwise(Op op, const sparse::SparseArray& a, const sparse::SparseArray& b);
sparse::SparseArray elementwise(Op op, const sparse::SparseArray& a, const Scalar& b);
sparse::SparseArray elementwise(Op op, const Scalar& a, const sparse::SparseArray& b);
// With a dense array, to which or from which the matrix broadcasts: dense.
NdArray elementwise(Op op, const sparse::SparseArray& a, const NdArray& b);
NdArray elementwise(Op op, const NdArray& a, const sparse::SparseArray& b);
// A ufunc of one argument that maps 0 to 0, of the stored values. Throws NotSupported for others.
sparse::SparseArray elementwise(Op op, const sparse::SparseArray& a);

}  // namespace quarry::local::detail

namespace quarry::local::sparse {

inline SparseArray absolute(const SparseArray& a) { return detail::elementwise(detail::named_op<"absolute">(), a); }

// Dense arrays broadcast; the result has the structure of `a`.
SparseArray multiply(const SparseArray& a, const SparseArray& b);
SparseArray multiply(const SparseArray& a, const NdArray& b);
SparseArray divide(const SparseArray& a, const NdArray& b);
// Dense: 0 / 0 is NaN.
NdArray divide(const SparseArray& a, const SparseArray& b);

#define QUARRY_SPARSE_OPERATOR(symbol, op)                                                                            \
  inline SparseArray operator symbol(const SparseArray& a, const SparseArray& b) {                                    \
    return detail::elementwise(op, a, b);                                                                             \
  }                                                                                                                   \
  inline SparseArray operator symbol(const SparseArray& a, const Scalar& b) { return detail::elementwise(op, a, b); } \
  inline SparseArray operator symbol(const Scalar& a, const SparseArray& b) { return detail::elementwise(op, a, b); } \
  inline NdArray operator symbol(const SparseArray& a, const NdArray& b) { return detail::elementwise(op, a, b); }    \
  inline NdArray operator symbol(const NdArray& a, const SparseArray& b) { return detail::elementwise(op, a, b); }
// Adding a scalar that is not 0 throws NotSupported, as in SciPy.
QUARRY_SPARSE_OPERATOR(+, detail::named_op<"add">())
QUARRY_SPARSE_OPERATOR(-, detail::named_op<"subtract">())
QUARRY_SPARSE_OPERATOR(==, detail::named_op<"equal">())
QUARRY_SPARSE_OPERATOR(!=, detail::named_op<"not_equal">())
QUARRY_SPARSE_OPERATOR(<, detail::named_op<"less">())
QUARRY_SPARSE_OPERATOR(<=, detail::named_op<"less_equal">())
QUARRY_SPARSE_OPERATOR(>, detail::named_op<"greater">())
QUARRY_SPARSE_OPERATOR(>=, detail::named_op<"greater_equal">())
#undef QUARRY_SPARSE_OPERATOR
inline SparseArray operator*(const SparseArray& a, const SparseArray& b) { return multiply(a, b); }
inline SparseArray operator*(const SparseArray& a, const NdArray& b) { return multiply(a, b); }
inline SparseArray operator*(const NdArray& a, const SparseArray& b) { return multiply(b, a); }
inline SparseArray operator*(const SparseArray& a, const Scalar& b) {
  return detail::elementwise(detail::named_op<"multiply">(), a, b);
}
inline SparseArray operator*(const Scalar& a, const SparseArray& b) {
  return detail::elementwise(detail::named_op<"multiply">(), a, b);
}
inline SparseArray operator/(const SparseArray& a, const Scalar& b) {
  return detail::elementwise(detail::named_op<"divide">(), a, b);
}
inline SparseArray operator/(const SparseArray& a, const NdArray& b) { return divide(a, b); }
inline NdArray operator/(const SparseArray& a, const SparseArray& b) { return divide(a, b); }
inline SparseArray operator-(const SparseArray& a) { return detail::elementwise(detail::named_op<"negative">(), a); }

}  // namespace quarry::local::sparse
