// Rows of bench_scheduler.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quarry/local/device/device.h"

namespace quarry::bench {

struct SchedulerOptions {
  local::Device device;
  int threads = 2;
  int streams = 1;                // of a GPU's compute thread
  bool quick = false;             // small sizes, few repeats
  int64_t tasks = 10'000'000;     // of the memory row
  std::vector<std::string> rows;  // empty: all of the device
};

// One JSON object a line.
void report(const nlohmann::json& row);

// Chunks through the public functions: what the host spends on a task, rates against the ceilings of the run.
void chunk_rows(const SchedulerOptions& options);
// The names of single ones; "chunks" are all.
inline constexpr std::array kChunkRows = {"64KiB", "4MiB", "64MiB", "spilling", "streaming"};

// METG over the ranks of the job that this process belongs to: points in equal parts, one thread a rank.
void rank_rows(const SchedulerOptions& options, int argc, char** argv);

bool wanted(const SchedulerOptions& options, const std::string& row);

}  // namespace quarry::bench
