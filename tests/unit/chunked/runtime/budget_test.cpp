// The search for the least budget, and how far a run is.
#include "quarry/chunked/runtime/budget.h"

#include <gtest/gtest.h>

#include "quarry/chunked/runtime/progress.h"

namespace quarry::exec {
namespace {

// One byte less than what is found must not work, and a found one must.
void expect_least(const std::function<int64_t(int64_t)>& least_at, int64_t failing, int64_t guess) {
  int calls = 0;
  const int64_t found = least_that_works(
      [&](int64_t bytes) {
        ++calls;
        return least_at(bytes);
      },
      failing, guess);
  EXPECT_LE(least_at(found), found);
  EXPECT_GT(least_at(found - 1), found - 1);
  EXPECT_LE(calls, 90);
}

TEST(LeastBudget, OneByteLessDoesNotWork) {
  const auto fixed = [](int64_t least) { return [least](int64_t /*bytes*/) { return least; }; };
  for (const int64_t least : {2, 4097, 123456789}) {
    expect_least(fixed(least), 1, least);          // the guess is right
    expect_least(fixed(least), 1, least + 12345);  // too large
    expect_least(fixed(least), 1, least / 2 + 1);  // too small
  }
  // Larger budgets have larger chunks, which need more.
  expect_least([](int64_t bytes) { return 1000 + bytes / 2; }, 10, 5000);
  expect_least([](int64_t bytes) { return bytes < 5000 ? 1000 + bytes / 3 : 6000; }, 10, 8000);
  expect_least([](int64_t bytes) { return 777 + bytes - bytes / 64; }, 10, 90000);
}

}  // namespace
}  // namespace quarry::exec

namespace quarry {
namespace {

TEST(ProgressFraction, FollowsTheWorkThenTheBytesThenTheTasks) {
  Progress progress;
  EXPECT_EQ(progress.fraction(), 0);
  progress.tasks_done = 1, progress.tasks_total = 4;
  EXPECT_EQ(progress.fraction(), 0.25);
  progress.bytes_done = 1, progress.bytes_total = 2;
  EXPECT_EQ(progress.fraction(), 0.5);
  progress.work_done = 3, progress.work_total = 4;
  EXPECT_EQ(progress.fraction(), 0.75);
  progress.work_done = 5;
  EXPECT_EQ(progress.fraction(), 1);
  const Progress both[] = {progress, progress};
  EXPECT_EQ(detail::total(both).work_total, 8);
}

}  // namespace
}  // namespace quarry
