// A = Q R of an m x n matrix by block reflections and panels, in the order of factor_columns() (panels.h):
//   factor(k)    panel k from row k w on becomes R(k, k), with the block reflection H(k) = I - V T V^H that does it: by
//                Cholesky factors of its Gram matrix on a GPU, where they are accurate, else by Householder's method
//   apply(k, j)  panel j becomes H(k)^H of it, by products
// 2 n^2 (m - n / 3) multiplications and additions, as many again for Q, whose columns begin as those of the identity:
// Q = H(0) ... H(K - 1). Panels are dealt to the ranks in turn; V of each is received once by every rank, once more for
// Q. Tasks hold three panels; all V take as much memory as A. Panels are stored by columns (tiles/kernels.h): arguments
// and results are transposed.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/panels.h"
#include "quarry/chunked/algo/tile_program.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/tiles/kernels.h"

namespace quarry::algo {
namespace {

using tiles::read;
using tiles::Tiles;
using tiles::update;
using tiles::Urgency;
using tiles::write;

constexpr int64_t kTogether = 4;  // panels, for their width

Grid cut(const Dims& transposed, int64_t width) {
  return Grid::regular(transposed, {std::max<int64_t>(width, 1), std::max<int64_t>(transposed[1], 1)});
}

// Argument: A^T. Outputs: 0 R^T, with zeros below R; 1, where asked for, `columns` columns of Q,
// transposed.
class Qr final : public TileProgram {
 public:
  Qr(int64_t columns, int64_t memory) : columns_(columns), memory_(memory) {}
  std::string_view name() const override { return "qr"; }
  void hash(op::Hash& hash) const override { hash.add(columns_); }
  int64_t tiles_at_once() const override { return 3; }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const Dims& shape = arguments[0].shape;
    const local::DType dtype = arguments[0].dtype;
    const int64_t width = tiles::panel_width(shape[1], shape[0], dtype, kTogether, room);
    std::vector<op::ArraySpec> results;
    results.push_back({shape, dtype, cut(shape, width)});
    if (columns_ >= 0) {
      const Dims of_q{columns_, shape[1]};
      results.push_back({of_q, dtype, cut(of_q, std::min(width, columns_))});
    }
    results[0].owners = Owners::cyclic(0, 0);
    return results;
  }
  std::optional<Grid> wants(int /*argument*/, const op::Call& call, int64_t /*room*/) const override {
    return call.outputs[0].grid;
  }

  void emit(tiles::Program& p, const op::Call& call) const override {
    const op::ArraySpec& result = call.outputs[0];
    const AxisChunks& axis = result.grid.axis(0);
    const int64_t rows = result.shape[1], panel = largest_chunk_bytes(result.grid, local::itemsize(result.dtype));
    std::vector<int64_t> pivots, elements;  // of V
    for (int64_t k = 0; k < axis.count() && axis.start(k) < rows; ++k) {
      pivots.push_back(std::min(axis.size(k), rows - axis.start(k)));
      elements.push_back(pivots.back() * (rows - axis.start(k)));
    }
    const auto count = static_cast<int64_t>(pivots.size());
    const Tiles a = p.result_from(0, 0);
    // T of step k is square, but for the height that its row of tiles has in common.
    const int64_t edge = count == 0 ? 0 : pivots[0];
    const auto row = [&](int64_t height, const std::vector<int64_t>& widths) {
      const Grid grid(
          {AxisChunks(height, std::max<int64_t>(height, 1)), count == 0 ? AxisChunks(0, 1) : AxisChunks(widths)});
      return p.workspace({grid.shape(), result.dtype, grid});
    };
    const Tiles t = row(edge, pivots), v = row(1, elements);
    const auto factor = [&](int64_t k) {
      p.task(tiles::kGeqrf, {update(a(k, 0)), write(t(0, k)), write(v(0, k))}, tiles::from_row(axis.start(k)),
             Urgency::panel);
    };
    const auto apply = [&](int64_t k, int64_t j) {
      p.task(tiles::kQrApply, {update(a(j, 0)), read(t(0, k)), read(v(0, k))},
             tiles::qr_parameters(axis.start(k), /*forward=*/false));
    };
    factor_columns(p, axis.count(), count, tiles::columns_at_once(axis.count(), panel, memory_), factor, apply);
    for (int64_t j = 0; count == 0 && j < axis.count(); ++j) p.task(tiles::kKeep, {update(a(j, 0))});
    if (columns_ < 0) return;
    const Tiles q = p.result(1);
    const AxisChunks& columns = call.outputs[1].grid.axis(0);
    const int64_t at_once = tiles::columns_at_once(columns.count(), panel, memory_);
    for (int64_t first = 0; first < columns.count(); first += at_once) {
      const int64_t last = std::min(first + at_once, columns.count());
      for (int64_t j = first; j < last; ++j)
        p.task(tiles::kIdentity, {write(q(j, 0))}, tiles::from_row(columns.start(j)));
      // Columns before those of a step have zeros where its reflections are.
      for (int64_t k = count; k-- > 0;) {
        for (int64_t j = first; j < last; ++j) {
          if (columns.start(j + 1) <= axis.start(k)) continue;
          const bool is_own = columns.start(j) == axis.start(k) && columns.size(j) == pivots[static_cast<size_t>(k)];
          p.task(is_own ? tiles::kQrForm : tiles::kQrApply, {update(q(j, 0)), read(t(0, k)), read(v(0, k))},
                 tiles::qr_parameters(axis.start(k), /*forward=*/true));
        }
        p.step();
      }
    }
  }

 private:
  const int64_t columns_;  // of Q; -1: no Q
  const int64_t memory_;
};

}  // namespace

std::vector<NodePtr> qr(const NodePtr& transposed, int64_t q_columns, int64_t memory) {
  const NodePtr node = expr::apply(std::make_shared<Qr>(q_columns, memory), {transposed});
  std::vector<NodePtr> results{expr::item(node, 0)};
  if (q_columns >= 0) results.push_back(expr::item(node, 1));
  return results;
}

}  // namespace quarry::algo
