#include "quarry/local/base/trace.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>

namespace quarry::local {
namespace {

struct ThreadBuffer {
  std::mutex mutex;
  std::vector<TraceEvent> events;
  size_t most = 0;  // then they are thinned
  int32_t thread = 0;
};

std::atomic<bool> enabled{false};
std::atomic<size_t> most_per_thread{0};
std::atomic<void (*)(std::vector<TraceEvent>&)> thin{nullptr};
std::mutex registry_mutex;
std::vector<std::shared_ptr<ThreadBuffer>> registry;

ThreadBuffer& thread_buffer() {
  thread_local const std::shared_ptr<ThreadBuffer> buffer = [] {
    auto made = std::make_shared<ThreadBuffer>();
    const std::lock_guard lock(registry_mutex);
    made->thread = static_cast<int32_t>(registry.size());
    registry.push_back(made);
    return made;
  }();
  return *buffer;
}

}  // namespace

int64_t trace_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool tracing() { return enabled.load(std::memory_order_relaxed); }

void start_tracing(size_t most, void (*thin_events)(std::vector<TraceEvent>& events)) {
  stop_tracing();
  most_per_thread = most;
  thin = thin_events;
  enabled = true;
}

std::vector<TraceEvent> stop_tracing() {
  enabled = false;
  std::vector<TraceEvent> all;
  const std::lock_guard lock(registry_mutex);
  for (const auto& buffer : registry) {
    const std::lock_guard buffer_lock(buffer->mutex);
    std::move(buffer->events.begin(), buffer->events.end(), std::back_inserter(all));
    std::vector<TraceEvent>().swap(buffer->events);
    buffer->most = 0;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.begin_ns < b.begin_ns; });
  return all;
}

void trace(TraceEvent event) {
  if (!tracing()) return;
  ThreadBuffer& buffer = thread_buffer();
  event.thread = buffer.thread;
  const std::lock_guard lock(buffer.mutex);
  buffer.events.push_back(std::move(event));
  const auto fewer = thin.load();
  if (!fewer) return;
  if (buffer.most == 0) buffer.most = most_per_thread;
  if (buffer.events.size() < buffer.most) return;
  fewer(buffer.events);
  // Where little could be left out, not soon again.
  buffer.most = std::max<size_t>(most_per_thread, 2 * buffer.events.size());
}

TraceScope::TraceScope(std::string name, std::string track, int64_t bytes) : active_(tracing()) {
  if (!active_) return;
  event_.name = std::move(name);
  event_.track = std::move(track);
  event_.bytes = bytes;
  event_.begin_ns = trace_clock_ns();
}

TraceScope::~TraceScope() {
  if (!active_) return;
  event_.end_ns = trace_clock_ns();
  trace(std::move(event_));
}

}  // namespace quarry::local
