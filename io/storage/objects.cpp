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

double unfiltered_bytes(std::span<const OutputSpec> specs) {
  double bytes = 0;
  for (const OutputSpec& spec : specs)
    if (spec.filters.empty() && !spec.is_group)
      bytes += static_cast<double>(local::element_count(spec.shape) * local::itemsize(spec.dtype));
  return bytes;
}

void serialize_array(const OutputSpec& spec, ByteWriter& out) {
  out.put_string(spec.object);
  out.put_dims(spec.shape);
  out.put(spec.dtype);
  out.put(spec.chunks.has_value());
  if (spec.chunks) out.put_dims(*spec.chunks);
  out.put<int64_t>(std::ssize(spec.filters));
  for (const Filter& filter : spec.filters) {
    out.put(filter.kind);
    out.put(filter.level);
    out.put_string(filter.name);
  }
}

OutputSpec deserialize_array(ByteReader& in) {
  OutputSpec spec;
  spec.object = in.get_string();
  spec.shape = in.get_dims();
  spec.dtype = in.get<local::DType>();
  if (in.get<bool>()) spec.chunks = in.get_dims();
  for (auto left = in.get<int64_t>(); left > 0; --left) {
    Filter& filter = spec.filters.emplace_back();
    filter.kind = in.get<Filter::Kind>();
    filter.level = in.get<int>();
    filter.name = in.get_string();
  }
  return spec;
}

}  // namespace quarry::io
