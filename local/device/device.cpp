#include "quarry/local/device/device.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

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
  }
  return "unknown";
}

std::string to_string(const Device& device) {
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
  std::unordered_map<uint64_t, DeviceStream*> by_id;
  static LiveStreams& instance() {
    static LiveStreams& streams = *new LiveStreams;  // some streams live as long as the process
    return streams;
  }
};

uint64_t next_stream_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

DeviceStream::DeviceStream() : id_(next_stream_id()) {
  LiveStreams& live = LiveStreams::instance();
  const std::lock_guard lock(live.mutex);
  live.by_id.emplace(id_, this);
}

void DeviceStream::retire() noexcept {
  LiveStreams& live = LiveStreams::instance();
  const std::lock_guard lock(live.mutex);
  live.by_id.erase(id_);
}

bool DeviceStream::with_live(uint64_t id, const std::function<void(DeviceStream&)>& use) {
  LiveStreams& live = LiveStreams::instance();
  const std::lock_guard lock(live.mutex);
  const auto found = live.by_id.find(id);
  if (found == live.by_id.end()) return false;
  use(*found->second);
  return true;
}

}  // namespace quarry::local
