// HDF5: a file's metadata, and chunk indexes of every kind alone.
#include <array>

#include "tests/fuzz/read_all.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets/target.h"
#include "tests/support/temp_dir.h"

namespace quarry::test {
namespace {

using io::hdf5::IndexPlace;
using Index = io::hdf5::LayoutMessage::Index;
using Bytes = std::span<const std::byte>;

bool run_metadata(Bytes bytes) {
  const auto [read, refused] = read_metadata(bytes);
  return read > 0 && refused == 0;
}

std::vector<Content> metadata_seeds() {
  const TempDir dir;
  const std::string file = dir / "seed.h5";
  std::vector<Content> out;
  const auto keep = [&] { out.push_back(load(file)); };
  for (const bool latest : {false, true}) {
    make_samples(file, latest, /*user_block=*/0);
    keep();
    make_rare_samples(file, latest);
    keep();
  }
  make_samples(file, /*latest=*/false, /*user_block=*/512);
  keep();
  return out;
}

// An index: what its data set is (take_place()), then the file. None where no data set is such.
std::optional<IndexPlace> take_place(Input& in, Index index) {
  constexpr uint32_t kFiltered = 1, kUnfilteredEdges = 2;
  constexpr std::array kWidths = {8, 4, 2};
  IndexPlace place;
  place.layout.kind = io::hdf5::LayoutMessage::Kind::chunked;
  place.layout.index = index;
  const uint32_t flags = in.u8();
  place.data.filtered = flags & kFiltered;
  place.layout.unfiltered_edges = flags & kUnfilteredEdges;
  place.format.offset_bytes = kWidths[in.u8() % kWidths.size()];
  place.format.length_bytes = kWidths[in.u8() % kWidths.size()];
  place.layout.page_bits = static_cast<int>(in.u8());
  place.layout.address = in.u32();
  int64_t elements = 1, bytes = 1 + in.u8();
  const uint32_t axes = 1 + in.u8() % 4;
  for (uint32_t d = 0; d < axes; ++d) {
    const int64_t extent = in.u32(), chunk = 1 + in.u16(), more = in.u8();
    constexpr int64_t kUnlimited = 255;
    place.data.shape.push_back(extent);
    place.data.limits.push_back(more == kUnlimited ? io::hdf5::kUnlimited : extent + more);
    place.layout.chunk.push_back(chunk);
    if (__builtin_mul_overflow(elements, std::max<int64_t>(extent, 1), &elements) ||
        __builtin_mul_overflow(bytes, chunk, &bytes) || bytes > int64_t{UINT32_MAX})
      return std::nullopt;
  }
  place.data.chunk_bytes = bytes;
  return place;
}

Output put_place(const IndexPlace& place, int64_t itemsize) {
  Output out;
  out.u8((place.data.filtered ? 1 : 0) | (place.layout.unfiltered_edges ? 2 : 0)).u8(0).u8(0);
  out.u8(static_cast<uint64_t>(place.layout.page_bits)).u32(static_cast<uint64_t>(place.layout.address));
  out.u8(static_cast<uint64_t>(itemsize - 1)).u8(static_cast<uint64_t>(place.data.shape.size() - 1));
  for (int d = 0; d < place.data.shape.size(); ++d) {
    const int64_t extent = place.data.shape[d], limit = place.data.limits[d];
    out.u32(static_cast<uint64_t>(extent)).u16(static_cast<uint64_t>(place.layout.chunk[d] - 1));
    out.u8(limit == io::hdf5::kUnlimited ? 255 : static_cast<uint64_t>(limit - extent));
  }
  return out;
}

template <Index kIndex>
bool run_index(Bytes bytes) {
  Input in(bytes);
  const std::optional<IndexPlace> place = take_place(in, kIndex);
  if (!place) return false;
  const Memory file(in.rest());
  try {
    compare_parts(file, *place);
    return true;
  } catch (const local::Error&) {
    return false;
  }
}

template <Index kIndex>
std::vector<Content> index_seeds() {
  std::vector<Content> out;
  if constexpr (kIndex == Index::row) {  // no index: the chunks in a row
    IndexPlace place;
    place.layout.address = 4;
    place.layout.chunk = {2, 3};
    place.data = {.shape = {3, 6}, .limits = {4, 6}};
    out.push_back(put_place(place, sizeof(int32_t)).append(std::string(4 + 4 * 2 * 3 * sizeof(int32_t), 'x')).take());
  }
  const TempDir dir;
  const std::string file = dir / "seed.h5";
  const auto keep = [&](const IndexedKind& kind, bool latest) {
    const IndexedFile indexed(file, kind, latest);
    const IndexPlace place = indexed.place(Memory(indexed.bytes));
    if (place.layout.index != kIndex) return;
    out.push_back(put_place(place, sizeof(int32_t)).append(indexed.bytes).take());
  };
  // Small ones, and what the tests of mutants begin from.
  for (const bool filtered : {false, true})
    for (const IndexedKind& kind :
         {IndexedKind{{5, 7}, {5, 7}, {2, 3}, filtered}, IndexedKind{{20, 30}, {20, 30}, {6, 7}, filtered},
          IndexedKind{{30}, {-1}, {3}, filtered}, IndexedKind{{7, 8}, {-1, -1}, {2, 3}, filtered}})
      keep(kind, /*latest=*/true);
  for (const IndexedKind& kind : kNewerKinds) keep(kind, /*latest=*/true);
  keep({{20, 20}, {20, 20}, {7, 6}, true}, /*latest=*/false);
  keep({{20, 20}, {-1, 40}, {7, 6}, false}, /*latest=*/false);
  keep({{400}, {-1}, {2}, false}, /*latest=*/false);
  return out;
}

}  // namespace

std::span<const Target> hdf5_targets() {
  static constexpr Target kTargets[] = {
      {"hdf5_metadata", run_metadata, metadata_seeds, /*checked=*/true},
      {"index_btree", run_index<Index::btree>, index_seeds<Index::btree>},
      {"index_btree2", run_index<Index::btree2>, index_seeds<Index::btree2>, /*checked=*/true},
      {"index_fixed_array", run_index<Index::fixed_array>, index_seeds<Index::fixed_array>, /*checked=*/true},
      {"index_extensible_array", run_index<Index::extensible_array>, index_seeds<Index::extensible_array>,
       /*checked=*/true},
      {"index_row", run_index<Index::row>, index_seeds<Index::row>},
  };
  return kTargets;
}

}  // namespace quarry::test
