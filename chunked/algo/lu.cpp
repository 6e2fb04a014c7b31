// P A = L U of an m x n matrix with partial pivoting, by panels: column blocks of all rows, so that the search for
// pivots is on one device (LAPACK's, cuSOLVER's, local/cuda/tall_lu.h), and panels alone travel. In the order of
// factor_columns() (panels.h):
//   factor(k)    panel k from row k w on becomes L(k), U(k, k) and the exchanges of its rows
//   apply(k, j)  the exchanges in panel j, U(k, j) = L(k, k)^-1 A(k, j), and A(i, j) -= L(i, k) U(k, j) for rows i
//   below
// min(m, n)^2 (max(m, n) - min(m, n) / 3) multiplications and additions. Panels are dealt to the ranks in turn; each is
// received once by every rank. Tasks hold two panels. A panel keeps its rows in the order of its own step while others
// are factored: so an earlier panel is not touched again, but once, at the end, where L itself is wanted.
//
// Panels are stored by columns (tiles/kernels.h): arguments and results are transposed.
#include <optional>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/panels.h"
#include "quarry/chunked/algo/tile_program.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/tiles/kernels.h"

namespace quarry::algo {
namespace {

using local::DType;
using tiles::read;
using tiles::Tile;
using tiles::Tiles;
using tiles::update;
using tiles::Urgency;
using tiles::write;

constexpr int64_t kTogether = 4;  // panels, for their width

// How a matrix is cut into panels: the grid of its transpose.
Grid panels_of(const Dims& transposed, DType dtype, int64_t room) {
  const int64_t width = tiles::panel_width(transposed[1], transposed[0], dtype, kTogether, room);
  return Grid::regular(transposed, {width, std::max<int64_t>(transposed[1], 1)});
}

// A matrix like this one in panels, dealt to the ranks in turn.
op::ArraySpec in_panels(const op::ArraySpec& transposed, int64_t room) {
  op::ArraySpec result{transposed.shape, transposed.dtype, panels_of(transposed.shape, transposed.dtype, room)};
  result.owners = Owners::cyclic(0, 0);
  return result;
}

// What the steps of a decomposition leave beside the panels.
struct Steps {
  Tiles panels, moves, orders;
  int64_t count;    // of steps
  AxisChunks axis;  // of the panels' columns
  int64_t first(int64_t k) const { return axis.start(k); }
};

Steps begin(tiles::Program& p, const Tiles& panels, const Grid& grid) {
  const AxisChunks& axis = grid.axis(0);
  const int64_t rows = grid.axis(1).extent();
  std::vector<int64_t> pivots;
  for (int64_t k = 0; k < axis.count() && axis.start(k) < rows; ++k)
    pivots.push_back(2 * std::min(axis.size(k), rows - axis.start(k)));
  const auto count = static_cast<int64_t>(pivots.size());
  const Grid moves({AxisChunks(2, 2), pivots.empty() ? AxisChunks(0, 1) : AxisChunks(pivots)});
  const Grid orders = Grid::regular({count, rows + 2}, {1, rows + 2});
  return {panels, p.workspace({moves.shape(), DType::int64, moves}),
          p.workspace({orders.shape(), DType::int64, orders}), count, axis};
}

void factor(tiles::Program& p, const Steps& s, int64_t k) {
  const tiles::Parameters parameters = tiles::from_row(s.first(k));
  if (k == 0) {
    p.task(tiles::kGetrf, {update(s.panels(0, 0)), write(s.moves(0, 0)), write(s.orders(0, 0))}, parameters,
           Urgency::panel);
  } else {
    p.task(tiles::kGetrf,
           {update(s.panels(k, 0)), write(s.moves(0, k)), read(s.orders(k - 1, 0)), write(s.orders(k, 0))}, parameters,
           Urgency::panel);
  }
}
// Exchanges and small triangles are urgent: they wait for memory and for themselves, and the product is behind them.
void apply(tiles::Program& p, const Steps& s, int64_t k, const Tile& to) {
  const tiles::Parameters parameters = tiles::from_row(s.first(k));
  p.task(tiles::kLuTop, {update(to), read(s.panels(k, 0)), read(s.moves(0, k))}, parameters, Urgency::urgent);
  p.task(tiles::kLuBelow, {update(to), read(s.panels(k, 0))}, parameters);
}
int64_t largest_panel(const Grid& grid, DType dtype) { return largest_chunk_bytes(grid, local::itemsize(dtype)); }
void decompose(tiles::Program& p, const Steps& s, int64_t at_once) {
  factor_columns(
      p, s.axis.count(), s.count, at_once, [&](int64_t k) { factor(p, s, k); },
      [&](int64_t k, int64_t j) { apply(p, s, k, s.panels(j, 0)); });
}

// Argument: A^T. Outputs: 0 (L U)^T without L's ones; 1 (1, m + 2): the rows of A in the order of L U, how many
// exchanges gave it, and the first pivot that is 0 (tiles/kernels.h); 2, where asked for: (P L)^T.
class Lu final : public TileProgram {
 public:
  Lu(int64_t memory, LuRows rows) : memory_(memory), rows_(rows) {}
  std::string_view name() const override { return "lu"; }
  void hash(op::Hash& hash) const override { hash.add(static_cast<int>(rows_)); }
  int64_t tiles_at_once() const override { return 2; }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const op::ArraySpec& a = arguments[0];
    const op::ArraySpec result = in_panels(a, room);
    std::vector<op::ArraySpec> results{result, op::in_one_chunk({1, a.shape[1] + 2}, DType::int64)};
    if (rows_ == LuRows::placed) {
      const Dims shape{std::min(a.shape[0], a.shape[1]), a.shape[1]};
      const int64_t width = std::max<int64_t>(std::min(result.grid.axis(0).largest(), shape[0]), 1);
      results.push_back({shape, a.dtype, Grid::regular(shape, {width, std::max<int64_t>(shape[1], 1)})});
    }
    return results;
  }
  std::optional<Grid> wants(int /*argument*/, const op::Call& call, int64_t /*room*/) const override {
    return call.outputs[0].grid;
  }

  void emit(tiles::Program& p, const op::Call& call) const override {
    const Grid& grid = call.outputs[0].grid;
    const Steps s = begin(p, p.result_from(0, 0), grid);
    const Tiles order = p.result(1);
    decompose(p, s, tiles::columns_at_once(s.axis.count(), largest_panel(grid, call.outputs[0].dtype), memory_));
    if (s.count == 0) {
      p.task(tiles::kPositions, {write(order(0, 0))});
      for (int64_t j = 0; j < s.axis.count(); ++j) p.task(tiles::kKeep, {update(s.panels(j, 0))});
      return;
    }
    p.task(tiles::kCopy, {write(order(0, 0)), read(s.orders(s.count - 1, 0))});
    std::optional<Tiles> placed;
    if (rows_ == LuRows::placed) placed = p.result(2);
    for (int64_t j = 0; rows_ != LuRows::own && j < s.count; ++j) {
      for (int64_t k = j + 1; k < s.count; ++k)
        p.task(tiles::kExchangeRows, {update(s.panels(j, 0)), read(s.moves(0, k))});
      if (placed)
        p.task(tiles::kPlaceRows, {write((*placed)(j, 0)), read(s.panels(j, 0)), read(s.orders(s.count - 1, 0))},
               tiles::from_row(s.first(j)));
      p.step();
    }
  }

 private:
  const int64_t memory_;
  const LuRows rows_;
};

void check_pivots(tiles::Program& p, const Steps& s) {
  if (s.count > 0) p.task(tiles::kCheckPivots, {read(s.orders(s.count - 1, 0))}, {}, Urgency::panel);
}

// Arguments: A^T and B^T of n equations and r right-hand sides. Output: X^T. The panels of A are decomposed; where
// there are many sides, they are panels too, that meet the tasks of later panels of A. A few sides travel from panel to
// panel instead of the panels to them. Beside the decomposition 2 n^2 r multiplications and additions. For many sides
// every rank receives the panels once more, n^2 elements, for few ones n r elements with each panel. Tasks hold two
// panels.
class Solve final : public TileProgram {
 public:
  explicit Solve(int64_t memory) : memory_(memory) {}
  std::string_view name() const override { return "solve"; }
  void hash(op::Hash& /*hash*/) const override {}
  int64_t tiles_at_once() const override { return 2; }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const op::ArraySpec &a = arguments[0], &b = arguments[1];
    const int64_t width = panels_of(a.shape, a.dtype, room).axis(0).largest();
    op::ArraySpec result{
        b.shape, a.dtype,
        Grid::regular(b.shape, {std::max<int64_t>(std::min(width, b.shape[0]), 1), std::max<int64_t>(b.shape[1], 1)})};
    result.owners = Owners::cyclic(0, 0);
    return {result};
  }
  std::optional<Grid> wants(int argument, const op::Call& call, int64_t room) const override {
    const op::ArraySpec& a = call.arguments[0];
    return argument == 1 ? call.outputs[0].grid : panels_of(a.shape, a.dtype, room);
  }

  void emit(tiles::Program& p, const op::Call& call) const override {
    const Grid& grid = call.arguments[0].grid;
    const Steps s = begin(p, p.workspace_from(0), grid);
    decompose(p, s, tiles::columns_at_once(s.axis.count(), largest_panel(grid, call.arguments[0].dtype), memory_));
    check_pivots(p, s);
    if (call.outputs[0].grid.count() == 1)
      move_sides(p, s, call.outputs[0]);
    else
      move_panels(p, s, call.outputs[0]);
  }

 private:
  // Urgent, since what waits for a panel would hold up the products behind it on their stream.
  static void move_sides(tiles::Program& p, const Steps& s, const op::ArraySpec& sides) {
    const Tiles b = p.argument(1), x = p.result(0);
    const int64_t steps = std::max<int64_t>(2 * s.count, 1), r = std::max<int64_t>(sides.shape[0], 1);
    const Dims shape{steps * r, sides.shape[1]};
    const Tiles between = p.workspace({shape, sides.dtype, Grid::regular(shape, {r, std::max<int64_t>(shape[1], 1)})});
    Tile now = b(0, 0);
    for (int64_t k = 0; k < s.count; ++k) {
      p.task(tiles::kLuApplyTo, {read(s.panels(k, 0)), read(s.moves(0, k)), read(now), write(between(k, 0))},
             tiles::from_row(s.first(k)), Urgency::urgent);
      now = between(k, 0);
    }
    for (int64_t k = s.count; k-- > 0;) {
      const Tile next = between(2 * s.count - 1 - k, 0);
      p.task(tiles::kLuBackTo, {read(s.panels(k, 0)), read(now), write(next)}, tiles::from_row(s.first(k)),
             Urgency::urgent);
      now = next;
    }
    p.task(tiles::kCopy, {write(x(0, 0)), read(now)});
  }
  void move_panels(tiles::Program& p, const Steps& s, const op::ArraySpec& sides) const {
    const Tiles x = p.result_from(0, 1);
    const int64_t at_once = tiles::columns_at_once(x.rows(), largest_panel(sides.grid, sides.dtype), memory_);
    for (int64_t first = 0; first < x.rows(); first += at_once) {
      const int64_t last = std::min(first + at_once, x.rows());
      for (int64_t k = 0; k < s.count; ++k) {
        for (int64_t j = first; j < last; ++j) apply(p, s, k, x(j, 0));
        p.step();
      }
      for (int64_t k = s.count; k-- > 0;) {
        for (int64_t j = first; j < last; ++j) {
          const tiles::Parameters parameters = tiles::from_row(s.first(k));
          p.task(tiles::kLuBackTop, {update(x(j, 0)), read(s.panels(k, 0))}, parameters, Urgency::urgent);
          p.task(tiles::kLuAbove, {update(x(j, 0)), read(s.panels(k, 0))}, parameters);
        }
        p.step();
      }
    }
  }

  const int64_t memory_;
};

// Argument: A^T. Output: A^-1, whose rows are the columns of A^-T = P^T L^-T U^-T: exchanges of A's rows are exchanges
// of rows here too, so that each panel X(j) of the result has its own, and no panel is transposed. With all panels of
// A decomposed:
//   forward(k, j), k >= j  X(j) of rows k = U(k, k)^-T (I - U(:, k)^T X(j)), of rows j to k - 1; zero above: n^3 / 3
//   back(k, j)             X(j) of rows k = L(k, k)^-T (X(j) - L(:, k)^T X(j)), of rows below; P(k)^T X(j): n^3
// With the decomposition 2 n^3. Panels of the result meet those of A as a solution's do: every rank receives these
// twice more, 2 n^2 elements at most. Tasks hold two panels.
class Inverse final : public TileProgram {
 public:
  explicit Inverse(int64_t memory) : memory_(memory) {}
  std::string_view name() const override { return "inv"; }
  void hash(op::Hash& /*hash*/) const override {}
  int64_t tiles_at_once() const override { return 2; }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    return {in_panels(arguments[0], room)};
  }
  std::optional<Grid> wants(int /*argument*/, const op::Call& call, int64_t /*room*/) const override {
    return call.outputs[0].grid;
  }

  void emit(tiles::Program& p, const op::Call& call) const override {
    const Grid& grid = call.outputs[0].grid;
    const Steps s = begin(p, p.workspace_from(0), grid);
    const int64_t at_once = tiles::columns_at_once(s.count, largest_panel(grid, call.outputs[0].dtype), memory_);
    decompose(p, s, at_once);
    check_pivots(p, s);
    const Tiles x = p.result(0);
    for (int64_t first = 0; first < s.count; first += at_once) {
      const int64_t last = std::min(first + at_once, s.count);
      for (int64_t k = first; k < s.count; ++k) {
        if (k < last) p.task(tiles::kIdentity, {write(x(k, 0))}, tiles::from_row(s.first(k)));
        for (int64_t j = first; j < std::min(k + 1, last); ++j) {
          if (j < k)
            p.task(tiles::kLuLessAbove, {update(x(j, 0)), read(s.panels(k, 0))},
                   tiles::from_row(s.first(k), s.first(j)));
          p.task(tiles::kLuTopTransposed, {update(x(j, 0)), read(s.panels(k, 0))}, tiles::from_row(s.first(k)),
                 Urgency::urgent);
        }
        p.step();
      }
      for (int64_t k = s.count; k-- > 0;) {
        for (int64_t j = first; j < last; ++j) {
          const tiles::Parameters parameters = tiles::from_row(s.first(k));
          if (k + 1 < s.count) p.task(tiles::kLuLessBelow, {update(x(j, 0)), read(s.panels(k, 0))}, parameters);
          p.task(tiles::kLuBackTransposed, {update(x(j, 0)), read(s.panels(k, 0)), read(s.moves(0, k))}, parameters,
                 Urgency::urgent);
        }
        p.step();
      }
    }
  }

 private:
  const int64_t memory_;
};

}  // namespace

std::vector<NodePtr> lu(const NodePtr& transposed, int64_t memory, LuRows rows) {
  const NodePtr node = expr::apply(std::make_shared<Lu>(memory, rows), {transposed});
  std::vector<NodePtr> results{expr::item(node, 0), expr::item(node, 1)};
  if (rows == LuRows::placed) results.push_back(expr::item(node, 2));
  return results;
}
NodePtr solve(const NodePtr& transposed, const NodePtr& sides, int64_t memory) {
  return expr::apply(std::make_shared<Solve>(memory), {transposed, sides});
}
NodePtr inverse(const NodePtr& transposed, int64_t memory) {
  return expr::apply(std::make_shared<Inverse>(memory), {transposed});
}

}  // namespace quarry::algo
