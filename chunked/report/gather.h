// The ranks' parts of a report, brought to rank 0.
#pragma once

#include <vector>

#include "quarry/chunked/report/report.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"

namespace quarry::report {

// This rank's part: its device, budget, totals since the Runtime was made, and the events.
RankTrace rank_trace(const Runtime& runtime, std::vector<local::TraceEvent> events);

// All parts in the order of ranks, their clocks aligned with rank 0's, on rank 0; nothing on the others. Of very many
// events neighbours become one (thinning.h). Of more than 384 ranks several that follow each other have one part, with
// the sums of what they did and the events of the first. Collective; no plan may be running.
std::vector<RankTrace> gather_traces(comm::Communicator& communicator, RankTrace mine);

}  // namespace quarry::report
