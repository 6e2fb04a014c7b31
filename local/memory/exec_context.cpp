#include "quarry/local/memory/exec_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {
namespace {

// Default streams are never destroyed, since buffers remember the stream of their last use: a thread that ends leaves
// its streams to the next one.
class StreamStore {
 public:
  DeviceStream* take(Device device) {
    {
      const std::lock_guard lock(mutex_);
      const auto last =
          std::find_if(idle_.rbegin(), idle_.rend(), [&](DeviceStream* s) { return s->device() == device; });
      if (last != idle_.rend()) {
        DeviceStream* stream = *last;
        idle_.erase(std::next(last).base());
        return stream;
      }
    }
    return backend(device.kind).create_stream(device.index, StreamRole::compute).release();
  }
  void give_back(DeviceStream* stream) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(stream);
  }
  static StreamStore& instance() {
    static StreamStore& store = *new StreamStore;
    return store;
  }

 private:
  std::mutex mutex_;
  std::vector<DeviceStream*> idle_;
};

struct ThreadState {
  std::vector<ExecContext> defaults;  // one per device used by this thread
  ExecContext current;

  ThreadState() { current = default_context(kCpu); }
  ~ThreadState() {
    for (const ExecContext& context : defaults) StreamStore::instance().give_back(context.stream);
  }
  const ExecContext& default_context(Device device) {
    for (const ExecContext& context : defaults)
      if (context.device == device) return context;
    ExecContext made{device, StreamStore::instance().take(device), &default_pool(device), 0};
    defaults.push_back(made);
    return defaults.back();
  }
};

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

}  // namespace

const ExecContext& current_context() { return thread_state().current; }

ExecContext default_context(Device device) {
  if (device.kind != DeviceKind::cpu) {
    refuse_in_capture("work on another stream", "it would run at once, and not with the graph");
  }
  return thread_state().default_context(device);
}

Device current_device() { return current_context().device; }

void set_device(Device device) {
  const ExecContext context = default_context(device);
  thread_state().current = context;
}

DeviceScope::DeviceScope(Device device) : DeviceScope(default_context(device)) {}

DeviceScope::DeviceScope(const ExecContext& context) : previous_(current_context()) {
  if (context.stream != nullptr && context.stream->device() != context.device) {
    throw InvalidArgument(fmt::format("a context for {} with a stream of {}", to_string(context.device),
                                      to_string(context.stream->device())));
  }
  if (context.device.kind != DeviceKind::cpu && (context.stream == nullptr || context.stream->capture_log() == nullptr))
    refuse_in_capture("work on another stream", "it would run at once, and not with the graph");
  thread_state().current = context;
}

DeviceScope::~DeviceScope() { thread_state().current = previous_; }

}  // namespace quarry::local
