// A process's part of a job: ranks, device, memory budget. Made once, before any array.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "local/base/shape.h"
#include "local/device/device.h"
#include "scheduler/executor.h"

namespace quarry {

struct RuntimeOptions {
  std::optional<local::DeviceKind> device;  // none: a GPU where one is present, else the CPU (all ranks alike)
  std::string memory;  // per rank: "256MiB", "50%" of what is free; empty: QUARRY_MEMORY, then 60% of free memory /
                       // ranks on the node (GPU: 80% of free device memory)
  std::string
      host_memory;  // GPU: pinned and staging; empty: QUARRY_HOST_MEMORY, then 4 GiB or 25% of free, whichever is less
  std::string spill_dir;              // empty: QUARRY_SPILL_DIR, then $TMPDIR, then /tmp
  int threads = 0;                    // 0: QUARRY_THREADS, then the affinity mask
  std::optional<local::Dims> chunks;  // the computation's default chunks instead of auto
};

// Bytes of "1536", "256MiB", "1.5 GiB", "512 MB", "50%" (of `free_bytes`). Throws InvalidArgument.
int64_t parse_size(const std::string& text, int64_t free_bytes);
// What this process may still take: memory limits of its cgroups and of the machine, whichever is less.
int64_t free_host_bytes();

// Totals since the Runtime was made, over this rank.
struct RunStatistics {
  int64_t read_bytes = 0, written_bytes = 0, spilled_bytes = 0, communicated_bytes = 0, tasks = 0;
  int64_t peak_device_bytes = 0, peak_host_bytes = 0;
  double lane_busy_seconds[scheduler::kLaneCount] = {};
};

class Runtime {
 public:
  // Starts MPI when a launcher's environment is found. Collective. Throws InvalidArgument, DeviceError.
  Runtime(int& argc, char**& argv, RuntimeOptions options = {});
  explicit Runtime(RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The process's Runtime; where the program made none, one of one rank with default options.
  static Runtime& current();

  int rank() const;
  int size() const;
  comm::Communicator& communicator();
  local::Device device() const;
  int64_t memory_bytes() const;
  int64_t host_bytes() const;
  int threads() const;
  const RuntimeOptions& options() const;
  scheduler::Executor& executor();
  std::string banner() const;  // ranks, devices, threads, budget in one line
  // Called about ten times a second on rank 0 during a run with the sum over ranks.
  void set_progress(std::function<void(const scheduler::Progress&)> callback);
  // From a signal handler's thread: the current or next computation throws Cancelled on every rank.
  void interrupt();
  RunStatistics statistics() const;  // this rank
  RunStatistics total_statistics();  // summed (peaks: largest) over ranks; collective

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quarry
