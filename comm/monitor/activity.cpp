#include "quarry/comm/monitor/activity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <thread>

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

double core_share() {
  double load = 0;  // of the last minute
  int ready = 0;    // now
  std::FILE* const file = std::fopen("/proc/loadavg", "r");
  if (file == nullptr) return 1;
  const int fields = std::fscanf(file, "%lf %*f %*f %d", &load, &ready);
  std::fclose(file);
  if (fields != 2) return 1;
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(1.0, cores / std::max(load, static_cast<double>(ready)));
}

std::string describe_standstill(int64_t running, double processor_seconds, double seconds, double share) {
  const double computing = 0.25 * share;  // of one core: it need not compute all the time
  if (running == 0) return "waits for other ranks or for memory";
  const std::string tasks = fmt::format("{} task{} run{}, with {:.3g} s of processor time", running,
                                        running == 1 ? "" : "s", running == 1 ? "s" : "", processor_seconds);
  return processor_seconds >= computing * seconds ? "computes: " + tasks : "is stuck, or waits for a file: " + tasks;
}

}  // namespace quarry::comm
