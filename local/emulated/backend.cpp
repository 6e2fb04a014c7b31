// A pretend GPU: host memory of its own with a limit, and asynchronous in-order streams, each a thread that waits a
// random time before an operation, so that missing waits show. The engine is the CPU's, queued on the stream.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/base/options.h"
#include "quarry/local/base/thread.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/cpu/cpu_backend.h"
#include "quarry/local/emulated/backend.h"
#include "quarry/local/emulated/engine.h"
#include "quarry/local/emulated/sharing.h"
#include "quarry/local/memory/arena_resource.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/program/engine.h"

namespace quarry::local {
namespace {

struct EmulatedOptions {
  int devices = static_cast<int>(OptionValue(Option::emulated_devices).integer());
  int64_t memory_bytes = OptionValue(Option::emulated_memory).bytes();
  int64_t seed = OptionValue(Option::emulated_seed).integer();
  int64_t longest_delay_us = OptionValue(Option::emulated_delay_us).integer();
};

// One record of an event. Streams that wait for it keep it: as on a GPU, recording the event anew does not change what
// they wait for.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  std::chrono::steady_clock::time_point time{};  // when it was reached
  std::exception_ptr error;                      // of the stream then

  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return reached; });
  }
};

class EmulatedEvent final : public DeviceEvent {
 public:
  bool done() override {
    const auto last = state();
    if (!last) return true;
    const std::lock_guard lock(last->mutex);
    return last->reached;
  }
  void synchronize() override {
    const auto last = state();
    if (!last) return;
    last->wait();
    if (last->error) std::rethrow_exception(last->error);
  }
  double seconds_since(DeviceEvent& earlier) override {
    auto* begin = dynamic_cast<EmulatedEvent*>(&earlier);
    const auto from = begin ? begin->time() : std::nullopt, to = time();
    if (!from || !to) throw InvalidArgument("emulated: a time needs two events that were recorded and reached");
    return std::chrono::duration<double>(*to - *from).count();
  }
  // The last record; null before the first.
  std::shared_ptr<EventState> state() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }
  std::shared_ptr<EventState> new_state() {
    auto made = std::make_shared<EventState>();
    const std::lock_guard lock(mutex_);
    return state_ = std::move(made);
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> time() const {
    const auto last = state();
    if (!last) return std::nullopt;
    const std::lock_guard lock(last->mutex);
    return last->reached ? std::optional(last->time) : std::nullopt;
  }
  mutable std::mutex mutex_;
  std::shared_ptr<EventState> state_;
};

// The thread that does what streams queue, in order.
class EmulatedQueue : public std::enable_shared_from_this<EmulatedQueue> {
 public:
  struct Item {
    std::function<void()> operation;
    bool always;  // else it is skipped once an earlier operation has failed
  };

  EmulatedQueue(uint64_t seed, int64_t longest_delay_us)
      : random_(seed),
        longest_delay_us_(longest_delay_us),
        thread_(start_thread("an emulated stream", [this] { work(); })) {}
  ~EmulatedQueue() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  EmulatedQueue(const EmulatedQueue&) = delete;
  EmulatedQueue& operator=(const EmulatedQueue&) = delete;

  void push(Item item) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(item));
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  }
  void synchronize() {
    wait();
    const std::lock_guard lock(mutex_);
    if (std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }
  std::exception_ptr error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  bool is_of_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;  // stopped, and all is done
      Item item = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      const bool skip = error_ && !item.always;
      lock.unlock();
      std::exception_ptr failure;
      if (!skip) {
        delay();
        try {
          item.operation();
        } catch (...) {
          failure = std::current_exception();
        }
      }
      item = {};  // what it holds goes before the stream counts as idle
      lock.lock();
      if (failure && !error_) error_ = failure;
      busy_ = false;
      changed_.notify_all();
    }
  }
  void delay() {
    if (longest_delay_us_ == 0 || random_() % 8 != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % (static_cast<uint64_t>(longest_delay_us_) + 1)));
  }

  std::mt19937_64 random_;
  const int64_t longest_delay_us_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: uses all of the above
};

// The queues that exist. A process that exits waits for what they have: the libraries that their work calls are torn
// down afterwards.
class LiveQueues {
 public:
  static std::shared_ptr<EmulatedQueue> add(std::shared_ptr<EmulatedQueue> queue) {
    LiveQueues& live = get();
    const std::lock_guard lock(live.mutex_);
    std::erase_if(live.queues_, [](const auto& old) { return old.expired(); });
    live.queues_.push_back(queue);
    return queue;
  }

 private:
  static LiveQueues& get() {
    static auto* const live = new LiveQueues;  // for arrays that outlive other statics
    return *live;
  }
  LiveQueues() {
    static_cast<void>(std::atexit([] { get().finish(); }));
  }
  void finish() {
    std::vector<std::shared_ptr<EmulatedQueue>> queues;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& queue : queues_)
        if (auto one = queue.lock()) queues.push_back(std::move(one));
    }
    // Work that ends the process cannot be waited for, nor what waits for it.
    const auto ends = [](const auto& queue) { return queue->is_of_this_thread(); };
    if (std::any_of(queues.begin(), queues.end(), ends)) return;
    for (const auto& queue : queues) queue->wait();
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<EmulatedQueue>> queues_;
};

class EmulatedGraph;

class EmulatedStream final : public DeviceStream {
 public:
  EmulatedStream(int index, std::shared_ptr<EmulatedQueue> queue) : index_(index), queue_(std::move(queue)) {}
  ~EmulatedStream() override {
    if (used_) queue_->wait();
    retire();
    if (used_) queue_->wait();
  }

  Device device() const override { return {DeviceKind::emulated, index_}; }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0) return;
    enqueue([=] { std::memmove(to, from, static_cast<size_t>(bytes)); });
  }
  void copy_to_peer(void* to, Device target, const void* from, int64_t bytes) override {
    QUARRY_CHECK(target.kind == DeviceKind::emulated);
    copy(to, from, bytes);
  }
  void fill(void* to, uint8_t value, int64_t bytes) override {
    if (bytes <= 0) return;
    enqueue([=] { std::memset(to, value, static_cast<size_t>(bytes)); });
  }
  void record(DeviceEvent& event) override {
    // Runs after a failure too: whoever waits must not hang.
    push({[queue = queue_.get(), state = dynamic_cast<EmulatedEvent&>(event).new_state()] {
            const std::lock_guard lock(state->mutex);
            state->reached = true;
            state->time = std::chrono::steady_clock::now();
            state->error = queue->error();
            state->changed.notify_all();
          },
          true});
  }
  void wait(DeviceEvent& event) override {
    auto* emulated = dynamic_cast<EmulatedEvent*>(&event);
    if (!emulated) return event.synchronize();
    if (auto state = emulated->state()) push({[state = std::move(state)] { state->wait(); }, true});
  }
  void host_callback(std::function<void()> function) override {
    used_ = true;
    push({std::move(function), true});
  }
  void synchronize() override {
    refuse_in_capture("synchronize()", "the host cannot wait for work that is only recorded");
    queue_->synchronize();
  }
  void* native() const override { return queue_.get(); }

  void begin_capture() override { recorded_.emplace(); }
  std::unique_ptr<DeviceGraph> end_capture() override;

  // Skipped once an earlier operation has failed.
  void enqueue(std::function<void()> operation) {
    used_ = true;
    push({std::move(operation), false});
  }

 private:
  friend class EmulatedGraph;
  void push(EmulatedQueue::Item item) {
    if (recorded_)
      recorded_->push_back(std::move(item));
    else
      queue_->push(std::move(item));
  }

  const int index_;
  const std::shared_ptr<EmulatedQueue> queue_;  // of a wrapped stream: shared with it
  std::atomic<bool> used_ = false;              // has queued work of its own, not only waits and events
  std::optional<std::vector<EmulatedQueue::Item>> recorded_;
};

class EmulatedGraph final : public DeviceGraph {
 public:
  explicit EmulatedGraph(std::vector<EmulatedQueue::Item> items) : items_(std::move(items)) {}
  void launch(DeviceStream& stream) override {
    auto& target = dynamic_cast<EmulatedStream&>(stream);
    target.used_ = true;
    for (const EmulatedQueue::Item& item : items_) target.push(item);
  }

 private:
  const std::vector<EmulatedQueue::Item> items_;
};

std::unique_ptr<DeviceGraph> EmulatedStream::end_capture() {
  QUARRY_CHECK(recorded_.has_value());
  auto graph = std::make_unique<EmulatedGraph>(std::move(*recorded_));
  recorded_.reset();
  return graph;
}

class EmulatedBackend final : public Backend {
 public:
  DeviceKind kind() const override { return DeviceKind::emulated; }
  int device_count() override { return options_.devices; }
  DeviceInfo info(int index) override {
    check_index(index);
    const std::lock_guard lock(mutex_);
    return {"emulated GPU", options_.memory_bytes, options_.memory_bytes - used_[static_cast<size_t>(index)],
            fmt::format("emulated-{}", index)};
  }
  void* allocate_slab(int index, int64_t bytes) override {
    check_index(index);
    refuse_slab_in_capture(bytes);
    const std::lock_guard lock(mutex_);
    int64_t& used = used_[static_cast<size_t>(index)];
    if (bytes > options_.memory_bytes - used) {
      throw OutOfMemory(fmt::format("emulated:{}: {} bytes do not fit: {} of {} are in use", index, bytes, used,
                                    options_.memory_bytes));
    }
    void* data = allocate_emulated_slab(bytes);
    used += bytes;
    return data;
  }
  void free_slab(int index, void* data, int64_t bytes) noexcept override {
    free_emulated_slab(data, bytes);
    const std::lock_guard lock(mutex_);
    used_[static_cast<size_t>(index)] -= bytes;
  }
  void* allocate_pinned(int64_t bytes) override {
    refuse_slab_in_capture(bytes);
    return cpu_backend().allocate_slab(0, bytes);
  }
  void free_pinned(void* data, int64_t bytes) noexcept override { cpu_backend().free_slab(0, data, bytes); }
  std::unique_ptr<DeviceStream> create_stream(int index, StreamRole) override {
    check_index(index);
    const uint64_t number = streams_.fetch_add(1);
    return std::make_unique<EmulatedStream>(
        index, LiveQueues::add(std::make_shared<EmulatedQueue>(static_cast<uint64_t>(options_.seed) * 1000003 + number,
                                                               options_.longest_delay_us)));
  }
  // `native` is native() of a stream of ours.
  std::unique_ptr<DeviceStream> wrap_stream(int index, void* native) override {
    check_index(index);
    return std::make_unique<EmulatedStream>(index, static_cast<EmulatedQueue*>(native)->shared_from_this());
  }
  std::pair<int, int> stream_priorities(int index) override {  // which change nothing
    check_index(index);
    return {0, -1};
  }
  std::unique_ptr<DeviceEvent> create_event(int index) override {
    check_index(index);
    return std::make_unique<EmulatedEvent>();
  }
  std::unique_ptr<DeviceEvent> create_timer(int index) override { return create_event(index); }
  // The profiler of the emulated device is the trace.
  void push_range(const char* name) override {
    TraceEvent event;
    event.name = name;
    event.track = "range";
    event.begin_ns = trace_clock_ns();
    open_ranges().push_back(std::move(event));
  }
  void pop_range() override {
    if (open_ranges().empty()) return;
    open_ranges().back().end_ns = trace_clock_ns();
    trace(std::move(open_ranges().back()));
    open_ranges().pop_back();
  }
  Engine& engine() override { return emulated_engine(); }

 private:
  void check_index(int index) const {
    if (index < 0 || index >= options_.devices)
      throw DeviceError(fmt::format("there is no device emulated:{}: there are {}", index, options_.devices));
  }
  static std::vector<TraceEvent>& open_ranges() {
    thread_local std::vector<TraceEvent> ranges;
    return ranges;
  }
  const EmulatedOptions options_{};
  std::mutex mutex_;
  std::vector<int64_t> used_ = std::vector<int64_t>(static_cast<size_t>(options_.devices), 0);
  std::atomic<uint64_t> streams_{0};
};

}  // namespace

void queue_emulated(const ExecContext& context, int64_t scratch_bytes,
                    std::function<void(const ExecContext& host)> call) {
  auto* stream = dynamic_cast<EmulatedStream*>(context.stream);
  QUARRY_CHECK(stream != nullptr);
  void* scratch = scratch_bytes > 0 ? context.memory->allocate(scratch_bytes, stream) : nullptr;
  stream->enqueue([call = std::move(call), scratch, scratch_bytes, threads = context.threads] {
    ArenaResource arena(scratch, scratch_bytes, kCpu);
    const std::unique_ptr<DeviceStream> at_once = cpu_backend().create_stream(0, StreamRole::compute);
    call(ExecContext{kCpu, at_once.get(), &arena, threads});
  });
  if (scratch) context.memory->deallocate(scratch, scratch_bytes, stream);
}

Backend& emulated_backend() {
  static EmulatedBackend& instance = *new EmulatedBackend;  // never destroyed: as cpu_backend()
  return instance;
}

}  // namespace quarry::local
