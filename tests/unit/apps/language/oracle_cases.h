// Expressions that NumPy 2 evaluated (scripts/oracle/expressions.py), read and compared: for the tests that replay them
// on local and on chunked arrays. QUARRY_ORACLE_FILE names a file to take instead of the chapters of tests/oracle.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "quarry/apps/language/evaluator.h"
#include "tests/oracle/reader.h"

namespace quarry::apps::oracle_cases {

using ExpressionValue = expression::Value;

// Chapters with expressions; one without a name for QUARRY_ORACLE_FILE.
std::vector<std::string> chapters();
std::vector<unsigned char> load_cases(const std::string& chapter);

// As format.py says.
struct Expected {
  enum class Kind : uint8_t { none, array, text, dtype, sequence, masked_array, masked } kind = Kind::none;
  uint32_t array = 0, mask = 0;  // of the pool
  std::string text;
  local::DType dtype{};
  std::vector<Expected> items;
};
enum class Failure : uint8_t { none, type_error, value_error, index_error, axis_error };
struct Case {
  std::string expression;
  std::vector<std::pair<std::string, uint32_t>> inputs;
  double ulp = 0, norm = 0, atol = 0;
  Failure failure = Failure::none;
  Expected expected;
};
Case read_case(oracle::Reader& reader);

// What of a value is not as expected; empty if all is.
std::string difference(const oracle::Reader& reader, const Case& one, const ExpressionValue& got);

// How the arrays of a case are given to the expression, and its result is made one of local arrays.
struct Way {
  const expression::Library* library = nullptr;
  std::function<ExpressionValue(const local::NdArray&)> given;
  std::function<ExpressionValue(const ExpressionValue&)> taken;
  bool other_sums = false;       // terms may be added in another order than NumPy's
  bool throws_refusals = false;  // BudgetError, and NotSupported, which may be about what fits a task
};
// What went wrong, or nothing.
std::string outcome(const oracle::Reader& reader, const Case& one, const Way& way);

// The value with arrays of one process in place of chunked ones, which are computed.
ExpressionValue localised(const ExpressionValue& value);

// The first line of a text, cut to a length that fits a line.
std::string short_text(std::string text);
// "a=float64(3, 4) b=int64()".
std::string describe_inputs(const oracle::Reader& reader, const Case& one);

// The functions and methods that the text names: "roll", "linalg.qr", "add.reduce", ".tolist".
void collect_names(const std::string& text, std::set<std::string>& names);

// QUARRY_ORACLE_SHARD=I/N: one case in N.
struct Shard {
  Shard();
  bool has(int number) const { return number % count == index; }
  int index = 0, count = 1;
};

}  // namespace quarry::apps::oracle_cases
