// Replays the expressions that NumPy 2 evaluated on chunked arrays: whole, cut at random, or in chunks of one element.
// Bits are equal for other threads and budgets, and on the device that acts as a GPU. What chunked arrays answer
// otherwise stands in tests/oracle/chunked_differences.txt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include "quarry/apps/binding/binding.h"
#include "quarry/apps/quarry/local_eval.h"
#include "quarry/chunked/api/quarry.h"
#include "tests/support/cuts.h"
#include "tests/unit/apps/language/oracle_cases.h"

namespace quarry::apps::oracle_cases {
namespace {

using expression::chunked_library;
using expression::local_library;
using local::DeviceKind;

Array cut_anyhow(const local::NdArray& array, std::mt19937& random) {
  constexpr int64_t kMostOfOne = 40;  // chunks of one element
  const auto way = random() % 4;
  if (way == 0) return Array::from_local(array);
  if (way == 1 && array.size() <= kMostOfOne) return Array::from_local(array).rechunk(Dims::filled(array.ndim(), 1));
  return testing::cut(array, random);
}

// Whether the expression names a function or method that arrays of one process have and chunked ones do not.
bool is_local_only(const std::string& text) {
  std::set<std::string> names;
  collect_names(text, names);
  const auto& here = local_library().registry();
  const auto& chunked = chunked_library().registry();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    if (!name.starts_with("."))
      return here.function(name) != nullptr && chunked.function(name) == nullptr && !local_library().is_module(name);
    const std::string method = name.substr(1);
    const bool of_module = std::any_of(names.begin(), names.end(), [&](const std::string& other) {
      return other != name && other.ends_with(name) && chunked.function(other) != nullptr;
    });
    return !of_module && here.method(method) != nullptr && chunked.method(method) == nullptr;
  });
}

// The lines of chunked_differences.txt that count for a chapter, and which of them were needed.
class Differences {
 public:
  explicit Differences(const std::string& chapter) {
    std::ifstream file(oracle::file("chunked_differences.txt"));
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const size_t first = line.find(" | "), second = line.find(" | ", first + 1);
      if (second == std::string::npos) throw local::InvalidArgument("chunked_differences.txt: " + line);
      const std::string where = line.substr(0, first);
      if (where == "*" || where == chapter) needed_.emplace(line.substr(first + 3, second - first - 3), where == "*");
    }
  }
  bool allows(const std::string& text) {
    bool found = false;
    for (auto& [part, needed] : needed_) {
      if (text.find(part) == std::string::npos) continue;
      found = needed = true;
    }
    return found;
  }
  std::string unneeded() const {
    std::string text;
    for (const auto& [part, needed] : needed_)
      if (!needed) text += part + "\n";
    return text;
  }

 private:
  std::map<std::string, bool> needed_;
};

class ChunkedOracle : public ::testing::TestWithParam<std::tuple<DeviceKind, std::string>> {};

TEST_P(ChunkedOracle, AnswersAsNumPy) {
  const auto& [kind, chapter] = GetParam();
  if (!local::available(kind)) GTEST_SKIP() << "no such device here";
  const bool cpu = kind == DeviceKind::cpu;
  RuntimeOptions options;
  options.device = kind;
  options.memory = "256MiB";
  options.threads = 2;
  const Runtime runtime(options);
  const char* only = std::getenv("QUARRY_ORACLE_ONLY");
  // A GPU compiles kernels anew for other cases, the emulated one runs them element by element.
  const int every = cpu ? 1 : kind == DeviceKind::emulated ? 23 : 50;
  constexpr int kShown = 400;
  const Shard shard;
  Differences differences(chapter);
  oracle::Reader reader(load_cases(chapter));
  int cases = 0, failures = 0, others = 0, known = 0;
  for (int number = 0; !reader.done(); ++number) {
    const Case one = read_case(reader);
    if (number % every != 0 || !shard.has(number / every)) continue;
    if (only != nullptr && one.expression.find(only) == std::string::npos) continue;
    if (is_local_only(one.expression)) {
      ++others;
      continue;
    }
    ++cases;
    std::mt19937 random(static_cast<unsigned>(number));
    const auto given = [&](const local::NdArray& array) { return cut_anyhow(array, random); };
    const std::string wrong = outcome(reader, one, {&chunked_library(), given, localised, /*other_sums=*/true});
    if (wrong.empty()) continue;
    if (differences.allows(one.expression + ": " + wrong))
      ++known;
    else if (++failures <= kShown)
      fmt::print("  {}  [{}]: {}\n", one.expression, describe_inputs(reader, one), wrong);
  }
  fmt::print("{} in chunks on {}: {} cases, {} failures, {} known differences; {} cases of functions of one process\n",
             chapter, local::name(kind), cases, failures, known, others);
  EXPECT_EQ(failures, 0);
  if (cpu && only == nullptr && shard.count == 1) {
    EXPECT_EQ(differences.unneeded(), "") << "lines of chunked_differences.txt that nothing needs";
  }
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<DeviceKind, std::string>>& info) {
  const std::string& chapter = std::get<std::string>(info.param);
  return fmt::format("{}_{}", local::name(std::get<DeviceKind>(info.param)), chapter.empty() ? "file" : chapter);
}
INSTANTIATE_TEST_SUITE_P(All, ChunkedOracle,
                         ::testing::Combine(::testing::Values(DeviceKind::cpu, DeviceKind::emulated, DeviceKind::cuda),
                                            ::testing::ValuesIn(chapters())),
                         case_name);

// Functions of chunked arrays that no case calls; the lines of uncovered.txt are those of one process.
TEST(ChunkedOracleCoverage, EveryFunctionHasACase) {
  if (std::getenv("QUARRY_ORACLE_FILE") != nullptr) GTEST_SKIP() << "another file may hold one chapter only";
  std::set<std::string> names, of_masked, missing;
  for (const std::string& chapter : chapters()) {
    for (oracle::Reader reader(load_cases(chapter)); !reader.done();) {
      const Case one = read_case(reader);
      if (is_local_only(one.expression)) continue;
      collect_names(one.expression, names);
      if (chapter == "ma") collect_names(one.expression, of_masked);
    }
  }
  for (const std::string& function : chunked_library().registry().function_names()) {
    if (local_library().registry().function(function) == nullptr) continue;
    // Python's own have cases elsewhere, a copy of a masked array has one of local arrays, and draws are compared with
    // those of one process (random_test.cpp).
    if (function.starts_with("builtins.") || function.starts_with("random.Generator.")) continue;
    if (function == "ma.MaskedArray.copy") continue;
    const std::string methods = "ma.MaskedArray.";
    const bool has_case = function.starts_with(methods) ? of_masked.contains("." + function.substr(methods.size()))
                                                        : names.contains(function);
    if (!has_case) missing.insert(function);
  }
  for (const std::string& function : missing) fmt::print("  {}\n", function);
  EXPECT_EQ(missing.size(), 0u);
}

}  // namespace
}  // namespace quarry::apps::oracle_cases
