// Trace events: what ran when, on which track, how many bytes, at which budget level. Recording is off until
// start_tracing(); then each thread appends to its own buffer. The scheduler and io emit events; chunked gathers them
// over ranks and writes the Perfetto file and the report.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quarry::local {

struct TraceEvent {
  std::string name;      // task or call, e.g. "read /returns[3, 0]"
  std::string track;     // read, decode, h2d, d2h, compute, worker, comm, write, spill
  int64_t begin_ns = 0;  // trace_clock_ns()
  int64_t end_ns = 0;
  int64_t bytes = 0;
  int64_t budget_used = -1;  // reserved bytes of the rank's compute tier at the end; -1 where unknown
  int32_t thread = 0;        // small number of the recording thread
  std::string detail;        // path taken (direct, library: why), transport, error; of a task with flops its kernel
  // Of several that were made one, the first one's name; bytes, busy_ns and flops are their sums. 0: as it was
  // recorded.
  int32_t count = 0;
  int64_t busy_ns = 0;
  double flops = 0;  // additions and multiplications of products and decompositions of matrices
};
// How long it, or what it is made of, took.
inline int64_t busy_ns(const TraceEvent& event) {
  return event.count > 1 ? event.busy_ns : event.end_ns - event.begin_ns;
}

int64_t trace_clock_ns();  // steady clock
bool tracing();
// A thread that has recorded `most_per_thread` events calls `thin` to leave fewer of them; null: it keeps all.
void start_tracing(size_t most_per_thread = 0, void (*thin)(std::vector<TraceEvent>& events) = nullptr);
// Stops and returns what all threads recorded since the start, ordered by begin_ns.
std::vector<TraceEvent> stop_tracing();
void trace(TraceEvent event);  // no-op unless tracing()

// Records its own lifetime.
class TraceScope {
 public:
  TraceScope(std::string name, std::string track, int64_t bytes = 0);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  void set_detail(std::string detail) { event_.detail = std::move(detail); }

 private:
  TraceEvent event_;
  bool active_;
};

}  // namespace quarry::local
