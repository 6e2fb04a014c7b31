#include "quarry/local/device/range.h"

#include <atomic>
#include <mutex>
#include <set>

#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"
#include "quarry/local/device/device.h"

namespace quarry::local {
namespace {

struct OpenRanges {
  RangeNames names{};
  int depth = 0;
};
thread_local constinit OpenRanges open_ranges;

std::atomic<Backend*> shower{nullptr};

// Once, at the first range of the process.
void read_environment() {
  static const bool read = [] {
    if (OptionValue(Option::nvtx).flag() && available(DeviceKind::cuda)) show_ranges(DeviceKind::cuda);
    return true;
  }();
  static_cast<void>(read);
}

const char* kept(const std::string& name) {
  static std::mutex& mutex = *new std::mutex;
  static auto& names = *new std::set<std::string, std::less<>>;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

}  // namespace

Range::Range(const char* name) {
  read_environment();
  OpenRanges& open = open_ranges;
  if (open.depth < kNamedRanges) open.names[static_cast<size_t>(open.depth)] = name;
  ++open.depth;
  shown_by_ = shower.load(std::memory_order_relaxed);
  if (shown_by_ != nullptr) shown_by_->push_range(name);
}

Range::Range(const std::string& name) : Range(kept(name)) {}

Range::~Range() {
  if (shown_by_ != nullptr) shown_by_->pop_range();
  OpenRanges& open = open_ranges;
  --open.depth;
  if (open.depth < kNamedRanges) open.names[static_cast<size_t>(open.depth)] = nullptr;
}

RangeNames detail::current_ranges() { return open_ranges.names; }

std::string detail::to_string(const RangeNames& names) {
  std::string text;
  for (const char* name : names) {
    if (name == nullptr) break;
    if (!text.empty()) text += " / ";
    text += name;
  }
  return text;
}

void show_ranges(std::optional<DeviceKind> kind) { shower = kind ? &backend(*kind) : nullptr; }

ProfilerScope::ProfilerScope(DeviceKind kind) : backend_(backend(kind)) { backend_.start_profiler(); }

ProfilerScope::~ProfilerScope() {
  try {
    backend_.stop_profiler();
  } catch (const std::exception& error) {
    log(LogLevel::warn, error.what());
  }
}

}  // namespace quarry::local
