#include "quarry/local/cpu/blas_threads.h"

#include <cblas.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/base/thread.h"
#include "quarry/local/cpu/arena.h"

// OpenBLAS's own: a buffer for one call, which stays its own for ever, and its return.
extern "C" {
__attribute__((weak)) void* blas_memory_alloc(int position);
__attribute__((weak)) void blas_memory_free(void* buffer);
}

namespace quarry::local::cpu {
namespace {

constexpr size_t kBufferBytes = size_t{32} << 22;  // common_x86_64.h and common_arm64.h
constexpr size_t kPageBytes = 4096;

// The calls under way, of all threads, and the host program's number of OpenBLAS threads meanwhile.
std::mutex blas_mutex;
std::condition_variable call_ended;
int blas_calls = 0;
int blas_threads = 1;
thread_local int calls_of_thread = 0;

// OpenBLAS's buffers that it was made to take. Leaked on purpose: threads may outlive this file's statics.
std::set<void*>& buffers() {
  static auto* const known = new std::set<void*>;
  return *known;
}

bool is_room_for_buffer() {
  void* const probe =
      mmap(nullptr, kBufferBytes + kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, kBufferBytes + kPageBytes);
  return true;
}

// Under the lock. How many calls at a time find a buffer each, if possible so many.
int buffers_for(int calls) {
  const auto wanted = static_cast<size_t>(calls);
  if (blas_memory_alloc == nullptr || blas_memory_free == nullptr) return calls;  // another library
  std::vector<void*> held;
  // It gives a free one that it has first.
  while (buffers().size() < wanted && is_room_for_buffer()) {
    held.push_back(blas_memory_alloc(0));
    buffers().insert(held.back());
  }
  for (void* const buffer : held) blas_memory_free(buffer);
  return static_cast<int>(buffers().size());
}

}  // namespace

OneThreadPerCall::OneThreadPerCall(int calls) {
  std::unique_lock lock(blas_mutex);
  const int had = calls_of_thread, more = std::max(calls - had, 0);
  while (more > 0) {
    added_ = std::clamp(buffers_for(blas_calls + more) - blas_calls, 0, more);
    if (added_ > 0 || had > 0) break;
    if (blas_calls == 0) {
      throw OutOfMemory(fmt::format("OpenBLAS cannot have the {} of address space that a call takes{}",
                                    format_bytes(kBufferBytes), process_limits()));
    }
    call_ended.wait(lock);
  }
  calls_of_thread = calls_ = had + added_;
  if (added_ == 0) return;
  if (blas_calls == 0) {
    blas_threads = openblas_get_num_threads();
    if (blas_threads != 1) openblas_set_num_threads(1);
  }
  blas_calls += added_;
}

OneThreadPerCall::~OneThreadPerCall() {
  if (added_ == 0) return;
  {
    const std::lock_guard lock(blas_mutex);
    calls_of_thread -= added_;
    blas_calls -= added_;
    if (blas_calls == 0 && blas_threads != 1) openblas_set_num_threads(blas_threads);
  }
  call_ended.notify_all();
}

void for_each_blas_unit(int64_t units, int slots, const std::function<void(int64_t unit, int slot)>& body) {
  const OneThreadPerCall scope(static_cast<int>(std::clamp<int64_t>(units, 1, std::max(slots, 1))));
  for_each_unit(units, std::min(slots, scope.calls()), [&](int64_t unit, int slot) {
    // The scope's calls are this thread's, too: one of its own would wait for itself.
    struct Borrowed {
      int before = std::exchange(calls_of_thread, std::max(calls_of_thread, 1));
      ~Borrowed() { calls_of_thread = before; }
    } const borrowed;
    body(unit, slot);
  });
}

}  // namespace quarry::local::cpu
