// Runs plans on the Runtime's ranks: keep chunks, gather values, write files, or only say what would run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chunked/array.h"
#include "chunked/exec/stored_array.h"
#include "chunked/plan/stage.h"

namespace quarry::exec {

// What a computation would do, over all ranks. Collective.
struct PlanSummary {
  std::string stages;  // one line per stage
  int64_t chunks = 0, tasks = 0;
  int64_t read_bytes = 0, write_bytes = 0;
  int64_t least_bytes = 0;   // per rank
  int64_t memory_bytes = 0;  // per rank, given
};
PlanSummary summarize(std::span<const Array> arrays, bool write);

// Whether any computation of this process has begun to run, on this rank or another: what fails before that is wrong
// with the request, not with its execution.
bool any_run_started();

// Computes the arrays in one plan and keeps their chunks with their owners. Collective, blocking.
std::vector<std::shared_ptr<StoredArray>> keep(std::span<const Array> arrays);

// The value in host memory on every rank. Collective, blocking.
NdArray gather(const StoredArray& array);

}  // namespace quarry::exec
