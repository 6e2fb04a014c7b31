#include "quarry/local/sparse/direct.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>

#include "quarry/local/ndarray/transfer.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/sparse.h"
#include "quarry/local/program/sparse_factors.h"
#include "quarry/local/sparse/construct.h"
#include "quarry/local/sparse/eigen.h"
#include "quarry/local/sparse/products.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse::linalg {
namespace {

void check_square(const SparseArray& a) {
  if (a.rows() != a.columns())
    throw InvalidArgument("a: expected a square matrix, got shape " + local::to_string(a.shape()));
}
void check_right(const SparseArray& a, const NdArray& b) {
  if ((b.ndim() != 1 && b.ndim() != 2) || b.shape()[0] != a.rows())
    throw InvalidArgument(fmt::format("b: shape {} does not fit a of shape {}", local::to_string(b.shape()),
                                      local::to_string(a.shape())));
}
DType solving_dtype(DType dtype) { return is_float(dtype) || is_complex(dtype) ? dtype : DType::float64; }

SuperLU factorise(const SparseArray& a, const LuOptions& options) {
  check_square(a);
  const DType dtype = solving_dtype(a.dtype());
  if (a.rows() == 0) return SuperLU(nullptr, 0, dtype, a.device());
  const SparseArray host = canonical(a, Format::csc).astype(dtype).to(kCpu);
  if (host.nnz() > std::numeric_limits<int32_t>::max())
    throw NotSupported(fmt::format("a: SuperLU cannot factorise a matrix of {} elements", host.nnz()));
  if (any(apply("logical_not"_op, {apply("isfinite"_op, {host.data()})})))
    throw InvalidArgument("a: the matrix has NaN or infinity");
  const auto packed = [](const NdArray& x) { return x.is_contiguous() ? x : x.copy(default_context(kCpu)); };
  const NdArray offsets = packed(cast(host.indptr(), DType::int32)), rows = packed(cast(host.indices(), DType::int32));
  const NdArray values = packed(host.data());
  LuMatrix matrix{dtype, a.rows(), offsets.data<int32_t>(), rows.data<int32_t>(), values.raw()};
  return SuperLU(engine(kCpu).sparse().factorise(matrix, options), a.rows(), dtype, a.device());
}

SparseArray factor_array(const LuFactor& factor, int64_t n, DType dtype, Device device) {
  const auto count = static_cast<int64_t>(factor.rows.size());
  const ExecContext host = default_context(kCpu);
  SparseArray result(Format::csc, {n, n}, from_host(factor.values.data(), dtype, {count}, host),
                     from_host(factor.offsets.data(), DType::int32, {n + 1}, host),
                     from_host(factor.rows.data(), DType::int32, {count}, host));
  result.sum_duplicates();
  result.eliminate_zeros();
  return result.to(device);
}

}  // namespace

SuperLU::SuperLU(std::shared_ptr<const LuFactors> factors, int64_t n, DType dtype, Device device)
    : factors_(std::move(factors)), n_(n), dtype_(dtype), device_(device) {}

int64_t SuperLU::nnz() const { return factors_ ? factors_->nonzeros() : 0; }

NdArray SuperLU::solve(const NdArray& b, std::string_view trans) const {
  if (trans != "N" && trans != "T" && trans != "H")
    throw InvalidArgument(fmt::format("trans: '{}' is none of 'N', 'T', 'H'", trans));
  if ((b.ndim() != 1 && b.ndim() != 2) || b.shape()[0] != n_)
    throw InvalidArgument(fmt::format("b: shape {} does not fit a matrix of shape {}", local::to_string(b.shape()),
                                      local::to_string(shape())));
  if (is_complex(b.dtype()) && !is_complex(dtype_)) {  // the parts on their own
    const NdArray real = solve(b.real(), trans), imag = solve(b.imag(), trans);
    NdArray result(b.shape(), promote_types(dtype_, DType::complex64), context_of(b));
    result.real().assign(real, context_of(b));
    result.imag().assign(imag, context_of(b));
    return result;
  }
  const ExecContext host = default_context(kCpu);
  // By columns, in this matrix's dtype.
  const NdArray x = b.to(kCpu).reshape({n_, columns_of(b)}).T().astype(dtype_, host);
  if (factors_ && x.size() > 0) factors_->solve(x.raw(), x.shape()[0], trans[0]);
  return x.T().copy(host).reshape(b.shape()).to(b.device());
}

SparseArray SuperLU::L() const {
  if (!factors_) return SparseArray(Format::csc, shape(), dtype_, context_for(device_));
  return factor_array(factors_->lower(), n_, dtype_, device_);
}
SparseArray SuperLU::U() const {
  if (!factors_) return SparseArray(Format::csc, shape(), dtype_, context_for(device_));
  return factor_array(factors_->upper(), n_, dtype_, device_);
}
NdArray SuperLU::perm_r() const {
  return from_host(factors_ ? factors_->row_order().data() : nullptr, DType::int32, {n_}, default_context(kCpu))
      .to(device_);
}
NdArray SuperLU::perm_c() const {
  return from_host(factors_ ? factors_->column_order().data() : nullptr, DType::int32, {n_}, default_context(kCpu))
      .to(device_);
}

SuperLU splu(const SparseArray& a, std::string_view permc_spec, double diag_pivot_thresh, bool symmetric_mode) {
  return factorise(a, {.column_order = std::string(permc_spec),
                       .pivot_threshold = diag_pivot_thresh,
                       .symmetric_mode = symmetric_mode});
}

SuperLU spilu(const SparseArray& a, double drop_tol, double fill_factor, std::string_view permc_spec,
              double diag_pivot_thresh) {
  if (!(drop_tol >= 0)) throw InvalidArgument(fmt::format("drop_tol: {} is negative", drop_tol));
  if (!(fill_factor >= 1)) throw InvalidArgument(fmt::format("fill_factor: {} is below 1", fill_factor));
  return factorise(a, {.column_order = std::string(permc_spec),
                       .pivot_threshold = diag_pivot_thresh,
                       .incomplete = true,
                       .drop_tolerance = drop_tol,
                       .fill_factor = fill_factor});
}

std::function<NdArray(const NdArray&)> factorized(const SparseArray& a) {
  return [lu = splu(a)](const NdArray& b) { return lu.solve(b); };
}

NdArray spsolve(const SparseArray& a, const NdArray& b, std::string_view permc_spec) {
  check_square(a);
  check_right(a, b);
  const DType dtype = solving_dtype(promote_types(a.dtype(), b.dtype()));
  return splu(a.astype(dtype), permc_spec).solve(b);
}

SparseArray spsolve(const SparseArray& a, const SparseArray& b, std::string_view permc_spec) {
  return from_dense(spsolve(a, b.toarray(), permc_spec), b.format());
}

NdArray spsolve_triangular(const SparseArray& a, const NdArray& b, bool lower, bool unit_diagonal) {
  check_square(a);
  check_right(a, b);
  const NdArray* const arrays[] = {&a.data(), &b};
  common_device(arrays);
  const DType dtype = solving_dtype(promote_types(a.dtype(), b.dtype()));
  check_dtype(dtype, "b");
  // The transpose of CSC is CSR, of the other triangle.
  const bool transpose = a.format() == Format::csc;
  const SparseArray matrix = canonical(a, transpose ? Format::csc : Format::csr).astype(dtype);
  Lines lines = lines_of(matrix);
  const Triplets t = row_triplets(matrix);
  const NdArray beyond =
      apply(lower ? "greater"_op : "less"_op, {cast(t.minor, DType::int64), cast(t.major, DType::int64)});
  if (any(apply("logical_and"_op, {beyond, apply("not_equal"_op, {t.data, zero(dtype)})})))
    throw InvalidArgument(fmt::format("a: the matrix is not {} triangular", lower ? "lower" : "upper"));
  if (!unit_diagonal && any(apply("equal"_op, {matrix.diagonal(), zero(dtype)})))
    throw LinAlgError("a: the matrix is singular: there is a zero on its diagonal");
  const ExecContext context = context_of(b);
  const NdArray right = b.reshape({a.rows(), columns_of(b)}).T().astype(dtype, context);  // by columns
  const NdArray x(right.shape(), dtype, context);
  if (x.size() > 0) {
    for (NdArray* array : {&lines.data, &lines.indices, &lines.offsets})
      if (!array->is_contiguous() || array->offset() != 0) *array = array->copy(context);
    const NdArray* const read[] = {&lines.data, &lines.indices, &lines.offsets, &right};
    for (const NdArray* array : read) array->begin_read(context.stream);
    x.begin_write(context.stream);
    const auto view = [&](const NdArray& m) {
      return MatrixView{m.raw(), m.shape()[1], m.shape()[0], 1, m.shape()[1]};
    };
    const Triangle triangle = lower != transpose ? Triangle::lower : Triangle::upper;
    engine(context.device)
        .sparse()
        .solve({compressed_view(lines), triangle, unit_diagonal, transpose, view(right), view(x)}, context);
  }
  return x.T().copy(context).reshape(b.shape());
}

SparseArray matrix_power(const SparseArray& a, int64_t power) {
  check_square(a);
  if (power < 0) throw InvalidArgument(fmt::format("power: {} is negative", power));
  if (power == 0) return eye_array(a.rows(), a.rows(), 0, a.dtype(), Format::csr).to(a.device());
  SparseArray square = a;
  std::optional<SparseArray> result;
  for (;; square = matmul(square, square)) {
    if (power & 1) result = result ? matmul(*result, square) : square;
    power >>= 1;
    if (power == 0) return *result;
  }
}

// ---- Norms ----

namespace {

NdArray along(const SparseArray& magnitudes, std::string_view ord, int64_t axis) {
  if (ord == "inf") return magnitudes.max(axis);
  if (ord == "-inf") return magnitudes.min(axis);
  char* end = nullptr;
  const std::string text(ord == "fro" ? "2" : ord);
  const double p = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0) throw InvalidArgument(fmt::format("ord: '{}' is no norm of vectors", ord));
  if (p == 0) return cast(magnitudes.count_nonzero(axis), magnitudes.dtype());
  if (p == 1) return magnitudes.sum(axis);
  if (p == 2) return apply("sqrt"_op, {magnitudes.power(2).sum(axis)});
  return apply("power"_op, {magnitudes.power(p).sum(axis), Scalar(1 / p)});
}

}  // namespace

NdArray norm(const SparseArray& a, std::optional<std::string_view> ord, std::optional<int64_t> axis) {
  SparseArray magnitudes = canonical(a).asfptype();
  magnitudes = magnitudes.with_data(apply("absolute"_op, {magnitudes.data()}));
  if (axis) return along(magnitudes, ord.value_or("2"), *axis);
  const std::string_view kind = ord.value_or("fro");
  if (kind == "fro") return apply("sqrt"_op, {ops::sum(apply("square"_op, {magnitudes.data()}))});
  if (kind == "inf") return ops::max(magnitudes.sum(1));
  if (kind == "-inf") return ops::min(magnitudes.sum(1));
  if (kind == "1") return ops::max(magnitudes.sum(0));
  if (kind == "-1") return ops::min(magnitudes.sum(0));
  if (kind == "2") return svds(a, 1, {.return_singular_vectors = false}).values.reshape({});
  throw InvalidArgument(fmt::format("ord: '{}' is no norm of matrices", kind));
}

}  // namespace quarry::local::sparse::linalg

namespace quarry::local::sparse {

SparseMatrix pow(const SparseMatrix& a, const Scalar& exponent) {
  const bool whole = is_integer(exponent.dtype()) || exponent.dtype() == DType::bool_;
  if (!whole) throw InvalidArgument("exponent must be an integer");
  if (exponent.as_int64() < 0) throw InvalidArgument("exponent must be >= 0");
  return linalg::matrix_power(a, exponent.as_int64());
}

}  // namespace quarry::local::sparse
