// How events are laid out in rows, for the trace file and the page alike.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/report/report.h"

namespace quarry::report {

// Events of one track that do not overlap (the last row of a track with very many takes what is left and may overlap).
struct Row {
  std::string track;
  int number = 0;                                // within the track
  std::vector<const local::TraceEvent*> events;  // by begin
};
// Known tracks in the order of the data's way, then others by name.
std::vector<Row> rows_of(const RankTrace& trace, int most_per_track);

// The executor records a task that reads or writes a file or receives a block, the data path each of the calls in it
// with the way it took. Leaves the tasks, with the way as their detail, and the calls that no such task made.
void merge_calls(std::vector<local::TraceEvent>& events);

// Position of a track in that order; unknown ones come last.
int track_order(const std::string& track);

// What a track of a rank did.
struct TrackUse {
  std::string track;
  int64_t events = 0, bytes = 0;
  double busy_seconds = 0;  // with at least one event under way
  double sum_seconds = 0;   // of all events
  double ceiling = 0;       // bytes per second; 0: not measured
  double rate() const { return busy_seconds > 0 ? static_cast<double>(bytes) / busy_seconds : 0; }
};
std::vector<TrackUse> track_uses(const RankTrace& rank);

// What tasks of one kernel did on all ranks.
struct KernelUse {
  std::string kernel;
  int64_t tasks = 0;
  double seconds = 0;  // of all tasks
  double flops = 0;
  double rate() const { return seconds > 0 ? flops / seconds : 0; }
};
// Of those that count their flops, what took longest first.
std::vector<KernelUse> kernel_uses(std::span<const RankTrace> ranks);

// What ranks fetched from each other.
struct Fetched {
  std::vector<std::vector<int64_t>> bytes;                     // [from][to], by position in `ranks`
  std::map<std::string, std::pair<int64_t, int64_t>> by_path;  // times and bytes; by the path's name and link
};
Fetched fetched_bytes(std::span<const RankTrace> ranks);

// Seconds during which at least one of the events runs.
double busy_seconds(std::vector<std::pair<int64_t, int64_t>> intervals);

}  // namespace quarry::report
