// The memory budgets of this rank: its shares of the host's memory and of its device's.
#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/runtime/impl.h"
#include "quarry/chunked/runtime/memory_size.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/policy.h"

namespace quarry {

using local::DeviceKind;
using local::InvalidArgument;

namespace {

namespace policy = local::memory_policy;

}  // namespace

void Runtime::Impl::choose_budget() {
  const int64_t share = free_share_bytes(communicator->node_size(), options.threads);
  const auto chosen = [](const local::OptionValue& value, int64_t free, int64_t otherwise) {
    const int64_t bytes = value.is_given() ? value.bytes(free) : otherwise;
    if (bytes < 1) throw InvalidArgument(fmt::format("{}: \"{}\" is nothing", value.source(), value.text()));
    return bytes;
  };
  const auto part = [](double fraction, int64_t of) {
    return static_cast<int64_t>(fraction * static_cast<double>(of));
  };
  switch (device.kind) {
    case DeviceKind::cpu:
      memory_bytes = chosen(resolved.memory, share, part(policy::kHostShare, share));
      host_bytes = 0;
      return;
    case DeviceKind::trial:
      memory_bytes = chosen(resolved.memory, share, share);
      break;
    case DeviceKind::emulated:
    case DeviceKind::cuda: {
      local::backend(device.kind).open(device.index);
      const local::DeviceInfo info = local::backend(device.kind).info(device.index);
      int64_t otherwise = part(policy::kDeviceShare, info.free_bytes);
      // It is the host's memory.
      if (device.kind == DeviceKind::emulated) otherwise = std::min(otherwise, part(policy::kEmulatedShare, share));
      memory_bytes = chosen(resolved.memory, info.free_bytes, otherwise);
      if (memory_bytes > info.free_bytes) {
        throw InvalidArgument(fmt::format("{}: {} asked for, {} of {} are free on {} ({})", resolved.memory.source(),
                                          local::format_bytes(memory_bytes), local::format_bytes(info.free_bytes),
                                          local::format_bytes(info.total_bytes), local::to_string(device), info.name));
      }
      break;
    }
  }
  host_bytes =
      chosen(resolved.host_memory, share, std::min(policy::kMostPinnedBytes, part(policy::kPinnedShare, share)));
}

}  // namespace quarry
