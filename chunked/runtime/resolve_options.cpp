#include "quarry/chunked/runtime/resolve_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "quarry/io/direct_reads.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry {

using local::InvalidArgument;
using local::Option;
using local::OptionValue;

namespace {

struct TextField {
  Option option;
  std::string RuntimeOptions::*field;
};
constexpr TextField kTextFields[] = {
    {Option::without_gpu, &RuntimeOptions::without_gpu}, {Option::memory, &RuntimeOptions::memory},
    {Option::host_memory, &RuntimeOptions::host_memory}, {Option::spill_dir, &RuntimeOptions::spill_dir},
    {Option::transport, &RuntimeOptions::transport},     {Option::device_messages, &RuntimeOptions::device_messages},
    {Option::peer_copies, &RuntimeOptions::peer_copies}, {Option::balance, &RuntimeOptions::balance},
    {Option::passes, &RuntimeOptions::passes},           {Option::decompress, &RuntimeOptions::decompress},
    {Option::direct_io, &RuntimeOptions::direct_io},
};

// What was asked for is looked at before hours of computing, the default only by runs that spill.
void check_spill_directory(const OptionValue& value) {
  const std::string& path = value.text();
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw InvalidArgument(fmt::format("{}: '{}' {}", value.source(), path,
                                      std::filesystem::exists(path, error) ? "is no directory" : "does not exist"));
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    throw InvalidArgument(fmt::format("{}: '{}' cannot be written to", value.source(), path));
  }
}

plan::PassNames passes_off(const OptionValue& value) {
  try {
    return plan::parse_passes(value.text());
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", value.shown(), error.what()));
  }
}

std::vector<Option> given_by_program(const RuntimeOptions& options) {
  std::vector<Option> given;
  for (const auto& [option, field] : kTextFields) {
    if (!(options.*field).empty()) given.push_back(option);
  }
  if (options.device) given.push_back(Option::device);
  if (options.threads != 0) given.push_back(Option::threads);
  if (options.io_threads != 0) given.push_back(Option::io_threads);
  if (options.chunks) given.push_back(Option::chunks);
  return given;
}

void resolve_fields(RuntimeOptions& options) {
  for (const auto& [option, field] : kTextFields) options.*field = option_value(options, option).text();
  if (options.spill_dir.empty()) options.spill_dir = local::environment("TMPDIR", "/tmp");
  // A device that is named "auto" is none of parse_device_kind()'s.
  if (!options.device) options.device = local::parse_device_kind(OptionValue(Option::device).text());
  if (options.threads < 0) throw InvalidArgument(fmt::format("threads: {} is negative", options.threads));
  if (const OptionValue threads(Option::threads); options.threads == 0 && threads.is_given()) {
    options.threads = static_cast<int>(threads.integer());
  }
  if (options.io_threads < 0) throw InvalidArgument(fmt::format("io_threads: {} is negative", options.io_threads));
  if (const OptionValue threads(Option::io_threads); options.io_threads == 0 && threads.is_given()) {
    options.io_threads = static_cast<int>(threads.integer());
  }
  if (!options.chunks) options.chunks = OptionValue(Option::chunks).extents();
  const auto no_extent = [](int64_t extent) { return extent < -1 || extent == 0; };
  if (options.chunks && std::ranges::any_of(*options.chunks, no_extent)) {
    throw InvalidArgument(
        fmt::format("chunks {}: extents are positive, or -1 for a whole axis", local::to_string(*options.chunks)));
  }
}

std::string alike_on_all_ranks(const RuntimeOptions& options, const plan::PassNames& passes_off) {
  std::string text;
  for (const Option option : {Option::balance, Option::without_gpu, Option::peer_copies, Option::device_messages}) {
    const OptionValue value = option_value(options, option);
    text += fmt::format("{} ({}) {}\n", value.row().member, value.row().environment, value.text());
  }
  const std::string chunks = options.chunks ? local::to_string(*options.chunks) : "their default";
  text += fmt::format("chunks (QUARRY_CHUNKS) {}\n", chunks);
  return text + fmt::format("passes (QUARRY_PASSES) without \"{}\"\n", fmt::join(passes_off, ","));
}

}  // namespace

OptionValue option_value(const RuntimeOptions& options, Option option) {
  const auto* const found = std::ranges::find(kTextFields, option, &TextField::option);
  QUARRY_CHECK(found != std::end(kTextFields));
  return {option, options.*found->field,
          options.from_command_line ? local::OptionGiver::command_line : local::OptionGiver::program};
}

int64_t rank_weight(double otherwise) {
  constexpr double kUnits = 1000;
  const OptionValue weight(Option::weight);
  return std::llround((weight.is_given() ? weight.number() : otherwise) * kUnits);
}

ResolvedOptions resolve_options(RuntimeOptions& options) {
  constexpr local::OptionScope kScopes[] = {local::OptionScope::runtime, local::OptionScope::diagnostics};
  local::check_environment(kScopes, given_by_program(options));
  for (const auto& [option, field] : kTextFields) option_value(options, option).check();
  if (const OptionValue spill_dir = option_value(options, Option::spill_dir); spill_dir.is_given()) {
    check_spill_directory(spill_dir);
  }
  enum class Balance : uint8_t { on, off };  // the words of these options
  enum class WithoutGpu : uint8_t { error, cpu };
  ResolvedOptions resolved;
  resolved.steals_work = option_value(options, Option::balance).choice<Balance>() == Balance::on;
  resolved.cpu_ranks = option_value(options, Option::without_gpu).choice<WithoutGpu>() == WithoutGpu::cpu;
  resolved.peer_copies = option_value(options, Option::peer_copies).choice<comm::PathUse>();
  resolved.device_messages = option_value(options, Option::device_messages).choice<comm::PathUse>();
  io::choose_direct_io(option_value(options, Option::direct_io).choice<io::DirectIo>());
  resolved.decompress = option_value(options, Option::decompress).choice<exec::Decompress>();
  resolved.passes_off = passes_off(option_value(options, Option::passes));
  resolved.memory = option_value(options, Option::memory);
  resolved.host_memory = option_value(options, Option::host_memory);
  resolve_fields(options);
  resolved.alike = alike_on_all_ranks(options, resolved.passes_off);
  return resolved;
}

void agree_on_options(comm::Communicator& communicator, const std::string& alike) {
  // As long as all are alike one exchange of the hash is enough.
  int64_t extremes[] = {static_cast<int64_t>(std::hash<std::string>()(alike) >> 1), 0};
  extremes[1] = -extremes[0];
  communicator.all_reduce(extremes, comm::ReduceOp::max);
  if (extremes[0] == -extremes[1]) return;
  const std::vector<std::string> all = communicator.all_gather_strings(alike);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    std::istringstream first(all[0]), other(all[rank]);
    for (std::string a, b; std::getline(first, a) && std::getline(other, b);) {
      if (a == b) continue;
      const size_t value = a.find(") ") + 2;
      throw InvalidArgument(fmt::format("all ranks need the same {}: it is {} on rank 0, {} on rank {}",
                                        a.substr(0, value - 1), a.substr(value), b.substr(value), rank));
    }
  }
}

void warn_of_misspelt_variables() {
  static std::atomic_flag done;
  if (done.test_and_set()) return;
  for (const std::string& line : local::misspelt_variables()) local::log(local::LogLevel::warn, line);
}

}  // namespace quarry
