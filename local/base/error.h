// Typed errors of every layer. User mistakes throw before any work starts; failures of the world throw typed exceptions
// that travel between ranks as an ErrorRecord. Whoever first detects an error describes it; nobody logs and throws.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace quarry::local {

enum class ErrorCode : int32_t {
  invalid_argument,  // ValueError
  type_error,        // TypeError
  index_error,       // IndexError
  budget,            // the plan cannot fit; carries the least workable budget
  not_supported,
  device,
  io,
  comm,
  out_of_memory,
  cancelled,
  internal,
  linear_algebra,  // LinAlgError
  needs_value,     // an array of shape and dtype alone was read
};

namespace detail {

// An error as plain data, so that it can be sent to other ranks and thrown there as the same type.
struct ErrorRecord {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  int64_t detail = 0;  // BudgetError: least workable bytes
};
// The record of any exception; one that is not an Error becomes `internal` with its what().
ErrorRecord to_record(const std::exception_ptr& exception);
// Throws the record as the exception type it was made from.
[[noreturn]] void throw_record(const ErrorRecord& record);

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace detail

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// The user's mistakes.
class InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& message) : Error(ErrorCode::invalid_argument, message) {}

 protected:
  using Error::Error;
};
class TypeError : public InvalidArgument {
 public:
  explicit TypeError(const std::string& message) : InvalidArgument(ErrorCode::type_error, message) {}
};
class IndexError : public InvalidArgument {
 public:
  explicit IndexError(const std::string& message) : InvalidArgument(ErrorCode::index_error, message) {}
};
// A matrix that an algorithm cannot take, or that it does not converge for.
class LinAlgError : public InvalidArgument {
 public:
  explicit LinAlgError(const std::string& message) : InvalidArgument(ErrorCode::linear_algebra, message) {}
};
class BudgetError : public InvalidArgument {
 public:
  BudgetError(const std::string& message, int64_t least_bytes)
      : InvalidArgument(ErrorCode::budget, message), least_bytes_(least_bytes) {}
  int64_t least_bytes() const noexcept { return least_bytes_; }

 private:
  int64_t least_bytes_;
};
class NotSupported : public InvalidArgument {
 public:
  explicit NotSupported(const std::string& message) : InvalidArgument(ErrorCode::not_supported, message) {}
};

// A function that reads values of arrays was tried on arrays that have none (DeviceKind::trial). The message names it.
class NeedsValue : public InvalidArgument {
 public:
  explicit NeedsValue(const std::string& message) : InvalidArgument(ErrorCode::needs_value, message) {}
};

// The world's failures.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(ErrorCode::device, message) {}
};
class IoError : public Error {
 public:
  explicit IoError(const std::string& message) : Error(ErrorCode::io, message) {}
};
class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(ErrorCode::comm, message) {}
};
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message) : Error(ErrorCode::out_of_memory, message) {}
};
// Work stopped because something else failed or the user interrupted.
class Cancelled : public Error {
 public:
  explicit Cancelled(const std::string& message) : Error(ErrorCode::cancelled, message) {}
};
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ErrorCode::internal, message) {}
};

}  // namespace quarry::local

// A broken invariant of quarry itself, never the user's mistake: throws InternalError naming the place.
#define QUARRY_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::quarry::local::detail::check_failed(#expression, __FILE__, __LINE__))
