// SciPy's older classes: sparse matrices that multiply as matrices.
//
// A SparseMatrix is a SparseArray whose `*` is the matrix product and whose power is that product's; everything else is
// the same, and each converts to the other without a copy. As in SciPy the left operand says which of the two an
// operation between them is and what it returns, methods and functions of one matrix return a matrix, and what is made
// of several is a matrix where all are. SciPy's numpy.matrix does not exist: dense results are arrays.
#pragma once

#include <concepts>
#include <initializer_list>
#include <utility>

#include "quarry/local/sparse/arithmetic.h"
#include "quarry/local/sparse/products.h"
#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::sparse {

class SparseMatrix : public SparseArray {
 public:
  using SparseArray::SparseArray;
  explicit SparseMatrix(SparseArray array) : SparseArray(std::move(array)) {}

#define QUARRY_SPARSE_MATRIX_METHOD(name)                                \
  template <class... Args>                                               \
  SparseMatrix name(Args&&... args) const {                              \
    return SparseMatrix(SparseArray::name(std::forward<Args>(args)...)); \
  }
  QUARRY_SPARSE_MATRIX_METHOD(tocoo)
  QUARRY_SPARSE_MATRIX_METHOD(tocsr)
  QUARRY_SPARSE_MATRIX_METHOD(tocsc)
  QUARRY_SPARSE_MATRIX_METHOD(todia)
  QUARRY_SPARSE_MATRIX_METHOD(asformat)
  QUARRY_SPARSE_MATRIX_METHOD(to)
  QUARRY_SPARSE_MATRIX_METHOD(get)
  QUARRY_SPARSE_MATRIX_METHOD(copy)
  QUARRY_SPARSE_MATRIX_METHOD(astype)
  QUARRY_SPARSE_MATRIX_METHOD(asfptype)
  QUARRY_SPARSE_MATRIX_METHOD(with_data)
  QUARRY_SPARSE_MATRIX_METHOD(conj)
  QUARRY_SPARSE_MATRIX_METHOD(conjugate)
  QUARRY_SPARSE_MATRIX_METHOD(real)
  QUARRY_SPARSE_MATRIX_METHOD(imag)
  QUARRY_SPARSE_MATRIX_METHOD(transpose)
  QUARRY_SPARSE_MATRIX_METHOD(T)
  QUARRY_SPARSE_MATRIX_METHOD(mT)
  QUARRY_SPARSE_MATRIX_METHOD(H)
  QUARRY_SPARSE_MATRIX_METHOD(getH)
  QUARRY_SPARSE_MATRIX_METHOD(sorted_indices)
  QUARRY_SPARSE_MATRIX_METHOD(getrow)
  QUARRY_SPARSE_MATRIX_METHOD(getcol)
  QUARRY_SPARSE_MATRIX_METHOD(multiply)
  QUARRY_SPARSE_MATRIX_METHOD(maximum)
  QUARRY_SPARSE_MATRIX_METHOD(minimum)
  QUARRY_SPARSE_MATRIX_METHOD(power)
#undef QUARRY_SPARSE_MATRIX_METHOD
  SparseMatrix reshape(const Dims& shape, std::string_view order = "C") const {
    return SparseMatrix(SparseArray::reshape(shape, order));
  }
  SparseMatrix index(const IndexTerm& row, const IndexTerm& column = IndexTerm(detail::full_slice)) const {
    return SparseMatrix(SparseArray::index(row, column));
  }
  SparseMatrix dot(const SparseArray& other) const { return SparseMatrix(SparseArray::dot(other)); }
  NdArray dot(const NdArray& other) const { return SparseArray::dot(other); }
};
// SciPy's base classes.
using sparray = SparseArray;
using spmatrix = SparseMatrix;

// As the makers of arrays (sparse_array.h).
template <class... Args>
SparseMatrix coo_matrix(Args&&... args) {
  return SparseMatrix(coo_array(std::forward<Args>(args)...));
}
template <class... Args>
SparseMatrix csr_matrix(Args&&... args) {
  return SparseMatrix(csr_array(std::forward<Args>(args)...));
}
template <class... Args>
SparseMatrix csc_matrix(Args&&... args) {
  return SparseMatrix(csc_array(std::forward<Args>(args)...));
}
template <class... Args>
SparseMatrix dia_matrix(Args&&... args) {
  return SparseMatrix(dia_array(std::forward<Args>(args)...));
}

template <class T>
constexpr bool issparse(const T&) {
  return std::derived_from<T, SparseArray>;
}
// Of matrices alone, as in SciPy.
template <class T>
constexpr bool isspmatrix(const T&) {
  return std::derived_from<T, SparseMatrix>;
}
template <class T>
bool isspmatrix_coo(const T& x) {
  if constexpr (std::derived_from<T, SparseMatrix>) return x.format() == Format::coo;
  return false;
}
template <class T>
bool isspmatrix_csr(const T& x) {
  if constexpr (std::derived_from<T, SparseMatrix>) return x.format() == Format::csr;
  return false;
}
template <class T>
bool isspmatrix_csc(const T& x) {
  if constexpr (std::derived_from<T, SparseMatrix>) return x.format() == Format::csc;
  return false;
}
template <class T>
bool isspmatrix_dia(const T& x) {
  if constexpr (std::derived_from<T, SparseMatrix>) return x.format() == Format::dia;
  return false;
}

// ---- Operators ----

inline SparseMatrix matmul(const SparseMatrix& a, const SparseArray& b) {
  return SparseMatrix(matmul(static_cast<const SparseArray&>(a), b));
}
// The matrix product.
inline SparseMatrix operator*(const SparseMatrix& a, const SparseArray& b) { return matmul(a, b); }
inline NdArray operator*(const SparseMatrix& a, const NdArray& b) { return matmul(a, b); }
inline NdArray operator*(const NdArray& a, const SparseMatrix& b) { return matmul(a, b); }
inline SparseMatrix operator*(const SparseMatrix& a, const Scalar& b) {
  return SparseMatrix(detail::elementwise(detail::named_op<"multiply">(), a, b));
}
inline SparseMatrix operator*(const Scalar& a, const SparseMatrix& b) {
  return SparseMatrix(detail::elementwise(detail::named_op<"multiply">(), a, b));
}
inline SparseMatrix operator/(const SparseMatrix& a, const Scalar& b) {
  return SparseMatrix(detail::elementwise(detail::named_op<"divide">(), a, b));
}
inline SparseMatrix operator/(const SparseMatrix& a, const NdArray& b) { return SparseMatrix(divide(a, b)); }
inline SparseMatrix operator-(const SparseMatrix& a) {
  return SparseMatrix(detail::elementwise(detail::named_op<"negative">(), a));
}
inline SparseMatrix absolute(const SparseMatrix& a) {
  return SparseMatrix(detail::elementwise(detail::named_op<"absolute">(), a));
}
#define QUARRY_SPARSE_MATRIX_OPERATOR(symbol, op)                                    \
  inline SparseMatrix operator symbol(const SparseMatrix& a, const SparseArray& b) { \
    return SparseMatrix(detail::elementwise(op, a, b));                              \
  }                                                                                  \
  inline SparseMatrix operator symbol(const SparseMatrix& a, const Scalar& b) {      \
    return SparseMatrix(detail::elementwise(op, a, b));                              \
  }                                                                                  \
  inline SparseMatrix operator symbol(const Scalar& a, const SparseMatrix& b) {      \
    return SparseMatrix(detail::elementwise(op, a, b));                              \
  }
QUARRY_SPARSE_MATRIX_OPERATOR(+, detail::named_op<"add">())
QUARRY_SPARSE_MATRIX_OPERATOR(-, detail::named_op<"subtract">())
QUARRY_SPARSE_MATRIX_OPERATOR(==, detail::named_op<"equal">())
QUARRY_SPARSE_MATRIX_OPERATOR(!=, detail::named_op<"not_equal">())
QUARRY_SPARSE_MATRIX_OPERATOR(<, detail::named_op<"less">())
QUARRY_SPARSE_MATRIX_OPERATOR(<=, detail::named_op<"less_equal">())
QUARRY_SPARSE_MATRIX_OPERATOR(>, detail::named_op<"greater">())
QUARRY_SPARSE_MATRIX_OPERATOR(>=, detail::named_op<"greater_equal">())
#undef QUARRY_SPARSE_MATRIX_OPERATOR
// Without these C++ would take the operands of == in the other order.
inline SparseArray operator==(const SparseArray& a, const SparseMatrix& b) {
  return detail::elementwise(detail::named_op<"equal">(), a, b);
}
inline SparseArray operator!=(const SparseArray& a, const SparseMatrix& b) {
  return detail::elementwise(detail::named_op<"not_equal">(), a, b);
}
inline SparseMatrix operator==(const SparseMatrix& a, const SparseMatrix& b) {
  return SparseMatrix(detail::elementwise(detail::named_op<"equal">(), a, b));
}
inline SparseMatrix operator!=(const SparseMatrix& a, const SparseMatrix& b) {
  return SparseMatrix(detail::elementwise(detail::named_op<"not_equal">(), a, b));
}

// Python's a ** exponent: of an array element by element, of a matrix the product of so many. The exponent of a matrix
// is an integer that is not negative; others throw InvalidArgument.
inline SparseArray pow(const SparseArray& a, const Scalar& exponent) { return a.power(exponent); }
SparseMatrix pow(const SparseMatrix& a, const Scalar& exponent);

// Two axes: transposes, or the matrix itself.
inline SparseMatrix matrix_transpose(const SparseMatrix& a) { return a.transpose(); }
inline SparseMatrix swapaxes(const SparseMatrix& a, int64_t axis1, int64_t axis2) {
  return SparseMatrix(swapaxes(static_cast<const SparseArray&>(a), axis1, axis2));
}
inline SparseMatrix permute_dims(const SparseMatrix& a, const Axes& axes = {}) {
  return SparseMatrix(permute_dims(static_cast<const SparseArray&>(a), axes));
}

}  // namespace quarry::local::sparse
