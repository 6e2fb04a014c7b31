#include "quarry/chunked/runtime/device_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"

namespace quarry {

using local::DeviceKind;

std::vector<DeviceKind> choose_kinds(std::span<const DeviceWish> wishes, bool cpu_ranks,
                                     const std::function<std::string(int)>& host_of) {
  const bool alike = std::ranges::all_of(wishes, [&](const DeviceWish& w) { return w.kind == wishes.front().kind; });
  const bool any_gpu = std::ranges::any_of(wishes, [](const DeviceWish& w) { return w.has_gpu != 0; });
  const bool any_emulated =
      std::ranges::any_of(wishes, [](const DeviceWish& w) { return w.wants(DeviceKind::emulated); });
  if (!alike && (!cpu_ranks || (any_gpu && any_emulated)))
    throw local::InvalidArgument("the ranks ask for different kinds of device; all must ask for the same");
  std::vector<DeviceKind> kinds;
  for (const DeviceWish& wish : wishes) {
    if (!wish.may_take_gpu()) {
      kinds.push_back(static_cast<DeviceKind>(wish.kind));
      continue;
    }
    const bool needed = wish.wants(DeviceKind::cuda) || any_gpu;
    if (needed && wish.has_gpu == 0 && !(cpu_ranks && any_gpu)) {
      throw local::DeviceError(
          fmt::format("no GPU is visible to rank {} on {}{}; {}--device cpu computes on the CPU everywhere",
                      kinds.size(), host_of(static_cast<int>(kinds.size())), any_gpu ? ", but to others" : "",
                      any_gpu ? "--without-gpu cpu makes such ranks compute on the CPU, " : ""));
    }
    kinds.push_back(wish.has_gpu != 0 ? DeviceKind::cuda : DeviceKind::cpu);
  }
  return kinds;
}

int choose_index(std::span<const uint64_t> views, int rank) {
  const auto before = views.first(static_cast<size_t>(rank));
  return static_cast<int>(std::ranges::count(before, views[before.size()]));
}

}  // namespace quarry
