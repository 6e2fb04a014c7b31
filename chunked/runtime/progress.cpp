#include "quarry/chunked/runtime/progress.h"

#include "quarry/scheduler/task.h"

namespace quarry {

static_assert(kLanes == scheduler::kLaneCount);

const char* lane_name(int lane) { return scheduler::name(static_cast<scheduler::LaneKind>(lane)); }

Progress total(std::span<const Progress> ranks) {
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
    for (int lane = 0; lane < kLanes; ++lane) all.busy_seconds[lane] += one.busy_seconds[lane];
  }
  return all;
}

}  // namespace quarry
