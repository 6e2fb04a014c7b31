#include "quarry/chunked/api/fusing.h"

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"

namespace quarry {

Fusing::Value Fusing::applied(local::Op op, std::span<const Value> args) { return quarry::apply(op, args); }

Fusing::Value Fusing::cast(const Value& x, DType dtype) const {
  if (x.is_array()) return x.array().dtype() == dtype ? x : Value(x.array().astype(dtype));
  return Scalar::strong(x.scalar(), dtype);
}

namespace {

Array array_of(const Fusing::Value& value, const Dims& shape) {
  if (!value.is_array()) return full(shape, value.scalar(), value.scalar().dtype());
  return value.array().shape() == shape ? value.array() : broadcast_to(value.array(), shape);
}

}  // namespace

std::vector<Array> Fusing::run(const std::vector<Value>& values) const {
  Dims shape;
  for (const Value& value : values)
    if (value.is_array()) shape = local::broadcast_shapes(shape, value.array().shape());
  std::vector<Array> results;
  for (const Value& value : values) results.push_back(array_of(value, shape));
  return results;
}

std::vector<Array> Fusing::reduce(const Dims& space, uint32_t mask, const std::vector<Reduced>& terms) const {
  std::vector<int64_t> axes;
  for (int d = 0; d < space.size(); ++d)
    if ((mask >> d & 1u) != 0) axes.push_back(d);
  std::vector<Array> results;
  for (const Reduced& term : terms) {
    const local::ReductionInfo& row = local::info(term.reduction);
    ReduceOptions options;
    options.keepdims = true;
    if (row.takes_dtype) options.dtype = local::widened(term.accumulate);
    const Array values = array_of(cast(term.value, term.accumulate), space);
    const bool all = static_cast<int>(axes.size()) == space.size();
    results.push_back(quarry::reduce(term.reduction, values, all ? Axes() : Axes(axes), options));
  }
  return results;
}

}  // namespace quarry
