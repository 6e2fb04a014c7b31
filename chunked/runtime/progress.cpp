#include "quarry/chunked/runtime/progress.h"

#include "quarry/local/base/detail.h"
#include "quarry/scheduler/task.h"

namespace quarry {

static_assert(kQueueCount == scheduler::kQueueCount);

const char* detail::queue_name(int queue) { return scheduler::name(static_cast<scheduler::QueueKind>(queue)); }

Progress detail::total(std::span<const Progress> ranks) {
  Progress all;
  for (const Progress& one : ranks) {
    all.tasks_done += one.tasks_done;
    all.tasks_total += one.tasks_total;
    all.bytes_done += one.bytes_done;
    all.bytes_total += one.bytes_total;
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
