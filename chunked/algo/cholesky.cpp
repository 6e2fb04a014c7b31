// A = L L^H, or U^H U, of a Hermitian positive definite matrix by square tiles, N of them along an axis:
//   A(k, k) = L(k, k) L(k, k)^H;  A(i, k) = A(i, k) L(k, k)^-H;  A(i, j) -= L(i, k) L(j, k)^H for i >= j > k.
// n^3 / 3 multiplications and additions. Tiles are dealt to P x Q ranks in turn; a rank receives at most
// n^2 / 2 (1 / P + 1 / Q) elements. Tasks hold three tiles. One triangle of A is read.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/panels.h"
#include "quarry/chunked/algo/tile_program.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/tiles/kernels.h"

namespace quarry::algo {
namespace {

using tiles::MatrixOp;
using tiles::read;
using tiles::Tile;
using tiles::Triangle;
using tiles::update;
using tiles::Urgency;
using tiles::write;

class Cholesky final : public TileProgram {
 public:
  Cholesky(Triangle triangle, int64_t memory) : triangle_(triangle), memory_(memory) {}
  std::string_view name() const override { return "cholesky"; }
  void hash(op::Hash& hash) const override { hash.add(static_cast<int>(triangle_)); }
  int64_t tiles_at_once() const override { return 3; }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const auto& [shape, dtype] = std::pair(arguments[0].shape, arguments[0].dtype);
    const int64_t edge = tiles::tile_edge(shape[0], dtype, tiles_at_once() + 1, room);
    op::ArraySpec result{shape, dtype, Grid::regular(shape, {edge, edge})};
    result.owners = Owners::cyclic(0, 0);
    return {result};
  }
  std::optional<Grid> wants(int /*argument*/, const op::Call& call, int64_t /*room*/) const override {
    return call.outputs[0].grid;
  }

  void emit(tiles::Program& p, const op::Call& call) const override {
    const tiles::Tiles stored = p.result_from(0, 0);
    const AxisChunks& rows = call.outputs[0].grid.axis(0);
    const int64_t n = stored.rows();
    const bool lower = triangle_ == Triangle::lower;
    // Tile (i, k) of L, or of U^H where that is asked for.
    const auto a = [&](int64_t i, int64_t k) { return lower ? stored(i, k) : stored(k, i); };
    const tiles::Parameters trsm =
        tiles::TriangularTask{triangle_, MatrixOp::conjugate_transpose, /*from_right=*/lower}.parameters();
    const tiles::Parameters gemm = lower ? tiles::gemm_parameters(MatrixOp::none, MatrixOp::conjugate_transpose)
                                         : tiles::gemm_parameters(MatrixOp::conjugate_transpose, MatrixOp::none);
    const auto factor = [&](int64_t k) {
      p.task(tiles::kPotrf, {update(a(k, k))}, tiles::potrf_parameters(triangle_, rows.start(k)), Urgency::panel);
      for (int64_t i = k + 1; i < n; ++i) p.task(tiles::kTrsm, {update(a(i, k)), read(a(k, k))}, trsm, Urgency::urgent);
      for (int64_t i = 0; i < k; ++i) p.task(tiles::kZeros, {write(a(i, k))});
    };
    const auto apply = [&](int64_t k, int64_t j) {
      for (int64_t i = j; i < n; ++i) {
        const auto [left, right] = lower ? std::pair(i, j) : std::pair(j, i);
        p.task(i == j ? tiles::kHerk : tiles::kGemm, {update(a(i, j)), read(a(left, k)), read(a(right, k))}, gemm);
      }
    };
    // Products of a tile with itself may be made from one triangle, the lower one.
    for (int64_t k = 0; !lower && k < n; ++k) p.task(tiles::kMirror, {update(a(k, k))});
    const int64_t column = n * rows.largest() * rows.largest() * local::itemsize(call.outputs[0].dtype);
    factor_columns(p, n, n, tiles::columns_at_once(n, column, memory_), factor, apply);
  }

 private:
  const Triangle triangle_;
  const int64_t memory_;  // the job's
};

// x of op(T) x = b, for a triangle T, by square tiles and blocks of right-hand sides:
//   b(k, j) = op(T)(k, k)^-1 b(k, j);  b(i, j) -= op(T)(i, k) b(k, j) for the rows i behind k,
// from the first row of tiles on where op(T) is a lower triangle, else from the last one. n^2 r multiplications and
// additions for r sides. A rank of P x Q receives at most n^2 / (2 P) + n r / Q elements. Tasks hold three tiles.
class SolveTriangular final : public TileProgram {
 public:
  explicit SolveTriangular(const TriangularSides& how) : how_(how) {}
  std::string_view name() const override { return "solve_triangular"; }
  void hash(op::Hash& hash) const override {
    hash.add(static_cast<int>(how_.triangle)).add(static_cast<int>(how_.op)).add(how_.unit_diagonal);
  }
  int64_t tiles_at_once() const override { return 4; }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override {
    const Dims& shape = arguments[1].shape;
    const int64_t edge = tiles::tile_edge(shape[0], arguments[0].dtype, tiles_at_once(), room);
    op::ArraySpec result{shape, arguments[0].dtype,
                         Grid::regular(shape, {edge, std::max<int64_t>(std::min(edge, shape[1]), 1)})};
    result.owners = Owners::cyclic(0, 0);
    return {result};
  }
  std::optional<Grid> wants(int argument, const op::Call& call, int64_t /*room*/) const override {
    const Grid& sides = call.outputs[0].grid;
    return argument == 1 ? sides : Grid({sides.axis(0), sides.axis(0)});
  }

  void emit(tiles::Program& p, const op::Call& call) const override {
    const tiles::Tiles t = p.argument(0), x = p.result_from(0, 1);
    const AxisChunks& rows = call.outputs[0].grid.axis(0);
    const int64_t n = x.rows(), sides = x.columns();
    const bool forward = (how_.triangle == Triangle::lower) == (how_.op == MatrixOp::none);
    const tiles::Parameters trsm =
        tiles::TriangularTask{how_.triangle, how_.op, /*from_right=*/false, how_.unit_diagonal}.parameters();
    const tiles::Parameters gemm = tiles::gemm_parameters(how_.op, MatrixOp::none);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t k = forward ? step : n - 1 - step;
      if (!how_.unit_diagonal && sides > 0)
        p.task(tiles::kCheckDiagonal, {update(x(k, 0)), read(t(k, k))}, tiles::from_row(rows.start(k)), Urgency::panel);
      for (int64_t j = 0; j < sides; ++j) p.task(tiles::kTrsm, {update(x(k, j)), read(t(k, k))}, trsm, Urgency::urgent);
      for (int64_t after = step + 1; after < n; ++after) {
        const int64_t i = forward ? after : n - 1 - after;
        const Tile tile = how_.op == MatrixOp::none ? t(i, k) : t(k, i);
        for (int64_t j = 0; j < sides; ++j) p.task(tiles::kGemm, {update(x(i, j)), read(tile), read(x(k, j))}, gemm);
      }
      p.step();
    }
  }

 private:
  const TriangularSides how_;
};

}  // namespace

NodePtr cholesky(const NodePtr& arg, local::Triangle triangle, int64_t memory) {
  return expr::apply(std::make_shared<Cholesky>(triangle, memory), {arg});
}
NodePtr solve_triangular(const NodePtr& triangle, const NodePtr& sides, const TriangularSides& how) {
  return expr::apply(std::make_shared<SolveTriangular>(how), {triangle, sides});
}

}  // namespace quarry::algo
