// Where tests find real data files.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "tests/support/source_file.h"

namespace quarry::test {

// The folder of real data files: QUARRY_TEST_DATA, or ../shared/data from the source tree. May not exist; a test that
// needs it says SharedData in its name and skips.
inline std::filesystem::path shared_data() {
  if (const char* named = std::getenv("QUARRY_TEST_DATA")) return named;
  return source_file("CMakePresets.json").parent_path() / "../shared/data";
}

}  // namespace quarry::test
