#include "quarry/local/program/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/program/op_enum.h"
#include "quarry/local/program/reduction_enum.h"
#include "quarry/local/program/rows.h"

namespace quarry::local::detail {
namespace {

using R = OpInfo::Result;

#define QUARRY_SPECIAL_WORDS(list) "" QUARRY_EACH(QUARRY_SPECIAL_WORD, , list)
#define QUARRY_SPECIAL_WORD(unused, name) "special." #name " "
#define QUARRY_ROW(name, words, arity, kinds, result, rule, identity, grouping, cost, expression)                    \
  {name, words,      arity, #kinds, R::result, OpRule::rule, OpInfo::Identity::identity, OpInfo::Grouping::grouping, \
   cost, #expression},
constexpr std::array<OpInfo, kOpCount> kOps = {{
#define QUARRY_OP(name, aliases, ...) QUARRY_ROW(#name, QUARRY_WORDS(aliases), __VA_ARGS__)
#define QUARRY_SPECIAL(name, aliases, ...) QUARRY_ROW("special." #name, QUARRY_SPECIAL_WORDS(aliases), __VA_ARGS__)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
}};
#undef QUARRY_ROW
#undef QUARRY_SPECIAL_WORD
#undef QUARRY_SPECIAL_WORDS

// Stringification of empty macro arguments gives "".
constexpr const char* or_null(const char* text) { return text[0] ? text : nullptr; }
constexpr const char* unless_none(const char* text) { return std::string_view(text) == "none" ? nullptr : text; }
constexpr bool is_value(std::string_view field) { return field == "value" || field == "exact"; }
constexpr int field_count(std::string_view f1, std::string_view f2) { return f2 != "none" ? 3 : f1 != "none" ? 2 : 1; }
constexpr int counting(std::initializer_list<std::string_view> maps) {
  int field = 0;
  for (const std::string_view map : maps) {
    if (map == "lit(1)") return field;
    ++field;
  }
  return -1;
}

constexpr std::array<ReductionInfo, kReductionCount> kReductions = {{
#define QUARRY_DTYPE_TEXT(field) QUARRY_TEXT(QUARRY_FIELD_DTYPE field)
#define QUARRY_MAP_TEXT(field) QUARRY_TEXT(QUARRY_FIELD_MAP field)
#define QUARRY_COMBINE_TEXT(field) QUARRY_TEXT(QUARRY_FIELD_COMBINE field)
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, f0, f1, f2, finalize)  \
  {#name,                                                                                                     \
   QUARRY_WORDS(aliases),                                                                                     \
   #kinds,                                                                                                    \
   std::string_view(#empty) == "has_identity",                                                                \
   field_count(QUARRY_DTYPE_TEXT(f1), QUARRY_DTYPE_TEXT(f2)),                                                 \
   std::string_view(QUARRY_MAP_TEXT(f1)) == "p",                                                              \
   std::string_view(#accumulate) != "same",                                                                   \
   is_value(QUARRY_DTYPE_TEXT(f0)) && std::string_view(#ufunc) != "none",                                     \
   std::string_view(#finalize).find("ddof") != std::string_view::npos,                                        \
   std::string_view(QUARRY_MAP_TEXT(f0)) == "truth(x)",                                                       \
   counting({QUARRY_MAP_TEXT(f0), QUARRY_MAP_TEXT(f1), QUARRY_MAP_TEXT(f2)}),                                 \
   unless_none(#ufunc),                                                                                       \
   {FieldDType::QUARRY_FIELD_DTYPE f0, FieldDType::QUARRY_FIELD_DTYPE f1, FieldDType::QUARRY_FIELD_DTYPE f2}, \
   {FieldStart::QUARRY_FIELD_START f0, FieldStart::QUARRY_FIELD_START f1, FieldStart::QUARRY_FIELD_START f2}, \
   {QUARRY_MAP_TEXT(f0), or_null(QUARRY_MAP_TEXT(f1)), or_null(QUARRY_MAP_TEXT(f2))},                         \
   {QUARRY_COMBINE_TEXT(f0), or_null(QUARRY_COMBINE_TEXT(f1)), or_null(QUARRY_COMBINE_TEXT(f2))},             \
   #finalize},
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_COMBINE_TEXT
#undef QUARRY_MAP_TEXT
#undef QUARRY_DTYPE_TEXT
}};

// Its number, or -1.
template <class Rows>
constexpr int row_named(const Rows& rows, std::string_view name) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (name == rows[i].name) return static_cast<int>(i);
  return -1;
}

// Whether `name` is one of the space-separated words.
bool has_word(std::string_view words, std::string_view name) {
  while (!words.empty()) {
    const size_t end = words.find(' ');
    if (words.substr(0, end) == name) return true;
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  return false;
}

// NumPy's order of loops.
constexpr DType kLoopOrder[] = {
    DType::bool_,    DType::int8,    DType::uint8,   DType::int16,     DType::uint16,
    DType::int32,    DType::uint32,  DType::int64,   DType::uint64,    DType::float16,
    DType::bfloat16, DType::float32, DType::float64, DType::complex64, DType::complex128,
};

// kind() with both integer signs as 'i', the letters of the rows.
char loop_kind(DType dtype) { return kind(dtype) == 'u' ? 'i' : kind(dtype); }

bool has_loop(const OpInfo& row, DType dtype) {
  if (row.rule == OpRule::double_only && dtype != DType::float64 && dtype != DType::complex128) return false;
  return std::strchr(row.kinds, loop_kind(dtype)) != nullptr;
}

DType result_of(const OpInfo& row, DType loop) {
  switch (row.result) {
    case R::same:
      return loop;
    case R::boolean:
      return DType::bool_;
    case R::real:
      return real_type(loop);
    case R::count:
      return DType::uint8;
    case R::exponent:
      return DType::int32;
  }
  return loop;
}

[[noreturn]] void no_loop(const OpInfo& row, std::span<const DType> types) {
  std::string list;
  for (DType t : types) list += fmt::format("{}{}", list.empty() ? "" : ", ", name(t));
  if (row.rule == OpRule::no_bool && types[0] == DType::bool_) {
    if (std::strcmp(row.name, "subtract") == 0)
      throw TypeError(
          "bool subtract, the `-` operator, is not supported, use bitwise_xor, the `^` operator, or "
          "logical_xor instead");
    if (std::strcmp(row.name, "negative") == 0)
      throw TypeError("bool negative, the `-` operator, is not supported, use the `~` operator or logical_not instead");
  }
  throw TypeError(fmt::format("ufunc '{}' not supported for the input types ({})", row.name, list));
}

// Whether a literal of the kind of `from` may stand for a `to`: bool < integer < float < complex.
bool weak_fits(DType from, DType to) {
  const auto rank = [](DType dtype) { return std::string_view("bifc").find(loop_kind(dtype)); };
  return rank(from) <= rank(to);
}

}  // namespace

// A use of "add"_op is a call of the instance that is made here.
template <RowName name>
Op named_op() {
  constexpr int row = row_named(kOps, name.text);
  static_assert(row >= 0);
  return static_cast<Op>(row);
}
#define QUARRY_OP(name, ...) template Op named_op<#name>();
#define QUARRY_SPECIAL(name, ...) template Op named_op<"special." #name>();
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP

template <RowName name>
Reduction named_reduction() {
  constexpr int row = row_named(kReductions, name.text);
  static_assert(row >= 0);
  return static_cast<Reduction>(row);
}
#define QUARRY_REDUCTION(name, ...) template Reduction named_reduction<#name>();
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION

int op_count() { return kOpCount; }
int reduction_count() { return kReductionCount; }

const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }

std::optional<Op> find_op(std::string_view name) {
  for (int i = 0; i < kOpCount; ++i)
    if (name == kOps[static_cast<size_t>(i)].name || has_word(kOps[static_cast<size_t>(i)].aliases, name))
      return static_cast<Op>(i);
  return std::nullopt;
}

std::span<const MultiOutput> multi_outputs() {
  static const MultiOutput kMultiOutputs[] = {
      {"divmod", {Op::floor_divide, Op::remainder}},
      {"modf", {Op::modf_fraction, Op::modf_integer}},
      {"frexp", {Op::frexp_mantissa, Op::frexp_exponent}},
  };
  return kMultiOutputs;
}

const MultiOutput* find_multi_output(std::string_view name) {
  for (const MultiOutput& entry : multi_outputs())
    if (name == entry.name) return &entry;
  return nullptr;
}

const ReductionInfo& info(Reduction reduction) { return kReductions[static_cast<size_t>(reduction)]; }

std::optional<Reduction> find_reduction(std::string_view name) {
  for (int i = 0; i < kReductionCount; ++i)
    if (name == kReductions[static_cast<size_t>(i)].name || has_word(kReductions[static_cast<size_t>(i)].aliases, name))
      return static_cast<Reduction>(i);
  return std::nullopt;
}

std::optional<Reduction> reduction_of(Op op) {
  for (int i = 0; i < kReductionCount; ++i) {
    const char* ufunc = kReductions[static_cast<size_t>(i)].ufunc;
    if (ufunc && std::string_view(ufunc) == info(op).name) return static_cast<Reduction>(i);
  }
  return std::nullopt;
}

OpTypes resolve(Op op, std::span<const PromotionOperand> operands, std::optional<DType> dtype, Casting casting) {
  const OpInfo& row = info(op);
  if (static_cast<int>(operands.size()) != row.arity)
    throw InvalidArgument(fmt::format("{}() takes {} operands, got {}", row.name, row.arity, operands.size()));

  OpTypes types{};
  if (row.rule == OpRule::sampler) {
    if (dtype.value_or(DType::float64) != DType::float64) no_loop(row, std::array{*dtype});
    types.loop = types.result = DType::float64;
    types.args[0] = DType::uint64;
    types.args[1] = types.args[2] = DType::float64;
    return types;
  }
  if (row.rule == OpRule::random || row.rule == OpRule::bounded) {
    if (!dtype && row.rule == OpRule::bounded) dtype = operands[1].dtype;
    const bool bounded = row.rule == OpRule::bounded;
    const bool wide = dtype == DType::int64 || dtype == DType::uint64;
    const bool ok = bounded                 ? wide
                    : op == Op::random_bits ? dtype == DType::uint32 || dtype == DType::uint64
                                            : dtype == DType::float32 || dtype == DType::float64;
    if (!ok) no_loop(row, std::array{dtype.value_or(operands[0].dtype)});
    types.loop = types.result = *dtype;
    if (bounded) {
      types.args[0] = DType::uint64;
      types.args[1] = types.args[2] = *dtype;
    } else {
      types.args[0] = DType::int64;
      types.args[1] = types.args[2] = DType::uint64;
    }
    return types;
  }

  // What decides the loop: all operands, less where's condition and ldexp's exponent.
  const size_t first = row.rule == OpRule::select ? 1 : 0;
  const size_t last = row.rule == OpRule::scale ? 1 : operands.size();
  const std::span<const PromotionOperand> deciding = operands.subspan(first, last - first);

  // A literal takes the dtype that it has beside the arrays; literals alone have their defaults.
  std::array<DType, 3> in{};
  std::optional<DType> strong;
  for (const PromotionOperand& operand : deciding)
    if (!operand.weak) strong = strong ? promote_types(*strong, operand.dtype) : operand.dtype;
  for (size_t i = 0; i < deciding.size(); ++i) {
    in[i] = deciding[i].dtype;
    if (deciding[i].weak && strong) {
      const PromotionOperand pair[] = {{*strong, false}, deciding[i]};
      in[i] = result_type(pair);
    }
  }
  // An integer literal beside an array of exponents fits the first float, as in NumPy.
  if (row.rule == OpRule::scale && operands[0].weak && !operands[1].weak && is_integer(in[0]) &&
      operands[1].dtype != DType::bool_)
    in[0] = DType::int8;
  const std::span<const DType> inputs(in.data(), deciding.size());
  bool all_bool = true;
  for (DType t : inputs) all_bool = all_bool && t == DType::bool_;
  if (row.rule == OpRule::no_bool && all_bool && !dtype) no_loop(row, inputs);

  std::optional<DType> loop;
  if (row.rule == OpRule::comparison || row.rule == OpRule::logical || row.rule == OpRule::select) {
    loop = result_type(deciding);
  } else if (row.rule == OpRule::true_divide && !dtype) {
    loop = result_type(deciding);
    if (!is_float(*loop) && !is_complex(*loop)) loop = DType::float64;
  } else if (!dtype) {
    // Safe casts go forward in this order.
    const DType* begin = kLoopOrder;
    for (DType t : inputs) begin = std::max(begin, std::ranges::find(kLoopOrder, t));
    for (DType candidate : std::span(begin, std::end(kLoopOrder))) {
      bool fits = has_loop(row, candidate);
      for (DType t : inputs) fits = fits && can_cast(t, candidate, Casting::safe);
      if (fits) {
        loop = candidate;
        break;
      }
    }
  }
  if (dtype) {
    // dtype= names the output.
    if (row.result == R::same) {
      loop = dtype;
    } else if (row.result == R::real) {
      bool complex = false;
      for (DType t : inputs) complex = complex || is_complex(t);
      loop = !complex ? *dtype : *dtype == DType::float64 ? DType::complex128 : DType::complex64;
    } else if (!loop) {
      for (DType candidate : kLoopOrder)
        if (!loop && has_loop(row, candidate) && can_cast(inputs[0], candidate, Casting::safe)) loop = candidate;
    }
    if (!loop || !has_loop(row, *loop) || result_of(row, *loop) != *dtype)
      throw TypeError(
          fmt::format("No loop matching the specified signature and casting was found for ufunc {} with dtype {}",
                      row.name, name(*dtype)));
  }
  if (!loop || !has_loop(row, *loop)) no_loop(row, inputs);

  types.loop = *loop;
  types.result = result_of(row, *loop);
  for (size_t i = 0; i < operands.size(); ++i) types.args[i] = *loop;
  if (row.rule == OpRule::select) types.args[0] = DType::bool_;
  if (row.rule == OpRule::scale) {
    const DType exponent = operands[1].dtype;
    if (kind(exponent) != 'b' && (!is_integer(exponent) || (exponent == DType::uint64 && !operands[1].weak)))
      no_loop(row, std::array{inputs[0], exponent});
    types.args[1] = DType::int64;
  }
  // Promotion would make float64 of this pair and lose the low bits.
  if (row.rule == OpRule::comparison && operands.size() == 2 && is_integer(inputs[0]) && is_integer(inputs[1]) &&
      *loop == DType::float64) {
    types.loop = DType::int64;
    types.args[0] = kind(inputs[0]) == 'u' ? DType::uint64 : DType::int64;
    types.args[1] = kind(inputs[1]) == 'u' ? DType::uint64 : DType::int64;
  }
  // Without dtype= the loop is one that operands cast to safely, so that only stricter rules forbid anything.
  // Truth values are taken of any dtype.
  if (casting != Casting::unsafe && row.rule != OpRule::select && row.rule != OpRule::logical &&
      (dtype || casting != Casting::same_kind)) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const DType wanted = types.args[i + first];
      // As in NumPy, "equiv" takes a literal as what it is alone, and "no" lets numbers adapt, but not truth values.
      const bool strict = casting == Casting::equiv || (casting == Casting::no && deciding[i].dtype == DType::bool_);
      const bool literal = deciding[i].weak && (strict ? deciding[i].dtype == wanted : weak_fits(in[i], wanted));
      const bool adapts = deciding[i].weak && strict;
      if (!literal && (adapts || !can_cast(in[i], wanted, casting)))
        throw TypeError(fmt::format(
            "Cannot cast ufunc '{}' input {}from dtype('{}') to dtype('{}') with casting rule '{}'", row.name,
            row.arity > 1 ? fmt::format("{} ", i) : "", name(in[i]), name(wanted), name(casting)));
    }
  }
  return types;
}

}  // namespace quarry::local::detail
