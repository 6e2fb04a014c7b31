// What callers of kernels learn of them: errors of compilers, and what a kernel needs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "quarry/local/base/error.h"

namespace quarry::local {

// Source that a compiler refuses. The message quotes the user's own line; log() is all that the compiler said.
class CompileError : public InvalidArgument {
 public:
  CompileError(const std::string& message, std::string log) : InvalidArgument(message), log_(std::move(log)) {}
  const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};

// What a CUDA kernel is and needs, in bytes, as far as the compiler tells.
struct RawAttributes {
  int64_t max_threads_per_block = 0;
  int64_t registers = 0;
  int64_t static_shared_bytes = 0;
  int64_t local_bytes = 0;
  int64_t const_bytes = 0;
  int64_t max_dynamic_shared_bytes = 0;  // what a launch may ask for now
  int64_t binary_version = 0;            // 90 for sm_90
};

}  // namespace quarry::local
