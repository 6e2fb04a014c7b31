#include "quarry/local/sparse/linear_operator.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>

#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/products.h"

namespace quarry::local::sparse::linalg {
namespace {

// A matrix's adjoint, made once.
class Adjoint {
 public:
  explicit Adjoint(SparseArray a) : a_(std::move(a)) {}
  const SparseArray& get() {
    const std::lock_guard lock(mutex_);
    if (!adjoint_) adjoint_ = a_.H().tocsr();
    return *adjoint_;
  }

 private:
  SparseArray a_;
  std::optional<SparseArray> adjoint_;
  std::mutex mutex_;
};

void check_operand(const char* function, const NdArray& x, int64_t extent, bool vector) {
  const bool fits = x.ndim() >= 1 && x.shape()[0] == extent &&
                    (vector ? x.ndim() == 1 || (x.ndim() == 2 && x.shape()[1] == 1) : x.ndim() == 2);
  if (!fits)
    throw InvalidArgument(fmt::format("{}: x has shape {}, the operator takes ({}, {})", function,
                                      local::to_string(x.shape()), extent, vector ? "" : "k"));
}

// One column after the other.
NdArray by_columns(const LinearOperator::Apply& apply, const NdArray& x) {
  std::vector<NdArray> columns;
  for (int64_t j = 0; j < x.shape()[1]; ++j)
    columns.push_back(apply(x[{full_slice, j}].copy(default_context(x.device()))));
  return ops::stack(columns, 1);
}

}  // namespace

LinearOperator::LinearOperator(const Dims& shape, Apply matvec, Apply rmatvec, DType dtype, Apply matmat, Apply rmatmat)
    : shape_(shape),
      dtype_(dtype),
      matvec_(std::move(matvec)),
      rmatvec_(std::move(rmatvec)),
      matmat_(std::move(matmat)),
      rmatmat_(std::move(rmatmat)) {
  if (shape_.size() != 2 || shape_[0] < 0 || shape_[1] < 0)
    throw InvalidArgument("shape: an operator has two extents, got " + local::to_string(shape_));
  if (!matvec_) throw InvalidArgument("matvec: there must be one");
}

LinearOperator::LinearOperator(const SparseArray& a) : shape_(a.shape()), dtype_(a.dtype()) {
  const SparseArray rows = a.tocsr();
  const auto adjoint = std::make_shared<Adjoint>(rows);
  matvec_ = matmat_ = [rows](const NdArray& x) { return sparse::matmul(rows, x); };
  rmatvec_ = rmatmat_ = [adjoint](const NdArray& x) { return sparse::matmul(adjoint->get(), x); };
}

LinearOperator::LinearOperator(const NdArray& a) : shape_(a.shape()), dtype_(a.dtype()) {
  if (a.ndim() != 2) throw InvalidArgument("an operator is made from a matrix, got shape " + local::to_string(shape_));
  matvec_ = matmat_ = [a](const NdArray& x) { return local::linalg::matmul(a, x); };
  rmatvec_ = rmatmat_ = [a](const NdArray& x) { return local::linalg::matmul(local::conjugated(a).T(), x); };
}

NdArray LinearOperator::matvec(const NdArray& x) const {
  check_operand("matvec", x, shape_[1], true);
  const NdArray result = matvec_(x.reshape({-1}));
  if (result.size() != shape_[0])
    throw InvalidArgument(
        fmt::format("matvec gave shape {}, the operator has {} rows", local::to_string(result.shape()), shape_[0]));
  return x.ndim() == 1 ? result.reshape({-1}) : result.reshape({-1, 1});
}

NdArray LinearOperator::rmatvec(const NdArray& x) const {
  if (!rmatvec_) throw NotSupported("the operator has no rmatvec");
  check_operand("rmatvec", x, shape_[0], true);
  const NdArray result = rmatvec_(x.reshape({-1}));
  if (result.size() != shape_[1])
    throw InvalidArgument(
        fmt::format("rmatvec gave shape {}, the operator has {} columns", local::to_string(result.shape()), shape_[1]));
  return x.ndim() == 1 ? result.reshape({-1}) : result.reshape({-1, 1});
}

NdArray LinearOperator::matmat(const NdArray& x) const {
  check_operand("matmat", x, shape_[1], false);
  if (matmat_) return matmat_(x);
  return x.shape()[1] == 0 ? NdArray({shape_[0], 0}, promote_types(dtype_, x.dtype()), default_context(x.device()))
                           : by_columns(matvec_, x);
}

NdArray LinearOperator::rmatmat(const NdArray& x) const {
  check_operand("rmatmat", x, shape_[0], false);
  if (rmatmat_) return rmatmat_(x);
  if (!rmatvec_) throw NotSupported("the operator has no rmatvec");
  return x.shape()[1] == 0 ? NdArray({shape_[1], 0}, promote_types(dtype_, x.dtype()), default_context(x.device()))
                           : by_columns(rmatvec_, x);
}

LinearOperator LinearOperator::adjoint() const {
  if (!rmatvec_) throw NotSupported("the operator has no rmatvec");
  return LinearOperator({shape_[1], shape_[0]}, rmatvec_, matvec_, dtype_, rmatmat_, matmat_);
}

// A^T x = conj(A^H conj(x)).
LinearOperator LinearOperator::transpose() const {
  LinearOperator h = adjoint();
  if (!is_complex(dtype_)) return h;
  const auto conjugated = [](const Apply& apply) -> Apply {
    if (!apply) return {};
    return [apply](const NdArray& x) { return local::conjugated(apply(local::conjugated(x))); };
  };
  return LinearOperator(h.shape_, conjugated(h.matvec_), conjugated(h.rmatvec_), dtype_, conjugated(h.matmat_),
                        conjugated(h.rmatmat_));
}

namespace {

LinearOperator combined(Op op, const LinearOperator& a, const LinearOperator& b) {
  if (!(a.shape() == b.shape()))
    throw InvalidArgument(fmt::format("operators of shapes {} and {} do not add up", local::to_string(a.shape()),
                                      local::to_string(b.shape())));
  return LinearOperator(
      a.shape(),
      [=](const NdArray& x) {
        return apply(op, {a.matvec(x), b.matvec(x)});
      },
      [=](const NdArray& x) {
        return apply(op, {a.rmatvec(x), b.rmatvec(x)});
      },
      promote_types(a.dtype(), b.dtype()),
      [=](const NdArray& x) {
        return apply(op, {a.matmat(x), b.matmat(x)});
      },
      [=](const NdArray& x) {
        return apply(op, {a.rmatmat(x), b.rmatmat(x)});
      });
}

}  // namespace

LinearOperator operator+(const LinearOperator& a, const LinearOperator& b) { return combined("add"_op, a, b); }
LinearOperator operator-(const LinearOperator& a, const LinearOperator& b) { return combined("subtract"_op, a, b); }

LinearOperator operator*(const LinearOperator& a, const LinearOperator& b) {
  if (a.shape()[1] != b.shape()[0])
    throw InvalidArgument(fmt::format("operators of shapes {} and {} do not follow each other",
                                      local::to_string(a.shape()), local::to_string(b.shape())));
  return LinearOperator(
      {a.shape()[0], b.shape()[1]}, [=](const NdArray& x) { return a.matvec(b.matvec(x)); },
      [=](const NdArray& x) { return b.rmatvec(a.rmatvec(x)); }, promote_types(a.dtype(), b.dtype()),
      [=](const NdArray& x) { return a.matmat(b.matmat(x)); },
      [=](const NdArray& x) { return b.rmatmat(a.rmatmat(x)); });
}

LinearOperator operator*(const Scalar& factor, const LinearOperator& a) {
  const Scalar conjugated = is_complex(factor.dtype()) ? Scalar(std::conj(factor.as_complex())) : factor;
  const PromotionOperand operands[] = {{a.dtype(), false}, {factor.dtype(), factor.weak()}};
  return LinearOperator(
      a.shape(), [=](const NdArray& x) { return a.matvec(x) * factor; },
      [=](const NdArray& x) { return a.rmatvec(x) * conjugated; }, result_type(operands),
      [=](const NdArray& x) { return a.matmat(x) * factor; },
      [=](const NdArray& x) { return a.rmatmat(x) * conjugated; });
}

}  // namespace quarry::local::sparse::linalg
