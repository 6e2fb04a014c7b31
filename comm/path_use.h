// Whether ranks use a path between them that only some machines have.
#pragma once

#include <cstdint>
#include <string>

namespace quarry::comm {

enum class PathUse : uint8_t {
  automatic,  // where it works
  off,
  required,  // as automatic, and that it does not work where it might is an error
};
// Of an option's text: "auto" or empty, "off", "on". `name`: of the path, for the error. Throws InvalidArgument.
PathUse parse_path_use(const std::string& name, const std::string& text);

}  // namespace quarry::comm
