#include "quarry/local/ndarray/trial.h"

#include "quarry/local/memory/allocation_count.h"
#include "quarry/local/ndarray/launch.h"

namespace quarry::local {

Trial trial(const TrialFunction& function, std::span<const ArraySpec> arguments, DeviceKind kind, int threads) {
  if (kind == DeviceKind::trial) throw InvalidArgument("a trial stands for a kind of device that computes");
  ExecContext context = default_context(trial_of(kind));
  std::vector<NdArray> given;  // from the pool, past what counts
  given.reserve(arguments.size());
  for (const ArraySpec& argument : arguments) given.emplace_back(argument.shape, argument.dtype, context);
  context.threads = threads;
  Trial result;
  // What the functions of a trial of the CPU compute with on the host would lie in the same memory.
  const AllocationCount counted(context.device, kind == DeviceKind::cpu);
  {
    const DeviceScope scope(context);
    for (const NdArray& array : function(given)) result.results.push_back({array.shape(), array.dtype()});
  }
  result.peak_bytes = counted.peak_bytes();
  result.extent_bytes = counted.extent_bytes();
  result.allocations = counted.allocations();
  return result;
}

}  // namespace quarry::local
