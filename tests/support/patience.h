// Waiting for what must happen. Limits are far beyond what a machine needs that does other work as well: they end tests
// that hang, and are no measure of speed.
#pragma once

#include <chrono>
#include <thread>

namespace quarry::test {

// Whether it became true; false after half a minute.
template <class Condition>
bool waits_until(Condition&& condition) {
  constexpr int kMost = 30000;  // milliseconds
  for (int i = 0; i < kMost && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

}  // namespace quarry::test
