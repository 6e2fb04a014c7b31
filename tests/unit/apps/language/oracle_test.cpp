// Replays expressions that NumPy 2 evaluated (scripts/oracle/expressions.py) on every device kind that is here, chapter
// by chapter. QUARRY_ORACLE_FILE names a file to take instead, QUARRY_ORACLE_ONLY keeps the expressions that contain
// its text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "quarry/apps/binding/local_values.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/lexer.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/local_eval.h"
#include "quarry/local/memory/allocation_count.h"
#include "tests/oracle/reader.h"
#include "tests/unit/apps/language/oracle_cases.h"

namespace quarry::apps::expression {
namespace {

using namespace local;
using oracle::HostArray;
using oracle::Reader;
using namespace oracle_cases;
using oracle_cases::Expected;

// The same values elsewhere: the axes in another order in memory, with gaps, backwards, not at the beginning.
NdArray laid_out_anew(const NdArray& a, std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  if (a.ndim() == kMaxDims) return a;
  const bool gaps = a.ndim() <= 5;  // else the memory between the elements would be much
  std::vector<int64_t> order(static_cast<size_t>(a.ndim())), back(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Dims shape{3};
  std::vector<IndexItem> items{IndexItem(below(3))};
  for (size_t d = 0; d < order.size(); ++d) {
    back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
    const int64_t extent = a.shape()[static_cast<int>(order[d])];
    const int64_t first = gaps ? below(3) : 0, step = gaps ? 1 + below(3) : 1;
    const bool backwards = below(2) == 1;
    const int64_t last = first + (extent - 1) * step;
    shape.push_back(first + extent * step);
    if (extent == 0)
      items.emplace_back(Slice{0, 0, {}});
    else if (backwards)
      items.emplace_back(Slice{last, first > 0 ? std::optional(first - 1) : std::nullopt, -step});
    else
      items.emplace_back(Slice{first, last + 1, step});
  }
  const NdArray memory(shape, a.dtype());
  memory.fill(Scalar(77));
  NdArray result = memory[items].transpose(back);
  result.assign(a);
  return result;
}

class ExpressionOracle : public ::testing::TestWithParam<std::tuple<DeviceKind, std::string>> {
 protected:
  static DeviceKind kind() { return std::get<DeviceKind>(GetParam()); }
  static const std::string& chapter() { return std::get<std::string>(GetParam()); }
  static constexpr int kShown = 400;

  // What went wrong, or nothing. `layouts` gives the inputs others than NumPy's.
  static std::string outcome(const Reader& reader, const Case& one, std::mt19937_64* layouts = nullptr) {
    const auto given = [&](const NdArray& array) -> ExpressionValue {
      return layouts ? laid_out_anew(array, *layouts) : array;
    };
    return oracle_cases::outcome(reader, one, {&local_library(), given, std::identity(), layouts != nullptr});
  }
};

TEST_P(ExpressionOracle, AnswersAsNumPy) {
  if (!available(kind())) GTEST_SKIP() << "no such device here";
  const DeviceScope scope(Device{kind(), 0});
  const char* only = std::getenv("QUARRY_ORACLE_ONLY");
  const Shard shard;
  Reader reader(load_cases(chapter()));
  std::set<std::string> names;
  int cases = 0, failures = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int number = 0; !reader.done(); ++number) {
    const Case one = read_case(reader);
    if (!shard.has(number)) continue;
    if (only != nullptr && one.expression.find(only) == std::string::npos) continue;
    ++cases;
    collect_names(one.expression, names);
    const std::string wrong = outcome(reader, one);
    if (wrong.empty()) continue;
    if (++failures <= kShown) fmt::print("  {}  [{}]: {}\n", one.expression, describe_inputs(reader, one), wrong);
  }
  int functions = 0;
  for (const std::string& function : local_library().registry().function_names()) functions += names.contains(function);
  fmt::print("{} on {}: {} functions, {} cases, {} failures, {:.1f} s\n", chapter(), local::name(kind()), functions,
             cases, failures, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (only == nullptr && shard.count == 1) {
    EXPECT_GT(cases, 0);
  }
  EXPECT_EQ(failures, 0);
}
// The cases again with every input in a random layout.
TEST_P(ExpressionOracle, ResultsDoNotDependOnStrides) {
  if (!available(kind())) GTEST_SKIP() << "no such device here";
  const DeviceScope scope(Device{kind(), 0});
  const char* only = std::getenv("QUARRY_ORACLE_ONLY");
  // What is about the layout itself; dot() wants an `out` in C order.
  constexpr std::string_view kAboutLayout[] = {"strides",
                                               "strided",
                                               ".view(",
                                               "copy=False",
                                               "'K'",
                                               "'A'",
                                               ".flags.",
                                               "shares_memory",
                                               "may_share",
                                               "ravel",
                                               "dot(a, b, out=c)",
                                               ".dot(b, c)",
                                               "dot([a, b, c], out=d)"};
  // Another layout may be another kernel to compile on a GPU.
  const int every = kind() == DeviceKind::cpu ? 1 : kind() == DeviceKind::emulated ? 7 : 50;
  const Shard shard;
  Reader reader(load_cases(chapter()));
  std::mt19937_64 random(20);
  int cases = 0, failures = 0;
  for (int number = 0; !reader.done(); ++number) {
    const Case one = read_case(reader);
    if (only != nullptr && one.expression.find(only) == std::string::npos) continue;
    if (number % every != 0 || !shard.has(number / every)) continue;
    const auto names = [&](std::string_view text) { return one.expression.find(text) != std::string::npos; };
    if (std::any_of(std::begin(kAboutLayout), std::end(kAboutLayout), names)) continue;
    ++cases;
    const std::string wrong = outcome(reader, one, &random);
    if (wrong.empty()) continue;
    if (++failures <= kShown) fmt::print("  {}  [{}]: {}\n", one.expression, describe_inputs(reader, one), wrong);
  }
  fmt::print("{} in other layouts on {}: {} cases, {} failures\n", chapter(), local::name(kind()), cases, failures);
  if (only == nullptr && shard.count == 1) {
    EXPECT_GT(cases, 0);
  }
  EXPECT_EQ(failures, 0);
}
// The cases again on the trial device that stands for the CPU: shapes and dtypes are NumPy's, and the peak is what the
// CPU takes, or little more.
class ExpressionTrials : public ::testing::TestWithParam<std::string> {};

// What of an expression's shapes and dtypes is not as expected, and the most bytes that it takes on the device.
struct Tried {
  std::string wrong;
  int64_t peak = 0;
};

std::string other_shape(const Reader& reader, const ExpressionValue& got, const Expected& want) {
  if (want.kind == Expected::Kind::sequence) {
    const SequenceValue* sequence = got.sequence();
    if (sequence == nullptr || sequence->items.size() != want.items.size()) return "another number of items";
    for (size_t i = 0; i < want.items.size(); ++i) {
      const std::string text = other_shape(reader, sequence->items[i], want.items[i]);
      if (!text.empty()) return fmt::format("item {}: {}", i, text);
    }
  }
  if (want.kind != Expected::Kind::array && want.kind != Expected::Kind::masked_array) return "";
  const HostArray& expected = reader.pool()[want.array];
  if (const LocalMasked* masked = masked_in<local::ma::Local>(got)) {
    if (masked->dtype() == expected.dtype && masked->shape() == expected.shape) return "";
    return fmt::format("got {}{}, expected {}{}", local::name(masked->dtype()), to_string(masked->shape()),
                       local::name(expected.dtype), to_string(expected.shape));
  }
  if (!is_local_operand(got) || got.sequence() != nullptr) return "got a " + type_name(got) + ", expected an array";
  const NdArray array = to_ndarray(got);
  if (array.dtype() == expected.dtype && array.shape() == expected.shape) return "";
  return fmt::format("got {}{}, expected {}{}", local::name(array.dtype()), to_string(array.shape()),
                     local::name(expected.dtype), to_string(expected.shape));
}

// Throws what the expression throws.
Tried tried_on(Device device, const Reader& reader, const Case& one) {
  const DeviceScope scope(device);
  Environment environment;
  environment.library = &local_library();
  for (const auto& [input, number] : one.inputs) environment.variables.emplace(input, reader.pool()[number].upload());
  const AllocationCount counted(device, /*also_cpu=*/true);
  const Source source{one.expression, "", 0};
  std::string wrong = other_shape(reader, evaluate(source, *parse(source), environment), one.expected);
  return {std::move(wrong), counted.peak_bytes()};
}
// Nothing where the CPU does not answer as NumPy, which is another test's business.
std::optional<Tried> on_cpu(const Reader& reader, const Case& one) {
  if (one.failure != Failure::none) return std::nullopt;
  try {
    Tried taken = tried_on(kCpu, reader, one);
    if (taken.wrong.empty()) return taken;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}
// Nothing where it needs values. Throws other errors.
std::optional<Tried> on_trial(const Reader& reader, const Case& one, std::string* message = nullptr) {
  try {
    return tried_on(trial_of(DeviceKind::cpu), reader, one);
  } catch (const InvalidArgument& error) {
    if (error.code() != ErrorCode::needs_value) throw;
    if (message != nullptr) *message = error.what();
    return std::nullopt;
  }
}

TEST_P(ExpressionTrials, TellShapesAndBytes) {
  // Scratch is stated for the longer of two ways, of which small arrays take the other one.
  constexpr int64_t kSmall = int64_t{64} << 10;
  constexpr double kMore = 1.1;
  // Expressions that read a value themselves, and so have no function that could be named.
  constexpr std::string_view kReaders[] = {".tobytes(", "array_str(", "array_repr(", "array2string(",
                                           "str(",      "fill(",      "a < b < 50",  "repr("};
  const char* only = std::getenv("QUARRY_ORACLE_ONLY");
  Reader reader(load_cases(GetParam()));
  int cases = 0, need = 0, failures = 0;
  while (!reader.done()) {
    const Case one = read_case(reader);
    if (only != nullptr && one.expression.find(only) == std::string::npos) continue;
    std::string wrong, message;
    try {
      const std::optional<Tried> tried = on_trial(reader, one, &message);
      if (!tried) {
        ++need;
        const bool reads = std::any_of(std::begin(kReaders), std::end(kReaders), [&](std::string_view text) {
          return one.expression.find(text) != std::string::npos;
        });
        if (!reads && message.find("an element or a copy") != std::string::npos) wrong = "names no function";
      } else if (const std::optional<Tried> taken = on_cpu(reader, one)) {
        ++cases;
        wrong = tried->wrong;
        if (tried->peak < taken->peak ||
            static_cast<double>(tried->peak) > kMore * static_cast<double>(taken->peak) + kSmall)
          wrong += fmt::format(" {} bytes, the CPU takes {}", tried->peak, taken->peak);
      }
    } catch (const std::exception& error) {
      if (on_cpu(reader, one)) wrong = error.what();
    }
    if (!wrong.empty() && ++failures <= 50) fmt::print("  {}: {}\n", one.expression, wrong);
  }
  fmt::print("{} tried: {} cases, {} need values, {} failures\n", GetParam(), cases, need, failures);
  EXPECT_EQ(failures, 0);
}
INSTANTIATE_TEST_SUITE_P(All, ExpressionTrials, ::testing::ValuesIn(chapters()),
                         [](const auto& info) { return info.param.empty() ? std::string("file") : info.param; });

INSTANTIATE_TEST_SUITE_P(All, ExpressionOracle,
                         ::testing::Combine(::testing::Values(DeviceKind::cpu, DeviceKind::emulated, DeviceKind::cuda),
                                            ::testing::ValuesIn(chapters())),
                         [](const auto& info) {
                           const std::string& chapter = std::get<std::string>(info.param);
                           return fmt::format("{}_{}", local::name(std::get<DeviceKind>(info.param)),
                                              chapter.empty() ? "file" : chapter);
                         });

// The methods of ufuncs are few functions with the ufunc as an argument: "add.reduce" counts as "ufunc.reduce".
std::string function_family(const std::string& function) {
  static const std::set<std::string> methods = {".accumulate", ".at", ".outer", ".reduce", ".reduceat"};
  const size_t dot = function.rfind('.');
  if (dot == std::string::npos || dot == 0 || !methods.contains(function.substr(dot))) return function;
  return "ufunc" + function.substr(dot);
}

// Every function and method has a case, but for the lines of uncovered.txt.
TEST(ExpressionOracleCoverage, EveryFunctionHasACase) {
  if (std::getenv("QUARRY_ORACLE_FILE") != nullptr) GTEST_SKIP() << "another file may hold one chapter only";
  std::set<std::string> names, of_masked, allowed;
  for (const std::string& chapter : chapters()) {
    for (Reader reader(load_cases(chapter)); !reader.done();) {
      const Case one = read_case(reader);
      collect_names(one.expression, names);
      if (chapter == "ma") collect_names(one.expression, of_masked);
    }
  }
  for (const std::string& name : std::set<std::string>(names)) names.insert(function_family(name));
  std::ifstream file(oracle::file("uncovered.txt"));
  for (std::string line; std::getline(file, line);) allowed.insert(line);
  std::string missing;
  for (const std::string& registered : local_library().registry().function_names()) {
    const std::string function = function_family(registered);
    if (function.starts_with("builtins.")) continue;  // Python's: scripts/oracle/tables/python_scalars.py
    if (const std::string methods = "ma.MaskedArray."; function.starts_with(methods)) {
      if (!of_masked.contains("." + function.substr(methods.size()))) missing += " " + function;
      continue;
    }
    if (!names.contains(function) && !allowed.contains(function)) missing += " " + function;
  }
  for (const std::string& method : local_library().registry().method_names()) {
    if (!names.contains("." + method) && !allowed.contains("." + method)) missing += " ." + method;
  }
  EXPECT_EQ(missing, "") << "functions without a case in scripts/oracle/cases";
}

// Functions that cannot be tried because they read values are the lines of needs_values.txt.
TEST(ExpressionTrialCoverage, OthersNeedNoValues) {
  if (std::getenv("QUARRY_ORACLE_FILE") != nullptr) GTEST_SKIP() << "another file may hold one chapter only";
  std::set<std::string> asked, tried, listed, need;
  for (const std::string& chapter : chapters()) {
    for (Reader reader(load_cases(chapter)); !reader.done();) {
      const Case one = read_case(reader);
      if (one.failure != Failure::none) continue;
      collect_names(one.expression, asked);
      try {
        if (on_trial(reader, one)) collect_names(one.expression, tried);
      } catch (const std::exception&) {  // TellShapesAndBytes says so
      }
    }
  }
  for (const std::string& function : local_library().registry().function_names()) {
    if (asked.contains(function) && !tried.contains(function)) need.insert(function);
  }
  std::ifstream file(oracle::file("needs_values.txt"));
  for (std::string line; std::getline(file, line);) listed.insert(line);
  EXPECT_EQ(need, listed);
}

TEST(FunctionTable, KnowsNumPysNames) {
  const std::set<std::string> beyond_expressions = {"from_dlpack"};  // takes an object of Python
  std::ifstream file(oracle::file("numpy_functions.txt"));
  std::string missing;
  int known = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string function = line.starts_with("ufunc.") ? "add" + line.substr(line.find('.')) : line;
    if (local_library().registry().function(function) != nullptr)
      ++known;
    else if (!beyond_expressions.contains(function))
      missing += " " + function;
  }
  fmt::print("{} of NumPy's functions\n", known);
  EXPECT_EQ(missing, "");
  EXPECT_GT(known, 300);
}

// A row of a function table whose signature is not the C++ function's gets a handler that says so.
TEST(FunctionTable, SignaturesAreThoseOfTheFunctions) { EXPECT_EQ(table_problems(), ""); }

}  // namespace
}  // namespace quarry::apps::expression
