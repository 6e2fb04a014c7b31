// The page's figures as inline SVG. Colours come from the page's style (classes), so that both themes work.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/chunked/report/report.h"

namespace quarry::report {

inline constexpr int kChartWidth = 1160;

// The time that all figures share.
struct TimeAxis {
  int64_t begin_ns = 0, end_ns = 1;
  double seconds() const { return static_cast<double>(end_ns - begin_ns) * 1e-9; }
};
TimeAxis time_axis(std::span<const RankTrace> ranks);

std::string bar_chart(const BarChart& chart);
std::string memory_chart(const RankTrace& rank, const TimeAxis& axis);
// Bytes of a tier over time: (time in ns, bytes) in order. A limit of 0 is none.
struct TierLevels {
  std::string name;
  std::vector<std::pair<int64_t, int64_t>> levels;
  int64_t peak_bytes = 0, limit_bytes = 0;
};
std::string tier_chart(int32_t rank, TierLevels tier, const TimeAxis& axis);
// Where steps begin: a line through all rows, with the step's name above.
struct StepMark {
  std::string name;
  int64_t begin_ns = 0;
};
std::vector<StepMark> step_marks(std::span<const RankTrace> ranks);
// `pixels` is the width that short events are merged to.
std::string timeline(const RankTrace& rank, const TimeAxis& axis, double pixels, std::span<const StepMark> steps = {});
// The class that gives a track its colour.
std::string track_class(const std::string& track);

}  // namespace quarry::report
