// The first sentence of a report: what the run spent its time on, and what would change that.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "quarry/chunked/report/charts.h"
#include "quarry/chunked/report/rows.h"

namespace quarry::report {
namespace {

// A track of the rank that has it busy for longest.
struct Busiest {
  std::string track;
  double share = 0;  // of the wall time
  double rate = 0, ceiling = 0;
  int64_t events = 0, bytes = 0;
  double seconds = 0;
  double overlap = 0;  // events under way at the same time, of the busy time
  const RankTrace* rank = nullptr;
};

std::optional<Busiest> busiest(const RunReport& report, std::string_view track) {
  std::optional<Busiest> most;
  for (const RankTrace& rank : report.ranks) {
    for (const TrackUse& use : track_uses(rank)) {
      if (use.track != track || (most && use.busy_seconds <= most->seconds)) continue;
      most = Busiest{use.track,
                     use.busy_seconds / report.wall_seconds,
                     use.rate(),
                     use.ceiling,
                     use.events,
                     use.bytes,
                     use.busy_seconds,
                     use.busy_seconds > 0 ? use.sum_seconds / use.busy_seconds : 0,
                     &rank};
    }
  }
  return most;
}

std::string rate_text(double rate) { return format_bytes(static_cast<int64_t>(rate)) + "/s"; }

std::string share_text(double share) { return fmt::format("{:.0f} % of the time", 100 * std::min(share, 1.0)); }

double ceiling_of(const RankTrace& rank, std::string_view track) {
  const auto found = std::ranges::find(rank.ceilings, track, &TrackCeiling::track);
  return found == rank.ceilings.end() ? 0 : found->bytes_per_second;
}

constexpr double kNearCeiling = 0.6;

std::string of_files(const Busiest& use, std::string_view doing, std::string_view fewer) {
  if (use.ceiling <= 0)
    return fmt::format("{} files took {}, at {}: {}.", doing, share_text(use.share), rate_text(use.rate), fewer);
  const double part = use.rate / use.ceiling;
  if (part >= kNearCeiling) {
    return fmt::format("{} files took {}, at {:.0f} % of what the page cache of this machine gives: {}.", doing,
                       share_text(use.share), 100 * part, fewer);
  }
  return fmt::format(
      "{} files took {}, at {} where the page cache of this machine gives {}: the disk or the filters of the file hold "
      "it up; a faster disk, or a file without compression, helps.",
      doing, share_text(use.share), rate_text(use.rate), rate_text(use.ceiling));
}

std::string of_compute(const Busiest& use, const RunReport& report) {
  const RankTrace& rank = *use.rank;
  const double flops = static_cast<double>(rank.flops), most = ceiling_of(rank, kFlopsCeiling);
  constexpr double kMuch = 0.5;  // of the time of all tasks, as products take it at best
  if (most > 0 && flops / most >= kMuch * use.seconds * use.overlap) {
    return fmt::format(
        "Computing took {}, most of it in products and decompositions of matrices, at {:.3g} Gflop/s where one thread "
        "does {:.3g}: {}.",
        share_text(use.share), flops / use.seconds * 1e-9, most * 1e-9,
        "more threads or ranks, float32, or a GPU (--device cuda) make it faster");
  }
  constexpr double kIdle = 1.5;
  const bool is_cpu = rank.device.starts_with("cpu,") && !rank.device.starts_with("cpu, 1 thread");
  if (is_cpu && use.overlap < kIdle) {
    return fmt::format(
        "Computing took {}, with {:.1f} tasks at a time: more and smaller chunks (--chunks) would keep all threads at "
        "work.",
        share_text(use.share), use.overlap);
  }
  return fmt::format("Computing took {}, with {:.1f} tasks at a time: more threads or ranks{} make it faster.",
                     share_text(use.share), use.overlap,
                     report.ranks[0].device.starts_with("cpu") ? ", or a GPU (--device cuda)," : "");
}

}  // namespace

std::string bottleneck(const RunReport& report) {
  constexpr double kLeast = 0.3;    // of the wall time
  constexpr double kSpills = 0.15;  // the same of what a larger budget would do away with
  if (report.ranks.empty() || !(report.wall_seconds > 0)) return "";
  if (const auto spill = busiest(report, "spill"); spill && spill->share >= kSpills) {
    int64_t spilled = 0, restored = 0;
    for (const RankTrace& rank : report.ranks) spilled += rank.spilled_bytes, restored += rank.restored_bytes;
    return fmt::format(
        "The memory budget of {} per rank was too small: {} were spilled and {} brought back, in {}; a larger "
        "--memory helps.",
        format_bytes(spill->rank->memory_limit_bytes), format_bytes(spilled), format_bytes(restored),
        share_text(spill->share));
  }
  std::optional<Busiest> most;
  for (const char* track : {"read", "decode", "h2d", "compute", "worker", "d2h", "write", "comm"}) {
    const std::optional<Busiest> use = busiest(report, track);
    if (use && (!most || use->share > most->share)) most = use;
  }
  if (!most) return "Nothing was computed: there is no event in the trace.";
  if (most->share < kLeast) {
    int64_t tasks = 0;
    for (const RankTrace& rank : report.ranks) tasks += rank.tasks;
    const bool many = tasks > 0 && report.wall_seconds / static_cast<double>(tasks) < 1e-4;
    return fmt::format("Nothing was busy for more than {}: {}.", share_text(most->share),
                       many ? fmt::format("{} short tasks wait for each other; larger chunks (--chunks) help", tasks)
                            : "the time went into starting, planning and waiting, which larger data would not feel");
  }
  if (most->track == "read" || most->track == "decode")
    return of_files(*most, "Reading", "fewer passes, a smaller dtype or more hosts make it faster");
  if (most->track == "write") return of_files(*most, "Writing", "a smaller dtype or more hosts make it faster");
  if (most->track == "comm") {
    return fmt::format("Communication between ranks took {}, at {}{}: fewer ranks, or larger chunks (--chunks), help.",
                       share_text(most->share), rate_text(most->rate),
                       most->ceiling > 0 ? fmt::format(" of {}", rate_text(most->ceiling)) : "");
  }
  if (most->track == "h2d" || most->track == "d2h") {
    return fmt::format("Copies {} the GPU took {}, at {}: data that stays there (a larger --memory) helps.",
                       most->track == "h2d" ? "to" : "from", share_text(most->share), rate_text(most->rate));
  }
  return of_compute(*most, report);
}

}  // namespace quarry::report
