// What a process is at while nothing ends: whether it computes, waits or is stuck.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace quarry::comm {

// Of this process, in numbers that the monitor's thread reads without a lock, which a stuck thread might hold.
struct Activity {
  std::atomic<int64_t> progress{0};   // grows with everything that ends: tasks, transfers, collective calls
  std::atomic<int64_t> running{0};    // tasks that threads or the device are at
  std::atomic<int64_t> looked_ns{0};  // when the run's thread of messages last looked (trace clock); 0: no run
  std::atomic<int64_t> waiting{0};    // collective calls that wait for other ranks
};
Activity& activity();

int64_t processor_ns();  // that all threads of this process have used
// What of a core a thread that never sleeps gets now: fewer than 1 where more threads are ready than there are cores.
double core_share();

// Of a run in which nothing has ended for `seconds`, and of which so many tasks are in threads' hands: "computes: ...".
// `share`: core_share() there.
std::string describe_standstill(int64_t running, double processor_seconds, double seconds, double share);

}  // namespace quarry::comm
