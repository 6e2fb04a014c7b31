#include "quarry/local/cpu/kernels.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls. What does not compile is told at once, as on a GPU.
class EmulatedKernels final : public UserKernels {
 public:
  int64_t run_scratch_bytes(const KernelCode& code, const KernelLaunch& launch) override {
    return cpu_kernels().run_scratch_bytes(code, launch);
  }
  void run(const KernelCode& code, const KernelLaunch& launch, const ExecContext& context) override {
    prepare_cpu_kernel(code, launch);
    queue_emulated(context, run_scratch_bytes(code, launch),
                   [code, launch](const ExecContext& host) { cpu_kernels().run(code, launch, host); });
  }
  const RawCode& load(const RawSource& source, Device device) override { return cpu_kernels().load(source, device); }
};

}  // namespace

UserKernels& emulated_kernels() {
  static EmulatedKernels instance;
  return instance;
}

}  // namespace quarry::local
