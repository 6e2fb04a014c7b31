#include "quarry/scheduler/core/core.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/log.h"
#include "quarry/local/base/thread.h"
#include "quarry/local/base/trace.h"

namespace quarry::scheduler {

using local::ErrorRecord;

namespace {

constexpr auto kTick = std::chrono::milliseconds(50);

int compute_threads(const ExecutorConfig& config) {
  return config.device.kind == local::DeviceKind::cpu ? config.compute_threads : 1;
}

// A chunk is two tasks or more: one brings it, one uses it. A device has work queued ahead.
int64_t busy_tasks(const ExecutorConfig& config) {
  return 2 * (config.device.kind == local::DeviceKind::cpu ? config.compute_threads : 4) + config.io_threads;
}

}  // namespace

Core::Core(const ExecutorConfig& config)
    : config_(config),
      task_fault_(TaskFault::from_option()),
      backend_(local::backend(config.device.kind)),
      tiers_(config),
      on_device_(tiers_.on_device()),
      link_(std::make_shared<CoreLink>()),
      blocks_(tiers_, queues_[QueueKind::io]),
      live_(queues_, on_device_),
      admission_(tiers_, blocks_, live_, busy_tasks(config), config.patience),
      task_runs_(*this),
      events_(backend_, config.device),
      staging_(*this) {
  link_->core = this;
  start_workers(QueueKind::io, config_.io_threads);
  start_workers(QueueKind::compute, compute_threads(config_));
  start_workers(QueueKind::worker, config_.worker_threads);
  start_workers(QueueKind::comm, 1);
  if (on_device_) {
    start_workers(QueueKind::urgent, 1);
    start_workers(QueueKind::panel, 1);
  }
  if (!on_device_) callers_ = {make_worker(QueueKind::compute), make_worker(QueueKind::comm)};
  try {
    for (auto& worker : workers_)
      worker->thread = local::start_thread("tasks", [this, w = worker.get()] { work_loop(*w); });
    if (on_device_) poller_ = local::start_thread("the device's streams", [this] { poll_loop(); });
  } catch (...) {
    stop_threads();
    throw;
  }
}

// What the threads need; they begin later.
void Core::start_workers(QueueKind queue, int count) {
  queues_[queue].threads = count;
  for (int i = 0; i < count; ++i) workers_.push_back(make_worker(queue));
}

std::unique_ptr<Worker> Core::make_worker(QueueKind queue) {
  // Streams of copies go first.
  const bool to_device = queue == QueueKind::io || queue == QueueKind::comm;
  const auto role = queue == QueueKind::compute ? local::StreamRole::compute
                    : to_device                 ? local::StreamRole::to_device
                                                : local::StreamRole::to_host;
  auto worker = std::make_unique<Worker>();
  worker->queue = queue;
  // Urgent tasks are too small to fill a device one by one.
  constexpr size_t kUrgentStreams = 4;
  if (on_device_ && queue == QueueKind::compute) worker->turns = static_cast<size_t>(config_.compute_streams);
  if (on_device_ && queue == QueueKind::urgent) worker->turns = kUrgentStreams;
  for (size_t k = 0; k < worker->turns; ++k) {
    worker->streams.push_back(backend_.create_stream(config_.device.index, role));
  }
  if (on_device_ && queue == QueueKind::io) {
    worker->streams.push_back(backend_.create_stream(config_.device.index, local::StreamRole::to_host));
    worker->bounce = std::make_unique<BounceBuffer>(tiers_, backend_, config_.device, *worker->streams.front(),
                                                    *worker->streams.back());
  }
  worker->first_stream = issued_.add_streams(worker->streams.size());
  if (on_device_ && queue == QueueKind::panel) panel_stream_ = worker->first_stream;
  worker->issued.resize(worker->streams.size());
  return worker;
}

Core::~Core() {
  {
    const std::lock_guard lock(link_->mutex);
    link_->core = nullptr;
  }
  stop_threads();
}

void Core::stop_threads() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
    for (WorkQueue& queue : queues_) queue.wake.notify_all();
    poll_wake_.notify_all();
    panel_queued_.notify_all();
  }
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
  if (poller_.joinable()) poller_.join();
}

void Core::Guard::lock() {
  if (lock_.owns_lock()) return;
  // The thread that holds it gives it back in less time than sleeping and waking takes. A thread that waits only reads
  // until it looks free: trying would take the cache line away from the one that holds it.
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (!core_.held_.load(std::memory_order_relaxed) && lock_.try_lock()) break;
    spin_pause();
  }
  if (!lock_.owns_lock()) lock_.lock();
  core_.held_.store(true, std::memory_order_relaxed);
}

void Core::Guard::unlock() {
  struct Wake {
    std::condition_variable* condition;
    int count;
  };
  std::array<Wake, kQueueCount> wakes;
  size_t number = 0;
  for (WorkQueue& queue : core_.queues_) wakes[number++] = {&queue.wake, queue.wake_for_ready()};
  if (core_.graph_ && (core_.is_run_over() || core_.admission_.has_more())) core_.run_wake_.notify_all();
  if (core_.staging_requests_.bytes > 0) core_.staging_requests_.wake.notify_all();
  const std::vector<Callbacks::Call> due = core_.callbacks_.take_due();
  core_.return_unused_bytes();
  core_.held_.store(false, std::memory_order_relaxed);
  lock_.unlock();
  for (const Wake& wake : wakes) {
    for (int i = 0; i < wake.count; ++i) wake.condition->notify_one();
  }
  for (const Callbacks::Call& call : due) call();
}

std::string Core::block_name(const BlockRecord& r) const {
  if (!graph_ || r.block < 0) return "a stored block";
  const TaskId producer = graph_->block(r.block).producer;
  return producer < 0 ? "a stored block" : graph_->task_name(producer);
}

// Bytes of the budget that others have and that cannot be moved away for the graph's tasks.
int64_t Core::unmovable_bytes(const Graph& graph) const {
  int64_t bytes = tiers_.memory_budget.reserved_bytes();
  if (tiers_.spill.is_enabled()) {
    blocks_.table.for_each([&](int32_t, const BlockRecord& r) { bytes -= r.resident ? r.charge() : 0; });
    return bytes;
  }
  for (BlockId b = 0; b < graph.block_count(); ++b) {
    if (graph.block(b).stored >= 0) bytes -= charged_bytes(graph.block(b).bytes);
  }
  return std::max<int64_t>(bytes, 0);
}

void Core::run(Graph& graph, const std::function<void()>& watch, const ShortRun* as_short) {
  std::vector<TaskId> order = graph.changed_order();
  Consumers consumers(graph, order);
  const int64_t least = least_workable_bytes(graph);

  decltype(kept_) old_kept;  // their destructors take the lock
  Guard guard(*this);
  QUARRY_CHECK(graph_ == nullptr);
  old_kept.swap(kept_);
  if (!old_kept.empty()) {
    guard.unlock();
    old_kept.clear();
    guard.lock();
  }
  if (cancelled_before_) {
    callbacks_.drop_waiting();
    const std::exception_ptr error = std::exchange(cancelled_before_, nullptr);
    std::rethrow_exception(error);
  }
  const int64_t limit = tiers_.memory_budget.limit_bytes();
  int64_t held = unmovable_bytes(graph);
  if (!on_device_ && least > limit - held && blocks_.reclaim(least + held - limit)) held = unmovable_bytes(graph);
  if (least > limit - held) {
    callbacks_.drop_waiting();
    std::string message =
        fmt::format("the plan needs at least {} bytes of memory per rank; the budget is {} bytes", least + held, limit);
    if (held > 0) message += fmt::format(", of which {} are in use and cannot be moved away", held);
    if (const TaskId task = graph.largest_task(); task >= 0) message += "; most for " + graph.task_name(task);
    throw local::BudgetError(message, least + held);
  }

  begin_run(graph, std::move(order), std::move(consumers));
  if (as_short != nullptr && !on_device_) {
    run_as_short(guard, *as_short);
  } else {
    advance();
  }
  auto next_watch = std::chrono::steady_clock::now() + kTick;
  while (!is_run_over()) {
    guard.unlock();
    if (watch && std::chrono::steady_clock::now() >= next_watch) {
      watch();
      next_watch = std::chrono::steady_clock::now() + kTick;
    }
    guard.lock();
    let_compute_begin(guard);
    if (is_run_over()) break;
    if (admission_.has_more()) {
      advance();
      continue;
    }
    if (watch_device(guard)) continue;
    guard.wait_for(run_wake_, kTick);
    let_long_tasks_be();
    for (WorkQueue& queue : queues_) queue.note_overdue();
    advance();
  }
  const std::exception_ptr error = error_;
  if (error && on_device_) {
    guard.unlock();
    synchronize_streams();
    guard.lock();
    // Another thread may have begun to read a block meanwhile.
    while (!is_run_over()) guard.wait_for(run_wake_, kTick);
  }
  end_run();
  guard.unlock();
  if (error) std::rethrow_exception(error);
}

// Waking a thread and waiting for it takes longer than a short task does, on a machine with fewer cores than threads
// many times longer. This thread counts as one that looks for work, so that nobody else is woken for a single task.
void Core::run_as_short(Guard& guard, const ShortRun& how) {
  constexpr int64_t kWhileNs = 1'000'000;
  const auto look = [this](int change) {
    for (const auto& caller : callers_) queues_[caller->queue].looking += change;
  };
  // While this thread is at a task, others take what remains; but where the compute queue has one thread, it is this.
  const auto look_on = [this](int change) {
    for (const auto& caller : callers_) {
      WorkQueue& queue = queues_[caller->queue];
      if (caller->queue != QueueKind::compute || queue.threads > 1) queue.looking += change;
    }
  };
  look(1);
  const bool was_of_worker = std::exchange(Staging::is_of_worker, true);
  short_run_ = &how;
  short_since_ns_ = local::trace_clock_ns();
  gave_up_ = false;
  if (!std::exchange(watches_short_, true)) queues_[QueueKind::comm].wake.notify_one();
  advance();
  bool in_time = true;
  while (!is_run_over() && in_time) {
    const auto ready = std::ranges::find_if(callers_, [this](const auto& one) { return !queues_[one->queue].empty(); });
    if (ready != callers_.end()) {
      look_on(-1);
      ++at_work_;
      run_tasks(guard, **ready, queues_[(*ready)->queue].pop().what);
      --at_work_;
      look_on(1);
    } else {
      guard.unlock();
      how.progress();
      guard.lock();
    }
    in_time = local::trace_clock_ns() - short_since_ns_ < kWhileNs;
  }
  Staging::is_of_worker = was_of_worker;
  look(-1);
  while (gives_up_) guard.wait_for(run_wake_, kTick);
  short_run_ = nullptr;
  if (!is_run_over() && !gave_up_) give_up_short(guard, how);
}

void Core::give_up_short(Guard& guard, const ShortRun& how) {
  gave_up_ = gives_up_ = true;
  guard.unlock();
  how.give_up();
  guard.lock();
  gives_up_ = false;
  run_wake_.notify_all();
}

// An emulated stream keeps its error until it is asked.
void Core::synchronize_streams() {
  for (const auto& worker : workers_) {
    for (const auto& stream : worker->streams) {
      try {
        stream->synchronize();
      } catch (const std::exception& e) {
        local::log(local::LogLevel::debug, e.what());
      }
    }
  }
}

// Threads that were woken for the tasks admitted so far take them before more are admitted: whoever has just given the
// lock back would get it again and again before they are awake. For a while only: the machine may have no core for
// them.
void Core::let_compute_begin(Guard& guard) {
  constexpr int64_t kWhileNs = 200'000;
  const WorkQueue& queue = queues_[QueueKind::compute];
  if (!admission_.has_more() || queue.tokens == 0) return;
  const int64_t until = local::trace_clock_ns() + kWhileNs;
  while (queue.tokens > 0 && local::trace_clock_ns() < until) {
    guard.unlock();
    for (int i = 0; i < 64; ++i) spin_pause();
    guard.lock();
  }
}

void Core::advance() {
  admission_.pause();
  if (staging_requests_.bytes > 0) {
    blocks_.evict_for(staging_requests_.bytes, /*before_order=*/-1, Blocks::Load::idle);
    return;
  }
  if (!graph_ || stopping_) return;
  if (std::exception_ptr error = admission_.admit_tasks()) set_error(std::move(error));
  if (!on_device_ || !tiers_.segments().is_recalling()) return;
  for (const int64_t number : tiers_.segments().take_recalls()) {
    callbacks_.add([recall = recall_handler_, number] { recall(number); });
  }
}

void Core::begin_run(Graph& graph, std::vector<TaskId> order, Consumers consumers) {
  progress_.tasks_done = progress_.bytes_done = 0;
  progress_.work_done = 0;
  progress_.work_total = graph.total_work();
  progress_.tasks_total = graph.task_count();
  progress_.bytes_total = graph.traffic_bytes();
  graph_ = &graph;
  stopping_ = false;
  error_ = nullptr;
  remote_left_ = 0;
  admission_.begin_run(graph, std::move(order));
  live_.begin_run(graph);
  BlockTable& table = blocks_.table;
  table.begin_run(graph, std::move(consumers));
  for (BlockId b = 0; b < graph.block_count(); ++b) {
    const Graph::Block& block = graph.block(b);
    remote_left_ += block.remote_readers;
    if (block.stored < 0) continue;
    const auto* stored = dynamic_cast<const CoreStoredBlock*>(graph.stored(b).get());
    QUARRY_CHECK(stored && stored->link() == link_.get());
    table.set_index(b, stored->record());
    BlockRecord& r = table[stored->record()];
    r.block = b;
    r.cursor = table.consumers().begin(b);
    r.end = table.consumers().end(b);
    r.waiting = 0;
    r.remote = block.remote_readers;
    blocks_.release_if_unused(stored->record());
    callbacks_.on_ready(b);
  }
}

bool Core::is_run_over() const {
  if (live_.count() > 0 || blocks_.is_in_use_outside()) return false;
  if (stopping_) return true;
  return admission_.is_at_end() && remote_left_ == 0;
}

void Core::end_run() {
  // The promise, checked in every run.
  QUARRY_CHECK(tiers_.memory_budget.peak_bytes() <= tiers_.memory_budget.limit_bytes());
  QUARRY_CHECK(tiers_.host_budget.peak_bytes() <= tiers_.host_budget.limit_bytes());
  blocks_.table.for_each([this](int32_t index, BlockRecord& r) {
    if (r.keep && r.produced && !error_) {
      kept_[r.block] = std::make_shared<CoreStoredBlock>(link_, index, r.bytes);
      r.stored = true;
    }
    if (!r.stored) {
      blocks_.remove(index);
      return;
    }
    // A restoration that the failure stopped has its bytes reserved but no data.
    if (r.resident && !r.available) blocks_.drop_resident(r);
    r.block = -1;
    r.cursor = r.end = 0;
    r.waiting = r.pins = r.remote = r.visitors = 0;
    r.keep = r.in_last_use = r.visited = false;
    blocks_.release_if_unused(index);
  });
  if (on_device_) tiers_.segments().cancel_recalls();
  blocks_.end_run();
  live_.end_run();
  graph_->note_times(live_.times.end_run());
  admission_.end_run();
  graph_ = nullptr;
  callbacks_.drop_waiting();
}

void Core::set_error(std::exception_ptr error) {
  if (!graph_ || stopping_) return;
  error_ = std::move(error);
  stopping_ = true;
  if (failure_handler_) {
    callbacks_.add([handler = failure_handler_, failure = local::to_record(error_)] { handler(failure); });
  }
  // What no thread has begun is dropped.
  for (WorkQueue& queue : queues_) {
    queue.clear([this](const WorkItem& item) {
      switch (item.job) {
        case Job::task:
          break;
        case Job::spill:
          blocks_.end_spill(blocks_.table[item.what]);
          break;
        case Job::restore:
          blocks_.end_move(blocks_.table[item.what]);
          break;
      }
    });
  }
  live_.for_each([this](int32_t index, const LiveTask& live) {
    if (live.phase == LiveTask::Phase::waiting || live.phase == LiveTask::Phase::ready) release_live(index);
  });
}

void Core::cancel(const ErrorRecord& error) {
  std::exception_ptr thrown;
  try {
    local::throw_record(error);
  } catch (...) {
    thrown = std::current_exception();
  }
  Guard guard(*this);
  if (graph_) {
    set_error(std::move(thrown));
  } else if (!cancelled_before_) {
    cancelled_before_ = std::move(thrown);
  }
}

void Core::clear_cancel() {
  Guard guard(*this);
  cancelled_before_ = nullptr;
}

void Core::set_failure_handler(std::function<void(const ErrorRecord&)> handler) {
  Guard guard(*this);
  failure_handler_ = std::move(handler);
}

void Core::set_idle_work(std::function<void()> work) {
  Guard guard(*this);
  idle_work_ = work ? std::make_shared<const std::function<void()>>(std::move(work)) : nullptr;
}

// The thread that queues a device's work wakes up while the graph is still being made.
void Core::expect_run() {
  constexpr int64_t kSoonNs = 2'000'000;
  if (!on_device_ || !may_look_) return;
  Guard guard(*this);
  expected_until_ns_ = local::trace_clock_ns() + kSoonNs;
  WorkQueue& queue = queues_[QueueKind::compute];
  if (queue.idle == 0 || queue.tokens > 0) return;
  --queue.idle;
  ++queue.tokens;
  queue.wake.notify_one();
}

std::shared_ptr<StoredBlock> Core::stored_block(BlockId block) {
  Guard guard(*this);
  const auto found = kept_.find(block);
  QUARRY_CHECK(graph_ == nullptr && found != kept_.end());
  return found->second;
}

void Core::forget_blocks() {
  decltype(kept_) kept;  // their destructors take the lock
  const Guard guard(*this);
  kept.swap(kept_);
}

local::Reservation Core::reserve_outside(int64_t bytes) {
  if (on_device_) return {};
  local::Reservation reservation = staging_.reserve(bytes);
  tiers_.host_memory.free_unused();
  return reservation;
}

local::Reservation Core::try_reserve_outside(int64_t bytes) {
  if (on_device_) return tiers_.host_budget.try_reserve(bytes);
  Guard guard(*this);
  return blocks_.reserve_for_others(bytes);
}

void Core::set_reclaim(std::function<int64_t(int64_t bytes)> reclaim) {
  Guard guard(*this);
  blocks_.set_reclaim(std::move(reclaim));
}

void Core::drop_stored(int32_t index) {
  Guard guard(*this);
  blocks_.table[index].stored = false;
  blocks_.release_if_unused(index);
  advance();
}

CoreStoredBlock::~CoreStoredBlock() {
  const std::lock_guard lock(link_->mutex);
  if (link_->core) link_->core->drop_stored(record_);
}

}  // namespace quarry::scheduler
