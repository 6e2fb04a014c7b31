#include "quarry/scheduler/core/staging.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);

}  // namespace

thread_local bool Staging::is_of_worker = false;

// On the CPU: the request comes before admission; blocks are evicted for it.
local::Reservation Staging::reserve(int64_t bytes) {
  const local::Budget& budget = core_.tiers_.memory_budget;
  StagingRequests& requests = core_.staging_requests_;
  Core::Guard guard(core_);
  core_.at_work_ -= is_of_worker ? 1 : 0;
  Patience patience;
  bool waiting = false;
  std::exception_ptr error;
  local::Reservation reservation;
  const auto try_reserve = [&] {
    reservation = core_.blocks_.reserve_for_others(bytes);
    return static_cast<bool>(reservation);
  };
  for (;;) {
    if (try_reserve()) break;
    if (!waiting) {
      waiting = true;
      requests.bytes += bytes;
    }
    core_.advance();
    if (try_reserve()) break;
    error = std::exchange(requests.spill_error, nullptr);
    const bool hopeless =
        bytes > budget.limit_bytes() || core_.stopping_ || (!core_.graph_ && !core_.blocks_.is_moving());
    if (error || hopeless) break;
    if (patience.is_over(core_.blocks_.movements(), core_.is_at_work(), core_.config_.patience)) break;
    guard.unlock();
    guard.lock();
    guard.wait_for(requests.wake, kTick);
  }
  core_.at_work_ += is_of_worker ? 1 : 0;
  if (waiting) requests.bytes -= bytes;
  if (reservation) return reservation;
  if (error) std::rethrow_exception(error);
  throw local::OutOfMemory(fmt::format("staging memory: {} bytes do not fit: {} of the budget of {} are reserved",
                                       bytes, budget.reserved_bytes(), budget.limit_bytes()));
}

// On device kinds: blocks in the pinned tier go to disk for it.
local::Reservation Staging::reserve_pinned(int64_t bytes) {
  const auto count_at_work = [this](int threads) {
    if (!is_of_worker) return;
    const Core::Guard guard(core_);
    core_.at_work_ += threads;
  };
  // Not at work throughout: else two that wait would take each other for it.
  count_at_work(-1);
  try {
    local::Reservation reservation = wait_for_pinned(bytes);
    count_at_work(1);
    return reservation;
  } catch (...) {
    count_at_work(1);
    throw;
  }
}

local::Reservation Staging::wait_for_pinned(int64_t bytes) {
  const local::Budget& budget = core_.tiers_.host_budget;
  StagingRequests& requests = core_.staging_requests_;
  Patience patience;
  for (;;) {
    reap(/*wait=*/false);
    bool is_over = bytes > core_.tiers_.staging_limit_bytes();
    {
      Core::Guard guard(core_);
      if (local::Reservation reservation = core_.evict_host_for(guard, bytes, /*after_use=*/-1)) return reservation;
      is_over = is_over || (core_.graph_ && core_.stopping_) ||
                patience.is_over(core_.blocks_.movements(), core_.is_at_work(), core_.config_.patience);
    }
    if (is_over) {
      throw local::OutOfMemory(
          fmt::format("staging memory: {} bytes do not fit: {} of the host budget of {} are reserved", bytes,
                      budget.reserved_bytes(), budget.limit_bytes()));
    }
    if (reap(/*wait=*/true)) continue;
    Core::Guard guard(core_);
    ++requests.pinned;
    guard.wait_for(requests.wake, kTick);
    --requests.pinned;
  }
}

Staging::~Staging() {
  while (reap(/*wait=*/true)) {
  }
}

void* Staging::allocate(int64_t bytes, local::DeviceStream* /*stream*/) {
  QUARRY_CHECK(bytes >= 0);
  const int64_t size = std::max<int64_t>(charged_bytes(bytes), local::kAllocationAlignment);
  local::Reservation reservation =
      core_.on_device_ ? reserve_pinned(core_.tiers_.host_memory.allocation_bytes(size)) : reserve(size);
  void* data = core_.tiers_.host_memory.allocate(size);
  const std::lock_guard lock(mutex_);
  out_.emplace(data, std::move(reservation));
  used_ += size;
  peak_ = std::max(peak_, used_);
  return data;
}

void Staging::deallocate(void* data, int64_t bytes, local::DeviceStream* stream) noexcept {
  const int64_t size = std::max<int64_t>(charged_bytes(bytes), local::kAllocationAlignment);
  if (core_.on_device_ && stream) {
    // The host reuses it, which no stream orders: only when the stream has come past this point.
    try {
      std::shared_ptr<local::DeviceEvent> event;
      {
        Core::Guard guard(core_);
        event = core_.events_.acquire();
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
    core_.tiers_.host_memory.deallocate(data, bytes);
  }
  core_.blocks_.note_movement();
  Core::Guard guard(core_);
  if (core_.staging_requests_.pinned > 0) core_.staging_requests_.wake.notify_all();
  core_.advance();
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
    core_.events_.recycle(std::move(item.event));
  }
  return !done.empty();
}

int64_t Staging::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

int64_t Staging::acquired_bytes() const { return core_.tiers_.host_memory.acquired_bytes(); }

int64_t Staging::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace quarry::scheduler
