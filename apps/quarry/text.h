// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace quarry::apps {

std::string format_bytes(int64_t bytes);     // "1.5 GiB", "512 B"
std::string format_seconds(double seconds);  // "0.35 s", "12 s", "3:05", "2:07:30"
std::string format_count(int64_t count);     // "1,234,567"

}  // namespace quarry::apps
