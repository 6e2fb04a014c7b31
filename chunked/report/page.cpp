// The HTML page: results, what ran, memory, bytes, timeline, tracks, slowest tasks.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "quarry/chunked/report/charts.h"
#include "quarry/chunked/report/page_style.h"
#include "quarry/chunked/report/rows.h"
#include "quarry/io/text_file.h"
#include "quarry/scheduler/task.h"

namespace quarry::report {
namespace {

constexpr size_t kMostRanksDrawn = 16;
constexpr size_t kManyEvents = 20000;
constexpr size_t kSlowestTasks = 15;
constexpr size_t kMostPaths = 16;

class Page {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void raw(std::string_view text) { out_ += text; }
  void begin_section(const char* id, std::string_view title) {
    add("<section id=\"{}\"><h2>{}</h2>\n", id, escape_html(title));
  }
  void end_section() { raw("</section>\n"); }
  // Columns whose name starts with '#' hold numbers and are aligned to the right; '!' cells are HTML already.
  void table(const std::vector<std::string>& columns, const std::vector<std::vector<std::string>>& rows) {
    raw("<div class=\"scroll\"><table><thead><tr>");
    std::vector<bool> number;
    for (const std::string& column : columns) {
      number.push_back(!column.empty() && column[0] == '#');
      add("<th scope=\"col\"{}>{}</th>", number.back() ? " class=\"n\"" : "",
          escape_html(std::string_view(column).substr(number.back() ? 1 : 0)));
    }
    raw("</tr></thead><tbody>\n");
    for (const auto& row : rows) {
      raw("<tr>");
      for (size_t c = 0; c < row.size(); ++c) {
        const bool html = !row[c].empty() && row[c][0] == '\x01';
        add("<td{}>{}</td>", c < number.size() && number[c] ? " class=\"n\"" : "",
            html ? row[c].substr(1) : escape_html(row[c]));
      }
      raw("</tr>\n");
    }
    raw("</tbody></table></div>\n");
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string html_cell(std::string text) { return '\x01' + std::move(text); }

std::string rate(int64_t bytes, double seconds) {
  if (bytes <= 0 || seconds <= 0) return "";
  return format_bytes(static_cast<int64_t>(static_cast<double>(bytes) / seconds)) + "/s";
}

// A bar of a share in [0, 1] before its text.
std::string share_cell(double share, std::string_view style, const std::string& text) {
  return html_cell(fmt::format(R"(<span class="meter"><span class="{}" style="width:{:.1f}%"></span></span>{})", style,
                               100 * std::clamp(share, 0.0, 1.0), escape_html(text)));
}

struct Totals {
  int64_t read = 0, written = 0, spilled = 0, restored = 0, communicated = 0, tasks = 0, stolen = 0, peak = 0,
          limit = 0;
  int64_t ranks = 0;
  size_t events = 0;
};

Totals totals_of(const RunReport& report) {
  Totals sum;
  for (const RankTrace& rank : report.ranks) {
    sum.ranks += rank.ranks;
    sum.read += rank.read_bytes;
    sum.written += rank.written_bytes;
    sum.spilled += rank.spilled_bytes;
    sum.stolen += rank.stolen_chunks;
    sum.restored += rank.restored_bytes;
    sum.communicated += rank.communicated_bytes;
    sum.tasks += rank.tasks;
    sum.events += rank.events.size();
    sum.peak = std::max(sum.peak, rank.memory_peak_bytes);
    sum.limit = std::max(sum.limit, rank.memory_limit_bytes);
  }
  return sum;
}

void tiles(Page& page, const RunReport& report, const Totals& sum) {
  page.raw("<div class=\"tiles\">");
  const auto tile = [&](const char* name, const std::string& value, const std::string& more) {
    page.add(
        "<div class=\"tile\"><div class=\"name\">{}</div><div class=\"value\">{}</div><div "
        "class=\"more\">{}</div></div>",
        name, escape_html(value), escape_html(more));
  };
  tile("Wall time", format_seconds(report.wall_seconds),
       fmt::format("{} rank{}", sum.ranks, sum.ranks == 1 ? "" : "s"));
  tile("Read", format_bytes(sum.read), rate(sum.read, report.wall_seconds));
  tile("Written", format_bytes(sum.written), rate(sum.written, report.wall_seconds));
  tile("Spilled", format_bytes(sum.spilled), rate(sum.spilled, report.wall_seconds));
  tile("Communicated", format_bytes(sum.communicated), rate(sum.communicated, report.wall_seconds));
  tile("Peak memory", format_bytes(sum.peak), sum.limit > 0 ? "of " + format_bytes(sum.limit) + " per rank" : "");
  tile("Tasks", fmt::format("{}", sum.tasks), "");
  page.raw("</div>\n");
}

struct SectionWriter {
  Page& page;
  void heading(const std::string& title) const {
    if (!title.empty()) page.add("<h3>{}</h3>\n", escape_html(title));
  }
  void operator()(const BarChart& chart) const {
    heading(chart.title);
    page.raw(bar_chart(chart));
  }
  void operator()(const Table& table) const {
    heading(table.title);
    page.table(table.columns, table.rows);
  }
  void operator()(const Checks& checks) const {
    heading(checks.title);
    std::vector<std::vector<std::string>> rows;
    for (const Check& check : checks.checks) {
      rows.push_back({check.name, check.expected, check.found,
                      html_cell(check.passed ? "<span class=\"pass\">&#10003; passed</span>"
                                             : "<span class=\"fail\">&#10007; failed</span>")});
    }
    page.table({"Check", "Expected", "Found", "Result"}, rows);
  }
  void operator()(const Text& text) const {
    heading(text.title);
    page.add("<pre>{}</pre>\n", escape_html(text.text));
  }
};

void what_ran(Page& page, const RunReport& report) {
  page.begin_section("ran", "What ran");
  if (!report.command.empty()) page.add("<pre class=\"command\">{}</pre>\n", escape_html(report.command));
  page.raw("<dl>");
  const auto fact = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) page.add("<dt>{}</dt><dd>{}</dd>", escape_html(name), escape_html(value));
  };
  fact("Started", report.started);
  fact("Version", report.version);
  fact("Machine", report.banner);
  for (const auto& [name, value] : report.facts) fact(name, value);
  page.raw("</dl>\n");
  std::vector<std::vector<std::string>> rows;
  for (const RankTrace& rank : report.ranks) {
    rows.push_back({numbers_of(rank), rank.host, rank.device, format_bytes(rank.memory_limit_bytes),
                    format_bytes(rank.memory_peak_bytes), fmt::format("{}", rank.tasks)});
  }
  page.table({"Rank", "Host", "Device", "#Budget", "#Peak reserved", "#Tasks"}, rows);
  if (!report.plan.empty()) {
    page.add("<details{}><summary>Plan</summary><pre>{}</pre></details>\n",
             std::count(report.plan.begin(), report.plan.end(), '\n') <= 12 ? " open" : "", escape_html(report.plan));
  }
  page.end_section();
}

// Who sent how much to whom, and by which paths.
void communication_matrix(Page& page, const RunReport& report) {
  if (report.ranks.size() < 2 || report.ranks.size() > kMostRanksDrawn) return;
  const Fetched fetched = fetched_bytes(report.ranks);
  const auto& bytes = fetched.bytes;
  int64_t most = 0;
  for (const auto& row : bytes) most = std::max(most, *std::ranges::max_element(row));
  if (most == 0) return;
  std::vector<std::string> columns{"From \\ to rank"};
  std::vector<std::vector<std::string>> rows;
  for (size_t from = 0; from < bytes.size(); ++from) {
    columns.push_back(fmt::format("#{}", report.ranks[from].rank));
    rows.push_back({fmt::format("{}", report.ranks[from].rank)});
    for (const int64_t sent : bytes[from]) {
      rows.back().push_back(
          sent > 0 ? share_cell(static_cast<double>(sent) / static_cast<double>(most), "track-comm", format_bytes(sent))
                   : "");
    }
  }
  page.raw("<h3>Communication matrix</h3>\n");
  page.table(columns, rows);
  std::vector<std::vector<std::string>> paths;
  for (const auto& [path, amount] : fetched.by_path) {
    if (paths.size() == kMostPaths) break;
    paths.push_back({path, fmt::format("{}", amount.first), format_bytes(amount.second)});
  }
  if (!paths.empty()) page.table({"Path between ranks", "#Fetches", "#Bytes"}, paths);
}

void bytes_moved(Page& page, const RunReport& report, const Totals& sum) {
  page.begin_section("bytes", "Bytes moved");
  int64_t most = 1;
  for (const RankTrace& rank : report.ranks) {
    most = std::max({most, rank.read_bytes, rank.written_bytes, rank.spilled_bytes, rank.communicated_bytes});
  }
  const auto cell = [&](int64_t bytes, const char* style) {
    return share_cell(static_cast<double>(bytes) / static_cast<double>(most), style, format_bytes(bytes));
  };
  std::vector<std::vector<std::string>> rows;
  for (const RankTrace& rank : report.ranks) {
    rows.push_back({numbers_of(rank), cell(rank.read_bytes, "track-read"), cell(rank.written_bytes, "track-write"),
                    cell(rank.spilled_bytes, "track-spill"), cell(rank.restored_bytes, "track-spill"),
                    cell(rank.communicated_bytes, "track-comm"), fmt::format("{}", rank.stolen_chunks)});
  }
  if (report.ranks.size() > 1) {
    rows.push_back({"all", format_bytes(sum.read), format_bytes(sum.written), format_bytes(sum.spilled),
                    format_bytes(sum.restored), format_bytes(sum.communicated), fmt::format("{}", sum.stolen)});
  }
  page.table({"Rank", "#Read from files", "#Written to files", "#Spilled", "#Brought back", "#Sent to other ranks",
              "#Chunks stolen"},
             rows);

  // Transfers as the trace saw them.
  std::vector<std::vector<std::string>> transfers;
  for (const RankTrace& rank : report.ranks) {
    int64_t count = 0, bytes = 0;
    std::vector<std::pair<int64_t, int64_t>> times;
    for (const local::TraceEvent& event : rank.events) {
      if (event.track != "comm") continue;
      count += std::max(event.count, 1);
      bytes += event.bytes;
      times.emplace_back(event.begin_ns, event.end_ns);
    }
    if (count == 0) continue;
    const double busy = busy_seconds(std::move(times));
    transfers.push_back({numbers_of(rank), fmt::format("{}", count), format_bytes(bytes), format_bytes(bytes / count),
                         format_seconds(busy), rate(bytes, busy)});
  }
  if (!transfers.empty()) {
    page.raw("<h3>Communication</h3>\n");
    page.table({"Rank", "#Transfers", "#Bytes", "#Mean size", "#Time with one under way", "#Rate in that time"},
               transfers);
  }

  communication_matrix(page, report);

  // How files were read and written: the trace says which way each took.
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> ways;
  for (const RankTrace& rank : report.ranks) {
    for (const local::TraceEvent& event : rank.events) {
      if (event.detail.empty() || event.flops > 0) continue;
      auto& [count, bytes] = ways[{event.track, event.detail}];
      ++count;
      bytes += event.bytes;
    }
  }
  if (!ways.empty()) {
    std::vector<std::vector<std::string>> list;
    for (const auto& [way, amount] : ways) {
      if (list.size() == kMostPaths) break;
      list.push_back({way.first, way.second, fmt::format("{}", amount.first), format_bytes(amount.second)});
    }
    page.raw("<h3>Ways taken</h3>\n");
    page.table({"Track", "Way", "#Times", "#Bytes"}, list);
    if (ways.size() > kMostPaths) page.add("<p class=\"note\">{} more.</p>\n", ways.size() - kMostPaths);
  }
  page.end_section();
}

void tracks(Page& page, const RunReport& report, const TimeAxis& axis) {
  bool measured = false;
  std::vector<std::vector<std::string>> rows;
  for (const RankTrace& rank : report.ranks) {
    for (const TrackUse& use : track_uses(rank)) {
      const double share = use.busy_seconds / axis.seconds();
      measured = measured || use.ceiling > 0;
      const double of_ceiling = use.ceiling > 0 ? use.rate() / use.ceiling : 0;
      rows.push_back(
          {numbers_of(rank),
           html_cell(fmt::format("<span class=\"key {}\"></span>{}", track_class(use.track), escape_html(use.track))),
           fmt::format("{}", use.events), format_seconds(use.busy_seconds),
           share_cell(share, track_class(use.track), fmt::format("{:.0f} %", 100 * share)),
           fmt::format("{:.2f}", use.busy_seconds > 0 ? use.sum_seconds / use.busy_seconds : 0),
           format_bytes(use.bytes), rate(use.bytes, use.busy_seconds),
           use.ceiling > 0 ? format_bytes(static_cast<int64_t>(use.ceiling)) + "/s" : "",
           use.ceiling > 0 && use.bytes > 0
               ? share_cell(of_ceiling, track_class(use.track), fmt::format("{:.0f} %", 100 * of_ceiling))
               : ""});
    }
  }
  page.begin_section("tracks", "Tracks");
  page.table({"Rank", "Track", "#Events", "#Busy", "#Share of the time", "#Mean overlap", "#Bytes", "#Rate while busy",
              "#Measured ceiling", "#Of the ceiling"},
             rows);
  if (measured) {
    page.raw(
        "<p class=\"note\">Ceilings are copies of the same machine at the end of the run: files of the page cache for "
        "reading and writing, memory for compute, pinned memory for copies to and from a device, the transport for "
        "communication. A file on a slow disk stays below its ceiling.</p>\n");
  }
  page.end_section();
}

// The fastest of the ranks' threads at products of matrices, operations a second; 0: not measured.
double flops_ceiling(const RunReport& report) {
  double most = 0;
  for (const RankTrace& rank : report.ranks)
    for (const TrackCeiling& ceiling : rank.ceilings)
      if (ceiling.track == kFlopsCeiling) most = std::max(most, ceiling.bytes_per_second);
  return most;
}

std::string flop_rate(double rate) {
  return rate >= 1e12 ? fmt::format("{:.3g} TFLOP/s", rate * 1e-12) : fmt::format("{:.3g} GFLOP/s", rate * 1e-9);
}

void kernels(Page& page, const RunReport& report) {
  const std::vector<KernelUse> uses = kernel_uses(report.ranks);
  if (uses.empty()) return;
  const double ceiling = flops_ceiling(report);
  std::vector<std::vector<std::string>> rows;
  for (const KernelUse& use : uses) {
    const double part = ceiling > 0 ? use.rate() / ceiling : 0;
    rows.push_back({use.kernel, fmt::format("{}", use.tasks), format_seconds(use.seconds),
                    fmt::format("{:.4g}", use.flops * 1e-9), flop_rate(use.rate()),
                    part > 0 ? share_cell(part, track_class("compute"), fmt::format("{:.0f} %", 100 * part)) : ""});
  }
  page.begin_section("kernels", "Products and decompositions of matrices");
  page.table({"Kernel", "#Tasks", "#Time of all tasks", "#Gflop", "#Rate of a task", "#Of one thread's ceiling"}, rows);
  page.raw(
      "<p class=\"note\">Additions and multiplications by the usual counts, for complex numbers four times as many. "
      "Other work has none.</p>\n");
  page.end_section();
}

// The tiers below the compute tier.
void tiers(Page& page, const RankTrace& rank, const std::vector<local::TraceEvent>& events, const TimeAxis& axis) {
  std::map<std::string, TierLevels> found;
  for (const local::TraceEvent& event : events) {
    TierLevels& tier = found[event.name];
    tier.name = event.name;
    tier.levels.emplace_back(event.end_ns, event.bytes);
    tier.peak_bytes = std::max(tier.peak_bytes, event.bytes);
  }
  for (auto& [name, tier] : found) {
    if (tier.peak_bytes == 0) continue;
    if (name == "pinned host") {
      tier.limit_bytes = rank.host_limit_bytes;
      tier.peak_bytes = std::max(tier.peak_bytes, rank.host_peak_bytes);
    }
    page.add("<h4>{}, at most {}</h4>\n", escape_html(name), format_bytes(tier.peak_bytes));
    page.raw(tier_chart(rank.rank, std::move(tier), axis));
  }
}

// The longest of the transfers, or of all other tasks.
void slowest(Page& page, const RunReport& report, const TimeAxis& axis, bool transfers) {
  std::vector<std::pair<const local::TraceEvent*, int32_t>> events;
  for (const RankTrace& rank : report.ranks) {
    for (const local::TraceEvent& event : rank.events) {
      if (event.track == kStepTrack || event.count > 1) continue;
      if ((event.track == "comm") == transfers) events.emplace_back(&event, rank.rank);
    }
  }
  const auto duration = [](const auto& e) { return e.first->end_ns - e.first->begin_ns; };
  const size_t count = std::min(kSlowestTasks, events.size());
  std::partial_sort(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count), events.end(),
                    [&](const auto& a, const auto& b) {
                      return duration(a) != duration(b) ? duration(a) > duration(b)
                                                        : a.first->begin_ns < b.first->begin_ns;
                    });
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < count; ++i) {
    const local::TraceEvent& event = *events[i].first;
    const double seconds = static_cast<double>(duration(events[i])) * 1e-9;
    rows.push_back(
        {event.name,
         html_cell(fmt::format("<span class=\"key {}\"></span>{}", track_class(event.track), escape_html(event.track))),
         fmt::format("{}", events[i].second),
         format_seconds(static_cast<double>(event.begin_ns - axis.begin_ns) * 1e-9), format_seconds(seconds),
         event.bytes > 0 ? format_bytes(event.bytes) : "", rate(event.bytes, seconds)});
  }
  page.table({"Task", "Track", "#Rank", "#Began after", "#Took", "#Bytes", "#Rate"}, rows);
}

}  // namespace

std::string summary(const RunReport& given) {
  RunReport report = given;
  for (RankTrace& rank : report.ranks) merge_calls(rank.events);
  const Totals sum = totals_of(report);
  const TimeAxis axis = time_axis(report.ranks);
  std::string out = fmt::format(
      "{}\n{}\n{} on {} rank{}, {} tasks; read {}, written {}, spilled {}, brought back {}, communicated {}; peak "
      "memory "
      "{}\n",
      report.title, bottleneck(report), format_seconds(report.wall_seconds), sum.ranks, sum.ranks == 1 ? "" : "s",
      sum.tasks, format_bytes(sum.read), format_bytes(sum.written), format_bytes(sum.spilled),
      format_bytes(sum.restored), format_bytes(sum.communicated), format_bytes(sum.peak));
  out += fmt::format("{:>5} {:<8} {:>9} {:>10} {:>6} {:>12} {:>14} {:>10}\n", "rank", "track", "events", "busy",
                     "share", "bytes", "rate", "of ceiling");
  for (const RankTrace& rank : report.ranks) {
    for (const TrackUse& use : track_uses(rank)) {
      out +=
          fmt::format("{:>5} {:<8} {:>9} {:>10} {:>5.0f}% {:>12} {:>14} {:>10}\n", numbers_of(rank), use.track,
                      use.events, format_seconds(use.busy_seconds), 100 * use.busy_seconds / axis.seconds(),
                      format_bytes(use.bytes), rate(use.bytes, use.busy_seconds),
                      use.ceiling > 0 && use.bytes > 0 ? fmt::format("{:.0f}%", 100 * use.rate() / use.ceiling) : "");
    }
  }
  const std::vector<KernelUse> kernels = kernel_uses(report.ranks);
  if (!kernels.empty())
    out += fmt::format("{:<24} {:>9} {:>10} {:>10} {:>14}\n", "kernel", "tasks", "time", "Gflop", "rate");
  for (const KernelUse& use : kernels) {
    out += fmt::format("{:<24} {:>9} {:>10} {:>10.4g} {:>14}\n", use.kernel, use.tasks, format_seconds(use.seconds),
                       use.flops * 1e-9, flop_rate(use.rate()));
  }
  return out;
}

void write_report(const std::string& path, const RunReport& given) {
  RunReport report = given;
  std::vector<std::vector<local::TraceEvent>> levels;  // of the tiers below, by rank
  for (RankTrace& rank : report.ranks) {
    levels.emplace_back();
    const auto is_level = [](const local::TraceEvent& event) { return event.track == scheduler::kTierTrack; };
    std::ranges::copy_if(rank.events, std::back_inserter(levels.back()), is_level);
    std::erase_if(rank.events, is_level);
    merge_calls(rank.events);
  }
  const Totals sum = totals_of(report);
  const TimeAxis axis = time_axis(report.ranks);
  const size_t drawn = std::min(report.ranks.size(), kMostRanksDrawn);
  Page page;
  page.add(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n",
      escape_html(report.title));
  page.raw("<style>");
  page.raw(kPageStyle);
  page.raw("</style></head><body>\n<main>\n");
  page.add("<header><h1>{}</h1><p>{}</p></header>\n", escape_html(report.title), escape_html(report.banner));
  if (const std::string sentence = bottleneck(report); !sentence.empty())
    page.add("<p class=\"bottleneck\">{}</p>\n", escape_html(sentence));
  tiles(page, report, sum);
  if (!report.results.empty()) {
    page.begin_section("results", "Results");
    for (const Section& section : report.results) std::visit(SectionWriter{page}, section);
    page.end_section();
  }
  what_ran(page, report);
  const auto more_ranks = [&] {
    if (report.ranks.size() > drawn)
      page.add("<p class=\"note\">The first {} of {} ranks.</p>\n", drawn, report.ranks.size());
  };
  if (sum.events > 0) {
    page.begin_section("memory", "Memory");
    page.raw("<p class=\"note\">Reserved bytes over time, against the budget.</p>\n");
    for (size_t r = 0; r < drawn; ++r) {
      page.add("<h3>Rank {}</h3>\n", numbers_of(report.ranks[r]));
      page.raw(memory_chart(report.ranks[r], axis));
      tiers(page, report.ranks[r], levels[r], axis);
    }
    more_ranks();
    page.end_section();
  }
  bytes_moved(page, report, sum);
  if (sum.events > 0) {
    page.begin_section("timeline", "Timeline");
    page.raw("<p class=\"legend\">");
    std::set<std::pair<int, std::string>> present;
    for (const RankTrace& rank : report.ranks) {
      for (const local::TraceEvent& event : rank.events)
        if (event.track != kStepTrack) present.insert({track_order(event.track), event.track});
    }
    for (const auto& [order, track] : present) {
      page.add("<span class=\"key {}\"></span>{} ", track_class(track), escape_html(track));
    }
    page.raw("</p>\n");
    const std::vector<StepMark> steps = step_marks(report.ranks);
    const double pixels = sum.events > kManyEvents ? 2.5 : 0.7;
    for (size_t r = 0; r < drawn; ++r) {
      page.add("<h3>Rank {}</h3>\n", numbers_of(report.ranks[r]));
      page.raw(timeline(report.ranks[r], axis, pixels, steps));
    }
    more_ranks();
    page.add(
        "<p class=\"note\">{} events. Events too short to see are drawn together, paler where the track idles between "
        "them; --trace FILE writes each one for Perfetto.</p>\n",
        sum.events);
    page.end_section();
    tracks(page, report, axis);
    kernels(page, report);
    page.begin_section("slowest", "Slowest tasks");
    slowest(page, report, axis, /*transfers=*/false);
    if (report.ranks.size() > 1) {
      page.raw("<h3>Longest transfers, the wait for what is sent included</h3>\n");
      slowest(page, report, axis, /*transfers=*/true);
    }
    page.end_section();
  }
  page.raw("</main>\n<div id=\"tip\" role=\"status\"></div>\n<script>");
  page.raw(kPageScript);
  page.raw("</script>\n</body></html>\n");
  io::write_file(path, page.take());
}

}  // namespace quarry::report
