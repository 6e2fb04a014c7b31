// Elementwise work and the reductions behind it, written once for arrays of one process and chunked ones (the Fusing of
// chunked/api/ma.h has the same members):
//   f.input(array)                      a value; numbers are values too
//   f(op, values...), f.cast(x, dtype)  more values
//   f.run({x, y})                       arrays of them, of one shape
//   f.reduce(space, mask, {terms})      an array for each reduction, the axes of `mask` as 1
// What one object makes is one program: one read of each input. It is run once.
#pragma once

#include <vector>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"

namespace quarry::local::detail {

// A reduction over values that are cast to `accumulate`. The arrays that Fusing::reduce() gives are of that dtype
// (float32 for the 16-bit floats), of bools and positions of theirs. One of: sum, prod, min, max, all, any,
// count_nonzero, argmin, argmax.
template <class V>
struct ReducedValue {
  Reduction reduction;
  V value;
  DType accumulate;
};

class Fusing {
 public:
  using Value = Fused::Value;
  using Reduced = ReducedValue<Value>;

  Value input(const NdArray& array) { return f_.input(array); }
  template <class... Values>
  Value operator()(Op op, const Values&... values) {
    return f_(op, values...);
  }
  Value cast(const Value& x, DType dtype) { return f_.cast(x, dtype); }
  DType dtype(const Value& x) const { return f_.dtype(x); }

  std::vector<NdArray> run(const std::vector<Value>& values);
  // The inputs broadcast to `space`. Throws InvalidArgument where there is nothing to reduce and no identity.
  std::vector<NdArray> reduce(const Dims& space, uint32_t mask, const std::vector<Reduced>& terms);

 private:
  Fused f_;
};

}  // namespace quarry::local::detail
