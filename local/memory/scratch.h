// Temporary memory of one operation.
#pragma once

#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {

// Memory of one operation, taken and given back in the order of its stream. Throws OutOfMemory.
class Scratch {
 public:
  Scratch(int64_t bytes, const ExecContext& context) : bytes_(bytes), context_(context) {
    if (bytes_ > 0) data_ = static_cast<char*>(context_.memory->allocate(bytes_, context_.stream));
  }
  ~Scratch() {
    if (data_) context_.memory->deallocate(data_, bytes_, context_.stream);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  // Null where no bytes were asked for.
  char* data() const { return data_; }
  char* at(int64_t offset) const { return data_ + offset; }

 private:
  const int64_t bytes_;
  const ExecContext& context_;
  char* data_ = nullptr;
};

}  // namespace quarry::local
