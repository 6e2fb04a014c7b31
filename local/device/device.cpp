#include "quarry/local/device/device.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "quarry/local/base/error.h"

namespace quarry::local {
namespace {

constexpr std::array kKinds = {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::emulated};

}  // namespace

const char* name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::emulated:
      return "emulated";
    case DeviceKind::trial:
      return "trial";
  }
  return "unknown";
}

std::string to_string(const Device& device) {
  if (device.kind == DeviceKind::trial) return fmt::format("trial:{}", name(acts_as(device)));
  return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("{}:{}", name(device.kind), device.index);
}

std::optional<DeviceKind> parse_device_kind(std::string_view text) {
  for (DeviceKind kind : kKinds)
    if (text == name(kind)) return kind;
  return std::nullopt;
}

namespace {

struct LiveStreams {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<StreamLife>> by_id;
  static LiveStreams& instance() {
    static LiveStreams& streams = *new LiveStreams;  // some streams live as long as the process
    return streams;
  }
};

uint64_t next_stream_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

thread_local int captures = 0;

}  // namespace

// A pin and retire() each write first and then read what the other one wrote, so that one of them sees the other.
StreamPin::StreamPin(std::shared_ptr<StreamLife> life) : life_(std::move(life)) {
  if (!life_) return;
  ++life_->pins_;
  if (!life_->gone_) return;
  --life_->pins_;
  life_->pins_.notify_all();
  life_ = nullptr;
}

StreamPin::~StreamPin() {
  if (!life_) return;
  --life_->pins_;
  if (life_->gone_) life_->pins_.notify_all();
}

DeviceStream::DeviceStream() : life_(std::make_shared<StreamLife>(*this, next_stream_id())) {
  LiveStreams& live = LiveStreams::instance();
  const std::lock_guard lock(live.mutex);
  live.by_id.emplace(id(), life_);
}

void DeviceStream::retire() noexcept {
  if (life_->gone_.exchange(true)) return;
  for (int pins = life_->pins_; pins != 0; pins = life_->pins_) life_->pins_.wait(pins);
  LiveStreams& live = LiveStreams::instance();
  const std::lock_guard lock(live.mutex);
  live.by_id.erase(id());
}

bool DeviceStream::with_live(uint64_t id, const std::function<void(DeviceStream&)>& use) {
  std::shared_ptr<StreamLife> life;
  {
    LiveStreams& live = LiveStreams::instance();
    const std::lock_guard lock(live.mutex);
    const auto found = live.by_id.find(id);
    if (found != live.by_id.end()) life = found->second;
  }
  const StreamPin pin(std::move(life));
  if (pin.get() == nullptr) return false;
  use(*pin.get());
  return true;
}

void DeviceStream::begin_capture() {
  throw NotSupported(fmt::format("{} runs work when it is called, so there are no graphs to capture: call the function",
                                 to_string(device())));
}

std::unique_ptr<DeviceGraph> DeviceStream::end_capture() {
  throw NotSupported(fmt::format("{} captures no graphs", to_string(device())));
}

bool detail::capturing() { return captures > 0; }

void detail::refuse_in_capture(std::string_view what, std::string_view why) {
  if (capturing()) throw InvalidArgument(fmt::format("{} inside the capture of a graph: {}", what, why));
}

void detail::refuse_slab_in_capture(int64_t bytes) {
  if (!capturing()) return;  // the text costs
  refuse_in_capture(fmt::format("allocating {} bytes from the device", bytes),
                    "the pool has too little memory; call the function once before, which leaves the pool enough");
}

CaptureMark::CaptureMark() { ++captures; }
CaptureMark::~CaptureMark() { --captures; }

namespace {

// Events that nobody holds, for the next recording.
class EventStore {
 public:
  std::unique_ptr<DeviceEvent> take(Device device) {
    {
      const std::lock_guard lock(mutex_);
      for (size_t i = idle_.size(); i-- > 0;) {
        if (idle_[i].first != device) continue;
        std::unique_ptr<DeviceEvent> event = std::move(idle_[i].second);
        std::swap(idle_[i], idle_.back());
        idle_.pop_back();
        return event;
      }
    }
    return backend(device.kind).create_event(device.index);
  }
  void give_back(Device device, DeviceEvent* event) {
    const std::lock_guard lock(mutex_);
    idle_.emplace_back(device, event);
  }
  static EventStore& instance() {
    static EventStore& store = *new EventStore;  // arrays of static lifetime give their events back late
    return store;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<Device, std::unique_ptr<DeviceEvent>>> idle_;
};

}  // namespace

std::shared_ptr<DeviceEvent> detail::record_event(const std::shared_ptr<StreamLife>& life) {
  const StreamPin pin(life);
  if (pin.get() == nullptr) return nullptr;
  const Device device = pin.get()->device();
  std::unique_ptr<DeviceEvent> event = EventStore::instance().take(device);
  pin.get()->record(*event);
  return {event.release(), [device](DeviceEvent* done) { EventStore::instance().give_back(device, done); }};
}

std::unique_ptr<DeviceStream> Backend::create_stream_of_priority(int index, int) {
  return create_stream(index, StreamRole::compute);
}

std::unique_ptr<DeviceStream> Backend::wrap_stream(int, void*) {
  throw NotSupported(fmt::format("streams of {} are not made elsewhere: there is nothing to wrap", name(kind())));
}

}  // namespace quarry::local
