#include "quarry/local/ops/linalg/hermitian.h"

#include <fmt/format.h>

#include "quarry/local/device/device.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/products/contract.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/program/decompositions.h"
#include "quarry/local/program/products.h"

namespace quarry::local::linalg {
namespace {

bool engine_has_gemm(DType dtype) { return is_float(dtype) || is_complex(dtype); }

}  // namespace

NdArray matmul(const NdArray& a, const NdArray& b) { return ops::matmul(a, b); }

NdArray gram(const NdArray& a) {
  if (a.ndim() != 2) throw InvalidArgument(fmt::format("gram() takes a matrix, not shape {}", to_string(a.shape())));
  const ExecContext context = context_for(a.device());
  const DType dtype = engine_has_gemm(a.dtype()) ? a.dtype() : DType::float64;
  NdArray result({a.shape(1), a.shape(1)}, dtype, context);
  if (result.size() == 0) return result;
  if (a.shape(0) == 0) {
    result.fill(0, context);
    return result;
  }
  const NdArray operand = prepared(a, dtype, context);
  operand.begin_read(context.stream);
  engine(context.device).products().syrk({dtype, /*alpha=*/1, view_of(operand), /*beta=*/0, view_of(result)}, context);
  return result;
}

std::pair<NdArray, NdArray> eigh(const NdArray& a, Triangle triangle) {
  if (a.ndim() != 2 || a.shape(0) != a.shape(1))
    throw InvalidArgument(fmt::format("eigh takes a square matrix, not shape {}", to_string(a.shape())));
  if (is_half(a.dtype())) throw TypeError(fmt::format("array type {} is unsupported in linalg", name(a.dtype())));
  const ExecContext context = context_for(a.device());
  const DType dtype = engine_has_gemm(a.dtype()) ? a.dtype() : DType::float64;
  const int64_t n = a.shape(0);
  std::pair<NdArray, NdArray> result(NdArray({n}, real_type(dtype), context), NdArray({n, n}, dtype, context));
  if (n == 0) return result;
  const NdArray operand = prepared(a, dtype, context);
  operand.begin_read(context.stream);
  engine(context.device)
      .decompositions()
      .eigh(dtype, triangle, view_of(operand), result.first.raw(), view_of(result.second), context);
  context.stream->synchronize();
  return result;
}

}  // namespace quarry::local::linalg
