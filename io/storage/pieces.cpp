#include "quarry/io/storage/pieces.h"

#include <fmt/format.h>

#include <cstring>

namespace quarry::io {

using local::Dims;

AscendingRegion::AscendingRegion(const local::Region& region, const Dims& shape)
    : low(region.start), step(region.step), count(region.count), flip(Dims::filled(shape.size(), 0)) {
  QUARRY_CHECK(region.start.size() == shape.size() && region.step.size() == shape.size() &&
               region.count.size() == shape.size());
  for (int d = 0; d < shape.size(); ++d) {
    if (count[d] <= 0) {
      QUARRY_CHECK(count[d] == 0);
      continue;
    }
    if (count[d] == 1) step[d] = 1;
    const int64_t last = low[d] + (count[d] - 1) * step[d];
    if (low[d] < 0 || low[d] >= shape[d] || last < 0 || last >= shape[d] || step[d] == 0)
      throw local::IndexError(fmt::format("region [{} + i * {}, i < {}] of axis {} reaches outside of its {} elements",
                                          low[d], step[d], count[d], d, shape[d]));
    if (step[d] > 0) continue;
    flip[d] = 1;
    low[d] = last;
    step[d] = -step[d];
  }
}

CachedChunks::Box taken_box(const AscendingRegion& region, const Part& part, const Dims& shape, const Dims& block,
                            const Dims& overlap) {
  const int ndim = block.size();
  CachedChunks::Box box{Dims::filled(ndim), Dims::filled(ndim), Dims::filled(ndim)};
  for (int d = 0; d < ndim; ++d) {
    const int64_t origin = region.low[d] + part.at[d] * region.step[d] - part.first[d];
    box.extent[d] = std::min(block[d], shape[d] - origin);
    box.begin[d] = part.first[d] < region.step[d] ? 0 : part.first[d];
    const int64_t left = (box.extent[d] - part.first[d] - 1) / region.step[d] + 1;  // elements up to the chunk's end
    box.end[d] = part.count[d] >= left ? box.extent[d] : part.first[d] + part.count[d] * region.step[d];
    if (overlap.empty() || overlap[d] == 0) continue;
    const int64_t end = region.low[d] + (region.count[d] - 1) * region.step[d] + 1;
    if (end < shape[d]) box.end[d] = std::clamp(end - overlap[d] - origin, box.begin[d], box.end[d]);
  }
  return box;
}

PartCursor::PartCursor(const AscendingRegion& region, const Dims& shape, const Dims& block)
    : region_(region),
      block_(block),
      grid_(Dims::filled(block.size())),
      lowest_(Dims::filled(block.size())),
      highest_(Dims::filled(block.size())) {
  done_ = region.empty();
  if (done_) return;
  for (int d = 0; d < block.size(); ++d) {
    grid_[d] = shape[d] / block[d] + (shape[d] % block[d] != 0);
    lowest_[d] = region.low[d] / block[d];
    highest_[d] = (region.low[d] + (region.count[d] - 1) * region.step[d]) / block[d];
  }
  at_ = lowest_;
  part_.first = part_.at = part_.count = Dims::filled(block.size());
  for (int d = 0; d < block.size(); ++d) locate(d);  // the lowest block of each axis holds the first element
}

bool PartCursor::locate(int d) {
  const int64_t begin = at_[d] * block_[d], low = region_.low[d], step = region_.step[d];
  const int64_t first = begin <= low ? 0 : (begin - low + step - 1) / step;
  // One past the last ascending index inside the block; the block's end may lie beyond 64 bits' half, never beyond it.
  const int64_t end = std::min(region_.count[d], (begin + (block_[d] - 1) - low) / step + 1);
  part_.at[d] = first;
  part_.count[d] = end - first;
  part_.first[d] = low + first * step - begin;
  return end > first;
}

bool PartCursor::next(Part& part) {
  if (done_) return false;
  part_.number = 0;
  for (int d = 0; d < at_.size(); ++d) part_.number = part_.number * grid_[d] + at_[d];
  part = part_;
  for (int d = at_.size() - 1; d >= 0; --d) {
    bool found = false;
    while (!found && at_[d] < highest_[d]) {
      ++at_[d];
      // Steps longer than a block pass over whole blocks: go to the one that holds the next element.
      if (region_.step[d] > block_[d]) {
        const int64_t next = region_.low[d] + (part_.at[d] + part_.count[d]) * region_.step[d];
        at_[d] = std::max(at_[d], next / block_[d]);
      }
      found = locate(d);
    }
    if (found) return true;
    at_[d] = lowest_[d];
    locate(d);
  }
  done_ = true;
  return true;
}

int64_t covered_bytes(const Dims& count, const Dims& span, int64_t item, int from) {
  int64_t bytes = item;
  for (int d = from; d < count.size(); ++d) bytes += (count[d] - 1) * span[d];
  return bytes;
}

int dense_axes(const Dims& count, const Dims& span, int64_t item, int64_t gap) {
  int64_t covered = item;
  int d = count.size();
  for (; d > 0; --d) {
    if (count[d - 1] > 1 && span[d - 1] - covered > gap) break;
    covered += (count[d - 1] - 1) * span[d - 1];
  }
  return d;
}

namespace {

template <class T>
void copy_row(int64_t n, const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride) {
  for (int64_t i = 0; i < n; ++i, from += from_stride, to += to_stride) {
    T value;
    std::memcpy(&value, from, sizeof value);
    std::memcpy(to, &value, sizeof value);
  }
}

struct Sixteen {
  uint64_t words[2];
};

void copy_strided(int64_t n, int64_t item, const std::byte* from, int64_t from_stride, std::byte* to,
                  int64_t to_stride) {
  switch (item) {
    case 1:
      return copy_row<uint8_t>(n, from, from_stride, to, to_stride);
    case 2:
      return copy_row<uint16_t>(n, from, from_stride, to, to_stride);
    case 4:
      return copy_row<uint32_t>(n, from, from_stride, to, to_stride);
    case 8:
      return copy_row<uint64_t>(n, from, from_stride, to, to_stride);
    case 16:
      return copy_row<Sixteen>(n, from, from_stride, to, to_stride);
    default:
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(item));
  }
}

}  // namespace

void copy_box(const Dims& count, int64_t item, const std::byte* from, const Dims& from_strides, std::byte* to,
              const Dims& to_strides) {
  for (int64_t extent : count)
    if (extent == 0) return;
  // Axes that are contiguous on both sides become one run.
  int64_t run = item;
  int inner = count.size();
  while (inner > 0 && (count[inner - 1] == 1 || (from_strides[inner - 1] == run && to_strides[inner - 1] == run)))
    run *= count[--inner];
  if (run > item || inner == 0) {
    for_each_offset(count, from_strides, to_strides, 0, inner,
                    [&](int64_t f, int64_t t) { std::memcpy(to + t, from + f, static_cast<size_t>(run)); });
    return;
  }
  const int last = inner - 1;
  for_each_offset(count, from_strides, to_strides, 0, last, [&](int64_t f, int64_t t) {
    copy_strided(count[last], item, from + f, from_strides[last], to + t, to_strides[last]);
  });
}

int64_t dot(const Dims& a, const Dims& b) {
  int64_t sum = 0;
  for (int d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

void copy_piece(const Dataset::Piece& piece, int64_t item, std::byte* to, const Dims& strides) {
  copy_box(piece.count, item, piece.data, piece.strides, to + dot(piece.start, strides), strides);
}

void normalize_bools(std::byte* bytes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(bytes[i] != std::byte{0});
}

void place_piece(const AscendingRegion& region, const Dims& part_at, const Dims& index, const Dims& count,
                 const std::byte* data, const Dims& strides, Dataset::Piece& piece) {
  piece.count = count;
  piece.start = index;
  piece.strides = strides;
  piece.data = data;
  for (int d = 0; d < count.size(); ++d) {
    const int64_t ascending = part_at[d] + index[d];
    piece.start[d] = ascending;
    if (!region.flip[d]) continue;
    piece.start[d] = region.count[d] - ascending - count[d];
    piece.data += (count[d] - 1) * strides[d];
    piece.strides[d] = -strides[d];
  }
}

}  // namespace quarry::io
