// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

#include "quarry/local/base/sizes.h"

namespace quarry::apps {

using local::format_bytes;
using local::format_count;
std::string format_seconds(double seconds);  // "0.35 s", "12 s", "3:05", "2:07:30"

}  // namespace quarry::apps
