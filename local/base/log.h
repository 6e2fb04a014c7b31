// Process log: lines on stderr with time, rank and level. The level comes from QUARRY_LOG (trace, debug, info, warn,
// error, off; default warn).
#pragma once

#include <string_view>

#include "quarry/local/base/detail.h"

namespace quarry::local {

enum class LogLevel { trace, debug, info, warn, error };

void log(LogLevel level, std::string_view message);
bool log_enabled(LogLevel level);  // to skip formatting
void set_log_rank(int rank);       // prefix of later lines

}  // namespace quarry::local
