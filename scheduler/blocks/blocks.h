// The life of blocks in the tiers: what they have reserved, when they are released, and which are evicted for others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "quarry/scheduler/blocks/block_table.h"
#include "quarry/scheduler/blocks/reserved_bytes.h"
#include "quarry/scheduler/blocks/tiers.h"
#include "quarry/scheduler/queues/work_queue.h"

namespace quarry::scheduler {

// Not thread-safe: the executor's lock guards it.
class Blocks {
 public:
  // Blocks that are evicted wait in the queue of the I/O threads for being spilled.
  Blocks(Tiers& tiers, WorkQueue& io_queue)
      : tiers_(tiers), io_queue_(io_queue), reserved_(tiers.memory_budget), candidates_(table) {}
  ~Blocks();
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  // Forgets what was known of the run; blocks that are not stored must be gone.
  void end_run();

  // --- the compute tier's budget ---

  // For blocks and scratch; false where it does not fit now.
  bool reserve(int64_t bytes) {
    if (!reserved_.reserve(bytes)) return false;
    keep_within_limit();
    return true;
  }
  void release(int64_t bytes) {
    ++movements_;
    unreserve(bytes);
  }
  // What was reserved just now and not used.
  void unreserve(int64_t bytes) { reserved_.release(bytes); }
  // For others than blocks and scratch: all that is free for them.
  local::Reservation reserve_for_others(int64_t bytes);
  void return_unused() { reserved_.return_unused(); }
  void return_most_unused() { reserved_.return_most_unused(); }
  int64_t reserved_bytes() const { return reserved_.bytes(); }
  // Freed for certain when the admitted tasks are done: also scratch, which is added here.
  void add_freed_soon(int64_t bytes) { freed_soon_bytes_ += bytes; }
  int64_t freed_soon_bytes() const { return freed_soon_bytes_; }
  int64_t spilling_bytes() const { return spilling_bytes_; }  // freed when the spills under way are done

  // Counts whatever may lead to memory being given back: bytes released, blocks moved or read, what was noted. The
  // second is called from any thread, without the lock.
  int64_t movements() const { return movements_ + noted_.load(std::memory_order_relaxed); }
  void note_movement() { noted_.fetch_add(1, std::memory_order_relaxed); }

  // --- uses of a block ---

  // After its last pin or move: releases it, or lists it for eviction.
  void release_if_unused(int32_t index) {
    const BlockRecord& r = table[index];
    if (r.is_unused()) {
      remove(index);
    } else if (candidates_.is_kept() && r.is_evictable()) {
      candidates_.add(index);
    }
  }
  // Counts it where the admitted tasks are its last readers.
  void note_last_use(BlockRecord& r) {
    if (r.in_last_use || r.given || r.cursor != r.end || r.remote || r.keep || r.stored) return;
    const bool frees = r.visited && r.resident && !r.spilling;
    if (r.produced && !r.pins && !frees) return;
    r.in_last_use = true;
    freed_soon_bytes_ += r.charge();
  }
  // Gives back what it has in every tier.
  void remove(int32_t index) {
    BlockRecord& r = table[index];
    drop_resident(r);
    if (r.has_extras) drop_extras(r);
    table.remove(index);
  }
  // From the compute tier, and from the pinned one.
  void drop_resident(BlockRecord& r) {
    const int64_t charge = r.charge();
    if (r.in_last_use) freed_soon_bytes_ -= charge;
    r.in_last_use = false;
    if (r.data && charge > 0) tiers_.deallocate(r.data, charge);
    r.data = nullptr;
    if (r.resident) release(charge);
    r.resident = r.available = false;
  }
  // An admitted task is to read it where it lies.
  void add_visitor(BlockRecord& r) {
    ++r.visitors;
    r.visited = true;
  }
  // The same for one that has begun to, see begin_read().
  void end_visit(int32_t index) {
    BlockRecord& r = table[index];
    r.visited = --r.visitors > 0;
    end_read(index);
  }
  void drop_host(BlockRecord& r);

  // --- eviction ---

  // A block that is needed no sooner than this many tasks later makes way so that more tasks run at once.
  static constexpr int64_t kFarAhead = 32;

  // Evicts until so many bytes are free, blocks whose next use is farthest first and after `before_order`; false where
  // that is not so now. -1: for staging memory. Tasks that are admitted: none, some, so many that every thread is at
  // work, or several times as many: then nothing is worth moving to run further ahead.
  enum class Load : uint8_t { idle, some, busy, ample };
  bool evict_for(int64_t bytes, int64_t before_order, Load load);
  // One block; false where there is none. The second: one of those named.
  bool evict_farthest(int64_t before_order);
  bool evict_one_of(std::span<const BlockId> blocks);
  // What others keep in host memory and can make again (Executor::set_reclaim()); false where there is nothing.
  void set_reclaim(std::function<int64_t(int64_t bytes)> reclaim) { reclaim_ = std::move(reclaim); }
  bool reclaim(int64_t bytes) { return reclaim_ && reclaim_(bytes) > 0; }

  // --- moves between tiers and reads, without the lock ---

  bool is_moving() const { return moves_ > 0; }
  bool is_in_use_outside() const { return moves_ > 0 || reads_ > 0; }
  // A move to the compute tier is queued for a block that is resident again. `order`: of the task that needs it.
  void queue_restore(int32_t index, int64_t order);
  void end_spill(BlockRecord& r);  // whether it succeeded or not
  // Of a copy between tiers; a restore ends with end_move() too.
  void begin_move(BlockRecord& r) {
    ++r.busy;
    ++moves_;
  }
  void end_move(BlockRecord& r) {
    --r.busy;
    --moves_;
    ++movements_;
  }
  void begin_read(BlockRecord& r) {
    ++r.busy;
    ++reads_;
  }
  void end_read(int32_t index) {
    --table[index].busy;
    --reads_;
    ++movements_;
    release_if_unused(index);
  }

  BlockTable table;

 private:
  bool evict(int32_t index);
  void drop_extras(BlockRecord& r);
  // Memory that is kept for later is within the limit too.
  void keep_within_limit() {
    if (tiers_.small_blocks.kept_bytes() > reserved_.least_free_bytes()) tiers_.small_blocks.give_back();
  }

  Tiers& tiers_;
  WorkQueue& io_queue_;
  ReservedBytes reserved_;
  EvictionQueue candidates_;
  std::function<int64_t(int64_t bytes)> reclaim_;
  int64_t freed_soon_bytes_ = 0;
  int64_t spilling_bytes_ = 0;
  int64_t moves_ = 0;  // queued or under way
  int64_t reads_ = 0;
  int64_t movements_ = 0;
  std::atomic<int64_t> noted_{0};
};

}  // namespace quarry::scheduler
