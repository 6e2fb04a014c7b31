// Linear maps by what they do to vectors: what the iterative solvers work with.
#pragma once

#include <functional>
#include <optional>

#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::sparse::linalg {

// A sparse matrix is kept in CSR, so that many products follow quickly; its adjoint is made at the first use. Cheap to
// copy. Vectors are (n,) or (n, 1) and results like them; matrices are (n, k).
class LinearOperator {
 public:
  using Apply = std::function<NdArray(const NdArray&)>;

  // Without rmatvec there is no adjoint; matmat goes column by column where it is not given.
  LinearOperator(const Dims& shape, Apply matvec, Apply rmatvec = {}, DType dtype = DType::float64, Apply matmat = {},
                 Apply rmatmat = {});
  LinearOperator(const SparseArray& a);
  LinearOperator(const NdArray& a);

  const Dims& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  // Throw InvalidArgument for shapes that do not match, NotSupported where there is no adjoint.
  NdArray matvec(const NdArray& x) const;
  NdArray rmatvec(const NdArray& x) const;  // A^H x
  NdArray matmat(const NdArray& x) const;
  NdArray rmatmat(const NdArray& x) const;
  NdArray dot(const NdArray& x) const { return x.ndim() == 2 && x.shape()[1] != 1 ? matmat(x) : matvec(x); }
  NdArray operator()(const NdArray& x) const { return dot(x); }

  LinearOperator adjoint() const;
  LinearOperator H() const { return adjoint(); }
  LinearOperator transpose() const;
  LinearOperator T() const { return transpose(); }

 private:
  Dims shape_;
  DType dtype_;
  Apply matvec_, rmatvec_, matmat_, rmatmat_;
};
LinearOperator operator+(const LinearOperator& a, const LinearOperator& b);
LinearOperator operator-(const LinearOperator& a, const LinearOperator& b);
LinearOperator operator*(const LinearOperator& a, const LinearOperator& b);  // a of b
LinearOperator operator*(const Scalar& factor, const LinearOperator& a);

inline LinearOperator aslinearoperator(const LinearOperator& a) { return a; }

}  // namespace quarry::local::sparse::linalg
