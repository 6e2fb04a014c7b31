// Expressions over Python's scalars give what Python gives (scripts/oracle/tables/python_scalars.py).
#include <gtest/gtest.h>

#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "tests/oracle/reader.h"

namespace quarry::apps::expression {
namespace {

std::string outcome(const std::string& text) {
  const Source source{text, "", 0};
  Environment environment;
  try {
    return repr(evaluate(source, *parse(source), environment), [](const Value&) -> std::string { return "an array"; });
  } catch (const ExpressionError&) {
    return "error";
  }
}

TEST(Scalars, EqualPythons) {
  const std::vector<std::vector<std::string>> rows = oracle::table("language", "scalars");
  for (const std::vector<std::string>& row : rows) EXPECT_EQ(outcome(row[0]), row[1]) << row[0];
  EXPECT_GT(rows.size(), 4000u);
}

TEST(Scalars, NumbersPrintAsPythonsRepr) {
  EXPECT_EQ(repr(0.1), "0.1");
  EXPECT_EQ(repr(1e16), "1e+16");
  EXPECT_EQ(repr(123456789012345.0), "123456789012345.0");
  EXPECT_EQ(repr(1e-5), "1e-05");
  EXPECT_EQ(repr(-0.0), "-0.0");
  EXPECT_EQ(repr(1e-320), "1e-320");
  EXPECT_EQ(repr(std::complex<double>(0, 1)), "1j");
  EXPECT_EQ(repr(std::complex<double>(-0.0, 1)), "(-0+1j)");
  EXPECT_EQ(repr(std::complex<double>(1.5, -0.0)), "(1.5-0j)");
  EXPECT_EQ(to_string(static_cast<Int>(INT64_MIN)), "-9223372036854775808");
}

}  // namespace
}  // namespace quarry::apps::expression
