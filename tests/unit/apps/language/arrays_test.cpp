// Expressions over arrays give, print and refuse what NumPy 2 gives, prints and refuses
// (scripts/oracle/tables/printed_arrays.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/display.h"
#include "tests/oracle/reader.h"

namespace quarry::apps::expression {
namespace {

using ::testing::HasSubstr;

// The first row holds the statements that make the arrays.
const std::vector<std::vector<std::string>>& rows() {
  static const std::vector<std::vector<std::string>> all = oracle::table("printing", "printed");
  return all;
}

Value evaluate_text(const std::string& text, Environment& environment) {
  const Source source{text, "", 0};
  return evaluate(source, *parse(source), environment);
}

Environment prelude() {
  Environment environment;
  std::istringstream lines(rows()[0][0]);
  for (std::string line; std::getline(lines, line);) {
    const Source source{line, "prelude", 1};
    const std::optional<Statement> statement = parse_statement(source);
    if (!statement) continue;
    environment.variables.insert_or_assign(statement->name, evaluate(source, *statement->value, environment));
  }
  return environment;
}

std::string outcome(const std::string& text, Environment& environment) {
  try {
    const Value value = evaluate_text(text, environment);
    std::string shown = display(std::span(&value, 1))[0];
    const Array* array = value.as<Array>();
    if (array == nullptr) return shown;
    return std::string(local::name(array->dtype())) + " " + local::to_string(array->shape()) + "\n" + shown;
  } catch (const local::InvalidArgument&) {
    return "error";
  }
}

TEST(ArrayExpressions, EqualNumPys) {
  Environment environment = prelude();
  for (const std::vector<std::string>& row : std::span(rows()).subspan(1)) {
    try {
      EXPECT_EQ(outcome(row[0], environment), row[1]) << row[0];
    } catch (const std::exception& error) {
      ADD_FAILURE() << row[0] << ": " << error.what();
    }
  }
  EXPECT_GT(rows().size(), 390u);
}

std::string error_of(const std::string& text) {
  Environment environment = prelude();
  try {
    evaluate_text(text, environment);
  } catch (const ExpressionError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ArrayExpressions, NamesOfScipy) {
  Environment environment = prelude();
  EXPECT_EQ(outcome("scipy.special.erf(zeros(2))", environment), outcome("special.erf(zeros(2))", environment));
  EXPECT_EQ(outcome("special.psi(1.0)", environment), outcome("scipy.special.digamma(1.0)", environment));
  EXPECT_THAT(error_of("scipy.erf(1)"), HasSubstr("'scipy' has no function 'erf'"));
  EXPECT_THAT(error_of("scipy.special.erg(1)"), HasSubstr("'special' has no function 'erg'"));
}

TEST(ArrayExpressions, ErrorsNamePlaceAndReason) {
  EXPECT_EQ(error_of("1 + meen(x)"),
            "column 5: name 'meen' is not defined; did you mean 'mean'?\n"
            "  1 + meen(x)\n"
            "      ^~~~");
  EXPECT_THAT(error_of("x * zeros((6, 4))"), HasSubstr("(4, 6) (6, 4)"));
  EXPECT_THAT(error_of("mean(x, axes=0)"), HasSubstr("unexpected keyword argument 'axes'; did you mean 'axis'?"));
  EXPECT_THAT(error_of("mean()"), HasSubstr("mean() missing 1 required argument: 'a'"));
  EXPECT_THAT(error_of("mean(x, 0, None, None, True, 1)"),
              HasSubstr("takes from 1 to 5 positional arguments but 6 were given"));
  EXPECT_THAT(error_of("mean(x, a=x)"), HasSubstr("got multiple values for argument 'a'"));
  EXPECT_THAT(error_of("add(x1=x, x2=x)"), HasSubstr("as a positional argument only"));
  EXPECT_THAT(error_of("x.meen()"), HasSubstr("no attribute 'meen'; did you mean 'mean'?"));
  EXPECT_THAT(error_of("random.norml(3)"), HasSubstr("did you mean 'normal'?"));
  EXPECT_THAT(error_of("x[7]"), HasSubstr("7"));
  EXPECT_THAT(error_of("x and y"), HasSubstr("truth value"));
  EXPECT_THAT(error_of("1 if x else 2"), HasSubstr("truth value"));
  EXPECT_THAT(error_of("not x"), HasSubstr("truth value"));
  EXPECT_THAT(error_of("x(1)"), HasSubstr("not callable"));
  EXPECT_THAT(error_of("(1)[0]"), HasSubstr("not subscriptable"));
  EXPECT_THAT(error_of("x + 'a'"), HasSubstr("unsupported operand type(s) for +: 'array' and 'str'"));
  EXPECT_THAT(error_of("arange(x)"), HasSubstr("must be a number"));
  EXPECT_THAT(error_of("var(x, ddof=1, correction=1)"), HasSubstr("cannot be given together"));
}

// Choices by 0-d arrays are made when they are computed.
TEST(ArrayExpressions, LogicOfArraysWithoutAxes) {
  Environment environment = prelude();
  EXPECT_EQ(outcome("x.max() > 8 and x.min() < 0", environment), "bool ()\nTrue");
  EXPECT_EQ(outcome("x.max() > 8 or x.min() > 0", environment), "bool ()\nTrue");
  EXPECT_EQ(outcome("x.max() > 9 and x.min() < 0", environment), "bool ()\nFalse");
  EXPECT_EQ(outcome("not x.max() > 8", environment), "bool ()\nFalse");
  EXPECT_EQ(outcome("1.5 if x.max() > 8 else 2", environment), "float64 ()\n1.5");
}

TEST(ArrayExpressions, ChainedComparisonsAreTakenElementByElement) {
  Environment environment = prelude();
  EXPECT_EQ(outcome("-1 < j < 2", environment), "bool (6,)\n[False False False  True  True False]");
  EXPECT_EQ(outcome("1 > 2 > j", environment), "False");  // as Python, j is not looked at
}

// What NumPy 2.4 answers where the array is NumPy's.
TEST(ArrayExpressions, LargeIntsBytesAndPythonsFunctions) {
  Environment environment;
  const auto shown = [&](const std::string& text) {
    try {
      const Value value = evaluate_text(text, environment);
      return display(std::span(&value, 1))[0];
    } catch (const ExpressionError& error) {
      return std::string(error.what());
    }
  };
  const std::pair<const char*, const char*> kCases[] = {
      {"ones(2) * 10**30", "[1.e+30 1.e+30]"},
      {"10**30 / arange(1, 3)", "[1.e+30 5.e+29]"},
      {"arange(2) < 2**70", "[ True  True]"},
      {"arange(2) == -2**70", "[False False]"},
      {"full((2,), 2**64, dtype=float32)", "[1.8446744e+19 1.8446744e+19]"},
      {"array([2**64], dtype=float)", "[1.84467441e+19]"},
      {"float64(10**30)", "1e+30"},
      {"2**64 + 1", "18446744073709551617"},
      {"max(1, 2)", "2"},
      {"max(arange(3))", "2"},
      {"sum(ones((2, 3)), axis=0)", "[2. 2. 2.]"},
      {"sum([1, 2]), round(2.5), sorted([2, 1])", "(3, 2, [1, 2])"},
      {"complex(1, 2)", "(1+2j)"},
      {"complex(1, ones(()))", "(1+1j)"},
      {"arange(6).reshape(2, 3)[Ellipsis, 1]", "[1 4]"},
      {"zeros((2,), '>i4').dtype", "int32"},
      {"b'abc'[1:]", "b'bc'"},
      {"np.sum([True, True])", "2"},
  };
  for (const auto& [text, expected] : kCases) EXPECT_EQ(shown(text), expected) << text;
  EXPECT_THAT(shown("arange(3) + 2**64"), HasSubstr("too large to convert to C long"));
  EXPECT_THAT(shown("zeros((2,), 'i3')"), HasSubstr("data type 'i3' not understood"));
  EXPECT_THAT(shown("arange(3)[2**70]"), HasSubstr("cannot fit 'int' into an index-sized integer"));
  EXPECT_THAT(shown("ones(2) * 10**400"), HasSubstr("int too large to convert to float"));
}

TEST(ArrayExpressions, AMissingNameThatTheOtherLibraryHasIsSaid) {
  Environment environment;
  environment.other = {&local_library(), "there it is"};
  const auto message = [&](const std::string& text) {
    try {
      evaluate_text(text, environment);
    } catch (const ExpressionError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const char* text :
       {"roots(ones(3))", "np.poly(ones(3))", "polyder(ones(2))", "np.kaiser(3, 2)", "ones(3).strides",
        "ones(3).tolist()", "matmul(ones((1, 1)), ones((1, 1)), axes=[(0, 1)] * 3)", "np.modf(1.5, signature='d->dd')",
        "pad(ones(3), 1, lambda v, w, a, k: None)"}) {
    EXPECT_THAT(message(text), HasSubstr("; there it is")) << text;
  }
  for (const char* text : {"sortt(ones(3))", "np.sortt", "ones(3).stridess", "sum(ones(3), wher=True)"}) {
    EXPECT_THAT(message(text), ::testing::Not(HasSubstr("there it is"))) << text;
  }
}

TEST(ArrayExpressions, RandomNumbersHaveTheirOwnStreams) {
  Environment environment = prelude();
  EXPECT_EQ(outcome("all(random.uniform(size=100) == random.uniform(size=100))", environment), "bool ()\nFalse");
  EXPECT_EQ(outcome("random.normal(size=(2, 3)).shape", environment), "(2, 3)");
  EXPECT_EQ(outcome("random.normal().shape", environment), "()");
  EXPECT_EQ(outcome("max(random.integers(3, size=1000)) < 3", environment), "bool ()\nTrue");
  Environment first = prelude(), second = prelude();
  EXPECT_EQ(outcome("random.normal(size=5)", first), outcome("random.normal(size=5)", second));
}

TEST(ArrayExpressions, ChunksAreDasks) {
  Environment environment = prelude();
  EXPECT_EQ(outcome("rechunk(x, (3, 2)).chunks", environment), "((3, 1), (2, 2, 2))");
  EXPECT_EQ(outcome("rechunk(x, 4).chunks", environment), "((4,), (4, 2))");
  EXPECT_EQ(outcome("rechunk(x, (-1, (1, 5))).chunks", environment), "((4,), (1, 5))");
  EXPECT_EQ(outcome("all(rechunk(x, (3, 2)) == x)", environment), "bool ()\nTrue");
  EXPECT_THAT(error_of("rechunk(x, (1, 2, 3))"), HasSubstr("3 entries for an array of 2 axes"));
  EXPECT_THAT(error_of("rechunk(x, ((1, 1), 2))"), HasSubstr("add up to 2, not to 4"));
}

}  // namespace
}  // namespace quarry::apps::expression
