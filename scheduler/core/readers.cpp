// Reads of blocks by others: what other ranks ask for during a run, and stored blocks.

#include <cstring>

#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {

void Core::read_record(Guard& guard, int32_t index, int64_t offset, int64_t bytes, void* to) {
  BlockRecord& r = blocks_.table[index];
  QUARRY_CHECK(r.produced && offset >= 0 && bytes >= 0 && offset + bytes <= r.bytes);
  blocks_.begin_read(r);
  const char* const data = r.resident && r.available ? static_cast<const char*>(r.data) : nullptr;
  const char* const host = static_cast<const char*>(r.host);
  guard.unlock();
  std::exception_ptr error;
  try {
    if (bytes == 0) {
      // Nothing to copy; the block may have no memory.
    } else if (host) {
      std::memcpy(to, host + offset, static_cast<size_t>(bytes));
    } else if (data && !on_device_) {
      std::memcpy(to, data + offset, static_cast<size_t>(bytes));
    } else if (data) {
      tiers_.copy_to_host(to, data + offset, bytes);
    } else {
      tiers_.spill.read(r.slot, offset, bytes, to);
    }
  } catch (...) {
    error = std::current_exception();
  }
  guard.lock();
  blocks_.end_read(index);
  advance();
  if (error) std::rethrow_exception(error);
}

void Core::when_ready(BlockId block, std::function<void()> callback) {
  Guard guard(*this);
  if (graph_) {
    QUARRY_CHECK(block >= 0 && block < graph_->block_count());
    const int32_t index = blocks_.table.index_of(block);
    if (index >= 0 && blocks_.table[index].produced) {
      callbacks_.add(std::move(callback));
      return;
    }
  }
  callbacks_.add_when_ready(block, std::move(callback));
}

int32_t Core::produced_record(BlockId block) {
  if (!graph_) throw local::Cancelled("the run that made the block has ended");
  QUARRY_CHECK(block >= 0 && block < graph_->block_count());
  const int32_t index = blocks_.table.index_of(block);
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
  const BlockRecord& r = blocks_.table[produced_record(block)];
  QUARRY_CHECK(r.produced && r.bytes == bytes);
  if (on_device_ || !r.resident || !r.available) return false;
  visit(r.data);
  return true;
}

const void* Core::lease_block(BlockId block) {
  Guard guard(*this);
  BlockRecord& r = blocks_.table[produced_record(block)];
  QUARRY_CHECK(r.produced);
  if (!on_device_ || !r.resident || !r.available) return nullptr;
  blocks_.begin_read(r);
  return r.data;
}

void Core::end_lease(BlockId block) {
  Guard guard(*this);
  const int32_t index = blocks_.table.index_of(block);
  QUARRY_CHECK(index >= 0 && blocks_.table[index].busy > 0);
  blocks_.end_read(index);
  advance();
}

SharedSegment Core::share_segment(const void* block) {
  const Guard guard(*this);
  return tiers_.segments().share(block);
}

void Core::set_recall_handler(std::function<void(int64_t number)> recall) {
  const Guard guard(*this);
  recall_handler_ = std::move(recall);
  if (on_device_) tiers_.segments().allow_recalls(recall_handler_ != nullptr);
}

void Core::end_sharing(int64_t number) {
  const Guard guard(*this);
  tiers_.segments().end_sharing(number);
  blocks_.note_movement();
  advance();
}

int64_t Core::device_bytes() const {
  const std::lock_guard lock(mutex_);
  return on_device_ ? tiers_.segments().taken_bytes() : 0;
}

void Core::release_remote(BlockId block) {
  Guard guard(*this);
  if (!graph_ || stopping_) return;
  const int32_t index = blocks_.table.index_of(block);
  QUARRY_CHECK(index >= 0 && blocks_.table[index].remote > 0);
  BlockRecord& r = blocks_.table[index];
  --r.remote;
  --remote_left_;
  if (r.remote == 0) blocks_.note_last_use(r);
  blocks_.release_if_unused(index);
  advance();
}

void Core::read_stored(const StoredBlock& block, int64_t offset, int64_t bytes, void* to) {
  const auto* stored = dynamic_cast<const CoreStoredBlock*>(&block);
  QUARRY_CHECK(stored && stored->link() == link_.get());
  Guard guard(*this);
  read_record(guard, stored->record(), offset, bytes, to);
}

}  // namespace quarry::scheduler
