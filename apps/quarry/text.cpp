#include "quarry/apps/quarry/text.h"

#include <fmt/format.h>

#include <cmath>

namespace quarry::apps {

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  constexpr int64_t kMinute = 60, kHour = 3600;
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < kMinute) return fmt::format("{} s", whole);
  if (whole < kHour) return fmt::format("{}:{:02}", whole / kMinute, whole % kMinute);
  return fmt::format("{}:{:02}:{:02}", whole / kHour, whole % kHour / kMinute, whole % kMinute);
}

}  // namespace quarry::apps
