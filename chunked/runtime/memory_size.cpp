#include "quarry/chunked/runtime/memory_size.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/options.h"

namespace quarry {

int64_t detail::parse_size(const std::string& text, int64_t free_bytes) { return local::parse_size(text, free_bytes); }

namespace {

std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

// The value of a "name value" line.
std::optional<int64_t> read_field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word && word == name && words >> value) return value;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char *limit, *usage, *reclaimable;
};

// What the cgroup at `mount` + `group` and those above it leave. Cached file pages are given back under pressure.
int64_t free_in_groups(const std::string& mount, std::string group, const GroupFiles& files) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (;;) {
    const std::string folder = mount + group + "/";
    const auto limit = read_number(folder + files.limit);
    const auto usage = read_number(folder + files.usage);
    if (limit && usage) {
      const int64_t cached = read_field(folder + "memory.stat", files.reclaimable).value_or(0);
      least = std::min(least, std::max<int64_t>(*limit - std::max<int64_t>(*usage - cached, 0), 0));
    }
    if (group.empty()) return least;
    // In a container the path is the host's and may not exist here; its parents up to the mount are tried all the same.
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

int64_t free_host_bytes_below(const std::string& root) {
  constexpr int64_t kKiB = 1024;
  int64_t least = std::numeric_limits<int64_t>::max();
  if (const auto available = read_field(root + "/proc/meminfo", "MemAvailable:")) least = *available * kKiB;
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" in version 2, "4:memory:/path" in version 1.
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      least = std::min(
          least, free_in_groups(root + "/sys/fs/cgroup", group, {"memory.max", "memory.current", "inactive_file"}));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least =
          std::min(least, free_in_groups(root + "/sys/fs/cgroup/memory", group,
                                         {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}));
    }
  }
  return least;
}

int64_t bytes_given_by_slurm() {
  constexpr double kMiB = 1 << 20;
  const auto number = [](const char* name) {
    return std::max(0.0, std::strtod(local::environment(name, "").c_str(), nullptr));
  };
  double mib = number("SLURM_MEM_PER_NODE");
  if (mib == 0) mib = number("SLURM_MEM_PER_CPU") * number("SLURM_CPUS_ON_NODE");
  constexpr auto kAll = std::numeric_limits<int64_t>::max();
  return mib == 0 || mib * kMiB >= static_cast<double>(kAll) ? kAll : static_cast<int64_t>(mib * kMiB);
}

namespace {

int64_t free_address_bytes(int threads) {
  constexpr int64_t kBlasBytes = int64_t{128} << 20;  // of a call at a time (local/cpu/blas_threads.h)
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::numeric_limits<int64_t>::max();
  const int64_t pages = read_number("/proc/self/statm").value_or(0);  // first the size of the address space
  const int64_t left = std::max<int64_t>(static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE), 0);
  return left - std::min(left / 2, threads * kBlasBytes);
}

}  // namespace

int64_t free_share_bytes(int ranks_of_node, int threads) {
  return std::min(free_host_bytes() / ranks_of_node, free_address_bytes(threads));
}

int64_t detail::free_host_bytes() { return std::min(free_host_bytes_below(""), bytes_given_by_slurm()); }

}  // namespace quarry
