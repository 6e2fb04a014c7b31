// Runs the blocks of a CUDA kernel on the host: every block in a thread of its own, every CUDA thread as a fiber in it.
// Barriers, shuffles, shared memory and waits between blocks behave as on a device; nothing is said about speed.
//
// Comes before the kernels that it runs (as local/cuda/eigh/kernels.cuh).
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __launch_bounds__(...)

namespace quarry::local::cuda {

using std::max;
using std::min;
using std::sqrt;

struct HostIndex {
  unsigned x = 0, y = 0, z = 0;
};

class HostBlock {
 public:
  static constexpr unsigned kWarpThreads = 32;

  HostBlock(HostIndex block, HostIndex blocks, unsigned threads, size_t bytes, std::function<void()> kernel)
      : block_(block),
        blocks_(blocks),
        memory_(std::make_unique<unsigned char[]>(bytes + 1)),
        kernel_(std::move(kernel)),
        fibers_(threads),
        warps_((threads + kWarpThreads - 1) / kWarpThreads) {}

  void run() {
    current() = this;
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = stack(i);
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = &main_;
      makecontext(&fiber.context, &HostBlock::begin, 0);
    }
    for (size_t left = fibers_.size(); left > 0;) {
      for (thread_ = 0; thread_ < fibers_.size(); ++thread_) {
        Fiber& fiber = fibers_[thread_];
        if (fiber.is_done || (fiber.awaited != nullptr && *fiber.awaited == fiber.round)) continue;
        fiber.awaited = nullptr;
        swapcontext(&main_, &fiber.context);
        if (fiber.is_done) --left;
      }
    }
  }

  static HostBlock*& current() {
    static thread_local HostBlock* block = nullptr;
    return block;
  }
  HostIndex thread() const { return {thread_}; }
  HostIndex block() const { return block_; }
  HostIndex blocks() const { return blocks_; }
  HostIndex threads() const { return {static_cast<unsigned>(fibers_.size())}; }
  unsigned char* memory() const { return memory_.get(); }

  void yield() { swapcontext(&fibers_[thread_].context, &main_); }
  void wait_for_block() { all_.wait(*this, fibers_.size()); }
  // f(of_lane), where of_lane(i) is what lane i of the warp gave.
  template <class F>
  void with_others(const void* own, const F& f) {
    Warp& warp = warps_[thread_ / kWarpThreads];
    const size_t lanes = std::min<size_t>(kWarpThreads, fibers_.size());
    warp.given[thread_ % kWarpThreads] = own;
    warp.barrier.wait(*this, lanes);
    f([&](unsigned lane) { return warp.given[lane]; });
    warp.barrier.wait(*this, lanes);
  }
  // The value that another lane of the warp gave.
  double exchange(double value, unsigned lane) {
    double got = 0;
    with_others(&value, [&](const auto& of_lane) { got = *static_cast<const double*>(of_lane(lane)); });
    return got;
  }

 private:
  static constexpr size_t kStack = 64 << 10;
  struct Fiber {
    ucontext_t context{};
    bool is_done = false;
    const size_t* awaited = nullptr;  // a barrier's round, which has to be another one than this
    size_t round = 0;
  };
  struct Barrier {
    size_t arrived = 0, round = 0;
    void wait(HostBlock& block, size_t count) {
      Fiber& fiber = block.fibers_[block.thread_];
      fiber.round = round;
      if (++arrived == count) {
        arrived = 0;
        ++round;
        return;
      }
      fiber.awaited = &round;
      block.yield();
    }
  };
  struct Warp {
    const void* given[kWarpThreads];
    Barrier barrier;
  };
  // Kept for the next block of this thread.
  static char* stack(size_t fiber) {
    static thread_local std::vector<std::unique_ptr<char[]>> stacks;
    while (stacks.size() <= fiber) stacks.push_back(std::make_unique_for_overwrite<char[]>(kStack));
    return stacks[fiber].get();
  }
  static void begin() {
    HostBlock& block = *current();
    block.kernel_();
    block.fibers_[block.thread_].is_done = true;
  }

  const HostIndex block_, blocks_;
  const std::unique_ptr<unsigned char[]> memory_;
  const std::function<void()> kernel_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  Barrier all_;
  ucontext_t main_{};
  unsigned thread_ = 0;
};

inline HostIndex own_thread() { return HostBlock::current()->thread(); }
inline HostIndex own_block() { return HostBlock::current()->block(); }
inline HostIndex all_blocks() { return HostBlock::current()->blocks(); }
inline HostIndex all_threads() { return HostBlock::current()->threads(); }
#define threadIdx own_thread()
#define blockIdx own_block()
#define gridDim all_blocks()
#define blockDim all_threads()

inline void __syncthreads() { HostBlock::current()->wait_for_block(); }
inline void __syncwarp() { HostBlock::current()->exchange(0, 0); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  HostBlock& block = *HostBlock::current();
  const unsigned lane = block.thread().x % HostBlock::kWarpThreads;
  return static_cast<T>(block.exchange(static_cast<double>(value), lane ^ static_cast<unsigned>(distance)));
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return static_cast<T>(HostBlock::current()->exchange(static_cast<double>(value), static_cast<unsigned>(lane)));
}
template <class T>
T __ldcg(const T* from) {
  T value;
  __atomic_load(from, &value, __ATOMIC_RELAXED);
  return value;
}
inline int atomicAdd(int* to, int value) { return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL); }
inline int atomicCAS(int* to, int expected, int value) {
  __atomic_compare_exchange_n(to, &expected, value, /*weak=*/false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
inline void wait_for_others() {
  std::this_thread::yield();
  HostBlock::current()->yield();
}
inline unsigned char* launch_memory() { return HostBlock::current()->memory(); }

// What tensor cores (local/cuda/eigh/windows.cuh) and copies behind a thread's back (kernel_memory.cuh) do.
inline void add_product(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
  struct Factors {
    const double *a, *b;
  } const own{a, b};
  HostBlock::current()->with_others(&own, [&](const auto& of_lane) {
    const unsigned lane = HostBlock::current()->thread().x % HostBlock::kWarpThreads;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4, column = lane % 4 * 2 + i % 2;
      double sum = 0;
      for (unsigned k = 0; k < 16; ++k) {
        const auto* left = static_cast<const Factors*>(of_lane(row * 4 + k / 4));
        const auto* right = static_cast<const Factors*>(of_lane(column * 4 + k / 4));
        sum += left->a[k % 4 * 2 + i / 2] * right->b[k % 4];
      }
      c[i] += sum;
    }
  });
}
template <class T>
void copy_later(T* to, const T* from) {
  *to = *from;
}
inline void wait_for_copies() {}

// How blocks tell each other of numbers and of steps.
template <class Word>
void write_word(Word* to, double value, uint32_t turn) {
  const auto bits = std::bit_cast<uint64_t>(value);
  __atomic_store_n(&to->low, static_cast<uint32_t>(bits), __ATOMIC_RELAXED);
  __atomic_store_n(&to->high, static_cast<uint32_t>(bits >> 32), __ATOMIC_RELAXED);
  __atomic_store_n(&to->turn, turn, __ATOMIC_RELEASE);
}
template <class Word>
bool read_word(const Word* from, uint32_t turn, double& value) {
  if (__atomic_load_n(&from->turn, __ATOMIC_ACQUIRE) != turn) return false;
  const uint64_t low = __atomic_load_n(&from->low, __ATOMIC_RELAXED);
  const uint64_t high = __atomic_load_n(&from->high, __ATOMIC_RELAXED);
  value = std::bit_cast<double>(high << 32 | low);
  return true;
}
inline void wait_for_steps(const int* progress, int steps) {
  while (__atomic_load_n(progress, __ATOMIC_ACQUIRE) < steps) wait_for_others();
}
inline void publish_steps(int* progress, int steps) { __atomic_store_n(progress, steps, __ATOMIC_RELEASE); }

// All blocks at once.
inline void run_blocks(HostIndex blocks, unsigned threads, size_t bytes, const std::function<void()>& kernel) {
  std::vector<std::thread> running;
  for (unsigned y = 0; y < blocks.y; ++y)
    for (unsigned x = 0; x < blocks.x; ++x)
      running.emplace_back([=, &kernel] { HostBlock({x, y}, blocks, threads, bytes, kernel).run(); });
  for (std::thread& one : running) one.join();
}

}  // namespace quarry::local::cuda
