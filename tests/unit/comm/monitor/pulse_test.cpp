#include "quarry/comm/monitor/pulse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "quarry/comm/monitor/activity.h"

namespace quarry::comm {
namespace {

using std::chrono::seconds;
constexpr int64_t kNs = 1'000'000'000;

struct Board {
  PulseBoard board{10};
  PulseBoard::Clock::time_point begin = PulseBoard::Clock::now();
  std::map<int, Pulse> pulses;
  void note(int rank, const Pulse& pulse, int at) {
    pulses[rank] = pulse;
    PulseReport all;
    for (const auto& [number, one] : pulses)
      all.add(PulseReport::from_bytes(PulseReport(number, "rank " + std::to_string(number), one).to_bytes()));
    board.note(all, begin + seconds(at));
  }
  std::string at(int second) { return board.standstill(begin + seconds(second)); }
};

// {progress, running, waiting, silent_ns, processor_ns, core_share}
constexpr Pulse kWaits{1, 0, 0, 0, 0};

TEST(PulseBoard, TellsWhoComputesFromWhoIsStuckAndWhoIsElsewhere) {
  Board b;
  for (int rank = 0; rank < 3; ++rank) b.note(rank, {1, 1, 0, 0, 5 * kNs}, 0);
  b.note(0, {1, 1, 0, 0, 14 * kNs}, 12);
  b.note(1, {1, 2, 0, 0, 5 * kNs}, 12);
  b.note(2, {1, 0, 0, -1, 6 * kNs}, 12);
  EXPECT_EQ(b.at(12),
            "no rank has made progress for 12 s: rank 0 computes: 1 task runs, with 9 s of processor time; rank 1 is "
            "stuck, or waits for a file: 2 tasks run, with 0 s of processor time; rank 2 is outside of quarry's calls, "
            "with 1 s of processor time");
}

TEST(PulseBoard, ComputesWhatGetsItsShareOfABusyMachine) {
  for (const double share : {1.0, 0.1}) {
    Board b;
    b.note(0, {1, 1, 0, 0, 5 * kNs, share}, 0);
    b.note(0, {1, 1, 0, 0, 6 * kNs, share}, 12);
    EXPECT_THAT(b.at(12), testing::HasSubstr(share < 1 ? "rank 0 computes" : "rank 0 is stuck"));
  }
  EXPECT_GT(core_share(), 0);
  EXPECT_LE(core_share(), 1);
}

TEST(PulseBoard, TellsAThreadOfMessagesThatDoesNothing) {
  Board b;
  for (int rank = 0; rank < 3; ++rank) b.note(rank, kWaits, 0);
  b.note(2, {1, 1, 0, 11 * kNs, 0}, 11);
  EXPECT_EQ(b.at(11),
            "no rank has made progress for 11 s: rank 2 is stuck: its thread of messages has done nothing for 11 s");
}

TEST(PulseBoard, SaysSoAfterTwiceAsLongAgainAndNotWhileAnythingEnds) {
  Board b;
  for (int rank = 0; rank < 3; ++rank) b.note(rank, kWaits, 0);
  EXPECT_EQ(b.at(9), "");
  EXPECT_THAT(b.at(10), testing::EndsWith("every rank waits for other ranks or for memory"));
  EXPECT_EQ(b.at(19), "");
  EXPECT_NE(b.at(20), "");
  b.note(1, {2, 0, 0, 0, 0}, 21);
  EXPECT_EQ(b.at(30), "");
  EXPECT_NE(b.at(31), "");
}

TEST(PulseBoard, IsSilentWhereNobodyIsInACallAndWithoutPatience) {
  Board b;
  for (int rank = 0; rank < 3; ++rank) b.note(rank, {1, 0, 0, -1, 0}, 0);
  EXPECT_EQ(b.at(100), "");
  PulseBoard never(0);
  never.note({0, "rank 0", kWaits}, b.begin);
  EXPECT_EQ(never.standstill(b.begin + seconds(1000)), "");
}

TEST(PulseReport, OfManyRanksIsSmallAndNamesThoseThatHoldOthersUp) {
  constexpr int kRanks = 10000;
  PulseReport all;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Pulse stuck{1, 1, 0, 11 * kNs, 0}, computes{1, 1, 0, 0, 0};
    const Pulse& pulse = rank == 7777 ? stuck : rank % 100 == 3 ? computes : kWaits;
    all.add({rank, "rank " + std::to_string(rank) + " " + std::string(100, 'x'), pulse});
    ASSERT_LE(all.to_bytes().size(), 1000u);
  }
  Board b;
  b.board.note(all, b.begin);
  b.board.note(PulseReport::from_bytes(all.to_bytes()), b.begin + seconds(12));
  const std::string text = b.at(12);
  EXPECT_THAT(text, testing::HasSubstr("rank 7777 "));
  EXPECT_THAT(text, testing::HasSubstr("rank 3 "));
  EXPECT_THAT(text, testing::EndsWith("; and 93 more ranks do not wait"));
}

TEST(Pulse, TravelsAsBytes) {
  const Pulse pulse{1, 2, 3, 4, 5};
  EXPECT_EQ(Pulse::from_bytes(pulse.to_bytes()).silent_ns, 4);
  EXPECT_EQ(Pulse::from_bytes("short").progress, 0);
  const PulseReport report(3, "rank 3", pulse);
  EXPECT_EQ(PulseReport::from_bytes(report.to_bytes()).to_bytes(), report.to_bytes());
  EXPECT_EQ(PulseReport::from_bytes("short").to_bytes(), PulseReport().to_bytes());
}

}  // namespace
}  // namespace quarry::comm
