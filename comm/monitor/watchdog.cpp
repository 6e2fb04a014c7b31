#include "comm/monitor/watchdog.h"

#include <fmt/format.h>

#include <cstdlib>

#include "local/base/error.h"

namespace quarry::comm {
namespace {

double patience_from_environment() {
  constexpr double kDefault = 60;
  const char* text = std::getenv("QUARRY_WATCHDOG");
  if (text == nullptr || *text == '\0') return kDefault;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != '\0' || !(seconds >= 0)) {
    throw local::InvalidArgument(fmt::format("QUARRY_WATCHDOG={}: expected seconds", text));
  }
  return seconds;
}

}  // namespace

Watchdog::Watchdog() : patience_(patience_from_environment()), next_(patience_) {}

bool Watchdog::stalled(int64_t state) {
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
