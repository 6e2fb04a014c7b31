// Blocks on their way down (spill), up again (restore), and out to other ranks (read).

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "quarry/local/base/trace.h"
#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {
namespace {

// The same error with what was being done before it.
std::exception_ptr with_context(const std::string& what, const std::exception_ptr& error) {
  local::ErrorRecord record = local::to_record(error);
  record.message = fmt::format("{}: {}", what, record.message);
  try {
    local::throw_record(record);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

void Core::spill(Guard& guard, Worker& worker, int32_t index) {
  Record& r = record(index);
  const int64_t begin_ns = local::trace_clock_ns();
  std::exception_ptr error;
  local::Reservation host_reservation;
  void* host = nullptr;
  SpillFile::Slot slot;
  try {
    if (device_kind()) host_reservation = evict_host_for(guard, host_memory_.allocation_bytes(r.charge()), next_use(r));
    void* data = r.data;
    const int64_t bytes = r.bytes;
    const int64_t charge = r.charge();
    guard.unlock();
    if (config_.fault) config_.fault(ExecutorConfig::Operation::spill);
    if (host_reservation) {
      host = host_memory_.allocate(charge);
      worker.to_host->copy(host, data, bytes);
      worker.to_host->synchronize();
    } else {
      slot = write_slot(&worker, device_kind() ? nullptr : data, device_kind() ? data : nullptr, bytes);
    }
  } catch (...) {
    error = std::current_exception();
  }
  const int64_t end_ns = local::trace_clock_ns();
  guard.lock();
  queues_[static_cast<size_t>(QueueKind::io)].busy_ns += end_ns - begin_ns;
  if (local::tracing()) trace_move("spill " + block_name(r), r.bytes, begin_ns, host ? "to host memory" : "to disk");
  r.spilling = false;
  --r.busy;
  --jobs_;
  spilling_bytes_ -= r.charge();
  if (error) {
    if (host) host_memory_.deallocate(host, r.charge());
    error = with_context("spilling " + block_name(r), error);
    if (graph_) {
      set_error(error);
    } else {
      spill_error_ = error;
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
    if (!r.pins && !r.busy) drop_resident(r);
  }
  release_if_unused(index);
  advance();
}

void Core::restore(Guard& guard, Worker& worker, int32_t index) {
  Record& r = record(index);
  const int64_t begin_ns = local::trace_clock_ns();
  void* data = r.data;
  void* const host = r.host;
  const int64_t bytes = r.bytes;
  const int64_t charge = r.charge();
  guard.unlock();
  std::exception_ptr error;
  try {
    if (config_.fault) config_.fault(ExecutorConfig::Operation::restore);
    if (!device_kind()) {
      data = host_memory_.allocate(charge);
      spill_.read(r.slot, 0, bytes, data);
    } else if (host) {
      worker.streams[0]->copy(data, host, bytes);
      worker.streams[0]->synchronize();
    } else {
      read_slot(worker, r.slot, data, bytes);
    }
  } catch (...) {
    error = std::current_exception();
  }
  const int64_t end_ns = local::trace_clock_ns();
  guard.lock();
  queues_[static_cast<size_t>(QueueKind::io)].busy_ns += end_ns - begin_ns;
  if (local::tracing()) {
    trace_move("restore " + block_name(r), r.bytes, begin_ns, host ? "from host memory" : "from disk");
  }
  r.data = data;
  --r.busy;
  --jobs_;
  if (error) {
    set_error(with_context("bringing back " + block_name(r), error));
  } else {
    statistics_.restored_bytes += r.bytes;
    make_available(r);
  }
  advance();
}

SpillFile::Slot Core::write_slot(Worker* worker, const void* host, const void* device, int64_t bytes) {
  for (bool again = true;; again = false) {
    SpillFile::Slot slot;
    try {
      slot = spill_.reserve(bytes);
      if (host) {
        spill_.write(slot, 0, host, bytes);
        return slot;
      }
      // The copy of the next piece runs while one is written.
      QUARRY_CHECK(worker != nullptr);
      const int64_t half = bounce_bytes_ / 2;
      char* const bounce = static_cast<char*>(worker->bounce);
      const auto fetch = [&](int64_t at) {
        const int64_t side = at / half % 2;
        worker->to_host->copy(bounce + side * half, static_cast<const char*>(device) + at, std::min(half, bytes - at));
        worker->to_host->record(*worker->bounce_events[side]);
      };
      if (bytes > 0) fetch(0);
      for (int64_t at = 0; at < bytes; at += half) {
        const int64_t side = at / half % 2;
        if (at + half < bytes) fetch(at + half);
        worker->bounce_events[side]->synchronize();
        spill_.write(slot, at, bounce + side * half, std::min(half, bytes - at));
      }
      return slot;
    } catch (const local::IoError&) {
      spill_.release(slot);
      if (worker && worker->to_host) worker->to_host->synchronize();
      if (!again || !drop_clean_slots()) throw;
    }
  }
}

void Core::read_slot(Worker& worker, const SpillFile::Slot& slot, void* device, int64_t bytes) {
  const int64_t half = bounce_bytes_ / 2;
  char* const bounce = static_cast<char*>(worker.bounce);
  try {
    for (int64_t at = 0; at < bytes; at += half) {
      const int64_t side = at / half % 2;
      if (at >= 2 * half) worker.bounce_events[side]->synchronize();
      spill_.read(slot, at, std::min(half, bytes - at), bounce + side * half);
      worker.streams[0]->copy(static_cast<char*>(device) + at, bounce + side * half, std::min(half, bytes - at));
      worker.streams[0]->record(*worker.bounce_events[side]);
    }
  } catch (...) {
    worker.streams[0]->synchronize();
    throw;
  }
  worker.streams[0]->synchronize();
}

bool Core::drop_clean_slots() {
  Guard guard(*this);
  bool any = false;
  for (size_t i = 0; i < records_.size(); ++i) {
    Record& r = records_[i];
    if (!r.used || !r.slot || r.busy || !((r.resident && r.available) || r.host)) continue;
    spill_.release(r.slot);
    any = true;
  }
  return any;
}

local::Reservation Core::evict_host_for(Guard& guard, int64_t bytes, int64_t after_use) {
  for (;;) {
    local::Reservation reservation = host_budget_.try_reserve(bytes);
    if (reservation) return reservation;
    // A copy that exists in another tier too goes first, then the block whose next use is farthest.
    Record* victim = nullptr;
    int32_t index = -1;
    bool victim_clean = false;
    for (size_t i = 0; i < records_.size(); ++i) {
      Record& r = records_[i];
      if (!r.used || !r.host || r.busy) continue;
      const bool clean = (r.resident && r.available) || r.slot;
      if (victim && (victim_clean > clean || (victim_clean == clean && next_use(*victim) >= next_use(r)))) continue;
      victim = &r;
      victim_clean = clean;
      index = static_cast<int32_t>(i);
    }
    if (!victim) return {};
    if (victim_clean) {
      drop_host(*victim);
      continue;
    }
    if (!spill_.is_enabled() || next_use(*victim) <= after_use) return {};
    const int64_t begin_ns = local::trace_clock_ns();
    const void* const host = victim->host;
    const int64_t size = victim->bytes;
    ++victim->busy;
    ++jobs_;
    guard.unlock();
    SpillFile::Slot slot;
    std::exception_ptr error;
    try {
      slot = write_slot(nullptr, host, nullptr, size);
    } catch (...) {
      error = std::current_exception();
    }
    guard.lock();
    --victim->busy;
    --jobs_;
    if (error) std::rethrow_exception(error);
    if (local::tracing()) trace_move("spill " + block_name(*victim), size, begin_ns, "from host memory to disk");
    statistics_.spilled_bytes += size;
    victim->slot = std::move(slot);
    if (!victim->busy) drop_host(*victim);
    release_if_unused(index);
  }
}

void Core::read_record(Guard& guard, int32_t index, int64_t offset, int64_t bytes, void* to) {
  Record& r = record(index);
  QUARRY_CHECK(r.produced && offset >= 0 && bytes >= 0 && offset + bytes <= r.bytes);
  ++r.busy;
  ++reads_;
  const char* const data = r.resident && r.available ? static_cast<const char*>(r.data) : nullptr;
  const char* const host = static_cast<const char*>(r.host);
  guard.unlock();
  std::exception_ptr error;
  try {
    if (bytes == 0) {
      // Nothing to copy; the block may have no memory.
    } else if (host) {
      std::memcpy(to, host + offset, static_cast<size_t>(bytes));
    } else if (data && !device_kind()) {
      std::memcpy(to, data + offset, static_cast<size_t>(bytes));
    } else if (data) {
      const std::lock_guard lock(read_mutex_);
      read_stream_->copy(to, data + offset, bytes);
      read_stream_->synchronize();
    } else {
      spill_.read(r.slot, offset, bytes, to);
    }
  } catch (...) {
    error = std::current_exception();
  }
  guard.lock();
  --r.busy;
  --reads_;
  release_if_unused(index);
  advance();
  if (error) std::rethrow_exception(error);
}

void Core::when_ready(BlockId block, std::function<void()> callback) {
  Guard guard(*this);
  if (graph_) {
    QUARRY_CHECK(block >= 0 && block < graph_->block_count());
    const int32_t index = block_record_[static_cast<size_t>(block)];
    if (index >= 0 && record(index).produced) {
      due_.push_back(std::move(callback));
      return;
    }
  }
  callbacks_[block].push_back(std::move(callback));
}

int32_t Core::produced_record(BlockId block) {
  if (!graph_) throw local::Cancelled("the run that made the block has ended");
  QUARRY_CHECK(block >= 0 && block < graph_->block_count());
  const int32_t index = block_record_[static_cast<size_t>(block)];
  if (index < 0 && stopping_) throw local::Cancelled("the run that made the block has been stopped");
  QUARRY_CHECK(index >= 0);
  return index;
}

void Core::read_block(BlockId block, int64_t offset, int64_t bytes, void* to) {
  Guard guard(*this);
  read_record(guard, produced_record(block), offset, bytes, to);
}

bool Core::visit_block(BlockId block, int64_t bytes, const std::function<void(const void*)>& visit) {
  Guard guard(*this);
  const Record& r = record(produced_record(block));
  QUARRY_CHECK(r.produced && r.bytes == bytes);
  if (device_kind() || !r.resident || !r.available) return false;
  visit(r.data);
  return true;
}

const void* Core::lease_block(BlockId block) {
  Guard guard(*this);
  Record& r = record(produced_record(block));
  QUARRY_CHECK(r.produced);
  if (!device_kind() || !r.resident || !r.available) return nullptr;
  ++r.busy;
  ++reads_;
  return r.data;
}

void Core::end_lease(BlockId block) {
  Guard guard(*this);
  const int32_t index = block_record_[static_cast<size_t>(block)];
  QUARRY_CHECK(index >= 0 && record(index).busy > 0);
  --record(index).busy;
  --reads_;
  release_if_unused(index);
  advance();
}

void Core::release_remote(BlockId block) {
  Guard guard(*this);
  if (!graph_ || stopping_) return;
  const int32_t index = block_record_[static_cast<size_t>(block)];
  QUARRY_CHECK(index >= 0 && record(index).remote > 0);
  Record& r = record(index);
  --r.remote;
  --remote_left_;
  if (r.remote == 0) note_last_use(r);
  release_if_unused(index);
  advance();
}

void Core::read_stored(const StoredBlock& block, int64_t offset, int64_t bytes, void* to) {
  const auto* stored = dynamic_cast<const CoreStoredBlock*>(&block);
  QUARRY_CHECK(stored && stored->link() == link_.get());
  Guard guard(*this);
  read_record(guard, stored->record(), offset, bytes, to);
}

}  // namespace quarry::scheduler
