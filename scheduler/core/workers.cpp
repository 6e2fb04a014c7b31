// The worker threads: how they wait for work, take rounds of tasks and run them.

#include <sys/prctl.h>

#include <algorithm>

#include "quarry/local/base/trace.h"
#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {
namespace {

constexpr auto kPollInterval = std::chrono::microseconds(20);
constexpr int64_t kDeviceRoundNs = 30000;   // queueing work is no work
constexpr int64_t kQueueRoundNs = 200'000;  // and a compute thread of a device does nothing else
// A thread that was at tasks this short looks for more for as long as sleeping and waking would take.
constexpr int64_t kShortNs = 100'000;
constexpr int64_t kLookNs = 50'000;
// Tasks of a body that takes less are timed several at a time: asking the clock would take as long as they do.
constexpr int64_t kUntimedNs = 500;
constexpr int kMostUntimed = 8;
constexpr auto kTakeBackAfter = std::chrono::microseconds(200);

}  // namespace

void Core::work_loop(Worker& worker) {
  Staging::is_of_worker = true;
  Guard guard(*this);
  while (wait_for_work(guard, worker)) {
    if (config_.panels_alone && on_device_ && worker.queue == QueueKind::compute) {
      // What is queued now would be under way when the panel begins.
      while ((panels_begun_ > 0 || !queues_[QueueKind::panel].empty()) && !quit_)
        guard.wait_for(panel_queued_, kTakeBackAfter);
      if (queues_[worker.queue].empty()) continue;
    }
    const WorkItem item = queues_[worker.queue].pop();
    ++at_work_;
    switch (item.job) {
      case Job::task:
        if (worker.queue == QueueKind::panel) ++panels_begun_;
        run_tasks(guard, worker, item.what);
        if (worker.queue == QueueKind::panel && --panels_begun_ == 0) panel_queued_.notify_all();
        break;
      case Job::spill:
        spill(guard, worker, item.what);
        break;
      case Job::restore:
        restore(guard, worker, item.what);
        break;
    }
    --at_work_;
  }
}

// False when the executor ends.
bool Core::wait_for_work(Guard& guard, Worker& worker) {
  WorkQueue& queue = queues_[worker.queue];
  while (!queue.is_worth_joining() && !quit_) {
    look_for_work(guard, worker);
    if (queue.is_worth_joining() || quit_) break;
    ++queue.idle;
    while (queue.tokens == 0 && !quit_) {
      if (!others_have_more(worker)) {
        sleep(guard, worker);
        continue;
      }
      // One of them may be at a task that takes long for once.
      guard.wait_for(queue.wake, kTakeBackAfter);
      if (queue.tokens > 0 || !queue.empty() || !take_back_others(worker)) continue;
      --queue.idle;
      return true;
    }
    if (queue.tokens > 0) --queue.tokens;
  }
  return !quit_;
}

// The thread of the comm queue sees to short runs meanwhile: a task of one may take long for once, and the thread that
// is at it neither makes progress on the network nor hears of an end.
void Core::sleep(Guard& guard, const Worker& worker) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  constexpr int64_t kLongNs = 10'000'000, kForgetNs = 1'000'000'000;
  WorkQueue& queue = queues_[worker.queue];
  if (worker.queue != QueueKind::comm || !watches_short_) {
    guard.wait(queue.wake);
    return;
  }
  guard.wait_for(queue.wake, kLook);
  const int64_t since_ns = local::trace_clock_ns() - short_since_ns_;
  if (short_run_ != nullptr && !gave_up_ && since_ns > kLongNs) {
    give_up_short(guard, *short_run_);
  } else if (short_run_ == nullptr && since_ns > kForgetNs) {
    watches_short_ = false;
  }
}

// Lets other queues have what the last tasks made ready, and looks for more for a while.
void Core::look_for_work(Guard& guard, const Worker& worker) {
  WorkQueue& queue = queues_[worker.queue];
  const int64_t now_ns = local::trace_clock_ns();
  const bool expects = on_device_ && worker.queue == QueueKind::compute && now_ns < expected_until_ns_;
  const bool look = (expects || (queue.short_tasks && graph_)) && queue.looking == 0 && may_look_;
  if (!look) {
    guard.unlock();
    guard.lock();
    return;
  }
  ++queue.looking;
  const bool computes = worker.queue == QueueKind::compute && !on_device_;
  const std::shared_ptr<const std::function<void()>> idle_work = computes ? idle_work_ : nullptr;
  const int64_t until = std::max(now_ns + kLookNs, expects ? expected_until_ns_ : 0);
  bool in_time = true;
  // Others may be faster: then it goes on looking.
  while (in_time && !queue.is_worth_joining() && !quit_) {
    guard.unlock();
    while (!queue.is_known_worth_joining() && in_time) {
      if (idle_work) {
        (*idle_work)();
      } else {
        for (int i = 0; i < 16 && !queue.is_known_worth_joining(); ++i) spin_pause();
        // Nobody waits for what is asked for far ahead, or is not there yet: the core may be another rank's.
        if (worker.queue == QueueKind::comm || expects) std::this_thread::yield();
      }
      in_time = local::trace_clock_ns() < until;
    }
    guard.lock();
    in_time = in_time && local::trace_clock_ns() < until;
  }
  --queue.looking;
}

bool Core::others_have_more(const Worker& worker) const {
  return std::ranges::any_of(workers_, [&](const auto& other) {
    return other->queue == worker.queue && other.get() != &worker && other->next.load() < other->count;
  });
}

// Gives the queue back what the worker has not begun.
bool Core::take_back(Worker& worker) {
  const int from = worker.next.exchange(Worker::kMostTasks);
  const bool any = from < worker.count;
  for (int i = from; i < worker.count; ++i) {
    ExecutorTaskRun& run = *worker.slots[static_cast<size_t>(i)].run;
    const int32_t index = run.live;
    LiveTask& live = live_[index];
    const Graph::Task& task = graph_->task(live.task);
    for (size_t k = 0; k < run.output_views.size(); ++k) {
      const BlockView& view = run.output_views[k];
      if (!on_device_ && view.data && view.bytes > 0 && !task.takes_over(k))
        tiers_.small_blocks.put(view.data, charged_bytes(view.bytes));
    }
    if (task.visits) {
      for (const BlockId input : graph_->inputs(task)) blocks_.end_read(blocks_.table.index_of(input));
    }
    live.run = nullptr;
    live.open = 0;
    if (stopping_) {
      release_live(index);
    } else {
      live_.make_ready(index);
    }
  }
  worker.count = std::min(worker.count, from);
  return any;
}

// A thread may be at a task that takes long for once, with more in its round, and those that could have it asleep: they
// are not woken for what a thread will be back for in no time.
void Core::let_long_tasks_be() {
  for (const auto& worker : workers_) {
    WorkQueue& queue = queues_[worker->queue];
    if (!worker->in_short_round || queue.threads == 1) continue;
    if (!std::exchange(worker->seen_in_round, true)) continue;
    worker->in_short_round = false;
    --queue.in_short_rounds;
    take_back(*worker);
  }
}

bool Core::take_back_others(const Worker& worker) {
  bool any = false;
  for (const auto& other : workers_) {
    if (other->queue == worker.queue && other.get() != &worker) any = take_back(*other) || any;
  }
  return any && !queues_[worker.queue].empty();
}

// The task `first` and what else is ready, as far as one round goes. Returns how long it is expected to take.
int64_t Core::fill_round(Worker& worker, int32_t first, int64_t round_ns, int most) {
  WorkQueue& queue = queues_[worker.queue];
  int64_t expected = live_.expected_ns(first);
  // The queue's other threads have as many.
  size_t share = queue.size() / static_cast<size_t>(queue.threads);
  worker.count = 0;
  worker.turn = (worker.turn + 1) % worker.turns;
  prepare(worker, first);
  // A round has one event for all that it queues: who waits for one task would wait for those behind it.
  const auto is_ended = [&] {
    return on_device_ && worker.slots[static_cast<size_t>(worker.count - 1)].task->ends_round;
  };
  for (; share > 0 && worker.count < most && !is_ended() && queue.front().job == Job::task; --share) {
    if (expected + queue.front().ns > round_ns) break;
    const WorkItem item = queue.pop();
    expected += item.ns;
    prepare(worker, item.what);
  }
  return expected;
}

void Core::run_tasks(Guard& guard, Worker& worker, int32_t first) {
  WorkQueue& queue = queues_[worker.queue];
  const bool on_stream = on_device_ && worker.queue == QueueKind::compute;
  // A device that has nothing to do begins with a few.
  const bool keeps_busy = on_stream && !issued_.empty();
  const int64_t round_ns = keeps_busy ? kQueueRoundNs : on_device_ ? kDeviceRoundNs : kRoundNs;
  const int most = on_stream ? Worker::kMostTasks : Worker::kMostTasks / 2;
  const bool is_short = fill_round(worker, first, round_ns, most) < kRoundNs;
  worker.seen_in_round = false;
  worker.in_short_round = is_short;
  if (is_short) ++queue.in_short_rounds;
  const int total = worker.count;
  const bool alone = queue.threads == 1;  // nobody takes anything back
  worker.next.store(0);
  guard.unlock();

  int done = 0;
  const int64_t begin_ns = local::trace_clock_ns();
  int64_t now_ns = begin_ns;
  int timed = 0;
  // Those since the last look at the clock share the time.
  const auto lap = [&] {
    const int64_t from_ns = std::exchange(now_ns, local::trace_clock_ns());
    const int count = done - timed;
    for (int i = 0; i < count; ++i) {
      const int slot = timed + i;
      ExecutorTaskRun& run = *worker.slots[static_cast<size_t>(slot)].run;
      run.begin_ns = from_ns + (now_ns - from_ns) * i / count;
      run.end_ns = from_ns + (now_ns - from_ns) * (i + 1) / count;
    }
    timed = done;
  };
  while (now_ns - begin_ns <= round_ns && !(done > 0 && stopping_.load(std::memory_order_relaxed))) {
    if (done >= total) break;
    const int count = on_stream ? batch_size(worker, done, total) : 1;
    if (alone) {
      worker.next.store(done + count, std::memory_order_relaxed);
    } else if (worker.next.fetch_add(count) != done) {
      break;  // the others were taken back
    }
    const std::span<Slot> slots =
        std::span(worker.slots).subspan(static_cast<size_t>(done), static_cast<size_t>(count));
    perform(worker, slots);
    done += count;
    if (stop_clock(worker, timed, done, total)) lap();
  }
  if (timed < done) lap();
  if (on_device_) record_events(worker, done);

  guard.lock();
  if (std::exchange(worker.in_short_round, false)) --queue.in_short_rounds;
  take_back(worker);
  queue.short_tasks = now_ns - begin_ns <= done * kShortNs;
  for (int i = 0; i < done; ++i) finish(worker, worker.slots[static_cast<size_t>(i)]);
  if (on_device_) queue_on_device(worker);
  worker.count = 0;
  advance();
}

// Hands what the round has queued on the worker's streams to the thread that polls them.
void Core::queue_on_device(Worker& worker) {
  for (size_t s = 0; s < worker.issued.size(); ++s) {
    IssuedRound round = std::exchange(worker.issued[s], {});
    if (round.tasks.empty()) {
      events_.recycle(std::move(round.event));
    } else {
      issued_.push(static_cast<size_t>(worker.first_stream) + s, std::move(round));
      poll_wake_.notify_one();
    }
  }
}

// Whether to ask the clock after a task; [first, done) have not been timed.
bool Core::stop_clock(const Worker& worker, int first, int done, int count) const {
  if (on_device_ || done == count || done - first >= kMostUntimed || local::tracing()) return true;
  const Slot& last = worker.slots[static_cast<size_t>(done - 1)];
  return last.expected_ns >= kUntimedNs || worker.slots[static_cast<size_t>(done)].task->body != last.task->body;
}

void Core::prepare(Worker& worker, int32_t index) {
  LiveTask& live = live_[index];
  const Graph::Task& task = graph_->task(live.task);
  Slot& slot = worker.slots[static_cast<size_t>(worker.count++)];
  if (!slot.run) slot.run = task_runs_.acquire();
  ExecutorTaskRun& run = *slot.run;
  run.live = index;
  run.task = live.task;
  run.index = task.index;
  run.deferred = false;
  run.waits.clear();
  run.input_views.clear();
  run.output_views.clear();
  run.visited.clear();
  run.visited_bytes = 0;
  slot.task = &task;
  slot.expected_ns = live_.expected_ns(index);
  const bool to_host = worker.bounce && (task.kind == TaskKind::write || task.kind == TaskKind::send);
  slot.stream = to_host ? worker.streams.size() - 1 : worker.turn;
  slot.deferred = slot.given_up = false;

  const int stream_number = worker.first_stream + static_cast<int>(slot.stream);
  if (panel_stream_ >= 0 && config_.panels_alone && worker.queue == QueueKind::compute) {
    if (auto panel = issued_.first_event(static_cast<size_t>(panel_stream_)))
      run.waits.emplace_back(std::move(panel), panel_stream_);
  }
  for (const BlockId input : graph_->inputs(task)) {
    BlockRecord& r = blocks_.table.of(input);
    const bool is_below = task.visits && !(r.resident && r.available);
    run.input_views.push_back({is_below ? r.host : r.data, r.bytes});
    if (on_device_ && !is_below && r.event && r.stream != stream_number) run.waits.emplace_back(r.event, r.stream);
    if (!task.visits) continue;
    blocks_.begin_read(r);
    run.visited.push_back(is_below && r.host == nullptr ? &r : nullptr);
  }
  for (const BlockId output : graph_->outputs(task)) {
    const BlockRecord& r = blocks_.table.of(output);
    void* data = r.data;
    if (task.takes_over(run.output_views.size())) {
      data = run.input_views[run.output_views.size()].data;
    } else if (!on_device_) {
      data = r.bytes == 0 ? tiers_.nothing() : tiers_.small_blocks.take(r.charge());
    }
    run.output_views.push_back({data, r.bytes});
  }
  run.inputs = run.input_views;
  run.outputs = run.output_views;
  run.scratch.open(live.scratch_data, live.scratch_bytes);
  run.context = {config_.device, worker.streams[slot.stream].get(), &run.scratch, /*threads=*/1};
  live.phase = LiveTask::Phase::running;
  live.open = 1;
  live.run = slot.run;
  if (on_device_) {
    ++live.open;
    auto& event = worker.issued[slot.stream].event;
    if (!event) event = events_.acquire();
  }
}

// How many tasks from the slot on one body takes at once.
int Core::batch_size(const Worker& worker, int first, int count) const {
  const Slot& begin = worker.slots[static_cast<size_t>(first)];
  if (!graph_->body(*begin.task).supports_batching()) return 1;
  int end = first + 1;
  while (end < count) {
    const Slot& slot = worker.slots[static_cast<size_t>(end)];
    if (slot.task->body != begin.task->body || slot.stream != begin.stream) break;
    ++end;
  }
  return end - first;
}

void Core::perform(Worker& worker, std::span<Slot> slots) {
  if (slots.size() > 1) {
    perform_batch(worker, slots);
  } else if (begin(worker, slots[0])) {
    call_body(worker, slots[0]);
  }
  if (task_fault_) end_with_fault(worker, slots);
  for (Slot& slot : slots) {
    slot.deferred = slot.run->completion != nullptr;
    slot.given_up = slot.error && slot.deferred && slot.run->completion->claim();
    slot.run->completion.reset();
  }
}

// For tests.
void Core::end_with_fault(Worker& worker, std::span<Slot> slots) {
  for (Slot& slot : slots) {
    if (slot.error) continue;
    try {
      task_fault_->meet(slot.task->kind, TaskFault::When::end);
    } catch (...) {
      slot.error = std::current_exception();
      if (on_device_) worker.streams[slot.stream]->synchronize();
    }
  }
}

void Core::perform_batch(Worker& worker, std::span<Slot> slots) {
  std::array<TaskRun*, Worker::kMostTasks> runs{};
  size_t count = 0;
  for (Slot& slot : slots) {
    if (begin(worker, slot)) runs[count++] = slot.run;
  }
  if (count == 0) return;
  try {
    const local::DeviceScope scope(runs[0]->context);
    graph_->body(*slots[0].task).run_batch({runs.data(), count});
  } catch (...) {
    // Whose error it is, shows when they are run one by one.
    for (Slot& slot : slots) {
      if (!slot.error) call_body(worker, slot);
    }
  }
}

// What comes before a task's body; false if it failed.
bool Core::begin(Worker& worker, Slot& slot) {
  ExecutorTaskRun& run = *slot.run;
  try {
    if (config_.fault && !run.output_views.empty()) config_.fault(ExecutorConfig::Operation::allocate);
    if (!on_device_) {
      for (BlockView& view : run.output_views) {
        if (!view.data) view.data = tiers_.host_memory.allocate(charged_bytes(view.bytes));
      }
    }
    const local::DeviceEvent* last = nullptr;
    for (const auto& [before, number] : run.waits) {
      if (before.get() != last) worker.streams[slot.stream]->wait(*before);
      last = before.get();
    }
    if (task_fault_) task_fault_->meet(slot.task->kind, TaskFault::When::begin);
  } catch (...) {
    slot.error = std::current_exception();
  }
  run.waits.clear();
  return !slot.error;
}

void Core::call_body(Worker& worker, Slot& slot) {
  ExecutorTaskRun& run = *slot.run;
  try {
    const local::DeviceScope scope(run.context);
    graph_->body(*slot.task).run(run);
  } catch (...) {
    slot.error = std::current_exception();
    if (on_device_) {
      try {
        worker.streams[slot.stream]->synchronize();  // what was queued may still use the blocks
      } catch (const std::exception&) {
        // The stream's error is what the body threw, or follows from it.
      }
    }
  }
}

// One event for all tasks of a stream: who comes after any of them waits for them all.
void Core::record_events(Worker& worker, int done) {
  const std::span<Slot> slots = std::span(worker.slots).first(static_cast<size_t>(done));
  for (size_t s = 0; s < worker.streams.size(); ++s) {
    const auto queued = [s](const Slot& slot) { return slot.stream == s && !slot.error; };
    if (std::ranges::none_of(slots, queued)) continue;
    std::exception_ptr error;
    try {
      worker.streams[s]->record(*worker.issued[s].event);
    } catch (...) {
      error = std::current_exception();
    }
    if (!error) continue;
    for (Slot& slot : slots) {
      if (queued(slot)) slot.error = error;
    }
  }
}

void Core::finish(Worker& worker, Slot& slot) {
  const ExecutorTaskRun& run = *slot.run;
  const int32_t index = run.live;
  LiveTask& live = live_[index];
  const Graph::Task& task = *slot.task;
  WorkQueue& queue = queues_[task.queue];
  const int64_t ns = run.end_ns - run.begin_ns;
  live_.times.add(task.body, ns);
  if (!on_device_ || task.queue != QueueKind::compute) queue.busy.add(ns);
  if (slot.given_up) --live.open;
  const std::span<const BlockId> outputs = graph_->outputs(task);
  for (size_t i = 0; i < outputs.size(); ++i) {
    blocks_.table.of(outputs[i]).data = run.output_views[i].data;
    if (task.takes_over(i)) blocks_.table.of(graph_->inputs(task)[i]).data = nullptr;
  }
  if (!on_device_) {
    // Outputs are available when the task ends.
  } else if (slot.error) {
    --live.open;
  } else {
    IssuedRound& round = worker.issued[slot.stream];
    live.phase = LiveTask::Phase::issued;
    for (const BlockId output : outputs) {
      BlockRecord& r = blocks_.table.of(output);
      r.has_extras = true;
      r.event = round.event;
      r.stream = worker.first_stream + static_cast<int>(slot.stream);
      if (!slot.deferred) make_available(r);
    }
    round.tasks.push_back(index);
  }
  if (live.open > 1 && slot.deferred) {
    slot.run->deferred = true;
    queue.busy.begin_deferred(run.end_ns);
  }
  if (live.open > 1) {
    live.owns_run = true;
    slot.run = nullptr;
  }
  if (!slot.error) {
    end_part(index, nullptr);
  } else {
    end_part(index, std::exchange(slot.error, nullptr));
  }
}

// Asks what the streams have done, with the lock given back meanwhile: of each what was queued first, as a stream's
// work ends in order. Whether any has ended. One thread at a time (polling_).
bool Core::poll_streams(Guard& guard) {
  fronts_.clear();
  for (size_t s = 0; s < issued_.stream_count(); ++s) {
    if (auto event = issued_.first_event(s)) fronts_.push_back({s, std::move(event), false, nullptr});
  }
  guard.unlock();
  bool any = false;
  for (Front& front : fronts_) {
    try {
      front.ended = front.event->done();
      if (front.ended) front.event->synchronize();  // throws what the work threw
    } catch (...) {
      front.ended = true;
      front.error = std::current_exception();
    }
    any = any || front.ended;
  }
  guard.lock();
  for (Front& front : fronts_) {
    front.event.reset();
    if (!front.ended) continue;
    IssuedRound round = issued_.pop(front.stream);
    for (const int32_t task : round.tasks) end_part(task, front.error);
    events_.recycle(std::move(round.event));
  }
  if (any) advance();
  return any;
}

void Core::poll_loop() {
  prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds; else 50 us, more than the sleep itself
  Guard guard(*this);
  while (!quit_) {
    if (issued_.empty() || watching_) {
      guard.unlock();
      guard.lock();
      if ((issued_.empty() || watching_) && !quit_) guard.wait(poll_wake_);
      continue;
    }
    polling_ = true;
    const bool any = poll_streams(guard);
    polling_ = false;
    if (any) continue;
    guard.unlock();
    std::this_thread::sleep_for(kPollInterval);
    guard.lock();
  }
}

// The thread that waits for the run asks the device itself while no other thread has much to do: to sleep and be woken
// takes longer than many a kernel. False when it had better sleep.
bool Core::watch_device(Guard& guard) {
  constexpr int64_t kAskNs = 10'000'000;    // since anything has ended
  constexpr int64_t kWatchNs = 50'000'000;  // run() has other things to do as often
  if (!on_device_ || !may_look_) return false;
  const int64_t begin_ns = local::trace_clock_ns();
  int64_t last_ns = begin_ns, now_ns = begin_ns;
  watching_ = true;
  while (at_work_ <= 1 && !is_run_over() && !admission_.has_more() && now_ns - last_ns < kAskNs &&
         now_ns - begin_ns < kWatchNs) {
    bool any = false;
    if (!polling_ && !issued_.empty()) {
      polling_ = true;
      any = poll_streams(guard);
      polling_ = false;
    }
    if (!any) {
      // Who asks without a pause holds up a thread that launches many small kernels.
      const bool launches = panels_begun_ > 0;
      guard.unlock();
      if (launches) {
        std::this_thread::sleep_for(kPollInterval);
      } else {
        std::this_thread::yield();
      }
      guard.lock();
    }
    now_ns = local::trace_clock_ns();
    if (any) last_ns = now_ns;
  }
  watching_ = false;
  if (!issued_.empty()) poll_wake_.notify_one();
  return at_work_ <= 1 && now_ns - last_ns < kAskNs;
}

}  // namespace quarry::scheduler
