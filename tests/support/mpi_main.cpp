// main() of the test programs that run under mpirun: rank 0 prints, a failure on any rank fails the test everywhere,
// and a test that does not end (a rank waits for one that failed an assertion) ends the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "quarry/comm/world/world.h"
#include "tests/support/mpi_job.h"

namespace quarry::test {

namespace {

std::unique_ptr<comm::Communicator> the_job;

// Ends the program when one test takes too long.
class Watchdog {
 public:
  explicit Watchdog(int rank) : rank_(rank) {
    const char* limit = std::getenv("QUARRY_TEST_TIMEOUT");
    seconds_ = limit ? std::atof(limit) : 120;
    thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }
  void begin(const std::string& what) {
    const std::lock_guard lock(mutex_);
    what_ = what;
    begin_ = std::chrono::steady_clock::now();
  }

 private:
  void watch(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::lock_guard lock(mutex_);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
      if (spent.count() < seconds_) continue;
      std::fprintf(stderr, "[rank %d] %s did not end within %g s\n", rank_, what_.c_str(), seconds_);
      std::fflush(nullptr);
      constexpr int kHung = 3;
      std::_Exit(kHung);  // the launcher ends the other ranks
    }
  }

  int rank_;
  double seconds_;
  std::mutex mutex_;
  std::string what_ = "start";
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::jthread thread_;
};

Watchdog* the_watchdog = nullptr;

// Brings the ranks' results together after every test, on a communicator that the tests do not use.
class Together : public ::testing::EmptyTestEventListener {
 public:
  Together(std::unique_ptr<comm::Communicator> ranks, Watchdog& watchdog)
      : ranks_(std::move(ranks)), watchdog_(watchdog) {}

  void OnTestStart(const ::testing::TestInfo& info) override {
    watchdog_.begin(std::string(info.test_suite_name()) + "." + info.name());
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const int64_t mine = info.result()->Failed() ? 1 : 0;
    std::vector<int64_t> all(static_cast<size_t>(ranks_->size()));
    ranks_->all_gather(&mine, sizeof mine, all.data());
    std::string failed;
    for (size_t r = 0; r < all.size(); ++r) {
      if (all[r]) failed += " " + std::to_string(r);
    }
    if (!failed.empty() && !mine) ADD_FAILURE() << "failed on rank" << failed;
  }

 private:
  std::unique_ptr<comm::Communicator> ranks_;
  Watchdog& watchdog_;
};

// Of the other ranks only the failures.
class Quiet : public ::testing::EmptyTestEventListener {
 public:
  explicit Quiet(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_, result.file_name() ? result.file_name() : "?",
                 result.line_number(), result.message());
  }

 private:
  int rank_;
};

}  // namespace

comm::Communicator& job() { return *the_job; }

void going_on(const std::string& what) {
  if (the_watchdog != nullptr) the_watchdog->begin(what);
}

}  // namespace quarry::test

int main(int argc, char** argv) {
  using namespace quarry;
  const auto lists = [](const char* argument) { return std::string_view(argument) == "--gtest_list_tests"; };
  if (std::any_of(argv, argv + argc, lists)) {  // without ranks
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  test::the_job = comm::world(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  const int rank = test::the_job->rank();
  int64_t failed = 0;
  {
    test::Watchdog watchdog(rank);
    test::the_watchdog = &watchdog;
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    if (rank != 0) {
      delete listeners.Release(listeners.default_result_printer());
      delete listeners.Release(listeners.default_xml_generator());  // rank 0 writes the one report
      listeners.Append(new test::Quiet(rank));
    }
    auto* together = new test::Together(test::the_job->split(/*color=*/0, rank), watchdog);
    listeners.Append(together);
    failed = RUN_ALL_TESTS();
    watchdog.begin("the end of the program");
    test::the_job->all_reduce(std::span(&failed, 1), comm::ReduceOp::max);
    delete listeners.Release(together);
    test::the_watchdog = nullptr;
    test::the_job.reset();
  }
  return failed ? 1 : 0;
}
