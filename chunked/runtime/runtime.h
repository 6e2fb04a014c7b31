// A process's part of a job: ranks, device, memory budget. Made once, before any array.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quarry/chunked/runtime/progress.h"
#include "quarry/local/base/shape.h"
#include "quarry/local/device/kind.h"

namespace quarry::comm {
class Communicator;
}
namespace quarry::exec {
class Paths;
}
namespace quarry::scheduler {
class Executor;
}

namespace quarry {

namespace detail {

struct ChunkPolicy;  // chunked/grid/chunking.h

}  // namespace detail

// Each field is a row of local/base/options.def, which `quarry help options` prints: what a value may be, the variable
// of the environment that an empty field takes, and the default where that is empty too. All ranks alike but for
// memory, host_memory, spill_dir and threads; device where without_gpu is "cpu".
struct RuntimeOptions {
  std::optional<local::DeviceKind> device;  // none: QUARRY_DEVICE, then a GPU where there are any, else the CPU
  std::string without_gpu;                  // "error" (DeviceError on every rank) or "cpu"
  std::string memory;                       // per rank: "256MiB", or "50%" of what is free for it
  std::string host_memory;                  // GPU kinds: pinned and staging memory, of the rank's share of the host's
  std::string spill_dir;                    // a directory
  std::string transport;                    // "auto", "mpi", "ucx", "self"
  std::string device_messages;              // from GPU to GPU by the transport: "auto", "on", "off"
  std::string peer_copies;                  // GPUs of a host: "auto", "on", "off"
  std::string decompress;                   // who decodes compressed chunks for a device: "auto", "host", "device"
  std::string direct_io;                    // files around the page cache: "auto", "on", "off"
  int io_threads = 0;                       // that read and write files; 0: QUARRY_IO_THREADS, then as many as threads
  std::string balance;                      // idle ranks steal chunks of slow ones: "on", "off"
  int threads = 0;                          // 0: QUARRY_THREADS, then the affinity mask / ranks that share it
  std::string passes;                       // of the planner, switched off: "-cse,-views"
  int compute_streams = 1;                  // GPU kinds: what rounds of chunk tasks take in turn
  std::optional<local::Dims> chunks;        // the computation's default chunks, -1: a whole axis; none: QUARRY_CHUNKS
  bool from_command_line = false;           // messages name options as there: --memory
};

namespace detail {

// Bytes of "1536", "256MiB", "1.5 GiB", "512 MB", "50%" (of `free_bytes`). Throws InvalidArgument.
int64_t parse_size(const std::string& text, int64_t free_bytes);
// What the ranks of this node may still take: memory limits of the cgroups, of the machine and of Slurm's --mem,
// whichever is least.
int64_t free_host_bytes();

}  // namespace detail

// Totals since the Runtime was made, over this rank. On the CPU both peaks are the compute tier's.
struct RunStatistics {
  int64_t read_bytes = 0, written_bytes = 0, spilled_bytes = 0, restored_bytes = 0, communicated_bytes = 0, tasks = 0;
  int64_t stolen_chunks = 0;  // computed for other ranks
  // Of files whose chunks are decoded as a whole: bytes that were decoded; of read_bytes, those that the same run had
  // read before, as its chunks cut the file's and there was no memory to keep these.
  int64_t decoded_bytes = 0, reread_bytes = 0;
  int64_t direct_bytes = 0;  // of read_bytes, around the page cache
  int64_t peak_device_bytes = 0, peak_host_bytes = 0;
  double queue_busy_seconds[detail::kQueueCount] = {};
};

class Runtime {
 public:
  // Starts MPI when a launcher's environment is found. Collective. Throws InvalidArgument, DeviceError.
  Runtime(int& argc, char**& argv, RuntimeOptions options = {});
  explicit Runtime(RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The one of this thread's innermost RuntimeScope, else the latest of those that exist; where the program made none,
  // one of one rank with default options. Arrays are made for it and computed by it.
  static Runtime& current();

  int rank() const;
  int size() const;
  comm::Communicator& communicator();
  local::Device device() const;
  int64_t memory_bytes() const;
  int64_t host_bytes() const;
  int threads() const;
  bool is_stealing() const;                                    // whether idle ranks steal chunks of others
  const std::vector<local::DeviceKind>& device_kinds() const;  // by rank
  // What chunks are made for: the kind of those ranks that do not compute on the CPU, where there are any.
  local::DeviceKind job_device_kind() const;
  int64_t plan_bytes() const;             // of memory that every rank has for tasks
  const RuntimeOptions& options() const;  // with what the environment says and the defaults filled in
  scheduler::Executor& executor();
  const exec::Paths* paths() const;            // between ranks; null for one rank
  std::string describe_paths(int from) const;  // what this rank fetches from that one by, for people
  std::string banner() const;                  // ranks, devices, threads, budget in one line
  // Called about ten times a second on rank 0 during a run with the sum over ranks. What it throws ends the run.
  void set_progress(std::function<void(const Progress&)> callback);
  // Rank 0: what each rank has posted last, about ten times a second; of more than 65 ranks, rank 0's own and sums of
  // several. Any thread. Elsewhere only this rank's is known, and that of some others.
  std::vector<Progress> rank_progress() const;
  // The current or next computation throws Cancelled on every rank. Async-signal-safe.
  void interrupt();
  RunStatistics statistics() const;  // this rank
  RunStatistics total_statistics();  // summed (peaks: largest) over ranks; collective
  // Whether any computation has begun to run, on this rank or another: what fails before that is wrong with the
  // request, not with its execution.
  bool any_run_started() const;
  // For what runs computations (chunked/runtime/internals.h).
  struct Internals;
  Internals& internals();

 private:
  struct Impl;
  Runtime(std::unique_ptr<Impl> impl, RuntimeOptions options);
  static std::unique_ptr<Runtime> alone();  // of one rank, whatever started the process
  std::unique_ptr<Impl> impl_;
};

// While it lives, `runtime` is the current one of this thread: for programs with several Runtimes. An array belongs to
// the Runtime that was current when it was made.
class RuntimeScope {
 public:
  explicit RuntimeScope(Runtime& runtime);
  ~RuntimeScope();
  RuntimeScope(const RuntimeScope&) = delete;
  RuntimeScope& operator=(const RuntimeScope&) = delete;

 private:
  Runtime* before_;
  const detail::ChunkPolicy* policy_before_;
};

}  // namespace quarry
