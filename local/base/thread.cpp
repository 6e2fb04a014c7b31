#include "quarry/local/base/thread.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <system_error>
#include <utility>

#include "quarry/local/base/error.h"
#include "quarry/local/base/options.h"
#include "quarry/local/base/sizes.h"

namespace quarry::local {
namespace {

// For tests: throws what the system says when it has no thread left.
void refuse_in_tests() {
  static const int64_t refused_from = OptionValue(Option::fault_threads).integer();
  static std::atomic<int64_t> started{0};
  if (refused_from == 0 || ++started < refused_from) return;
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}

template <class Thread, class Work>
Thread start(std::string_view purpose, Work work) {
  try {
    refuse_in_tests();
    return Thread(std::move(work));
  } catch (const std::system_error& error) {
    throw OutOfMemory(
        fmt::format("a thread for {} cannot be started: {}{}", purpose, error.code().message(), process_limits()));
  }
}

}  // namespace

std::thread start_thread(std::string_view purpose, std::function<void()> work) {
  return start<std::thread>(purpose, std::move(work));
}

std::jthread start_joined_thread(std::string_view purpose, std::function<void(const std::stop_token&)> work) {
  return start<std::jthread>(purpose, [work = std::move(work)](const std::stop_token& stop) { work(stop); });
}

std::string process_limits() {
  const auto limit = [](auto which) {
    rlimit found{};
    return getrlimit(which, &found) == 0 ? found.rlim_cur : RLIM_INFINITY;
  };
  std::string text;
  const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  if (const rlim_t bytes = limit(RLIMIT_AS); bytes != RLIM_INFINITY)
    add(fmt::format("ulimit -v: {} of address space", format_bytes(static_cast<int64_t>(bytes))));
  if (const rlim_t count = limit(RLIMIT_NPROC); count != RLIM_INFINITY)
    add(fmt::format("ulimit -u: {} processes and threads of this user", count));
  return text.empty() ? "" : " (" + text + ")";
}

}  // namespace quarry::local
