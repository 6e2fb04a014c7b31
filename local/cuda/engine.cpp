#include "quarry/local/cuda/engine.h"

#include <fmt/format.h>

#include <deque>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/bit_generators.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/codegen/codegen.h"
#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/decompositions.h"
#include "quarry/local/cuda/driver.h"
#include "quarry/local/cuda/indexing.h"
#include "quarry/local/cuda/kernels.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/launch_memo.h"
#include "quarry/local/cuda/layout.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/cuda/products.h"
#include "quarry/local/cuda/scanning.h"
#include "quarry/local/cuda/sorting/sorting.h"
#include "quarry/local/cuda/sparse/sparse.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/cuda/transforms.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local::cuda {

void launch_kernel(CUfunction kernel, int64_t grid_x, int64_t grid_y, int threads, std::vector<int64_t>& slots,
                   CudaStream& stream, int64_t grid_z, int64_t shared_bytes) {
  constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1, kMaxGridY = 65535;
  if (grid_x > kMaxGridX || grid_y > kMaxGridY)
    throw InvalidArgument(fmt::format("operation too large for one kernel: {} x {} blocks", grid_x, grid_y));
  int64_t none = 0;
  void* parameters[] = {slots.empty() ? static_cast<void*>(&none) : slots.data()};
  use_device(stream.device().index);
  QUARRY_CUDA_CALL(driver().launch_kernel(kernel, static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y),
                                          static_cast<unsigned>(grid_z), static_cast<unsigned>(threads), 1, 1,
                                          static_cast<unsigned>(shared_bytes), stream.handle(), parameters, nullptr));
}

ModuleCache& module_cache() {
  static auto* const cache = new ModuleCache();  // modules outlive every static object that might still launch
  return *cache;
}

namespace {

// Nothing to compute and nothing to write.
bool is_nothing(const Program& program, const Layout& layout) {
  return program.reductions().empty() ? layout.elements() == 0 : layout.elements(false) == 0;
}

// What a kernel of the device takes.
size_t parameter_bytes(int device) {
  constexpr int kCuda = 12010, kVolta = 70;
  static const int driver_version = [] {
    int version = 0;
    QUARRY_CUDA_CALL(cudaDriverGetVersion(&version));
    return version;
  }();
  const bool more = CUDART_VERSION >= kCuda && driver_version >= kCuda && architecture_of(device) >= kVolta;
  return more ? kParameterBytes : kLeastParameterBytes;
}

class CudaEngine final : public Engine {
 public:
  int64_t run_scratch_bytes(const Program& program, const Launch& launch) override {
    if (program.reductions().empty()) return 0;  // only partial states need any
    const Layout layout = make_layout(program, launch);
    if (is_nothing(program, layout)) return 0;
    return make_plan(program, layout, /*naming=*/false).scratch_bytes();
  }

  void run(const Program& program, const Launch& launch, const ExecContext& context) override {
    LaunchMemo::Entry* const known = find(program, launch, context);
    if (known != nullptr) run(*known, context);
  }

  void run_each(const Program& program, std::span<const Launch> launches,
                std::span<const ExecContext> contexts) override {
    while (!launches.empty()) {
      LaunchMemo::Entry* const known = find(program, launches[0], contexts[0]);
      size_t count = 1;
      if (known != nullptr) {
        const size_t end = std::min(launches.size(), static_cast<size_t>(std::max(1, known->most_several)));
        while (count < end && same_geometry(known->launch, launches[count])) ++count;
        if (count > 1)
          run_several(program, *known, launches.first(count), contexts.first(count));
        else
          run(*known, contexts[0]);
      }
      launches = launches.subspan(count);
      contexts = contexts.subspan(count);
    }
  }

  Decompositions& decompositions() override { return cuda_decompositions(); }
  Indexing& indexing() override { return cuda_indexing(); }
  Products& products() override { return cuda_products(); }
  RandomWords& random_words() override { return cuda_random_words(); }
  Scanning& scanning() override { return cuda_scanning(); }
  Sorting& sorting() override { return cuda_sorting(); }
  UserKernels& kernels() override { return cuda_kernels(); }
  SparseProducts& sparse() override { return cuda_sparse(); }
  Transforms& transforms() override { return cuda_transforms(); }

 private:
  // The launch's plan and kernels; null where there is nothing to do.
  static LaunchMemo::Entry* find(const Program& program, const Launch& launch, const ExecContext& context) {
    static thread_local LaunchMemo memo;
    const int device = cuda_stream(context.stream).device().index;
    std::string key = program.key();
    if (LaunchMemo::Entry* const known = memo.find(key, program, launch, device)) return known;
    const Layout layout = make_layout(program, launch);
    if (is_nothing(program, layout)) return nullptr;
    Plan plan = make_plan(program, layout, /*naming=*/false);
    const Module& module = module_of(program, layout, plan, key, device);
    const int most = plan.most_several(parameter_bytes(device));
    return &memo.keep({std::move(key), device, launch, std::move(plan), &module, nullptr, most});
  }

  static const Module& module_of(const Program& program, const Layout& layout, const Plan& plan, const std::string& key,
                                 int device) {
    return module_cache().get(key + '|' + plan.key(), device, [&] {
      Plan named = make_plan(program, layout, /*naming=*/true);
      named.several = plan.several;
      return make_source(program, named);
    });
  }

  static void run(LaunchMemo::Entry& known, const ExecContext& context) {
    CudaStream& stream = cuda_stream(context.stream);
    const Module& module = *known.module;
    if (Plan& plan = known.plan; !plan.split) {
      launch_kernel(module.kernel(0), plan.grid_x, plan.grid_y, kBlockThreads, plan.slots.values(), stream);
      return;
    }
    Plan plan = known.plan;  // hooks of the allocation may launch others
    const Scratch scratch(plan.scratch_bytes(), context);
    const std::vector<const void*> partials = partial_states(plan, scratch);
    for (size_t i = 0; i < partials.size(); ++i) {
      plan.slots.set_partial(i, partials[i]);
      plan.merge_slots.set_partial(i, partials[i]);
    }
    launch_kernel(module.kernel(0), plan.grid_x, plan.grid_y, kBlockThreads, plan.slots.values(), stream);
    launch_kernel(module.kernel(1), plan.merge_grid, 1, kBlockThreads, plan.merge_slots.values(), stream);
  }

  // Launches of the geometry of `known`, at most `most_several`.
  static void run_several(const Program& program, LaunchMemo::Entry& known, std::span<const Launch> launches,
                          std::span<const ExecContext> contexts) {
    CudaStream& stream = cuda_stream(contexts[0].stream);
    Plan plan = known.plan;  // hooks of the allocation may launch others
    plan.several = known.most_several;
    if (known.several == nullptr) {
      known.several = &module_of(program, make_layout(program, known.launch), plan, known.key, known.device);
    }
    const Module& module = *known.several;
    std::deque<Scratch> scratch;
    std::vector<std::vector<const void*>> partials(launches.size());
    if (plan.split) {
      for (size_t i = 0; i < launches.size(); ++i)
        partials[i] = partial_states(plan, scratch.emplace_back(plan.scratch_bytes(), contexts[i]));
    }
    const auto count = static_cast<int64_t>(launches.size());
    std::vector<int64_t> values = plan.several_values(plan.slots, launches, partials);
    launch_kernel(module.kernel(0), plan.grid_x, plan.grid_y, kBlockThreads, values, stream, count);
    if (!plan.split) return;
    values = plan.several_values(plan.merge_slots, launches, partials);
    launch_kernel(module.kernel(1), plan.merge_grid, 1, kBlockThreads, values, stream, count);
  }

  // Where a launch's partial states are, one array per field.
  static std::vector<const void*> partial_states(const Plan& plan, const Scratch& scratch) {
    std::vector<const void*> partials;
    int64_t offset = 0;
    for (const PlanOperand& state : plan.states) {
      partials.push_back(scratch.at(offset));
      offset += rounded_allocation(plan.results * plan.segments * itemsize(state.dtype));
    }
    return partials;
  }
};

}  // namespace

Engine& cuda_engine() {
  static auto* const engine = new CudaEngine();
  return *engine;
}

}  // namespace quarry::local::cuda
