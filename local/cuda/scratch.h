#pragma once

#include "local/device/exec_context.h"
#include "local/memory/memory_resource.h"

namespace quarry::local::cuda {

// Stream-ordered memory of one operation.
class Scratch {
 public:
  Scratch(int64_t bytes, const ExecContext& context)
      : bytes_(bytes), context_(context), data_(context.memory->allocate(bytes, context.stream)) {}
  ~Scratch() { context_.memory->deallocate(data_, bytes_, context_.stream); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }
  char* at(int64_t offset) const { return static_cast<char*>(data_) + offset; }

 private:
  int64_t bytes_;
  const ExecContext& context_;
  void* data_;
};

}  // namespace quarry::local::cuda
