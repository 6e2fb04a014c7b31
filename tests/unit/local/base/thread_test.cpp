#include "quarry/local/base/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <vector>

#include "quarry/local/base/error.h"

namespace quarry::local {
namespace {

TEST(StartThread, DoesItsWork) {
  std::atomic<int> done{0};
  std::thread plain = start_thread("a test", [&] { ++done; });
  plain.join();
  {
    const std::jthread joined = start_joined_thread("a test", [&](const std::stop_token&) { ++done; });
  }
  EXPECT_EQ(done, 2);
}

TEST(StartThread, WithoutRoomForItsStackIsAnErrorThatNamesTheLimit) {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit less{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{16} << 20), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  std::string message;
  {
    std::vector<std::jthread> waiting;
    constexpr size_t kMost = 1000;
    while (message.empty() && waiting.size() < kMost) {
      try {
        waiting.push_back(start_joined_thread("a test", [](const std::stop_token& stop) {
          while (!stop.stop_requested()) usleep(1000);
        }));
      } catch (const OutOfMemory& error) {
        message = error.what();
      }
    }
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(message, testing::StartsWith("a thread for a test cannot be started: "));
  EXPECT_THAT(message, testing::HasSubstr("of address space"));
}

}  // namespace
}  // namespace quarry::local
