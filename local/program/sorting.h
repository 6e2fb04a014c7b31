// Ordering along one axis: sort, argsort, partition, search, and histograms of sorted data.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams).
#pragma once

#include "local/program/engine.h"

namespace quarry::local {

class Sorting {
 public:
  virtual ~Sorting() = default;
};

}  // namespace quarry::local
