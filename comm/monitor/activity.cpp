#include "quarry/comm/monitor/activity.h"

#include <fmt/format.h>

#include <ctime>

namespace quarry::comm {

Activity& activity() {
  static Activity of_process;
  return of_process;
}

int64_t processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string describe_standstill(int64_t running, double processor_seconds, double seconds) {
  constexpr double kComputing = 0.25;  // of one core, on a machine that others use too
  if (running == 0) return "waits for other ranks or for memory";
  const std::string tasks = fmt::format("{} task{} run{}, with {:.3g} s of processor time", running,
                                        running == 1 ? "" : "s", running == 1 ? "s" : "", processor_seconds);
  return processor_seconds >= kComputing * seconds ? "computes: " + tasks : "is stuck, or waits for a file: " + tasks;
}

}  // namespace quarry::comm
