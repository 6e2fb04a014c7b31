#include "quarry/scheduler/blocks/blocks.h"

namespace quarry::scheduler {

Blocks::~Blocks() {
  table.for_each([this](int32_t index, const BlockRecord&) { remove(index); });
  return_unused();
}

void Blocks::end_run() {
  tiers_.small_blocks.give_back();
  return_unused();
  freed_soon_bytes_ = 0;
  candidates_.clear();
  table.end_run();
}

local::Reservation Blocks::reserve_for_others(int64_t bytes) {
  return_unused();
  local::Reservation reservation = tiers_.memory_budget.try_reserve(bytes);
  if (reservation) {
    reserved_.note_free_bytes();
    keep_within_limit();
  }
  return reservation;
}

void Blocks::drop_host(BlockRecord& r) {
  if (!r.host) return;
  tiers_.host_memory.deallocate(r.host, r.charge());
  r.host = nullptr;
  r.host_reserved.release();
}

void Blocks::drop_extras(BlockRecord& r) {
  drop_host(r);
  tiers_.spill.release(r.slot);
  r.event.reset();
}

bool Blocks::evict_for(int64_t bytes, int64_t before_order, Load load) {
  const bool busy = load == Load::busy;
  for (;;) {
    const int64_t free_bytes = reserved_.free_bytes();
    if (free_bytes >= bytes) return true;
    if (load == Load::ample) return false;
    int64_t least_use = before_order;
    const bool comes = free_bytes + freed_soon_bytes_ + spilling_bytes_ >= bytes;
    if (comes) {
      // It comes without moving anything. But when memory is full of blocks that are not needed for long, waiting for
      // it would run the tasks one by one.
      if (before_order < 0 || busy || free_bytes + spilling_bytes_ >= bytes) return false;
      least_use += kFarAhead;
    } else if (busy) {
      // What this run still reads is not moved away to run further ahead: it would have to come back.
      least_use = BlockTable::kNever - 2;
    }
    if (reclaim_ && !tiers_.on_device() && !comes && !busy) {
      // What is kept beside the blocks is wanted in this run: what is not goes before it, and what is goes after it.
      if (evict_farthest(BlockTable::kNever - 2)) continue;
      const int32_t next = candidates_.pop_farthest(least_use);
      if (next >= 0) candidates_.add(next);
      if ((next >= 0 || load == Load::idle) && reclaim(bytes - free_bytes)) continue;
    }
    if (!evict_farthest(least_use)) return false;
  }
}

bool Blocks::evict_farthest(int64_t before_order) {
  for (;;) {
    const int32_t index = candidates_.pop_farthest(before_order);
    if (index < 0) return false;
    if (evict(index)) return true;
  }
}

bool Blocks::evict_one_of(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    const BlockRecord& r = table.of(block);
    if (r.charge() > 0 && r.is_evictable() && evict(table.index_of(block))) return true;
  }
  return false;
}

bool Blocks::evict(int32_t index) {
  BlockRecord& r = table[index];
  if (r.slot || r.host) {
    drop_resident(r);
    return true;
  }
  if (!tiers_.spill.is_enabled()) {
    if (!tiers_.on_device()) return false;
    const auto missing = [&] {
      const local::Budget& host = tiers_.host_budget;
      return tiers_.host_memory.allocation_bytes(r.charge()) - (host.limit_bytes() - host.reserved_bytes());
    };
    if (missing() > 0) reclaim(missing());
    if (missing() > 0) return false;
  }
  r.spilling = true;
  begin_move(r);
  spilling_bytes_ += r.charge();
  io_queue_.push({/*order=*/-1, index, Job::spill});
  return true;
}

void Blocks::end_spill(BlockRecord& r) {
  r.spilling = false;
  end_move(r);
  spilling_bytes_ -= r.charge();
}

void Blocks::queue_restore(int32_t index, int64_t order) {
  begin_move(table[index]);
  io_queue_.push({order, index, Job::restore});
}

}  // namespace quarry::scheduler
