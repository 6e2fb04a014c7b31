// From a plan to this rank's share of tasks. Every rank lowers only the chunks that it owns; what it needs from others
// it lists as fetches, which the owners learn of before the run (exchange_fetches), so that a block lives exactly as
// long as somebody will read it.
//
// Position of a task in the global order: (phase, progress, depth). A stage that reads the finished result of a
// reduction, product or decomposition is one phase later; inside a phase, chunk i of n has progress i/n, or that of the
// latest chunk it reads; depth is the stage's number. All three are closed forms that need only the maps from outputs
// to inputs, every rank computes the same values, and producers always come first. Chunks of successive stages
// interleave, so they die young.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/exec/block_index.h"
#include "quarry/chunked/exec/bodies/device_decoding.h"
#include "quarry/chunked/exec/bodies/transfer.h"
#include "quarry/chunked/exec/part_table.h"
#include "quarry/chunked/exec/saved_states.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/plan/cost.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/io/output.h"
#include "quarry/scheduler/graph.h"

namespace quarry::exec {

// What happens with a result of the plan.
struct Sink {
  enum class Kind : uint8_t { persist, write };
  Kind kind = Kind::persist;
  plan::ArrayRef array;
  // write: a chunk or a part of it in host memory, C order, and host memory to work in; called from io threads.
  std::function<void(const Region& box, const void* data, std::span<std::byte> scratch)> write = {};
  bool whole = false;         // write: only whole chunks (filtered files)
  int64_t scratch_bytes = 0;  // write: what it works in
  // write: chunks of the array that need not be made, by number; null: none.
  std::shared_ptr<const std::vector<bool>> done = nullptr;
};

// Tasks per stage that steal chunks of other ranks, on a device: each in a thread of the worker queue, so that one
// reads while the other computes.
inline constexpr int kThievesOfDevice = 2;

struct LoweringContext {
  int rank = 0;
  Ownership owners;  // of chunks, among how many ranks
  local::Device device;
  scheduler::Executor* executor = nullptr;  // staging; null when only planning
  Service* service = nullptr;               // fetches; null when only planning
  int64_t memory_bytes = 0;                 // budget per rank; 0: small tasks stay apart
  int64_t host_bytes = 0;                   // device kinds: budget per rank of staging memory
  const plan::Rates* rates = nullptr;       // for Graph::set_work(); null: what tasks take is not estimated
  int thieves = 0;                          // tasks per stage that steal chunks of other ranks; 0: chunks stay
  DecodingPolicy decoding = {};             // of compressed chunks of files, on a device
  SavedStates* states = nullptr;            // what tile programs save and go on from; null: nothing
};

struct Lowered {
  scheduler::Graph graph;
  const PartTable* fetches = nullptr;                // this rank's, one per receive task, in the graph; null: none
  BlockIndex blocks;                                 // of this rank, by key
  uint32_t first_stored = 0;                         // the `stage` in keys of stored array 0
  std::vector<std::shared_ptr<StoredArray>> stored;  // that the plan reads, the same order on every rank
  std::vector<std::vector<scheduler::BlockId>> persisted;  // per sink: the owned chunks in order (persist)
  int64_t read_bytes = 0, write_bytes = 0;
  // Device kinds: the most staging memory that a task wants at once, and which one.
  int64_t staging_bytes = 0;
  scheduler::TaskId most_staging = -1;
  // By body, as Graph::set_work() has them: seconds of one task, how many there are, and in which stage (-1: sinks).
  struct BodyWork {
    double seconds = 0;
    int64_t tasks = 0;
    int stage = -1;
  };
  std::vector<BodyWork> work;
  std::vector<scheduler::TaskId> value_saves;  // tasks that save what others make, and are of no use by themselves
  bool grouped = false;  // some tasks take more memory at once than they would in a smaller budget

  // For a graph that runs again with other arrays (bind()).
  struct StoredChunk {
    scheduler::BlockId block;
    uint32_t array;  // in `stored`
    int64_t chunk;
  };
  std::vector<StoredChunk> stored_chunks;                 // that the graph knows
  std::vector<std::pair<UploadBody*, uint32_t>> uploads;  // with the array
  ReceiveBody* receive_body = nullptr;
  bool runs_again = true;  // its bodies hold nothing of a run, nor of arrays, but what bind() gives them
};

// `plan` must outlive the graph.
std::unique_ptr<Lowered> lower(const plan::Plan& plan, const std::vector<Sink>& sinks, const LoweringContext& context);

// The same tasks for other arrays: what lower() would make of a plan that is bound to those (plan_cache.h) on this rank
// of the same Runtime. After a run release() takes the arrays out, so that they may go; bind() puts others in, one for
// each of `stored`, all different. Throws InvalidArgument as lower() does.
void release(Lowered& lowered);
void bind(Lowered& lowered, std::vector<std::shared_ptr<StoredArray>> arrays, const LoweringContext& context);

// The time that the rank's tasks are thought to take on so many threads, one kind of them after the other, where the
// context had rates.
double estimated_seconds(const Lowered& lowered, int threads);

// Takes the tasks away whose results nobody needs on any rank, where sinks have chunks that are done or tiles are
// saved: then what remains computes the same bits as before. No chunk may be stolen in the run. Collective.
void drop_unneeded(Lowered& lowered, comm::Communicator& communicator);

// Tells owners what will be fetched: sets remote readers on the graph's blocks and exposes them. Collective.
void exchange_fetches(Lowered& lowered, comm::Communicator& communicator, Service& service);

// The same in agree(), where they are few: this rank's note of so many bytes, and what is done with those of all ranks.
// False on every rank where one has more than fits: then nothing was done.
std::vector<std::byte> note_fetches(const Lowered& lowered, size_t bytes);
bool take_fetches(Lowered& lowered, std::span<const std::byte> notes, size_t bytes, int rank, Service& service);

}  // namespace quarry::exec
