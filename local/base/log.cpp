#include "quarry/local/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "quarry/local/base/error.h"
#include "quarry/local/base/options.h"

namespace quarry::local {
namespace {

// Messages must not fail: a bad QUARRY_LOG is one of them, and an error where a job starts.
void set_level(spdlog::logger& made) {
  made.set_level(spdlog::level::warn);
  const OptionValue level(Option::log);
  try {
    level.check();
    made.set_level(spdlog::level::from_str(level.text()));
  } catch (const InvalidArgument& error) {
    made.warn("{}", error.what());
  }
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("quarry", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("quarry: %H:%M:%S.%e %l: %v");
    set_level(*made);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void log(LogLevel level, std::string_view message) { logger().log(to_spdlog(level), message); }
bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }
void set_log_rank(int rank) { logger().set_pattern("quarry: %H:%M:%S.%e rank " + std::to_string(rank) + " %l: %v"); }

}  // namespace quarry::local
