#include "quarry/chunked/api/job_description.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <variant>

#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/io/dataset.h"
#include "quarry/local/base/options.h"

namespace quarry::detail {
namespace {

// To the nanosecond, in UTC.
std::string time_of_change(const std::string& file) {
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(file, error);
  const auto since = std::chrono::file_clock::to_sys(changed).time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09} UTC", fmt::gmtime(static_cast<std::time_t>(seconds.count())),
                     std::chrono::nanoseconds(since - seconds).count());
}

}  // namespace

io::JobDescription description_of_run(std::span<const expr::NodePtr> nodes) {
  io::JobDescription all;
  std::set<std::pair<std::string, std::string>> inputs;
  for (const expr::NodePtr& node : expr::topological(nodes))
    if (const auto* source = node->as<expr::Source>())
      inputs.emplace(source->dataset->info().file, source->dataset->info().object);
  for (const auto& [file, object] : inputs) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file, error);
    all.emplace_back("input " + file + ":" + object,
                     error ? "not there" : fmt::format("{} bytes changed at {}", bytes, time_of_change(file)));
  }
  all.emplace_back("the version of quarry", io::saved_job_version());
  all.emplace_back("the kind of device", local::name(Runtime::current().device().kind));
  return all;
}

std::pair<std::string, std::string> description_of_plan(const plan::Plan& plan) {
  // Stages that only copy do not matter, and may depend on the number of ranks.
  uint64_t chunks = 0;
  for (const plan::Stage& stage : plan.stages)
    if (!std::holds_alternative<plan::Assemble>(stage.work))
      chunks = (chunks ^ stage.grid.hash()) * 0x9e3779b97f4a7c15u + 1;
  return {"the plan (of other chunks or another memory budget)", fmt::format("{:016x}", chunks)};
}

double seconds_between_states() {
  const std::optional<double>& given = Runtime::current().internals().save_every;
  return given ? *given : local::OptionValue(local::Option::save_every).seconds();
}

}  // namespace quarry::detail
