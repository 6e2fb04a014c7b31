// Parts of one piece of memory.
#pragma once

#include <cstdint>

#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local::cuda::eigh {

// Offsets, each aligned as allocations are.
class Places {
 public:
  int64_t take(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += align_up(bytes, detail::kAllocationAlignment);
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace quarry::local::cuda::eigh
