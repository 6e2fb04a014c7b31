#include "quarry/comm/monitor/watchdog.h"

#include "quarry/local/base/options.h"

namespace quarry::comm {

Watchdog::Watchdog() : patience_(local::OptionValue(local::Option::watchdog).seconds()), next_(patience_) {}

bool Watchdog::is_stalled(int64_t state) {
  const auto now = Clock::now();
  if (state != state_) {
    state_ = state;
    since_ = now;
    next_ = patience_;
    return false;
  }
  if (patience_.count() == 0 || now - since_ < next_) return false;
  next_ *= 2;
  seconds_ = std::chrono::duration<double>(now - since_).count();
  return true;
}

}  // namespace quarry::comm
