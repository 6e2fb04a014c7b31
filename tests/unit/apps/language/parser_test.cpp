#include "quarry/apps/language/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::apps::expression {
namespace {

using ::testing::HasSubstr;

std::string tree(const std::string& text) { return to_string(*parse({text, "", 0})); }

std::string error(const std::string& text) {
  try {
    return "no error: " + tree(text);
  } catch (const ExpressionError& e) {
    return e.what();
  }
}

struct Case {
  const char* text;
  const char* tree;
};

TEST(Parser, FollowsPythonsGrammar) {
  static constexpr Case kCases[] = {
      {"1", "1"},
      {" 1 ", "1"},
      {"1\n", "1"},
      {"0", "0"},
      {"00", "0"},
      {"1_000_000", "1000000"},
      {"0xff", "255"},
      {"0XFF_ff", "65535"},
      {"0x_f", "15"},
      {"0b1011", "11"},
      {"0o17", "15"},
      {"18446744073709551615", "18446744073709551615"},
      {"1.", "1.0"},
      {".5", "0.5"},
      {"1e3", "1000.0"},
      {"1E-3", "0.001"},
      {"1_0.2_5e1_0", "102500000000.0"},
      {"09.5", "9.5"},
      {"1e400", "inf"},
      {"2j", "2j"},
      {"2.5e1J", "25j"},
      {"09j", "9j"},
      {"x", "x"},
      {"_private1", "_private1"},
      {"\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9"},
      {"True", "True"},
      {"False", "False"},
      {"None", "None"},
      {"...", "..."},
      {"'a' \"b\"", "'ab'"},
      {"'it\\'s'", "\"it's\""},
      {"r'a\\n'", "'a\\\\n'"},
      {"'\\x41\\u00e9'", "'A\xc3\xa9'"},
      {"1 + 2 * 3", "(+ 1 (* 2 3))"},
      {"(1 + 2) * 3", "(* (+ 1 2) 3)"},
      {"1 - 2 - 3", "(- (- 1 2) 3)"},
      {"a / b // c % d @ e", "(@ (% (// (/ a b) c) d) e)"},
      {"-2 ** 2", "(- (** 2 2))"},
      {"2 ** -1", "(** 2 (- 1))"},
      {"2 ** 3 ** 2", "(** 2 (** 3 2))"},
      {"-x ** -y ** z", "(- (** x (- (** y z))))"},
      {"~-+x", "(~ (- (+ x)))"},
      {"x.T ** 2", "(** (. x T) 2)"},
      {"1 << 2 + 3 >> 4", "(>> (<< 1 (+ 2 3)) 4)"},
      {"a & b ^ c | d", "(| (^ (& a b) c) d)"},
      {"a | b & c", "(| a (& b c))"},
      {"a & b == c", "(compare (& a b) == c)"},
      {"a < b <= c != d", "(compare a < b <= c != d)"},
      {"(a < b) < c", "(compare (compare a < b) < c)"},
      {"a < (b < c)", "(compare a < (compare b < c))"},
      {"not a == b", "(not (compare a == b))"},
      {"not not a", "(not (not a))"},
      {"a or b and not c", "(or a (and b (not c)))"},
      {"a and b or c", "(or (and a b) c)"},
      {"a if b else c if d else e", "(if b a (if d c e))"},
      {"lambda a, b=2: a + b", "(lambda a b=2: (+ a b))"},
      {"f(lambda: 1, 2)", "(call f (lambda: 1) 2)"},
      {"f()", "(call f)"},
      {"f(1, x, axis=0, keepdims=True,)", "(call f 1 x axis=0 keepdims=True)"},
      {"f(g(x))(y)", "(call (call f (call g x)) y)"},
      {"x.mean(axis=0)", "(call (. x mean) axis=0)"},
      {"x.shape[0]", "(index (. x shape) 0)"},
      {"random.normal(size=(2, 3))", "(call (. random normal) size=(tuple 2 3))"},
      {"x[1]", "(index x 1)"},
      {"x[-1]", "(index x (- 1))"},
      {"x[:]", "(index x (slice _ _ _))"},
      {"x[1:2]", "(index x (slice 1 2 _))"},
      {"x[::2, -3:, None]", "(index x (tuple (slice _ _ 2) (slice (- 3) _ _) None))"},
      {"x[::]", "(index x (slice _ _ _))"},
      {"x[a:b:c]", "(index x (slice a b c))"},
      {"x[:, ...]", "(index x (tuple (slice _ _ _) ...))"},
      {"x[0,]", "(index x (tuple 0))"},
      {"x[(0, 1)]", "(index x (tuple 0 1))"},
      {"x[0][1]", "(index (index x 0) 1)"},
      {"x[y > 0]", "(index x (compare y > 0))"},
      {"()", "(tuple)"},
      {"(1,)", "(tuple 1)"},
      {"(1, 2)", "(tuple 1 2)"},
      {"1, 2", "(tuple 1 2)"},
      {"1,", "(tuple 1)"},
      {"x, y + 1,", "(tuple x (+ y 1))"},
      {"[]", "(list)"},
      {"[1, [2, 3],]", "(list 1 (list 2 3))"},
      {"(x)", "x"},
      {"((x))", "x"},
      {"( x +\n y )", "(+ x y)"},
      {"x # comment", "x"},
      {"-x", "(- x)"},
      {"- -1", "(- (- 1))"},
      {"mean(sqrt(x*x+1)*exp(-x))", "(call mean (* (call sqrt (+ (* x x) 1)) (call exp (- x))))"},
      {"z.T @ z / (z.shape[0] - 1)", "(/ (@ (. z T) z) (- (index (. z shape) 0) 1))"},
      {"1.5.real", "(. 1.5 real)"},
      {"1 .real", "(. 1 real)"},
      {"x . T", "(. x T)"},
      {"'a'[0]", "(index 'a' 0)"},
  };
  for (const Case& c : kCases) EXPECT_EQ(tree(c.text), c.tree) << c.text;
}

TEST(Parser, PointsAtMistakes) {
  struct Mistake {
    const char* text;
    const char* message;
    int column;
  };
  static constexpr Mistake kCases[] = {
      {"", "empty", 1},
      {"  ", "empty", 3},
      {"# only a comment", "empty", 17},
      {"1 +", "found the end", 4},
      {"1 + * 2", "found '*'", 5},
      {"(1 + 2", "'(' was never closed", 1},
      {"x[0", "'[' was never closed", 2},
      {"1 + 2)", "unmatched ')'", 6},
      {"(1]", "closing ']' does not match opening '('", 3},
      {"'abc", "unterminated string", 1},
      {"'ab\\", "unterminated string", 1},
      {"'\\xg'", "truncated escape", 2},
      {"f'x'", "prefix 'f'", 1},
      {"f'x'", "prefix 'f'", 1},
      {"x y", "expected an operator or the end, found 'y'", 3},
      {"1 2", "found a number", 3},
      {"1 'a'", "found a string", 3},
      {"x = 3", "equality is '=='", 3},
      {"(x = 3)", "equality is '=='", 4},
      {"f(x := 3)", "expected ')'", 5},
      {"007", "leading zeros", 1},
      {"1__0", "invalid decimal literal", 1},
      {"1_", "invalid decimal literal", 1},
      {"0x", "invalid hexadecimal literal", 1},
      {"0xg", "invalid hexadecimal literal", 1},
      {"0b12", "invalid digit '2' in binary", 4},
      {"0o8", "invalid digit '8' in octal", 3},
      {"12abc", "invalid decimal literal", 1},
      {"1e5x", "invalid decimal literal", 1},
      {"b'\xc3\xa9'", "bytes can only contain ASCII", 3},
      {"b'a' 'b'", "cannot mix bytes and nonbytes literals", 6},
      {"x $ y", "invalid character '$'", 3},
      {"x ? y", "invalid character '?'", 3},
      {"x ! y", "invalid character '!'", 3},
      {"f(axis=0, 1)", "positional argument follows keyword", 11},
      {"f(a=1, a=2)", "keyword argument repeated: a", 8},
      {"f(*x)", "starred", 3},
      {"f(**x)", "starred", 3},
      {"f(None=1)", "cannot name an argument", 3},
      {"[i for i in x]", "comprehensions", 4},
      {"f(i for i in x)", "comprehensions", 5},
      {"lambda x, x: x", "named twice", 11},
      {"lambda 1: x", "expected the name of a parameter", 8},
      {"lambda x=1, y: x", "without a default", 13},
      {"{1, 2}", "sets are not part", 1},
      {"{1: 2", "'{' was never closed", 1},
      {"{1: 2, **x}", "invalid syntax", 8},
      {"x in y", "'in' comparisons", 3},
      {"x is None", "'is' comparisons", 3},
      {"x not in y", "'not' comparisons", 3},
      {"x if y", "expected 'else'", 7},
      {"x.", "expected a name after '.'", 3},
      {"x.1", "found a number", 2},
      {"x.if", "found 'if'", 3},
      {"x[]", "expected an index", 3},
      {"x[1:2:3:4]", "expected ']'", 8},
      {"(1:2)", "expected ')'", 3},
      {",", "found ','", 1},
      {"[,]", "found ','", 2},
      {"import os", "found 'import'", 1},
      {"1 + \xc3\xa9 $", "invalid character '$'", 7},
      {"x;y", "found ';'", 2},
      {"1\n2", "goes on after a line break", 2},
      {"x\x01y", "code 1", 2},
      {"x += 1", "found '+='", 3},
  };
  for (const Mistake& c : kCases) {
    const std::string message = error(c.text);
    EXPECT_THAT(message, HasSubstr(c.message)) << c.text;
    EXPECT_THAT(message, HasSubstr("column " + std::to_string(c.column) + ": ")) << c.text;
  }
}

TEST(Parser, DrawsTheCaretUnderThePlace) {
  EXPECT_EQ(error("1 + foo bar"),
            "column 9: invalid syntax: expected an operator or the end, found 'bar'\n"
            "  1 + foo bar\n"
            "          ^~~");
  // Code points, not bytes, and tabs as one column.
  EXPECT_EQ(error("\xc3\xa9\t+ $"),
            "column 5: invalid character '$'\n"
            "  \xc3\xa9 + $\n"
            "      ^");
  // A long line is shortened around the place.
  const std::string text = std::string(500, 'a') + " $ " + std::string(500, 'b');
  const std::string message = error(text);
  EXPECT_LT(message.size(), 400u);
  EXPECT_THAT(message, HasSubstr("..." + std::string(59, 'a') + " $ " + std::string(58, 'b') + "..."));
}

TEST(Parser, NamesTheScriptLine) {
  const Source source{"x = 1 +", "job.qy", 7};
  try {
    parse_statement(source);
    FAIL();
  } catch (const ExpressionError& e) {
    EXPECT_THAT(e.what(), ::testing::StartsWith("job.qy:7:8: "));
  }
}

TEST(Parser, ReadsStatements) {
  const auto parsed = parse_statement({"total = sum(x)  # comment", "s", 1});
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->name, "total");
  EXPECT_EQ(to_string(*parsed->value), "(call sum x)");
  const auto elements = parse_statement({"x[1:, y] = 2, 3", "s", 1});
  EXPECT_EQ(elements->name, "x");
  EXPECT_EQ(to_string(*elements->value), "(tuple 2 3)");
  EXPECT_FALSE(elements->update.has_value());
  EXPECT_EQ(parse_statement({"x[m] %= 2", "s", 1})->update, BinaryOp::remainder);
  EXPECT_FALSE(parse_statement({"   # only a comment", "s", 1}).has_value());
  EXPECT_FALSE(parse_statement({"", "s", 1}).has_value());
  for (const char* text :
       {"sum(x)", "3 = x", "if = 2", "x =", "x == 3", "x.y = 3", "a, b = x", "x = y = 2", "x[0]", "x[0] == 3",
        "x[0][1] = 3", "x[0].y = 3", "x(0)[1] = 3", "x[] = 3", "x[0] @= 3", "x += 3", "x[0] =", "x[0] += "}) {
    EXPECT_THROW(parse_statement({text, "s", 1}), ExpressionError) << text;
  }
}

TEST(Parser, BoundsNestingAndLength) {
  EXPECT_THAT(error(std::string(100000, '(') + "1" + std::string(100000, ')')), HasSubstr("nested too deeply"));
  EXPECT_THAT(error(std::string(100000, '-') + "1"), HasSubstr("nested too deeply"));
  std::string chain = "2";
  for (int i = 0; i < 100000; ++i) chain += "**2";
  EXPECT_THAT(error(chain), HasSubstr("nested too deeply"));
  std::string nots;
  for (int i = 0; i < 100000; ++i) nots += "not ";
  EXPECT_THAT(error(nots + "x"), HasSubstr("nested too deeply"));
  std::string sum = "1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  EXPECT_THAT(error(sum), HasSubstr("too many operations"));
  std::string fits = "1";
  for (int i = 0; i < 900; ++i) fits += "+1";
  EXPECT_NO_THROW(parse({fits, "", 0}));
  EXPECT_NO_THROW(parse({std::string(150, '(') + "1" + std::string(150, ')'), "", 0}));
  // Long lists are wide, not deep.
  std::string list = "[1";
  for (int i = 0; i < 100000; ++i) list += ",1";
  EXPECT_NO_THROW(parse({list + "]", "", 0}));
}

}  // namespace
}  // namespace quarry::apps::expression
