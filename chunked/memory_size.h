// What a process may still take of the host's memory, read from the files that Linux shows.
#pragma once

#include <cstdint>
#include <string>

namespace quarry {

// As free_host_bytes(), with /proc and /sys found below `root` ("" for the real ones).
int64_t free_host_bytes_below(const std::string& root);

}  // namespace quarry
