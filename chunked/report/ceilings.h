// How fast each track could be on this machine, for the report to compare with.
#pragma once

#include <vector>

#include "quarry/chunked/report/report.h"
#include "quarry/chunked/runtime/runtime.h"

namespace quarry::report {

// Copies of 64 MiB, or of a quarter of the host memory that the run may have: a file in the spill directory (page
// cache), the memory of the device, pinned memory to and from it, and a message to the next rank. A fraction of a
// second. What cannot be measured is left out. Collective.
std::vector<TrackCeiling> measure_ceilings(Runtime& runtime);

}  // namespace quarry::report
