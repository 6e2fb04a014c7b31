// How a region of an array reaches the task that reads it: a closed form of array, region and rank, evaluated when the
// graph is built and again when the task runs, so that nothing is kept per task.
#pragma once

#include <cstdint>
#include <vector>

#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/memory/buffer.h"

namespace quarry::exec {

struct Access {
  enum class Kind : uint8_t {
    read,    // the region, packed, read from a data set
    chunk,   // inside one chunk that this rank holds: the chunk
    box,     // inside one chunk, of any rank: the covering hyperslab, packed
    gather,  // over several chunks: the region, packed, copied together from them
  };
  Kind kind = Kind::chunk;
  Region region;                  // of the array
  int64_t chunk = 0;              // chunk, box
  int owner = 0;                  // chunk, box
  Dims cover_start, cover_count;  // chunk, box: the covering hyperslab inside the chunk
  Dims chunk_shape;               // chunk, box
  int64_t offset = 0;             // bytes from the block's start to the region's first element
  Dims strides;                   // bytes per axis of the array, for unit moves inside the region
  // read: axes that move together, of a diagonal; the first one of a group is the outermost of what is read, the others
  // have stride 0.
  std::vector<std::vector<int>> together = {};
};

// What a task that reads a part of a chunk of its own rank has of it.
enum class OwnParts : uint8_t {
  whole_if_large,  // the part alone where it is much smaller than the chunk (plan::is_taken_out())
  packed,          // the part alone
  whole,           // the chunk
};
// How the chunks of an array are dealt out.
const Owners& owners_of(const plan::ArrayRef& array);

// The chunks of `grid` that a region touches, each with the part of the region in it: `offset` is its place in the
// region (in region coordinates).
struct ChunkRegion {
  int64_t chunk = 0;
  Region region;  // of the array
  Dims offset;
  Dims chunk_start, chunk_shape;
};
std::vector<ChunkRegion> chunk_regions(const Grid& grid, const Region& region);

// Where region `region` of an array with this grid is, seen from `rank`.
Access resolve(const plan::ArrayRef& array, const Grid& grid, int64_t itemsize, const Region& region, int rank,
               const Ownership& owners, OwnParts parts = OwnParts::whole_if_large);
// The same of a part of a chunk, of an array in chunks: a stage's or a stored one. With a `share` of the array, which
// holds the part, a small part of another rank's chunk comes with all that is of the share there.
Access resolve(const plan::ArrayRef& array, const Grid& grid, int64_t itemsize, const ChunkRegion& part, int rank,
               const Ownership& owners, OwnParts parts = OwnParts::whole_if_large, const Region* share = nullptr);

// What one rank's tasks of a stage read of its inputs, all together.
class Shares {
 public:
  void add(const plan::Input* input, const Region& region);  // of the input's array; no element twice
  // A box with all that was added and nothing else; null where there is none.
  const Region* of(const plan::Input* input) const;

 private:
  struct Share {
    const plan::Input* input;
    Region box;  // around all
    int64_t elements = 0;
    bool has_steps = false;
  };
  std::vector<Share> shares_;  // of few inputs
};

// The same of what a box of a stage's space reads of an input.
Access resolve(const plan::Input& input, const Region& box, int rank, const Ownership& owners);
// A box of the space in parts: what each reads of a diagonal lies inside one chunk, of few columns; other maps give the
// box.
std::vector<Region> parts_of(const plan::Input& input, const Region& box);

// Strides over a stage's space of data laid out with `strides` per array axis.
Dims space_strides(const plan::AccessMap& map, const Dims& strides);

// Where the first element for a box of a stage's space is in what an access brought, in bytes, and the strides over the
// space: of the view of a window that begins `offset` behind the first one, or of an input that is one view.
struct Placed {
  int64_t offset;
  Dims strides;
};
Placed place_of(const plan::Input& input, const Dims& offset, const Region& box, const Access& access);

// C-order regions of `shape` that together are the elements [begin, end) of its linear order; each is contiguous in
// that order.
std::vector<Region> linear_regions(const Dims& shape, int64_t begin, int64_t end);
// The linear range of a region that is contiguous in C order (internal error if it is not).
std::pair<int64_t, int64_t> linear_range(const Dims& shape, const Region& box);

}  // namespace quarry::exec
