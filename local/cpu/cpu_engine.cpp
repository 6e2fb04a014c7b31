#include "quarry/local/cpu/cpu_engine.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/code.h"
#include "quarry/local/cpu/decompositions.h"
#include "quarry/local/cpu/indexing.h"
#include "quarry/local/cpu/interpreter.h"
#include "quarry/local/cpu/kernels.h"
#include "quarry/local/cpu/layout.h"
#include "quarry/local/cpu/products.h"
#include "quarry/local/cpu/scanning.h"
#include "quarry/local/cpu/small.h"
#include "quarry/local/cpu/sobol.h"
#include "quarry/local/cpu/sorting/sorting.h"
#include "quarry/local/cpu/sparse.h"
#include "quarry/local/cpu/transforms.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local {
namespace {

int slots_for(int64_t units, int threads) {
  const int64_t most = threads > 0 ? std::min(threads, cpu::arena_threads()) : cpu::arena_threads();
  return static_cast<int>(std::clamp<int64_t>(units, 1, most));
}

// Equal but for the values of the constants.
bool same_structure(const Program& a, const Program& b) {
  const auto same_value = [](const Value& x, const Value& y) {
    return x.kind == y.kind && x.dtype == y.dtype && x.op == y.op && x.loop == y.loop && x.nargs == y.nargs &&
           std::equal(x.args, x.args + 3, y.args) && x.slot == y.slot && x.swapped == y.swapped;
  };
  const auto same_reduction = [](const ProgramReduction& x, const ProgramReduction& y) {
    return x.reduction == y.reduction && x.accumulate == y.accumulate && x.args == y.args;
  };
  return a.values().size() == b.values().size() && a.outputs() == b.outputs() &&
         std::equal(a.values().begin(), a.values().end(), b.values().begin(), same_value) &&
         std::equal(a.reductions().begin(), a.reductions().end(), b.reductions().begin(), b.reductions().end(),
                    same_reduction);
}

class CpuEngine final : public Engine {
 public:
  int64_t run_scratch_bytes(const Program& program, const Launch& launch) override {
    const std::shared_ptr<const cpu::Code> code = lowered(program);
    const cpu::Layout layout = cpu::make_layout(*code, program.constants(), launch);
    return cpu::ScratchMap(*code, layout).bytes(slots_for(layout.units(), 0));
  }

  void run(const Program& program, const Launch& launch, const ExecContext& context) override {
    QUARRY_CHECK(static_cast<int>(launch.inputs.size()) == program.inputs());
    QUARRY_CHECK(launch.outputs.size() == program.outputs().size());
    const std::shared_ptr<const cpu::Code> code = lowered(program);
    size_t fields = 0;
    for (const cpu::CodeReduction& reduction : code->reductions) fields += static_cast<size_t>(reduction.fields);
    QUARRY_CHECK(launch.states.size() == fields);
    if (cpu::run_small(*code, loops_, program.constants(), launch)) return;
    const cpu::Layout layout = cpu::make_layout(*code, program.constants(), launch);
    const cpu::ScratchMap map(*code, layout);
    const int slots = slots_for(layout.units(), context.threads);
    const Scratch scratch(map.bytes(slots), context);
    cpu::interpret(*code, layout, map, loops_, program.constants(), launch, static_cast<char*>(scratch.data()), slots);
  }

  Decompositions& decompositions() override { return cpu_decompositions(); }
  Indexing& indexing() override { return cpu_indexing(); }
  Products& products() override { return cpu_products(); }
  RandomWords& random_words() override { return cpu_random_words(); }
  Scanning& scanning() override { return cpu_scanning(); }
  Sorting& sorting() override { return cpu_sorting(); }
  UserKernels& kernels() override { return cpu_kernels(); }
  SparseProducts& sparse() override { return cpu_sparse(); }
  Transforms& transforms() override { return cpu_transforms(); }

 private:
  // The lowered form of a program, kept for the last few structures that this thread ran.
  std::shared_ptr<const cpu::Code> lowered(const Program& program) const {
    struct Entry {
      Program program;
      std::shared_ptr<const cpu::Code> code;
    };
    constexpr size_t kEntries = 16;
    thread_local std::vector<Entry> recent;
    thread_local size_t oldest = 0;
    for (const Entry& entry : recent)
      if (same_structure(entry.program, program)) return entry.code;
    Entry made{program, std::make_shared<const cpu::Code>(cpu::lower(program, loops_))};
    if (recent.size() < kEntries) {
      recent.push_back(made);
    } else {
      recent[oldest] = made;
      oldest = (oldest + 1) % kEntries;
    }
    return made.code;
  }

  const cpu::Loops& loops_ = cpu::loops(cpu::cpu_level());
};

}  // namespace

Engine& cpu_engine() {
  static CpuEngine& engine = *new CpuEngine;  // never destroyed: work may end after static objects
  return engine;
}

}  // namespace quarry::local
