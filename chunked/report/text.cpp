// Numbers with units.

#include <fmt/format.h>

#include <cmath>

#include "quarry/chunked/report/report.h"

namespace quarry::report {

std::string format_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 1e-3) return fmt::format("{:.1f} \u00b5s", seconds * 1e6);
  if (size < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, size < 0.1 ? 1 : 0);
  if (size < 120) return fmt::format("{:.{}f} s", seconds, size < 10 ? 2 : 1);
  const auto whole = static_cast<int64_t>(seconds);
  if (size < 7200) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

}  // namespace quarry::report
