// The page's figures as inline SVG. Colours come from the page's style (classes), so that both themes work.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "chunked/report/report.h"

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
// `pixels` is the width that short events are merged to.
std::string timeline(const RankTrace& rank, const TimeAxis& axis, double pixels);
// The class that gives a lane its colour.
std::string lane_class(const std::string& lane);

}  // namespace quarry::report
