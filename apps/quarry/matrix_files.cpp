#include "quarry/apps/quarry/matrix_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "quarry/chunked/api/sparse_files.h"
#include "quarry/io/format.h"
#include "quarry/local/base/error.h"

namespace quarry::apps {
namespace {

// The only matrix of a file; empty where it has none or other arrays too.
std::string only_group(const std::string& file) {
  const std::vector<io::ObjectInfo> objects = io::list_objects(file, "/");
  std::string found;
  for (const io::ObjectInfo& object : objects) {
    if (!object.is_group || !sparse::group_info(file, object.path, objects)) continue;
    if (!found.empty()) return "";
    found = object.path;
  }
  const bool has_others = std::ranges::any_of(
      objects, [&](const io::ObjectInfo& object) { return object.dataset && !object.path.starts_with(found + "/"); });
  return has_others ? "" : found;
}

}  // namespace

std::optional<Matrix> open_matrix(const std::string& file, const std::string& object) {
  if (sparse::is_matrix_market(file)) {
    if (sparse::is_dense_matrix_market(file)) return sparse::mmread_dense(file);
    return sparse::mmread(file);
  }
  if (!io::format_of(file).has_groups()) return std::nullopt;
  const std::string group = object == "/" ? only_group(file) : object;
  if (group.empty() || !sparse::holds_matrix(file, group)) return std::nullopt;
  return sparse::open_hdf5(file, group);
}

void check_holds_sparse(const std::string& file) {
  if (sparse::is_matrix_market(file)) return;
  if (const io::Format& format = io::format_to_write(file); !format.has_groups())
    throw local::InvalidArgument(
        fmt::format("a sparse matrix is stored as a group, which {} has not: call the output NAME.h5 or NAME.mtx, or "
                    "store A.toarray()",
                    format.name()));
}

}  // namespace quarry::apps
