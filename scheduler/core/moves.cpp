// Blocks on their way down (spill) and up again (restore).

#include <algorithm>

#include "quarry/local/base/trace.h"
#include "quarry/scheduler/blocks/error_context.h"
#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {
void Core::spill(Guard& guard, Worker& worker, int32_t index) {
  BlockRecord& r = blocks_.table[index];
  const int64_t begin_ns = local::trace_clock_ns();
  std::exception_ptr error;
  local::Reservation host_reservation;
  void* host = nullptr;
  SpillFile::Slot slot;
  try {
    if (on_device_) {
      const int64_t need = tiers_.host_memory.allocation_bytes(r.charge());
      host_reservation = evict_host_for(guard, need, blocks_.table.next_use(r));
    }
    void* data = r.data;
    const int64_t bytes = r.bytes;
    const int64_t charge = r.charge();
    guard.unlock();
    if (config_.fault) config_.fault(ExecutorConfig::Operation::spill);
    if (host_reservation) {
      host = tiers_.host_memory.allocate(charge);
      worker.bounce->to_host().copy(host, data, bytes);
      worker.bounce->to_host().synchronize();
    } else {
      slot = write_slot(bytes, [&](SpillFile::Slot& to) {
        if (on_device_) {
          worker.bounce->write(to, data, bytes);
        } else {
          tiers_.spill.write(to, 0, data, bytes);
        }
      });
    }
  } catch (...) {
    error = std::current_exception();
  }
  const int64_t end_ns = local::trace_clock_ns();
  guard.lock();
  queues_[QueueKind::io].busy.add(end_ns - begin_ns);
  if (local::tracing()) trace_move("spill " + block_name(r), r.bytes, begin_ns, host ? "to host memory" : "to disk");
  blocks_.end_spill(r);
  if (error) {
    if (host) tiers_.host_memory.deallocate(host, r.charge());
    error = with_context("spilling " + block_name(r), error);
    if (graph_) {
      set_error(error);
    } else {
      staging_requests_.spill_error = error;
    }
  } else {
    r.has_extras = true;
    if (host) {
      r.host = host;
      r.host_reserved = std::move(host_reservation);
    } else {
      r.slot = std::move(slot);
    }
    statistics_.spilled_bytes += r.bytes;
    if (!r.pins && !r.busy) blocks_.drop_resident(r);
  }
  blocks_.release_if_unused(index);
  advance();
}

void Core::restore(Guard& guard, Worker& worker, int32_t index) {
  BlockRecord& r = blocks_.table[index];
  const int64_t begin_ns = local::trace_clock_ns();
  void* data = r.data;
  void* const host = r.host;
  const int64_t bytes = r.bytes;
  const int64_t charge = r.charge();
  guard.unlock();
  std::exception_ptr error;
  try {
    if (config_.fault) config_.fault(ExecutorConfig::Operation::restore);
    if (!on_device_) {
      data = tiers_.host_memory.allocate(charge);
      tiers_.spill.read(r.slot, 0, bytes, data);
    } else if (host) {
      worker.bounce->to_device().copy(data, host, bytes);
      worker.bounce->to_device().synchronize();
    } else {
      worker.bounce->read(r.slot, data, bytes);
    }
  } catch (...) {
    error = std::current_exception();
  }
  const int64_t end_ns = local::trace_clock_ns();
  guard.lock();
  queues_[QueueKind::io].busy.add(end_ns - begin_ns);
  if (local::tracing()) {
    trace_move("restore " + block_name(r), r.bytes, begin_ns, host ? "from host memory" : "from disk");
  }
  r.data = data;
  blocks_.end_move(r);
  if (error) {
    set_error(with_context("bringing back " + block_name(r), error));
  } else {
    statistics_.restored_bytes += r.bytes;
    make_available(r);
  }
  advance();
}

// A slot of so many bytes that `write` has filled. Where the disk is full, once more without slots whose blocks are in
// another tier too.
SpillFile::Slot Core::write_slot(int64_t bytes, const std::function<void(SpillFile::Slot&)>& write) {
  for (bool again = true;; again = false) {
    SpillFile::Slot slot;
    try {
      slot = tiers_.spill.reserve(bytes);
      write(slot);
      return slot;
    } catch (const local::IoError&) {
      tiers_.spill.release(slot);
      if (!again || !drop_clean_slots()) throw;
    }
  }
}

bool Core::drop_clean_slots() {
  Guard guard(*this);
  bool any = false;
  blocks_.table.for_each([&](int32_t, BlockRecord& r) {
    if (!r.slot || r.busy || !(((r.resident || r.given) && r.available) || r.host)) return;
    tiers_.spill.release(r.slot);
    any = true;
  });
  return any;
}

// Bytes of the pinned tier, evicting from it to disk what is needed after `after_use`; empty where that is not enough.
local::Reservation Core::evict_host_for(Guard& guard, int64_t bytes, int64_t after_use) {
  const BlockTable& table = blocks_.table;
  for (;;) {
    local::Reservation reservation = tiers_.host_budget.try_reserve(bytes);
    if (reservation) return reservation;
    // A copy that exists in another tier too goes first, then the block whose next use is farthest.
    BlockRecord* victim = nullptr;
    int32_t victim_index = -1;
    bool victim_clean = false;
    blocks_.table.for_each([&](int32_t index, BlockRecord& r) {
      if (!r.host || r.busy) return;
      const bool clean = ((r.resident || r.given) && r.available) || r.slot;
      if (victim && (victim_clean > clean || (victim_clean == clean && table.next_use(*victim) >= table.next_use(r)))) {
        return;
      }
      victim = &r;
      victim_clean = clean;
      victim_index = index;
    });
    if (victim && victim_clean) {
      blocks_.drop_host(*victim);
      continue;
    }
    if (blocks_.reclaim(bytes - (tiers_.host_budget.limit_bytes() - tiers_.host_budget.reserved_bytes()))) continue;
    if (!victim) return {};
    if (!tiers_.spill.is_enabled() || table.next_use(*victim) <= after_use) return {};
    const int64_t begin_ns = local::trace_clock_ns();
    const void* const host = victim->host;
    const int64_t size = victim->bytes;
    blocks_.begin_move(*victim);
    guard.unlock();
    SpillFile::Slot slot;
    std::exception_ptr error;
    try {
      slot = write_slot(size, [&](SpillFile::Slot& to) { tiers_.spill.write(to, 0, host, size); });
    } catch (...) {
      error = std::current_exception();
    }
    guard.lock();
    blocks_.end_move(*victim);
    if (error) std::rethrow_exception(error);
    if (local::tracing()) trace_move("spill " + block_name(*victim), size, begin_ns, "from host memory to disk");
    statistics_.spilled_bytes += size;
    victim->slot = std::move(slot);
    if (!victim->busy) blocks_.drop_host(*victim);
    blocks_.release_if_unused(victim_index);
  }
}

}  // namespace quarry::scheduler
