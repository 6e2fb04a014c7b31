// What is done to a file's chunks when they are written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::io {

struct Filter {
  enum class Kind : uint8_t {
    shuffle,  // bytes of the elements by place
    deflate,
    lz4,
    zstd,
    blosc,
    lzf,
    bzip2,
    bitshuffle,  // bits of the elements by place, then LZ4 or Zstandard or nothing
    szip,
    fletcher32,  // a checksum
    other,
  };
  Kind kind;
  int level = 0;                   // where the kind has levels
  std::string name;                // as `h5dump` would call it; for `other` the registered name or number
  std::vector<uint32_t> values{};  // parameters as a file holds them; none: those of `level`
};

// What there is to know of a kind, in the order in which filters are applied.
struct FilterKind {
  Filter::Kind kind;
  std::string_view name;
  // What it does to a chunk: its elements are rearranged, its bytes become fewer, or a checksum is appended.
  enum class Step : uint8_t { rearrange, compress, check } step;
  bool written;                                    // quarry writes it; all are read
  int least_level = 0, most_level = 0, level = 0;  // level: where none is given; most_level 0: there are none
};
std::span<const FilterKind> filter_kinds();
// Null for Kind::other.
const FilterKind* find_kind(Filter::Kind kind);

// "deflate:4,fletcher32" as --filter takes it.
std::string to_string(const std::vector<Filter>& filters);

}  // namespace quarry::io
