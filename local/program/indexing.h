// Reading and writing elements at positions that are data: gather, scatter, selection by masks.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams).
#pragma once

#include "local/program/engine.h"

namespace quarry::local {

class Indexing {
 public:
  virtual ~Indexing() = default;
};

}  // namespace quarry::local
