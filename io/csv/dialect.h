// How a text file of columns is to be understood, as the name of an object in it says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/local/base/dtype.h"

namespace quarry::io::csv {

enum class DateUnit : uint8_t { days, seconds, milliseconds, microseconds, nanoseconds };
const char* name(DateUnit unit);
int64_t nanoseconds(DateUnit unit);

struct Dialect {
  char delimiter = 0;  // 0: of the first line
  char decimal = '.';
  std::optional<bool> header;         // none: yes where the first line has something that is no number
  std::string missing;                // one more word for a missing value
  std::optional<local::DType> dtype;  // of all chosen columns; none: float64
  std::optional<DateUnit> dates;      // none: what the first rows need
};

// An object "/COLUMNS?KEY=VALUE&KEY=VALUE".
struct Selection {
  std::string columns;  // "": the whole table
  Dialect dialect;
  std::string object;  // as it was given, with one / in front
};

// Keys: delimiter (one character, or tab), decimal, header (yes, no), missing, dtype, dates (days, s, ms, us, ns).
// Throws InvalidArgument.
Selection parse_selection(const std::string& object);

}  // namespace quarry::io::csv
