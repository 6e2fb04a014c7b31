// Which chunks an array gets when nobody says: about 16 MiB on the CPU and 64 MiB on a GPU, multiples of the file's
// chunks. Depends on shape, dtype, file chunks and device kind only, never on the number of ranks or the budget, so
// that results keep their bits.
#pragma once

#include <optional>

#include "quarry/chunked/grid/grid.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/device/device.h"

namespace quarry {

inline constexpr int64_t kCpuChunkBytes = int64_t{16} << 20;
inline constexpr int64_t kGpuChunkBytes = int64_t{64} << 20;

namespace detail {

// What a Runtime chose; the same on every rank.
struct ChunkPolicy {
  local::DeviceKind device = local::DeviceKind::cpu;
  std::optional<Dims> chunks;  // RuntimeOptions::chunks: taken by every array of as many axes (-1: the whole axis)
  int64_t target_bytes = 0;    // instead of the constants above, for tests on small data; 0: those
};

}  // namespace detail

// That of the Runtime that is current on this thread (Runtime::current()), or of a ChunkPolicyScope inside it; where
// there is neither, the default one.
const ChunkPolicy& chunk_policy();

// While it lives, arrays that this thread makes get chunks by `policy`: for tests on small data.
class ChunkPolicyScope {
 public:
  explicit ChunkPolicyScope(ChunkPolicy policy);
  ~ChunkPolicyScope();
  ChunkPolicyScope(const ChunkPolicyScope&) = delete;
  ChunkPolicyScope& operator=(const ChunkPolicyScope&) = delete;

 private:
  const ChunkPolicy policy_;
  const ChunkPolicy* const before_;
};

// For the Runtime: the policy of all threads without a scope, and of this thread; null: none. The policy must live
// until another one is set. The second returns what was set before.
void set_chunk_policy(const ChunkPolicy* policy) noexcept;
const ChunkPolicy* scope_chunk_policy(const ChunkPolicy* policy) noexcept;

// Chunk size aimed at on a device kind, unless the policy says another.
int64_t target_chunk_bytes(local::DeviceKind device);

// The extents of an automatic chunk. Without file chunks: whole rows in C order, as many as fit. With them: the file's
// chunk, doubled along its shortest axis that is not whole yet while it fits. Never less than one element or one file
// chunk.
Dims auto_chunk(const Dims& shape, int64_t itemsize, const std::optional<Dims>& file_chunks, int64_t target_bytes);

// The grid of a new array under chunk_policy().
Grid default_grid(const Dims& shape, local::DType dtype, const std::optional<Dims>& file_chunks = std::nullopt);

// `chunk` with -1 meaning the whole axis. Throws InvalidArgument where an extent is 0, less than -1, or the axes do not
// match the shape's.
Grid explicit_grid(const Dims& shape, const Dims& chunk);

// Every largest chunk at most `bytes`: halves the first axis that is longer than 1 element, again and again. An axis
// that is cut in multiples of `keep` (file chunks; 0 or absent: none) is preferred while it stays one.
Grid limited_grid(const Grid& grid, int64_t itemsize, int64_t bytes, const Dims& keep = {});

int64_t largest_chunk_bytes(const Grid& grid, int64_t itemsize);

inline constexpr int64_t kLeastElements = 4096;  // of a chunk that is halved to fit a budget
// The grid with its chunks halved, as often as it takes for `bytes_per_element` times the elements of the largest to be
// at most `room` bytes (0: unlimited).
Grid halved_to_fit(Grid grid, int64_t bytes_per_element, int64_t room);

// Tiles of c (m x n) = a (m x k) b (k x n) with `batch` products: about `target_bytes` each, whole axes where that is
// enough. `row_hint` and `inner_hint` are cuts that a already has along m and k (0: none): a tile is a multiple or an
// equal part of them, but for one that is no multiple of `unit`.
struct MatMulTile {
  int64_t m = 1, k = 1, n = 1;
};
MatMulTile matmul_tile(int64_t m, int64_t k, int64_t n, int64_t itemsize, int64_t target_bytes, int64_t row_hint = 0,
                       int64_t inner_hint = 0, int64_t unit = 1);
// Those of an operand; 0: it has none of its own.
struct MatMulChunks {
  int64_t rows = 0, columns = 0;
};
// Where one operand of a single product has two long axes and the other a short one: the tile that reads the large
// operand in chunks that it has, so that it is not copied; it is most of what the product reads. None where neither is
// so, and where its chunks, or the rows of the short one beside them, are far from `target_bytes`.
std::optional<MatMulTile> matmul_tile_of_chunks(int64_t m, int64_t k, int64_t n, int64_t itemsize, int64_t target_bytes,
                                                const MatMulChunks& a, const MatMulChunks& b);
// The multiple of a device: GPUs multiply pieces of 128, and copying what lies across cuts takes them a hundredth of
// the time (2046 of 2048 rows, six chunks of 341, cost a fifth of the rate).
constexpr int64_t matmul_unit(local::DeviceKind device) { return device == local::DeviceKind::cuda ? 128 : 1; }

}  // namespace quarry
