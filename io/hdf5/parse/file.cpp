#include "quarry/io/hdf5/parse/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 64;  // that are followed on one way

std::shared_ptr<const MetadataFile> open_target(const MetadataFile& from, const std::string& name) {
  const std::vector<std::string> places = existing_targets(from, name);
  if (places.empty()) throw local::IoError(fmt::format("there is no file '{}'", name));
  return MetadataFile::open(places.front());
}

class Walk {
 public:
  Found run(const std::shared_ptr<const MetadataFile>& file, const std::string& path) {
    return step({Found::State::found, file, read_object(file->metadata, file->metadata.root())}, path);
  }

 private:
  // `path` relative to `at`, or from the root.
  Found step(Found at, const std::string& path) {
    if (path.starts_with('/')) at.object = read_object(at.file->metadata, at.file->metadata.root());
    for (size_t begin = 0; begin < path.size();) {
      size_t end = path.find('/', begin);
      end = std::min(end, path.size());
      const std::string name = path.substr(begin, end - begin);
      begin = end + 1;
      if (name.empty() || name == ".") continue;
      if (at.object.kind != Object::Kind::group) return {};
      const auto links = at.file->links(at.object);
      const auto link = std::ranges::lower_bound(*links, name, {}, &Link::name);
      if (link == links->end() || link->name != name) return {};
      at = follow(at, *link);
      if (at.state != Found::State::found) return at;
    }
    return at;
  }

  Found follow(const Found& from, const Link& link) {
    const auto dangling = [](std::string reason) {
      return Found{Found::State::dangling, nullptr, {}, std::move(reason)};
    };
    if (link.kind == Link::Kind::hard) {
      Found out{Found::State::found, from.file, {}};
      out.object = read_object(from.file->metadata, link.header);
      return out;
    }
    if (link.kind == Link::Kind::other) return dangling("a user-defined link is not followed");
    if (++links_ > kMostLinks) return dangling("too many links lead to one another");
    Found next = from;
    if (link.kind == Link::Kind::external) {
      try {
        next.file = open_target(*from.file, link.target_file);
      } catch (const local::Error& error) {
        return dangling(error.what());
      }
      next.object = read_object(next.file->metadata, next.file->metadata.root());
    }
    Found out = step(std::move(next), link.target);
    if (out.state == Found::State::missing) return dangling(fmt::format("there is no '{}'", link.target));
    return out;
  }

  int links_ = 0;
};

}  // namespace

std::shared_ptr<const MetadataFile> MetadataFile::open(const std::string& path) {
  check_regular_file(path);
  auto bytes = ByteFile::shared(path);
  try {
    return std::make_shared<const MetadataFile>(path, bytes);
  } catch (const local::Error& error) {
    const std::string reason = error.what();
    if (reason == "not an HDF5 file" || reason.starts_with("an unfinished output"))
      throw local::IoError(fmt::format("'{}' is {}", path, reason));
    throw local::IoError(fmt::format("cannot open '{}' as HDF5: {}", path, reason));
  }
}

std::shared_ptr<const std::vector<Link>> MetadataFile::links(const Object& group) const {
  const std::lock_guard lock(mutex_);
  if (kept_group_ != group.header || !kept_links_) {
    kept_links_ = std::make_shared<const std::vector<Link>>(read_links(metadata, group));
    kept_group_ = group.header;
  }
  return kept_links_;
}

std::vector<std::string> existing_targets(const MetadataFile& from, const std::string& name) {
  const fs::path folder = fs::path(from.path).parent_path(), target(name);
  const fs::path relative = target.is_absolute() ? target.filename() : target;
  std::vector<fs::path> places{folder / relative, relative};
  if (target.is_absolute()) places.insert(places.begin(), target);
  std::vector<std::string> out;
  std::error_code error;
  for (const fs::path& place : places)
    if (fs::exists(place, error)) out.push_back(place.string());
  return out;
}

Found find_object(const std::shared_ptr<const MetadataFile>& file, const std::string& path) {
  return Walk().run(file, path);
}

}  // namespace quarry::io::hdf5
