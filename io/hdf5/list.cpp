// Walks over the links of a file: list_objects() and the nearest name for a missing object.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/types.h"
#include "quarry/local/base/message.h"

namespace quarry::io {
namespace hdf5 {
namespace {

constexpr int kMaxDepth = 256;
constexpr size_t kMaxCandidates = 10000;
constexpr size_t kMaxLength = 256;  // of names that are worth comparing
// Of paths and texts of attributes, all together: names of groups and texts of a heap are in the file once, and as
// often in the list as something is below them or refers to them.
constexpr int64_t kMostBytes = 64 << 20;

std::string child_path(const std::string& parent, const std::string& name) {
  return parent == "/" ? "/" + name : parent + "/" + name;
}

std::string link_note(const Link& link) {
  switch (link.kind) {
    case Link::Kind::soft:
      return fmt::format("soft link to {}", link.target);
    case Link::Kind::external:
      return fmt::format("external link to {}:{}", link.target_file, link.target);
    case Link::Kind::other:
      return "user-defined link";
    case Link::Kind::hard:
      break;
  }
  return "";
}

class Lister {
 public:
  Lister(const MetadataFile& in, const std::string& file) : in_(in), file_(file) {}

  void object(const std::string& path, Object object, int depth) {
    int64_t texts = 0;
    for (const auto& [name, value] : object.attributes) texts += text_bytes(value);
    if (!fits(texts)) {
      object.attributes.clear();
      object.attributes_reason = "the texts of attributes are too long";
    }
    if (!object.attributes_reason.empty())
      out_.push_back({path, false, std::nullopt, "an attribute is left out: " + object.attributes_reason});
    ObjectInfo entry;
    entry.path = path;
    switch (object.kind) {
      case Object::Kind::group:
        return group(path, object, depth);
      case Object::Kind::dataset:
        return dataset(path, object);
      case Object::Kind::type:
        entry.note = "named type";
        entry.attributes = object.attributes;
        break;
      case Object::Kind::other:
        entry.note = "damaged: it is no data set, group or type";
        break;
    }
    out_.push_back(std::move(entry));
  }

  std::vector<ObjectInfo> take() { return std::move(out_); }

 private:
  // Counts what is listed, and leaves out what does not fit.
  bool fits(int64_t bytes) {
    if (bytes > kMostBytes - bytes_) return false;
    bytes_ += bytes;
    return true;
  }

  void group(const std::string& path, const Object& object, int depth) {
    ObjectInfo entry;
    entry.path = path;
    entry.is_group = true;
    const auto [seen, fresh] = seen_.emplace(object.header, path);
    if (!fresh) entry.note = "the same group as " + seen->second;
    if (fresh && depth >= kMaxDepth) entry.note = "too deep: its contents are not listed";
    std::vector<Link> links;
    if (entry.note.empty()) {
      try {
        links = read_links(in_.metadata, object);
      } catch (const local::Error& error) {
        entry.note = error.what();
      }
    }
    int64_t paths = 0;
    for (const Link& link : links) paths += std::ssize(path) + 1 + std::ssize(link.name);
    if (!fits(paths)) {
      entry.note = "the paths are too long: its contents are not listed";
      links.clear();
    }
    if (fresh) entry.attributes = object.attributes;
    out_.push_back(std::move(entry));
    for (const Link& link : links) {
      const std::string child = child_path(path, link.name);
      if (link.kind != Link::Kind::hard) {
        out_.push_back({child, false, std::nullopt, link_note(link)});
        continue;
      }
      try {
        this->object(child, read_object(in_.metadata, link.header), depth + 1);
      } catch (const local::Error& error) {
        out_.push_back({child, false, std::nullopt, error.what()});
      }
    }
  }

  void dataset(const std::string& path, const Object& object) {
    Describer describer(in_, object, kMostIndexBytes);
    if (describe(describer, path, path, {})) return;
    // The numbers of a data set of compounds, as data sets of their own.
    fields_of(describer, path, path, *object.type, {}, 1);
  }

  // Whether it is described, not only noted.
  bool describe(Describer& describer, const std::string& path, const std::string& dataset,
                const std::vector<std::string>& fields) {
    ObjectInfo entry;
    entry.path = path;
    try {
      StoredDataset stored = describer.describe(file_, path, fields);
      if (path != dataset) stored.info.attributes.clear();  // the data set's
      entry.note = stored.unreadable;
      entry.dataset = std::move(stored.info);
    } catch (const local::Error& error) {
      entry.note = error.what();
    }
    const bool described = entry.dataset.has_value();
    out_.push_back(std::move(entry));
    return described;
  }

  void fields_of(Describer& describer, const std::string& path, const std::string& dataset, const Type& type,
                 const std::vector<std::string>& fields, int depth) {
    constexpr int kMostDepth = 8;
    constexpr size_t kMostFields = 1000;
    if (type.kind != Type::Kind::compound) return;
    for (size_t i = 0; i < std::min(type.names.size(), kMostFields); ++i) {
      const std::string field = path + ":" + type.names[i];
      std::vector<std::string> inner = fields;
      inner.push_back(type.names[i]);
      if (!describe(describer, field, dataset, inner) && depth < kMostDepth)
        fields_of(describer, field, dataset, type.parts[i], inner, depth + 1);
    }
  }

  const MetadataFile& in_;
  const std::string& file_;
  std::vector<ObjectInfo> out_;
  std::map<int64_t, std::string> seen_;
  int64_t bytes_ = 0;
};

void collect_paths(const MetadataFile& file, const std::string& path, int64_t header, int depth,
                   std::set<int64_t>& seen, std::vector<std::string>& out) {
  if (depth > kMaxDepth || out.size() >= kMaxCandidates || !seen.insert(header).second) return;
  std::vector<Link> links;
  try {
    const Object object = read_object(file.metadata, header);
    if (object.kind == Object::Kind::group) links = read_links(file.metadata, object);
  } catch (const local::Error&) {  // what is damaged is no candidate
    return;
  }
  for (const Link& link : links) {
    if (out.size() >= kMaxCandidates) return;
    if (path.size() + link.name.size() > kMaxLength) continue;
    const std::string child = child_path(path, link.name);
    out.push_back(child);
    if (link.kind == Link::Kind::hard) collect_paths(file, child, link.header, depth + 1, seen, out);
  }
}

}  // namespace

std::string nearest_object(const MetadataFile& file, const std::string& object) {
  std::vector<std::string> paths;
  std::set<int64_t> seen;
  collect_paths(file, "/", file.metadata.root(), 0, seen, paths);
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
  const auto opened = MetadataFile::open(file);
  const std::string path = normalized_object(object);
  Found found;
  try {
    found = find_object(opened, path);
  } catch (const local::IoError& error) {
    if (path != "/") throw local::IoError(fmt::format("'{}' in '{}': {}", path, file, error.what()));
    return {{path, false, std::nullopt, error.what()}};
  }
  if (found.state == Found::State::missing) throw_missing(*opened, path);
  if (found.state == Found::State::dangling)
    throw local::InvalidArgument(
        fmt::format("'{}' in '{}' is a link that leads nowhere: {}", path, file, found.reason));
  Lister lister(*found.file, file);
  lister.object(path, found.object, 0);
  return lister.take();
}

}  // namespace hdf5
}  // namespace quarry::io
