// The worker threads of the queues, and what a task sees while it runs.

#include <fmt/format.h>
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
// One more thread joins where it saves as much.
constexpr int64_t kWorthNs = 1000;
// Tasks of a body that takes less are timed several at a time: asking the clock would take as long as they do.
constexpr int64_t kUntimedNs = 500;
constexpr int kMostUntimed = 8;
constexpr auto kTakeBackAfter = std::chrono::microseconds(200);

const char* trace_lane(const Graph::Task& task, bool device_kind) {
  switch (task.kind) {
    case TaskKind::read:
      return "read";
    case TaskKind::decode:
      return "decode";
    case TaskKind::copy:
      if (task.queue == QueueKind::compute) return "compute";
      return device_kind ? "h2d" : "worker";
    case TaskKind::compute:
      return "compute";
    case TaskKind::send:
    case TaskKind::receive:
      return "comm";
    case TaskKind::write:
      return "write";
    case TaskKind::host:
      return "worker";
  }
  return "worker";
}

}  // namespace

CoreTaskRun::CoreTaskRun(Core& owner) : core(owner), scratch(owner, owner.config_.device) {}

std::shared_ptr<Completion> CoreTaskRun::defer() {
  if (!completion) {
    completion = std::make_shared<CoreCompletion>(core, live);
    const std::lock_guard lock(core.mutex_);
    ++core.live_[static_cast<size_t>(live)].open;
  }
  return completion;
}

bool CoreTaskRun::is_cancelled() const { return core.stopping_.load(std::memory_order_relaxed); }

CoreCompletion::~CoreCompletion() {
  // Nobody can end the task any more.
  fail(std::make_exception_ptr(local::InternalError("the deferred task was dropped without being finished")));
}

void CoreCompletion::finish() {
  if (!claim()) return;
  Core::Guard guard(core_);
  core_.end_part(live_, nullptr);
  core_.advance();
}

void CoreCompletion::fail(std::exception_ptr error) {
  if (!claim()) return;
  Core::Guard guard(core_);
  core_.end_part(live_, error);
  core_.advance();
}

// What another thread would save by it: a task that moves between threads brings its records and blocks along.
int64_t Core::worth_ns(const Item& item) {
  constexpr int64_t kHandOverNs = 300;
  return std::max<int64_t>(item.ns - kHandOverNs, 0);
}

void Core::push(QueueKind queue, const Item& item) {
  WorkQueue& to = queues_[static_cast<size_t>(queue)];
  Item timed = item;
  timed.ns = item.job == Job::task ? expected_ns(item.what) : kRoundNs;
  to.ready_ns += worth_ns(timed);
  to.ready.push(timed);
}

Core::Item Core::pop(WorkQueue& queue) {
  const Item item = queue.ready.pop();
  queue.ready_ns -= worth_ns(item);
  queue.overdue = false;
  return item;
}

// Whether one more thread makes the queue faster. A few short tasks are left to a thread that will be back for them in
// no time: handing over the lock and what lies in the caches would take longer.
bool Core::is_worth_joining(const WorkQueue& queue) {
  if (queue.ready.empty()) return false;
  return queue.in_short_rounds == 0 || queue.ready_ns >= kWorthNs || queue.overdue;
}

void Core::work_loop(Worker& worker) {
  Guard guard(*this);
  while (wait_for_work(guard, worker)) {
    const Item item = pop(queues_[static_cast<size_t>(worker.queue)]);
    switch (item.job) {
      case Job::task:
        run_tasks(guard, worker, item.what);
        break;
      case Job::spill:
        spill(guard, worker, item.what);
        break;
      case Job::restore:
        restore(guard, worker, item.what);
        break;
    }
  }
}

// False when the executor ends.
bool Core::wait_for_work(Guard& guard, Worker& worker) {
  WorkQueue& queue = queues_[static_cast<size_t>(worker.queue)];
  while (!is_worth_joining(queue) && !quit_) {
    look_for_work(guard, worker);
    if (is_worth_joining(queue) || quit_) break;
    ++queue.idle;
    while (queue.tokens == 0 && !quit_) {
      if (!others_have_more(worker)) {
        guard.wait(queue.wake);
        continue;
      }
      // One of them may be at a task that takes long for once.
      guard.wait_for(queue.wake, kTakeBackAfter);
      if (queue.tokens > 0 || !queue.ready.empty() || !take_back_others(worker)) continue;
      --queue.idle;
      return true;
    }
    if (queue.tokens > 0) --queue.tokens;
  }
  return !quit_;
}

// Lets other queues have what the last tasks made ready, and looks for more for a while.
void Core::look_for_work(Guard& guard, const Worker& worker) {
  WorkQueue& queue = queues_[static_cast<size_t>(worker.queue)];
  const bool look = queue.short_tasks && queue.looking == 0 && graph_ && may_look_;
  if (!look) {
    guard.unlock();
    guard.lock();
    return;
  }
  ++queue.looking;
  const bool computes = worker.queue == QueueKind::compute && !device_kind();
  const std::shared_ptr<const std::function<void()>> idle_work = computes ? idle_work_ : nullptr;
  const int64_t until = local::trace_clock_ns() + kLookNs;
  bool in_time = true;
  // Others may be faster: then it goes on looking.
  while (in_time && !is_worth_joining(queue) && !quit_) {
    guard.unlock();
    while (!queue.worth.load(std::memory_order_relaxed) && in_time) {
      if (idle_work) {
        (*idle_work)();
      } else {
        for (int i = 0; i < 16 && !queue.worth.load(std::memory_order_relaxed); ++i) spin_pause();
        // Nobody waits for what is asked for far ahead: the core may be another rank's.
        if (worker.queue == QueueKind::comm) std::this_thread::yield();
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
    return other->queue == worker.queue && other.get() != &worker && other->next.load() < other->taken;
  });
}

// Gives the queue back what the worker has not begun.
bool Core::take_back(Worker& worker) {
  const int from = worker.next.exchange(kMostTaken);
  const bool any = from < worker.taken;
  for (int i = from; i < worker.taken; ++i) {
    CoreTaskRun& run = *worker.slots[static_cast<size_t>(i)].run;
    const int32_t index = run.live;
    Live& live = live_[static_cast<size_t>(index)];
    for (BlockView& view : run.output_views) {
      if (!device_kind() && view.data && view.bytes > 0) small_blocks_.put(view.data, charged_bytes(view.bytes));
    }
    live.run = nullptr;
    live.open = 0;
    if (stopping_) {
      release_live(index);
    } else {
      make_ready(index);
    }
  }
  worker.taken = std::min(worker.taken, from);
  return any;
}

bool Core::take_back_others(const Worker& worker) {
  bool any = false;
  for (const auto& other : workers_) {
    if (other->queue == worker.queue && other.get() != &worker) any = take_back(*other) || any;
  }
  return any && !queues_[static_cast<size_t>(worker.queue)].ready.empty();
}

int64_t Core::expected_ns(int32_t index) const {
  const int64_t ns = body_ns_[static_cast<size_t>(live_[static_cast<size_t>(index)].body)];
  return ns < 0 ? kRoundNs : ns;
}

void Core::run_tasks(Guard& guard, Worker& worker, int32_t first) {
  WorkQueue& queue = queues_[static_cast<size_t>(worker.queue)];
  const bool on_device = device_kind() && worker.queue == QueueKind::compute;
  const int64_t round_ns = on_device ? kQueueRoundNs : device_kind() ? kDeviceRoundNs : kRoundNs;
  const int most = on_device ? kMostTaken : kMostTaken / 2;
  int64_t expected = expected_ns(first);
  // The queue's other threads have as many.
  size_t share = queue.ready.size() / static_cast<size_t>(queue.threads);
  worker.taken = 0;
  worker.turn = (worker.turn + 1) % worker.turns;
  prepare(worker, first);
  for (; share > 0 && worker.taken < most && queue.ready.front().job == Job::task; --share) {
    if (expected + queue.ready.front().ns > round_ns) break;
    const Item item = pop(queue);
    expected += item.ns;
    prepare(worker, item.what);
  }
  const bool is_short = expected < kRoundNs;
  if (is_short) ++queue.in_short_rounds;
  const int taken = worker.taken;
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
      CoreTaskRun& run = *worker.slots[static_cast<size_t>(slot)].run;
      run.begin_ns = from_ns + (now_ns - from_ns) * i / count;
      run.end_ns = from_ns + (now_ns - from_ns) * (i + 1) / count;
    }
    timed = done;
  };
  while (now_ns - begin_ns <= round_ns && !(done > 0 && stopping_.load(std::memory_order_relaxed))) {
    if (done >= taken) break;
    const int count = on_device ? batch_size(worker, done, taken) : 1;
    if (alone) {
      worker.next.store(done + count, std::memory_order_relaxed);
    } else if (worker.next.fetch_add(count) != done) {
      break;  // the others were taken back
    }
    const std::span<Slot> slots =
        std::span(worker.slots).subspan(static_cast<size_t>(done), static_cast<size_t>(count));
    perform(worker, slots);
    done += count;
    if (stop_clock(worker, timed, done, taken)) lap();
  }
  if (timed < done) lap();
  if (device_kind()) record_events(worker, done);

  guard.lock();
  if (is_short) --queue.in_short_rounds;
  take_back(worker);
  queue.short_tasks = now_ns - begin_ns <= done * kShortNs;
  for (int i = 0; i < done; ++i) finish(worker, worker.slots[static_cast<size_t>(i)]);
  for (size_t s = 0; s < worker.issued.size(); ++s) {
    Issued& round = worker.issued[s];
    if (round.tasks.empty()) {
      recycle_event(std::move(round.event));
    } else {
      issued_[static_cast<size_t>(worker.first_stream) + s].push_back(std::move(round));
      poll_wake_.notify_one();
    }
    round = {};
  }
  worker.taken = 0;
  advance();
}

CoreTaskRun* Core::acquire_run() {
  if (free_runs_.empty()) return &runs_.emplace_back(*this);
  CoreTaskRun* const run = free_runs_.back();
  free_runs_.pop_back();
  return run;
}

// Whether to ask the clock after a task; [first, done) have not been timed.
bool Core::stop_clock(const Worker& worker, int first, int done, int taken) const {
  if (device_kind() || done == taken || done - first >= kMostUntimed || local::tracing()) return true;
  const Slot& last = worker.slots[static_cast<size_t>(done - 1)];
  return last.expected_ns >= kUntimedNs || worker.slots[static_cast<size_t>(done)].task->body != last.task->body;
}

void Core::prepare(Worker& worker, int32_t index) {
  Live& live = live_[static_cast<size_t>(index)];
  const Graph::Task& task = graph_->task(live.task);
  Slot& slot = worker.slots[static_cast<size_t>(worker.taken++)];
  if (!slot.run) slot.run = acquire_run();
  CoreTaskRun& run = *slot.run;
  run.live = index;
  run.task = live.task;
  run.index = task.index;
  run.deferred = false;
  run.waits.clear();
  run.input_views.clear();
  run.output_views.clear();
  slot.task = &task;
  slot.expected_ns = expected_ns(index);
  const bool to_host = worker.to_host && (task.kind == TaskKind::write || task.kind == TaskKind::send);
  slot.stream = to_host ? worker.streams.size() - 1 : worker.turn;
  slot.deferred = slot.given_up = false;

  const int stream_number = worker.first_stream + static_cast<int>(slot.stream);
  for (const BlockId input : graph_->inputs(task)) {
    const Record& r = record_of(input);
    run.input_views.push_back({r.data, r.bytes});
    if (device_kind() && r.event && r.stream != stream_number) run.waits.emplace_back(r.event, r.stream);
  }
  for (const BlockId output : graph_->outputs(task)) {
    const Record& r = record_of(output);
    void* data = r.data;
    if (!device_kind()) data = r.bytes == 0 ? &nothing_ : small_blocks_.take(r.charge());
    run.output_views.push_back({data, r.bytes});
  }
  run.inputs = run.input_views;
  run.outputs = run.output_views;
  run.scratch.open(live.scratch_data, live.scratch_bytes);
  run.context = {config_.device, worker.streams[slot.stream].get(), &run.scratch, /*threads=*/1};
  live.phase = Phase::running;
  live.open = 1;
  live.run = slot.run;
  if (device_kind()) {
    ++live.open;
    auto& event = worker.issued[slot.stream].event;
    if (!event) event = acquire_event();
  }
}

// How many tasks from the slot on one body takes at once.
int Core::batch_size(const Worker& worker, int first, int taken) const {
  const Slot& begin = worker.slots[static_cast<size_t>(first)];
  if (!graph_->body(*begin.task).supports_batching()) return 1;
  int end = first + 1;
  while (end < taken) {
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
  for (Slot& slot : slots) {
    slot.deferred = slot.run->completion != nullptr;
    slot.given_up = slot.error && slot.deferred && slot.run->completion->claim();
    slot.run->completion.reset();
  }
}

void Core::perform_batch(Worker& worker, std::span<Slot> slots) {
  std::array<TaskRun*, kMostTaken> runs{};
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
  CoreTaskRun& run = *slot.run;
  try {
    if (config_.fault && !run.output_views.empty()) config_.fault(ExecutorConfig::Operation::allocate);
    if (!device_kind()) {
      for (BlockView& view : run.output_views) {
        if (!view.data) view.data = host_memory_.allocate(charged_bytes(view.bytes));
      }
    }
    const local::Event* last = nullptr;
    for (const auto& [before, number] : run.waits) {
      if (before.get() != last) worker.streams[slot.stream]->wait(*before);
      last = before.get();
    }
  } catch (...) {
    slot.error = std::current_exception();
  }
  run.waits.clear();
  return !slot.error;
}

void Core::call_body(Worker& worker, Slot& slot) {
  CoreTaskRun& run = *slot.run;
  try {
    const local::DeviceScope scope(run.context);
    graph_->body(*slot.task).run(run);
  } catch (...) {
    slot.error = std::current_exception();
    if (device_kind()) {
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
  const CoreTaskRun& run = *slot.run;
  const int32_t index = run.live;
  Live& live = live_[static_cast<size_t>(index)];
  const Graph::Task& task = *slot.task;
  WorkQueue& queue = queues_[static_cast<size_t>(task.queue)];
  const int64_t ns = run.end_ns - run.begin_ns;
  int64_t& usual_ns = body_ns_[static_cast<size_t>(task.body)];
  usual_ns = usual_ns < 0 ? ns : usual_ns + (std::min(ns, 8 * kRoundNs) - usual_ns) / 4;
  if (!device_kind() || task.queue != QueueKind::compute) queue.busy_ns += ns;
  if (slot.given_up) --live.open;
  const std::span<const BlockId> outputs = graph_->outputs(task);
  if (!device_kind()) {
    for (size_t i = 0; i < outputs.size(); ++i) record_of(outputs[i]).data = run.output_views[i].data;
  } else if (slot.error) {
    --live.open;
  } else {
    Issued& round = worker.issued[slot.stream];
    live.phase = Phase::issued;
    for (const BlockId output : outputs) {
      Record& r = record_of(output);
      r.has_extras = true;
      r.event = round.event;
      r.stream = worker.first_stream + static_cast<int>(slot.stream);
      if (!slot.deferred) make_available(r);
    }
    round.tasks.push_back(index);
  }
  if (live.open > 1 && slot.deferred) {
    slot.run->deferred = true;
    if (queue.deferred++ == 0) queue.deferred_since_ns = run.end_ns;
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

// A stream's work ends in order: only what was queued on it first is asked for.
void Core::poll_loop() {
  struct Front {
    size_t stream = 0;
    std::shared_ptr<local::Event> event;
    bool ended = false;
    std::exception_ptr error;
  };
  std::vector<Front> fronts;
  prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds; else 50 us, more than the sleep itself
  Guard guard(*this);
  while (!quit_) {
    fronts.clear();
    for (size_t s = 0; s < issued_.size(); ++s) {
      if (!issued_[s].empty()) fronts.push_back({s, issued_[s].front().event, false, nullptr});
    }
    if (fronts.empty()) {
      guard.unlock();
      guard.lock();
      const bool none = std::ranges::all_of(issued_, [](const auto& queue) { return queue.empty(); });
      if (none && !quit_) guard.wait(poll_wake_);
      continue;
    }
    guard.unlock();
    bool any = false;
    for (Front& front : fronts) {
      try {
        front.ended = front.event->done();
        if (front.ended) front.event->synchronize();  // throws what the work threw
      } catch (...) {
        front.ended = true;
        front.error = std::current_exception();
      }
      any = any || front.ended;
    }
    if (!any) std::this_thread::sleep_for(kPollInterval);
    guard.lock();
    for (Front& front : fronts) {
      front.event.reset();
      if (!front.ended) continue;
      Issued round = std::move(issued_[front.stream].front());
      issued_[front.stream].pop_front();
      for (const int32_t task : round.tasks) end_part(task, front.error);
      recycle_event(std::move(round.event));
    }
    if (any) advance();
  }
}

void Core::trace_task(const Live& live, int64_t begin_ns, int64_t end_ns, const std::exception_ptr& error) const {
  const Graph::Task& task = graph_->task(live.task);
  local::TraceEvent event;
  event.name = task_name(live.task);
  event.lane = trace_lane(task, device_kind());
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.bytes = task.traffic_bytes;
  event.budget_used = reserved_bytes();
  if (error) event.detail = local::to_record(error).message;
  local::trace(std::move(event));
}

void Core::trace_move(const std::string& what, int64_t bytes, int64_t begin_ns, const char* detail) const {
  local::TraceEvent event;
  event.name = what;
  event.lane = "spill";
  event.begin_ns = begin_ns;
  event.end_ns = local::trace_clock_ns();
  event.bytes = bytes;
  event.budget_used = reserved_bytes();
  event.detail = detail;
  local::trace(std::move(event));
  // Levels of the tiers below, for the report.
  const auto level = [](const char* tier, int64_t used) {
    local::TraceEvent now;
    now.name = tier;
    now.lane = kTierLane;
    now.begin_ns = now.end_ns = local::trace_clock_ns();
    now.bytes = used;
    local::trace(std::move(now));
  };
  if (device_kind()) level("pinned host", host_budget_.reserved_bytes());
  level("spill file", spill_.used_bytes());
}

void Scratch::open(void* data, int64_t bytes) {
  data_ = data;
  bytes_ = bytes;
  owned_ = false;
  used_ = peak_ = 0;
  pieces_.clear();
}

void Scratch::close() {
  const std::lock_guard lock(mutex_);
  if (owned_) core_.host_memory_.deallocate(data_, bytes_);
  owned_ = false;
  data_ = nullptr;
  pieces_.clear();
}

void* Scratch::allocate(int64_t bytes, local::Stream* /*stream*/) {
  QUARRY_CHECK(bytes >= 0);
  if (bytes == 0) return ::operator new(1);
  const std::lock_guard lock(mutex_);
  if (!data_ && bytes_ > 0) {
    data_ = core_.host_memory_.allocate(bytes_);
    owned_ = true;
  }
  // A task has a few pieces at a time: looking at all of them is faster than keeping order.
  const int64_t charge = charged_bytes(bytes);
  int64_t best_length = std::numeric_limits<int64_t>::max(), best_offset = 0, from = 0;
  auto place = pieces_.end();
  for (auto next = pieces_.begin();; ++next) {
    const int64_t to = next == pieces_.end() ? bytes_ : next->first;
    if (to - from >= charge && to - from < best_length) {
      best_length = to - from;
      best_offset = from;
      place = next;
    }
    if (next == pieces_.end()) break;
    from = next->first + next->second;
  }
  if (best_length == std::numeric_limits<int64_t>::max()) {
    throw local::OutOfMemory(
        fmt::format("scratch memory: {} bytes do not fit: {} of the task's {} are in use", bytes, used_, bytes_));
  }
  pieces_.insert(place, {best_offset, charge});
  used_ += charge;
  peak_ = std::max(peak_, used_);
  return static_cast<char*>(data_) + best_offset;
}

void Scratch::deallocate(void* data, int64_t bytes, local::Stream* /*stream*/) noexcept {
  if (bytes == 0) {
    ::operator delete(data);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (pieces_.empty()) return;  // the task has ended
  const int64_t offset = static_cast<char*>(data) - static_cast<char*>(data_);
  const auto piece = std::ranges::find(pieces_, offset, &std::pair<int64_t, int64_t>::first);
  if (piece == pieces_.end()) return;
  used_ -= piece->second;
  pieces_.erase(piece);
}

int64_t Scratch::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

int64_t Scratch::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace quarry::scheduler
