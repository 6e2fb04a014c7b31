#include "quarry/chunked/report/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>

#include "quarry/local/base/error.h"
#include "quarry/scheduler/task.h"

namespace quarry::report {

int track_order(const std::string& track) {
  if (track == kStepTrack) return -1;  // above all others
  static const std::array<std::string, 9> known{"read", "decode", "h2d",  "compute", "worker",
                                                "d2h",  "write",  "comm", "spill"};
  return static_cast<int>(std::find(known.begin(), known.end(), track) - known.begin());
}

std::vector<Row> rows_of(const RankTrace& trace, int most_per_track) {
  std::map<std::pair<int, std::string>, std::vector<const local::TraceEvent*>> tracks;
  for (const local::TraceEvent& event : trace.events) {
    if (event.track != scheduler::kTierTrack) tracks[{track_order(event.track), event.track}].push_back(&event);
  }
  std::vector<Row> rows;
  for (auto& [key, events] : tracks) {
    std::stable_sort(events.begin(), events.end(),
                     [](const auto* a, const auto* b) { return a->begin_ns < b->begin_ns; });
    const size_t first = rows.size();
    std::vector<int64_t> ends;
    for (const local::TraceEvent* event : events) {
      size_t row = 0;
      while (row < ends.size() && ends[row] > event->begin_ns) ++row;
      if (row == ends.size()) {
        if (row < static_cast<size_t>(most_per_track)) {
          ends.push_back(0);
          rows.push_back({key.second, static_cast<int>(row), {}});
        } else {
          --row;
        }
      }
      ends[row] = std::max(ends[row], event->end_ns);
      rows[first + row].events.push_back(event);
    }
  }
  return rows;
}

namespace {

// N of "... from rank N"; -1 where it does not end so.
int64_t sending_rank(std::string_view name) {
  constexpr std::string_view kFrom = " from rank ";
  const size_t at = name.rfind(kFrom);
  if (at == std::string_view::npos) return -1;
  const std::string_view digits = name.substr(at + kFrom.size());
  int64_t rank = -1;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  return read.ec == std::errc() && read.ptr == digits.data() + digits.size() ? rank : -1;
}

}  // namespace

void merge_calls(std::vector<local::TraceEvent>& events) {
  std::stable_sort(events.begin(), events.end(), [](const local::TraceEvent& a, const local::TraceEvent& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  // Tasks of a track that may contain what begins now.
  std::map<std::string, std::vector<size_t>> open;
  std::vector<bool> is_call(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    const local::TraceEvent& event = events[i];
    const bool transfer = event.track == "comm";
    if (event.count > 0) continue;  // merged before
    if (!transfer && event.track != "read" && event.track != "write") continue;
    std::vector<size_t>& tasks = open[event.track];
    std::erase_if(tasks, [&](size_t t) { return events[t].end_ns < event.begin_ns; });
    if (event.detail.empty()) {
      tasks.push_back(i);
      continue;
    }
    // Of several that contain it, the one of its own thread, else the latest. Transfers run beside each other on one
    // thread: their tasks have the same bytes and the same rank at the end of their name.
    size_t task = events.size();
    for (const size_t t : tasks) {
      if (events[t].end_ns < event.end_ns) continue;
      if (transfer && (!events[t].detail.empty() || events[t].bytes != event.bytes ||
                       sending_rank(events[t].name) != sending_rank(event.name) || sending_rank(event.name) < 0))
        continue;
      if (task == events.size() || events[t].thread == event.thread || events[task].thread != event.thread) task = t;
    }
    if (task == events.size()) continue;
    is_call[i] = true;
    if (events[task].detail.empty()) events[task].detail = event.detail;
  }
  size_t kept = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    if (is_call[i]) continue;
    if (kept != i) events[kept] = std::move(events[i]);
    ++kept;
  }
  events.resize(kept);
}

std::vector<TrackUse> track_uses(const RankTrace& rank) {
  std::map<std::pair<int, std::string>, std::pair<TrackUse, std::vector<std::pair<int64_t, int64_t>>>> uses;
  for (const local::TraceEvent& event : rank.events) {
    if (event.track == scheduler::kTierTrack || event.track == kStepTrack) continue;
    auto& [use, times] = uses[{track_order(event.track), event.track}];
    use.events += std::max(event.count, 1);
    use.bytes += event.bytes;
    use.sum_seconds += static_cast<double>(busy_ns(event)) * 1e-9;
    times.emplace_back(event.begin_ns, event.begin_ns + std::min(busy_ns(event), event.end_ns - event.begin_ns));
  }
  std::vector<TrackUse> result;
  for (auto& [key, value] : uses) {
    auto& [use, times] = value;
    use.track = key.second;
    use.busy_seconds = busy_seconds(std::move(times));
    for (const TrackCeiling& ceiling : rank.ceilings) {
      if (ceiling.track == use.track) use.ceiling = ceiling.bytes_per_second;
    }
    result.push_back(std::move(use));
  }
  return result;
}

std::vector<KernelUse> kernel_uses(std::span<const RankTrace> ranks) {
  std::map<std::string, KernelUse> uses;
  for (const RankTrace& rank : ranks) {
    for (const local::TraceEvent& event : rank.events) {
      if (event.flops <= 0) continue;
      KernelUse& use = uses[event.detail];
      use.kernel = event.detail;
      use.tasks += std::max(event.count, 1);
      use.seconds += static_cast<double>(busy_ns(event)) * 1e-9;
      use.flops += event.flops;
    }
  }
  std::vector<KernelUse> result;
  for (auto& [name, use] : uses) result.push_back(std::move(use));
  std::ranges::stable_sort(result, std::ranges::greater(), &KernelUse::seconds);
  return result;
}

Fetched fetched_bytes(std::span<const RankTrace> ranks) {
  Fetched fetched{{ranks.size(), std::vector<int64_t>(ranks.size(), 0)}, {}};
  for (size_t to = 0; to < ranks.size(); ++to) {
    for (const local::TraceEvent& event : ranks[to].events) {
      const bool transfer = event.name.starts_with("fetch ") || !event.detail.empty();  // or a task that became one
      if (event.track != "comm" || !transfer) continue;
      const int64_t from = sending_rank(event.name);
      if (from < 0 || from >= std::ssize(ranks)) continue;
      fetched.bytes[static_cast<size_t>(from)][to] += event.bytes;
      if (event.detail.empty()) continue;
      auto& [times, bytes] = fetched.by_path[event.detail];
      times += std::max(event.count, 1);
      bytes += event.bytes;
    }
  }
  return fetched;
}

double busy_seconds(std::vector<std::pair<int64_t, int64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  int64_t busy = 0, end = INT64_MIN;
  for (const auto& [from, to] : intervals) {
    if (to <= end) continue;
    busy += to - std::max(from, end);
    end = to;
  }
  return static_cast<double>(busy) * 1e-9;
}

}  // namespace quarry::report
