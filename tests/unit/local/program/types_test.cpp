// Type resolution of every ufunc against NumPy 2 (scripts/oracle/tables/ufunc_types.py).
#include <gtest/gtest.h>

#include <map>

#include "quarry/local/base/error.h"
#include "quarry/local/program/program.h"
#include "tests/oracle/reader.h"

namespace quarry::local {
namespace {

const std::string kLetters = "?bhilBHILefdFD123";
constexpr DType kDTypes[] = {DType::bool_,   DType::int8,    DType::int16,     DType::int32,     DType::int64,
                             DType::uint8,   DType::uint16,  DType::uint32,    DType::uint64,    DType::float16,
                             DType::float32, DType::float64, DType::complex64, DType::complex128};

// Operand number i of the table: an array dtype, or a literal 1, 1.5 or 1j.
PromotionOperand operand(size_t i) {
  if (i < std::size(kDTypes)) return {kDTypes[i], false};
  constexpr DType literals[] = {DType::int64, DType::float64, DType::complex128};
  return {literals[i - std::size(kDTypes)], true};
}

char resolved(Op op, std::vector<PromotionOperand> operands) {
  try {
    if (op == "where"_op) operands.insert(operands.begin(), {DType::bool_, false});
    const DType result = resolve(op, operands).result;
    return kLetters[static_cast<size_t>(std::find(std::begin(kDTypes), std::end(kDTypes), result) -
                                        std::begin(kDTypes))];
  } catch (const TypeError&) {
    return '.';
  }
}

TEST(ProgramTypes, ResolveAsNumPy) {
  int ops = 0;
  for (const std::vector<std::string>& row : oracle::table("ufuncs", "types")) {
    const std::string &name = row.at(0), &expected = row.at(1);
    const std::optional<Op> op = find_op(name);
    ASSERT_TRUE(op) << name;
    const size_t n = kLetters.size();
    for (size_t k = 0; k < expected.size(); ++k) {
      const bool binary = expected.size() == n * n;
      const std::vector<PromotionOperand> operands =
          binary ? std::vector{operand(k / n), operand(k % n)} : std::vector{operand(k)};
      EXPECT_EQ(resolved(*op, operands), expected[k])
          << name << '(' << kLetters[binary ? k / n : k] << (binary ? std::string(", ") + kLetters[k % n] : "") << ')';
    }
    ++ops;
  }
  // cast, real, imag, clip, isnat, the random operations and SciPy's are not in the table.
  int numpys = 0;
  for (int i = 0; i < op_count(); ++i)
    if (!std::string_view(info(static_cast<Op>(i)).name).starts_with("special.")) ++numpys;
  EXPECT_EQ(ops, numpys - 16);
}

TEST(ProgramTypes, NamesAndAliases) {
  EXPECT_EQ(find_op("abs"), "absolute"_op);
  EXPECT_EQ(find_op("acos"), "arccos"_op);
  EXPECT_EQ(find_op("true_divide"), "divide"_op);
  EXPECT_EQ(find_op("bitwise_not"), "invert"_op);
  EXPECT_EQ(find_op("bitwise_invert"), "invert"_op);
  EXPECT_EQ(find_op("rad2deg"), "degrees"_op);
  EXPECT_EQ(find_op("ab"), std::nullopt);
  EXPECT_EQ(find_op(""), std::nullopt);
  EXPECT_EQ(find_reduction("amax"), "max"_reduction);
  EXPECT_EQ(find_reduction("median"), std::nullopt);
  ASSERT_NE(find_multi_output("divmod"), nullptr);
  EXPECT_EQ(find_multi_output("divmod")->outputs, (std::vector{"floor_divide"_op, "remainder"_op}));
}

TEST(ProgramTypes, ForcedLoops) {
  const PromotionOperand ints[] = {{DType::int32}, {DType::int32}};
  EXPECT_EQ(resolve("add"_op, ints, DType::float32).loop, DType::float32);
  EXPECT_THROW(resolve("divide"_op, ints, DType::int32), TypeError);
  EXPECT_THROW(resolve("less"_op, ints, DType::int64), TypeError);
  EXPECT_EQ(resolve("less"_op, ints, DType::bool_).result, DType::bool_);
  const PromotionOperand floats[] = {{DType::float64}, {DType::int64, true}};
  EXPECT_THROW(resolve("add"_op, floats, DType::int32), TypeError);  // float64 to int32 is not same_kind
  const PromotionOperand complex[] = {{DType::complex64}};
  EXPECT_EQ(resolve("absolute"_op, complex, DType::float32).loop, DType::complex64);
  EXPECT_THROW(resolve("absolute"_op, complex, DType::complex64), TypeError);
  EXPECT_THROW(resolve("add"_op, complex), InvalidArgument);
}

TEST(ProgramTypes, Bfloat16) {
  const auto result = [](Op op, DType a, DType b) {
    const PromotionOperand operands[] = {{a}, {b}};
    return resolve(op, operands).result;
  };
  EXPECT_EQ(result("add"_op, DType::bfloat16, DType::bfloat16), DType::bfloat16);
  EXPECT_EQ(result("add"_op, DType::bfloat16, DType::float16), DType::float32);
  EXPECT_EQ(result("arctan2"_op, DType::bfloat16, DType::int8), DType::bfloat16);
  const PromotionOperand one[] = {{DType::bfloat16}};
  EXPECT_EQ(resolve("exp"_op, one).result, DType::bfloat16);
}

TEST(ProgramTypes, MixedIntegerComparisonKeepsItsArguments) {
  const PromotionOperand mixed[] = {{DType::int8}, {DType::uint64}};
  const OpTypes types = resolve("less"_op, mixed);
  EXPECT_EQ(types.args[0], DType::int64);
  EXPECT_EQ(types.args[1], DType::uint64);
}

TEST(Program, EqualApplicationsAreOneValue) {
  Program p;
  const ValueId x = p.input(DType::int32);
  const ValueId args[] = {x, x};
  EXPECT_EQ(p.apply("divide"_op, args), p.apply("divide"_op, args));
  EXPECT_EQ(p.values().size(), 3u);  // x, its cast to float64, the quotient
}

TEST(Program, KeyLeavesConstantValuesOut) {
  const auto key = [](double value, Op op) {
    Program p;
    const ValueId args[] = {p.input(DType::float64), p.constant(Scalar(value), DType::float64)};
    p.output(p.apply(op, args));
    return p.key();
  };
  EXPECT_EQ(key(1, "add"_op), key(2, "add"_op));
  EXPECT_NE(key(1, "add"_op), key(1, "subtract"_op));
}

TEST(Program, NegativeConstantIntegerExponentThrows) {
  Program p;
  const ValueId args[] = {p.input(DType::int32), p.constant(Scalar(-1), DType::int32)};
  EXPECT_THROW(p.apply("power"_op, args), InvalidArgument);
}

TEST(Program, ReductionDtypes) {
  EXPECT_EQ(accumulate_dtype("sum"_reduction, DType::int8), DType::int64);
  EXPECT_EQ(accumulate_dtype("sum"_reduction, DType::bool_), DType::int64);
  EXPECT_EQ(accumulate_dtype("prod"_reduction, DType::uint16), DType::uint64);
  EXPECT_EQ(accumulate_dtype("mean"_reduction, DType::int32), DType::float64);
  EXPECT_EQ(accumulate_dtype("max"_reduction, DType::int8), DType::int8);
  EXPECT_EQ(result_dtype("sum"_reduction, DType::float16), DType::float16);
  EXPECT_EQ(state_dtypes("sum"_reduction, DType::float16), std::vector{DType::float32});
  EXPECT_EQ(result_dtype("var"_reduction, DType::complex128), DType::float64);
  EXPECT_EQ(state_dtypes("std"_reduction, DType::complex64),
            (std::vector{DType::int64, DType::complex64, DType::float32}));
  EXPECT_EQ(result_dtype("argmin"_reduction, DType::float32), DType::int64);
  EXPECT_FALSE(info("min"_reduction).has_identity);
  EXPECT_TRUE(info("mean"_reduction).has_identity);
}

}  // namespace
}  // namespace quarry::local
