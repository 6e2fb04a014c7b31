#include "quarry/io/zarr/nodes.h"

#include <fmt/format.h>

#include "quarry/io/byte_file.h"
#include "quarry/local/base/error.h"

namespace quarry::io::zarr {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

std::string read_text(const fs::path& path) {
  constexpr int64_t kLongest = 4 << 20;
  const ByteFile file(path.string(), ByteFile::Mode::read);
  if (file.size() > kLongest)
    throw local::IoError(fmt::format("'{}' is damaged: {} bytes are too many", path.string(), file.size()));
  std::string text(static_cast<size_t>(file.size()), '\0');
  if (!text.empty()) file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Node node_of(const fs::path& folder) {
  if (is_file(folder / ".zarray")) return Node::array2;
  if (is_file(folder / "zarr.json")) {
    // A text search is enough to tell them apart: what is not an array is found out when it is parsed.
    const std::string text = read_text(folder / "zarr.json");
    const bool is_group =
        text.find("\"chunk_grid\"") == std::string::npos || text.find("\"consolidated_metadata\"") != std::string::npos;
    return is_group ? Node::group3 : Node::array3;
  }
  return is_file(folder / ".zgroup") ? Node::group2 : Node::none;
}

fs::path folder_of(const std::string& file, const std::string& object) {
  fs::path out(file);
  for (const fs::path& part : fs::path(object).relative_path()) {
    if (part == ".." || part == ".") throw local::InvalidArgument(fmt::format("no object '{}' in '{}'", object, file));
    out /= part;
  }
  return out;
}

}  // namespace quarry::io::zarr
