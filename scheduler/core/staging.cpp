// Staging memory: pinned, from the host budget, on device kinds; plain memory from the compute budget on the CPU.

#include <fmt/format.h>

#include <algorithm>

#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kTick = std::chrono::milliseconds(20);

}  // namespace

// On the CPU: the request comes before admission; blocks are evicted for it.
local::Reservation Core::acquire(int64_t bytes) {
  Guard guard(*this);
  const auto begin = std::chrono::steady_clock::now();
  bool waiting = false;
  std::exception_ptr error;
  local::Reservation reservation;
  const auto reserve = [&] {
    return_unused();
    reservation = memory_budget_.try_reserve(bytes);
    if (!reservation) return false;
    note_free_bytes();
    keep_within_limit();
    return true;
  };
  for (;;) {
    if (reserve()) break;
    if (!waiting) {
      waiting = true;
      waiting_bytes_ += bytes;
    }
    advance();
    if (reserve()) break;
    error = std::exchange(spill_error_, nullptr);
    const bool hopeless = bytes > memory_budget_.limit_bytes() || stopping_ || (!graph_ && jobs_ == 0);
    if (error || hopeless || std::chrono::steady_clock::now() - begin > kPatience) break;
    guard.unlock();
    guard.lock();
    guard.wait_for(memory_wake_, kTick);
  }
  if (waiting) waiting_bytes_ -= bytes;
  if (reservation) return reservation;
  if (error) std::rethrow_exception(error);
  throw local::OutOfMemory(fmt::format("staging memory: {} bytes do not fit: {} of the budget of {} are reserved",
                                       bytes, memory_budget_.reserved_bytes(), memory_budget_.limit_bytes()));
}

// On device kinds: blocks in the pinned tier go to disk for it.
local::Reservation Core::acquire_pinned(int64_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    staging_.reap(/*wait=*/false);
    {
      Guard guard(*this);
      if (local::Reservation reservation = evict_host_for(guard, bytes, /*after_use=*/-1)) return reservation;
    }
    if (bytes > host_budget_.limit_bytes() - bounce_reservation_.bytes() ||
        std::chrono::steady_clock::now() - begin > kPatience) {
      throw local::OutOfMemory(
          fmt::format("staging memory: {} bytes do not fit: {} of the host budget of {} are reserved", bytes,
                      host_budget_.reserved_bytes(), host_budget_.limit_bytes()));
    }
    if (staging_.reap(/*wait=*/true)) continue;
    Guard guard(*this);
    ++waiting_pinned_;
    guard.wait_for(memory_wake_, kTick);
    --waiting_pinned_;
  }
}

void Core::wake_staging() {
  Guard guard(*this);
  if (waiting_pinned_ > 0) memory_wake_.notify_all();
  advance();
}

Staging::~Staging() {
  while (reap(/*wait=*/true)) {
  }
}

void* Staging::allocate(int64_t bytes, local::Stream* /*stream*/) {
  QUARRY_CHECK(bytes >= 0);
  const int64_t size = std::max<int64_t>(charged_bytes(bytes), local::kAllocationAlignment);
  local::Reservation reservation =
      core_.device_kind() ? core_.acquire_pinned(core_.host_memory_.allocation_bytes(size)) : core_.acquire(size);
  void* data = core_.host_memory_.allocate(size);
  const std::lock_guard lock(mutex_);
  out_.emplace(data, std::move(reservation));
  used_ += size;
  peak_ = std::max(peak_, used_);
  return data;
}

void Staging::deallocate(void* data, int64_t bytes, local::Stream* stream) noexcept {
  const int64_t size = std::max<int64_t>(charged_bytes(bytes), local::kAllocationAlignment);
  if (core_.device_kind() && stream) {
    // The host reuses it, which no stream orders: only when the stream has come past this point.
    try {
      std::shared_ptr<local::Event> event;
      {
        Core::Guard guard(core_);
        event = core_.acquire_event();
      }
      stream->record(*event);
      const std::lock_guard lock(mutex_);
      pending_.push_back({data, size, std::move(event)});
      return;
    } catch (const std::exception&) {
      // A stream that cannot record has failed and does nothing more.
    }
  }
  give_back(data, size);
}

void Staging::give_back(void* data, int64_t bytes) {
  {
    local::Reservation reservation;  // dies after the memory is given back
    {
      const std::lock_guard lock(mutex_);
      const auto found = out_.find(data);
      QUARRY_CHECK(found != out_.end());
      reservation = std::move(found->second);
      out_.erase(found);
      used_ -= bytes;
    }
    core_.host_memory_.deallocate(data, bytes);
  }
  core_.wake_staging();
}

bool Staging::reap(bool wait) {
  std::vector<Pending> done;
  {
    const std::lock_guard lock(mutex_);
    while (!pending_.empty() && pending_.front().event->done()) {
      done.push_back(std::move(pending_.front()));
      pending_.pop_front();
    }
    if (done.empty() && wait && !pending_.empty()) {
      done.push_back(std::move(pending_.front()));
      pending_.pop_front();
    }
  }
  for (Pending& item : done) {
    try {
      item.event->synchronize();
    } catch (const std::exception&) {
      // The task that queued the work reports it.
    }
    give_back(item.data, item.bytes);
    Core::Guard guard(core_);
    core_.recycle_event(std::move(item.event));
  }
  return !done.empty();
}

int64_t Staging::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

int64_t Staging::acquired_bytes() const { return core_.host_memory_.acquired_bytes(); }

int64_t Staging::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace quarry::scheduler
