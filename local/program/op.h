// The enums of local/program/ufunc.def and reduction.def, their rows as data, and NumPy's type resolution.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/local/base/dtype.h"

namespace quarry::local {

enum class Op : uint16_t {
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, expression) name,
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
};

enum class Reduction : uint8_t {
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, f0, f1, f2, c0, c1, c2, finalize) name,
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
};

// What type resolution adds to "the first loop that all operands cast to safely".
enum class OpRule : uint8_t {
  plain,
  no_bool,      // no loop when every operand is bool
  true_divide,  // bool and integer loops are float64
  double_only,  // float64 and complex128 only
  comparison,   // int64 with uint64 compares exactly, each argument in its own dtype
  logical,      // the loop is the promoted dtype; no safe loop is needed, for truth values mix freely
  select,       // x is bool; y and z decide
  scale,        // ldexp: y is int64
  storage,      // nextafter, spacing: float16 and bfloat16 are computed in their own format
  cast,         // Program::cast() only
  random,       // x int64, y and z uint64; the dtype must be given
  bounded,      // x uint64; y and z decide between int64 and uint64
  sampler,      // x uint64, y and z float64, as the result
};

struct OpInfo {
  const char* name;     // NumPy's
  const char* aliases;  // separated by spaces
  int arity;
  const char* kinds;  // letters of kind() that have loops
  enum class Result : uint8_t { same, boolean, real, count, exponent } result;
  OpRule rule;
  const char* expression;  // device-neutral C++ of x, y, z
};
inline constexpr int kOpCount = [] {
  int rows = 0;
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, expression) ++rows;
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
  return rows;
}();
const OpInfo& info(Op op);
std::optional<Op> find_op(std::string_view name);  // by NumPy's name or an alias

// A ufunc with several outputs: the tuple of the results of `outputs`, each applied to the same arguments.
struct MultiOutput {
  const char* name;  // divmod, modf, frexp
  std::vector<Op> outputs;
};
std::span<const MultiOutput> multi_outputs();
const MultiOutput* find_multi_output(std::string_view name);

struct ReductionInfo {
  const char* name;
  const char* aliases;
  const char* kinds;
  bool has_identity;  // false: NumPy raises ValueError for no elements ("zero-size array to reduction operation ...")
  int fields;         // of the state
  bool has_position;  // takes (value, int64 position)
  // NumPy's keywords, which follow from the row: a dtype to accumulate in, where it is not that of the values; a first
  // value, where states are values; ddof.
  bool takes_dtype, takes_initial, takes_ddof;
  // Device-neutral C++ expressions as in reduction.def; null beyond `fields`.
  const char* combine[3];
  const char* finalize;
};
inline constexpr int kReductionCount = [] {
  int rows = 0;
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, f0, f1, f2, c0, c1, c2, finalize) ++rows;
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
  return rows;
}();
const ReductionInfo& info(Reduction reduction);
std::optional<Reduction> find_reduction(std::string_view name);

// The dtypes of one application of an operation.
struct OpTypes {
  DType loop;     // Value::loop
  DType args[3];  // what each argument is converted to
  DType result;
};
// NumPy 2's type resolution under NEP 50; `dtype` forces the loop as NumPy's dtype= does. Throws TypeError where the
// ufunc has no loop ("ufunc 'x' not supported for the input types ...") or where `casting` forbids the conversion of an
// operand, InvalidArgument for a wrong number of operands. Weak operands are literals; bind them as constants of
// OpTypes::args.
OpTypes resolve(Op op, std::span<const PromotionOperand> operands, std::optional<DType> dtype = std::nullopt,
                Casting casting = Casting::same_kind);

}  // namespace quarry::local
