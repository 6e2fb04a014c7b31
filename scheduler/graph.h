// This rank's share of a plan, as compact arrays: about a hundred bytes per task.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/scheduler/task.h"

namespace quarry::scheduler {

class StoredBlock;  // executor.h: a block that outlives its run

// A vector that grows in parts which stay where they are: at 10^7 elements, doubling would need their memory twice.
template <class T, size_t kPart = 512>
class Parts {
 public:
  void push_back(const T& value) { emplace_back() = value; }
  T& emplace_back() {
    if (size_ % kPart == 0) parts_.push_back(std::make_unique<T[]>(kPart));
    return (*this)[size_++];
  }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return parts_[i / kPart][i % kPart]; }
  const T& operator[](size_t i) const { return parts_[i / kPart][i % kPart]; }

 private:
  std::vector<std::unique_ptr<T[]>> parts_;
  size_t size_ = 0;
};

// Numbers of addresses, without an allocation for each.
class AddressTable {
 public:
  // The number of an address; if it has none, it gets this one.
  int64_t emplace(const void* address, int64_t number);

 private:
  struct Entry {
    const void* address = nullptr;
    int64_t number = 0;
  };
  Entry& place(const void* address);
  std::vector<Entry> entries_;  // a power of two, at most half of them in use
  size_t used_ = 0;
};

struct TaskDecl {
  TaskKind kind = TaskKind::compute;
  QueueKind queue = QueueKind::compute;
  int32_t body = 0;  // from Graph::add_body
  int64_t index = 0;
  int64_t position = 0;  // in the global plan order: admission is in this order (ties: order of adding). Producers
                         // precede consumers on all ranks.
  int64_t scratch_bytes = 0;
  int64_t traffic_bytes = 0;  // read, written or moved; for progress and trace
  std::span<const BlockId> inputs;
  std::span<const BlockId> outputs;
  // Its inputs are read in whichever tier they lie when it runs (TaskRun::read_visited): they cost it nothing, and may
  // be moved away for others until then.
  bool visits = false;
  // Bit i: output i takes over the memory of input i, which has as many bytes: the task changes it there. No other task
  // reads that input, no other rank, and it is not kept. Not for tasks that visit.
  uint8_t in_place = 0;
};

class Graph {
 public:
  int32_t add_body(std::unique_ptr<TaskBody> body);
  // A block produced by one task of this graph and freed after its last local consumer and `remote_readers` calls of
  // Executor::release_remote(). With keep, it becomes a StoredBlock (Executor::stored_block()) instead of being freed.
  BlockId add_block(int64_t bytes, int32_t remote_readers = 0, bool keep = false);
  // A block kept from an earlier run; the same id for the same block.
  BlockId add_stored(std::shared_ptr<StoredBlock> block, int32_t remote_readers = 0);
  // Between runs of a graph that runs again: without its stored blocks, so that they may go, and without remote
  // readers; then with others of as many bytes, each in its place and all different.
  void release_stored();
  void set_stored(BlockId block, std::shared_ptr<StoredBlock> stored);
  // Outputs must be blocks that no other task produces; inputs may be produced by a task that is added later.
  TaskId add_task(const TaskDecl& task);
  // Before the run: moves a task in the order.
  void set_position(TaskId task, int64_t position) {
    tasks_[static_cast<size_t>(task)].position = position;
    in_order_ = false;
  }
  // Task ids in the order of admission. Throws InternalError where a producer does not precede its consumer in it, or
  // where a block that is read is produced by no task.
  std::vector<TaskId> admission_order() const;
  // The same, but empty where the tasks were added in it.
  std::vector<TaskId> changed_order() const;
  // Before the run: only these tasks are left, in the same order with numbers of their own. Blocks keep theirs; one
  // that none of them makes is no block of the run any more, and must not be read by them.
  void keep_only(const std::vector<bool>& kept);
  // Before the run: a block that its producer made without it becomes a StoredBlock.
  void keep_block(BlockId block) { blocks_[static_cast<size_t>(block)].keep = true; }
  // Before the run: how many fetches of other ranks the block waits for.
  void set_remote_readers(BlockId block, int32_t remote_readers) {
    blocks_[static_cast<size_t>(block)].remote_readers = remote_readers;
  }

  // Before the run: how many seconds one task of each body is thought to take, for progress. Without it nothing is
  // known.
  void set_work(std::vector<double> seconds_of_body);
  // What a task of each body took in the last run of this graph, in nanoseconds; -1: unknown. Empty before the first.
  void note_times(std::vector<int64_t> ns_of_body) { body_ns_ = std::move(ns_of_body); }
  const std::vector<int64_t>& known_times() const { return body_ns_; }
  double total_work() const { return total_work_; }
  double longest_work() const { return longest_work_; }  // of one task

  int64_t task_count() const { return static_cast<int64_t>(tasks_.size()); }
  int64_t body_count() const { return static_cast<int64_t>(bodies_.size()); }
  int64_t block_count() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t traffic_bytes() const { return traffic_bytes_; }  // of all tasks
  // The first of those that need least_workable_bytes(); -1 where there is no task.
  TaskId largest_task() const { return largest_; }

  struct Task {
    TaskKind kind;
    QueueKind queue;
    bool visits : 1;
    bool ends_round : 1;  // it goes first, or a task waits for it that does: nothing is queued along with it
    uint8_t in_place;
    int32_t body;
    int64_t index, position, scratch_bytes, traffic_bytes;
    int64_t edges_begin;  // into edges_: inputs, then outputs
    int32_t inputs, outputs;
    // Whether that output takes over the memory of the input of the same number.
    bool takes_over(size_t output) const { return output < 8 && (in_place >> output & 1) != 0; }
  };
  struct Block {
    int64_t bytes;
    TaskId producer = -1;
    int32_t consumers = 0;  // counted once per input that names it
    int32_t remote_readers = 0;
    int32_t stored = -1;  // for stored()
    bool keep = false;
  };
  const Task& task(TaskId id) const { return tasks_[static_cast<size_t>(id)]; }
  const Block& block(BlockId id) const { return blocks_[static_cast<size_t>(id)]; }
  // Null unless the block was kept from an earlier run.
  const std::shared_ptr<StoredBlock>& stored(BlockId id) const;
  std::string task_name(TaskId id) const { return body(task(id)).name(task(id).index); }
  TaskBody& body(const Task& task) const { return *bodies_[static_cast<size_t>(task.body)]; }
  double work(const Task& task) const { return work_.empty() ? 0 : work_[static_cast<size_t>(task.body)]; }
  std::span<const BlockId> inputs(const Task& t) const {
    return {edges_.data() + t.edges_begin, static_cast<size_t>(t.inputs)};
  }
  std::span<const BlockId> outputs(const Task& t) const {
    return {edges_.data() + t.edges_begin + t.inputs, static_cast<size_t>(t.outputs)};
  }

 private:
  bool precedes(TaskId a, TaskId b) const {
    const int64_t pa = task(a).position, pb = task(b).position;
    return pa != pb ? pa < pb : a < b;
  }
  void check_blocks() const;
  void check_in_place(const Task& task) const;
  int64_t needed_bytes(const Task& task);
  friend int64_t least_workable_bytes(const Graph& graph);

  // Noted of every task as it is added, when what it names is in the cache.
  int64_t least_bytes_ = 0, traffic_bytes_ = 0;
  TaskId largest_ = -1;
  bool any_in_place_ = false;
  bool in_order_ = true;  // positions ascend, and every input had its producer; else it must be found out
  std::vector<BlockId> distinct_;
  Parts<Task> tasks_;
  Parts<Block> blocks_;
  std::vector<BlockId> edges_;
  std::vector<std::unique_ptr<TaskBody>> bodies_;
  std::vector<double> work_;  // of a task, by body
  double total_work_ = 0, longest_work_ = 0;
  std::vector<int64_t> body_ns_;
  std::vector<std::shared_ptr<StoredBlock>> stored_;
  AddressTable stored_ids_;
};

// Which tasks read each block, by their places in the order of admission (empty: the order of adding).
class Consumers {
 public:
  Consumers() = default;
  Consumers(const Graph& graph, std::span<const TaskId> order);
  // Those of a block are [begin(block), end(block)), in ascending order.
  int64_t begin(BlockId block) const { return block == 0 ? 0 : ends_[static_cast<size_t>(block) - 1]; }
  int64_t end(BlockId block) const { return ends_[static_cast<size_t>(block)]; }
  int64_t operator[](int64_t i) const { return orders_[static_cast<size_t>(i)]; }

 private:
  std::unique_ptr<int64_t[]> ends_;
  std::unique_ptr<uint32_t[]> orders_;
};

// What a block or a task's scratch costs in the budget: its bytes rounded up to the allocation alignment.
inline int64_t charged_bytes(int64_t bytes) { return local::align_up(bytes, local::kAllocationAlignment); }

// The compute-tier bytes that the graph needs at least: the largest task's inputs, unless it visits them, outputs and
// scratch together, as charged (all else can be spilled).
int64_t least_workable_bytes(const Graph& graph);

}  // namespace quarry::scheduler
