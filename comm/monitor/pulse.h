// What rank 0 knows of the ranks' activity, to name the one for which the others wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::comm {

// A process's activity and processor time as a few bytes, which travel with the monitor's beats.
struct Pulse {
  int64_t progress = 0, running = 0, waiting = 0;
  int64_t silent_ns = -1;  // since the run's thread of messages last looked; -1: no run
  int64_t processor_ns = 0;
  double core_share = 1;

  static Pulse of_this_process();
  std::string to_bytes() const;
  static Pulse from_bytes(std::string_view bytes);  // all zero where they are no pulse
};

// Of some ranks together: sums, and the pulses of those for which others may wait. Ranks that wait themselves, which
// are nearly all where nothing moves, count only. So it is of bounded size for any number of ranks.
class PulseReport {
 public:
  static constexpr size_t kMostListed = 8;
  static constexpr size_t kMostName = 64;  // bytes of a name

  PulseReport() = default;
  // Of one rank. `name`: "rank 1 (process 7 on host)".
  PulseReport(int rank, const std::string& name, const Pulse& pulse);
  void add(const PulseReport& others);
  std::string to_bytes() const;
  static PulseReport from_bytes(std::string_view bytes);  // of no rank where they are none

 private:
  friend class PulseBoard;
  struct Rank {
    int32_t rank = 0;
    std::string name;
    Pulse pulse;
  };
  int64_t progress_ = 0;
  int64_t in_call_ = 0;   // ranks
  int64_t unlisted_ = 0;  // of those for which others may wait
  std::vector<Rank> ranks_;
};

class PulseBoard {
 public:
  using Clock = std::chrono::steady_clock;

  // `patience_seconds`: how long nothing ends on any rank before that is said; 0: never.
  explicit PulseBoard(double patience_seconds);
  // Of all ranks.
  void note(const PulseReport& report, Clock::time_point now);
  // What each rank is at, when no rank has made progress for long although one is in a call; then after twice as long,
  // and so on. Else empty.
  std::string standstill(Clock::time_point now);

 private:
  std::string verdict(const PulseReport::Rank& rank, double seconds) const;

  const double patience_seconds_;
  double next_seconds_;
  Clock::time_point since_ = Clock::now();
  PulseReport latest_;
  std::map<int32_t, int64_t> processor_ns_;  // of listed ranks, at the last progress of any rank or when first listed
};

}  // namespace quarry::comm
