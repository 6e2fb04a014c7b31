#include "quarry/apps/quarry/failure.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <sstream>

#include "quarry/apps/quarry/signals.h"
#include "quarry/io/saved_job.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"
#include "quarry/local/base/options.h"

namespace quarry::apps {

namespace {

constexpr int kSignalBase = 128;

}  // namespace

int interrupted_status(int signal) { return io::is_any_job_unfinished() ? kSavedStatus : kSignalBase + signal; }

int exit_status(const std::exception_ptr& error, bool computing) {
  using local::ErrorCode;
  // Whatever went wrong then, it did because the run was told to end: partial files and other ranks were gone.
  if (const int signal = received_signal(); signal != 0) return interrupted_status(signal);
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
    case ErrorCode::needs_value:
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
  if (received_signal() == 0) return local::to_record(error).message;
  return io::is_any_job_unfinished() ? "interrupted; what is done is saved, and the same command goes on"
                                     : "interrupted; outputs are as they were";
}

std::string error_text(const std::string& message) {
  constexpr size_t kLongestLine = 1000;  // whatever was echoed: a message is for reading
  std::string text;
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    if (!text.empty()) text += '\n';
    for (const char c : local::excerpt(line, kLongestLine)) {
      const auto u = static_cast<unsigned char>(c);
      text += u < 0x20 || u == 0x7f ? fmt::format("\\x{:02x}", u) : std::string(1, c);
    }
  }
  return fmt::format("quarry: error: {}\n", text);
}

void print_error(const std::string& message) { fmt::print(stderr, "{}", error_text(message)); }

namespace {

// Records and messages of errors allocate, on every thread that an error passes.
constexpr size_t kSpareBytes = size_t{4} << 20;
std::atomic<void*> spare_memory{nullptr};

// The first allocation that fails throws as it would; those of its error find room.
[[noreturn]] void give_spare_memory() {
  if (void* const memory = spare_memory.exchange(nullptr)) munmap(memory, kSpareBytes);
  throw std::bad_alloc();
}

[[noreturn]] void end_with_line() {
  try {
    if (const std::exception_ptr error = std::current_exception())
      print_error(error_message(error));
    else
      print_error("the program ended itself");
  } catch (...) {
    constexpr const char* kLine = "quarry: error: the host has no memory left\n";
    if (write(STDERR_FILENO, kLine, std::strlen(kLine)) < 0) std::_Exit(kFailureStatus);
  }
  std::_Exit(kFailureStatus);
}

}  // namespace

void prepare_for_failure() {
  void* const memory = mmap(nullptr, kSpareBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) spare_memory = memory;
  std::set_new_handler(give_spare_memory);
  std::set_terminate(end_with_line);
}

namespace {

std::optional<int> rank_in_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"}) {
    if (const auto value = local::environment(name)) return std::atoi(value->c_str());
  }
  return std::nullopt;
}

}  // namespace

int launcher_rank() { return rank_in_environment().value_or(0); }
bool has_launcher() { return rank_in_environment().has_value(); }

}  // namespace quarry::apps
