// A mutex for what is held for a microsecond at most: who finds it taken tries again for about as long before it
// sleeps, since sleeping and being woken takes ten times that.
#pragma once

#include <mutex>

namespace quarry::comm {

class SpinMutex {
 public:
  void lock() {
    constexpr int kTries = 64;
    for (int i = 0; i < kTries; ++i) {
      if (mutex_.try_lock()) return;
#if defined(__x86_64__)
      for (int k = 0; k < 16; ++k) __builtin_ia32_pause();
#endif
    }
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace quarry::comm
