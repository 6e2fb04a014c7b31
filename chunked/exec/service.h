// Remote reads during a run: the owner of a block answers fetches from whichever tier holds it; the client has
// reserved memory before it asks.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/local/base/shape.h"
#include "quarry/scheduler/executor.h"

namespace quarry::exec {

class Paths;
class WorkStealing;

// Names a block in the same way on every rank: output number of a stage and chunk number, or a part of a reduction's
// tree.
struct BlockKey {
  uint32_t stage = 0;
  uint32_t part = 0;  // output or state field, and tree level: the lowering decides
  int64_t chunk = 0;
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};
// In BlockKey::part: a stolen block, which is of no graph: the thief has computed it for the victim that fetches it.
inline constexpr uint32_t kStolen = 1u << 31;

// A hyperslab of a C-contiguous block of `shape` elements, to be packed.
struct Hyperslab {
  local::Dims shape, start, count;
  int64_t itemsize = 1;
};

// What every rank tells the others at the end of a run, with the word that it is done.
struct LastWords {
  int64_t bytes = 0;  // of one rank's; the same on every rank
  // Writes this rank's, once its part of the run is done well.
  std::function<void(std::byte* mine)> write;
  std::vector<std::byte> all{};  // by rank, after the run
};

// One per run and rank; owns the communication thread of the run. All ranks make it with the same epoch.
class Service {
 public:
  // Collective. Takes its bounce buffers from executor.staging(); whatever fails from here on, on any rank, reaches the
  // others when they are in run(). The communication thread begins there, or with the first fetch. `paths`: connected
  // ones; null: those that need no connection. `interrupt`: once it is true the run ends with Cancelled on every rank,
  // and it is false again; what comes too late for a run is for the next one. Null: there is none. `piece_bytes`: of
  // agree_on_pieces(), which is the same for all runs; then this is no collective call, and may fail on one rank alone.
  // 0: agreed on here.
  static std::unique_ptr<Service> create(comm::Communicator& communicator, scheduler::Executor& executor,
                                         uint64_t epoch, const Paths* paths = nullptr,
                                         std::atomic<bool>* interrupt = nullptr, int64_t piece_bytes = 0);
  // Bytes of one message at most, so that every rank has buffers for it. Collective.
  static int64_t agree_on_pieces(comm::Communicator& communicator, scheduler::Executor& executor);
  virtual ~Service() = default;

  // Owner: before Executor::run(). The block was added with as many remote_readers as fetches will come.
  virtual void expose(const BlockKey& key, scheduler::BlockId block) = 0;
  // Client: asks `owner` for the hyperslab; `to` (host memory on the CPU, device memory on a GPU) is filled, then
  // `done` is called from the thread that makes progress, with an error if the run failed.
  virtual void fetch(int owner, const BlockKey& key, const Hyperslab& hyperslab, void* to,
                     std::function<void(std::exception_ptr)> done) = 0;

  // The chunks that ranks steal from each other in this run.
  virtual WorkStealing& stealing() = 0;
  // The block that stealing().steal() named (kStolen), computed: kept until its owner has fetched it whole, once, which
  // it may have begun to.
  virtual void publish_stolen(const BlockKey& key, std::shared_ptr<const std::byte> data) = 0;

  // Runs the graph: Executor::run() with this rank's error sent to all, and every rank's error thrown here, the lowest
  // failing rank's first. Returns when every rank is done and no fetch is outstanding. Collective. `is_short`: the
  // tasks are few, small and none of the program's own functions: this thread runs them, and makes progress on the
  // network. `words`: null on all ranks or on none.
  virtual void run(scheduler::Graph& graph, bool is_short = false, LastWords* words = nullptr) = 0;
  virtual int64_t bytes_sent() const = 0;

  // What create() takes from the executor's staging memory: for the planner's least workable budget. `staging_limit` is
  // the limit of the budget that staging() draws on, the same on all ranks.
  static int64_t staging_bytes(int64_t staging_limit, bool on_device, int ranks);
  // What it leaves of a rank's memory budget for tasks. On the CPU its buffers come out of the same budget; taken off
  // for one rank too, so that chunks do not depend on the number of ranks. 0 where it leaves nothing.
  static int64_t bytes_for_tasks(int64_t memory_bytes, bool on_device);
  // How many buffers that is, where there are several ranks.
  static int message_buffers(bool on_device);
};

// A task of which `run` is that fetches its first output: it ends when the hyperslab is there, with the fetch's error
// if it failed.
void fetch_output(Service& service, scheduler::TaskRun& run, int owner, const BlockKey& key,
                  const Hyperslab& hyperslab);

}  // namespace quarry::exec
