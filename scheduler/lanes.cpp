// The lanes' threads, and what a task sees while it runs.

#include <fmt/format.h>

#include <algorithm>

#include "local/base/trace.h"
#include "scheduler/core.h"

namespace quarry::scheduler {
namespace {

constexpr auto kPollInterval = std::chrono::microseconds(20);

const char* trace_lane(const Graph::Task& task, bool device_kind) {
  switch (task.kind) {
    case TaskKind::read:
      return "read";
    case TaskKind::decode:
      return "decode";
    case TaskKind::copy:
      if (task.lane == LaneKind::compute) return "compute";
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

bool CoreTaskRun::cancelled() const { return core.stopping_.load(std::memory_order_relaxed); }

CoreCompletion::~CoreCompletion() {
  // Nobody can end the task any more.
  fail(std::make_exception_ptr(local::InternalError("the deferred task was dropped without being finished")));
}

void CoreCompletion::finish() {
  if (!claim()) return;
  Core::Guard guard(core_);
  core_.part_done(live_, nullptr);
}

void CoreCompletion::fail(std::exception_ptr error) {
  if (!claim()) return;
  Core::Guard guard(core_);
  core_.part_done(live_, std::move(error));
}

void Core::push(LaneKind lane, const Item& item) {
  std::vector<Item>& heap = lanes_[static_cast<size_t>(lane)].heap;
  heap.push_back(item);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

void Core::lane_loop(Worker& worker) {
  Lane& lane = lanes_[static_cast<size_t>(worker.lane)];
  Guard guard(*this);
  for (;;) {
    while (lane.heap.empty() && !quit_) {
      guard.unlock();  // what the last task made ready for other lanes
      guard.lock();
      if (!lane.heap.empty() || quit_) break;
      ++lane.idle;
      while (lane.tokens == 0 && !quit_) guard.wait(lane.wake);
      if (lane.tokens > 0) --lane.tokens;
    }
    if (quit_) return;
    std::pop_heap(lane.heap.begin(), lane.heap.end(), std::greater<>());
    const Item item = lane.heap.back();
    lane.heap.pop_back();
    switch (item.job) {
      case Job::task:
        execute(guard, worker, item.what);
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

void Core::execute(Guard& guard, Worker& worker, int32_t index) {
  Live& live = live_[static_cast<size_t>(index)];
  const Graph::Task& task = graph_->task(live.task);
  TaskBody& body = graph_->body(task);
  if (!worker.run || worker.run.use_count() != 1) worker.run = std::make_shared<CoreTaskRun>(*this);
  const std::shared_ptr<CoreTaskRun> run = worker.run;
  run->live = index;
  run->task = live.task;
  run->index = task.index;
  run->deferred = false;
  run->waits.clear();
  run->input_views.clear();
  run->output_views.clear();

  const bool to_host = worker.to_host && (task.kind == TaskKind::write || task.kind == TaskKind::send);
  local::Stream& stream = to_host ? *worker.to_host : *worker.stream;
  const int stream_number = 2 * worker.number + (to_host ? 1 : 0);
  const std::span<const BlockId> outputs = graph_->outputs(task);
  for (const BlockId input : graph_->inputs(task)) {
    const Record& r = record_of(input);
    run->input_views.push_back({r.data, r.bytes});
    if (r.event && r.stream != stream_number) run->waits.emplace_back(r.event, r.stream);
  }
  for (const BlockId output : outputs) {
    const Record& r = record_of(output);
    run->output_views.push_back({r.data, r.bytes});
  }
  run->inputs = run->input_views;
  run->outputs = run->output_views;
  run->scratch.open(live.scratch_data, live.scratch.bytes());
  run->context = {config_.device, &stream, &run->scratch, /*threads=*/1};
  live.phase = Phase::running;
  live.open = 1;
  live.run = run;
  std::shared_ptr<local::Event> event;
  if (device_kind()) {
    ++live.open;
    event = take_event();
  }
  run->begin_ns = local::trace_clock_ns();
  guard.unlock();

  std::exception_ptr error;
  try {
    if (!device_kind()) {
      for (BlockView& view : run->output_views) view.data = host_memory_.allocate(charged_bytes(view.bytes));
    }
    for (const auto& [before, number] : run->waits) stream.wait(*before);
    const local::DeviceScope scope(run->context);
    body.run(*run);
    if (event) stream.record(*event);
  } catch (...) {
    error = std::current_exception();
    if (device_kind()) {
      try {
        stream.synchronize();  // what was queued may still use the blocks
      } catch (const std::exception&) {
        // The stream's error is what the body threw, or follows from it.
      }
    }
  }
  run->waits.clear();
  const bool deferred = run->completion != nullptr;
  const bool given_up = error && deferred && run->completion->claim();
  run->completion.reset();
  const int64_t end_ns = local::trace_clock_ns();

  guard.lock();
  Lane& lane = lanes_[static_cast<size_t>(task.lane)];
  if (!device_kind() || task.lane != LaneKind::compute) lane.busy_ns += end_ns - run->begin_ns;
  if (given_up) --live.open;
  if (!device_kind()) {
    for (size_t i = 0; i < outputs.size(); ++i) record_of(outputs[i]).data = run->output_views[i].data;
  } else if (error) {
    --live.open;
  } else {
    live.event = event;
    live.phase = Phase::issued;
    for (const BlockId output : outputs) {
      Record& r = record_of(output);
      r.event = event;
      r.stream = stream_number;
      if (!deferred) make_available(r);
    }
    issued_[static_cast<size_t>(stream_number)].push_back(index);
    poll_wake_.notify_one();
  }
  event.reset();
  if (live.open > 1 && deferred) {
    run->deferred = true;
    if (lane.deferred++ == 0) lane.deferred_since_ns = end_ns;
  }
  part_done(index, error);
}

void Core::poll_loop() {
  struct Front {
    size_t stream;
    int32_t live;
    std::shared_ptr<local::Event> event;
    bool done = false;
    std::exception_ptr error;
  };
  std::vector<Front> fronts;
  Guard guard(*this);
  while (!quit_) {
    fronts.clear();
    for (size_t s = 0; s < issued_.size(); ++s) {
      if (issued_[s].empty()) continue;
      const int32_t index = issued_[s].front();
      fronts.push_back({s, index, live_[static_cast<size_t>(index)].event, false, nullptr});
    }
    if (fronts.empty()) {
      guard.unlock();
      guard.lock();
      const bool none = std::all_of(issued_.begin(), issued_.end(), [](const auto& queue) { return queue.empty(); });
      if (none && !quit_) guard.wait(poll_wake_);
      continue;
    }
    guard.unlock();
    bool any = false;
    for (Front& front : fronts) {
      try {
        if (!front.event->done()) continue;
        front.done = any = true;
        front.event->synchronize();  // throws what the work threw
      } catch (...) {
        front.done = any = true;
        front.error = std::current_exception();
      }
    }
    if (!any) std::this_thread::sleep_for(kPollInterval);
    guard.lock();
    for (Front& front : fronts) {
      if (!front.done) continue;
      issued_[front.stream].pop_front();
      front.event.reset();
      part_done(front.live, front.error);
    }
  }
}

void Core::trace_task(const Live& live, int64_t begin_ns, int64_t end_ns) const {
  const Graph::Task& task = graph_->task(live.task);
  local::TraceEvent event;
  event.name = task_name(live.task);
  event.lane = trace_lane(task, device_kind());
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.bytes = task.traffic_bytes;
  event.budget_used = memory_budget_.reserved_bytes();
  if (live.error) event.detail = local::to_record(live.error).message;
  local::trace(std::move(event));
}

void Core::trace_move(const std::string& what, int64_t bytes, int64_t begin_ns, const char* detail) const {
  local::TraceEvent event;
  event.name = what;
  event.lane = "spill";
  event.begin_ns = begin_ns;
  event.end_ns = local::trace_clock_ns();
  event.bytes = bytes;
  event.budget_used = memory_budget_.reserved_bytes();
  event.detail = detail;
  local::trace(std::move(event));
}

void Scratch::open(void* data, int64_t bytes) {
  data_ = data;
  bytes_ = bytes;
  owned_ = false;
  peak_ = 0;
  slab_.reset();
}

void Scratch::close() {
  const std::lock_guard lock(mutex_);
  if (owned_) core_.host_memory_.deallocate(data_, bytes_);
  owned_ = false;
  data_ = nullptr;
  slab_.reset();
}

void* Scratch::allocate(int64_t bytes, local::Stream* /*stream*/) {
  QUARRY_CHECK(bytes >= 0);
  if (bytes == 0) return ::operator new(1);
  const std::lock_guard lock(mutex_);
  if (!slab_) {
    if (!data_ && bytes_ > 0) {
      data_ = core_.host_memory_.allocate(bytes_);
      owned_ = true;
    }
    slab_ = std::make_unique<Slab>(data_, bytes_);
  }
  void* data = slab_->allocate(charged_bytes(bytes), /*at_top=*/false);
  if (!data) {
    throw local::OutOfMemory(fmt::format("scratch memory: {} bytes do not fit: {} of the task's {} are in use", bytes,
                                         bytes_ - slab_->free_bytes(), bytes_));
  }
  peak_ = std::max(peak_, bytes_ - slab_->free_bytes());
  return data;
}

void Scratch::deallocate(void* data, int64_t bytes, local::Stream* /*stream*/) noexcept {
  if (bytes == 0) {
    ::operator delete(data);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (slab_) slab_->deallocate(data, charged_bytes(bytes));
}

int64_t Scratch::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return slab_ ? bytes_ - slab_->free_bytes() : 0;
}

int64_t Scratch::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace quarry::scheduler
