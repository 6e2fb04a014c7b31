#include "quarry/apps/quarry/memory_shares.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/runtime/budget.h"
#include "quarry/chunked/runtime/memory_size.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/local/memory/shares.h"
#include "quarry/scheduler/executor.h"

namespace quarry::apps {
namespace {

std::string row(const std::string& bytes, double share, const std::string& text) {
  return fmt::format("{:>12} {:>6.1f} %  {}\n", bytes, 100 * share, text);
}

double part(int64_t bytes, int64_t of) { return of > 0 ? static_cast<double>(bytes) / static_cast<double>(of) : 0; }

std::string tier_text(const local::MemoryTier& tier, int64_t available, const std::string& source) {
  std::string text =
      row(format_bytes(tier.bytes), part(tier.bytes, available),
          fmt::format("{} budget ({}), of {} {}", tier.name, tier.option, format_bytes(available), source));
  for (const local::MemoryShare& share : tier.shares) {
    text += row((share.at_most ? "<= " : "") + format_bytes(share.bytes), part(share.bytes, tier.bytes),
                (share.at_most ? "    " : "  ") + share.name);
  }
  return text;
}

std::string spill_text(const scheduler::ExecutorConfig& config) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(config.spill_dir, error);
  const std::string free = error ? "unknown" : format_bytes(static_cast<int64_t>(space.available));
  return fmt::format(
      "{:>12}           free for the spill file in {} (--spill-dir), made when memory does not suffice\n", free,
      config.spill_dir);
}

std::string own_text(Runtime& runtime) {
  const scheduler::ExecutorConfig& config = runtime.executor().config();
  const int64_t host = free_share_bytes(runtime.communicator().node_size(), runtime.threads());
  const std::string host_source = "of host memory that are free for the rank";
  std::string text = fmt::format("{}, {} I/O threads\n", local::to_string(config.device), config.io_threads);
  for (const local::MemoryTier& tier : local::memory_tiers(exec::rank_memory(runtime))) {
    const bool device_memory = config.device.kind == local::DeviceKind::cuda && tier.option == "--memory";
    text += device_memory ? tier_text(tier, local::backend(config.device.kind).info(config.device.index).total_bytes,
                                      "of device memory in all")
                          : tier_text(tier, host, host_source);
  }
  return text + spill_text(config);
}

}  // namespace

std::string describe_memory(Runtime& runtime) {
  const std::vector<std::string> texts = runtime.communicator().all_gather_strings(own_text(runtime));
  if (runtime.rank() != 0) return "";
  std::string text;
  for (size_t r = 0; r < texts.size(); ++r) text += fmt::format("rank {}: {}", r, texts[r]);
  return text;
}

}  // namespace quarry::apps
