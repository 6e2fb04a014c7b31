#include "quarry/comm/monitor/seconds.h"

#include <fmt/format.h>

#include <cstdlib>

#include "quarry/local/base/error.h"

namespace quarry::comm {

double seconds_from_environment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != '\0' || !(seconds >= 0)) {
    throw local::InvalidArgument(fmt::format("{}={}: expected seconds", name, text));
  }
  return seconds;
}

}  // namespace quarry::comm
