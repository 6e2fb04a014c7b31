// Elementwise work and the reductions behind it, written once for arrays of one process and chunked ones: see
// local/ops/fuse/fusing.h.
#pragma once

#include <span>
#include <vector>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/ops/fuse/fusing.h"

namespace quarry::detail {

// As local::Fusing; what is reduced and run is fused by the planner, with all that is computed together.
class Fusing {
 public:
  using Value = Operand;
  using Reduced = local::ReducedValue<Value>;

  Value input(const Array& array) { return array; }
  template <class... Values>
  Value operator()(local::Op op, const Values&... values) {
    const Value args[] = {Value(values)...};
    return applied(op, args);
  }
  Value cast(const Value& x, DType dtype) const;
  DType dtype(const Value& x) const { return x.is_array() ? x.array().dtype() : x.scalar().dtype(); }
  std::vector<Array> run(const std::vector<Value>& values) const;
  std::vector<Array> reduce(const Dims& space, uint32_t mask, const std::vector<Reduced>& terms) const;

 private:
  static Value applied(local::Op op, std::span<const Value> args);
};

}  // namespace quarry::detail
