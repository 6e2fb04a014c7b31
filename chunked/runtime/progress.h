// How far a computation is.
#pragma once

#include <cstdint>
#include <span>

namespace quarry {

namespace detail {

// Queues of tasks, each with threads of its own: "io", "compute", "worker", "comm".
inline constexpr int kQueueCount = 6;
const char* queue_name(int queue);

}  // namespace detail

// Of one rank, or the sum of several.
struct Progress {
  int64_t tasks_done = 0, tasks_total = 0;
  int64_t bytes_done = 0, bytes_total = 0;        // read, copied and written
  double work_done = 0, work_total = 0;           // seconds of one thread that it is thought to take; 0: not known
  int64_t memory_used = 0, memory_limit = 0;      // what tasks compute on, reserved
  int64_t host_used = 0, host_limit = 0;          // pinned memory; GPU kinds
  int64_t disk_used = 0;                          // spill file
  int64_t spilled_bytes = 0, restored_bytes = 0;  // since the Runtime was made
  double busy_seconds[detail::kQueueCount] = {};  // the same
  int64_t active = 0;                             // ranks that are running a computation
  int64_t stolen_chunks = 0;                      // computed for other ranks since the Runtime was made
  friend bool operator==(const Progress&, const Progress&) = default;

  // How much is done, from 0 to 1: of the work where it is known, else of the bytes, else of the tasks.
  double fraction() const;
};

namespace detail {

Progress total(std::span<const Progress> ranks);

}  // namespace detail

}  // namespace quarry
