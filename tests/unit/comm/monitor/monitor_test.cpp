#include "quarry/comm/monitor/monitor.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <span>
#include <sstream>
#include <thread>

#include "quarry/comm/monitor/watchdog.h"
#include "quarry/local/base/error.h"

namespace quarry::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What one monitor was told.
class Told {
 public:
  Monitor::Lost callback() {
    return [this](int rank, const std::string& reason) {
      const std::lock_guard lock(mutex_);
      ranks_.push_back(rank);
      reasons_ += reason + "\n";
    };
  }
  std::vector<int> ranks() const {
    const std::lock_guard lock(mutex_);
    return ranks_;
  }
  std::string reasons() const {
    const std::lock_guard lock(mutex_);
    return reasons_;
  }
  // Waits some seconds for it.
  bool hears() const {
    for (int i = 0; i < 500 && ranks().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return !ranks().empty();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int> ranks_;
  std::string reasons_;
};

constexpr double kSilence = 30;

// The ranks of a job in one process. `pause`: the milliseconds in which rank 0 accepts the others and reads their
// greetings, in one of its rounds.
struct Job {
  explicit Job(int size, int pause = 600) : told(static_cast<size_t>(size)) {
    for (int r = 0; r < size; ++r) {
      monitors.push_back(std::make_unique<Monitor>(r, size, kSilence, told[static_cast<size_t>(r)].callback()));
      monitors.back()->start(monitors[r == 0 ? 0 : static_cast<size_t>(Monitor::parent_of(r))]->address());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
  std::vector<Told> told;
  std::vector<std::unique_ptr<Monitor>> monitors;
};

TEST(Monitor, LeavingInOrderIsNoLoss) {
  Job job(3);
  for (const size_t r : {size_t{1}, size_t{0}, size_t{2}}) {
    job.monitors[r]->leave();
    job.monitors[r].reset();
  }
  for (const Told& told : job.told) EXPECT_THAT(told.ranks(), IsEmpty()) << told.reasons();
}

// One of three ranks dies, and both others hear of it. On a busy machine rank 0 may need a longer pause before.
std::unique_ptr<Job> job_without(size_t dead, size_t one, size_t other) {
  for (const int pause : {600, 3000, 15000}) {
    auto job = std::make_unique<Job>(3, pause);
    job->monitors[dead].reset();
    if (job->told[one].hears() && job->told[other].hears()) return job;
  }
  return nullptr;
}

TEST(Monitor, ADeathIsToldToAll) {
  const std::unique_ptr<Job> job = job_without(1, 0, 2);
  ASSERT_NE(job, nullptr);
  for (const size_t r : {size_t{0}, size_t{2}}) {
    EXPECT_THAT(job->told[r].ranks(), ElementsAre(1));
    EXPECT_THAT(job->told[r].reasons(), HasSubstr("rank 1 (process "));
    EXPECT_THAT(job->told[r].reasons(), HasSubstr("has died"));
  }
}

TEST(Monitor, TheDeathOfTheFirstRank) {
  const std::unique_ptr<Job> job = job_without(0, 1, 2);
  ASSERT_NE(job, nullptr);
  for (const size_t r : {size_t{1}, size_t{2}}) EXPECT_THAT(job->told[r].ranks(), ElementsAre(0));
}

// Ranks of a tree of three levels: neighbours of the dead one tell it to theirs, and these to the next ones.
TEST(Monitor, ADeathIsToldAlongTheTree) {
  constexpr int kRanks = 40;
  ASSERT_EQ(Monitor::parent_of(kRanks - 1), 2);
  for (const int dead : {2, 39, 0}) {
    bool all_heard = false;
    for (const int pause : {600, 3000, 15000}) {
      Job job(kRanks, pause);
      job.monitors[static_cast<size_t>(dead)].reset();
      all_heard = true;
      for (int rank = 0; rank < kRanks && all_heard; ++rank) {
        if (rank == dead) continue;
        const Told& told = job.told[static_cast<size_t>(rank)];
        all_heard = told.hears();
        if (!all_heard) continue;
        EXPECT_THAT(told.ranks(), ElementsAre(dead));
        EXPECT_THAT(told.reasons(), HasSubstr(" has died"));
      }
      if (all_heard) break;
    }
    EXPECT_TRUE(all_heard) << dead;
  }
}

// Real connections and threads of a thousand ranks in this process: each rank hears of one death once. A rank has at
// most 17 connections.
TEST(Monitor, ADeathAmongAThousandRanksIsToldToAll) {
  constexpr int kRanks = 1000;
  constexpr rlim_t kDescriptors = 5 * kRanks + 500;
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < kDescriptors) GTEST_SKIP() << "needs " << kDescriptors << " file descriptors";
  files.rlim_cur = std::max(files.rlim_cur, kDescriptors);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  constexpr int kDead = 20;  // a child of rank 1 that has children
  bool all_heard = false;
  for (const int pause : {5000, 30000}) {
    const auto before = descriptors();
    Job job(kRanks, pause);
    // A pipe each, a socket to listen at for those that have children, both ends of every connection; and some that are
    // about to be closed.
    constexpr int kClosing = kRanks / 100;
    EXPECT_LE(descriptors() - before, 2 * kRanks + kRanks / Monitor::kChildren + 1 + 2 * (kRanks - 1) + kClosing);
    job.monitors[kDead].reset();
    all_heard = true;
    for (int rank = 0; rank < kRanks && all_heard; ++rank) {
      if (rank == kDead) continue;
      const Told& told = job.told[static_cast<size_t>(rank)];
      all_heard = told.hears();
      if (all_heard) {
        EXPECT_THAT(told.ranks(), ElementsAre(kDead)) << rank;
      }
    }
    if (all_heard) break;
  }
  EXPECT_TRUE(all_heard);
}

TEST(Monitor, EveryRankOfTheTreeHasOneParentAndFewChildren) {
  for (const int size : {1, 2, 17, 18, 1000, 10000}) {
    std::vector<int> parent(static_cast<size_t>(size), -1);
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<int> children = Monitor::children_of(rank, size);
      EXPECT_LE(children.size(), static_cast<size_t>(Monitor::kChildren));
      for (const int child : children) {
        EXPECT_EQ(parent[static_cast<size_t>(child)], -1);
        parent[static_cast<size_t>(child)] = rank;
      }
    }
    for (int rank = 1; rank < size; ++rank) {
      EXPECT_EQ(parent[static_cast<size_t>(rank)], Monitor::parent_of(rank));
      EXPECT_LT(Monitor::parent_of(rank), rank);
    }
  }
}

TEST(Monitor, StrangersAreNotBelieved) {
  Job job(2);
  std::istringstream words(job.monitors[0]->address());
  std::string secret, host;
  uint16_t port = 0;
  words >> secret >> host >> port;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // A greeting in the name of rank 1 without the secret, a loss of rank 1 without a greeting, and no frame at all.
  const uint32_t hello[] = {0, 1, 4, 0x41414141}, lost[] = {3, 1, 4, 0x41414141},
                 noise[] = {77, 0xffffffff, 0xffffffff};
  for (const std::span<const uint32_t> bytes :
       {std::span<const uint32_t>(hello), std::span<const uint32_t>(lost), std::span<const uint32_t>(noise)}) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(send(socket, bytes.data(), bytes.size_bytes(), 0), static_cast<ssize_t>(bytes.size_bytes()));
    // It is shown out.
    char byte = 0;
    EXPECT_LE(recv(socket, &byte, 1, 0), 0);
    close(socket);
  }
  EXPECT_THAT(job.told[0].ranks(), IsEmpty()) << job.told[0].reasons();
  job.monitors[1].reset();
  EXPECT_TRUE(job.told[0].hears());
}

TEST(Watchdog, SpeaksAfterItsTimeAndThenAfterTwiceAsLong) {
  setenv("QUARRY_WATCHDOG", "0.05", 1);
  Watchdog watchdog;
  unsetenv("QUARRY_WATCHDOG");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(watchdog.is_stalled(7));
  // Never sooner; how much later depends on what else the machine does.
  for (const double seconds : {0.05, 0.1, 0.2}) {
    while (!watchdog.is_stalled(7)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(watchdog.seconds(), seconds);
    EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), seconds);
  }
  EXPECT_FALSE(watchdog.is_stalled(8));
}

}  // namespace
}  // namespace quarry::comm
