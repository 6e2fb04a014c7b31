#include "quarry/local/ndarray/trial.h"

#include <memory>

#include "quarry/local/memory/adaptors.h"
#include "quarry/local/ndarray/launch.h"

namespace quarry::local {

Trial trial(const ArrayFunction& function, std::span<const ArraySpec> arguments, DeviceKind kind, int threads) {
  ExecContext context = default_context(trial_of(kind));
  std::vector<NdArray> given;  // from the pool, past what counts
  given.reserve(arguments.size());
  for (const ArraySpec& argument : arguments) given.emplace_back(argument.shape, argument.dtype, context);
  // An array that the function keeps gives its memory back later.
  const auto stay = [](StatisticsResource* counted) {
    if (counted->used_bytes() == 0) delete counted;
  };
  const std::unique_ptr<StatisticsResource, decltype(stay)> counted(new StatisticsResource(*context.memory), stay);
  context.memory = counted.get();
  context.threads = threads;
  Trial result;
  {
    const DeviceScope scope(context);
    for (const NdArray& array : function(given)) result.results.push_back({array.shape(), array.dtype()});
  }
  if (counted->used_bytes() != 0) throw InvalidArgument("trial: the function has kept an array");
  result.peak_bytes = counted->peak_bytes();
  result.allocations = counted->allocations();
  return result;
}

}  // namespace quarry::local
