#include "quarry/chunked/grid/chunking.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "quarry/chunked/grid/listing.h"
#include "quarry/local/base/error.h"

namespace quarry {

using local::InvalidArgument;

namespace {

std::atomic<const ChunkPolicy*> process_policy{nullptr};
thread_local const ChunkPolicy* scoped_policy = nullptr;

// Saturating product: a chunk that does not fit 64 bits is merely too large.
int64_t chunk_bytes(const Dims& chunk, int64_t itemsize) {
  int64_t bytes = itemsize;
  for (int64_t extent : chunk)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return INT64_MAX;
  return bytes;
}

Dims rows_chunk(const Dims& shape, int64_t itemsize, int64_t target_bytes) {
  Dims chunk = Dims::filled(shape.size(), 1);
  int64_t bytes = itemsize;
  for (int d = shape.size() - 1; d >= 0; --d) {
    const int64_t fitting = std::max<int64_t>(target_bytes / std::max<int64_t>(bytes, 1), 1);
    if (shape[d] > fitting) {
      // Equal chunks rather than a tiny last one.
      const int64_t parts = (shape[d] - 1) / fitting + 1;
      chunk[d] = (shape[d] - 1) / parts + 1;
      break;
    }
    chunk[d] = std::max<int64_t>(shape[d], 1);
    bytes *= chunk[d];
  }
  return chunk;
}

Dims file_multiple_chunk(const Dims& shape, int64_t itemsize, const Dims& file_chunks, int64_t target_bytes) {
  Dims chunk = Dims::filled(shape.size());
  for (int d = 0; d < shape.size(); ++d)
    chunk[d] = std::clamp<int64_t>(file_chunks[d], 1, std::max<int64_t>(shape[d], 1));
  for (;;) {
    int best = -1;
    Dims grown;
    for (int d = shape.size() - 1; d >= 0; --d) {
      if (chunk[d] >= shape[d] || (best >= 0 && chunk[d] >= chunk[best])) continue;
      Dims candidate = chunk;
      candidate[d] = std::min(shape[d], chunk[d] * 2);
      if (chunk_bytes(candidate, itemsize) > target_bytes) continue;
      best = d;
      grown = candidate;
    }
    if (best < 0) return chunk;
    chunk = grown;
  }
}

}  // namespace

const ChunkPolicy& chunk_policy() {
  static const ChunkPolicy otherwise;
  if (scoped_policy != nullptr) return *scoped_policy;
  const ChunkPolicy* const policy = process_policy;
  return policy != nullptr ? *policy : otherwise;
}

void set_chunk_policy(const ChunkPolicy* policy) noexcept { process_policy = policy; }

const ChunkPolicy* scope_chunk_policy(const ChunkPolicy* policy) noexcept {
  return std::exchange(scoped_policy, policy);
}

ChunkPolicyScope::ChunkPolicyScope(ChunkPolicy policy)
    : policy_(std::move(policy)), before_(scope_chunk_policy(&policy_)) {}
ChunkPolicyScope::~ChunkPolicyScope() { scope_chunk_policy(before_); }

int64_t target_chunk_bytes(local::DeviceKind device) {
  if (chunk_policy().target_bytes > 0) return chunk_policy().target_bytes;
  switch (device) {
    case local::DeviceKind::cpu:
    case local::DeviceKind::emulated:
    case local::DeviceKind::trial:
      return kCpuChunkBytes;
    case local::DeviceKind::cuda:
      return kGpuChunkBytes;
  }
  __builtin_unreachable();
}

Dims auto_chunk(const Dims& shape, int64_t itemsize, const std::optional<Dims>& file_chunks, int64_t target_bytes) {
  if (file_chunks && file_chunks->size() == shape.size())
    return file_multiple_chunk(shape, itemsize, *file_chunks, target_bytes);
  return rows_chunk(shape, itemsize, target_bytes);
}

Grid default_grid(const Dims& shape, local::DType dtype, const std::optional<Dims>& file_chunks) {
  const ChunkPolicy& p = chunk_policy();
  if (p.chunks && p.chunks->size() == shape.size()) return explicit_grid(shape, *p.chunks);
  return Grid::regular(shape, auto_chunk(shape, local::itemsize(dtype), file_chunks, target_chunk_bytes(p.device)));
}

Grid explicit_grid(const Dims& shape, const Dims& chunk) {
  if (chunk.size() != shape.size())
    throw InvalidArgument(fmt::format("chunks {} have {} axes, but the array of shape {} has {}",
                                      local::to_string(chunk), chunk.size(), local::to_string(shape), shape.size()));
  Dims extents = chunk;
  for (int d = 0; d < shape.size(); ++d) {
    if (chunk[d] == -1) extents[d] = std::max<int64_t>(shape[d], 1);
    if (extents[d] < 1)
      throw InvalidArgument(
          fmt::format("chunks {}: an extent must be at least 1, or -1 for the whole axis", local::to_string(chunk)));
  }
  return Grid::regular(shape, extents);
}

Grid limited_grid(const Grid& grid, int64_t itemsize, int64_t bytes, const Dims& keep) {
  Dims largest = grid.largest();
  if (chunk_bytes(largest, itemsize) <= bytes) return grid;
  std::vector<AxisChunks> axes = grid.axes();
  while (chunk_bytes(largest, itemsize) > bytes) {
    int axis = -1;
    for (int d = 0; d < largest.size() && axis < 0; ++d)
      if (d < keep.size() && keep[d] > 0 && largest[d] > keep[d]) axis = d;
    for (int d = 0; d < largest.size() && axis < 0; ++d)
      if (largest[d] > 1) axis = d;
    if (axis < 0) break;
    int64_t part = (largest[axis] - 1) / 2 + 1;
    if (axis < keep.size() && keep[axis] > 0 && largest[axis] > keep[axis])
      part = (part - 1) / keep[axis] * keep[axis] + keep[axis];
    if (part >= largest[axis]) part = (largest[axis] - 1) / 2 + 1;
    // Each chunk is cut by itself, so that the old cuts stay cuts.
    const AxisChunks& old = axes[static_cast<size_t>(axis)];
    check_listable(old.count());
    std::vector<int64_t> extents;
    for (int64_t i = 0; i < old.count(); ++i)
      for (int64_t left = old.size(i); left > 0; left -= part) extents.push_back(std::min(left, part));
    axes[static_cast<size_t>(axis)] = AxisChunks(extents);
    largest[axis] = axes[static_cast<size_t>(axis)].largest();
  }
  return Grid(std::move(axes));
}

namespace {

// The largest length of at most `most` that is the hint times or divided by a whole number.
int64_t fit_to_hint(int64_t extent, int64_t most, int64_t hint) {
  most = std::clamp<int64_t>(most, 1, std::max<int64_t>(extent, 1));
  if (most >= extent || hint <= 0) return most;
  if (hint <= most) return most / hint * hint;
  const int64_t parts = (hint - 1) / most + 1;
  return (hint - 1) / parts + 1;
}

// A square tile of at most so many elements.
struct SquareTile {
  explicit SquareTile(int64_t most) : elements(std::max<int64_t>(most, 1)) {
    while (edge * edge * 4 <= elements) edge *= 2;
  }
  // An axis of up to two tile edges stays whole (so that a covariance of 2048 columns is one tile): at most four
  // targets.
  bool holds(int64_t extent) const { return extent <= 2 * edge; }

  int64_t elements;
  int64_t edge = 1;  // a power of two
};

}  // namespace

MatMulTile matmul_tile(int64_t m, int64_t k, int64_t n, int64_t itemsize, int64_t target_bytes, int64_t row_hint,
                       int64_t inner_hint, int64_t unit) {
  m = std::max<int64_t>(m, 1), k = std::max<int64_t>(k, 1), n = std::max<int64_t>(n, 1);
  const SquareTile square(target_bytes / itemsize);
  const int64_t elements = square.elements, edge = square.edge;
  const auto whole = [&](int64_t extent) { return square.holds(extent); };
  MatMulTile tile{whole(m) ? m : edge, whole(k) ? k : edge, whole(n) ? n : edge};
  // The one long axis takes what the other two leave of the target.
  if (whole(m) && whole(n) && !whole(k))
    tile.k = fit_to_hint(k, elements / std::max(m, n), inner_hint);
  else if (whole(k) && whole(n) && !whole(m))
    tile.m = fit_to_hint(m, elements / std::max(k, n), row_hint);
  else if (whole(m) && whole(k) && !whole(n))
    tile.n = fit_to_hint(n, elements / std::max(m, k), 0);
  else {
    const auto fit = [&](int64_t extent, int64_t hint) {
      const int64_t length = fit_to_hint(extent, edge, hint);
      return length % unit == 0 ? length : edge;
    };
    if (!whole(m)) tile.m = fit(m, row_hint);
    if (!whole(k)) tile.k = fit(k, inner_hint);
  }
  return tile;
}

std::optional<MatMulTile> matmul_tile_of_chunks(int64_t m, int64_t k, int64_t n, int64_t itemsize, int64_t target_bytes,
                                                const MatMulChunks& a, const MatMulChunks& b) {
  const SquareTile square(target_bytes / itemsize);
  // The chunk of the large operand, and the extent of the axis that it lacks.
  const auto fits = [&](const MatMulChunks& chunk, int64_t other) {
    constexpr int64_t kFew = 4;
    const int64_t size = chunk.rows * chunk.columns, beside = std::max(chunk.rows, chunk.columns) * other;
    return size >= square.elements / kFew && std::max(size, beside) <= square.elements * kFew;
  };
  const bool long_m = !square.holds(m), long_k = !square.holds(k), long_n = !square.holds(n);
  if (long_m && long_k && !long_n && fits(a, n)) return MatMulTile{a.rows, a.columns, std::max<int64_t>(n, 1)};
  if (long_k && long_n && !long_m && fits(b, m)) return MatMulTile{std::max<int64_t>(m, 1), b.rows, b.columns};
  return std::nullopt;
}

int64_t largest_chunk_bytes(const Grid& grid, int64_t itemsize) { return chunk_bytes(grid.largest(), itemsize); }

Grid halved_to_fit(Grid grid, int64_t bytes_per_element, int64_t room) {
  for (;;) {
    const int64_t elements = largest_chunk_bytes(grid, /*itemsize=*/1);
    if (room == 0 || elements * bytes_per_element <= room || elements <= kLeastElements) return grid;
    grid = limited_grid(grid, /*itemsize=*/1, elements / 2);
  }
}

}  // namespace quarry
