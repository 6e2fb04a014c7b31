// Which device this rank computes on, agreed with the others.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>

#include "quarry/chunked/runtime/device_choice.h"
#include "quarry/chunked/runtime/impl.h"
#include "quarry/chunked/runtime/together.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry {

using local::DeviceKind;
using local::InvalidArgument;

void Runtime::Impl::choose_device() {
  DeviceWish mine;
  mine.kind = options.device ? static_cast<int32_t>(*options.device) : -1;
  mine.has_gpu = mine.may_take_gpu() && local::available(DeviceKind::cuda) ? 1 : 0;
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::vector<DeviceWish> wishes(static_cast<size_t>(communicator->size()));
  communicator->all_gather(&mine, sizeof mine, wishes.data());
  kinds =
      choose_kinds(wishes, resolved.cpu_ranks, [&](int rank) { return communicator->broadcast_string(host, rank); });
  device.kind = kinds[static_cast<size_t>(communicator->rank())];
  options.device = device.kind;
  // Then there are no devices to be dealt out.
  if (std::ranges::all_of(kinds, [](DeviceKind kind) { return kind == DeviceKind::cpu; })) return;
  std::string view;  // none on the CPU
  together(*communicator, kStart, [&] {
    if (device.kind == DeviceKind::cpu) return;
    local::Backend& backend = local::backend(device.kind);
    visible_devices = backend.device_count();
    view = host;
    if (visible_devices == 1 || communicator->node_size() == 1) return;
    for (int i = 0; i < visible_devices; ++i) view += " " + backend.identity(i).uuid;
  });
  const uint64_t own_view = std::hash<std::string>()(view);
  std::vector<uint64_t> views(static_cast<size_t>(communicator->size()));
  communicator->all_gather(&own_view, sizeof own_view, views.data());
  together(*communicator, kStart, [&] {
    const int number = choose_index(views, communicator->rank());
    switch (device.kind) {
      case DeviceKind::cpu:
      case DeviceKind::trial:  // which no option names
        break;
      case DeviceKind::emulated:
        device.index = number % visible_devices;  // each process has its own, whatever their numbers
        break;
      case DeviceKind::cuda:
        // Ranks that see the same one only are told so by name.
        device.index = visible_devices == 1 ? 0 : number;
        if (device.index >= visible_devices && !resolved.cpu_ranks) {
          throw InvalidArgument(fmt::format(
              "{} ranks on {} see the same {} GPUs: every rank needs a GPU of its own; start {} ranks per node, "
              "or choose --device cpu, or --without-gpu cpu for CPU ranks beside those with one",
              std::ranges::count(views, own_view), host, visible_devices, visible_devices));
        }
        break;
    }
  });
  if (std::ranges::any_of(wishes, [](const DeviceWish& wish) { return wish.has_gpu != 0; })) take_gpu();
  options.device = device.kind;
  const auto kind = static_cast<int64_t>(device.kind);
  std::vector<int64_t> all(static_cast<size_t>(communicator->size()));
  communicator->all_gather(&kind, sizeof kind, all.data());
  kinds.clear();
  std::vector<size_t> on_cpu;
  for (size_t r = 0; r < all.size(); ++r) {
    kinds.push_back(static_cast<DeviceKind>(all[r]));
    if (kinds.back() == DeviceKind::cpu) on_cpu.push_back(r);
    if (kinds.back() != DeviceKind::cpu) job_kind = kinds.back();
  }
  if (job_kind != DeviceKind::cpu && !on_cpu.empty() && communicator->rank() == 0) {
    local::log(local::LogLevel::info,
               fmt::format("ranks that compute on the CPU beside others: {}", fmt::join(on_cpu, ", ")));
  }
}

// The GPU of this rank's number, unless there is none left for it or a lower rank has it. Collective.
void Runtime::Impl::take_gpu() {
  std::string mine;
  if (device.kind == DeviceKind::cuda && device.index < visible_devices) {
    const local::DeviceInfo info = local::backend(device.kind).identity(device.index);
    mine = info.uuid;
    device_name = info.name;
  } else if (device.kind == DeviceKind::cuda) {
    device = local::kCpu;
  }
  // Each rank saw one GPU: was it the same one?
  const uint64_t own = std::hash<std::string>()(mine);
  std::vector<uint64_t> all(static_cast<size_t>(communicator->size()));
  communicator->all_gather(&own, sizeof own, all.data());
  const auto sharing = mine.empty() ? 0 : std::ranges::count(all, own);
  together(*communicator, kStart, [&] {
    if (sharing <= 1 || resolved.cpu_ranks) return;
    throw InvalidArgument(
        fmt::format("{} ranks share the GPU {}: every rank needs one of its own; start one rank per "
                    "GPU, or choose --device cpu",
                    sharing, mine));
  });
  if (sharing > 1 && std::ranges::find(all, own) - all.begin() < communicator->rank()) {
    device = local::kCpu;
    device_name.clear();
  }
}

}  // namespace quarry
