// Says when something has stood still for long.
#pragma once

#include <chrono>
#include <cstdint>

namespace quarry::comm {

class Watchdog {
 public:
  // Of the option watchdog (QUARRY_WATCHDOG); 0: never stalled. Throws InvalidArgument.
  Watchdog();
  // `state` is any number that changes with every progress. True when it has not changed for so many seconds, then for
  // twice as many, and so on. Cheap.
  bool is_stalled(int64_t state);
  // For how long it has stood still.
  double seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> patience_;
  std::chrono::duration<double> next_;
  Clock::time_point since_ = Clock::now();
  int64_t state_ = -1;
  double seconds_ = 0;
};

}  // namespace quarry::comm
