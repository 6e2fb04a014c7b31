// Walks over the links of a file: list_objects() and the nearest name for a missing object.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/types.h"
#include "quarry/local/base/message.h"

namespace quarry::io {
namespace hdf5 {
namespace {

constexpr int kMaxDepth = 256;
constexpr size_t kMaxCandidates = 10000;

struct LinkEntry {
  std::string name;
  H5L_type_t type;
};

herr_t collect_link(hid_t, const char* name, const H5L_info_t* info, void* out) {
  auto& links = *static_cast<std::vector<LinkEntry>*>(out);
  links.push_back({name, info->type});
  return 0;
}

std::vector<LinkEntry> links_of(hid_t group) {
  std::vector<LinkEntry> links;
  hsize_t at = 0;
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, collect_link, &links) < 0)
    throw_library_error("the group's links cannot be read");
  return links;
}

std::string child_path(const std::string& parent, const std::string& name) {
  return parent == "/" ? "/" + name : parent + "/" + name;
}

class Lister {
 public:
  Lister(hid_t file_id, const std::string& file) : file_id_(file_id), file_(file) {}

  void object(const std::string& path, int depth) {
    ObjectInfo entry;
    entry.path = path;
    Handle opened;
    try {
      opened = open_object(file_id_, file_, path);
      if (!opened) entry.note = library_error();
    } catch (const local::IoError& error) {
      entry.note = without_context(error.what(), path);
    }
    if (!opened) {
      out_.push_back(std::move(entry));
      return;
    }
    switch (H5Iget_type(opened)) {
      case H5I_GROUP:
        return group(path, opened, depth);
      case H5I_DATASET:
        try {
          StoredDataset stored = describe_dataset(file_id_, file_, path);
          entry.note = stored.unreadable;
          entry.dataset = std::move(stored.info);
        } catch (const local::Error& error) {
          entry.note = without_context(error.what(), path);
          out_.push_back(std::move(entry));
          return fields(path, opened);
        }
        break;
      default:  // not our enum
        entry.note = "named type";
        break;
    }
    out_.push_back(std::move(entry));
  }

  std::vector<ObjectInfo> take() { return std::move(out_); }

 private:
  void group(const std::string& path, hid_t opened, int depth) {
    ObjectInfo entry;
    entry.path = path;
    entry.is_group = true;
    H5O_info_t info;
    if (H5Oget_info2(opened, &info, H5O_INFO_BASIC) < 0) {
      entry.note = library_error();
      out_.push_back(std::move(entry));
      return;
    }
    const auto [seen, fresh] = seen_.emplace(std::pair(info.fileno, info.addr), path);
    if (!fresh) entry.note = "the same group as " + seen->second;
    if (fresh && depth >= kMaxDepth) entry.note = "too deep: its contents are not listed";
    std::vector<LinkEntry> links;
    if (entry.note.empty()) {
      try {
        links = links_of(opened);
      } catch (const local::IoError& error) {
        entry.note = error.what();
      }
    }
    if (fresh) entry.attributes = read_attributes(opened);
    out_.push_back(std::move(entry));
    for (const LinkEntry& link : links) {
      const std::string child = child_path(path, link.name);
      if (link.type == H5L_TYPE_HARD)
        object(child, depth + 1);
      else
        out_.push_back({child, false, std::nullopt, describe_link(child, link.type)});
    }
  }

  // The numbers of a data set of compounds, as data sets of their own.
  void fields(const std::string& path, hid_t dataset) {
    const Handle type(H5Dget_type(dataset));
    if (type) fields_of(path, type, 1);
  }
  void fields_of(const std::string& path, hid_t type, int depth) {
    constexpr int kMostDepth = 8;
    constexpr size_t kMostFields = 1000;
    const std::vector<std::string> names = member_names(type);
    for (unsigned i = 0; i < std::min(names.size(), kMostFields); ++i) {
      ObjectInfo entry;
      entry.path = path + ":" + names[i];
      const Handle member(H5Tget_member_type(type, i));
      try {
        StoredDataset stored = describe_dataset(file_id_, file_, entry.path);
        stored.info.attributes.clear();  // the data set's
        entry.note = stored.unreadable;
        entry.dataset = std::move(stored.info);
      } catch (const local::Error& error) {
        entry.note = without_context(error.what(), entry.path);
      }
      const bool inner = !entry.dataset && member && depth < kMostDepth;
      const std::string field = entry.path;
      out_.push_back(std::move(entry));
      if (inner) fields_of(field, member, depth + 1);
    }
  }

  std::string describe_link(const std::string& path, H5L_type_t type) const {
    H5L_info_t info;
    if (H5Lget_info(file_id_, path.c_str(), &info, H5P_DEFAULT) < 0) return library_error();
    constexpr size_t kMaxValue = 1 << 20;
    if (info.u.val_size > kMaxValue) return "a link of unreasonable length";
    std::vector<char> value(info.u.val_size + 1, '\0');
    if (H5Lget_val(file_id_, path.c_str(), value.data(), info.u.val_size, H5P_DEFAULT) < 0) return library_error();
    if (type == H5L_TYPE_SOFT) return fmt::format("soft link to {}", value.data());
    const char *target_file = "", *target = "";
    unsigned flags = 0;
    if (type == H5L_TYPE_EXTERNAL &&
        H5Lunpack_elink_val(value.data(), info.u.val_size, &flags, &target_file, &target) >= 0)
      return fmt::format("external link to {}:{}", target_file, target);
    H5Eclear2(H5E_DEFAULT);
    return "user-defined link";
  }

  // describe_dataset() says which object and file; the entry does already.
  std::string without_context(const std::string& message, const std::string& path) const {
    const std::string prefix = fmt::format("'{}' in '{}': ", path, file_);
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
  }

  const hid_t file_id_;
  const std::string& file_;
  std::vector<ObjectInfo> out_;
  std::map<std::pair<unsigned long, haddr_t>, std::string> seen_;
};

void collect_paths(hid_t file, const std::string& path, int depth, std::map<haddr_t, bool>& seen,
                   std::vector<std::string>& out) {
  const Handle group(H5Gopen2(file, path.c_str(), H5P_DEFAULT));
  H5O_info_t info;
  if (!group || H5Oget_info2(group, &info, H5O_INFO_BASIC) < 0 || !seen.emplace(info.addr, true).second) return;
  std::vector<LinkEntry> links;
  hsize_t at = 0;
  H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, collect_link, &links);
  for (const LinkEntry& link : links) {
    if (out.size() >= kMaxCandidates) return;
    const std::string child = child_path(path, link.name);
    out.push_back(child);
    if (link.type == H5L_TYPE_HARD && depth < kMaxDepth &&
        H5Oget_info_by_name2(file, child.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0 &&
        info.type == H5O_TYPE_GROUP)
      collect_paths(file, child, depth + 1, seen, out);
  }
}

}  // namespace

std::string nearest_object(hid_t file, const std::string& object) {
  std::vector<std::string> paths;
  std::map<haddr_t, bool> seen;
  collect_paths(file, "/", 0, seen, paths);
  H5Eclear2(H5E_DEFAULT);
  constexpr size_t kMaxLength = 256;  // of names worth comparing
  std::string best;
  size_t best_distance = std::max<size_t>(2, object.size() / 2);  // farther is no likeness
  const std::string leaf = object.substr(object.rfind('/'));
  for (const std::string& path : paths) {
    if (path.size() > kMaxLength || object.size() > kMaxLength) continue;
    size_t distance = local::edit_distance(path, object);
    // The same name in another group is as near as one wrong letter.
    if (local::edit_distance(path.substr(path.rfind('/')), leaf) == 0) distance = std::min<size_t>(distance, 1);
    if (distance < best_distance || (best.empty() && distance <= best_distance)) best = path, best_distance = distance;
  }
  return best;
}

std::vector<ObjectInfo> list_objects(const std::string& file, const std::string& object) {
  const LibraryLock lock;
  const Handle opened = open_file(file, H5F_ACC_RDONLY);
  const std::string path = normalized_object(object);
  if (path != "/" && !object_exists(opened, path)) {
    const std::string nearest = nearest_object(opened, path);
    throw local::InvalidArgument(fmt::format("no object '{}' in '{}'{}", path, file,
                                             nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }
  Lister lister(opened, file);
  lister.object(path, 0);
  return lister.take();
}

}  // namespace hdf5
}  // namespace quarry::io
