// Where tests find files of the source tree.
#pragma once

#include <filesystem>

namespace quarry::test {

// A file of the source tree by its path from the root, found upwards from the test program (build/bin) and from the
// working directory.
inline std::filesystem::path source_file(const std::filesystem::path& relative) {
  for (std::filesystem::path start : {std::filesystem::canonical("/proc/self/exe"), std::filesystem::current_path()})
    for (; start.has_relative_path(); start = start.parent_path())
      if (std::filesystem::exists(start / relative)) return start / relative;
  return relative;
}

}  // namespace quarry::test
