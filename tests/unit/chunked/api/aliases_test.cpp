// NumPy's other names of ufuncs and reductions, from their rows.
#include <gtest/gtest.h>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/node.h"

namespace quarry {
namespace {

local::Op op_of(const Array& array) {
  const auto* node = array.node()->as<expr::Elementwise>();
  EXPECT_NE(node, nullptr);
  return node ? node->op : local::Op{};
}

TEST(Aliases, OfUfuncs) {
  const Array whole = zeros({3}, DType::int64), x = zeros({3}, DType::float64);
  int aliases = 0;
#define QUARRY_ARGUMENTS_1(x) x
#define QUARRY_ARGUMENTS_2(x) x, x
#define QUARRY_ARGUMENTS_3(x) x, x, x
#define QUARRY_ALIAS_TEST(arity, kinds, name, alias)                                      \
  {                                                                                       \
    const bool integers = std::string_view(kinds).find('i') != std::string_view::npos;    \
    const Array& of = integers ? whole : x;                                               \
    const Array got = quarry::alias(QUARRY_ARGUMENTS_##arity(of));                        \
    EXPECT_EQ(op_of(got), local::named_op<#name>()) << #alias;                            \
    EXPECT_EQ(got.dtype(), quarry::name(QUARRY_ARGUMENTS_##arity(of)).dtype()) << #alias; \
    ++aliases;                                                                            \
  }
#define QUARRY_ALIAS_TEST_OF(...) QUARRY_ALIAS_TEST_WITH(__VA_ARGS__)
#define QUARRY_ALIAS_TEST_WITH(arity, kinds, name, alias) QUARRY_ALIAS_TEST(arity, kinds, name, alias)
#define QUARRY_ALIAS_TEST_ROW(row, alias) QUARRY_ALIAS_TEST_OF(QUARRY_UNPACK row, alias)
#define QUARRY_OP(name, aliases, arity, kinds, ...) QUARRY_EACH(QUARRY_ALIAS_TEST_ROW, (arity, #kinds, name), aliases)
#define QUARRY_SPECIAL(...)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
  EXPECT_GE(aliases, 18);
}

TEST(Aliases, OfReductions) {
  const Array x = zeros({3}, DType::int64);
  int aliases = 0;
#define QUARRY_ALIAS_TEST_REDUCTION(name, alias)                           \
  {                                                                        \
    const Array got = quarry::alias(x);                                    \
    const auto* node = got.node()->as<expr::Reduce>();                     \
    ASSERT_NE(node, nullptr) << #alias;                                    \
    EXPECT_EQ(node->reduction, local::named_reduction<#name>()) << #alias; \
    ++aliases;                                                             \
  }
#define QUARRY_REDUCTION(name, aliases, ...) QUARRY_EACH(QUARRY_ALIAS_TEST_REDUCTION, name, aliases)
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
  EXPECT_GE(aliases, 2);
}

}  // namespace
}  // namespace quarry
