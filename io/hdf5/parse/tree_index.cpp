// Chunk indexes that are B-trees of version 2, of data sets with several axes without limit.
#include <fmt/format.h>

#include "quarry/io/hdf5/parse/chunk_collector.h"
#include "quarry/io/hdf5/parse/record_tree.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {

void read_version_2_tree(BlockReader& blocks, const FileFormat& format, const LayoutMessage& layout,
                         ChunkCollector& out) {
  constexpr int kMaskBytes = 4, kPlaceBytes = 8;
  int size_bytes = 0;
  const auto take = [&](Cursor& in, local::Dims& at) {
    const StoredChunk chunk = out.stored(in, format, size_bytes);
    for (int64_t& place : at) {
      const uint64_t stated = in.number(kPlaceBytes);
      place = stated > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(stated);
    }
    return chunk;
  };
  local::Dims at = local::Dims::filled(out.rank());
  for_each_record(
      blocks, format, layout.address, out.filtered() ? record_type::kFilteredChunk : record_type::kChunk,
      [&](int64_t record_bytes) {
        size_bytes = static_cast<int>(record_bytes) - format.offset_bytes - kPlaceBytes * out.rank() -
                     (out.filtered() ? kMaskBytes : 0);
        if (out.filtered() ? size_bytes < 1 || size_bytes > 8 : size_bytes != 0)
          damaged(fmt::format("records of {} bytes in a chunk index", record_bytes));
      },
      [&](Cursor& in) {
        const StoredChunk chunk = take(in, at);
        out.add(at, chunk);
      },
      [&](Cursor in) {
        take(in, at);
        return RecordNeighbours{out.begins_at(at), out.ends_before(at)};
      });
}

}  // namespace quarry::io::hdf5
