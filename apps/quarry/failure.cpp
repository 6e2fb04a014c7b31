#include "quarry/apps/quarry/failure.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdlib>

#include "quarry/apps/quarry/signals.h"
#include "quarry/local/base/error.h"

namespace quarry::apps {

int exit_status(const std::exception_ptr& error, bool computing) {
  using local::ErrorCode;
  constexpr int kSignalBase = 128;
  // Whatever went wrong then, it did because the run was told to end: partial files and other ranks were gone.
  if (const int signal = received_signal(); signal != 0) return kSignalBase + signal;
  switch (local::to_record(error).code) {
    case ErrorCode::cancelled:
      return kSignalBase + SIGINT;
    case ErrorCode::budget:
      return kUsageStatus;
    case ErrorCode::invalid_argument:
    case ErrorCode::type_error:
    case ErrorCode::index_error:
    case ErrorCode::linear_algebra:
    case ErrorCode::not_supported:
    case ErrorCode::io:
    case ErrorCode::device:
      return computing ? kFailureStatus : kUsageStatus;
    case ErrorCode::comm:
    case ErrorCode::out_of_memory:
    case ErrorCode::internal:
      break;
  }
  return kFailureStatus;
}

std::string error_message(const std::exception_ptr& error) {
  return received_signal() != 0 ? "interrupted; outputs are as they were" : local::to_record(error).message;
}

void print_error(const std::string& message) {
  std::string text;
  for (const char c : message) {
    const auto u = static_cast<unsigned char>(c);
    text += c != '\n' && (u < 0x20 || u == 0x7f) ? fmt::format("\\x{:02x}", u) : std::string(1, c);
  }
  fmt::print(stderr, "quarry: error: {}\n", text);
}

int launcher_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return 0;
}

}  // namespace quarry::apps
