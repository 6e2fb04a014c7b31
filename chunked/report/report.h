// What a run leaves behind for people: a trace for Perfetto (or chrome://tracing) and one self-contained HTML page.
// Plain data in, a file out; ranks send their part as bytes to the one that writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/base/escape.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/base/trace.h"

namespace quarry::report {

// What a track could do at most, measured on the machine of the run (report/ceilings.h).
struct TrackCeiling {
  std::string track;
  double bytes_per_second = 0;
};

// A ceiling that is no track's: operations of matrix products a second, of one thread, in place of bytes.
inline constexpr std::string_view kFlopsCeiling = "flops";
// The track of what the command says it does ("2/3 covariances"): marked on the timeline, no work of its own.
inline constexpr std::string_view kStepTrack = "step";

// One rank's part, or that of several of a very large job, of which the first one's events stand for all.
struct RankTrace {
  int32_t rank = 0;   // the first
  int64_t ranks = 1;  // that follow each other
  std::string host;
  std::string device;  // "cpu, 2 threads", "NVIDIA H200"
  int64_t memory_limit_bytes = 0;
  int64_t memory_peak_bytes = 0;
  int64_t host_limit_bytes = 0, host_peak_bytes = 0;  // pinned tier; GPU kinds
  int64_t restored_bytes = 0;
  int64_t read_bytes = 0, written_bytes = 0, spilled_bytes = 0, communicated_bytes = 0;
  int64_t tasks = 0;
  int64_t stolen_chunks = 0;  // computed for other ranks
  int64_t flops = 0;          // of the events
  std::vector<TrackCeiling> ceilings;
  std::vector<local::TraceEvent> events;
};

// "3", or "64-127" for several.
std::string numbers_of(const RankTrace& trace);
// Makes what the ranks that follow did a part of what `trace` did. Their events are dropped, and `flops` stays that of
// the first one, which goes with its events.
void add_totals(RankTrace& trace, const RankTrace& next);

// As bytes to send. deserialize() throws InvalidArgument for bytes that serialize() did not make.
std::string serialize(const RankTrace& trace);
RankTrace deserialize(std::string_view bytes);
// Moves the rank's clock to rank 0's: `offset_ns` is what rank 0's trace_clock_ns() shows when this rank's shows 0.
void align_clock(RankTrace& trace, int64_t offset_ns);
// Rank 0's clock minus this rank's, from one exchange with rank 0: this rank's clock when it asked, rank 0's when it
// answered, this rank's when the answer came. Off by at most half of the time between.
int64_t clock_offset_ns(int64_t asked_ns, int64_t answered_ns, int64_t received_ns);

// Sections of results, shown in order before everything else.
struct BarChart {
  std::string title;
  std::string x_label, y_label;  // with units
  std::vector<double> values;    // the first bar is number 1
  bool cumulative = false;       // with the running sum as a line; for shares of a whole
};
struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
struct Check {
  std::string name, expected, found;
  bool passed = false;
};
struct Checks {
  std::string title;
  std::vector<Check> checks;
};
struct Text {
  std::string title;
  std::string text;  // shown as it is
};
using Section = std::variant<BarChart, Table, Checks, Text>;

struct RunReport {
  std::string title;    // "quarry pca returns.h5:/returns"
  std::string command;  // the command line
  std::string version;
  std::string started;  // date and time as text
  std::string banner;   // ranks, devices, threads, budget
  std::string plan;     // the listing of plan::describe(), of all plans that ran
  double wall_seconds = 0;
  std::vector<std::pair<std::string, std::string>> facts;  // further lines of "what ran": input, shape, chunks
  std::vector<Section> results;
  std::vector<RankTrace> ranks;  // clocks aligned
};

// The Chrome trace event format: one process per rank, one row per track (more where events overlap), and the bytes of
// every memory tier as counters. What the page needs beside the events stands in it too, but for results. Throws
// IoError.
void write_trace(const std::string& path, const RunReport& report);
// The report behind a file that write_trace() made. Throws IoError, and InvalidArgument for other files.
RunReport read_trace(const std::string& path);
// One sentence: what the run spent its time on, and what would change that.
std::string bottleneck(const RunReport& report);
// A few lines for a terminal: totals, and each track's use.
std::string summary(const RunReport& report);

// One HTML file without references to anything else. Throws IoError.
void write_report(const std::string& path, const RunReport& report);

using local::escape_html;
using local::escape_json;
using local::format_bytes;
// "1.23 s", "4.5 ms", "2 min 5 s".
std::string format_seconds(double seconds);

}  // namespace quarry::report
