#include "quarry/local/memory/stream.h"

#include <fmt/format.h>

#include <mutex>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/graph_memory.h"

namespace quarry::local {

struct Graph::State {
  Device device;
  std::shared_ptr<GraphMemory> memory;
  std::unique_ptr<DeviceStream> captured;  // has the handles of libraries that the work refers to
  std::unique_ptr<DeviceGraph> graph;
  std::vector<GraphMemory::Use> uses;
  UseOrder order;  // of launches, which share the graph's memory
  std::mutex mutex;

  State(const DeviceStream& stream, std::shared_ptr<GraphMemory> taken)
      : device(stream.device()), memory(std::move(taken)) {}
  ~State() {
    try {
      order.synchronize();
    } catch (...) {  // the failure of work whose results nobody holds
    }
    graph.reset();
    memory->close();
  }
};

Stream::Stream(Device device, int priority) {
  if (device.index < 0 || device.index >= backend(device.kind).device_count()) {
    throw DeviceError(fmt::format("there is no device {}", to_string(device)));
  }
  const auto [least, greatest] = priorities(device);
  if (priority > least || priority < greatest) {
    throw InvalidArgument(
        fmt::format("the priorities of {} go from {} to {}, not to {}", to_string(device), least, greatest, priority));
  }
  stream_ = backend(device.kind).create_stream_of_priority(device.index, priority);
}

Device Stream::device() const { return stream_->device(); }
void* Stream::native() const { return stream_->native(); }

Stream Stream::current() {
  const ExecContext& context = current_context();
  DeviceStream* const stream = context.stream != nullptr ? context.stream : default_context(context.device).stream;
  if (std::shared_ptr<DeviceStream> shared = stream->weak_from_this().lock()) return Stream(std::move(shared));
  return Stream(std::shared_ptr<DeviceStream>(stream, [](DeviceStream*) {}));  // of the thread: it lives on
}

Stream Stream::wrap(Device device, void* native) {
  return Stream(backend(device.kind).wrap_stream(device.index, native));
}

std::pair<int, int> Stream::priorities(Device device) { return backend(device.kind).stream_priorities(device.index); }

void Stream::synchronize() const { stream_->synchronize(); }

Event Stream::record() const {
  Event event(device());
  event.record(*this);
  return event;
}

void Stream::wait(const Event& event) const {
  refuse_in_capture("wait()", "captured work waits for what its arrays need; wait before the launch");
  if (event.device().kind == device().kind)
    stream_->wait(*event.event_);
  else
    event.synchronize();
}

void Stream::wait(const Stream& other) const {
  if (stream_ != other.stream_) wait(other.record());
}

Graph Stream::capture(const std::function<void()>& function) const {
  refuse_in_capture("capture()", "captures do not nest");
  const ExecContext own = context();
  std::unique_ptr<DeviceStream> captured = backend(device().kind).create_stream(device().index, StreamRole::compute);
  const auto memory = std::make_shared<GraphMemory>(*own.memory, *stream_);
  const auto state = std::make_shared<Graph::State>(*stream_, memory);
  state->order.write(*stream_);
  captured->begin_capture();
  captured->set_capture_log(memory.get());
  try {
    const CaptureMark mark;
    const DeviceScope scope(ExecContext{own.device, captured.get(), memory.get(), own.threads});
    function();
  } catch (...) {
    try {
      captured->end_capture();
    } catch (...) {  // what the function threw is the reason
    }
    captured->set_capture_log(nullptr);
    throw;
  }
  captured->set_capture_log(nullptr);
  state->graph = captured->end_capture();
  state->captured = std::move(captured);
  state->uses = memory->finish();
  return Graph(state);
}

ExecContext Stream::context() const {
  const ExecContext& current = current_context();
  if (current.device == device()) return {device(), stream_.get(), current.memory, current.threads};
  return {device(), stream_.get(), &default_pool(device()), 0};
}

Event::Event(Device device) : device_(device), event_(backend(device.kind).create_timer(device.index)) {}

void Event::record(const Stream& stream) {
  refuse_in_capture("record()", "an event of recorded work is never reached; record it after the launch");
  if (stream.device() != device_) {
    throw InvalidArgument(fmt::format("an event of {} cannot be recorded on a stream of {}", to_string(device_),
                                      to_string(stream.device())));
  }
  stream.handle()->record(*event_);
}

bool Event::done() const { return event_->done(); }

void Event::synchronize() const {
  refuse_in_capture("synchronize()", "a capture must not block the host");
  event_->synchronize();
}

double Event::elapsed_ms(const Event& earlier) const { return 1e3 * event_->seconds_since(*earlier.event_); }

void Graph::launch(const Stream& stream) const {
  refuse_in_capture("launch()", "graphs do not nest");
  if (stream.device() != state_->device) {
    throw InvalidArgument(
        fmt::format("the graph is of {}, the stream of {}", to_string(state_->device), to_string(stream.device())));
  }
  const std::lock_guard lock(state_->mutex);
  state_->order.write(*stream.handle());
  for (const GraphMemory::Use& use : state_->uses) use.buffer->use(stream.handle().get(), use.access);
  state_->graph->launch(*stream.handle());
}

Device Graph::device() const { return state_->device; }
int64_t Graph::reserved_bytes() const { return state_->memory->acquired_bytes(); }

}  // namespace quarry::local
