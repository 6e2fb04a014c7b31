// Random delays at every lock and queue of quarry, to find what goes wrong between threads only when the machine is
// busy. A library for LD_PRELOAD in front of any program of quarry: it stands between the program and the functions by
// which threads lock and wait for each other, so that programs without it lose nothing.
//
// QUARRY_DELAYS=SEED[,LONGEST_US]: the same seed gives each thread the same delays, in the order in which threads first
// lock; the longest is 300 us by default, and now and then twenty times as long.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

struct Range {
  uintptr_t begin, end;
};
constexpr int kMostRanges = 64;
Range ranges[kMostRanges];
std::atomic<int> range_count{0};
std::atomic<uint64_t> threads{0};
uint64_t seed = 0;
int64_t longest_us = 300;
std::atomic<bool> on{false};

thread_local uint64_t state = 0;

// The code of quarry's libraries, of the program itself, which has no name here, and of std::condition_variable and of
// ThreadSanitizer, which stands before this library.
int add_ranges(dl_phdr_info* info, size_t /*size*/, void* /*data*/) {
  const bool is_ours = info->dlpi_name[0] == '\0' || std::strstr(info->dlpi_name, "libquarry_") != nullptr ||
                       std::strstr(info->dlpi_name, "libstdc++") != nullptr ||
                       std::strstr(info->dlpi_name, "libtsan") != nullptr;
  for (int i = 0; is_ours && i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0 || range_count >= kMostRanges) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    ranges[range_count] = {begin, begin + header.p_memsz};
    ++range_count;
  }
  return 0;
}

__attribute__((constructor)) void start() {
  const char* const text = std::getenv("QUARRY_DELAYS");
  if (text == nullptr) return;
  char* rest = nullptr;
  seed = std::strtoull(text, &rest, 10);
  if (*rest == ',') longest_us = std::atoll(rest + 1);
  dl_iterate_phdr(add_ranges, nullptr);
  on = true;
}

bool is_ours(const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  for (int i = 0; i < range_count; ++i) {
    if (at >= ranges[i].begin && at < ranges[i].end) return true;
  }
  return false;
}

uint64_t next_random() {
  if (state == 0) state = (seed + 1) * 0x9e3779b97f4a7c15ULL ^ (++threads * 0xbf58476d1ce4e5b9ULL);
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

void delay(const void* caller) {
  if (!on.load(std::memory_order_relaxed) || !is_ours(caller)) return;
  const uint64_t random = next_random();
  if (random % 16 != 0) return;
  if (random % 64 != 0) {
    sched_yield();
    return;
  }
  constexpr int64_t kRarely = 64, kLonger = 20, kMicro = 1000;
  const int64_t longest = random / 64 % kRarely == 0 ? kLonger * longest_us : longest_us;
  const int64_t ns = static_cast<int64_t>(random >> 20) % (longest * kMicro + 1);
  const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&time, nullptr);
}

// The function behind this library. An atomic and no static initialiser, whose guard ThreadSanitizer does not see in a
// function that stands for one of its own.
template <class Function>
Function* real(std::atomic<Function*>& known, const char* name) {
  Function* found = known.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    known.store(found, std::memory_order_release);
  }
  return found;
}

}  // namespace

// Before a lock is taken, and after it has been given back; before and after a wait; before who waits is woken.
#define QUARRY_DELAYED(name, parameters, arguments)                   \
  extern "C" int name parameters {                                    \
    static std::atomic<int(*) parameters> behind = nullptr;           \
    const void* const caller = __builtin_return_address(0);           \
    delay(caller);                                                    \
    const int result = real<int parameters>(behind, #name) arguments; \
    delay(caller);                                                    \
    return result;                                                    \
  }

QUARRY_DELAYED(pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
QUARRY_DELAYED(pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
QUARRY_DELAYED(pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
QUARRY_DELAYED(pthread_cond_signal, (pthread_cond_t * condition), (condition))
QUARRY_DELAYED(pthread_cond_broadcast, (pthread_cond_t * condition), (condition))
QUARRY_DELAYED(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t* mutex), (condition, mutex))
QUARRY_DELAYED(pthread_cond_timedwait, (pthread_cond_t * condition, pthread_mutex_t* mutex, const timespec* until),
               (condition, mutex, until))
QUARRY_DELAYED(pthread_cond_clockwait,
               (pthread_cond_t * condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until),
               (condition, mutex, clock, until))
