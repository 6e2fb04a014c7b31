#include "quarry/scheduler/executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/log.h"
#include "quarry/local/base/trace.h"
#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {

using local::ErrorRecord;

namespace {

constexpr int64_t kBounceBytes = 8 << 20;  // per I/O thread at most, two halves
constexpr auto kTick = std::chrono::milliseconds(50);

// Half of an I/O thread's bounce buffer: whole pieces of the spill file.
int64_t bounce_half(const ExecutorConfig& config) {
  const int64_t share = config.host_bytes / (8 * config.io_threads);
  return std::clamp(share / SpillFile::kPieceBytes * SpillFile::kPieceBytes, SpillFile::kPieceBytes, kBounceBytes / 2);
}

CachedMemory::Source host_source(const ExecutorConfig& config, local::Backend& backend) {
  if (config.device.kind == local::DeviceKind::cpu) return CachedMemory::pages();
  CachedMemory::Source pinned;
  pinned.take = [&backend](int64_t bytes) { return backend.allocate_pinned(bytes); };
  pinned.give_back = [&backend](void* data, int64_t bytes) { backend.free_pinned(data, bytes); };
  pinned.granule_bytes = 4096;
  return pinned;
}

}  // namespace

Progress sum(std::span<const Progress> ranks) {
  Progress all;
  for (const Progress& one : ranks) {
    all.tasks_done += one.tasks_done;
    all.tasks_total += one.tasks_total;
    all.bytes_done += one.bytes_done;
    all.bytes_total += one.bytes_total;
    all.memory_used += one.memory_used;
    all.memory_limit += one.memory_limit;
    all.host_used += one.host_used;
    all.host_limit += one.host_limit;
    all.disk_used += one.disk_used;
    all.spilled_bytes += one.spilled_bytes;
    all.restored_bytes += one.restored_bytes;
    all.active += one.active;
    all.taken_chunks += one.taken_chunks;
    for (int queue = 0; queue < kQueueCount; ++queue) all.busy_seconds[queue] += one.busy_seconds[queue];
  }
  return all;
}

std::unique_ptr<Executor> Executor::create(const ExecutorConfig& config) {
  if (config.memory_bytes < 0 || config.host_bytes < 0) {
    throw local::InvalidArgument(fmt::format("memory budgets are not negative: {} and {} bytes of host memory",
                                             config.memory_bytes, config.host_bytes));
  }
  if (config.io_threads < 1 || config.compute_threads < 1 || config.worker_threads < 1) {
    throw local::InvalidArgument(fmt::format("every queue needs a worker thread: io {}, compute {}, worker {}",
                                             config.io_threads, config.compute_threads, config.worker_threads));
  }
  if (config.compute_streams < 1) {
    throw local::InvalidArgument(fmt::format("a device needs a compute stream, not {}", config.compute_streams));
  }
  if (config.device.kind != local::DeviceKind::cpu) {
    const int64_t least = 2 * SpillFile::kPieceBytes * config.io_threads;
    if (config.host_bytes < least) {
      throw local::BudgetError(fmt::format("the host memory budget is {} bytes; {} I/O threads need at least {}",
                                           config.host_bytes, config.io_threads, least),
                               least);
    }
  }
  return std::make_unique<Core>(config);
}

Core::Core(const ExecutorConfig& config)
    : config_(config),
      backend_(local::backend(config.device.kind)),
      memory_budget_(local::name(config.device.kind), config.memory_bytes),
      host_budget_("pinned host", config.device.kind == local::DeviceKind::cpu ? 0 : config.host_bytes),
      spill_(config.spill_dir, config.spill_limit_bytes),
      host_memory_(host_source(config, backend_),
                   config.device.kind == local::DeviceKind::cpu ? config.memory_bytes : config.host_bytes),
      small_blocks_(host_memory_),
      link_(std::make_shared<CoreLink>()),
      least_free_(config.memory_bytes),
      staging_(*this) {
  link_->core = this;
  const int compute_threads = device_kind() ? 1 : config_.compute_threads;
  if (device_kind()) {
    slab_bytes_ = config_.memory_bytes / local::kAllocationAlignment * local::kAllocationAlignment;
    if (slab_bytes_ > 0) slab_data_ = backend_.allocate_slab(config_.device.index, slab_bytes_);
    slab_ = std::make_unique<Slab>(slab_data_, slab_bytes_);
    bounce_bytes_ = 2 * bounce_half(config_);
    bounce_reservation_ = host_budget_.reserve(bounce_bytes_ * config_.io_threads);
    read_stream_ = backend_.create_stream(config_.device.index, local::StreamRole::to_host);
  }
  const auto start = [this](QueueKind queue, int count) {
    for (int i = 0; i < count; ++i) {
      auto worker = std::make_unique<Worker>();
      worker->queue = queue;
      ++queues_[static_cast<size_t>(queue)].threads;
      const auto role = queue == QueueKind::compute  ? local::StreamRole::compute
                        : queue == QueueKind::worker ? local::StreamRole::to_host
                                                     : local::StreamRole::to_device;
      if (device_kind() && queue == QueueKind::compute) worker->turns = static_cast<size_t>(config_.compute_streams);
      for (size_t k = 0; k < worker->turns; ++k) {
        worker->streams.push_back(backend_.create_stream(config_.device.index, role));
      }
      if (device_kind() && queue == QueueKind::io) {
        worker->streams.push_back(backend_.create_stream(config_.device.index, local::StreamRole::to_host));
        worker->to_host = worker->streams.back().get();
        worker->bounce = host_memory_.allocate(bounce_bytes_);
        for (auto& event : worker->bounce_events) event = backend_.create_event(config_.device.index);
      }
      worker->first_stream = static_cast<int>(issued_.size());
      worker->issued.resize(worker->streams.size());
      issued_.resize(issued_.size() + worker->streams.size());
      workers_.push_back(std::move(worker));
    }
  };
  start(QueueKind::io, config_.io_threads);
  start(QueueKind::compute, compute_threads);
  start(QueueKind::worker, config_.worker_threads);
  start(QueueKind::comm, 1);
  // A chunk is two tasks or more: one brings it, one uses it. A device has work queued ahead.
  busy_tasks_ = 2 * (device_kind() ? 4 : compute_threads) + config_.io_threads;
  for (auto& worker : workers_) worker->thread = std::thread([this, w = worker.get()] { work_loop(*w); });
  if (device_kind()) poller_ = std::thread([this] { poll_loop(); });
}

Core::~Core() {
  {
    const std::lock_guard lock(link_->mutex);
    link_->core = nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
    for (WorkQueue& queue : queues_) queue.wake.notify_all();
    poll_wake_.notify_all();
  }
  for (auto& worker : workers_) worker->thread.join();
  if (poller_.joinable()) poller_.join();
  for (size_t i = 0; i < records_.size(); ++i) {
    if (records_[i].used) free_record(static_cast<int32_t>(i));
  }
  for (auto& worker : workers_) {
    if (worker->bounce) host_memory_.deallocate(worker->bounce, bounce_bytes_);
  }
  if (slab_data_) backend_.free_slab(config_.device.index, slab_data_, slab_bytes_);
}

void Core::Guard::lock() {
  if (lock_.owns_lock()) return;
  // Whoever holds it gives it back in less time than sleeping and waking takes. Who waits reads until it looks free:
  // trying would take the line away from who holds it.
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
  for (size_t i = 0; i < wakes.size(); ++i) {
    WorkQueue& queue = core_.queues_[i];
    const bool worth = is_worth_joining(queue);
    if (queue.worth.load(std::memory_order_relaxed) != worth) queue.worth.store(worth, std::memory_order_relaxed);
    const int64_t wanted =
        worth ? std::clamp<int64_t>(queue.ready_ns / kRoundNs, 1, static_cast<int64_t>(queue.ready.size())) : 0;
    const int count = static_cast<int>(std::clamp<int64_t>(wanted - queue.tokens - queue.looking, 0, queue.idle));
    queue.idle -= count;
    queue.tokens += count;
    wakes[i] = {&queue.wake, count};
  }
  if (core_.graph_ && (core_.is_run_over() || core_.admits_more_)) core_.run_wake_.notify_all();
  if (core_.waiting_bytes_ > 0) core_.memory_wake_.notify_all();
  std::vector<std::function<void()>> due;
  due.swap(core_.due_);
  core_.return_most_unused();
  core_.held_.store(false, std::memory_order_relaxed);
  lock_.unlock();
  for (const Wake& wake : wakes) {
    for (int i = 0; i < wake.count; ++i) wake.condition->notify_one();
  }
  for (const auto& callback : due) callback();
}

std::string Core::task_name(TaskId id) const {
  const Graph::Task& task = graph_->task(id);
  return graph_->body(task).name(task.index);
}

std::string Core::block_name(const Record& r) const {
  if (!graph_ || r.block < 0) return "a stored block";
  const TaskId producer = graph_->block(r.block).producer;
  return producer < 0 ? "a stored block" : task_name(producer);
}

std::shared_ptr<local::Event> Core::acquire_event() {
  if (events_.empty()) return backend_.create_event(config_.device.index);
  std::shared_ptr<local::Event> event = std::move(events_.back());
  events_.pop_back();
  return event;
}

void Core::recycle_event(std::shared_ptr<local::Event> event) {
  if (event && event.use_count() == 1) events_.push_back(std::move(event));
}

void Core::run(Graph& graph) {
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
    callbacks_.clear();
    const std::exception_ptr error = std::exchange(cancelled_before_, nullptr);
    std::rethrow_exception(error);
  }
  int64_t held = memory_budget_.reserved_bytes();  // and cannot be moved away
  if (spill_.is_enabled()) {
    for (size_t i = 0; i < records_.size(); ++i) {
      const Record& r = records_[i];
      held -= r.used && r.resident ? r.charge() : 0;
    }
  } else {
    for (BlockId b = 0; b < graph.block_count(); ++b) {
      if (graph.block(b).stored >= 0) held -= charged_bytes(graph.block(b).bytes);
    }
    held = std::max<int64_t>(held, 0);
  }
  if (least > memory_budget_.limit_bytes() - held) {
    callbacks_.clear();
    std::string message = fmt::format("the plan needs at least {} bytes of memory per rank; the budget is {} bytes",
                                      least + held, memory_budget_.limit_bytes());
    if (held > 0) message += fmt::format(", of which {} are in use and cannot be moved away", held);
    throw local::BudgetError(message, least + held);
  }

  order_ = std::move(order);
  consumers_ = std::move(consumers);
  progress_.tasks_done = progress_.bytes_done = 0;
  progress_.tasks_total = graph.task_count();
  progress_.bytes_total = graph.traffic_bytes();
  begin_run(graph);
  advance();
  while (!is_run_over()) {
    guard.unlock();
    guard.lock();
    let_compute_begin(guard);
    if (is_run_over()) break;
    if (admits_more_) {
      advance();
      continue;
    }
    guard.wait_for(run_wake_, kTick);
    for (WorkQueue& queue : queues_) queue.overdue = !queue.ready.empty();
    advance();
  }
  const std::exception_ptr error = error_;
  if (error && device_kind()) {
    // An emulated stream keeps its error until it is asked.
    guard.unlock();
    for (const auto& worker : workers_) {
      for (const auto& stream : worker->streams) {
        try {
          stream->synchronize();
        } catch (const std::exception& e) {
          local::log(local::LogLevel::debug, e.what());
        }
      }
    }
    guard.lock();
  }
  end_run();
  guard.unlock();
  if (error) std::rethrow_exception(error);
}

// Threads that were woken for the tasks admitted so far take them before more are admitted: whoever has just given the
// lock back would get it again and again before they are awake. For a while only: the machine may have no core for
// them.
void Core::let_compute_begin(Guard& guard) {
  constexpr int64_t kWhileNs = 200'000;
  const WorkQueue& queue = queues_[static_cast<size_t>(QueueKind::compute)];
  if (!admits_more_ || queue.tokens == 0) return;
  const int64_t until = local::trace_clock_ns() + kWhileNs;
  while (queue.tokens > 0 && local::trace_clock_ns() < until) {
    guard.unlock();
    for (int i = 0; i < 64; ++i) spin_pause();
    guard.lock();
  }
}

void Core::begin_run(Graph& graph) {
  graph_ = &graph;
  task_count_ = graph.task_count();
  stopping_ = false;
  error_ = nullptr;
  head_ = 0;
  admits_more_ = far_ahead_ = false;
  remote_left_ = 0;
  stuck_since_ = {};
  block_record_.assign(static_cast<size_t>(graph.block_count()), -1);
  live_of_.assign(static_cast<size_t>(graph.task_count()), -1);
  body_ns_.assign(static_cast<size_t>(graph.body_count()), -1);
  for (BlockId b = 0; b < graph.block_count(); ++b) {
    const Graph::Block& block = graph.block(b);
    remote_left_ += block.remote_readers;
    if (block.stored < 0) continue;
    const auto* stored = dynamic_cast<const CoreStoredBlock*>(graph.stored(b).get());
    QUARRY_CHECK(stored && stored->link() == link_.get());
    block_record_[static_cast<size_t>(b)] = stored->record();
    Record& r = record(stored->record());
    r.block = b;
    r.cursor = consumers_.begin(b);
    r.end = consumers_.end(b);
    r.waiting = 0;
    r.remote = block.remote_readers;
    release_if_unused(stored->record());
    if (auto waiting = callbacks_.extract(b)) {
      for (auto& callback : waiting.mapped()) due_.push_back(std::move(callback));
    }
  }
}

bool Core::is_run_over() const {
  if (jobs_ > 0 || reads_ > 0 || live_count_ > 0) return false;
  if (stopping_) return true;
  return head_ == task_count_ && remote_left_ == 0;
}

void Core::end_run() {
  // The promise, checked in every run.
  QUARRY_CHECK(memory_budget_.peak_bytes() <= memory_budget_.limit_bytes());
  QUARRY_CHECK(host_budget_.peak_bytes() <= host_budget_.limit_bytes());
  for (size_t i = 0; i < records_.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    Record& r = records_[i];
    if (!r.used) continue;
    const bool becomes_stored = r.keep && r.produced && !error_;
    if (becomes_stored) {
      kept_[r.block] = std::make_shared<CoreStoredBlock>(link_, index, r.bytes);
      r.stored = true;
    }
    if (!r.stored) {
      free_record(index);
      continue;
    }
    // A restoration that the failure stopped has room but no data.
    if (r.resident && !r.available) drop_resident(r);
    r.block = -1;
    r.cursor = r.end = 0;
    r.waiting = r.pins = r.remote = 0;
    r.keep = r.in_last_use = false;
    release_if_unused(index);
  }
  small_blocks_.give_back();
  return_unused();
  freed_soon_bytes_ = 0;
  lists_candidates_ = false;
  candidates_.clear();
  graph_ = nullptr;
  callbacks_.clear();
  std::vector<TaskId>().swap(order_);
  consumers_ = {};
  std::vector<int32_t>().swap(block_record_);
  std::vector<int32_t>().swap(live_of_);
}

void Core::set_error(std::exception_ptr error) {
  if (!graph_ || stopping_) return;
  error_ = std::move(error);
  stopping_ = true;
  if (failure_handler_) {
    due_.push_back([handler = failure_handler_, failure = local::to_record(error_)] { handler(failure); });
  }
  // What no thread has begun is dropped.
  for (WorkQueue& queue : queues_) {
    queue.ready.for_each([this](const Item& item) {
      switch (item.job) {
        case Job::task:
          break;
        case Job::spill: {
          Record& r = record(item.what);
          r.spilling = false;
          --r.busy;
          spilling_bytes_ -= r.charge();
          --jobs_;
          break;
        }
        case Job::restore:
          --record(item.what).busy;
          --jobs_;
          break;
      }
    });
    queue.ready.clear();
    queue.ready_ns = 0;
  }
  for (size_t i = 0; i < live_.size(); ++i) {
    Live& live = live_[i];
    if (live.used && (live.phase == Phase::waiting || live.phase == Phase::ready))
      release_live(static_cast<int32_t>(i));
  }
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

std::shared_ptr<StoredBlock> Core::stored_block(BlockId block) {
  Guard guard(*this);
  const auto found = kept_.find(block);
  QUARRY_CHECK(graph_ == nullptr && found != kept_.end());
  return found->second;
}

void Core::drop_stored(int32_t index) {
  Guard guard(*this);
  record(index).stored = false;
  release_if_unused(index);
  advance();
}

CoreStoredBlock::~CoreStoredBlock() {
  const std::lock_guard lock(link_->mutex);
  if (link_->core) link_->core->drop_stored(record_);
}

Progress Core::progress() const {
  const std::lock_guard lock(mutex_);
  Progress now = progress_;
  now.active = graph_ != nullptr ? 1 : 0;
  now.memory_used = reserved_bytes();
  now.memory_limit = memory_budget_.limit_bytes();
  now.host_used = host_budget_.reserved_bytes();
  now.host_limit = host_budget_.limit_bytes();
  now.disk_used = spill_.used_bytes();
  now.spilled_bytes = statistics_.spilled_bytes;
  now.restored_bytes = statistics_.restored_bytes;
  for (size_t i = 0; i < queues_.size(); ++i) now.busy_seconds[i] = static_cast<double>(queues_[i].busy_ns) * 1e-9;
  return now;
}

Statistics Core::statistics() const {
  const std::lock_guard lock(mutex_);
  Statistics now = statistics_;
  now.peak_memory_bytes = memory_budget_.peak_bytes();
  now.peak_host_bytes = host_budget_.peak_bytes();
  for (size_t i = 0; i < queues_.size(); ++i) now.busy_seconds[i] = static_cast<double>(queues_[i].busy_ns) * 1e-9;
  return now;
}

std::string Core::describe_waits() const {
  constexpr int kMostLines = 32;
  const std::lock_guard lock(mutex_);
  if (!graph_) return "no run\n";
  std::string text;
  int lines = 0;
  for (size_t i = 0; i < live_.size(); ++i) {
    const Live& live = live_[i];
    if (!live.used || lines >= kMostLines) continue;
    const Graph::Task& task = graph_->task(live.task);
    switch (live.phase) {
      case Phase::waiting:
        text += fmt::format("waiting for {} input{}: {} [{}]\n", live.pending, live.pending == 1 ? "" : "s",
                            task_name(live.task), name(task.queue));
        break;
      case Phase::ready:
        text += fmt::format("ready: {} [{}]\n", task_name(live.task), name(task.queue));
        break;
      case Phase::running:
        text += fmt::format("running: {} [{}]\n", task_name(live.task), name(task.queue));
        break;
      case Phase::issued:
        text += fmt::format("queued on the device: {} [{}]\n", task_name(live.task), name(task.queue));
        break;
    }
    ++lines;
  }
  if (live_count_ > lines) text += fmt::format("and {} more\n", live_count_ - lines);
  if (head_ < task_count_) {
    const int64_t reserved = reserved_bytes();
    text += fmt::format("next: {} needs {} bytes; {} of {} are reserved, {} are being spilled\n",
                        task_name(task_at(head_)), head_need_, reserved, memory_budget_.limit_bytes(), spilling_bytes_);
  } else if (remote_left_ > 0) {
    text += fmt::format("all tasks are admitted; other ranks have {} block{} still to read\n", remote_left_,
                        remote_left_ == 1 ? "" : "s");
  }
  return text;
}

}  // namespace quarry::scheduler
