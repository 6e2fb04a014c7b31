// What generated kernels ask of CUDA, on the host, and run(), which executes a grid: the threads of a block are fibers
// that run in turn from barrier to barrier. Stands before the kernels' text in a source that the system's compiler
// compiles (kernels_on_host.cpp); local/program/op_functions.h stands before it, local/cuda/kernel/support.cuh behind.
//
// What a GPU leaves undefined is an error here: a barrier or a shuffle that some threads do not reach, a wide access
// that is not aligned. Shared memory holds no zeros at first, and every other block runs its threads backwards, so that
// values read before they are written and missing barriers show as wrong results.
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define __device__
#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("shared_memory")))

// Large enough for every kernel's.
__shared__ __align__(16) char dynamic_shared_memory[160 << 10];
#define QUARRY_DYNAMIC_SHARED(name) char* const name = dynamic_shared_memory

struct Index3 {
  unsigned x, y, z;
};
static Index3 threadIdx, blockIdx, gridDim;

namespace on_host {

constexpr int kThreads = 256, kWarp = 32;
constexpr size_t kStackBytes = 256 << 10;

enum class State : char { ready, at_barrier, at_shuffle, done };
struct Thread {
  jmp_buf place;
  State state;
  bool started;  // has a fiber, which waits at `place`
  unsigned turn;
};
static Thread threads[kThreads];
static jmp_buf scheduler;
static ucontext_t context;
static char* stacks = nullptr;
static void (*kernel)(const void*);
static const void* parameters;
static char message[256];

// Not inlined: nothing but what setjmp() keeps is alive across the switch.
__attribute__((noinline)) static void switch_to(jmp_buf& from, jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}
static void wait(State state) {
  Thread& own = threads[threadIdx.x];
  own.state = state;
  switch_to(own.place, scheduler);
}
static void note(const char* what, unsigned a, unsigned b) {
  if (message[0] == 0)
    snprintf(message, sizeof(message), "block (%u, %u, %u), thread %u: %s (%u of %u)", blockIdx.x, blockIdx.y,
             blockIdx.z, threadIdx.x, what, a, b);
}
[[noreturn]] static void fail(const char* what, unsigned a, unsigned b) {
  note(what, a, b);
  _longjmp(scheduler, 1);
}

// A fiber runs one thread of block after block.
static void fiber() {
  for (;;) {
    kernel(parameters);
    wait(State::done);
  }
}
__attribute__((noinline)) static void resume(unsigned t) {
  threadIdx.x = t;
  if (_setjmp(scheduler) != 0) return;
  if (threads[t].started) _longjmp(threads[t].place, 1);
  threads[t].started = true;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks + t * kStackBytes;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, &fiber, 0);
  setcontext(&context);
}

// Lets those go on that wait for nobody any more; false where nobody can.
static bool release() {
  bool released = false;
  unsigned done = 0, at_barrier = 0;
  for (unsigned first = 0; first < kThreads; first += kWarp) {
    unsigned shuffling = 0;
    for (unsigned t = first; t < first + kWarp; ++t) {
      shuffling += threads[t].state == State::at_shuffle;
      at_barrier += threads[t].state == State::at_barrier;
      done += threads[t].state == State::done;
    }
    if (shuffling != 0 && shuffling != kWarp) {
      threadIdx.x = first;
      note("a shuffle that only some lanes of the warp reach", shuffling, kWarp);
      return false;
    }
    for (unsigned t = first; t < first + kWarp && shuffling != 0; ++t) threads[t].state = State::ready;
    released = released || shuffling != 0;
  }
  if (released || done == kThreads) return released;
  if (at_barrier != kThreads) {
    note("a barrier that only some threads of the block reach", at_barrier, kThreads);
    return false;
  }
  for (Thread& thread : threads) thread.state = State::ready;
  return true;
}

extern "C" char __start_shared_memory[] __attribute__((weak)), __stop_shared_memory[] __attribute__((weak));

static void run_block(bool backwards) {
  if (__start_shared_memory != nullptr)
    memset(__start_shared_memory, 0xa5, static_cast<size_t>(__stop_shared_memory - __start_shared_memory));
  for (Thread& thread : threads) {
    thread.state = State::ready;
    thread.turn = 0;
  }
  do {
    for (unsigned k = 0; k < kThreads; ++k) {
      const unsigned t = backwards ? kThreads - 1 - k : k;
      if (threads[t].state == State::ready) resume(t);
      if (message[0] != 0) return;
    }
  } while (release());
}

// Null, or what went wrong.
extern "C" __attribute__((visibility("default"))) const char* run(void (*call)(const void*), const void* slots,
                                                                  int64_t grid_x, int64_t grid_y, int64_t grid_z) {
  if (stacks == nullptr)
    stacks = static_cast<char*>(mmap(nullptr, kThreads * kStackBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (stacks == MAP_FAILED) return "no memory for stacks";
  kernel = call;
  parameters = slots;
  message[0] = 0;
  gridDim = {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y), static_cast<unsigned>(grid_z)};
  static bool backwards = false;
  for (blockIdx.z = 0; blockIdx.z < grid_z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid_y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid_x; ++blockIdx.x) {
        run_block(backwards);
        backwards = !backwards;
        if (message[0] == 0) continue;
        for (Thread& thread : threads) thread.started = false;  // fibers that stopped inside of a kernel
        return message;
      }
  return nullptr;
}

// Of an access of `bytes`; the compiler takes every address of the type for aligned.
inline void check_aligned(const void* at, unsigned bytes) {
  uintptr_t address = reinterpret_cast<uintptr_t>(at);
  asm volatile("" : "+r"(address));
  if (address % bytes != 0) fail("a wide access that is not aligned", static_cast<unsigned>(address % bytes), bytes);
}
template <unsigned Bytes>
struct Words;
template <>
struct Words<8> {
  uint32_t x, y;
};
template <>
struct Words<16> {
  uint32_t x, y, z, w;
};
template <unsigned Bytes>
struct alignas(Bytes) Wide : Words<Bytes> {
  Wide() = default;
  Wide(const Wide& other) { *this = other; }
  Wide& operator=(const Wide& other) {
    check_aligned(this, Bytes);
    check_aligned(&other, Bytes);
    memcpy(static_cast<Words<Bytes>*>(this), &other, Bytes);
    return *this;
  }
};

}  // namespace on_host

[[maybe_unused]] static const Index3 blockDim{on_host::kThreads, 1, 1};
using uint2 = on_host::Wide<8>;
using uint4 = on_host::Wide<16>;

static inline uint32_t __umulhi(uint32_t x, uint32_t y) {
  return static_cast<uint32_t>((static_cast<uint64_t>(x) * y) >> 32);
}
static void __syncthreads() { on_host::wait(on_host::State::at_barrier); }
static inline void __syncwarp() { on_host::wait(on_host::State::at_shuffle); }
// One thread runs at a time.
template <class T>
static T atomicAdd(T* at, T more) {
  const T before = *at;
  *at += more;
  return before;
}
template <class T>
static T atomicMin(T* at, T other) {
  const T before = *at;
  if (other < before) *at = other;
  return before;
}
template <class T>
static T atomicMax(T* at, T other) {
  const T before = *at;
  if (before < other) *at = other;
  return before;
}
template <class T>
static T atomicCAS(T* at, T expected, T next) {
  const T before = *at;
  if (before == expected) *at = next;
  return before;
}
static inline int __popc(uint32_t x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static int __syncthreads_or(int any) {
  static bool given[on_host::kThreads];
  given[threadIdx.x] = any != 0;
  __syncthreads();
  any = 0;
  for (const bool one : given) any |= one;
  __syncthreads();
  return any;
}
// Two buffers in turn: who reads one is done before anybody writes it again.
template <class T>
static T __shfl_up_sync(uint32_t mask, T value, unsigned distance) {
  static T exchanged[2][on_host::kThreads];
  const unsigned me = threadIdx.x;
  if (mask != 0xffffffffu) on_host::fail("a shuffle of some lanes", mask, 0xffffffffu);
  unsigned& turn = on_host::threads[me].turn;
  exchanged[turn][me] = value;
  on_host::wait(on_host::State::at_shuffle);
  value = exchanged[turn][me % on_host::kWarp >= distance ? me - distance : me];
  turn ^= 1u;
  return value;
}
static uint32_t __shfl_down_sync(uint32_t mask, uint32_t value, unsigned distance, int width) {
  static uint32_t exchanged[2][on_host::kThreads];
  const unsigned me = threadIdx.x, in_group = me % static_cast<unsigned>(width);
  if (mask != 0xffffffffu) on_host::fail("a shuffle of some lanes", mask, 0xffffffffu);
  unsigned& turn = on_host::threads[me].turn;
  exchanged[turn][me] = value;
  on_host::wait(on_host::State::at_shuffle);
  value = exchanged[turn][in_group + distance < static_cast<unsigned>(width) ? me + distance : me];
  turn ^= 1u;
  return value;
}

template <class T>
static T __shfl_sync(uint32_t mask, T value, int lane) {
  static T exchanged[2][on_host::kThreads];
  const unsigned me = threadIdx.x;
  if (mask != 0xffffffffu) on_host::fail("a shuffle of some lanes", mask, 0xffffffffu);
  unsigned& turn = on_host::threads[me].turn;
  exchanged[turn][me] = value;
  on_host::wait(on_host::State::at_shuffle);
  value = exchanged[turn][me - me % on_host::kWarp + static_cast<unsigned>(lane)];
  turn ^= 1u;
  return value;
}
template <class T>
static T __shfl_xor_sync(uint32_t mask, T value, int lanes) {
  static T exchanged[2][on_host::kThreads];
  const unsigned me = threadIdx.x;
  if (mask != 0xffffffffu) on_host::fail("a shuffle of some lanes", mask, 0xffffffffu);
  unsigned& turn = on_host::threads[me].turn;
  exchanged[turn][me] = value;
  on_host::wait(on_host::State::at_shuffle);
  value = exchanged[turn][me ^ static_cast<unsigned>(lanes)];
  turn ^= 1u;
  return value;
}

namespace quarry::local {

template <class To, class From>
QUARRY_FN To bit_copy(const From& from) {
  return std::bit_cast<To>(from);
}

}  // namespace quarry::local
