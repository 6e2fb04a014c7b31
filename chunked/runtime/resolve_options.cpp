#include "quarry/chunked/runtime/resolve_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "quarry/comm/monitor/watchdog.h"
#include "quarry/comm/path_use.h"
#include "quarry/local/base/error.h"

namespace quarry {

using local::InvalidArgument;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int parse_threads(const std::string& text) {
  int value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || value < 1) {
    throw InvalidArgument(fmt::format("QUARRY_THREADS={}: expected a positive number", text));
  }
  return value;
}

// What was asked for is looked at before hours of computing, the default only by runs that spill.
void check_spill_directory(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw InvalidArgument(fmt::format("spill directory: '{}' {}", path,
                                      std::filesystem::exists(path, error) ? "is no directory" : "does not exist"));
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    throw InvalidArgument(fmt::format("spill directory: '{}' cannot be written to", path));
  }
}

// Whether the text is the first of two.
bool parse_either(const char* name, const std::string& text, const char* first, const char* second) {
  if (text == first) return true;
  if (text == second) return false;
  throw InvalidArgument(fmt::format("{}: \"{}\": expected {} or {}", name, text, first, second));
}

local::Dims parse_chunks(const std::string& text) {
  local::Dims chunks;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    int64_t value = 0;
    const auto result = std::from_chars(text.data() + at, text.data() + comma, value);
    if (result.ec != std::errc() || result.ptr != text.data() + comma || value < 1) {
      throw InvalidArgument(fmt::format("QUARRY_CHUNKS={}: expected positive extents as in 4096,512, or auto", text));
    }
    chunks.push_back(value);
    at = comma + 1;
  }
  return chunks;
}

uint64_t hash_chunks(const std::optional<local::Dims>& chunks) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  if (!chunks) return hash;
  for (const int64_t extent : *chunks) hash = (hash ^ static_cast<uint64_t>(extent)) * 0x100000001b3ULL;
  return hash + 1;
}

}  // namespace

// QUARRY_WEIGHT of this rank in thousandths; `otherwise` where it is not set.
int64_t rank_weight(double otherwise) {
  constexpr double kUnits = 1000, kMost = 1e5;
  const std::string text = environment("QUARRY_WEIGHT");
  if (text.empty()) return std::llround(otherwise * kUnits);
  char* end = nullptr;
  const double weight = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(weight >= 1 / kUnits && weight <= kMost)) {
    throw InvalidArgument(fmt::format("QUARRY_WEIGHT={}: expected a number from 0.001 to 100000", text));
  }
  return std::llround(weight * kUnits);
}

ResolvedOptions resolve_options(RuntimeOptions& options) {
  ResolvedOptions resolved;
  if (const std::string text = environment("QUARRY_DEVICE"); !options.device && !text.empty() && text != "auto") {
    options.device = local::parse_device_kind(text);
    if (!options.device) {
      throw InvalidArgument(fmt::format("QUARRY_DEVICE={}: expected auto, cpu, cuda or emulated", text));
    }
  }
  if (options.memory.empty()) options.memory = environment("QUARRY_MEMORY");
  if (options.host_memory.empty()) options.host_memory = environment("QUARRY_HOST_MEMORY");
  if (options.spill_dir.empty()) options.spill_dir = environment("QUARRY_SPILL_DIR");
  if (!options.spill_dir.empty()) check_spill_directory(options.spill_dir);
  if (options.spill_dir.empty()) options.spill_dir = environment("TMPDIR");
  if (options.spill_dir.empty()) options.spill_dir = "/tmp";
  static_cast<void>(comm::Watchdog());  // complains about QUARRY_WATCHDOG
  if (options.threads < 0) throw InvalidArgument(fmt::format("threads: {} is negative", options.threads));
  if (const std::string text = environment("QUARRY_THREADS"); options.threads == 0 && !text.empty()) {
    options.threads = parse_threads(text);
  }
  if (const std::string text = environment("QUARRY_CHUNKS"); !options.chunks && !text.empty() && text != "auto") {
    options.chunks = parse_chunks(text);
  }
  if (options.peer_copies.empty()) options.peer_copies = environment("QUARRY_PEER_COPIES");
  static_cast<void>(comm::parse_path_use("peer copies", options.peer_copies));
  if (options.device_messages.empty()) options.device_messages = environment("QUARRY_DEVICE_MESSAGES");
  static_cast<void>(comm::parse_path_use("device messages", options.device_messages));
  if (options.balance.empty()) options.balance = environment("QUARRY_BALANCE");
  resolved.steals_work = options.balance.empty() || parse_either("balance", options.balance, "on", "off");
  if (options.without_gpu.empty()) options.without_gpu = environment("QUARRY_WITHOUT_GPU");
  resolved.cpu_ranks = !options.without_gpu.empty() && parse_either("without GPU", options.without_gpu, "cpu", "error");
  if (options.chunks && std::ranges::any_of(*options.chunks, [](int64_t extent) { return extent < 1; })) {
    throw InvalidArgument(fmt::format("chunks {}: extents must be positive", local::to_string(*options.chunks)));
  }
  const bool passes_given = !options.passes.empty();
  if (!passes_given) options.passes = environment("QUARRY_PASSES");
  try {
    resolved.passes_off = plan::parse_passes(options.passes);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(
        fmt::format("{}{}: {}", passes_given ? "passes: " : "QUARRY_PASSES=", options.passes, error.what()));
  }
  resolved.hash = hash_chunks(options.chunks) + (resolved.steals_work ? 1 : 0) + (resolved.cpu_ranks ? 2 : 0);
  for (const std::string& name : resolved.passes_off)
    resolved.hash = resolved.hash * 31 + std::hash<std::string>()(name);
  return resolved;
}

}  // namespace quarry
