// Errors that say what was being done.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::scheduler {

// The same error with what was being done before its message.
inline std::exception_ptr with_context(const std::string& what, const std::exception_ptr& error) {
  local::ErrorRecord record = local::to_record(error);
  record.message = fmt::format("{}: {}", what, record.message);
  try {
    local::throw_record(record);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace quarry::scheduler
