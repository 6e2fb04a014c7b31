#include "quarry/local/base/sizes.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace quarry::local {

ScaledBytes scale_bytes(double bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double kStep = 1024;
  size_t unit = 0;
  for (; std::abs(bytes) >= kStep && unit + 1 < kUnits.size(); ++unit) bytes /= kStep;
  return {bytes, kUnits[unit]};
}

std::string format_bytes(int64_t bytes) {
  const ScaledBytes scaled = scale_bytes(static_cast<double>(bytes));
  if (*scaled.unit == 'B') return fmt::format("{} B", bytes);
  const double size = std::abs(scaled.value);
  return fmt::format("{:.{}f} {}", scaled.value, size < 10 ? 2 : size < 100 ? 1 : 0, scaled.unit);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = count < 0 ? 1 : 0;
  constexpr size_t kGroup = 3;
  for (size_t i = digits.size(); i > first + kGroup; i -= kGroup) digits.insert(i - kGroup, ",");
  return digits;
}

}  // namespace quarry::local
