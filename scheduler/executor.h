// Runs one rank's graph within its memory budget.
//
// Admission is strictly in plan position: a task is admitted when its outputs, scratch and spilled inputs have reserved
// room, evicting by farthest next use where needed; admitted tasks run in any order as their inputs become ready. Since
// every rank admits in the same global order and producers precede consumers in it, the lowest unfinished task can
// always run: there is no cycle of waits.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/memory/budget.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/scheduler/graph.h"

namespace quarry::scheduler {

struct ExecutorConfig {
  local::Device device;
  int64_t memory_bytes = 0;  // compute tier
  int64_t host_bytes = 0;    // pinned host tier; GPU kinds only
  std::string
      spill_dir;  // a file is made there when first needed, unlinked at once so that it vanishes with the process
  int64_t spill_limit_bytes = -1;  // -1: what the disk holds
  int io_threads = 2;
  int compute_threads = 2;  // CPU; GPUs have one
  int worker_threads = 1;
  int compute_streams = 2;  // of a GPU's compute thread: its rounds take them in turn
  // On a GPU: tasks of the compute queue that come after one of the panel queue wait until it is over. A panel is many
  // small kernels, each of which would wait until a part of a large one is done; this pays where others wait for it.
  bool panels_alone = false;
  // How long who waits for memory sees nothing move before that is an error; other ranks have twenty times as long to
  // read what they have asked for.
  std::chrono::milliseconds patience{30'000};
  // For tests: called before memory is taken for a block and before a block is moved between tiers; what it throws is
  // what that operation throws.
  enum class Operation : uint8_t { allocate, spill, restore };
  std::function<void(Operation)> fault = {};
};

struct Progress {
  int64_t tasks_done = 0, tasks_total = 0;
  int64_t bytes_done = 0, bytes_total = 0;        // traffic
  double work_done = 0, work_total = 0;           // seconds, as Graph::set_work() says; running tasks count in part
  int64_t memory_used = 0, memory_limit = 0;      // compute tier, reserved
  int64_t host_used = 0, host_limit = 0;          // pinned tier; GPU kinds
  int64_t disk_used = 0;                          // spill file
  int64_t spilled_bytes = 0, restored_bytes = 0;  // since the executor was made
  double busy_seconds[kQueueCount] = {};          // the same
  int64_t active = 0;                             // whether a graph is running
  int64_t running = 0;                            // tasks and moves that threads are at, and the device
  friend bool operator==(const Progress&, const Progress&) = default;
};

struct Statistics {
  int64_t tasks = 0;
  int64_t spilled_bytes = 0;      // written to the next tier down, host and disk together
  int64_t restored_bytes = 0;     // brought back to the compute tier, or visited on disk
  int64_t peak_memory_bytes = 0;  // compute tier, reserved
  int64_t peak_host_bytes = 0;
  double busy_seconds[kQueueCount] = {};
};

// A block that outlives its run (persist): counted in the budget, spilled like any other.
class StoredBlock {
 public:
  virtual ~StoredBlock() = default;
  virtual int64_t bytes() const = 0;
};

// Device memory that other processes open.
struct SharedSegment {
  int64_t number = -1;  // of the executor, never used again
  void* data = nullptr;
  int64_t bytes = 0;
};

// How the calling thread passes the time of a run of few short tasks, on the CPU: it runs tasks of the compute and comm
// queues itself, so that no other thread is woken for them.
struct ShortRun {
  // Called while there is nothing to run, with no lock held: makes progress on what deferred tasks wait for and returns
  // soon. Does not throw.
  std::function<void()> progress;
  // Called once if the run takes longer than thought, with no lock held, by the calling thread or, where that is at a
  // task for long, by another: from then on the threads do all, as in any run. Does not throw.
  std::function<void()> give_up;
};

class Core;

class Executor {
 public:
  static std::unique_ptr<Executor> create(const ExecutorConfig& config);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Blocks until every task is done and every remote reader has released its block; throws the first task's error, or
  // what cancel() was given, after every running task has ended. Throws BudgetError before starting anything if
  // least_workable_bytes() exceeds what is free beside stored blocks that cannot be spilled. The executor can be used
  // again after an error; only what the failed run made is gone. `watch`: what the calling thread does some twenty
  // times a second while it waits, with no lock held; it does not throw. `as_short`: null, or how it helps; tasks that
  // may call functions of the program, or that wait for other ranks, are not for it.
  void run(Graph& graph, const std::function<void()>& watch = nullptr, const ShortRun* as_short = nullptr);
  // From any thread: stops admitting; run() throws `error` when the running tasks have ended. Without a run, the next
  // run() throws it at once (so that a peer's failure just before run() is not lost), unless clear_cancel() comes
  // first.
  void cancel(const local::ErrorRecord& error);
  void clear_cancel();
  // Called once per failed run, with its first error, as soon as it happens: run() may still wait for deferred tasks,
  // which whoever completes them must then fail. From any thread, no lock held; must not call run().
  void set_failure_handler(std::function<void(const local::ErrorRecord&)> handler);
  // What compute threads of the CPU do again and again while they look for work, before they sleep: null for nothing.
  // It returns soon and does not throw; several threads may be in it, also for a while after it has been replaced.
  void set_idle_work(std::function<void()> work);
  // A run is about to begin: on a device, the thread that queues its work wakes up and looks for it for a moment.
  void expect_run();
  // After run(), until the next one or forget_blocks(): the kept block.
  std::shared_ptr<StoredBlock> stored_block(BlockId block);
  // Those that nobody has asked for are freed, the others when their owners drop them.
  void forget_blocks();

  // For the service of remote readers, during run(), from any thread. when_ready: calls back once when the block has
  // been produced (at once if it has); before run() begins it waits for that run; if the run fails, never.
  void when_ready(BlockId block, std::function<void()> callback);
  // Copies part of a produced block to host memory from whichever tier holds it. Blocks. Throws Cancelled when the run
  // has ended.
  void read_block(BlockId block, int64_t offset, int64_t bytes, void* to);
  // For a glance at a produced block of so many bytes, on the CPU: calls `visit` with its memory, holding the
  // executor's lock. False where the block is in another tier. Throws Cancelled as read_block() does.
  bool visit_block(BlockId block, int64_t bytes, const std::function<void(const void*)>& visit);
  void release_remote(BlockId block);
  // A produced block where it lies in device memory, for a reader of another process: there it stays until end_lease(),
  // which must come even if the run fails; run() waits for it. Null where the block is in another tier. Throws
  // Cancelled as read_block() does.
  const void* lease_block(BlockId block);
  void end_lease(BlockId block);
  // The segment of device memory in which a leased block lies, for another process to open. It stays until the executor
  // goes, before which all must have closed it, or until end_sharing().
  SharedSegment share_segment(const void* block);
  // `recall` is called, with no lock held, with the number of a shared segment that is to go back to the device during
  // a run, as memory is needed in longer pieces: others must close it and then end_sharing() be called, or the run end.
  // Null: nobody listens, and shared segments stay.
  void set_recall_handler(std::function<void(int64_t number)> recall);
  // No other process has the segment open, nor will before it is shared again. From any thread.
  void end_sharing(int64_t number);
  // What the compute tier has taken from the device so far: segments as they are needed, up to the budget. 0 on the
  // CPU.
  int64_t device_bytes() const;
  // The same outside a run.
  void read_stored(const StoredBlock& block, int64_t offset, int64_t bytes, void* to);

  Progress progress() const;      // any thread
  Statistics statistics() const;  // since creation
  const ExecutorConfig& config() const;
  local::Device device() const;
  local::Budget& memory_budget();
  local::Budget& host_budget();
  // Pinned host memory from the host budget for staging (GPU kinds; plain memory from the compute budget on the CPU,
  // where tasks declare scratch instead: memory that admitted tasks hold does not make way for one of them). Waits
  // while others hold what would do, evicting blocks where that helps, as long as anything moves: a task is in a
  // thread's hands (and does not wait for staging memory itself) or on a device, one ends, a block is moved, read or
  // given back, data arrives. Throws OutOfMemory for more than there is in all, and when nothing has moved for
  // config().patience. What is given back with a stream is reused when the stream has come to that point.
  local::MemoryResource& staging();
  // On the CPU: bytes of the compute budget for host memory that the caller allocates elsewhere, waited for as staging
  // memory is; what was kept for later blocks goes back to the system. Empty on device kinds, whose budgets are of
  // other memory.
  local::Reservation reserve_outside(int64_t bytes);
  // Bytes of the budget for host memory (memory_budget() on the CPU, else host_budget()) for what the caller allocates
  // elsewhere, where they are free just now: nothing makes way for them. Else empty.
  local::Reservation try_reserve_outside(int64_t bytes);
  // Asked for such bytes before a block of that memory makes way that this run still reads: the caller gives back what
  // it can do without, at least so many where it has them, and returns how many. With the executor's lock held: it must
  // not wait, nor call the executor. Null: nobody.
  void set_reclaim(std::function<int64_t(int64_t bytes)> reclaim);
  // From any thread: a part of what a deferred task waits for has come. Who waits for memory goes on waiting.
  void note_arrival();
  // What every running and the next waiting task are, one line each: for the watchdog.
  std::string describe_waits() const;

 private:
  explicit Executor(const ExecutorConfig& config);
  const std::unique_ptr<Core> core_;
};

}  // namespace quarry::scheduler
