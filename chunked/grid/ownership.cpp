// Block ownership: rank r of R owns segments [s r / R, s (r + 1) / R) of the s = min(n, 64) contiguous segments that
// the reduction tree cuts n chunks into, so that merging inside a segment never crosses ranks. With weights, r and R
// are sums of weights.
#include "quarry/chunked/grid/ownership.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "quarry/chunked/grid/tree.h"
#include "quarry/local/base/error.h"

namespace quarry {

namespace {

int64_t segment_start(int64_t segment, int64_t chunks) {
  return static_cast<int64_t>(static_cast<__int128>(chunks) * segment / std::min(chunks, kSegments));
}

}  // namespace

Ownership::Ownership(std::span<const int64_t> weights) : ranks_(static_cast<int>(weights.size())) {
  QUARRY_CHECK(!weights.empty());
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
  if (!equal) weight_sums_ = std::move(sums);
}

// Of `segments`, rounded to the nearest so that small weights get some where there are enough.
int64_t Ownership::first_segment(int rank, int64_t segments) const {
  if (weight_sums_.empty()) return segments * rank / ranks_;
  const int64_t all = weight_sums_.back();
  return (2 * segments * weight_sums_[static_cast<size_t>(rank)] + all) / (2 * all);
}

int Ownership::owner(int64_t chunk, int64_t count) const {
  QUARRY_CHECK(chunk >= 0 && chunk < count && ranks_ > 0);
  if (ranks_ == 1) return 0;
  const int64_t segments = std::min(count, kSegments);
  // The last segment that starts at or before the chunk.
  const int64_t segment = static_cast<int64_t>((static_cast<__int128>(chunk + 1) * segments - 1) / count);
  if (weight_sums_.empty()) return static_cast<int>(((segment + 1) * ranks_ - 1) / segments);
  // The last rank whose segments begin at or before it; those without any begin where the next one does.
  int rank = ranks_ - 1;
  while (first_segment(rank, segments) > segment) --rank;
  return rank;
}

std::pair<int64_t, int64_t> Ownership::owned(int rank, int64_t count) const {
  QUARRY_CHECK(rank >= 0 && rank < ranks_);
  if (count == 0) return {0, 0};
  const int64_t segments = std::min(count, kSegments);
  return {segment_start(first_segment(rank, segments), count), segment_start(first_segment(rank + 1, segments), count)};
}

}  // namespace quarry
