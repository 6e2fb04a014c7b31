// What rank 0 knows of every rank's activity, to name the one for which the others wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::comm {

// A process's activity and processor time as a few bytes, which travel with the monitor's beats.
struct Pulse {
  int64_t progress = 0, running = 0, waiting = 0;
  int64_t silent_ns = -1;  // since the run's thread of messages last looked; -1: no run
  int64_t processor_ns = 0;

  static Pulse of_this_process();
  std::string to_bytes() const;
  static Pulse from_bytes(std::string_view bytes);  // all zero where they are no pulse
};

class PulseBoard {
 public:
  using Clock = std::chrono::steady_clock;

  // `patience_seconds`: how long nothing ends on any rank before that is said; 0: never.
  PulseBoard(int ranks, double patience_seconds);
  // `name`: "rank 1 (process 7 on host)".
  void note(int rank, const std::string& name, const Pulse& pulse, Clock::time_point now);
  // What each rank is at, when no rank has made progress for long although one is in a call; then after twice as long,
  // and so on. Else empty.
  std::string standstill(Clock::time_point now);

 private:
  struct Rank {
    std::string name;
    Pulse pulse;
    int64_t processor_ns = 0;  // at the last progress of any rank
  };
  std::string verdict(const Rank& rank, double seconds) const;

  const double patience_seconds_;
  double next_seconds_;
  Clock::time_point since_ = Clock::now();
  std::vector<Rank> ranks_;
};

}  // namespace quarry::comm
