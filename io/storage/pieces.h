// How a region of a data set falls apart: into parts by file block (the whole of contiguous data, or a chunk), and each
// part into pieces of bounded size. Everything here is counted in ascending file order; `flip` says which axes a
// region runs through backwards.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quarry/io/chunk_cache.h"
#include "quarry/io/dataset.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/shape.h"

namespace quarry::io {

// A region with ascending steps: element a along axis d is low[d] + a * step[d], and stands at flip[d] ? count[d]-1-a :
// a in the caller's region.
struct AscendingRegion {
  local::Dims low, step, count;
  local::Dims flip;  // 0 or 1

  // Throws IndexError where the region reaches outside of `shape`.
  AscendingRegion(const local::Region& region, const local::Dims& shape);
  bool empty() const { return std::find(count.begin(), count.end(), 0) != count.end(); }
  bool flipped() const { return std::find(flip.begin(), flip.end(), 1) != flip.end(); }
  bool unit_steps() const {
    return std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 1; });
  }
};

// What a region needs of one block.
struct Part {
  int64_t number = 0;  // of the block, in C order of the grid
  local::Dims first;   // element coordinates inside the block of the part's first element
  local::Dims at;      // ascending indices of that element in the region
  local::Dims count;
};

// What a part takes of its block of `block` elements, for a cache: steps take what they pass over, so that parts which
// go on from each other leave nothing between them; of the last `overlap` (or empty) elements of a region the next one
// takes its part.
CachedChunks::Box taken_box(const AscendingRegion& region, const Part& part, const local::Dims& shape,
                            const local::Dims& block, const local::Dims& overlap);

// Visits the blocks of a grid that a region touches, in C order.
class PartCursor {
 public:
  // Blocks of `block` elements; the shape itself for contiguous data.
  PartCursor(const AscendingRegion& region, const local::Dims& shape, const local::Dims& block);
  bool next(Part& part);

 private:
  bool locate(int axis);  // sets the part along one axis for block coordinate at_[axis]; false where it holds nothing

  const AscendingRegion& region_;
  const local::Dims block_;
  local::Dims grid_, lowest_, highest_, at_;
  Part part_;
  bool done_ = false;
};

// Cuts a part into pieces whose bytes in memory stay within `limit` (one element always does). `span` is the distance
// in bytes between neighbours along each axis where the part lies; along axes >= dense_from the distances stay (gaps
// are read along), along the others the piece is packed. Calls f(index, count, strides): ascending indices inside the
// part, extents, and strides in bytes of the piece in memory.
template <class F>
void cut_pieces(const local::Dims& count, const local::Dims& span, int64_t item, int dense_from, int64_t limit, F&& f) {
  const int ndim = count.size();
  // bytes[d]: what axes >= d take together.
  local::Dims bytes = local::Dims::filled(ndim + 1, item), strides = local::Dims::filled(ndim, 0);
  int whole = ndim;  // axes >= whole are in every piece in full
  for (; whole > 0; --whole) {
    const int d = whole - 1;
    strides[d] = d >= dense_from ? span[d] : bytes[whole];
    if (count[d] - 1 > (limit - bytes[whole]) / std::max<int64_t>(strides[d], 1)) break;
    bytes[d] = bytes[whole] + (count[d] - 1) * strides[d];
  }
  local::Dims index = local::Dims::filled(ndim, 0), extent(count);
  const int cut = whole - 1;  // the axis that is cut
  const int64_t rows =
      cut < 0 ? 1 : std::max<int64_t>(1, 1 + (limit - bytes[whole]) / std::max<int64_t>(strides[cut], 1));
  for (int d = 0; d < cut; ++d) extent[d] = 1;
  for (;;) {
    if (cut >= 0) extent[cut] = std::min(rows, count[cut] - index[cut]);
    f(static_cast<const local::Dims&>(index), static_cast<const local::Dims&>(extent),
      static_cast<const local::Dims&>(strides));
    int d = cut;
    for (; d >= 0; --d) {
      index[d] += d == cut ? rows : 1;
      if (index[d] < count[d]) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// The first axis of the largest inner group whose gaps are at most `gap` bytes: axes that one read can cover.
int dense_axes(const local::Dims& count, const local::Dims& span, int64_t item, int64_t gap);
// Bytes from the first to behind the last element of axes >= from.
int64_t covered_bytes(const local::Dims& count, const local::Dims& span, int64_t item, int from);

// Calls f(offset in bytes of `index` counted with `step_bytes`) for every index of `count` along axes [begin, end).
template <class F>
void for_each_offset(const local::Dims& count, const local::Dims& a, const local::Dims& b, int begin, int end, F&& f) {
  local::Dims index = local::Dims::filled(count.size(), 0);
  int64_t offset_a = 0, offset_b = 0;
  for (;;) {
    f(offset_a, offset_b);
    int d = end - 1;
    for (; d >= begin; --d) {
      offset_a += a[d];
      offset_b += b[d];
      if (++index[d] < count[d]) break;
      offset_a -= a[d] * count[d];
      offset_b -= b[d] * count[d];
      index[d] = 0;
    }
    if (d < begin) return;
  }
}

// Copies a box of elements between strided places (strides in bytes, 0 or negative ones too).
void copy_box(const local::Dims& count, int64_t item, const std::byte* from, const local::Dims& from_strides,
              std::byte* to, const local::Dims& to_strides);

// The sum of products: an offset from indices and strides.
int64_t dot(const local::Dims& a, const local::Dims& b);

// Puts a piece of a region of `item` bytes an element where it belongs in the whole of it at `to`.
void copy_piece(const Dataset::Piece& piece, int64_t item, std::byte* to, const local::Dims& strides);

// Makes every byte 0 or 1: files may hold anything in a bool.
void normalize_bools(std::byte* bytes, int64_t count);

// The piece of the caller's region for ascending indices [at, at + count) with data and ascending strides.
void place_piece(const AscendingRegion& region, const local::Dims& part_at, const local::Dims& index,
                 const local::Dims& count, const std::byte* data, const local::Dims& strides, Dataset::Piece& piece);

}  // namespace quarry::io
