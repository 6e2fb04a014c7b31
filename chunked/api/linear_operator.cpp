#include "quarry/chunked/api/linear_operator.h"

#include <fmt/format.h>

#include "quarry/chunked/algo/sparse.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::sparse::linalg {
namespace {

using namespace compose;
using local::NotSupported;

void check_operand(const char* function, const Array& x, int64_t extent, bool vector) {
  const bool fits = x.ndim() >= 1 && x.shape()[0] == extent &&
                    (vector ? x.ndim() == 1 || (x.ndim() == 2 && x.shape()[1] == 1) : x.ndim() == 2);
  if (!fits)
    throw InvalidArgument(fmt::format("{}: x has shape {}, the operator takes ({}, {})", function,
                                      local::to_string(x.shape()), extent, vector ? "" : "k"));
}

using compose::conjugated;

// One column after the other.
Array by_columns(const LinearOperator::Apply& apply, const Array& x) {
  std::vector<Array> columns;
  for (int64_t j = 0; j < x.shape()[1]; ++j) columns.push_back(apply(squeeze(arrange::part(x, 1, j, 1), Axes(1))));
  return stack(columns, 1);
}

// A function of x, given as a vector, whose result is one too, and has x's axes again.
Array applied(const char* function, const LinearOperator::Apply& apply, const Array& x, int64_t takes, int64_t gives) {
  check_operand(function, x, takes, /*vector=*/true);
  const Array result = apply(x.ndim() == 1 ? x : squeeze(x, Axes(1)));
  if (result.size() != gives)
    throw InvalidArgument(
        fmt::format("{} gave shape {}, the operator has {}", function, local::to_string(result.shape()), gives));
  const Array vector = result.ndim() == 1 ? result : reshape(result, {gives});
  return x.ndim() == 1 ? vector : expand_dims(vector, 1);
}

// In the chunks that the matrix has along the axis that is summed over, as the user's choice: or products would copy
// the matrix into larger ones.
Array cut_as(const Array& x, const AxisChunks& chunks) {
  std::vector<AxisChunks> axes{chunks};
  for (int d = 1; d < x.ndim(); ++d) axes.push_back(x.chunks().axis(d));
  return x.rechunk(Grid(std::move(axes)));
}

template <class Matrix>
void check_square(const Matrix& a) {
  if (a.ndim() != 2 || a.shape()[0] != a.shape()[1])
    throw InvalidArgument("a: expected a square matrix, got shape " + local::to_string(a.shape()));
}

DType computed_in(DType dtype) {
  return local::is_half(dtype) ? DType::float32 : is_inexact(dtype) ? dtype : DType::float64;
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

LinearOperator::LinearOperator(const Array& a) : shape_(a.shape()), dtype_(a.dtype()) {
  if (a.ndim() != 2) throw InvalidArgument("an operator is made from a matrix, got shape " + local::to_string(shape_));
  row_chunks_ = a.chunks().axis(0);
  column_chunks_ = a.chunks().axis(1);
  const AxisChunks rows = *row_chunks_, columns = *column_chunks_;
  matvec_ = [=](const Array& x) { return quarry::matvec(a, cut_as(x, columns)); };
  matmat_ = [=](const Array& x) { return quarry::matmul(a, cut_as(x, columns)); };
  // A^H x is the conjugate of A^T times that of x: the matrix is read as it is.
  rmatvec_ = [=](const Array& x) { return conjugated(quarry::matvec(a.T(), cut_as(conjugated(x), rows))); };
  rmatmat_ = [=](const Array& x) { return conjugated(quarry::matmul(a.T(), cut_as(conjugated(x), rows))); };
}

LinearOperator::LinearOperator(const SparseArray& a) : shape_(a.shape()), dtype_(a.dtype()) {
  row_chunks_ = a.chunks();
  if (shape_[0] == shape_[1]) column_chunks_ = row_chunks_;
  matvec_ = matmat_ = [a](const Array& x) { return quarry::sparse::matmul(a, x); };
  const auto adjoint = std::make_shared<std::optional<SparseArray>>();
  rmatvec_ = rmatmat_ = [a, adjoint](const Array& x) {
    if (!*adjoint) *adjoint = a.H().persist();
    return quarry::sparse::matmul(**adjoint, x);
  };
}

Array LinearOperator::matvec(const Array& x) const { return applied("matvec", matvec_, x, shape_[1], shape_[0]); }

Array LinearOperator::rmatvec(const Array& x) const {
  if (!rmatvec_) throw NotSupported("the operator has no rmatvec");
  return applied("rmatvec", rmatvec_, x, shape_[0], shape_[1]);
}

Array LinearOperator::matmat(const Array& x) const {
  check_operand("matmat", x, shape_[1], /*vector=*/false);
  if (matmat_) return matmat_(x);
  if (x.shape()[1] == 0) return constant({shape_[0], 0}, 0, local::promote_types(dtype_, x.dtype()));
  return by_columns(matvec_, x);
}

Array LinearOperator::rmatmat(const Array& x) const {
  check_operand("rmatmat", x, shape_[0], /*vector=*/false);
  if (rmatmat_) return rmatmat_(x);
  if (!rmatvec_) throw NotSupported("the operator has no rmatvec");
  if (x.shape()[1] == 0) return constant({shape_[1], 0}, 0, local::promote_types(dtype_, x.dtype()));
  return by_columns(rmatvec_, x);
}

LinearOperator LinearOperator::adjoint() const {
  if (!rmatvec_) throw NotSupported("the operator has no rmatvec");
  LinearOperator result({shape_[1], shape_[0]}, rmatvec_, matvec_, dtype_, rmatmat_, matmat_);
  result.row_chunks_ = column_chunks_;
  result.column_chunks_ = row_chunks_;
  return result;
}

// A^T x = conj(A^H conj(x)).
LinearOperator LinearOperator::transpose() const {
  LinearOperator result = adjoint();
  if (!local::is_complex(dtype_)) return result;
  for (Apply* apply : {&result.matvec_, &result.rmatvec_, &result.matmat_, &result.rmatmat_}) {
    if (*apply) *apply = [inner = *apply](const Array& x) { return conjugated(inner(conjugated(x))); };
  }
  return result;
}

namespace {

LinearOperator combined(Array (*op)(const Operand&, const Operand&), const LinearOperator& a, const LinearOperator& b) {
  if (!(a.shape() == b.shape()))
    throw InvalidArgument(fmt::format("operators of shapes {} and {} do not add up", local::to_string(a.shape()),
                                      local::to_string(b.shape())));
  return LinearOperator(
      a.shape(), [=](const Array& x) { return op(a.matvec(x), b.matvec(x)); },
      [=](const Array& x) { return op(a.rmatvec(x), b.rmatvec(x)); }, local::promote_types(a.dtype(), b.dtype()),
      [=](const Array& x) { return op(a.matmat(x), b.matmat(x)); },
      [=](const Array& x) { return op(a.rmatmat(x), b.rmatmat(x)); });
}

}  // namespace

LinearOperator operator+(const LinearOperator& a, const LinearOperator& b) {
  return combined([](const Operand& x, const Operand& y) { return add(x, y); }, a, b);
}
LinearOperator operator-(const LinearOperator& a, const LinearOperator& b) {
  return combined([](const Operand& x, const Operand& y) { return subtract(x, y); }, a, b);
}

LinearOperator operator*(const LinearOperator& a, const LinearOperator& b) {
  if (a.shape()[1] != b.shape()[0])
    throw InvalidArgument(fmt::format("operators of shapes {} and {} do not follow each other",
                                      local::to_string(a.shape()), local::to_string(b.shape())));
  return LinearOperator(
      {a.shape()[0], b.shape()[1]}, [=](const Array& x) { return a.matvec(b.matvec(x)); },
      [=](const Array& x) { return b.rmatvec(a.rmatvec(x)); }, local::promote_types(a.dtype(), b.dtype()),
      [=](const Array& x) { return a.matmat(b.matmat(x)); }, [=](const Array& x) { return b.rmatmat(a.rmatmat(x)); });
}

LinearOperator operator*(const Scalar& factor, const LinearOperator& a) {
  const Scalar conjugate_factor = local::is_complex(factor.dtype()) ? Scalar(std::conj(factor.as_complex())) : factor;
  const local::PromotionOperand operands[] = {{a.dtype(), false}, {factor.dtype(), factor.weak()}};
  return LinearOperator(
      a.shape(), [=](const Array& x) { return a.matvec(x) * factor; },
      [=](const Array& x) { return a.rmatvec(x) * conjugate_factor; }, local::result_type(operands),
      [=](const Array& x) { return a.matmat(x) * factor; },
      [=](const Array& x) { return a.rmatmat(x) * conjugate_factor; });
}

// ---- Preconditioners ----

namespace {

LinearOperator division_by(const Array& diagonal, const Dims& shape, const AxisChunks& rows) {
  const DType dtype = computed_in(diagonal.dtype());
  const Array d = diagonal.astype(dtype).rechunk(Grid({rows}));
  const std::vector<Array> made =
      persist(std::vector<Array>{reciprocal(where(d == 0, constant({}, 1, dtype), d)), any(d == 0)});
  if (made[1].item<bool>()) throw local::LinAlgError("jacobi: the diagonal has a zero");
  const Array& factors = made[0];
  return LinearOperator(
      shape, [factors](const Array& x) { return x * factors; },
      [factors](const Array& x) { return x * conjugated(factors); }, dtype);
}

// `blocks`: those on the diagonal below each other, (n, the largest one's extent), filled up with zeros.
LinearOperator inverses_of(const Array& blocks, const Dims& shape, const AxisChunks& rows) {
  const DType dtype = blocks.dtype();
  const int64_t n = shape[0], width = blocks.shape()[1];
  const auto name = [](const char* text) {
    BlockOptions options;
    options.name = text;
    options.identity = op::Hash().add(std::string_view(text)).value;
    return options;
  };
  const auto square_part = [](const NdArray& x) {
    return x[{local::full_slice, Slice{0, std::min(x.shape()[0], x.shape()[1]), std::nullopt}}];
  };
  BlockOptions inverting = name("block_jacobi");
  inverting.dtypes = {dtype};
  const Array inverses =
      map_blocks(
          [square_part](const NdArray& x) {
            NdArray result = x.copy();
            square_part(result).assign(local::ops::inv(square_part(x)));
            return result;
          },
          blocks.rechunk(Grid({rows, AxisChunks(width, std::max<int64_t>(width, 1))})), {}, inverting)
          .persist();
  const auto applied_by = [=](const char* text, NdArray (*product)(const NdArray&, const NdArray&)) {
    return [=](const Array& x) {
      BlockOptions options = name(text);
      options.dtypes = {local::promote_types(dtype, x.dtype())};
      MapBlocksOptions how;
      how.chunks = Grid({rows, AxisChunks(1, 1)});
      const Array column = expand_dims(x.rechunk(Grid({rows})), 1);
      const auto function = [=](const NdArray& inverse, const NdArray& part) {
        return product(square_part(inverse), part);
      };
      return reshape(map_blocks(function, {inverses, column}, how, options), {n});
    };
  };
  return LinearOperator(
      shape, applied_by("block_jacobi(x)", [](const NdArray& m, const NdArray& x) { return local::ops::matmul(m, x); }),
      applied_by("block_jacobi^H(x)",
                 [](const NdArray& m, const NdArray& x) { return local::ops::matmul(local::conjugated(m).T(), x); }),
      dtype);
}

}  // namespace

LinearOperator jacobi(const Array& a) {
  check_square(a);
  return division_by(diagonal(a), a.shape(), a.chunks().axis(0));
}
LinearOperator jacobi(const SparseArray& a) {
  check_square(a);
  return division_by(a.diagonal(), a.shape(), a.chunks());
}

LinearOperator block_jacobi(const Array& a) {
  check_square(a);
  const DType dtype = computed_in(a.dtype());
  const AxisChunks& rows = a.chunks().axis(0);
  const int64_t width = rows.largest();
  // With the rows' owners.
  std::vector<Array> blocks;
  for (int64_t i = 0; i < rows.count(); ++i) {
    const int64_t start = rows.start(i), extent = rows.size(i);
    Array block = arrange::part(arrange::part(a, 0, start, extent), 1, start, extent).astype(dtype);
    if (extent < width) block = joined({block, constant({extent, width - extent}, 0, dtype)}, 1);
    blocks.push_back(block);
  }
  return inverses_of(concatenate(blocks, 0), a.shape(), rows);
}
LinearOperator block_jacobi(const SparseArray& a) {
  check_square(a);
  return inverses_of(a.diagonal_blocks().astype(computed_in(a.dtype())), a.shape(), a.chunks());
}

LinearOperator ilu(const Array& a) {
  check_square(a);
  return ilu(csr_array(a.astype(computed_in(a.dtype()))));
}
LinearOperator ilu(const SparseArray& a) {
  check_square(a);
  const SparseArray blocks = a.astype(computed_in(a.dtype())).block_diagonal();
  const DType dtype = blocks.dtype();
  const auto same = [](const Array& x) { return x; };
  if (a.shape()[0] == 0) return LinearOperator(a.shape(), same, same, dtype, same, same);
  // Where each row has a place on the diagonal, the columns that a chunk touches are its rows.
  const Array places = blocks.with_data(ones({blocks.nnz()}, DType::int64)).diagonal();
  const std::vector<Array> found = persist(std::vector<Array>{argmin(places), min(places)});
  if (found[1].item<int64_t>() == 0)
    throw local::LinAlgError(fmt::format("ilu: row {} has no element on the diagonal", found[0].item<int64_t>()));
  const Array values(algo::incomplete_factors(blocks.nodes(), blocks.structure()));
  const SparseArray factors = blocks.with_data(values).persist();
  const auto solve = [factors](bool adjoint) {
    return [=](const Array& x) {
      return Array(algo::incomplete_solution(factors.nodes(), factors.structure(), x.node(), adjoint));
    };
  };
  return LinearOperator(a.shape(), solve(false), solve(true), dtype, solve(false), solve(true));
}

}  // namespace quarry::sparse::linalg
