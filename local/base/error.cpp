#include "quarry/local/base/error.h"

#include <fmt/format.h>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/thread.h"

namespace quarry::local {

ErrorRecord detail::to_record(const std::exception_ptr& exception) {
  QUARRY_CHECK(exception != nullptr);
  try {
    std::rethrow_exception(exception);
  } catch (const BudgetError& e) {
    return {e.code(), e.what(), e.least_bytes()};
  } catch (const Error& e) {
    return {e.code(), e.what(), 0};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, "the host has no memory left" + process_limits(), 0};
  } catch (const std::exception& e) {
    return {ErrorCode::internal, e.what(), 0};
  } catch (...) {
    return {ErrorCode::internal, "an exception that is no std::exception", 0};
  }
}

void detail::throw_record(const ErrorRecord& record) {
  switch (record.code) {
    case ErrorCode::invalid_argument:
      throw InvalidArgument(record.message);
    case ErrorCode::type_error:
      throw TypeError(record.message);
    case ErrorCode::index_error:
      throw IndexError(record.message);
    case ErrorCode::budget:
      throw BudgetError(record.message, record.detail);
    case ErrorCode::not_supported:
      throw NotSupported(record.message);
    case ErrorCode::device:
      throw DeviceError(record.message);
    case ErrorCode::io:
      throw IoError(record.message);
    case ErrorCode::comm:
      throw CommError(record.message);
    case ErrorCode::out_of_memory:
      throw OutOfMemory(record.message);
    case ErrorCode::cancelled:
      throw Cancelled(record.message);
    case ErrorCode::linear_algebra:
      throw LinAlgError(record.message);
    case ErrorCode::needs_value:
      throw NeedsValue(record.message);
    case ErrorCode::internal:
      break;
  }
  throw InternalError(record.message);
}

void detail::check_failed(const char* expression, const char* file, int line) {
  throw InternalError(fmt::format("internal error: {} does not hold ({}:{})", expression, file, line));
}

}  // namespace quarry::local
