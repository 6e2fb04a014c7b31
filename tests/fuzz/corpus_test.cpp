// What fuzzers found (tests/fuzz/corpus/TARGET, by scripts/fuzz --keep) and what they began from, through the same
// targets: in children with a limit of memory, so that an input that ends the process is named.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <map>

#include "tests/fuzz/mutants.h"
#include "tests/fuzz/targets/target.h"
#include "tests/support/source_file.h"

namespace quarry::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMoreBytes = 128 << 20;

enum Outcome : int { kRight = 0, kRefused = 1 };

// What becomes of a child that runs the target: an Outcome, or -1 where it does not come to its end.
int run_apart(const Target& target, const Content& bytes) {
  const pid_t child = ::fork();
  if (child == 0) {
    limit_memory(kMoreBytes);
    ::alarm(30);
    ::_exit(target.run(bytes) ? kRight : kRefused);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) <= kRefused ? WEXITSTATUS(status) : -1;
}

class Corpus : public testing::TestWithParam<size_t> {
 protected:
  const Target& target() const { return targets()[GetParam()]; }
};

TEST_P(Corpus, SeedsAreRight) {
  const auto seeds = target().seeds();
  EXPECT_FALSE(seeds.empty());
  for (size_t i = 0; i < seeds.size(); ++i) EXPECT_EQ(run_apart(target(), seeds[i]), kRight) << i;
}

TEST_P(Corpus, Replays) {
  std::map<int, int> outcomes;
  for (const auto& entry : fs::directory_iterator(source_file("tests/fuzz/corpus") / target().name)) {
    const int outcome = run_apart(target(), load(entry.path().string()));
    EXPECT_GE(outcome, 0) << entry.path() << " ended the process";
    ++outcomes[outcome];
  }
  EXPECT_GT(outcomes[kRight] + outcomes[kRefused], 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, Corpus, testing::Range<size_t>(0, targets().size()),
                         [](const auto& info) { return std::string(targets()[info.param].name); });

// A folder without a target would be replayed by nobody.
TEST(CorpusFolders, EachHasATarget) {
  for (const auto& entry : fs::directory_iterator(source_file("tests/fuzz/corpus")))
    EXPECT_TRUE(std::ranges::any_of(targets(), [&](const Target& t) { return t.name == entry.path().filename(); }))
        << entry.path();
}

}  // namespace
}  // namespace quarry::test
