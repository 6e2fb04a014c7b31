// Elementwise arithmetic and comparisons of sparse matrices.
//
// Results have the dtypes of NumPy's ufuncs. Between two matrices they are CSR (CSC where the first one is), sorted,
// without duplicates and without zeros; what changes one matrix's values alone keeps its format and structure. Extents
// of 1 broadcast in products. A result that is not zero where the operands are (a == b, a <= 2, a < 1 ...) is computed
// dense and stores every element: SciPy warns there (SparseEfficiencyWarning), quarry logs it at level info.
#pragma once

#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::sparse {

// Any ufunc of two arguments. Throws InvalidArgument for matrices of different shapes.
SparseArray elementwise(Op op, const SparseArray& a, const SparseArray& b);
SparseArray elementwise(Op op, const SparseArray& a, const Scalar& b);
SparseArray elementwise(Op op, const Scalar& a, const SparseArray& b);
// With a dense array, to which or from which the matrix broadcasts: dense.
NdArray elementwise(Op op, const SparseArray& a, const NdArray& b);
NdArray elementwise(Op op, const NdArray& a, const SparseArray& b);
// A ufunc of one argument that maps 0 to 0, of the stored values. Throws NotSupported for others.
SparseArray elementwise(Op op, const SparseArray& a);
inline SparseArray absolute(const SparseArray& a) { return elementwise("absolute"_op, a); }

// Dense arrays broadcast; the result has the structure of `a`.
SparseArray multiply(const SparseArray& a, const SparseArray& b);
SparseArray multiply(const SparseArray& a, const NdArray& b);
SparseArray divide(const SparseArray& a, const NdArray& b);
// Dense: 0 / 0 is NaN.
NdArray divide(const SparseArray& a, const SparseArray& b);

#define QUARRY_SPARSE_OPERATOR(symbol, op)                                                                         \
  inline SparseArray operator symbol(const SparseArray& a, const SparseArray& b) { return elementwise(op, a, b); } \
  inline SparseArray operator symbol(const SparseArray& a, const Scalar& b) { return elementwise(op, a, b); }      \
  inline SparseArray operator symbol(const Scalar& a, const SparseArray& b) { return elementwise(op, a, b); }      \
  inline NdArray operator symbol(const SparseArray& a, const NdArray& b) { return elementwise(op, a, b); }         \
  inline NdArray operator symbol(const NdArray& a, const SparseArray& b) { return elementwise(op, a, b); }
// Adding a scalar that is not 0 throws NotSupported, as in SciPy.
QUARRY_SPARSE_OPERATOR(+, "add"_op)
QUARRY_SPARSE_OPERATOR(-, "subtract"_op)
QUARRY_SPARSE_OPERATOR(==, "equal"_op)
QUARRY_SPARSE_OPERATOR(!=, "not_equal"_op)
QUARRY_SPARSE_OPERATOR(<, "less"_op)
QUARRY_SPARSE_OPERATOR(<=, "less_equal"_op)
QUARRY_SPARSE_OPERATOR(>, "greater"_op)
QUARRY_SPARSE_OPERATOR(>=, "greater_equal"_op)
#undef QUARRY_SPARSE_OPERATOR
inline SparseArray operator*(const SparseArray& a, const SparseArray& b) { return multiply(a, b); }
inline SparseArray operator*(const SparseArray& a, const NdArray& b) { return multiply(a, b); }
inline SparseArray operator*(const NdArray& a, const SparseArray& b) { return multiply(b, a); }
inline SparseArray operator*(const SparseArray& a, const Scalar& b) { return elementwise("multiply"_op, a, b); }
inline SparseArray operator*(const Scalar& a, const SparseArray& b) { return elementwise("multiply"_op, a, b); }
inline SparseArray operator/(const SparseArray& a, const Scalar& b) { return elementwise("divide"_op, a, b); }
inline SparseArray operator/(const SparseArray& a, const NdArray& b) { return divide(a, b); }
inline NdArray operator/(const SparseArray& a, const SparseArray& b) { return divide(a, b); }
inline SparseArray operator-(const SparseArray& a) { return elementwise("negative"_op, a); }

}  // namespace quarry::local::sparse
