#include "quarry/chunked/plan/rechunk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/listing.h"

namespace quarry::plan {
namespace {

// What reading a part or a run costs beside its bytes, as bytes that could be moved in that time.
constexpr double kSpilledPartBytes = 192 << 10;
constexpr double kFileRunBytes = 4 << 10;
constexpr double kColdFileRunBytes = 16 << 10;  // of a file that is larger than memory, and so read from disk again
constexpr double kSpilledRunBytes = 64 << 10;   // that a checksum is of, and that is read whole
constexpr double kDecoding = 16;                // of a byte, against moving it
constexpr int kMostSteps = 4;                   // all-to-all stages in a row

// How the chunks of one axis overlap those of another.
struct Overlaps {
  int64_t count = 0, most = 0;  // of all chunks, of one
  int64_t elements = 0;         // of the chunks that are overlapped, each as often as it is
};

Overlaps overlaps(const AxisChunks& from, const AxisChunks& to) {
  check_listable(to.count());
  Overlaps result;
  for (int64_t i = 0; i < to.count(); ++i) {
    if (to.size(i) == 0) continue;
    const int64_t first = from.find(to.start(i)), last = from.find(to.start(i + 1) - 1);
    result.count += last - first + 1;
    result.most = std::max(result.most, last - first + 1);
    result.elements += from.start(last + 1) - from.start(first);
  }
  return result;
}

// Neighbours of an axis together, up to so many elements where one has no more.
AxisChunks merged(const AxisChunks& axis, int64_t most) {
  check_listable(axis.count());
  std::vector<int64_t> extents;
  for (int64_t i = 0; i < axis.count(); ++i) {
    if (!extents.empty() && extents.back() + axis.size(i) <= most)
      extents.back() += axis.size(i);
    else
      extents.push_back(axis.size(i));
  }
  return AxisChunks(extents);
}

Grid merged(const Grid& grid, const Dims& most) {
  std::vector<AxisChunks> axes;
  for (int d = 0; d < grid.ndim(); ++d) axes.push_back(merged(grid.axis(d), most[d]));
  return Grid(std::move(axes));
}

double bytes_of(const Dims& extents, int64_t itemsize) {
  auto bytes = static_cast<double>(itemsize);
  for (const int64_t extent : extents) bytes *= static_cast<double>(extent);
  return bytes;
}

// The grid with chunks merged along the axes where those of `other` are longer, as far as there is room.
Grid grown(const Grid& grid, const Grid& other, const RechunkLimits& limits) {
  const Dims longest = other.largest();
  Dims most = grid.largest();
  if (limits.room == 0) {
    for (int d = 0; d < grid.ndim(); ++d) most[d] = std::max(most[d], longest[d]);
    return merged(grid, most);
  }
  for (;;) {
    int axis = -1;
    double ratio = 1;
    for (int d = 0; d < grid.ndim(); ++d) {
      const double now = static_cast<double>(longest[d]) / static_cast<double>(std::max<int64_t>(most[d], 1));
      if (now > ratio) axis = d, ratio = now;
    }
    if (axis < 0) break;
    const double left = static_cast<double>(limits.room) / bytes_of(most, limits.itemsize);
    if (left <= 1) break;
    // In steps of two, so that several axes grow alike; the last one takes what is left.
    const double factor = std::min({ratio, left, 2.0});
    const auto longer = static_cast<int64_t>(std::floor(static_cast<double>(most[axis]) * factor));
    if (longer <= most[axis]) break;
    most[axis] = longer;
  }
  return merged(grid, most);
}

// The grid with chunks cut, along the axes that come first in a file, until there is room for one.
Grid cut(const RechunkSource& from, const RechunkLimits& limits) {
  const Grid& grid = from.grid;
  if (limits.room == 0 || from.order.empty())
    return limits.room == 0 ? grid : limited_grid(grid, limits.itemsize, limits.room);
  std::vector<AxisChunks> axes;
  for (const int d : from.order) axes.push_back(grid.axis(d));
  const Grid limited = limited_grid(Grid(axes), limits.itemsize, limits.room);
  for (int i = 0; i < grid.ndim(); ++i) axes[static_cast<size_t>(from.order[static_cast<size_t>(i)])] = limited.axis(i);
  return Grid(std::move(axes));
}

Grid least(const Grid& a, const Grid& b) {
  std::vector<AxisChunks> axes;
  for (int d = 0; d < a.ndim(); ++d) axes.push_back(a.axis(d).largest() <= b.axis(d).largest() ? a.axis(d) : b.axis(d));
  return Grid(std::move(axes));
}

// n + 1 grids from one to another by factors, each axis by merging: cuts of longer chunks are cuts of shorter ones.
std::vector<Grid> chain(const Grid& from, const Grid& to, int n) {
  std::vector<std::vector<AxisChunks>> axes(static_cast<size_t>(n) + 1);
  axes.front() = from.axes();
  axes.back() = to.axes();
  for (size_t i = 1; i + 1 < axes.size(); ++i) axes[i].resize(axes.front().size());
  for (size_t d = 0; d < axes.front().size(); ++d) {
    const AxisChunks &first = axes.front()[d], &last = axes.back()[d];
    const auto a = static_cast<double>(std::max<int64_t>(first.largest(), 1));
    const auto b = static_cast<double>(std::max<int64_t>(last.largest(), 1));
    for (int k = 1; k < n; ++k) {
      const int i = a <= b ? k : n - k;  // from the shorter ones on
      const double way = static_cast<double>(i) / n;
      const auto most = static_cast<int64_t>(std::pow(a, 1 - way) * std::pow(b, way) * (1 + 1e-9));
      axes[static_cast<size_t>(i)][d] = merged(axes[static_cast<size_t>(a <= b ? i - 1 : i + 1)][d], most);
    }
  }
  std::vector<Grid> grids;
  for (std::vector<AxisChunks>& each : axes) grids.emplace_back(std::move(each));
  return grids;
}

// Without grids that are the one before, or those of chunks that are there already: a file's are not.
std::vector<Grid> distinct(const RechunkSource& from, std::vector<Grid> grids) {
  const bool is_file = from.kind == RechunkSource::Kind::file || from.kind == RechunkSource::Kind::decoded;
  std::vector<Grid> result;
  for (Grid& grid : grids) {
    const bool is_there = result.empty() ? !is_file && grid == from.grid : grid == result.back();
    if (!is_there) result.push_back(std::move(grid));
  }
  return result;
}

// Whether chunks of a grid leave memory before they are read: where the first chunk of `to` needs many of them.
bool waits_on_disk(const Grid& grid, const Grid& to, const RechunkLimits& limits) {
  constexpr double kMostRooms = 3;
  if (!limits.spills || limits.room == 0) return false;
  Dims last = Dims::filled(grid.ndim());
  for (int d = 0; d < grid.ndim(); ++d) last[d] = grid.axis(d).find(to.axis(d).size(0) - 1);
  const double chunks = static_cast<double>(grid.flat(last)) + 1;
  return chunks * bytes_of(grid.largest(), limits.itemsize) > kMostRooms * static_cast<double>(limits.room);
}

// Whether most parts are their reader's own where ranks of one host own chunks in blocks: both grids have a cut along
// the first axis that has any for every such rank, and so ranks have the same part of that axis.
bool stays_on_ranks(const Grid& from, const Grid& to) {
  constexpr int64_t kRanksOfHost = 8;
  for (int d = 0; d < to.ndim(); ++d) {
    const int64_t least_count = std::min(from.axis(d).count(), to.axis(d).count());
    if (least_count > 1 || from.axis(d).count() != to.axis(d).count()) return least_count >= kRanksOfHost;
  }
  return true;
}

// Neighbours of an axis together, in so many groups of about as many chunks.
AxisChunks grouped(const AxisChunks& axis, int64_t groups) {
  check_listable(axis.count());
  std::vector<int64_t> extents;
  for (int64_t g = 0; g < groups; ++g)
    extents.push_back(axis.start((g + 1) * axis.count() / groups) - axis.start(g * axis.count() / groups));
  return AxisChunks(extents);
}

// Chunks of about as many bytes as those of both ends, by doubling the shorter extents: `step` of so many times. Along
// an axis there are a power of two, so that ranks, which own chunks in blocks, have about the same part of an axis in
// this grid and in those of both ends.
Grid between(const Grid& from, const Grid& to, int step, int steps) {
  const double way = static_cast<double>(step) / steps;
  std::vector<AxisChunks> axes;
  for (int d = 0; d < from.ndim(); ++d) {
    const bool grows = from.axis(d).largest() <= to.axis(d).largest();
    const AxisChunks &cuts = grows ? from.axis(d) : to.axis(d), &other = grows ? to.axis(d) : from.axis(d);
    if (cuts.extent() == 0) {
      axes.push_back(cuts);
      continue;
    }
    const double doublings = std::log2(static_cast<double>(other.largest()) / static_cast<double>(cuts.largest()));
    const double groups = std::log2(static_cast<double>(cuts.count())) - doublings * (grows ? way : 1 - way);
    const auto wanted = static_cast<int64_t>(std::exp2(std::max(std::round(groups), 0.0)));
    axes.push_back(doublings == 0 ? cuts : grouped(cuts, std::min(wanted, cuts.count())));
  }
  return Grid(std::move(axes));
}

double cost_of(const RechunkSource& from, const std::vector<Grid>& grids, const RechunkLimits& limits) {
  constexpr double kUnwanted = 1e3;
  const double all = bytes_of(from.grid.shape(), limits.itemsize);
  double cost = 0;
  RechunkSource source = from;
  for (size_t i = 0; i < grids.size(); ++i) {
    const Grid& grid = grids[i];
    const bool is_last = i + 1 == grids.size();
    if (!is_last && limits.room > 0 && bytes_of(grid.largest(), limits.itemsize) > static_cast<double>(limits.room))
      return std::numeric_limits<double>::infinity();
    const RechunkStage stage = rechunk_stage(source, grid, limits.itemsize);
    const bool is_spilled = source.kind == RechunkSource::Kind::spilled;
    const bool is_decoded = source.kind == RechunkSource::Kind::decoded;
    const double file_run = limits.spills ? kColdFileRunBytes : kFileRunBytes;
    const bool is_own =
        source.kind == RechunkSource::Kind::memory && (limits.ranks == 1 || stays_on_ranks(source.grid, grid));
    const double byte = is_decoded ? kDecoding : is_own ? limits.own_cost : 1;
    const double part = is_spilled ? kSpilledPartBytes : is_own ? limits.own_part_bytes : limits.part_bytes;
    const bool is_fetched = source.kind == RechunkSource::Kind::memory && !is_own && limits.ranks > 1;
    const double fetches = static_cast<double>(source.grid.count()) * limits.ranks;
    if (is_fetched && fetches < stage.parts)
      cost += fetches * part + stage.parts * limits.own_part_bytes;
    else
      cost += stage.parts * part;
    cost += stage.read_bytes * byte + stage.runs * (is_spilled ? kSpilledRunBytes : file_run);
    if (stage.most_parts > limits.most_parts) cost += kUnwanted * all;
    const bool goes_to_disk = !is_last && waits_on_disk(grid, grids[i + 1], limits);
    cost += goes_to_disk ? 2 * all : is_own ? limits.own_cost * all : all;
    source = {goes_to_disk ? RechunkSource::Kind::spilled : RechunkSource::Kind::memory, grid, {}};
  }
  return cost;
}

}  // namespace

RechunkStage rechunk_stage(const RechunkSource& from, const Grid& to, int64_t itemsize) {
  RechunkStage stage;
  stage.parts = 1;
  stage.most_parts = 1;
  std::vector<double> part, chunk;  // mean extents
  auto elements = static_cast<double>(itemsize), decoded = elements;
  for (int d = 0; d < to.ndim(); ++d) {
    const Overlaps axis = overlaps(from.grid.axis(d), to.axis(d));
    stage.parts *= static_cast<double>(axis.count);
    if (__builtin_mul_overflow(stage.most_parts, axis.most, &stage.most_parts)) stage.most_parts = INT64_MAX;
    const auto extent = static_cast<double>(to.axis(d).extent());
    elements *= extent;
    decoded *= static_cast<double>(axis.elements);
    part.push_back(extent / static_cast<double>(std::max<int64_t>(axis.count, 1)));
    chunk.push_back(extent / static_cast<double>(from.grid.axis(d).count()));
  }
  stage.read_bytes = elements;
  if (from.kind == RechunkSource::Kind::decoded) stage.read_bytes = decoded;
  if (from.kind != RechunkSource::Kind::file && from.kind != RechunkSource::Kind::spilled) return stage;
  // Consecutive are the last axes that are read whole, and one more.
  auto run = static_cast<double>(itemsize);
  for (int i = to.ndim(); i-- > 0;) {
    const auto d = static_cast<size_t>(from.order.empty() ? i : from.order[static_cast<size_t>(i)]);
    run *= part[d];
    if (part[d] < chunk[d]) break;
  }
  stage.runs = run > 0 ? elements / run : 0;
  return stage;
}

std::vector<Grid> plan_rechunk(const RechunkSource& from, const Grid& to, const RechunkLimits& limits) {
  constexpr int64_t kMostCuts = int64_t{1} << 20;  // of an axis, that are looked at
  for (int d = 0; d < to.ndim(); ++d)
    if (to.axis(d).extent() == 0 || std::max(to.axis(d).count(), from.grid.axis(d).count()) > kMostCuts) return {to};
  std::vector<Grid> best{to};
  double least_cost = cost_of(from, best, limits);
  // Whatever goes by another grid moves everything twice.
  const double all = bytes_of(from.grid.shape(), limits.itemsize);
  const double first_cost = from.kind == RechunkSource::Kind::decoded ? kDecoding : 1;
  if (least_cost <= all * (first_cost + 1 + 2 * std::min(limits.own_cost, 1.0))) return best;
  const auto consider = [&](std::vector<Grid> grids) {
    grids = distinct(from, std::move(grids));
    if (grids.empty() || grids.back() != to) grids.push_back(to);
    const double cost = cost_of(from, grids, limits);
    if (cost >= least_cost) return;
    least_cost = cost;
    best = std::move(grids);
  };
  const Grid source = cut(from, limits);
  const Grid first = grown(source, to, limits), last = grown(to, source, limits);
  consider({first, to});
  consider({last, to});
  consider({least(from.grid, to), to});
  for (int n = 1; n <= kMostSteps; ++n) {
    const std::vector<Grid> whole = chain(first, last, n);
    std::vector<Grid> grids{first};
    for (size_t i = 1; i < whole.size(); ++i) {
      grids.push_back(least(whole[i - 1], whole[i]));
      grids.push_back(whole[i]);
    }
    grids.push_back(to);
    consider(grids);
    // Parts of the source itself may do as well.
    grids.erase(grids.begin());
    consider(std::move(grids));
  }
  constexpr int kPlaces = 10;
  for (int step = 1; from.kind == RechunkSource::Kind::memory && step < kPlaces; ++step)
    consider({between(from.grid, to, step, kPlaces), to});
  return best;
}

}  // namespace quarry::plan
