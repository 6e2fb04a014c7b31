// The order of kernels and products in the reduction to tridiagonal form in two stages, and in the transformation back.
// What runs them is a Machine: a GPU's stream (two_stage.cu), or the host in tests.
#pragma once

#include <algorithm>

#include "quarry/local/cuda/eigh/kernels.cuh"
#include "quarry/local/cuda/eigh/places.h"
#include "quarry/local/cuda/eigh/windows.cuh"
#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {
namespace {

template <class T>
struct View {
  T* data;
  int64_t distance;  // between columns
};

struct Extents {
  int64_t x, y = 1;
};

// Places in a block of memory; without memory they are only counted.
class Pieces {
 public:
  explicit Pieces(void* data) : data_(static_cast<char*>(data)) {}
  template <class T>
  T* take(int64_t count) {
    const int64_t at = places_.take(count * static_cast<int64_t>(sizeof(T)));
    return data_ == nullptr ? nullptr : reinterpret_cast<T*>(data_ + at);
  }
  int64_t bytes() const { return places_.bytes(); }

 private:
  char* data_;
  eigh::Places places_;
};

// Sweeps' groups that are applied together, and panels' columns.
constexpr int64_t kGroupsAtOnce = 8, kColumnsAtOnce = 256;

// Of a matrix of n > 2 rows, by columns. The matrix keeps the vectors of both stages: the band's below the diagonal,
// the chase's above it.
template <class Machine>
class Tridiagonalization {
 public:
  struct Kept {  // by both halves
    double *band_tau, *chase_tau;
    Kept(Pieces& pieces, int64_t n)
        : band_tau(pieces.take<double>(n)), chase_tau(pieces.take<double>(n * (n / kBand + 1))) {}
  };
  struct ForReduction {
    double *vwv, *product, *small, *band;
    PanelWords* words;
    int* progress;
    ForReduction(Pieces& pieces, int64_t n)
        : vwv(pieces.take<double>(3 * n * kBand)),
          product(pieces.take<double>(n * kBand)),
          small(pieces.take<double>(4 * kBand * kBand)),
          band(pieces.take<double>(n * kBandDistance)),
          words(pieces.take<PanelWords>(1)),
          progress(pieces.take<int>(n)) {}
  };
  struct ForVectors {
    double *windows, *panel, *products, *triangle, *panel_sums, *weighted_sums;
    ForVectors(Pieces& pieces, int64_t n)
        : windows(pieces.take<double>(kGroupsAtOnce * (n / kBand + 1) * kWindowElements)),
          panel(pieces.take<double>(n * kColumnsAtOnce)),
          products(pieces.take<double>(kColumnsAtOnce * kColumnsAtOnce)),
          triangle(pieces.take<double>(kColumnsAtOnce * kColumnsAtOnce)),
          panel_sums(pieces.take<double>(n * kColumnsAtOnce)),
          weighted_sums(pieces.take<double>(n * kColumnsAtOnce)) {}
  };

  // `a` has both triangles.
  Tridiagonalization(Machine machine, double* a, int64_t n, Kept kept) : machine_(machine), a_(a), n_(n), kept_(kept) {}

  // The band, below the diagonal of `a`.
  void to_band(const ForReduction& own) const {
    machine_.zero(own.words, sizeof(PanelWords));
    double *const products = own.small, *const t = products + kBand * kBand, *const inner = t + kBand * kBand,
                  *const middle = inner + kBand * kBand;
    for (int64_t j = 0; j + kBand < n_ - 1; j += kBand) {
      const int64_t m = n_ - j - kBand;
      double* const panel = a_ + j + kBand + j * n_;
      double *const v = own.vwv, *const w = v + m * kBand, *const v_again = w + m * kBand;
      panel_qr(panel, m, v, v_again, kept_.band_tau + j, products, own.words, static_cast<uint32_t>(j + 1));
      machine_.launch("the triangle of a panel", triangle_kernel, {1}, kThreads, sizeof(TriangleShared), products,
                      kept_.band_tau + j, t);
      // With Q = I - V t V^T: X = A V t, W = X - V (t^T V^T X) / 2, Q^T A Q = A - V W^T - W V^T.
      const View<double> rest{a_ + (j + kBand) * (n_ + 1), n_};
      machine_.gemm(MatrixOp::none, MatrixOp::none, m, kBand, m, 1, in(rest), {v, m}, 0, {own.product, m});
      machine_.gemm(MatrixOp::none, MatrixOp::none, m, kBand, kBand, 1, {own.product, m}, {t, kBand}, 0, {w, m});
      machine_.gemm(MatrixOp::transpose, MatrixOp::none, kBand, kBand, m, 1, {v, m}, {w, m}, 0, {inner, kBand});
      machine_.gemm(MatrixOp::transpose, MatrixOp::none, kBand, kBand, kBand, -0.5, {t, kBand}, {inner, kBand}, 0,
                    {middle, kBand});
      machine_.gemm(MatrixOp::none, MatrixOp::none, m, kBand, kBand, 1, {v, m}, {middle, kBand}, 1, {w, m});
      machine_.gemm(MatrixOp::none, MatrixOp::transpose, m, m, 2 * kBand, -1, {v, m}, {w, m}, 1, rest);
    }
  }

  // Two diagonals from the band.
  void chase(const ForReduction& own, double* d, double* e) const {
    const auto n = static_cast<int>(n_);
    machine_.launch("copying a band", band_kernel, {n_}, kBandDistance, 0, a_, n_, n, own.band);
    machine_.zero(own.progress, n_ * static_cast<int64_t>(sizeof(int)));
    const int64_t blocks = std::min(machine_.blocks_at_once(), n_ / (2 * kBand) + 1);
    machine_.launch_together("the chase of a band", chase_kernel, {blocks}, kThreads, 0, own.band, n, a_, n_,
                             kept_.chase_tau, own.progress);
    machine_.launch("reading two diagonals", diagonals_kernel, {(n_ + 255) / 256}, 256, 0, own.band, n, d, e);
  }

  // z = Q z of the chase's vectors, for the columns of z.
  void transform_by_chase(const ForVectors& own, View<double> z, int64_t columns) const {
    const auto n = static_cast<int>(n_);
    const int64_t most_steps = steps_of(n, 0), groups = most_steps;
    // Of wide strips the reflectors are read less often, narrow ones are more.
    const bool is_narrow = columns <= kNarrow * machine_.blocks_at_once();
    const int64_t width = is_narrow ? kNarrow : kWide, strips = (columns + width - 1) / width;
    for (int64_t end = groups; end > 0; end -= std::min(end, kGroupsAtOnce)) {
      const int64_t count = std::min(end, kGroupsAtOnce), first = end - count;
      machine_.launch("the windows of a chase", window_kernel, {most_steps, count}, kThreads, sizeof(WindowShared), a_,
                      n_, n, kept_.chase_tau, static_cast<int>(first), static_cast<int>(most_steps), own.windows);
      machine_.launch("a chase's reflections", is_narrow ? reflect_kernel<kNarrow> : reflect_kernel<kWide>, {strips},
                      kReflectThreads, is_narrow ? sizeof(ReflectShared<kNarrow>) : sizeof(ReflectShared<kWide>),
                      own.windows, z.data, z.distance, columns, n, static_cast<int>(first), static_cast<int>(count),
                      static_cast<int>(most_steps));
    }
  }

  // z = Q z of the band's vectors.
  void transform_by_band(const ForVectors& own, View<double> z, int64_t columns) const {
    const int64_t all = (n_ - 2) / kBand * kBand;  // columns of panels
    for (int64_t end = all; end > 0;) {
      const int64_t first = (end - 1) / kColumnsAtOnce * kColumnsAtOnce, count = end - first;
      const int64_t rows = n_ - kBand - first;
      machine_.launch("the vectors of panels", expand_kernel, {(rows + 255) / 256, count}, 256, 0, a_, n_,
                      static_cast<int>(n_), first, own.panel);
      const View<const double> v{own.panel, rows};
      machine_.gemm(MatrixOp::transpose, MatrixOp::none, count, count, rows, 1, v, v, 0, {own.products, count});
      machine_.launch("the triangle of panels", system_kernel, {count}, static_cast<int>(count), 0, own.products,
                      kept_.band_tau + first, own.triangle, static_cast<int>(count));
      machine_.solve_unit_upper(count, {own.products, count}, {own.triangle, count});
      const View<double> below{z.data + first + kBand, z.distance};
      machine_.gemm(MatrixOp::transpose, MatrixOp::none, count, columns, rows, 1, v, in(below), 0,
                    {own.panel_sums, count});
      machine_.gemm(MatrixOp::none, MatrixOp::none, count, columns, count, 1, {own.triangle, count},
                    {own.panel_sums, count}, 0, {own.weighted_sums, count});
      machine_.gemm(MatrixOp::none, MatrixOp::none, rows, columns, count, -1, v, {own.weighted_sums, count}, 1, below);
      end = first;
    }
  }

 private:
  static View<const double> in(View<double> view) { return {view.data, view.distance}; }

  void panel_qr(double* panel, int64_t rows, double* v, double* v_again, double* tau, double* products,
                PanelWords* words, uint32_t turn) const {
    machine_.launch_together("the QR of a panel", panel_kernel, {(rows + kPanelRows - 1) / kPanelRows}, kThreads, 0,
                             panel, n_, static_cast<int>(rows), v, v_again, rows, tau, products, words, turn);
  }

  const Machine machine_;
  double* const a_;
  const int64_t n_;
  const Kept kept_;
};

}  // namespace
}  // namespace quarry::local::cuda
