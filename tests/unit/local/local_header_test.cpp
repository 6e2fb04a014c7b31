// local/local.h: every function by its name in quarry::local, as a program outside of the library uses it.
#include "quarry/local/local.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/on_devices.h"

namespace {

namespace ql = quarry::local;

class LocalHeader : public quarry::test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(LocalHeader);

void expect_text(const ql::NdArray& array, const char* text) { EXPECT_EQ(array.to_string(), text); }

// Arguments of a ufunc that its loops take: whole numbers where there is a loop of them, else numbers below 1.
std::vector<ql::NdArray> arguments(const char* kinds, int arity) {
  const bool whole = std::string_view(kinds).find('i') != std::string_view::npos;
  const ql::NdArray x = whole ? ql::arange(4) : ql::divide(ql::arange(4), 4);
  return std::vector<ql::NdArray>(static_cast<size_t>(arity), x);
}

// Every alias of every row: in quarry::local and quarry::local::ops, of arrays and inside of fuse().
TEST_P(LocalHeader, Aliases) {
  int aliases = 0;
#define QUARRY_ARGUMENTS_1 a[0]
#define QUARRY_ARGUMENTS_2 a[0], a[1]
#define QUARRY_TRACED_1(f) ql::fuse([](auto x) { return ql::f(x); })(a[0])
#define QUARRY_TRACED_2(f) ql::fuse([](auto x, auto y) { return ql::f(x, y); })(a[0], a[1])
#define QUARRY_ALIAS_TEST(arity, kinds, name, alias)                                               \
  {                                                                                                \
    SCOPED_TRACE(#alias);                                                                          \
    const std::vector<ql::NdArray> a = arguments(kinds, arity);                                    \
    const std::string expected = ql::name(QUARRY_ARGUMENTS_##arity).to_string();                   \
    EXPECT_EQ(ql::alias(QUARRY_ARGUMENTS_##arity).to_string(), expected);                          \
    EXPECT_EQ(ql::ops::alias(QUARRY_ARGUMENTS_##arity, ql::UfuncOptions{}).to_string(), expected); \
    EXPECT_EQ((QUARRY_TRACED_##arity(alias)).to_string(), expected);                               \
    EXPECT_EQ(ql::find_op(#alias), ql::named_op<#name>());                                         \
    ++aliases;                                                                                     \
  }
#define QUARRY_ALIAS_TEST_1(row, alias) QUARRY_ALIAS_TEST_OF(1, QUARRY_UNPACK row, alias)
#define QUARRY_ALIAS_TEST_2(row, alias) QUARRY_ALIAS_TEST_OF(2, QUARRY_UNPACK row, alias)
#define QUARRY_ALIAS_TEST_3(row, alias) static_assert(false, "this test has no arguments for " #alias);
#define QUARRY_ALIAS_TEST_OF(...) QUARRY_ALIAS_TEST_WITH(__VA_ARGS__)
#define QUARRY_ALIAS_TEST_WITH(arity, kinds, name, alias) QUARRY_ALIAS_TEST(arity, kinds, name, alias)
#define QUARRY_OP(name, aliases, arity, kinds, ...) QUARRY_EACH(QUARRY_ALIAS_TEST_##arity, (#kinds, name), aliases)
#define QUARRY_SPECIAL(...)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#define QUARRY_ALIAS_OF_REDUCTION(name, alias)                                                 \
  {                                                                                            \
    SCOPED_TRACE(#alias);                                                                      \
    const ql::NdArray x = ql::arange(4);                                                       \
    const std::string expected = ql::name(x).to_string();                                      \
    EXPECT_EQ(ql::alias(x).to_string(), expected);                                             \
    EXPECT_EQ(ql::ops::alias(x).to_string(), expected);                                        \
    EXPECT_EQ(ql::fuse([](auto value) { return ql::alias(value); })(x).to_string(), expected); \
    EXPECT_EQ(ql::find_reduction(#alias), ql::named_reduction<#name>());                       \
    ++aliases;                                                                                 \
  }
#define QUARRY_REDUCTION(name, aliases, ...) QUARRY_EACH(QUARRY_ALIAS_OF_REDUCTION, name, aliases)
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
  EXPECT_GE(aliases, 20);
}

TEST_P(LocalHeader, EveryChapter) {
  const ql::NdArray x = ql::reshape(ql::arange(6), {2, 3});
  EXPECT_EQ(x.device().kind, GetParam());
  // Creation and windows.
  expect_text(ql::full_like(x, 7), "[[7 7 7]\n [7 7 7]]");
  expect_text(ql::bartlett(3), "[0. 1. 0.]");
  // Shapes, joining, rearranging.
  expect_text(ql::concatenate({x, ql::flip(x, 1)}, 1), "[[0 1 2 2 1 0]\n [3 4 5 5 4 3]]");
  expect_text(ql::delete_(ql::roll(x, 1), 0, 0), "[[2 3 4]]");
  EXPECT_EQ(ql::broadcast_shapes({ql::Ints{2, 1}, ql::Ints{1, 3}}), (ql::Dims{2, 3}));
  // Ufuncs and what is made of them, operators.
  expect_text(ql::sqrt(ql::square(x)) - 1.0, "[[-1.  0.  1.]\n [ 2.  3.  4.]]");
  expect_text(ql::where(x > 2, x, -1), "[[-1 -1 -1]\n [ 3  4  5]]");
  EXPECT_TRUE(ql::allclose(ql::divide(x, 2), x * 0.5));
  // Reductions and scans.
  expect_text(ql::sum(x, 0), "[3 5 7]");
  expect_text(ql::cumsum(x, 1), "[[ 0  1  3]\n [ 3  7 12]]");
  // Indexing.
  expect_text(ql::take(x, ql::nonzero(x)[1]), "[1 2 0 1 2]");
  expect_text(x[x % 2 == 0], "[0 2 4]");
  // Sorting and sets.
  expect_text(ql::argsort(ql::negative(ql::ravel(x))), "[5 4 3 2 1 0]");
  expect_text(ql::setdiff1d(x, x + 4), "[0 1 2 3]");
  // Products, polynomials, numerical functions.
  expect_text(ql::matmul(x, x.T()), "[[ 5 14]\n [14 50]]");
  expect_text(ql::polyval(ql::arange(3), x), "[[2 3 4]\n [5 6 7]]");
  // dtypes and printing.
  EXPECT_TRUE(ql::can_cast(ql::DType::int8, ql::DType::int64));
  EXPECT_FALSE(ql::can_cast(ql::DType::int64, ql::DType::int8, ql::Casting::safe));
  EXPECT_EQ(ql::result_type(ql::f32, 1.5), ql::DType::float32);
  EXPECT_EQ(ql::array2string(x[{1}], std::nullopt, std::nullopt, std::nullopt, ", "), "[3, 4, 5]");
}

}  // namespace
