#include "quarry/local/cpu/arena.h"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "quarry/local/cpu/cpu_engine.h"

namespace quarry::local {
namespace cpu {
namespace {

std::unique_ptr<tbb::task_arena>& arena() {
  static std::unique_ptr<tbb::task_arena> instance = std::make_unique<tbb::task_arena>();
  return instance;
}

}  // namespace

int arena_threads() { return arena()->max_concurrency(); }

void for_each_unit(int64_t units, int slots, const std::function<void(int64_t unit, int slot)>& body) {
  if (units <= 1 || slots <= 1) {
    for (int64_t unit = 0; unit < units; ++unit) body(unit, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  arena()->execute([&] {
    tbb::parallel_for(
        0, slots,
        [&](int slot) {
          for (int64_t unit; (unit = next.fetch_add(1, std::memory_order_relaxed)) < units;) body(unit, slot);
        },
        tbb::simple_partitioner());
  });
}

}  // namespace cpu

void set_cpu_threads(int threads) {
  cpu::arena() = threads > 0 ? std::make_unique<tbb::task_arena>(threads) : std::make_unique<tbb::task_arena>();
}

int cpu_threads() { return cpu::arena_threads(); }

}  // namespace quarry::local
