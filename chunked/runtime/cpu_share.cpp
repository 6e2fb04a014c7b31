#include "quarry/chunked/runtime/cpu_share.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "quarry/comm/world/world.h"
#include "quarry/local/base/options.h"

namespace quarry {

namespace {

// The CPUs of this process's affinity mask.
int affinity_count() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&mask);
}

// What Slurm was asked for by --cpus-per-task, where it started this rank: the affinity mask says so only where it
// binds tasks to cores.
int cpus_per_task() {
  int count = 0;
  const std::string text = comm::is_launched() ? local::environment("SLURM_CPUS_PER_TASK", "") : "";
  const auto result = std::from_chars(text.data(), text.data() + text.size(), count);
  return result.ec == std::errc() && count > 0 ? count : std::numeric_limits<int>::max();
}

// How many ranks of this node have the same affinity mask: they share its CPUs. Collective.
int sharing_ranks(comm::Communicator& communicator) {
  struct Place {
    char host[256];
    cpu_set_t mask;
  } mine = {};
  gethostname(mine.host, sizeof mine.host - 1);
  sched_getaffinity(0, sizeof mine.mask, &mine.mask);
  const uint64_t own = std::hash<std::string_view>()({reinterpret_cast<const char*>(&mine), sizeof mine});
  std::vector<uint64_t> all(static_cast<size_t>(communicator.size()));
  communicator.all_gather(&own, sizeof own, all.data());
  return static_cast<int>(std::ranges::count(all, own));
}

}  // namespace

int thread_share(comm::Communicator& communicator) {
  const int sharing = sharing_ranks(communicator);
  return std::clamp(affinity_count() / std::max(1, sharing), 1, cpus_per_task());
}

}  // namespace quarry
