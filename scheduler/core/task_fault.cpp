#include "quarry/scheduler/core/task_fault.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string_view>
#include <thread>

#include "quarry/local/base/error.h"
#include "quarry/local/base/options.h"

namespace quarry::scheduler {
namespace {

constexpr std::string_view kHows[] = {"throw", "exit", "kill", "stop", "sleep", "compute"};
constexpr std::string_view kKinds[] = {"read", "decode", "copy", "compute", "send", "receive", "write", "host", "any"};
constexpr std::string_view kWhens[] = {"begin", "end"};
constexpr int kStatus = 3;  // of exit()

// The number of the word; -1 where it is none of them.
int find(std::span<const std::string_view> words, std::string_view word) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

TaskFault::TaskFault(const std::string& text) {
  std::array<std::string, 4> parts;
  std::istringstream stream(text);
  for (std::string& part : parts) std::getline(stream, part, ',');
  const int how = find(kHows, parts[0]), kind = find(kKinds, parts[1]), when = find(kWhens, parts[2]);
  number_ = std::atoll(parts[3].c_str());
  if (how < 0 || kind < 0 || when < 0 || number_ < 1) {
    throw local::InvalidArgument(fmt::format("QUARRY_FAULT_TASK={}: expected HOW,KIND,WHEN,NUMBER", text));
  }
  how_ = static_cast<How>(how);
  if (kKinds[static_cast<size_t>(kind)] != "any") kind_ = static_cast<TaskKind>(kind);
  when_ = static_cast<When>(when);
}

std::unique_ptr<TaskFault> TaskFault::from_option() {
  const std::string text = local::OptionValue(local::Option::fault_task).text();
  return text.empty() ? nullptr : std::make_unique<TaskFault>(text);
}

void TaskFault::meet(TaskKind kind, When when) {
  if (when != when_ || kind != kind_.value_or(kind) || ++met_ != number_) return;
  switch (how_) {
    case How::throws:
      throw local::IoError("a fault that a test asked for");
    case How::exits:
      std::exit(kStatus);
    case How::is_killed:
      kill(getpid(), SIGKILL);
      return;
    case How::is_stopped:
      kill(getpid(), SIGSTOP);
      return;
    case How::sleeps:
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    case How::computes:
      for (std::atomic<int64_t> turns{0};;) ++turns;
  }
}

}  // namespace quarry::scheduler
