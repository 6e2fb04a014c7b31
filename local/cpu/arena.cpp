#include "quarry/local/cpu/arena.h"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string_view>

#ifdef QUARRY_TELL_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#include "quarry/local/base/error.h"
#include "quarry/local/base/thread.h"
#include "quarry/local/cpu/cpu_engine.h"

namespace quarry::local {
namespace cpu {
namespace {

// Leaked on purpose: threads of emulated devices may outlive this file's statics.
std::unique_ptr<tbb::task_arena>& arena() {
  static auto* const instance = new std::unique_ptr<tbb::task_arena>(std::make_unique<tbb::task_arena>());
  return *instance;
}

// ThreadSanitizer does not see into TBB: what it orders is told here, and this file is compiled without checks.
#ifdef QUARRY_TELL_TSAN
void happens_before(void* of) { __tsan_release(of); }
void happens_after(void* of) { __tsan_acquire(of); }
#else
void happens_before(void* /*of*/) {}
void happens_after(void* /*of*/) {}
#endif

}  // namespace

int arena_threads() { return arena()->max_concurrency(); }

void for_each_unit(int64_t units, int slots, const std::function<void(int64_t unit, int slot)>& body) {
  if (units <= 1 || slots <= 1) {
    for (int64_t unit = 0; unit < units; ++unit) body(unit, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  char begin = 0, end = 0;  // their addresses count
  happens_before(&begin);
  try {
    arena()->execute([&] {
      tbb::parallel_for(
          0, slots,
          [&](int slot) {
            happens_after(&begin);
            for (int64_t unit; (unit = next.fetch_add(1, std::memory_order_relaxed)) < units;) body(unit, slot);
            happens_before(&end);
          },
          tbb::simple_partitioner());
    });
  } catch (const std::runtime_error& error) {
    // TBB's only one of its own.
    if (!std::string_view(error.what()).starts_with("pthread_create")) throw;
    throw OutOfMemory(fmt::format("a thread for tiles cannot be started: {}{}", error.what(), process_limits()));
  }
  happens_after(&end);
}

}  // namespace cpu

void set_cpu_threads(int threads) {
  cpu::arena() = threads > 0 ? std::make_unique<tbb::task_arena>(threads) : std::make_unique<tbb::task_arena>();
}

int cpu_threads() { return cpu::arena_threads(); }

}  // namespace quarry::local
