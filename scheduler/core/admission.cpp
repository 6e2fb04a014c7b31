// Admission in plan order, eviction by farthest next use, and what happens when a task ends.

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/trace.h"
#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {
namespace {

// Admitted tasks that are not done, at most: further ones would only make the queues long, and leave the caches.
constexpr int64_t kRunAhead = 1024;
constexpr int64_t kRunAheadOfDevice = 4096;
// So many of them must be done before others are admitted: what those ask other ranks for is asked for in one go.
constexpr int64_t kAdmittedTogether = 128;
// A block that is needed no sooner than this many tasks later makes way so that more tasks run at once.
constexpr int64_t kFarAhead = 32;
// A block of a smaller share of the slab is a small one.
constexpr int64_t kSmallShare = 4096;
// What stays reserved for the next tasks when the lock is released; who wants staging memory takes it away.
constexpr int64_t kMostUnused = 64 << 10;
// How long the next task waits for memory that others than the executor hold.
constexpr auto kPatience = std::chrono::seconds(60);

}  // namespace

int64_t Core::next_use(const Record& r) const {
  if (r.cursor < r.end) return consumers_[r.cursor];
  // When another rank comes for it is not known here: sooner than what nothing in this run reads.
  return r.remote > 0 ? kNever - 1 : kNever;
}

bool Core::is_unused(const Record& r) {
  return r.produced && !r.pins && !r.busy && r.cursor == r.end && !r.remote && !r.keep && !r.stored;
}

void Core::release_if_unused(int32_t index) {
  Record& r = record(index);
  if (is_unused(r)) {
    free_record(index);
  } else if (is_evictable(r)) {
    add_candidate(index);
  }
}

void Core::add_candidate(int32_t index) {
  const Record& r = record(index);
  if (!lists_candidates_ || r.charge() == 0) return;
  if (candidates_.size() > 4 * static_cast<size_t>(used_records_) + 1024) {
    std::erase_if(candidates_, [this](const EvictionCandidate& c) {
      const Record& other = record(c.record);
      return other.generation != c.generation || !is_evictable(other) || next_use(other) != c.next_use;
    });
    std::make_heap(candidates_.begin(), candidates_.end());
  }
  candidates_.push_back({next_use(r), index, r.generation});
  std::push_heap(candidates_.begin(), candidates_.end());
}

void Core::list_candidates() {
  lists_candidates_ = true;
  candidates_.clear();
  for (size_t i = 0; i < records_.size(); ++i) {
    const Record& r = records_[i];
    if (r.used && r.charge() > 0 && is_evictable(r)) {
      candidates_.push_back({next_use(r), static_cast<int32_t>(i), r.generation});
    }
  }
  std::make_heap(candidates_.begin(), candidates_.end());
}

void Core::note_last_use(Record& r) {
  if (r.in_last_use || r.cursor != r.end || r.remote || r.keep || r.stored || (r.produced && !r.pins)) return;
  r.in_last_use = true;
  freed_soon_bytes_ += r.charge();
}

int32_t Core::new_record() {
  int32_t index;
  if (free_records_.empty()) {
    index = static_cast<int32_t>(records_.size());
    records_.emplace_back();
  } else {
    index = free_records_.back();
    free_records_.pop_back();
  }
  record(index).used = true;
  ++used_records_;
  return index;
}

void Core::drop_resident(Record& r) {
  const int64_t charge = r.charge();
  if (r.data && charge > 0) {
    if (device_kind()) {
      slab_->deallocate(r.data, charge);
    } else {
      small_blocks_.put(r.data, charge);
    }
  }
  r.data = nullptr;
  if (r.resident) release(charge);
  r.resident = r.available = false;
}

void Core::drop_host(Record& r) {
  if (!r.host) return;
  host_memory_.deallocate(r.host, r.charge());
  r.host = nullptr;
  r.host_reserved.release();
}

void Core::free_record(int32_t index) {
  Record& r = record(index);
  if (r.in_last_use) freed_soon_bytes_ -= r.charge();
  drop_resident(r);
  if (r.has_extras) {
    drop_host(r);
    spill_.release(r.slot);
    r.event.reset();
  }
  if (r.block >= 0 && graph_) block_record_[static_cast<size_t>(r.block)] = -1;
  const uint32_t generation = r.generation + 1;
  static_cast<BlockState&>(r) = BlockState{};
  r.generation = generation;
  --used_records_;
  free_records_.push_back(index);
}

// Reserves so much of the budget, first of what the last tasks gave back; false where it does not fit.
bool Core::reserve(int64_t bytes) {
  if (bytes > unused_bytes_) {
    local::Reservation more = memory_budget_.try_reserve(bytes - unused_bytes_);
    if (!more) return false;
    unused_bytes_ += more.bytes();
    reservations_.push_back(std::move(more));
    note_free_bytes();
  }
  unused_bytes_ -= bytes;
  keep_within_limit();
  return true;
}

void Core::note_free_bytes() { least_free_ = memory_budget_.limit_bytes() - memory_budget_.reserved_bytes(); }

// Memory that is kept for later is within the limit too.
void Core::keep_within_limit() {
  if (small_blocks_.kept_bytes() > least_free_ + unused_bytes_) small_blocks_.give_back();
}

void Core::return_most_unused() {
  if (!graph_ || waiting_bytes_ > 0 || unused_bytes_ > kMostUnused) return_unused();
}

void Core::return_unused() {
  least_free_ += unused_bytes_;
  while (unused_bytes_ > 0) {
    local::Reservation& last = reservations_.back();
    if (last.bytes() > unused_bytes_) {
      const local::Reservation part = last.split(unused_bytes_);
      unused_bytes_ = 0;
    } else {
      unused_bytes_ -= last.bytes();
      reservations_.pop_back();
    }
  }
}

bool Core::may_admit() {
  const int64_t most = device_kind() ? kRunAheadOfDevice : kRunAhead;
  if (live_count_ >= most) far_ahead_ = true;
  if (live_count_ <= most - kAdmittedTogether) far_ahead_ = false;
  return head_ < task_count_ && !far_ahead_ && waiting_bytes_ == 0;
}

void Core::advance() {
  admits_more_ = false;
  if (waiting_bytes_ > 0 && !evict_for(waiting_bytes_, /*before_order=*/-1)) return;
  if (!graph_ || stopping_) return;
  const int64_t enough = device_kind() ? head_ + kAdmittedAtATime : std::numeric_limits<int64_t>::max();
  while (may_admit()) {
    if (head_ >= enough) {
      admits_more_ = true;
      return;
    }
    const TaskId task = task_at(head_);
    if (!try_admit(task, head_)) {
      if (live_count_ == 0 && jobs_ == 0 && reads_ == 0) refuse_if_stuck(task);
      return;
    }
    stuck_since_ = {};
    ++head_;
  }
}

bool Core::try_admit(TaskId id, int64_t order) {
  const Graph::Task& task = graph_->task(id);
  for (;;) {
    int64_t need = charged_bytes(task.scratch_bytes);
    for (const BlockId output : graph_->outputs(task)) need += charged_bytes(graph_->block(output).bytes);
    ++stamp_;
    for (const BlockId input : graph_->inputs(task)) {
      Record& r = record_of(input);
      if (r.resident || r.stamp == stamp_) continue;
      r.stamp = stamp_;
      need += r.charge();
    }
    head_need_ = need;
    if (!reserve(need)) {
      if (!evict_for(need, order)) return false;
      continue;
    }
    void* scratch = nullptr;
    if (!device_kind() || place(task, &scratch)) {
      admit(id, order, scratch);
      return true;
    }
    // The bytes are free, but in pieces: wait for what runs, then move blocks out of the slab one by one, last the
    // task's own inputs. In an empty slab everything fits.
    release(need);
    if (spilling_bytes_ == 0 && evict_farthest(kNever - 1)) continue;  // what nothing in this run reads any more
    if (live_count_ > 0 || jobs_ > 0 || reads_ > 0) return false;
    if (!evict_farthest(order) && !evict_inputs(task)) return false;
  }
}

bool Core::place(const Graph::Task& task, void** scratch) {
  placed_.clear();
  for (const BlockId output : graph_->outputs(task)) {
    placed_.emplace_back(nullptr, charged_bytes(graph_->block(output).bytes));
  }
  ++stamp_;
  for (const BlockId input : graph_->inputs(task)) {
    Record& r = record_of(input);
    if (r.resident || r.stamp == stamp_) continue;
    r.stamp = stamp_;
    placed_.emplace_back(nullptr, r.charge());
  }
  placed_.emplace_back(nullptr, charged_bytes(task.scratch_bytes));
  // Large pieces come first, and small ones then lie in the shortest gap: one of them in a gap that a large block left
  // would be in the way of the next one. Large scratch goes to the top.
  const int64_t small = slab_bytes_ / kSmallShare;
  bool fits = true;
  for (const bool large : {true, false}) {
    for (size_t i = 0; i < placed_.size() && fits; ++i) {
      auto& [data, charge] = placed_[i];
      if ((charge > small) != large) continue;
      const bool at_top = large && i + 1 == placed_.size();
      data = charge == 0 ? &nothing_ : slab_->allocate(charge, at_top);
      fits = data != nullptr;
    }
  }
  if (!fits) {
    for (const auto& [data, charge] : placed_) {
      if (data && charge > 0) slab_->deallocate(data, charge);
    }
    return false;
  }
  *scratch = placed_.back().second > 0 ? placed_.back().first : nullptr;
  placed_.pop_back();
  return true;
}

// The task's room is taken: every piece of it goes to the scratch or to a block here.
void Core::admit(TaskId id, int64_t order, void* scratch) {
  const Graph::Task& task = graph_->task(id);
  int32_t index;
  if (free_live_.empty()) {
    index = static_cast<int32_t>(live_.size());
    live_.emplace_back();
  } else {
    index = free_live_.back();
    free_live_.pop_back();
  }
  Live& live = live_[static_cast<size_t>(index)];
  live.used = true;
  live.task = id;
  live.order = order;
  live.body = task.body;
  live.queue = task.queue;
  live.phase = Phase::waiting;
  live.scratch_bytes = charged_bytes(task.scratch_bytes);
  live.scratch_data = scratch;
  freed_soon_bytes_ += live.scratch_bytes;
  live_of_[static_cast<size_t>(order)] = index;
  ++live_count_;

  size_t placed = 0;
  for (const BlockId output : graph_->outputs(task)) {
    const Graph::Block& block = graph_->block(output);
    const int32_t made = new_record();
    block_record_[static_cast<size_t>(output)] = made;
    Record& r = record(made);
    r.block = output;
    r.bytes = block.bytes;
    r.resident = true;
    if (device_kind()) r.data = placed_[placed++].first;
    r.cursor = consumers_.begin(output);
    r.end = consumers_.end(output);
    r.remote = block.remote_readers;
    r.keep = block.keep;
    note_last_use(r);
  }
  for (const BlockId input : graph_->inputs(task)) {
    Record& r = record_of(input);
    if (!r.resident) {
      r.resident = true;
      if (device_kind()) r.data = placed_[placed++].first;
      r.waiting = 0;
      ++r.busy;
      ++jobs_;
      push(QueueKind::io, {order, block_record_[static_cast<size_t>(input)], Job::restore});
    }
    ++r.pins;
    ++r.cursor;
    if (!r.available) {
      ++r.waiting;
      ++live.pending;
    }
    note_last_use(r);
  }
  if (live.pending == 0) make_ready(index);
}

bool Core::evict_for(int64_t bytes, int64_t before_order) {
  for (;;) {
    const int64_t free_bytes = memory_budget_.limit_bytes() - reserved_bytes();
    if (free_bytes >= bytes) return true;
    int64_t least_use = before_order;
    const bool busy = before_order >= 0 && live_count_ >= busy_tasks_;
    if (free_bytes + freed_soon_bytes_ + spilling_bytes_ >= bytes) {
      // It comes without moving anything. But when memory is full of blocks that are not needed for long, waiting for
      // it would run the tasks one by one.
      if (before_order < 0 || busy || free_bytes + spilling_bytes_ >= bytes) return false;
      least_use += kFarAhead;
    } else if (busy) {
      // What this run still reads is not moved away to run further ahead: it would have to come back.
      least_use = kNever - 2;
    }
    if (!evict_farthest(least_use)) return false;
  }
}

bool Core::evict_farthest(int64_t before_order) {
  if (!lists_candidates_) list_candidates();
  while (!candidates_.empty()) {
    const EvictionCandidate top = candidates_.front();
    const Record& r = record(top.record);
    const bool valid = r.generation == top.generation && is_evictable(r) && next_use(r) == top.next_use;
    // What the next task needs itself stays, and all others are needed no later.
    if (valid && top.next_use <= before_order) return false;
    std::pop_heap(candidates_.begin(), candidates_.end());
    candidates_.pop_back();
    if (valid && evict(top.record)) return true;
  }
  return false;
}

bool Core::evict_inputs(const Graph::Task& task) {
  for (const BlockId input : graph_->inputs(task)) {
    const Record& r = record_of(input);
    if (r.charge() > 0 && is_evictable(r) && evict(block_record_[static_cast<size_t>(input)])) return true;
  }
  return false;
}

bool Core::evict(int32_t index) {
  Record& r = record(index);
  if (r.slot || r.host) {
    drop_resident(r);
    return true;
  }
  if (!spill_.is_enabled() && (!device_kind() || host_memory_.allocation_bytes(r.charge()) >
                                                     host_budget_.limit_bytes() - host_budget_.reserved_bytes())) {
    return false;
  }
  r.spilling = true;
  ++r.busy;
  ++jobs_;
  spilling_bytes_ += r.charge();
  push(QueueKind::io, {/*order=*/-1, index, Job::spill});
  return true;
}

void Core::refuse_if_stuck(TaskId task) {
  int64_t own = 0;
  bool remote = false;
  for (size_t i = 0; i < records_.size(); ++i) {
    const Record& r = records_[i];
    own += r.used && r.resident ? r.charge() : 0;
    remote = remote || (r.used && r.remote > 0);
  }
  const int64_t reserved = reserved_bytes();
  const auto now = std::chrono::steady_clock::now();
  if (stuck_since_ == std::chrono::steady_clock::time_point{}) stuck_since_ = now;
  // Staging memory and blocks that other ranks have still to read go away by themselves.
  if ((reserved > own || remote) && now - stuck_since_ < kPatience) return;
  const std::string message =
      fmt::format("{} needs {} bytes more; {} of the budget of {} bytes are in use and nothing can be moved away{}",
                  task_name(task), head_need_, reserved, memory_budget_.limit_bytes(),
                  spill_.is_enabled() ? "" : ": there is no spill directory");
  set_error(std::make_exception_ptr(local::OutOfMemory(message)));
}

void Core::make_available(Record& r) {
  r.available = true;
  for (int64_t i = r.cursor - r.waiting; i < r.cursor; ++i) {
    const int32_t index = live_of_[static_cast<size_t>(consumers_[i])];
    if (index >= 0 && --live_[static_cast<size_t>(index)].pending == 0) make_ready(index);
  }
  r.waiting = 0;
}

void Core::make_ready(int32_t index) {
  Live& live = live_[static_cast<size_t>(index)];
  live.phase = Phase::ready;
  push(live.queue, {live.order, index, Job::task});
}

void Core::release_live(int32_t index) {
  Live& live = live_[static_cast<size_t>(index)];
  if (live.scratch_bytes > 0) {
    freed_soon_bytes_ -= live.scratch_bytes;
    if (live.scratch_data) slab_->deallocate(live.scratch_data, live.scratch_bytes);
    if (live.run) live.run->scratch.close();
    release(live.scratch_bytes);
  }
  if (live.owns_run) free_runs_.push_back(live.run);
  live_of_[static_cast<size_t>(live.order)] = -1;
  live = Live{};
  free_live_.push_back(index);
  --live_count_;
}

void Core::end_part(int32_t index, const std::exception_ptr& error) {
  Live& live = live_[static_cast<size_t>(index)];
  if (error && !live.error) live.error = error;
  if (--live.open == 0) complete(index);
}

void Core::complete(int32_t index) {
  Live& live = live_[static_cast<size_t>(index)];
  const Graph::Task& task = graph_->task(live.task);
  const bool ended_by_run = !device_kind() && !live.run->deferred;
  const int64_t end_ns = ended_by_run ? live.run->end_ns : local::trace_clock_ns();
  const std::exception_ptr error = std::move(live.error);
  live.error = nullptr;
  WorkQueue& queue = queues_[static_cast<size_t>(task.queue)];
  int64_t begin_ns = live.run->begin_ns;
  if (device_kind() && task.queue == QueueKind::compute) {
    // The stream was at it since the one before it was done, or since it was queued.
    begin_ns = std::max(begin_ns, queue.last_end_ns);
    queue.last_end_ns = end_ns;
    queue.busy_ns += end_ns - begin_ns;
  }
  if (live.run->deferred && --queue.deferred == 0) queue.busy_ns += end_ns - queue.deferred_since_ns;
  for (const BlockId output : graph_->outputs(task)) {
    const int32_t made = block_record_[static_cast<size_t>(output)];
    Record& r = record(made);
    if (device_kind()) r.event.reset();
    if (error) continue;
    r.produced = true;
    if (!r.available) make_available(r);
    if (!callbacks_.empty()) {
      if (auto waiting = callbacks_.extract(output)) {
        for (auto& callback : waiting.mapped()) due_.push_back(std::move(callback));
      }
    }
    release_if_unused(made);
  }
  for (const BlockId input : graph_->inputs(task)) {
    const int32_t read = block_record_[static_cast<size_t>(input)];
    if (--record(read).pins == 0) release_if_unused(read);
  }
  if (!error) {
    ++progress_.tasks_done;
    progress_.bytes_done += task.traffic_bytes;
    ++statistics_.tasks;
  }
  if (local::tracing()) trace_task(live, begin_ns, end_ns, error);
  const TaskId id = live.task;
  release_live(index);
  if (error) {
    // The same error with the task's name before it.
    local::ErrorRecord record = local::to_record(error);
    record.message = fmt::format("{}: {}", task_name(id), record.message);
    try {
      local::throw_record(record);
    } catch (...) {
      set_error(std::current_exception());
    }
  }
}

}  // namespace quarry::scheduler
