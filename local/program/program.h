// The typed program of elementwise operations, optionally ending in reductions: what an eager call, a fused chain and a
// chunk task all run.
//
// A program is a list of SSA values over one iteration space. Inputs are strided arrays, constants, index generators;
// operations come from ufunc.def; a value may be an elementwise output, or feed a reduction over some axes of the
// space. A reduction writes *state* arrays (reduction.def): states of disjoint parts are merged by combine_program()
// and turned into results by finalize_program(), which are programs themselves, so that tile, block, chunk and rank
// combine in one way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"
#include "quarry/local/program/op.h"

namespace quarry::local {

using ValueId = int32_t;

struct Value {
  enum class Kind : uint8_t { input, constant, index, op };
  Kind kind;
  DType dtype;                // of the value
  Op op{};                    // op: the operation; Op::cast converts args[0] to dtype
  DType loop = DType::bool_;  // op: the loop's dtype; the arguments have OpTypes::args (resolve() in op.h)
  int nargs = 0;
  ValueId args[3] = {-1, -1, -1};
  int slot = -1;         // input: number of the array operand; index: the axis; constant: position in constants()
  bool swapped = false;  // input: the bytes of each element (of each part of a complex) are in the other order
};

struct ProgramReduction {
  Reduction reduction;
  DType accumulate;           // dtype of the values fed in (NumPy's dtype= argument, or its default)
  std::vector<ValueId> args;  // the value; for argmin and argmax also its int64 position
};

class Program {
 public:
  // Array operand number inputs(); `swapped` reads foreign byte order.
  ValueId input(DType dtype, bool swapped = false);
  // A constant of that exact dtype. Its value is a launch parameter: programs that differ only in constants share one
  // compiled kernel.
  ValueId constant(const Scalar& value, DType dtype);
  // The global position along `axis` of the iteration space, int64 (Launch::index_offset plus the local one).
  ValueId index(int axis);
  // Applies `op` with NumPy's type resolution, inserting casts; throws TypeError where the ufunc has no loop for the
  // dtypes ("ufunc 'x' not supported for the input types"). `dtype` forces the loop as NumPy's dtype= does. An equal
  // application is not repeated: its value is returned.
  ValueId apply(Op op, std::span<const ValueId> args, std::optional<DType> dtype = std::nullopt);
  ValueId cast(ValueId value, DType dtype);  // astype, unsafe; the value itself where nothing changes
  void output(ValueId value);                // the next elementwise output
  // Appends a reduction of all reductions' common axes (Launch::reduce_axes).
  void reduce(Reduction reduction, std::span<const ValueId> args, DType accumulate);

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Scalar>& constants() const { return constants_; }  // with strong dtypes
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const std::vector<ProgramReduction>& reductions() const { return reductions_; }
  int inputs() const { return inputs_; }
  DType dtype(ValueId value) const { return values_[static_cast<size_t>(value)].dtype; }
  DType input_dtype(int slot) const;
  // Gives constant number `slot` another value of its dtype; the structure stays.
  void set_constant(int slot, const Scalar& value);
  // Identifies the structure without the constants' values: the key of kernel caches.
  std::string key() const;
  // Makes key() cheap until the structure changes, for programs that are kept.
  void keep_key() { key_ = key(); }

 private:
  void add(const Value& value);

  std::vector<Value> values_;
  std::vector<Scalar> constants_;
  std::vector<ValueId> outputs_;
  std::vector<ProgramReduction> reductions_;
  int inputs_ = 0;
  std::string key_;  // empty: not kept
};

// A reduction's state: one array per field.
std::vector<DType> state_dtypes(Reduction reduction, DType accumulate);
DType result_dtype(Reduction reduction, DType accumulate);
// NumPy's default accumulation dtype (sum of int32 -> int64, mean of int -> float64 ...). Throws TypeError where the
// reduction has no such loop.
DType accumulate_dtype(Reduction reduction, DType input);
// The value of a field of the state of no elements, of that dtype: the field's, or what it is widened to.
Scalar start_value(Reduction reduction, int field, DType dtype);
// Elementwise: inputs are the value, of the accumulation dtype, and where the reduction takes one its int64 position;
// outputs the fields of the state of that one element.
Program map_program(Reduction reduction, DType accumulate);
// Elementwise over states: inputs are the fields of a, then those of b; outputs the fields of the merged state. `a`
// precedes `b` in element order.
Program combine_program(Reduction reduction, DType accumulate);
// Elementwise: inputs are the fields; the one output has result_dtype(), or `out` if given. `ddof` serves var and std.
Program finalize_program(Reduction reduction, DType accumulate, double ddof, std::optional<DType> out = std::nullopt);

}  // namespace quarry::local
