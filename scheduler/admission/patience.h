// Whether what memory is waited for can still come.
#pragma once

#include <chrono>
#include <cstdint>

namespace quarry::scheduler {

// Of one request: how long it has seen nothing move. Work that takes long is no reason to give up; that nobody works
// and nothing is given back is one.
class Patience {
 public:
  // `movements`: counts whatever may lead to memory being given back. `at_work`: somebody is at work whose end will be
  // one more.
  bool is_over(int64_t movements, bool at_work, std::chrono::milliseconds limit) {
    const auto now = std::chrono::steady_clock::now();
    if (at_work || movements != seen_) {
      seen_ = movements;
      since_ = now;
    }
    return now - since_ > limit;
  }
  // Of a new request.
  void begin() { seen_ = -1; }

 private:
  int64_t seen_ = -1;
  std::chrono::steady_clock::time_point since_{};
};

}  // namespace quarry::scheduler
