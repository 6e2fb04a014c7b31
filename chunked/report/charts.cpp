#include "quarry/chunked/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "quarry/chunked/report/rows.h"
#include "quarry/local/base/sizes.h"

namespace quarry::report {
namespace {

constexpr double kLeft = 88;  // for labels
constexpr double kRight = 24;
constexpr int kMostMemoryPoints = 1000;
constexpr size_t kMostBars = 64;
constexpr int kMostRowsPerTrack = 6;

// About `count` round steps that cover [0, top].
double tick_step(double top, int count) {
  if (!(top > 0)) return 1;
  const double raw = top / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

// The same for bytes: powers of two.
double byte_step(double top, int count) {
  double step = 1;
  while (top / step > count) step *= 2;
  return step;
}

std::string time_label(double seconds, double step) {
  if (step >= 1) return fmt::format("{:g} s", seconds);
  if (step >= 1e-3) return fmt::format("{:g} ms", std::round(seconds * 1e6) / 1e3);
  return fmt::format("{:g} \u00b5s", std::round(seconds * 1e9) / 1e3);
}

// Of a power of two times a small number: no decimals.
std::string byte_label(double bytes) {
  const local::ScaledBytes scaled = local::scale_bytes(bytes);
  return fmt::format("{:g} {}", scaled.value, scaled.unit);
}

struct Scale {
  double from, to;  // pixels
  double top;       // value at `to`; 0 at `from`
  double operator()(double value) const { return from + (to - from) * (top > 0 ? value / top : 0); }
};

class Svg {
 public:
  Svg(double height, std::string_view label) {
    fmt::format_to(to(), R"(<svg viewBox="0 0 {} {:g}" role="img" aria-label="{}">)", kChartWidth, height,
                   escape_html(label));
  }
  std::back_insert_iterator<std::string> to() { return std::back_inserter(out_); }
  void line(double x1, double y1, double x2, double y2, const char* style) {
    fmt::format_to(to(), R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)", x1, y1, x2, y2,
                   style);
  }
  void text(double x, double y, std::string_view text, const char* anchor, const char* style = "label") {
    fmt::format_to(to(), R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>)", x, y, anchor, style,
                   escape_html(text));
  }
  void time_ticks(const TimeAxis& axis, const Scale& x, double top, double bottom) {
    const double step = tick_step(axis.seconds(), 10);
    for (int i = 0; i * step <= axis.seconds() * 1.0001; ++i) {
      const double at = x(i * step);
      line(at, top, at, bottom, "grid");
      text(at, bottom + 16, time_label(i * step, step), "middle");
    }
  }
  std::string take() { return std::move(out_) + "</svg>"; }

 private:
  std::string out_;
};

double seconds_in(const TimeAxis& axis, int64_t ns) { return static_cast<double>(ns - axis.begin_ns) * 1e-9; }

}  // namespace

TimeAxis time_axis(std::span<const RankTrace> ranks) {
  std::optional<TimeAxis> axis;
  for (const RankTrace& rank : ranks) {
    for (const local::TraceEvent& event : rank.events) {
      if (!axis) axis = TimeAxis{event.begin_ns, event.end_ns};
      axis->begin_ns = std::min(axis->begin_ns, event.begin_ns);
      axis->end_ns = std::max(axis->end_ns, event.end_ns);
    }
  }
  if (!axis) return {};
  axis->end_ns = std::max(axis->end_ns, axis->begin_ns + 1);
  return *axis;
}

std::string track_class(const std::string& track) {
  const int order = track_order(track);
  return order < 9 ? "track-" + track : "track-other";
}

std::string bar_chart(const BarChart& chart) {
  constexpr double kTop = 16, kPlot = 240, kBottom = kTop + kPlot;
  const size_t count = std::min(chart.values.size(), kMostBars);
  double top = 0, low = 0, sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double value = std::isfinite(chart.values[i]) ? chart.values[i] : 0;
    sum += value;
    top = std::max({top, value, chart.cumulative ? sum : 0});
    low = std::min(low, value);
  }
  const double step = tick_step(std::max(top, -low), 5);
  const double highest = std::max(1.0, std::ceil(top / step * 0.9999)) * step;
  const double lowest = std::floor(low / step) * step;
  const auto y = [&](double value) { return kBottom - kPlot * (value - lowest) / (highest - lowest); };
  Svg svg(kBottom + 44, fmt::format("{}: {} over {}", chart.title, chart.y_label, chart.x_label));
  for (double value = lowest; value <= highest + step / 2; value += step) {
    svg.line(kLeft, y(value), kChartWidth - kRight, y(value), std::abs(value) < step / 2 ? "axis" : "grid");
    svg.text(kLeft - 8, y(value) + 4, fmt::format("{:.6g}", std::abs(value) < step / 2 ? 0 : value), "end");
  }
  const double slot = (kChartWidth - kLeft - kRight) / static_cast<double>(std::max<size_t>(count, 1));
  const double width = std::max(1.0, std::min(slot - 2, 48.0));
  const size_t label_every = 1 + count / 24;
  std::string line;
  sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double value = std::isfinite(chart.values[i]) ? chart.values[i] : 0;
    const double middle = kLeft + (static_cast<double>(i) + 0.5) * slot;
    sum += value;
    const std::string cumulative = chart.cumulative ? fmt::format("; together {:.6g}", sum) : "";
    fmt::format_to(
        svg.to(),
        R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2" class="bar mark"><title>{}: {:.6g}{}</title></rect>)",
        middle - width / 2, std::min(y(value), y(0)), width, std::max(0.5, std::abs(y(value) - y(0))), i + 1,
        chart.values[i], cumulative);
    if (i % label_every == 0) svg.text(middle, kBottom + 16, fmt::format("{}", i + 1), "middle");
    line += fmt::format("{}{:.1f} {:.1f}", i ? " L" : "M", middle, y(sum));
  }
  if (chart.cumulative && count > 0) {
    fmt::format_to(svg.to(), R"(<path d="{}" class="line second"/>)", line);
    sum = 0;
    for (size_t i = 0; i < count; ++i) {
      sum += std::isfinite(chart.values[i]) ? chart.values[i] : 0;
      fmt::format_to(
          svg.to(), R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" class="dot mark"><title>1 to {}: {:.6g}</title></circle>)",
          kLeft + (static_cast<double>(i) + 0.5) * slot, y(sum), i + 1, sum);
    }
  }
  svg.text(kLeft + (kChartWidth - kLeft - kRight) / 2, kBottom + 38, chart.x_label, "middle");
  std::string out = fmt::format(R"(<p class="axis-name">{}</p>)", escape_html(chart.y_label)) + svg.take();
  if (chart.cumulative) {
    out += R"(<p class="legend"><span class="key bar"></span>each <span class="key second"></span>running sum</p>)";
  }
  if (chart.values.size() > count)
    out += fmt::format(R"(<p class="note">The first {} of {}.</p>)", count, chart.values.size());
  return out;
}

std::string memory_chart(const RankTrace& rank, const TimeAxis& axis) {
  TierLevels tier;
  tier.name = "Reserved memory";
  for (const local::TraceEvent& event : rank.events) {
    if (event.budget_used >= 0) tier.levels.emplace_back(event.end_ns, event.budget_used);
  }
  if (tier.levels.empty()) return R"(<p class="note">No memory was reserved.</p>)";
  tier.peak_bytes = rank.memory_peak_bytes;
  tier.limit_bytes = rank.memory_limit_bytes;
  return tier_chart(rank.rank, std::move(tier), axis);
}

std::string tier_chart(int32_t rank, TierLevels tier, const TimeAxis& axis) {
  constexpr double kTop = 14, kPlot = 130, kBottom = kTop + kPlot;
  std::vector<std::pair<int64_t, int64_t>>& levels = tier.levels;
  std::sort(levels.begin(), levels.end());
  int64_t peak = tier.peak_bytes;
  for (const auto& level : levels) peak = std::max(peak, level.second);
  const auto limit = static_cast<double>(tier.limit_bytes);
  const double top = std::max({limit, static_cast<double>(peak), 1.0}) * 1.1;
  const Scale x{kLeft, kChartWidth - kRight, axis.seconds()};
  const Scale y{kBottom, kTop, top};
  const std::string of = limit > 0 ? " of " + format_bytes(tier.limit_bytes) : "";
  Svg svg(kBottom + 26, fmt::format("{} of rank {} over time: at most {}{}", tier.name, rank, format_bytes(peak), of));
  svg.time_ticks(axis, x, kTop, kBottom);
  const double step = byte_step(top, 5);
  for (double value = 0; value <= top; value += step) {
    svg.line(kLeft, y(value), kChartWidth - kRight, y(value), value == 0 ? "axis" : "grid");
    svg.text(kLeft - 8, y(value) + 4, byte_label(value), "end");
  }
  // A level holds until the next one is known. Of those that share a pixel the highest is drawn, so that no peak is
  // lost.
  std::string path;
  double last_x = kLeft;
  const double pixel = (kChartWidth - kLeft - kRight) / kMostMemoryPoints;
  for (size_t i = 0; i < levels.size();) {
    const double at = x(seconds_in(axis, levels[i].first));
    int64_t highest = 0, last = 0;
    for (; i < levels.size() && x(seconds_in(axis, levels[i].first)) < at + pixel; ++i) {
      last = levels[i].second;
      highest = std::max(highest, last);
    }
    last_x = at;
    path += path.empty() ? fmt::format("M{:.1f} {:.1f}", at, y(static_cast<double>(highest)))
                         : fmt::format("H{:.1f}V{:.1f}", at, y(static_cast<double>(highest)));
    if (last != highest) path += fmt::format("V{:.1f}", y(static_cast<double>(last)));
  }
  const double first_x = x(seconds_in(axis, levels.front().first));
  fmt::format_to(svg.to(), R"(<path d="{} L{:.1f} {:.1f} L{:.1f} {:.1f} Z" class="area"/>)", path, last_x, kBottom,
                 first_x, kBottom);
  fmt::format_to(svg.to(), R"(<path d="{}" class="line"/>)", path);
  if (limit > 0) {
    svg.line(kLeft, y(limit), kChartWidth - kRight, y(limit), "limit");
    svg.text(kChartWidth - kRight - 4, y(limit) - 4, "budget " + format_bytes(tier.limit_bytes), "end", "label strong");
  }
  return svg.take();
}

namespace {

std::string shown_name(const local::TraceEvent& event) {
  return event.count > 1 ? fmt::format("{} tasks from {}", event.count, event.name) : event.name;
}

}  // namespace

std::vector<StepMark> step_marks(std::span<const RankTrace> ranks) {
  std::vector<StepMark> marks;
  for (const RankTrace& rank : ranks)
    for (const local::TraceEvent& event : rank.events)
      if (event.track == kStepTrack) marks.push_back({event.name, event.begin_ns});
  std::ranges::sort(marks, {}, &StepMark::begin_ns);
  return marks;
}

std::string timeline(const RankTrace& rank, const TimeAxis& axis, double pixels, std::span<const StepMark> steps) {
  constexpr double kRow = 14, kGap = 2, kStepNames = 30;
  const double kTop = steps.empty() ? 4 : 4 + kStepNames;
  std::vector<Row> rows = rows_of(rank, kMostRowsPerTrack);
  std::erase_if(rows, [](const Row& row) { return row.track == kStepTrack; });
  if (rows.empty()) return R"(<p class="note">No events.</p>)";
  const double bottom = kTop + static_cast<double>(rows.size()) * (kRow + kGap);
  const Scale x{kLeft, kChartWidth - kRight, axis.seconds()};
  Svg svg(bottom + 26, fmt::format("Timeline of the tracks of rank {}, {} events", rank.rank, rank.events.size()));
  svg.time_ticks(axis, x, kTop, bottom);
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const double y = kTop + static_cast<double>(r) * (kRow + kGap);
    if (row.number == 0) svg.text(kLeft - 8, y + kRow - 3, row.track, "end");
    fmt::format_to(svg.to(), R"(<g class="{}">)", track_class(row.track));
    const auto rect = [&](double from, double to, double share, const std::string& title) {
      fmt::format_to(svg.to(), R"(<rect x="{:.2f}" y="{:g}" width="{:.2f}" height="{:g}")", from, y,
                     std::max(to - from, 0.3), kRow);
      if (share < 0.995) fmt::format_to(svg.to(), R"( opacity="{:.2f}")", 0.2 + 0.8 * share);
      fmt::format_to(svg.to(), R"( class="mark"><title>{}</title></rect>)", escape_html(title));
    };
    for (size_t i = 0; i < row.events.size();) {
      const local::TraceEvent& event = *row.events[i];
      const double from = x(seconds_in(axis, event.begin_ns));
      const double to = x(seconds_in(axis, event.end_ns));
      const double seconds = static_cast<double>(event.end_ns - event.begin_ns) * 1e-9;
      if (to - from >= pixels) {
        std::string title = fmt::format("{}\n{} after {}", shown_name(event), format_seconds(seconds),
                                        format_seconds(seconds_in(axis, event.begin_ns)));
        if (event.bytes > 0) {
          title += fmt::format(
              "\n{}, {}/s", format_bytes(event.bytes),
              format_bytes(static_cast<int64_t>(static_cast<double>(event.bytes) / std::max(seconds, 1e-9))));
        }
        if (!event.detail.empty()) title += "\n" + event.detail;
        rect(from, to, std::min(1.0, static_cast<double>(busy_ns(event)) * 1e-9 / std::max(seconds, 1e-9)), title);
        ++i;
        continue;
      }
      // Events too short to see are drawn together, paler where the track idles between them.
      int64_t count = 0, bytes = 0;
      double busy = 0, end = from;
      for (; i < row.events.size(); ++i) {
        const local::TraceEvent& next = *row.events[i];
        const double next_from = x(seconds_in(axis, next.begin_ns)), next_to = x(seconds_in(axis, next.end_ns));
        if (next_to - next_from >= pixels || next_from >= from + pixels) break;
        busy += std::min(next_to - next_from, x(static_cast<double>(busy_ns(next)) * 1e-9) - x(0));
        bytes += next.bytes;
        count += std::max(next.count, 1);
        end = std::max(end, next_to);
      }
      const double width = count == 1 ? end - from : std::max(end - from, pixels);
      std::string title = count == 1 ? fmt::format("{}\n{}", event.name, format_seconds(seconds))
                                     : fmt::format("{} events from {}", count, event.name);
      title += fmt::format(" after {}", format_seconds(seconds_in(axis, event.begin_ns)));
      if (bytes > 0) title += ", " + format_bytes(bytes);
      rect(from, from + width, width > 0 ? std::min(1.0, busy / width) : 1, title);
    }
    fmt::format_to(svg.to(), "</g>\n");
  }
  // Names that would run into those before them in both lines are left to the marks' titles.
  constexpr double kLetter = 6.5, kLine = 14;
  double free_from[] = {0, 0};
  for (const StepMark& step : steps) {
    const double at = x(std::max(seconds_in(axis, step.begin_ns), 0.0));
    fmt::format_to(
        svg.to(),
        R"(<line x1="{0:.1f}" y1="{1:g}" x2="{0:.1f}" y2="{2:.1f}" class="limit mark"><title>{3}</title></line>)", at,
        kTop - kStepNames, bottom, escape_html(step.name));
    auto* const line = std::ranges::find_if(free_from, [&](double from) { return from <= at; });
    if (line == std::end(free_from)) continue;
    svg.text(at + 3, kTop - kStepNames + kLine * static_cast<double>(line - free_from + 1) - 4, step.name, "start",
             "label strong");
    *line = at + kLetter * static_cast<double>(step.name.size() + 2);
  }
  return svg.take();
}

}  // namespace quarry::report
