#include "quarry/local/sparse/arithmetic.h"

#include <fmt/format.h>

#include "quarry/local/base/log.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {
namespace {

// By address, else by value: a comparison costs little beside a merge.
bool same_array(const NdArray& a, const NdArray& b) {
  if (!(a.shape() == b.shape())) return false;
  if (a.buffer() == b.buffer() && a.offset() == b.offset()) return true;
  return !any(apply("not_equal"_op, {a, b}));
}

// Values of two matrices at the same coordinates: the elements of either, with zeros where one has none, or of both.
struct Aligned {
  NdArray a, b, major, minor;
};

NdArray with_zero(const NdArray& data) { return ops::concatenate({data, zeros(1, data.dtype(), data.device())}); }

Aligned align(const Lines& a, const Lines& b, bool both) {
  const Triplets left = triplets_of(a), right = triplets_of(b);
  const int64_t na = a.data.size(), nb = b.data.size(), n = na + nb;
  const Device device = a.data.device();
  // Elements by number, a's first: of equal coordinates a's comes first too.
  const Triplets all = sorted({counting(n, device), ops::concatenate({left.major, right.major}),
                               ops::concatenate({left.minor, right.minor}), a.count, a.extent});
  NdArray starts = group_starts(all);
  const int64_t groups = starts.size();
  const NdArray end = zeros(1, DType::int64, device);
  end.fill(n, context_of(end));
  const NdArray ends = groups == 0 ? starts : ops::concatenate({slice(starts, 1, groups), end});
  NdArray paired = (ends - starts) == Scalar(2);
  if (both) {
    const std::vector<NdArray> kept = keep(paired, {starts, paired});
    starts = kept[0];
    paired = kept[1];
  }
  const NdArray first = gather(all.data, starts);
  const NdArray second =
      gather(all.data, apply("minimum"_op, {starts + Scalar(1), Scalar(std::max<int64_t>(n - 1, 0))}));
  // The place of a missing element is that of the zero behind the others.
  const NdArray of_a = first < Scalar(na);
  const NdArray at_a = apply("where"_op, {of_a, first, Scalar(na)});
  const NdArray at_b =
      apply("where"_op, {paired, second - Scalar(na), apply("where"_op, {of_a, Scalar(nb), first - Scalar(na)})});
  return {gather(with_zero(a.data), at_a), gather(with_zero(b.data), at_b), gather(all.major, starts),
          gather(all.minor, starts)};
}

SparseArray without_zeros(Format format, const Dims& shape, const NdArray& data, const NdArray& major,
                          const NdArray& minor) {
  const std::vector<NdArray> kept = keep(apply("not_equal"_op, {data, zero(data.dtype())}), {data, major, minor});
  const DType index = index_dtype_for(shape, kept[0].size());
  const int64_t lines = shape[major_axis(format)];
  return SparseArray(format, shape, kept[0], line_offsets(kept[1], lines, index), cast(kept[2], index), true);
}

// Whether op(0, 0) is 0, and what dtype it has; for a scalar as one operand op(0, it).
NdArray of_zeros(Op op, const Arg& a, const Arg& b) { return apply(op, {a, b}); }
NdArray host_zero(DType dtype) { return zeros(1, dtype, kCpu); }
bool maps_to_zero(const NdArray& result) { return !any(apply("not_equal"_op, {result, zero(result.dtype())})); }

void note_dense(Op op) {
  if (log_enabled(LogLevel::info))
    log(LogLevel::info,
        fmt::format("sparse: {} is not zero where its operands are: the result stores every element", info(op).name));
}

Format result_format(const SparseArray& a) { return a.format() == Format::csc ? Format::csc : Format::csr; }

// The matrix with an axis of one element repeated, where the shape asks for it.
SparseArray broadcast(const SparseArray& a, const Dims& shape) {
  SparseArray result = a;
  if (a.rows() != shape[0]) result = result.index(IndexTerm(zeros(shape[0], DType::int64, a.device())));
  if (a.columns() != shape[1])
    result = result.index(IndexTerm(full_slice), IndexTerm(zeros(shape[1], DType::int64, a.device())));
  return result;
}

// The elements of a dense array of at most two dimensions at a matrix's coordinates.
NdArray sample(const NdArray& dense, const Triplets& at) {
  const Dims shape{at.count, at.extent};
  const NdArray wide = dense.broadcast_to(shape);
  if (at.data.size() == 0) return NdArray({0}, dense.dtype(), context_of(at.data));
  return ops::get(wide, {IndexTerm(at.major), IndexTerm(at.minor)});
}

SparseArray with_dense(Op op, const SparseArray& given, const NdArray& dense) {
  if (dense.ndim() > 2)
    throw InvalidArgument(
        fmt::format("other: at most two dimensions are possible, got shape {}", local::to_string(dense.shape())));
  const SparseArray a =
      broadcast(given.format() == Format::dia ? given.tocsr() : given, broadcast_shapes(given.shape(), dense.shape()));
  return a.with_data(apply(op, {a.data(), sample(dense, row_triplets(a))}));
}

SparseArray with_sparse(Op op, const SparseArray& a, const SparseArray& b) {
  if (!(a.shape() == b.shape()))
    throw InvalidArgument(
        fmt::format("inconsistent shapes: {} and {}", local::to_string(a.shape()), local::to_string(b.shape())));
  const Format format = result_format(a);
  if (!maps_to_zero(of_zeros(op, host_zero(a.dtype()), host_zero(b.dtype())))) {
    note_dense(op);
    return from_dense(apply(op, {a.toarray(), b.toarray()}), format);
  }
  const SparseArray left = canonical(a, format), right = canonical(b, format);
  if (same_array(left.second(), right.second()) && same_array(left.first(), right.first())) {
    const NdArray data = apply(op, {left.data(), right.data()});
    if (!any(apply("equal"_op, {data, zero(data.dtype())}))) {  // nothing moves
      const DType index = index_dtype_for(a.shape(), data.size());
      return SparseArray(format, a.shape(), data, cast(left.first(), index), cast(left.second(), index), true);
    }
    const Triplets t = triplets_of(lines_of(left));
    return without_zeros(format, a.shape(), data, t.major, t.minor);
  }
  const Aligned both = align(lines_of(left), lines_of(right), op == "multiply"_op || op == "logical_and"_op);
  return without_zeros(format, a.shape(), apply(op, {both.a, both.b}), both.major, both.minor);
}

SparseArray with_scalar(Op op, const SparseArray& a, const Scalar& scalar, bool scalar_first) {
  const NdArray nothing = host_zero(a.dtype());
  const auto of = [&](const NdArray& x) {
    return scalar_first ? apply(op, {Arg(scalar), Arg(x)}) : apply(op, {Arg(x), Arg(scalar)});
  };
  if (op == "multiply"_op || op == "divide"_op) {  // what is not stored stays 0, whatever 0 * inf or 0 / 0 is
    if (op == "divide"_op && scalar_first) throw NotSupported("a scalar divided by a sparse matrix is not sparse");
    return a.with_data(of(a.data()));
  }
  if (maps_to_zero(of(nothing))) {
    SparseArray result = a;
    result.sum_duplicates();
    result = result.with_data(of(result.data()));
    result.eliminate_zeros();
    return result;
  }
  if (op == "add"_op || op == "subtract"_op)
    throw NotSupported("adding a nonzero scalar to a sparse matrix is not supported");
  note_dense(op);
  return from_dense(of(a.toarray()), result_format(a));
}

SparseArray of_stored(Op op, const SparseArray& a) {
  if (!maps_to_zero(apply(op, {host_zero(a.dtype())})))
    throw NotSupported(fmt::format("{} of a sparse matrix is not sparse", info(op).name));
  SparseArray result = a;
  result.sum_duplicates();
  return result.with_data(apply(op, {result.data()}));
}

}  // namespace

SparseArray multiply(const SparseArray& a, const SparseArray& b) {
  if (a.shape() == b.shape()) return elementwise("multiply"_op, a, b);
  const Dims shape = broadcast_shapes(a.shape(), b.shape());
  return elementwise("multiply"_op, broadcast(a, shape), broadcast(b, shape));
}
SparseArray multiply(const SparseArray& a, const NdArray& b) { return with_dense("multiply"_op, a, b); }
SparseArray divide(const SparseArray& a, const NdArray& b) {
  SparseArray summed = a;
  summed.sum_duplicates();
  return with_dense("divide"_op, summed, b);
}
NdArray divide(const SparseArray& a, const SparseArray& b) {
  if (!(a.shape() == b.shape()))
    throw InvalidArgument(
        fmt::format("inconsistent shapes: {} and {}", local::to_string(a.shape()), local::to_string(b.shape())));
  return apply("divide"_op, {a.toarray(), b.toarray()});
}

SparseArray SparseArray::multiply(const SparseArray& other) const { return sparse::multiply(*this, other); }
SparseArray SparseArray::multiply(const Arg& other) const {
  return other.array() ? sparse::multiply(*this, *other.array()) : elementwise("multiply"_op, *this, other.scalar());
}
SparseArray SparseArray::maximum(const SparseArray& other) const { return elementwise("maximum"_op, *this, other); }
SparseArray SparseArray::maximum(const Scalar& other) const { return elementwise("maximum"_op, *this, other); }
SparseArray SparseArray::minimum(const SparseArray& other) const { return elementwise("minimum"_op, *this, other); }
SparseArray SparseArray::minimum(const Scalar& other) const { return elementwise("minimum"_op, *this, other); }

SparseArray SparseArray::power(const Scalar& exponent, std::optional<DType> dtype) const {
  if (exponent.as_complex() == std::complex<double>(0))
    throw NotSupported("exponent: the power 0 of a sparse matrix is not sparse");
  SparseArray base = dtype ? astype(*dtype) : *this;
  base.sum_duplicates();
  return base.with_data(apply("power"_op, {base.data_, exponent}));
}

}  // namespace quarry::local::sparse

namespace quarry::local::detail {

using sparse::SparseArray;

SparseArray elementwise(Op op, const SparseArray& a, const SparseArray& b) { return sparse::with_sparse(op, a, b); }
SparseArray elementwise(Op op, const SparseArray& a, const Scalar& b) { return sparse::with_scalar(op, a, b, false); }
SparseArray elementwise(Op op, const Scalar& a, const SparseArray& b) { return sparse::with_scalar(op, b, a, true); }
NdArray elementwise(Op op, const SparseArray& a, const NdArray& b) { return apply(op, {a.toarray(), b}); }
NdArray elementwise(Op op, const NdArray& a, const SparseArray& b) { return apply(op, {a, b.toarray()}); }
SparseArray elementwise(Op op, const SparseArray& a) { return sparse::of_stored(op, a); }

}  // namespace quarry::local::detail
