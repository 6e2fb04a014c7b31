#include "quarry/local/ops/statistics/order.h"

#include <fmt/format.h>

#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/results.h"

namespace quarry::local {

NdArray numbers_per_row(const NdArray& rows) {
  Program program;
  const ValueId number[] = {
      applied(program, "logical_not"_op, {applied(program, "isnan"_op, {program.input(rows.dtype())})})};
  program.reduce("count_nonzero"_reduction, number, DType::bool_);
  const NdArray* inputs[] = {&rows};
  return run_reductions(program, inputs, rows.shape(), 1u << (rows.ndim() - 1), context_for(rows.device()))[0];
}

NdArray RankedRows::first() const {
  Dims shape = kept();
  const Dims result = shape;
  shape.insert(0, 1);
  return at(filled(shape, 0, DType::int64, context_for(device()))).reshape(result);
}

NdArray gathered(const NdArray& rows, const NdArray& positions, int kept) {
  NdArray result(positions.shape(), rows.dtype(), context_for(rows.device()));
  if (result.size() == 0) return result;
  IndexedElements from = elements_along(rows, rows.ndim() - 1, positions, positions.shape(), IndexMode::unchecked);
  for (int d = 0; d < rows.ndim() - 1; ++d) from.array.strides[kept + d] = rows.strides()[d];
  const NdArray* indices[] = {&positions};
  run_gather(rows, from, indices, result);
  return result;
}

NdArray store_statistic(const NdArray& result, const NdArray& out, Casting casting) {
  if (!(out.shape() == result.shape())) {
    throw InvalidArgument(fmt::format("Wrong shape of argument 'out', shape={} is required; got shape={}.",
                                      to_string(result.shape()), to_string(out.shape())));
  }
  if (!can_cast(result.dtype(), out.dtype(), casting)) {
    throw TypeError(fmt::format("Cannot cast output from dtype('{}') to dtype('{}') with casting rule '{}'",
                                local::name(result.dtype()), local::name(out.dtype()), local::name(casting)));
  }
  check_writable(out);
  const ExecContext context = context_for(out.device());
  out.assign(cast_to(result, out.dtype()), context);
  return out;
}

}  // namespace quarry::local
