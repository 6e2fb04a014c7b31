#include "quarry/io/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "quarry/local/base/error.h"

namespace quarry::io {

void write_file(const std::string& path, const std::string& content) {
  const std::string partial = path + ".partial";
  const auto fail = [&](const char* what) {
    const int error = errno;
    std::remove(partial.c_str());
    throw local::IoError(fmt::format("{} '{}' failed: {}", what, path, std::strerror(error)));
  };
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  if (!file) fail("making");
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  const int error = errno;
  const bool closed = std::fclose(file) == 0;
  if (!written) errno = error;
  if (!written || !closed) fail("writing");
  if (std::rename(partial.c_str(), path.c_str()) != 0) fail("writing");
}

}  // namespace quarry::io
