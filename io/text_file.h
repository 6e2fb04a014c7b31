// Small files written whole: reports, traces, drawings.
#pragma once

#include <string>

namespace quarry::io {

// Writes beside the path and renames. Throws IoError.
void write_file(const std::string& path, const std::string& content);

}  // namespace quarry::io
