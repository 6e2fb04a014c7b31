// What has been queued on a device's streams and is not known to be done.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "quarry/local/device/device.h"

namespace quarry::scheduler {

// Tasks that were queued on a stream together: done when their event is reached.
struct IssuedRound {
  std::shared_ptr<local::DeviceEvent> event;
  std::vector<int32_t> tasks;  // live ones
};

// By stream, in the order of queueing, which is that of ending. Not thread-safe: the executor's lock guards it.
class IssuedRounds {
 public:
  // Streams that are new; returns the first one's number.
  int add_streams(size_t count) {
    const auto first = static_cast<int>(by_stream_.size());
    by_stream_.resize(by_stream_.size() + count);
    return first;
  }
  size_t stream_count() const { return by_stream_.size(); }
  bool empty() const { return count_ == 0; }
  // Null where nothing of the stream is under way.
  std::shared_ptr<local::DeviceEvent> first_event(size_t stream) const {
    return by_stream_[stream].empty() ? nullptr : by_stream_[stream].front().event;
  }
  void push(size_t stream, IssuedRound round) {
    by_stream_[stream].push_back(std::move(round));
    ++count_;
  }
  IssuedRound pop(size_t stream) {
    IssuedRound round = std::move(by_stream_[stream].front());
    by_stream_[stream].pop_front();
    --count_;
    return round;
  }

 private:
  std::vector<std::deque<IssuedRound>> by_stream_;
  int64_t count_ = 0;
};

// Events of a device that are used again and again. Not thread-safe: the executor's lock guards it.
class EventPool {
 public:
  EventPool(local::Backend& backend, local::Device device) : backend_(backend), device_(device) {}
  std::shared_ptr<local::DeviceEvent> acquire() {
    if (idle_.empty()) return backend_.create_event(device_.index);
    std::shared_ptr<local::DeviceEvent> event = std::move(idle_.back());
    idle_.pop_back();
    return event;
  }
  // Null is none, and one that others hold is left to them.
  void recycle(std::shared_ptr<local::DeviceEvent> event) {
    if (event && event.use_count() == 1) idle_.push_back(std::move(event));
  }

 private:
  local::Backend& backend_;
  const local::Device device_;
  std::vector<std::shared_ptr<local::DeviceEvent>> idle_;
};

}  // namespace quarry::scheduler
