// Replays the expressions that NumPy 2 evaluated on chunked arrays: whole, cut at random, or in chunks of one element.
// Bits are equal for other threads and budgets, and on the device that acts as a GPU. What chunked arrays answer
// otherwise stands in tests/oracle/chunked_differences.txt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "quarry/apps/binding/binding.h"
#include "tests/support/target_names.h"
#include "tests/unit/apps/language/chunked_replay.h"

namespace quarry::apps::oracle_cases {
namespace {

using expression::chunked_library;
using expression::local_library;
using local::DeviceKind;

class ChunkedOracle : public ::testing::TestWithParam<std::tuple<DeviceKind, std::string>> {};

TEST_P(ChunkedOracle, AnswersAsNumPy) {
  const auto& [kind, chapter] = GetParam();
  if (!local::available(kind)) GTEST_SKIP() << "no such device here";
  const bool cpu = kind == DeviceKind::cpu;
  ReplaySettings settings;
  settings.runtime.device = kind;
  settings.runtime.memory = "256MiB";
  settings.runtime.threads = 2;
  ChunkedReplay replay(settings);
  // A GPU compiles kernels anew for other cases, the emulated one runs them element by element.
  const int every = cpu ? 1 : kind == DeviceKind::emulated ? 23 : 50;
  constexpr int kShown = 400;
  Differences differences(chapter);
  const ChunkedCases chosen(chapter, [&](int number) { return number % every == 0; });
  int failures = 0, known = 0;
  for (const ChunkedCases::Numbered& given : chosen.cases()) {
    const std::string wrong = replay.answer(chosen.reader(), given).wrong;
    if (wrong.empty()) continue;
    if (differences.allows(given.one.expression + ": " + wrong))
      ++known;
    else if (++failures <= kShown)
      fmt::print("  {}  [{}]: {}\n", given.one.expression, describe_inputs(chosen.reader(), given.one), wrong);
  }
  fmt::print("{} in chunks on {}: {} cases, {} failures, {} known differences; {} cases of functions of one process\n",
             chapter, local::name(kind), chosen.cases().size(), failures, known, chosen.of_one_process());
  EXPECT_EQ(failures, 0);
  if (cpu && !is_part()) {
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

// What the cases that are replayed on chunked arrays name.
struct Named {
  Named() {
    for (const std::string& chapter : chapters()) {
      for (oracle::Reader reader(load_cases(chapter)); !reader.done();) {
        const Case one = read_case(reader);
        if (is_local_only(one.expression)) continue;
        collect_names(one.expression, names);
        if (chapter == "ma") collect_names(one.expression, of_masked);
      }
    }
  }
  std::set<std::string> names, of_masked;
};

// Functions of chunked arrays that no case calls; the lines of uncovered.txt are those of one process.
TEST(ChunkedOracleCoverage, EveryFunctionHasACase) {
  if (std::getenv("QUARRY_ORACLE_FILE") != nullptr) GTEST_SKIP() << "another file may hold one chapter only";
  const Named named;
  std::set<std::string> missing;
  for (const std::string& function : chunked_library().registry().function_names()) {
    if (local_library().registry().function(function) == nullptr) continue;
    // Python's own have cases elsewhere, a copy of a masked array has one of local arrays, and draws are compared with
    // those of one process (random_test.cpp).
    if (function.starts_with("builtins.") || function.starts_with("random.Generator.")) continue;
    if (function == "ma.MaskedArray.copy") continue;
    const std::string methods = "ma.MaskedArray.";
    const bool has_case = function.starts_with(methods)
                              ? named.of_masked.contains("." + function.substr(methods.size()))
                              : named.names.contains(function);
    if (!has_case) missing.insert(function);
  }
  for (const std::string& function : missing) fmt::print("  {}\n", function);
  EXPECT_EQ(missing.size(), 0u);
}

// The names that are wanted of chunked arrays, but for those that neither NumPy nor SciPy has.
TEST(ChunkedOracleCoverage, SharedTargetOfNamesHasCases) {
  if (std::getenv("QUARRY_ORACLE_FILE") != nullptr) GTEST_SKIP() << "another file may hold one chapter only";
  const auto target = test::chunked_target_names();
  if (!target) GTEST_SKIP() << "the list of names is absent";
  const Named named;
  int count = 0;
  std::string missing;
  for (const test::TargetName& wanted : *target) {
    if (!wanted.of_local) continue;
    // Draws are compared with those of one process (random_test.cpp).
    if (wanted.name.starts_with("random.Generator.")) continue;
    ++count;
    const std::string of_ufunc = "ufunc.", of_array = "Array.";
    const std::string name = wanted.name.starts_with(of_ufunc)   ? "add." + wanted.name.substr(of_ufunc.size())
                             : wanted.name.starts_with(of_array) ? "." + wanted.name.substr(of_array.size())
                                                                 : wanted.name;
    if (!named.names.contains(name)) missing += " " + wanted.name;
  }
  EXPECT_GT(count, 300);
  EXPECT_EQ(missing, "");
}

}  // namespace
}  // namespace quarry::apps::oracle_cases
