// Long runs in traces of bounded size.
#pragma once

#include <cstddef>
#include <vector>

#include "quarry/local/base/trace.h"

namespace quarry::report {

// Events that a rank keeps while it runs, over its threads, and that reach rank 0 from all ranks: some 300 bytes each.
inline constexpr size_t kMostRecorded = 48 << 10, kMostGathered = 96 << 10;
// What a thread or a rank keeps at least.
inline constexpr size_t kLeastKept = 256;

// Makes neighbouring events of one thread and track one, pair by pair, where they took the same way and came from the
// same rank: about half of them are left, with the sums of bytes and times. Calls become part of their tasks first
// (merge_calls()). Of the levels of a tier the later ones are left.
void thin(std::vector<local::TraceEvent>& events);
// Until there are `most`, or no fewer can be.
void thin_to(std::vector<local::TraceEvent>& events, size_t most);

}  // namespace quarry::report
