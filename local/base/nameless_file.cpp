#include "quarry/local/base/nameless_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace quarry::local {

int open_nameless_file(const std::string& folder, std::string_view purpose) {
  std::string path = folder + "/quarry-" + std::string(purpose) + "-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

}  // namespace quarry::local
