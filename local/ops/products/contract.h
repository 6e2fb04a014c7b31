// Matrix products of whole arrays by the engines: what matmul, dot, tensordot and einsum end in.
#pragma once

#include <vector>

#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/precision.h"

namespace quarry::local::linalg {

// c[p] = a[p] b[p] over the leading axes, which are the same for all three (broadcast_to() repeats): a (..., m, k), b
// (..., k, n), c (..., m, n), all of c's dtype on context's device; c is in C order and overlaps nothing. A matrix
// whose lines are not contiguous is copied first (only floats; vectors may have any positive stride). `conjugate`
// conjugates a, which must then have one row.
void multiply(const NdArray& a, const NdArray& b, const NdArray& c, bool conjugate, const ExecContext& context,
              local::Precision precision = local::Precision::exact);

// The matrices (..., rows, columns) in `dtype` and as the engines take them: as they are, or a copy. What broadcasting
// repeats is copied once.
NdArray prepared(const NdArray& m, DType dtype, const ExecContext& context);
// The first of prepared matrices.
MatrixView view_of(const NdArray& m);

// The labels of one operand's axes.
using Labels = std::vector<int>;

// The einsum of two operands of one dtype, for labels that each operand has at most once and with one extent: the
// result's axes are those of `out`, labels that are not in `out` are summed over. As one batched matrix product, or
// elementwise where nothing is summed over both. The result may be a transposed view.
NdArray contract(const NdArray& a, const Labels& a_labels, const NdArray& b, const Labels& b_labels, const Labels& out,
                 const ExecContext& context, local::Precision precision = local::Precision::exact);

// Sums over the axes whose labels are not in `out` (bool: any), in the dtype of `a`, and orders the axes as `out` has
// them.
NdArray sum_to(const NdArray& a, const Labels& labels, const Labels& out);

}  // namespace quarry::local::linalg
