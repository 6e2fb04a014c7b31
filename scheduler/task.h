// Tasks: what runs. The scheduler sees bytes, dependencies and queues; never arrays, MPI or HDF5.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::scheduler {

enum class TaskKind : uint8_t { read, decode, copy, compute, send, receive, write, host };

// Where a task runs; one queue of ready tasks each, lowest plan position first.
enum class QueueKind : uint8_t {
  io,       // threads that read and write files (and stage to and from a GPU)
  compute,  // on the CPU: one thread per core; on a GPU: one thread that queues work on the compute stream
  worker,   // host threads for work that blocks or that belongs to no device
  comm,     // receive tasks: started here, completed by the communication thread
  // On a GPU, work that goes first: each has a thread and streams of its own there. On the CPU the same as compute.
  urgent,  // short work that much else waits for
  panel,   // long work that waits for itself, or for the GPU, and that others are not to wait behind
};
inline constexpr int kQueueCount = 6;
inline constexpr bool goes_first(QueueKind queue) { return queue == QueueKind::urgent || queue == QueueKind::panel; }
// The track of trace events that say how many bytes a tier below the compute tier holds; their names are the tiers'.
inline constexpr const char* kTierTrack = "tier";
const char* name(QueueKind queue);

using BlockId = int64_t;
using TaskId = int64_t;

// A block's memory during a task, in the compute tier (device memory on a GPU, host memory on the CPU); an input that
// is visited may also lie in pinned host memory, or on disk: then there is no data here.
struct BlockView {
  void* data = nullptr;
  int64_t bytes = 0;
};

// Finishes a deferred task, from any thread, exactly once.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual void finish() = 0;
  virtual void fail(std::exception_ptr error) = 0;
};

// What a running task may use. Valid until run() returns, or for a deferred task until it is finished.
class TaskRun {
 public:
  int64_t index = 0;  // which instance of the body
  std::span<const BlockView> inputs;
  std::span<const BlockView> outputs;
  // context.memory hands out exactly the task's declared scratch bytes (256-aligned pieces); what is allocated is given
  // back when the task ends.
  local::ExecContext context;
  virtual ~TaskRun() = default;
  // The task ends when the returned object says so, instead of when run() returns.
  virtual std::shared_ptr<Completion> defer() = 0;
  // Whether the run is being cancelled; long tasks ask now and then and return early.
  virtual bool is_cancelled() const = 0;
  // Of a task that visits its inputs (TaskDecl::visits): a part of one that is on disk, to host memory. Blocks. Throws
  // IoError.
  virtual void read_visited(size_t input, int64_t offset, int64_t bytes, void* to) = 0;
};

// The code of a family of tasks (one per stage), shared by all its instances. run() is called from several threads at
// once. On a GPU it queues work on context.stream and returns; the executor orders later work behind it with events. An
// exception fails the run.
class TaskBody {
 public:
  virtual ~TaskBody() = default;
  virtual std::string name(
      int64_t index) const = 0;  // for trace, errors and the watchdog: operation and chunk, "sum /x[3, 0]"
  virtual void run(TaskRun& run) = 0;
  // For the trace: the additions and multiplications of a task that is made of products of matrices, and what it has in
  // common with others that are as fast. 0: they are not counted.
  struct Operations {
    std::string kernel;
    double flops = 0;
  };
  virtual Operations operations(int64_t /*index*/) const { return {}; }
  // Several tasks of one round in their order, for bodies that can queue them together (one kernel instead of many).
  // Only on a GPU; all are on one stream, and none is deferred. What a call that throws should have done is done again
  // by run(), one after the other, so that the error is that of its task.
  virtual bool supports_batching() const { return false; }
  virtual void run_batch(std::span<TaskRun* const> runs) {
    for (TaskRun* const one : runs) run(*one);
  }
};

}  // namespace quarry::scheduler
