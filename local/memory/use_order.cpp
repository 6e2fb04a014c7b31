#include "quarry/local/memory/use_order.h"

#include <algorithm>

namespace quarry::local {

std::vector<std::shared_ptr<StreamLife>> UseOrder::uses() const {
  if (!readers_.empty()) return readers_;
  return last_ ? std::vector{last_} : std::vector<std::shared_ptr<StreamLife>>{};
}

void UseOrder::read(DeviceStream& stream) {
  if (only_on(stream)) return;
  const std::lock_guard lock(mutex_);
  if (readers_.empty()) {
    if (!last_ || last_->id() == stream.id()) return set_only(stream.life());
    written_ = record_event(last_);
    if (!written_) return set_only(stream.life());  // the writer is gone, and its work done
    readers_.push_back(last_);
    only_.store(0, std::memory_order_release);
  }
  const auto known = [&](const std::shared_ptr<StreamLife>& life) { return life->id() == stream.id(); };
  if (std::any_of(readers_.begin(), readers_.end(), known)) return;
  stream.wait(*written_);
  readers_.push_back(stream.life());
}

void UseOrder::write(DeviceStream& stream) {
  if (only_on(stream)) return;
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<StreamLife>& life : uses()) {
    if (life->id() == stream.id()) continue;
    if (const std::shared_ptr<DeviceEvent> event = record_event(life)) stream.wait(*event);
  }
  readers_.clear();
  written_ = nullptr;
  set_only(stream.life());
}

void UseOrder::order_before(DeviceStream& stream) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<StreamLife>& life : uses()) {
    if (life->id() == stream.id()) continue;
    if (const std::shared_ptr<DeviceEvent> event = record_event(life)) stream.wait(*event);
  }
}

void UseOrder::synchronize() {
  std::vector<std::shared_ptr<DeviceEvent>> events;
  {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<StreamLife>& life : uses())
      if (std::shared_ptr<DeviceEvent> event = record_event(life)) events.push_back(std::move(event));
  }
  for (const std::shared_ptr<DeviceEvent>& event : events) event->synchronize();
}

StreamPin UseOrder::last() noexcept {
  if (readers_.empty()) return StreamPin(last_);
  StreamPin chosen;
  for (size_t i = readers_.size(); i-- > 0;) {
    if (chosen.get() == nullptr) {
      chosen = StreamPin(readers_[i]);
      continue;
    }
    try {
      if (const std::shared_ptr<DeviceEvent> event = record_event(readers_[i])) chosen.get()->wait(*event);
    } catch (...) {  // the device has failed: there is no later work that could see the memory
    }
  }
  return chosen;
}

}  // namespace quarry::local
