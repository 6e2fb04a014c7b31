#include "quarry/io/filter.h"

#include <fmt/format.h>

#include <algorithm>

namespace quarry::io {

std::span<const FilterKind> filter_kinds() {
  using Kind = Filter::Kind;
  using enum FilterKind::Step;
  static constexpr FilterKind kKinds[] = {
      {Kind::shuffle, "shuffle", rearrange, true},
      {Kind::deflate, "deflate", compress, true, 0, 9, 4},
      {Kind::lz4, "lz4", compress, true},
      {Kind::zstd, "zstd", compress, true, 1, 22, 3},
      {Kind::blosc, "blosc", compress, true, 0, 9, 5},
      {Kind::lzf, "lzf", compress, false},
      {Kind::bzip2, "bzip2", compress, false, 1, 9, 9},
      {Kind::bitshuffle, "bitshuffle", compress, false},
      {Kind::szip, "szip", compress, false},
      {Kind::fletcher32, "fletcher32", check, true},
  };
  return kKinds;
}

const FilterKind* find_kind(Filter::Kind kind) {
  const auto kinds = filter_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const FilterKind& row) { return row.kind == kind; });
  return found == kinds.end() ? nullptr : &*found;
}

std::string to_string(const std::vector<Filter>& filters) {
  std::string text;
  for (const Filter& filter : filters) {
    const FilterKind* const kind = find_kind(filter.kind);
    text += text.empty() ? "" : ",";
    text += kind && kind->most_level > 0 ? fmt::format("{}:{}", kind->name, filter.level) : filter.name;
  }
  return text;
}

}  // namespace quarry::io
