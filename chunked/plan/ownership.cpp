// Block ownership: rank r of R owns segments [s r / R, s (r + 1) / R) of the s = min(n, 64) contiguous segments that
// the reduction tree cuts n chunks into, so that merging inside a segment never crosses ranks. With weights, r and R
// are sums of weights.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "quarry/chunked/plan/stage.h"
#include "quarry/local/base/error.h"

namespace quarry::plan {

namespace {

constexpr int64_t kSegments = 64;

int64_t segment_start(int64_t segment, int64_t chunks) {
  return static_cast<int64_t>(static_cast<__int128>(chunks) * segment / std::min(chunks, kSegments));
}

// Sums of the weights before each rank, and of all; empty: equal weights.
std::vector<int64_t> weight_sums;

bool weighted(int ranks) { return weight_sums.size() == static_cast<size_t>(ranks) + 1; }

// Of `segments`, rounded to the nearest so that small weights get some where there are enough.
int64_t first_segment(int rank, int ranks, int64_t segments) {
  if (!weighted(ranks)) return segments * rank / ranks;
  const int64_t all = weight_sums.back();
  return (2 * segments * weight_sums[static_cast<size_t>(rank)] + all) / (2 * all);
}

}  // namespace

void set_rank_weights(std::span<const int64_t> weights) {
  std::vector<int64_t> sums{0};
  for (const int64_t weight : weights) {
    constexpr int64_t kMost = int64_t{1} << 31;
    if (weight <= 0 || weight > kMost - sums.back()) {
      throw local::InvalidArgument(fmt::format("rank {} has weight {}: weights are positive and add up to at most 2^31",
                                               sums.size() - 1, weight));
    }
    sums.push_back(sums.back() + weight);
  }
  const bool equal = std::ranges::adjacent_find(weights, std::ranges::not_equal_to()) == weights.end();
  weight_sums = equal ? std::vector<int64_t>() : std::move(sums);
}

int owner(int64_t chunk, int64_t chunk_count, int ranks) {
  QUARRY_CHECK(chunk >= 0 && chunk < chunk_count && ranks > 0);
  if (ranks == 1) return 0;
  const int64_t segments = std::min(chunk_count, kSegments);
  // The last segment that starts at or before the chunk.
  const int64_t segment = static_cast<int64_t>((static_cast<__int128>(chunk + 1) * segments - 1) / chunk_count);
  if (!weighted(ranks)) return static_cast<int>(((segment + 1) * ranks - 1) / segments);
  // The last rank whose segments begin at or before it; those without any begin where the next one does.
  int rank = ranks - 1;
  while (first_segment(rank, ranks, segments) > segment) --rank;
  return rank;
}

std::pair<int64_t, int64_t> owned(int rank, int64_t chunk_count, int ranks) {
  QUARRY_CHECK(rank >= 0 && rank < ranks);
  if (chunk_count == 0) return {0, 0};
  const int64_t segments = std::min(chunk_count, kSegments);
  return {segment_start(first_segment(rank, ranks, segments), chunk_count),
          segment_start(first_segment(rank + 1, ranks, segments), chunk_count)};
}

}  // namespace quarry::plan
