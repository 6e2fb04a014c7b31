// Running accumulations along one axis.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams).
#pragma once

#include "local/program/engine.h"

namespace quarry::local {

class Scanning {
 public:
  virtual ~Scanning() = default;
};

}  // namespace quarry::local
