// The chunks of a stage's space.
#pragma once

#include <algorithm>
#include <vector>

#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::plan {

// Whether a task that reads a part of a chunk of its own rank gets that part, packed, and not the chunk: where the
// chunk is much larger. Of small chunks, a copy of a part would cost more than the memory is worth.
inline bool is_taken_out(int64_t chunk_bytes, int64_t part_bytes) {
  constexpr int64_t kMuchLarger = 4, kSmallChunkBytes = int64_t{16} << 10;
  return chunk_bytes >= kSmallChunkBytes && part_bytes <= chunk_bytes / kMuchLarger;
}

// What a task on the CPU that copies from disk to an output of so many bytes takes beside it, for what cannot be read
// to its place at once. Tasks that copy visit their inputs there: those cost them nothing.
inline int64_t copy_staging_bytes(int64_t output_bytes) {
  constexpr int64_t kMostBytes = int64_t{256} << 10;
  return local::align_up(std::min(output_bytes, kMostBytes), local::kAllocationAlignment);
}

// Whether every chunk of the space reads one chunk of the input only. Of a diagonal: whether there is one only, since a
// chunk of another rank would come whole.
bool inside_one_chunk(const Input& input, const Grid& space);

// Automatic chunks of a space, halved while what a task reads and makes exceeds `room` bytes (0: unlimited). An output
// is counted like the widest array, so that siblings of other dtypes get the same chunks; a reduction's is small.
Grid fitting_grid(const expr::Node& node, const std::vector<Input>& inputs, int64_t room, bool reduces = false);

// Chunks along k that one task of a matrix product multiplies and adds up, at most.
inline constexpr int64_t kProductsPerTask = 4;
// The same for a k in chunks of that length: products are added along the fixed tree's segments.
int64_t products_in_task(int64_t k, int64_t chunk);

// The chunks of a product's tiles, (..., m, n), and of k. Those of batch axes and of m and n are the output's.
struct MatMulGrid {
  std::vector<AxisChunks> tiles;
  AxisChunks k;
};
MatMulGrid matmul_grid(const expr::Node& node, const expr::MatMul& product, local::DeviceKind device, int64_t room);

}  // namespace quarry::plan
