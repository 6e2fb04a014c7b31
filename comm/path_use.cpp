#include "quarry/comm/path_use.h"

#include <fmt/format.h>

#include "quarry/local/base/error.h"

namespace quarry::comm {

PathUse parse_path_use(const std::string& name, const std::string& text) {
  if (text.empty() || text == "auto") return PathUse::automatic;
  if (text == "off") return PathUse::off;
  if (text == "on") return PathUse::required;
  throw local::InvalidArgument(fmt::format("{}: \"{}\": expected auto, on or off", name, text));
}

}  // namespace quarry::comm
