#include "quarry/chunked/plan/grids.h"

#include <algorithm>

#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/listing.h"
#include "quarry/chunked/grid/tree.h"

namespace quarry::plan {
namespace {

using expr::NodePtr;
using expr::View;

// The file chunks along the axes of a space, of the largest data set that it reads.
Dims file_chunks(const std::vector<Input>& inputs, int ndim) {
  Dims keep = Dims::filled(ndim, 0);
  int64_t largest = -1;
  for (const Input& input : inputs) {
    if (input.array.kind != ArrayRef::Kind::dataset || !input.array.dataset->info().chunks) continue;
    if (local::element_count(input.shape) <= largest) continue;
    largest = local::element_count(input.shape);
    for (int d = 0; d < ndim; ++d) {
      const View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
      keep[d] = axis.source >= 0 && axis.start == 0 && axis.step == 1
                    ? (*input.array.dataset->info().chunks)[axis.source]
                    : 0;
    }
  }
  return keep;
}

// A length that a file chunk exceeds by at most twice becomes the chunk's, where chunks are decoded.
void stretch(int64_t& length, const NodePtr& node, int axis) {
  const int64_t hint = node->grid.axis(axis).largest();
  if (hint <= length || hint > 2 * length) return;
  for (const NodePtr& below : expr::topological(std::span(&node, 1))) {
    const auto* source = below->as<expr::Source>();
    if (source && !source->dataset->info().filters.empty()) length = hint;
  }
}

}  // namespace

bool inside_one_chunk(const Input& input, const Grid& space) {
  if (!input.map.beside.empty() && input.grid.count() > 1) return false;
  for (int d = 0; d < space.ndim(); ++d) {
    const View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
    if (axis.source < 0) continue;
    const AxisChunks &chunks = space.axis(d), &cuts = input.grid.axis(axis.source);
    if (cuts.count() == 1 || (axis.start == 0 && axis.step == 1 && chunks == cuts)) continue;
    check_listable(chunks.count());
    for (int64_t i = 0; i < chunks.count(); ++i) {
      if (chunks.size(i) == 0) continue;
      const int64_t first = axis.start + axis.step * chunks.start(i);
      const int64_t last = axis.start + axis.step * (chunks.start(i + 1) - 1);
      if (cuts.find(first) != cuts.find(last)) return false;
    }
  }
  return true;
}

Grid fitting_grid(const expr::Node& node, const std::vector<Input>& inputs, int64_t room, bool reduces) {
  Grid grid = node.grid;
  if (room == 0 || node.chosen_grid) return grid;
  // Copied from somewhere.
  if (inputs.empty()) return halved_to_fit(std::move(grid), 2 * local::itemsize(node.dtype), room);
  const Dims keep = file_chunks(inputs, grid.ndim());
  int64_t itemsize = local::itemsize(node.dtype);
  for (const Input& input : inputs) itemsize = std::max(itemsize, local::itemsize(input.dtype));
  for (;;) {
    const int64_t elements = largest_chunk_bytes(grid, /*itemsize=*/1);
    int64_t bytes = reduces ? 0 : elements * itemsize;
    for (const Input& input : inputs) bytes += input.region_bytes(grid.largest());
    if (bytes <= room || elements <= kLeastElements) return grid;
    grid = limited_grid(grid, /*itemsize=*/1, elements / 2, keep);
  }
}

int64_t products_in_task(int64_t k, int64_t chunk) {
  const int64_t steps = k == 0 ? 1 : (k - 1) / chunk + 1;
  return std::clamp<int64_t>((steps - 1) / kSegments + 1, 1, kProductsPerTask);
}

MatMulGrid matmul_grid(const expr::Node& node, const expr::MatMul& n, local::DeviceKind device, int64_t room) {
  const int nd = node.shape.size();
  const int64_t itemsize = local::itemsize(node.dtype);
  const int64_t m = node.shape[nd - 2], columns = node.shape[nd - 1], k = n.b()->shape[nd - 2];
  const Grid& inner = n.b()->grid;
  std::vector<AxisChunks> c = node.grid.axes();
  MatMulTile tile;
  for (int64_t target = target_chunk_bytes(device);; target /= 2) {
    tile =
        expr::product_tile(*n.a(), *n.b(), n.syrk, device, target, n.b()->generated ? 0 : inner.axis(nd - 2).largest());
    // The user's chunks are never exceeded, and nothing depends on the budget then: the same chunks give the same
    // bits.
    if (n.b()->chosen_grid) tile.k = std::min(tile.k, std::max<int64_t>(inner.axis(nd - 2).largest(), 1));
    if (!n.syrk && n.a()->chosen_grid)
      tile.m = std::min(tile.m, std::max<int64_t>(n.a()->grid.axis(nd - 2).largest(), 1));
    // Rather twice the target than decoding every file chunk twice.
    if (tile.k < k) stretch(tile.k, n.b(), nd - 2);
    if (!n.syrk && tile.m < m) stretch(tile.m, n.a(), nd - 2);
    if (n.syrk) tile.m = tile.n;
    int64_t batch = 1;
    for (int d = 0; d < nd - 2; ++d) batch *= c[static_cast<size_t>(d)].largest();
    const int64_t read = batch * (tile.k * tile.n + (n.syrk ? 0 : tile.m * tile.k)) * products_in_task(k, tile.k);
    // What makes an operand's chunk reads as much.
    const int64_t largest = std::max({tile.m * tile.n, tile.k * tile.n, n.syrk ? 0 : tile.m * tile.k});
    const int64_t bytes = std::max(read, 2 * batch * largest) * itemsize;
    if (room == 0 || node.chosen_grid || bytes <= room || target <= kLeastElements * itemsize) break;
    // A stack of products is thinned first.
    for (int d = 0; d < nd - 2; ++d) {
      AxisChunks& axis = c[static_cast<size_t>(d)];
      if (axis.largest() == 1) continue;
      axis = AxisChunks(axis.extent(), (axis.largest() + 1) / 2);
      target *= 2;
      break;
    }
  }
  c[static_cast<size_t>(nd) - 2] = AxisChunks(m, tile.m);
  c[static_cast<size_t>(nd) - 1] = AxisChunks(columns, tile.n);
  return {std::move(c), AxisChunks(k, tile.k)};
}

}  // namespace quarry::plan
