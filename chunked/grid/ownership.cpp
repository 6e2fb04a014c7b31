// Blocks: rank r of R owns chunks [n r / R, n (r + 1) / R) of n. Where R divides the s = min(n, 64) segments into which
// the reduction tree cuts the chunks, it owns whole segments instead, which is the same but for rounding; else a
// segment is shared by ranks that follow each other. With weights, r and R are sums of weights.
//
// Cyclic owners: the places of a rows x columns rectangle are dealt to the ranks in order, and the rectangle is laid
// over the chunks again and again. So what a row or a column of chunks needs is needed by few ranks.
#include "quarry/chunked/grid/ownership.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "quarry/chunked/grid/tree.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"

namespace quarry {

namespace {

// n a / b of numbers whose product may be large.
int64_t scaled(int64_t n, int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<__int128>(n) * a / b); }

}  // namespace

Owners Owners::cyclic(int columns) {
  if (columns < 0) throw local::InvalidArgument(fmt::format("cyclic owners of {} ranks", columns));
  return {Kind::cyclic, 1, columns};
}

Owners Owners::cyclic(int rows, int columns) {
  if (rows < 0 || columns < 0 || (rows == 0) != (columns == 0))
    throw local::InvalidArgument(fmt::format("cyclic owners of {} x {} ranks", rows, columns));
  return {Kind::cyclic, rows, columns};
}

std::string Owners::to_string() const {
  switch (kind) {
    case Kind::blocks:
      return "blocks";
    case Kind::cyclic:
      return fmt::format("cyclic({}, {})", rows, columns);
    case Kind::everywhere:
      return "everywhere";
  }
  return "";
}

int64_t OwnedChunks::index_of(int64_t chunk) const {
  if (chunks_.empty()) return chunk >= first_ && chunk < first_ + count_ ? chunk - first_ : -1;
  const auto found = std::ranges::lower_bound(chunks_, chunk);
  return found != chunks_.end() && *found == chunk ? found - chunks_.begin() : -1;
}

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

int64_t Ownership::first_chunk(int rank, int64_t count) const {
  if (!weight_sums_.empty()) {  // rounded to the nearest, so that small weights get some where there are enough
    const int64_t all = weight_sums_.back();
    return (scaled(2 * count, weight_sums_[static_cast<size_t>(rank)], all) + 1) / 2;
  }
  const int64_t segments = std::min(count, kSegments);
  if (segments % ranks_ == 0) return scaled(count, segments * rank / ranks_, segments);
  return scaled(count, rank, ranks_);
}

int Ownership::owner(int64_t chunk, int64_t count) const {
  QUARRY_CHECK(chunk >= 0 && chunk < count && ranks_ > 0);
  if (ranks_ == 1) return 0;
  if (weight_sums_.empty()) {
    const int64_t segments = std::min(count, kSegments);
    const auto last_before = [](int64_t position, int64_t parts, int64_t of) {  // the last part that begins there
      return (static_cast<__int128>(position + 1) * parts - 1) / of;
    };
    if (segments % ranks_ != 0) return static_cast<int>(last_before(chunk, ranks_, count));
    return static_cast<int>(last_before(static_cast<int64_t>(last_before(chunk, segments, count)), ranks_, segments));
  }
  // The last rank whose chunks begin at or before it; those without any begin where the next one does.
  int low = 0, high = ranks_;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (first_chunk(middle, count) <= chunk ? low : high) = middle;
  }
  return low;
}

std::pair<int64_t, int64_t> Ownership::owned(int rank, int64_t count) const {
  QUARRY_CHECK(rank >= 0 && rank < ranks_);
  if (count == 0) return {0, 0};
  return {first_chunk(rank, count), rank + 1 == ranks_ ? count : first_chunk(rank + 1, count)};
}

namespace {

// Chunks along the axis that is `behind` axes before the last one.
int64_t count_along(const Grid& grid, int behind) {
  return grid.ndim() > behind ? grid.axis(grid.ndim() - 1 - behind).count() : 1;
}

}  // namespace

Ownership::Pattern Ownership::pattern_of(const Owners& owners, const Grid& grid) const {
  QUARRY_CHECK(owners.rows > 0 && owners.columns > 0);
  Pattern pattern{1, count_along(grid, 1), count_along(grid, 0), owners.rows, owners.columns, 0};
  pattern.matrices = grid.count() / (pattern.chunk_rows * pattern.chunk_columns);
  const int64_t one = pattern.rows * pattern.columns;
  pattern.places = pattern.matrices == 1 ? one : one * local::divided_up(ranks_, one);
  return pattern;
}

Owners Ownership::settled(const Owners& owners, const Grid& grid) const {
  if (owners.kind != Owners::Kind::cyclic || owners.columns > 0) return owners;
  // Of unequal weights more places than ranks follow them better.
  constexpr int kPlacesPerRank = 4;
  const int places = weight_sums_.empty() ? ranks_ : kPlacesPerRank * ranks_;
  if (owners.rows == 1) return Owners::cyclic(places);
  const int64_t rows = count_along(grid, 1), columns = count_along(grid, 0);
  int64_t least_load = INT64_MAX, least_spread = INT64_MAX;  // chunks of a place; rows and columns that ranks read
  Owners best = Owners::blocks();
  for (int64_t p = 1; p <= std::min<int64_t>(rows, places); ++p) {
    const int64_t q = std::min(columns, places / p);
    const int64_t load = local::divided_up(rows, p) * local::divided_up(columns, q), spread = q * rows + p * columns;
    if (load > least_load || (load == least_load && spread >= least_spread)) continue;
    least_load = load;
    least_spread = spread;
    best = Owners::cyclic(static_cast<int>(p), static_cast<int>(q));
  }
  // A rectangle may leave out ranks.
  const int64_t of_blocks = local::divided_up(rows * columns, places);
  return 4 * least_load > 5 * of_blocks ? Owners::blocks() : best;
}

int64_t Ownership::first_place(int rank, int64_t places) const {
  const int64_t before = weight_sums_.empty() ? rank : weight_sums_[static_cast<size_t>(rank)];
  const int64_t all = weight_sums_.empty() ? ranks_ : weight_sums_.back();
  return (scaled(2 * places, before, all) + 1) / 2;
}

int Ownership::rank_at(int64_t place, int64_t places) const {
  int low = 0, high = ranks_;
  if (weight_sums_.empty() && places == ranks_) return static_cast<int>(place);
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (first_place(middle, places) <= place ? low : high) = middle;
  }
  return low;
}

int Ownership::owner(const Owners& owners, const Grid& grid, int64_t chunk) const {
  if (ranks_ == 1) return 0;
  switch (owners.kind) {
    case Owners::Kind::blocks:
      return owner(chunk, grid.count());
    case Owners::Kind::cyclic: {
      const Pattern p = pattern_of(owners, grid);
      const int64_t column = chunk % p.chunk_columns, row = chunk / p.chunk_columns % p.chunk_rows;
      const int64_t matrix = chunk / p.chunk_columns / p.chunk_rows;
      const int64_t place = (matrix * p.rows + row % p.rows) * p.columns + column % p.columns;
      return rank_at(place % p.places, p.places);
    }
    case Owners::Kind::everywhere:
      break;
  }
  QUARRY_CHECK(owners.kind != Owners::Kind::everywhere);
  return 0;
}

OwnedChunks Ownership::owned(const Owners& owners, const Grid& grid, int rank) const {
  QUARRY_CHECK(rank >= 0 && rank < ranks_);
  const int64_t count = grid.count();
  switch (owners.kind) {
    case Owners::Kind::blocks:
      break;
    case Owners::Kind::cyclic: {
      if (ranks_ == 1) break;
      const Pattern p = pattern_of(owners, grid);
      const int64_t one = p.rows * p.columns;
      std::vector<int64_t> chunks;
      const int64_t end = rank + 1 == ranks_ ? p.places : first_place(rank + 1, p.places);
      for (int64_t place = first_place(rank, p.places); place < end; ++place) {
        for (int64_t matrix = place / one; matrix < p.matrices; matrix += p.places / one)
          for (int64_t row = place % one / p.columns; row < p.chunk_rows; row += p.rows)
            for (int64_t column = place % p.columns; column < p.chunk_columns; column += p.columns)
              chunks.push_back((matrix * p.chunk_rows + row) * p.chunk_columns + column);
      }
      if (chunks.empty()) return {0, 0};
      std::ranges::sort(chunks);
      return OwnedChunks(std::move(chunks));
    }
    case Owners::Kind::everywhere:
      return {0, count};
  }
  const auto [first, last] = owned(rank, count);
  return {first, last};
}

}  // namespace quarry
