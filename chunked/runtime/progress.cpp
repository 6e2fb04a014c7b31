#include "quarry/chunked/runtime/progress.h"

#include <algorithm>

#include "quarry/local/base/detail.h"
#include "quarry/scheduler/task.h"

namespace quarry {

static_assert(kQueueCount == scheduler::kQueueCount);

const char* detail::queue_name(int queue) { return scheduler::name(static_cast<scheduler::QueueKind>(queue)); }

double Progress::fraction() const {
  const double done = work_total > 0    ? work_done
                      : bytes_total > 0 ? static_cast<double>(bytes_done)
                                        : static_cast<double>(tasks_done);
  const double total = work_total > 0    ? work_total
                       : bytes_total > 0 ? static_cast<double>(bytes_total)
                                         : static_cast<double>(tasks_total);
  return total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0;
}

Progress detail::total(std::span<const Progress> ranks) {
  Progress all;
  for (const Progress& one : ranks) {
    all.tasks_done += one.tasks_done;
    all.tasks_total += one.tasks_total;
    all.bytes_done += one.bytes_done;
    all.bytes_total += one.bytes_total;
    all.work_done += one.work_done;
    all.work_total += one.work_total;
    all.memory_used += one.memory_used;
    all.memory_limit += one.memory_limit;
    all.host_used += one.host_used;
    all.host_limit += one.host_limit;
    all.disk_used += one.disk_used;
    all.spilled_bytes += one.spilled_bytes;
    all.restored_bytes += one.restored_bytes;
    all.active += one.active;
    all.stolen_chunks += one.stolen_chunks;
    for (int queue = 0; queue < kQueueCount; ++queue) all.busy_seconds[queue] += one.busy_seconds[queue];
  }
  return all;
}

}  // namespace quarry
