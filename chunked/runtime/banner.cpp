// What a Runtime is, in one line.
#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/runtime/impl.h"
#include "quarry/local/base/sizes.h"

namespace quarry {

using local::DeviceKind;

std::string Runtime::banner() const {
  const Impl& r = *impl_;
  const auto plural = [](int n, const char* noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); };
  const int ranks = r.communicator->size();
  std::string text = plural(ranks, "rank");
  if (ranks > 1) text += fmt::format(" on {} over {}", plural(r.node_count, "node"), r.communicator->transport());
  const std::string each = ranks > 1 ? " per rank" : "";
  switch (r.device.kind) {
    case DeviceKind::cpu:
      text += fmt::format(", CPU, {}{}, {} of memory{}", plural(r.options.threads, "thread"), each,
                          local::format_bytes(r.memory_bytes), each);
      break;
    case DeviceKind::cuda:
    case DeviceKind::emulated:
    case DeviceKind::trial:
      text += fmt::format(", {}{}{}, {}{}, {} of device and {} of host memory{}", local::to_string(r.device),
                          r.device_name.empty() ? "" : " (" + r.device_name + ")", ranks > 1 ? " on rank 0" : "",
                          plural(r.options.threads, "thread"), each, local::format_bytes(r.memory_bytes),
                          local::format_bytes(r.host_bytes), each);
      break;
  }
  if (const auto others = std::ranges::count_if(r.kinds, [&](DeviceKind kind) { return kind != r.device.kind; })) {
    text += fmt::format("; {} {}", plural(static_cast<int>(others), "rank"),
                        r.device.kind == DeviceKind::cpu ? "on devices" : "on the CPU");
  }
  if (ranks == 1 && r.device.kind == DeviceKind::cuda && r.visible_devices > 1) {
    text += fmt::format("; {0} GPUs are visible, this process uses one: start one rank per GPU with mpirun -n {0}",
                        r.visible_devices);
  }
  return text;
}

}  // namespace quarry
