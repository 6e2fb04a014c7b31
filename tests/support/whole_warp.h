// What code of a warp needs of CUDA, on the host: a warp of 32 threads. Each is a fiber that runs until it waits for
// the others, so that it is ahead of them, or behind, wherever the code does not say that they wait.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/support/warp_intrinsics.h"

namespace quarry::local::cuda {
namespace {

constexpr int kWarp = 32;

struct ThreadIndex {
  uint32_t x = 0;
};
ThreadIndex threadIdx;

class Warp {
 public:
  // Calls `body` in each thread: in the order of their numbers, or the other way round. False where some wait for
  // others that have ended.
  bool run(std::function<void()> body, bool backward) {
    constexpr size_t kStackBytes = 256 << 10;
    stacks_.resize(kWarp * kStackBytes);
    body_ = std::move(body);
    step_ = backward ? kWarp - 1 : 1;
    ended_ = 0;
    is_even_ = true;
    for (uint32_t t = 0; t < kWarp; ++t) {
      getcontext(&threads_[t]);
      threads_[t].uc_stack.ss_sp = stacks_.data() + t * kStackBytes;
      threads_[t].uc_stack.ss_size = kStackBytes;
      threads_[t].uc_link = nullptr;
      makecontext(&threads_[t], &Warp::thread, 0);
    }
    threadIdx.x = backward ? kWarp - 1 : 0;
    swapcontext(&caller_, &threads_[threadIdx.x]);
    threadIdx.x = 0;
    return is_even_;
  }
  // Until all threads are here.
  void wait() {
    if (ended_ > 0) {  // the rest would wait for ever
      is_even_ = false;
      setcontext(&caller_);
    }
    const uint32_t mine = threadIdx.x;
    threadIdx.x = (mine + step_) % kWarp;
    swapcontext(&threads_[mine], &threads_[threadIdx.x]);
  }
  // What `value` is in each thread.
  template <class T>
  std::vector<T> values(T value) {
    uint64_t(&slots)[kWarp] = slots_[turns_[threadIdx.x]++ % 2];  // others may still read those before
    std::memcpy(&slots[threadIdx.x], &value, sizeof value);
    wait();
    std::vector<T> all(kWarp);
    for (size_t t = 0; t < kWarp; ++t) std::memcpy(&all[t], &slots[t], sizeof value);
    return all;
  }
  static Warp& instance() {
    static Warp warp;
    return warp;
  }

 private:
  static void thread() {
    Warp& warp = instance();
    warp.body_();
    if (++warp.ended_ == kWarp) setcontext(&warp.caller_);
    threadIdx.x = (threadIdx.x + warp.step_) % kWarp;
    setcontext(&warp.threads_[threadIdx.x]);
  }
  std::vector<char> stacks_;
  std::function<void()> body_;
  ucontext_t caller_{}, threads_[kWarp]{};
  uint64_t slots_[2][kWarp]{};
  uint32_t turns_[kWarp]{};
  uint32_t step_ = 1;
  int ended_ = 0;
  bool is_even_ = true;
};

inline void __syncwarp() { Warp::instance().wait(); }
template <class F>
unsigned threads_where(const F& f) {
  unsigned out = 0;
  for (unsigned t = 0; t < kWarp; ++t) out |= f(t) ? 1u << t : 0;
  return out;
}
inline unsigned __ballot_sync(unsigned /*mask*/, bool value) {
  const auto values = Warp::instance().values(static_cast<int>(value));
  return threads_where([&](unsigned t) { return values[t] != 0; });
}
inline unsigned __match_any_sync(unsigned /*mask*/, int value) {
  const auto values = Warp::instance().values(value);
  return threads_where([&](unsigned t) { return values[t] == value; });
}
template <class T>
T __shfl_sync(unsigned /*mask*/, T value, int lane) {
  return Warp::instance().values(value)[static_cast<size_t>(lane)];
}
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int distance) {
  return Warp::instance().values(value)[threadIdx.x ^ static_cast<uint32_t>(distance)];
}

}  // namespace
}  // namespace quarry::local::cuda
