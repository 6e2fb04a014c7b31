// The oracle's expressions on chunked arrays of several ranks, and with the least budget that works, where chunks that
// wait are spilled: values and dtypes as NumPy's, and the bits of one rank with one thread. A sample of the cases, with
// each function; all of them where QUARRY_SLOW_TESTS is set.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "quarry/apps/language/library.h"
#include "tests/support/mpi_job.h"
#include "tests/unit/apps/language/chunked_replay.h"

namespace quarry::apps::oracle_cases {
namespace {

using local::DeviceKind;
using test::job;

// How a case is computed, beside on one rank with one thread.
struct Kind {
  const char* name;
  bool stores_inputs, least_budget;
  int threads;
};
constexpr Kind kKinds[] = {{"on ranks", false, false, 2}, {"in the least budget", true, true, 3}};

ReplaySettings settings(DeviceKind device, const Kind& kind) {
  ReplaySettings settings;
  settings.runtime.device = device;
  settings.runtime.memory = "128MiB";
  settings.runtime.host_memory = "32MiB";
  settings.runtime.threads = kind.threads;
  settings.stores_inputs = kind.stores_inputs;
  settings.least_budget = kind.least_budget;
  return settings;
}

struct Counts {
  std::set<std::string> functions;
  int64_t cases = 0, failures = 0, known = 0, spilling = 0;
};

class OracleOnRanks : public ::testing::TestWithParam<std::tuple<DeviceKind, std::string>> {
 protected:
  static void TearDownTestSuite() {
    if (job().rank() != 0) return;
    fmt::print("{} ranks: {} functions, {} cases, {} failures, {} known differences, {} cases spilled\n", job().size(),
               total.functions.size(), total.cases, total.failures, total.known, total.spilling);
  }
  static Counts total;
};
Counts OracleOnRanks::total;

bool is_whole() { return std::getenv("QUARRY_SLOW_TESTS") != nullptr; }

// Rank 0 reads all chapters, which takes a second.
const Sample& sample() {
  static const Sample sample = [] {
    constexpr uint64_t kEvery = 400;
    std::string text;
    if (job().rank() == 0) {
      for (const auto& [chapter, numbers] : sample_of_cases(kEvery))
        text += fmt::format("{} {} {} ", chapter, numbers.size(), fmt::join(numbers, " "));
    }
    Sample made;
    std::istringstream words(job().broadcast_string(text, /*root=*/0));
    size_t count = 0;
    for (std::string chapter; words >> chapter >> count;) {
      for (int number = 0; count > 0 && words >> number; --count) made[chapter].insert(number);
    }
    return made;
  }();
  return sample;
}

// Hashes of what one rank gives: each rank computes alone what falls to it.
std::vector<int64_t> bits_alone(DeviceKind device, const ChunkedCases& chosen) {
  std::vector<int64_t> bits(chosen.cases().size());
  ReplaySettings alone = settings(device, {"", false, false, 1});
  alone.runtime.transport = "self";
  ChunkedReplay replay(alone);
  for (size_t i = static_cast<size_t>(job().rank()); i < bits.size(); i += static_cast<size_t>(job().size())) {
    test::going_on("alone: " + chosen.cases()[i].one.expression);
    bits[i] = static_cast<int64_t>(replay.answer(chosen.reader(), chosen.cases()[i]).bits);
  }
  job().all_reduce(bits, comm::ReduceOp::sum);
  return bits;
}

TEST_P(OracleOnRanks, AnswersAsNumPyWithTheBitsOfOneRank) {
  const auto& [device, chapter] = GetParam();
  const ChunkedCases chosen(chapter, [device = device, chapter = chapter](int number) {
    if (is_whole()) return true;
    constexpr int kOfEmulated = 4;  // one case in so many: the emulated device is slow
    if (device == DeviceKind::emulated && number % kOfEmulated != 0) return false;
    const auto found = sample().find(chapter);
    return found != sample().end() && found->second.contains(number);
  });
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<int64_t> alone = bits_alone(device, chosen);
  Differences differences(chapter);
  std::vector<int64_t> failed(alone.size()), known(alone.size()), spilled(alone.size());
  std::string failures;
  for (const Kind& kind : kKinds) {
    ChunkedReplay replay(settings(device, kind));
    for (size_t i = 0; i < alone.size(); ++i) {
      const ChunkedCases::Numbered& given = chosen.cases()[i];
      // Making Runtimes takes ranks long: of a sample one case in so many.
      constexpr int kOfLeast = 3;
      if (kind.least_budget && job().size() > 1 && !is_whole() && given.number % kOfLeast != 0) continue;
      test::going_on(fmt::format("{}: {}", kind.name, given.one.expression));
      Answer answer = replay.answer(chosen.reader(), given);
      spilled[i] += answer.spilled_bytes;
      if (!answer.wrong.empty() && differences.allows(given.one.expression + ": " + answer.wrong)) {
        answer.wrong.clear();
        known[i] = 1;
      }
      if (answer.wrong.empty() && static_cast<int64_t>(answer.bits) != alone[i]) answer.wrong = "has other bits";
      if (answer.wrong.empty()) continue;
      failed[i] = 1;
      failures += fmt::format("  rank {} {}: case {}: {}  [{}]: {}\n", job().rank(), kind.name, given.number,
                              given.one.expression, describe_inputs(chosen.reader(), given.one), answer.wrong);
    }
  }
  job().all_reduce(failed, comm::ReduceOp::max);
  job().all_reduce(known, comm::ReduceOp::max);
  job().all_reduce(spilled, comm::ReduceOp::max);
  const auto count = [](const std::vector<int64_t>& flags) {
    return std::count_if(flags.begin(), flags.end(), [](int64_t flag) { return flag != 0; });
  };
  Counts here;
  here.cases = std::ssize(alone);
  here.failures = count(failed);
  here.known = count(known);
  here.spilling = count(spilled);
  for (const ChunkedCases::Numbered& given : chosen.cases()) here.functions.merge(chunked_names(given.one.expression));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  for (const std::string& text : job().all_gather_strings(failures)) {
    if (job().rank() == 0) fmt::print("{}", text);
  }
  if (job().rank() == 0) {
    fmt::print(
        "{} on {} with {} ranks: {} functions, {} cases, {} failures, {} known differences, {} cases spilled, {:.1f} "
        "s\n",
        chapter, local::name(device), job().size(), here.functions.size(), here.cases, here.failures, here.known,
        here.spilling, seconds.count());
  }
  total.functions.merge(here.functions);
  total.cases += here.cases;
  total.failures += here.failures;
  total.known += here.known;
  total.spilling += here.spilling;
  EXPECT_EQ(here.failures, 0);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<DeviceKind, std::string>>& info) {
  return fmt::format("{}_{}", local::name(std::get<DeviceKind>(info.param)), std::get<std::string>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Chapters, OracleOnRanks,
                         ::testing::Combine(::testing::Values(DeviceKind::cpu, DeviceKind::emulated),
                                            ::testing::ValuesIn(chapters())),
                         case_name);

}  // namespace
}  // namespace quarry::apps::oracle_cases
