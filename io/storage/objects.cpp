#include "quarry/io/storage/objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

namespace quarry::io {

std::string normalized_object(const std::string& object) {
  std::string out;
  for (size_t at = 0; at < object.size();) {
    const size_t end = std::min(object.find('/', at), object.size());
    if (end > at) out += "/" + object.substr(at, end - at);
    at = end + 1;
  }
  return out.empty() ? "/" : out;
}

void throw_no_object(const std::string& file, const std::string& object, std::span<const std::string> names) {
  constexpr size_t kMost = 8;
  std::string text = local::suggestion(object, names);
  if (text.empty()) {
    for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i == 0 ? "; there are " : ", ") + names[i];
    if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  }
  throw local::InvalidArgument(fmt::format("no object '{}' in '{}'{}", object, file, text));
}

void check_paths(std::span<const OutputSpec> specs) {
  for (size_t i = 0; i < specs.size(); ++i)
    for (size_t j = 0; j < specs.size(); ++j) {
      if (i == j) continue;
      const std::string &one = specs[i].object, &other = specs[j].object;
      if (one == other && i < j) throw local::InvalidArgument(fmt::format("'{}' is to be written twice", one));
      if (one != other && !specs[i].is_group && other.starts_with(one == "/" ? one : one + "/"))
        throw local::InvalidArgument(fmt::format("'{}' cannot be a data set and the group of '{}'", one, other));
    }
}

}  // namespace quarry::io
