#include "quarry/apps/quarry/objects.h"

#include <algorithm>
#include <string_view>

namespace quarry::apps {
namespace {

bool is_link_or_type(const std::string& note) {
  constexpr std::string_view kNotes[] = {"soft link to ", "external link to ", "user-defined link", "named type"};
  return std::ranges::any_of(kNotes, [&](std::string_view text) { return note.starts_with(text); });
}

}  // namespace

FileObjects objects_of(const std::string& file, const std::string& object) {
  FileObjects out;
  const std::vector<io::ObjectInfo> objects = io::list_objects(file, object);
  for (size_t i = 0; i < objects.size(); ++i) {
    const io::ObjectInfo& entry = objects[i];
    if (entry.note.find("damaged: ") != std::string::npos) {
      out.damaged.emplace_back(entry.path, entry.note);
      continue;
    }
    if (entry.dataset && entry.note.empty()) {
      out.arrays.push_back(*entry.dataset);
      if (entry.path == "/") break;  // what follows are its columns
      continue;
    }
    if (entry.is_group && entry.note.empty()) out.groups.emplace(entry.path, entry.attributes);
    if (entry.is_group || is_link_or_type(entry.note)) continue;
    // Its fields or columns follow.
    const std::string inside = entry.path + (entry.path == "/" ? "" : ":");
    const bool has_parts = i + 1 < objects.size() && objects[i + 1].path.starts_with(inside);
    if (!has_parts && !entry.note.empty()) out.left_out.emplace_back(entry.path, entry.note);
  }
  return out;
}

}  // namespace quarry::apps
