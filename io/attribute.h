// Values of attributes of files.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace quarry::io {

using Attribute = std::variant<int64_t, double, std::string, std::vector<double>, std::vector<std::string>>;

}  // namespace quarry::io
