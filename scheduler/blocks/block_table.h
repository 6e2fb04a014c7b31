// Records of the blocks that have data or are about to.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "quarry/local/device/device.h"
#include "quarry/local/memory/budget.h"
#include "quarry/scheduler/blocks/spill_file.h"
#include "quarry/scheduler/graph.h"
#include "quarry/scheduler/numbered.h"

namespace quarry::scheduler {

// What every use of a block touches: one line of the cache.
struct BlockState {
  BlockId block = -1;    // in this run; -1: kept from an earlier run and not used by this one
  int64_t bytes = 0;     // of the block
  void* data = nullptr;  // compute tier; on the CPU null until the block is about to be filled
  // Consumers in order of admission are consumers()[cursor, end); those before it are admitted, and the last `waiting`
  // of those wait for the data.
  int64_t cursor = 0, end = 0;
  int32_t waiting = 0;
  int32_t pins = 0;         // inputs of admitted tasks that are not done
  int32_t busy = 0;         // moves and reads under way without the lock
  int32_t remote = 0;       // readers on other ranks to come
  uint32_t generation = 0;  // tells a reused record from what it was
  bool used : 1 = false;
  bool resident : 1 = false;   // its charge is reserved in the compute tier
  bool produced : 1 = false;   // its producer is done
  bool available : 1 = false;  // in the compute tier, or behind `event`
  bool spilling : 1 = false;
  bool in_last_use : 1 = false;  // released when the admitted tasks are done; counted in Blocks::freed_soon_bytes()
  bool keep : 1 = false;         // becomes stored when the run succeeds
  bool stored : 1 = false;
  bool has_extras : 1 = false;  // has been in a tier below, or has an event: what BlockRecord adds may be set
  bool visited : 1 = false;     // BlockRecord::visitors is not 0
  bool given : 1 = false;       // an admitted task makes its memory that of an output, which has the reservation
  int64_t charge() const { return charged_bytes(bytes); }  // in the budget
  bool is_unused() const {
    return produced && !pins && !visited && !busy && cursor == end && !remote && !keep && !stored;
  }
  bool is_evictable() const { return resident && produced && available && !pins && !busy; }
};
static_assert(sizeof(BlockState) == 64);

// A block exists from its producer's admission to its last use. Its data may be in several tiers at once: blocks do not
// change once produced, so a copy further down stays valid and makes the next eviction free.
struct alignas(64) BlockRecord : BlockState {
  void* host = nullptr;  // pinned tier
  SpillFile::Slot slot;  // disk tier
  local::Reservation host_reserved;
  std::shared_ptr<local::DeviceEvent> event;  // device kinds: after which the data is there
  int stream = -1;                            // that it was recorded on
  int32_t visitors = 0;                       // inputs of admitted tasks that visit it and are not done
  uint64_t stamp = 0;                         // of the admission attempt that counted it last
};

// Not thread-safe: the executor's lock guards it.
class BlockTable {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  void begin_run(const Graph& graph, Consumers consumers) {
    consumers_ = std::move(consumers);
    record_of_.assign(static_cast<size_t>(graph.block_count()), -1);
  }
  void end_run() {
    consumers_ = {};
    std::vector<int32_t>().swap(record_of_);
  }

  BlockRecord& operator[](int32_t index) { return records_[index]; }
  const BlockRecord& operator[](int32_t index) const { return records_[index]; }
  // Of a block of this run; -1: not made yet, or gone.
  int32_t index_of(BlockId block) const { return record_of_[static_cast<size_t>(block)]; }
  void set_index(BlockId block, int32_t index) { record_of_[static_cast<size_t>(block)] = index; }
  BlockRecord& of(BlockId block) { return (*this)[index_of(block)]; }
  int64_t used_count() const { return records_.used_count(); }
  void for_each(const auto& call) { records_.for_each(call); }
  void for_each(const auto& call) const { records_.for_each(call); }

  int32_t add() { return records_.add(); }
  // What its record holds has been given back.
  void remove(int32_t index) {
    BlockRecord& r = (*this)[index];
    if (r.block >= 0 && static_cast<size_t>(r.block) < record_of_.size()) set_index(r.block, -1);
    const uint32_t generation = r.generation + 1;
    static_cast<BlockState&>(r) = BlockState{};
    r.generation = generation;
    r.visitors = 0;
    records_.remove(index);
  }

  const Consumers& consumers() const { return consumers_; }
  // The place in the order of admission of the next task that reads the block and is not admitted.
  int64_t next_use(const BlockState& r) const {
    if (r.cursor < r.end) return consumers_[r.cursor];
    if (r.visited) return 0;  // by its last readers, which are admitted: it goes with them
    // When another rank comes for it is not known here: sooner than what nothing in this run reads.
    return r.remote > 0 ? kNever - 1 : kNever;
  }

 private:
  Numbered<BlockRecord> records_;
  // This run.
  Consumers consumers_;
  std::vector<int32_t> record_of_;
};

// Blocks that can be evicted: a heap, farthest next use first, from which stale entries are skipped. Kept only from
// when a run first lacks memory. Not thread-safe: the executor's lock guards it.
class EvictionQueue {
 public:
  explicit EvictionQueue(const BlockTable& table) : table_(table) {}
  bool is_kept() const { return kept_; }
  void add(int32_t index);  // nothing where the queue is not kept
  // The block whose next use is farthest and after `before_order`, removed from the queue; -1: none.
  int32_t pop_farthest(int64_t before_order);
  void clear();

 private:
  struct Candidate {
    int64_t next_use;
    int32_t record;
    uint32_t generation;
    bool operator<(const Candidate& other) const { return next_use < other.next_use; }
  };
  void begin();
  bool is_stale(const Candidate& candidate) const;

  const BlockTable& table_;
  std::vector<Candidate> heap_;
  bool kept_ = false;
};

}  // namespace quarry::scheduler
