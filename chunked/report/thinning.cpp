#include "quarry/chunked/report/thinning.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "quarry/chunked/report/report.h"
#include "quarry/chunked/report/rows.h"
#include "quarry/scheduler/task.h"

namespace quarry::report {
namespace {

using local::TraceEvent;

// What events have in common that may become one.
std::string key_of(const TraceEvent& event) {
  constexpr std::string_view kFrom = " from rank ";
  const std::string_view name = event.name;
  const size_t at = event.track == scheduler::kTierTrack ? 0 : name.rfind(kFrom);
  std::string key = event.track;
  for (const std::string_view part : {std::string_view(event.detail), name.substr(std::min(at, name.size()))}) {
    key += '\0';
    key += part;
  }
  return key + '\0' + std::to_string(event.thread);
}

void add(TraceEvent& sum, const TraceEvent& event) {
  if (sum.track == scheduler::kTierTrack) {
    sum = event;
    return;
  }
  sum.busy_ns = busy_ns(sum) + busy_ns(event);
  sum.count += event.count;
  sum.begin_ns = std::min(sum.begin_ns, event.begin_ns);
  sum.end_ns = std::max(sum.end_ns, event.end_ns);
  sum.bytes += event.bytes;
  sum.flops += event.flops;
  if (event.budget_used >= 0) sum.budget_used = event.budget_used;
}

}  // namespace

void thin(std::vector<TraceEvent>& events) {
  merge_calls(events);
  std::unordered_map<std::string, size_t> alone;  // by key: one that waits for another
  size_t kept = 0;
  const auto keep = [&](size_t i) {
    if (kept != i) events[kept] = std::move(events[i]);
    ++kept;
  };
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].count = std::max(events[i].count, 1);
    if (events[i].track == kStepTrack) {  // a mark, of which there are few
      keep(i);
      continue;
    }
    const auto [found, added] = alone.try_emplace(key_of(events[i]), kept);
    if (added) {
      keep(i);
      continue;
    }
    add(events[found->second], events[i]);
    alone.erase(found);
  }
  events.resize(kept);
}

void thin_to(std::vector<TraceEvent>& events, size_t most) {
  for (size_t before = events.size() + 1; events.size() > most && events.size() < before;) {
    before = events.size();
    thin(events);
  }
}

}  // namespace quarry::report
