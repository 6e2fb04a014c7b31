// Operations and reductions by name: what the rows of local/program/ufunc.def and reduction.def say, and NumPy's type
// resolution. Nothing here reads the rows, so that a new row compiles few units again: code that names an operation
// says "add"_op or "sum"_reduction. The enumerators (Op::add, Reduction::sum), for switches and constants, are in
// op_enum.h and reduction_enum.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/local/base/dtype.h"

namespace quarry::local::detail {

enum class Op : uint16_t;        // a row of ufunc.def
enum class Reduction : uint8_t;  // a row of reduction.def

// A name as an argument of a template.
template <size_t n>
struct RowName {
  consteval RowName(const char (&name)[n]) {
    for (size_t i = 0; i < n; ++i) text[i] = name[i];
  }
  char text[n];
};
// The row with NumPy's name (not an alias). One per row is made in op.cpp: a name without a row does not link.
template <RowName name>
[[gnu::const]] Op named_op();
template <RowName name>
[[gnu::const]] Reduction named_reduction();

// What type resolution adds to "the first loop that all operands cast to safely".
enum class OpRule : uint8_t {
  plain,
  part,         // as plain: an output of a function with several, which is no function by itself
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
  enum class Identity : uint8_t { none, zero, one, all_ones, lowest } identity;   // the reduction of no elements
  enum class Grouping : uint8_t { in_order, associative, reorderable } grouping;  // of a reduction's applications
  int cost;                                                                       // rough cycles per element
  const char* expression;                                                         // device-neutral C++ of x, y, z
};
int op_count();  // the rows are numbered from 0
const OpInfo& info(Op op);
std::optional<Op> find_op(std::string_view name);  // by NumPy's name or an alias

// A ufunc with several outputs: the tuple of the results of `outputs`, each applied to the same arguments.
struct MultiOutput {
  const char* name;  // divmod, modf, frexp
  std::vector<Op> outputs;
};
std::span<const MultiOutput> multi_outputs();
const MultiOutput* find_multi_output(std::string_view name);

// The value of a state's field before any element: of the field's dtype.
enum class FieldStart : uint8_t {
  none,  // the state has no such field
  zero,
  one,
  lowest,   // of the dtype; -inf, False
  highest,  // inf, True
  nowhere,  // -1, the position of no element
};

// The dtype of a state's field, given that of the accumulation.
enum class FieldDType : uint8_t {
  none,        // the state has no such field
  value,       // the same; float32 for the 16-bit floats
  exact,       // the same
  real_value,  // the real type of `value`
  boolean,
  position,  // int64: positions and counts
};

struct ReductionInfo {
  const char* name;
  const char* aliases;  // separated by spaces
  const char* kinds;
  bool has_identity;  // false: NumPy raises ValueError for no elements ("zero-size array to reduction operation ...")
  int fields;         // of the state
  bool has_position;  // takes (value, int64 position)
  // NumPy's keywords, which follow from the row: a dtype to accumulate in, where it is not that of the values; a first
  // value, where states are values; ddof.
  bool takes_dtype, takes_initial, takes_ddof;
  bool of_truth;      // of the elements' truth, not of their values
  int count_field;    // the field that counts the elements one by one, or -1
  const char* ufunc;  // whose reduce() it is, by NumPy's name; null
  FieldDType dtype[3];
  FieldStart start[3];
  // Device-neutral C++ expressions as in reduction.def; null beyond `fields`.
  const char* map[3];
  const char* combine[3];
  const char* finalize;
};
int reduction_count();  // the rows are numbered from 0
const ReductionInfo& info(Reduction reduction);
std::optional<Reduction> find_reduction(std::string_view name);  // by NumPy's name or an alias
// The reduction that `op`.reduce() is, if it is one.
std::optional<Reduction> reduction_of(Op op);

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

template <RowName name>
Op operator""_op() {
  return named_op<name>();
}
template <RowName name>
Reduction operator""_reduction() {
  return named_reduction<name>();
}

}  // namespace quarry::local::detail

namespace quarry::detail {

using local::detail::operator""_op;
using local::detail::operator""_reduction;

}  // namespace quarry::detail
