#include "quarry/apps/quarry/topology.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/runtime/probe_paths.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/device_collectives.h"

namespace quarry::apps {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string own_line(Runtime& runtime) {
  std::string device = local::to_string(runtime.device());
  if (runtime.device().kind != local::DeviceKind::cpu) {
    const local::DeviceInfo info = local::backend(runtime.device().kind).info(runtime.device().index);
    device += fmt::format(" ({}{}{})", info.name, info.uuid.empty() ? "" : ", ", info.uuid);
  }
  return fmt::format("{}: {}, {} thread{}, {} of memory", host_name(), device, runtime.threads(),
                     runtime.threads() == 1 ? "" : "s", format_bytes(runtime.memory_bytes()));
}

// A connection may say what it uses only after its first message.
void exchange_messages(comm::Communicator& communicator) {
  constexpr uint64_t kTag = 0x746f706f;          // "topo"
  constexpr int64_t kBytes = int64_t{64} << 10;  // more than what travels with its announcement
  const auto ranks = static_cast<size_t>(communicator.size());
  std::vector<std::byte> out(kBytes), in(kBytes * ranks);
  std::vector<std::unique_ptr<comm::Request>> requests;
  for (size_t r = 0; r < ranks; ++r) {
    requests.push_back(communicator.receive(in.data() + r * kBytes, kBytes, static_cast<int>(r), kTag));
    requests.push_back(communicator.send(out.data(), kBytes, static_cast<int>(r), kTag));
  }
  for (const auto& request : requests) request->wait();
  communicator.barrier();
}

// How blocks and messages travel from rank `from` to this one.
std::string paths_from(Runtime& runtime, int from) {
  return fmt::format("{}; messages: {}", runtime.describe_paths(from), runtime.communicator().link_to(from));
}

// "0-2, 5"
std::string ranges(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

// One line for all ranks that this one hears from in the same way.
std::string own_paths(Runtime& runtime) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (int r = 0; r < runtime.size(); ++r) {
    if (r == runtime.rank()) continue;
    const std::string path = paths_from(runtime, r);
    if (groups.empty() || groups.back().first != path) groups.emplace_back(path, std::vector<int>{});
    groups.back().second.push_back(r);
  }
  std::string text;
  for (const auto& [path, ranks] : groups) {
    text += fmt::format("  {} <- {}: {}\n", runtime.rank(), ranges(ranks), path);
  }
  return text;
}

}  // namespace

std::string describe_topology(Runtime& runtime) {
  comm::Communicator& communicator = runtime.communicator();
  exchange_messages(communicator);
  exec::probe_paths(runtime);
  const std::vector<std::string> lines = communicator.all_gather_strings(own_line(runtime));
  const std::vector<std::string> paths = communicator.all_gather_strings(own_paths(runtime));
  const std::string obstacle = comm::device_collectives_obstacle(communicator, runtime.device());
  if (runtime.rank() != 0) return "";
  std::string text = "ranks\n";
  for (size_t r = 0; r < lines.size(); ++r) text += fmt::format("  {} on {}\n", r, lines[r]);
  if (runtime.size() == 1) return text + "one rank: nothing travels\n";
  text += "paths\n";
  for (const std::string& path : paths) text += path;
  text += fmt::format("transport: {} (--transport), copies between devices: {} (--peer-copies)\n",
                      communicator.transport(), runtime.options().peer_copies);
  if (runtime.device().kind != local::DeviceKind::cpu) {
    text += fmt::format("messages of device memory: {} (--device-messages), {}\n", runtime.options().device_messages,
                        communicator.moves_memory_of(runtime.device().kind)
                            ? "which the transport moves"
                            : "which the transport does not move by itself");
    text += fmt::format("NCCL, for programs with device memory of their own: {}\n",
                        obstacle.empty() ? "serves these ranks" : obstacle);
  }
  return text;
}

}  // namespace quarry::apps
