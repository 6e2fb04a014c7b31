// A = Q R of a matrix of many more rows than columns, in one pass over its rows (TSQR; Demmel et al. 2012,
// "Communication-optimal parallel and sequential QR and LU factorizations"). Each block of rows is decomposed by
// itself; the triangles of up to eight neighbours become one, level by level, by a decomposition of them all. So R
// needs one read of A and a few messages of n^2 elements for each rank. Q, where it is asked for, goes the same tree
// down: it is as orthogonal as that of Householder's method. 2 m n^2 multiplications and additions for R, as many again
// for Q. Tasks hold a block, its Q and what the local decomposition takes.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/tile_program.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/listing.h"
#include "quarry/chunked/tiles/kernels.h"
#include "quarry/local/memory/policy.h"

namespace quarry::algo {
namespace {

using tiles::read;
using tiles::Tile;
using tiles::Tiles;
using tiles::write;

constexpr int64_t kTogether = 8;  // blocks in a task's memory, with the local decomposition's scratch

// Bytes of a block of rows: small decompositions do not fill a GPU.
int64_t block_bytes(int64_t room) {
  constexpr int64_t kGpuBlock = 4;  // of the usual chunks
  const local::DeviceKind device = chunk_policy().device;
  const int64_t bytes = target_chunk_bytes(device) * (device == local::DeviceKind::cuda ? kGpuBlock : 1);
  return room > 0 ? std::min(bytes, room / kTogether) : bytes;
}
int64_t row_bytes(const op::ArraySpec& a) { return std::max<int64_t>(a.shape[1], 1) * local::itemsize(a.dtype); }

// Chunks of whole rows in which the argument is read: its own, where there are several, a task has room for them and
// few of them make a block; else equal ones as long as a block, of which the last one has what is left, too.
AxisChunks read_rows(const op::ArraySpec& a, int64_t room) {
  const AxisChunks& given = a.grid.axis(0);
  const int64_t bytes = block_bytes(room), row = row_bytes(a);
  constexpr int64_t kMostReads = 64;
  const bool fits = room == 0 || given.largest() * row <= room / kTogether;
  const bool are_few = given.count() <= kMostReads * (a.shape[0] * row / bytes + 1);
  if (a.grid.axis(1).count() == 1 && given.count() > 1 && fits && are_few) return given;
  const int64_t height = std::max({bytes / row, a.shape[1], int64_t{1}});
  const int64_t count = std::max<int64_t>(a.shape[0] / height, 1);
  std::vector<int64_t> extents(static_cast<size_t>(count), height);
  extents.back() = a.shape[0] - (count - 1) * height;
  return AxisChunks(extents);
}

// The blocks of at least as many rows as columns that are decomposed, of some of the chunks that are read each.
struct Blocks {
  std::vector<int64_t> chunks;  // how many of each
  AxisChunks rows;
};
Blocks blocks_of(const AxisChunks& read, const op::ArraySpec& a, int64_t room) {
  check_listable(read.count());
  const int64_t columns = a.shape[1], height = std::max(block_bytes(room) / row_bytes(a), columns);
  std::vector<int64_t> chunks, rows;
  for (int64_t i = 0; i < read.count(); ++i) {
    if (rows.empty() || (rows.back() >= columns && rows.back() + read.size(i) > height)) {
      chunks.push_back(0);
      rows.push_back(0);
    }
    ++chunks.back();
    rows.back() += read.size(i);
  }
  // What is left at the end may be too short for a block of its own.
  if (rows.size() > 1 && rows.back() < columns) {
    for (std::vector<int64_t>* const of : {&chunks, &rows}) {
      const int64_t rest = of->back();
      of->pop_back();
      of->back() += rest;
    }
  }
  return {chunks, rows.empty() ? read : AxisChunks(rows)};
}

// Outputs: 0 R; 1, where asked for, Q.
class TallQr final : public TileProgram {
 public:
  explicit TallQr(bool with_q) : with_q_(with_q) {}
  std::string_view name() const override { return "tsqr"; }
  void hash(op::Hash& hash) const override { hash.add(with_q_); }
  int64_t tiles_at_once() const override { return 4; }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const Dims& shape = arguments[0].shape;
    const local::DType dtype = arguments[0].dtype;
    std::vector<op::ArraySpec> results{op::in_one_chunk({shape[1], shape[1]}, dtype)};
    if (with_q_)
      results.push_back({shape, dtype, cut(shape, blocks_of(read_rows(arguments[0], room), arguments[0], room).rows)});
    return results;
  }
  std::optional<Grid> wants(int /*argument*/, const op::Call& call, int64_t room) const override {
    const op::ArraySpec& a = call.arguments[0];
    return cut(a.shape, read_rows(a, room));
  }
  void needs(const op::Call& call, int64_t /*chunk*/, std::vector<op::Need>& needs) const override {
    needs.push_back({0, call.arguments[0].grid.chunk(0)});
  }
  void emit(tiles::Program& p, const op::Call& call) const override {
    const op::ArraySpec& given = call.arguments[0];
    const int64_t n = given.shape[1];
    const auto [chunks, rows] = blocks_of(given.grid.axis(0), given, call.room);
    const int64_t blocks = rows.count();
    const std::vector<Node> inner = tree_over(blocks, triangles_together(blocks, given, call.room));
    const int64_t nodes = blocks + std::ssize(inner);
    const auto stack = [&](int64_t count, int64_t rows) {
      const Dims shape{count * rows, n};
      const Dims tile{std::max<int64_t>(rows, 1), std::max<int64_t>(n, 1)};
      return p.workspace({shape, given.dtype, Grid::regular(shape, tile)});
    };
    const Tiles a = p.argument(0), result = p.result(0), r = stack(nodes, n);
    std::vector<int64_t> heights;  // of the Q of inner nodes
    for (const Node& node : inner) heights.push_back(node.count * n);
    const Grid of_inner({inner.empty() ? AxisChunks(0, 1) : AxisChunks(heights), given.grid.axis(1)});
    const Tiles q = p.workspace({of_inner.shape(), given.dtype, of_inner}), s = stack(nodes, n);
    Tiles of_blocks = a;
    if (with_q_) of_blocks = p.workspace({given.shape, given.dtype, cut(given.shape, rows)});

    constexpr int64_t kMostSteps = 256;
    const int64_t step = (blocks + kMostSteps - 1) / kMostSteps;
    std::vector<tiles::Use> uses;
    const auto decompose = [&](const Tile& of_q, const Tile& of_r) {
      const auto reads = std::ssize(uses);
      if (with_q_) uses.push_back(write(of_q));
      uses.push_back(write(of_r));
      p.task(tiles::kTallQr, uses, tiles::reads_of(reads));
      uses.clear();
    };
    int64_t next = 0;  // of the chunks
    for (int64_t i = 0; i < blocks; ++i) {
      for (int64_t k = 0; k < chunks[static_cast<size_t>(i)]; ++k) uses.push_back(read(a(next++, 0)));
      decompose(of_blocks(i, 0), r(i, 0));
      if (i % step == step - 1) p.step();
    }
    for (int64_t node = 0; node < std::ssize(inner); ++node) {
      const Node& of = inner[static_cast<size_t>(node)];
      for (int64_t i = 0; i < of.count; ++i) uses.push_back(read(r(of.first + i, 0)));
      decompose(q(node, 0), r(blocks + node, 0));
    }
    p.task(tiles::kCopy, {write(result(0, 0)), read(r(nodes - 1, 0))});
    if (!with_q_) return;

    const Tiles whole = p.result(1);
    for (int64_t node = std::ssize(inner); node-- > 0;) {
      const Node& of = inner[static_cast<size_t>(node)];
      uses.push_back(read(q(node, 0)));
      if (blocks + node + 1 < nodes) uses.push_back(read(s(blocks + node, 0)));
      const auto reads = std::ssize(uses);
      for (int64_t i = 0; i < of.count; ++i) uses.push_back(write(s(of.first + i, 0)));
      p.task(tiles::kSplitQ, uses, tiles::reads_of(reads));
      uses.clear();
    }
    for (int64_t i = 0; i < blocks; ++i) {
      if (inner.empty())
        p.task(tiles::kCopy, {write(whole(i, 0)), read(of_blocks(i, 0))});
      else
        p.task(tiles::kTimes, {read(of_blocks(i, 0)), read(s(i, 0)), write(whole(i, 0))});
    }
  }

 private:
  // An inner node, number blocks + its place, over `count` nodes that follow each other.
  struct Node {
    int64_t first, count;
  };
  // How many of them a node has: fewer where a budget has no room for their decomposition.
  int64_t triangles_together(int64_t blocks, const op::ArraySpec& a, int64_t room) const {
    constexpr int64_t kMost = 8, kLeast = 2;
    const int64_t copies = with_q_ ? 7 : 6;  // of triangles: R, Q and what the local decomposition takes
    const int64_t bytes = copies * a.shape[1] * row_bytes(a), budget = room * local::memory_policy::kTasksInBudget;
    int64_t together = kMost;
    while (room > 0 && together > kLeast && std::min(together, blocks) * bytes > budget) --together;
    return together;
  }
  // Level by level.
  static std::vector<Node> tree_over(int64_t blocks, int64_t together) {
    std::vector<Node> inner;
    int64_t first = 0, last = blocks;
    while (last - first > 1) {
      const int64_t end = last;
      for (; first < end; first += together) inner.push_back({first, std::min(together, end - first)});
      first = end;
      last = blocks + std::ssize(inner);
    }
    return inner;
  }
  static Grid cut(const Dims& shape, AxisChunks rows) {
    return Grid({std::move(rows), AxisChunks(shape[1], std::max<int64_t>(shape[1], 1))});
  }

  const bool with_q_;
};

}  // namespace

std::vector<NodePtr> tall_qr(const NodePtr& arg, bool with_q) {
  const NodePtr node = expr::apply(std::make_shared<TallQr>(with_q), {arg});
  std::vector<NodePtr> results{expr::item(node, 0)};
  if (with_q) results.push_back(expr::item(node, 1));
  return results;
}

}  // namespace quarry::algo
