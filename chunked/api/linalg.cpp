#include "quarry/chunked/api/linalg.h"

#include <fmt/format.h>

#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {

using local::InvalidArgument;

namespace {

Dims batch_shape(const Array& x) { return Dims(x.shape().begin(), x.shape().end() - 2); }

Array with_batch(const Array& x, const Dims& batch) {
  Dims shape = batch;
  shape.push_back(x.shape(-2));
  shape.push_back(x.shape(-1));
  return Array(expr::broadcast_to(x.node(), shape));
}

}  // namespace

Array matmul(const Array& a, const Array& b, Precision precision) {
  for (const Array* x : {&a, &b})
    if (x->ndim() == 0)
      throw InvalidArgument(
          fmt::format("matmul: Input operand {} does not have enough dimensions (has 0, gufunc core with signature "
                      "(n?,k),(k,m?)->(n?,m?) requires 1)",
                      x == &a ? 0 : 1));
  Array left = a.ndim() == 1 ? expand_dims(a, 0) : a;
  Array right = b.ndim() == 1 ? expand_dims(b, 1) : b;
  const int64_t k = left.shape(-1);
  if (k != right.shape(-2))
    throw InvalidArgument(
        fmt::format("matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc "
                    "signature (n?,k),(k,m?)->(n?,m?) (size {} is different from {}), shapes {} {}",
                    right.shape(-2), k, local::to_string(a.shape()), local::to_string(b.shape())));
  const local::PromotionOperand dtypes[] = {{a.dtype(), false}, {b.dtype(), false}};
  const DType dtype = local::result_type(dtypes);
  const Dims batch = local::broadcast_shapes(batch_shape(left), batch_shape(right));
  left = with_batch(left.astype(dtype), batch);
  right = with_batch(right.astype(dtype), batch);
  Dims shape = batch;
  shape.push_back(left.shape(-2));
  shape.push_back(right.shape(-1));
  const Precision kept = dtype == DType::float32 ? precision : Precision::exact;
  // Sums of nothing, and nothing to sum into.
  Array c = k == 0 || local::element_count(shape) == 0
                ? Array(expr::constant(0, dtype, shape))
                : Array(expr::matmul(left.node(), right.node(), /*syrk=*/false, kept));
  uint32_t added = 0;
  if (a.ndim() == 1) added |= uint32_t{1} << (c.ndim() - 2);
  if (b.ndim() == 1) added |= uint32_t{1} << (c.ndim() - 1);
  if (added == 0) return c;
  std::vector<int64_t> axes;
  for (int d = 0; d < c.ndim(); ++d)
    if (added >> d & 1) axes.push_back(d);
  return squeeze(c, Axes(std::move(axes)));
}

}  // namespace quarry
