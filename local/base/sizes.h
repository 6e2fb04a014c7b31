// Arithmetic of sizes and counts, and the text of numbers of bytes.
#pragma once

#include <cstdint>
#include <string>

namespace quarry::local {

// The next multiple of `to`, which is positive; `bytes` itself where it is one.
constexpr int64_t align_up(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }
// So many parts, of `part` each but for the last, hold `n`.
constexpr int64_t divided_up(int64_t n, int64_t part) { return (n + part - 1) / part; }

// In the largest unit of 1024 that leaves at least one: 1536 is {1.5, "KiB"}.
struct ScaledBytes {
  double value;
  const char* unit;
};
ScaledBytes scale_bytes(double bytes);

// Three digits: "1.50 GiB", "32.0 MiB", "256 KiB", "512 B".
std::string format_bytes(int64_t bytes);
std::string format_count(int64_t count);  // "1,234,567"

}  // namespace quarry::local
