// From any chunks to any others: the grids between them.
#pragma once

#include <cstdint>
#include <vector>

#include "quarry/chunked/grid/grid.h"

namespace quarry::plan {

// What a rechunk reads, over the axes of its result.
struct RechunkSource {
  enum class Kind : uint8_t {
    memory,   // chunks in memory
    spilled,  // chunks on disk that were written there for lack of memory: long parts of them are read well
    file,     // chunks of a file of which parts can be read
    decoded,  // of a file that are read and decoded whole
  };
  Kind kind = Kind::memory;
  Grid grid;
  std::vector<int> order = {};  // of the axes where the chunks lie, the last one in runs; empty: as they are here
};

struct RechunkLimits {
  int64_t itemsize = 1;
  int64_t room = 0;           // bytes of a chunk between; 0: unlimited
  bool spills = false;        // what has to wait until all is there waits on disk
  int64_t most_parts = 1024;  // of which a task puts a chunk together, if that can be
  // What a part in memory costs beside its bytes, as bytes that another rank could send in that time; the same of a
  // part that is likely to be this rank's own, and what moving its bytes costs.
  double part_bytes = 16 << 10;
  double own_part_bytes = 16 << 10;
  double own_cost = 1;
  int ranks = 0;  // one: all parts are its own; more: each fetches what it needs of a chunk at once; 0: not known
};

// What one stage costs, from chunks of one grid to those of another.
struct RechunkStage {
  double read_bytes = 0;   // also of what is decoded in vain
  double parts = 0;        // that are read one by one, of all chunks together
  double runs = 0;         // file, spilled: of consecutive bytes
  int64_t most_parts = 0;  // of one chunk
};
RechunkStage rechunk_stage(const RechunkSource& from, const Grid& to, int64_t itemsize);

// The grids of the stages that go from `from` to `to`, which is the last. Between are chunks of at most `room` bytes:
// those of `from` merged, those of `to` merged, and where all has to wait for all, the elementwise minimum of two
// grids, so that both sides read and write whole chunks (rechunker; Cubed's multi-stage plan goes further in geometric
// steps, and so does this). In memory also one grid of chunks of as many bytes as those of both ends, with extents
// between theirs: n parts of a chunk become a of one and n / a of another, of which the first or the last are likely to
// be the rank's own. The cheapest of these plans by the bytes that are moved and the parts that are read.
std::vector<Grid> plan_rechunk(const RechunkSource& from, const Grid& to, const RechunkLimits& limits);

}  // namespace quarry::plan
