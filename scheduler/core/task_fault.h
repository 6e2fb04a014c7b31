// For tests (QUARRY_FAULT_TASK): what one task of this process does wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "quarry/scheduler/task.h"

namespace quarry::scheduler {

class TaskFault {
 public:
  // "HOW,KIND,WHEN,NUMBER": "throw,compute,end,3". Throws InvalidArgument.
  explicit TaskFault(const std::string& text);
  // Of the option; null where it says nothing.
  static std::unique_ptr<TaskFault> from_option();

  enum class When : uint8_t { begin, end };
  // Goes wrong if this is the task; else returns.
  void meet(TaskKind kind, When when);

 private:
  enum class How : uint8_t { throws, exits, is_killed, is_stopped, sleeps, computes };
  How how_ = How::throws;
  std::optional<TaskKind> kind_;  // nothing: any
  When when_ = When::begin;
  int64_t number_ = 1;
  std::atomic<int64_t> met_{0};
};

}  // namespace quarry::scheduler
