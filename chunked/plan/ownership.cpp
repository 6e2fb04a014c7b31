// Block ownership: rank r of R owns segments [s r / R, s (r + 1) / R) of the s = min(n, 64) contiguous segments that
// the reduction tree cuts n chunks into, so that merging inside a segment never crosses ranks.
#include <algorithm>

#include "chunked/plan/stage.h"
#include "local/base/error.h"

namespace quarry::plan {

namespace {

constexpr int64_t kSegments = 64;

int64_t segment_start(int64_t segment, int64_t chunks) {
  return static_cast<int64_t>(static_cast<__int128>(chunks) * segment / std::min(chunks, kSegments));
}

}  // namespace

int owner(int64_t chunk, int64_t chunk_count, int ranks) {
  QUARRY_CHECK(chunk >= 0 && chunk < chunk_count && ranks > 0);
  const int64_t segments = std::min(chunk_count, kSegments);
  // The last segment that starts at or before the chunk.
  const int64_t segment = static_cast<int64_t>((static_cast<__int128>(chunk + 1) * segments - 1) / chunk_count);
  return static_cast<int>(((segment + 1) * ranks - 1) / segments);
}

std::pair<int64_t, int64_t> owned(int rank, int64_t chunk_count, int ranks) {
  QUARRY_CHECK(rank >= 0 && rank < ranks);
  if (chunk_count == 0) return {0, 0};
  const int64_t segments = std::min(chunk_count, kSegments);
  return {segment_start(segments * rank / ranks, chunk_count),
          segment_start(segments * (rank + 1) / ranks, chunk_count)};
}

}  // namespace quarry::plan
