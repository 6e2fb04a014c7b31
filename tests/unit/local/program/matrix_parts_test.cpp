// Products and decompositions of matrices that are parts of larger ones, or that are conjugated on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>

#include "quarry/local/local.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/program/decompositions.h"
#include "quarry/local/program/products.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class MatrixParts : public test::OnDevice {
 protected:
  static NdArray numbers(const Dims& shape, DType dtype, int64_t seed) {
    random::Generator generator = random::default_rng(seed);
    const NdArray real = generator.normal(0., 1., Ints(shape));
    if (!is_complex(dtype)) return real.astype(dtype);
    return (real + generator.normal(0., 1., Ints(shape)) * Scalar(std::complex<double>(0, 1))).astype(dtype);
  }
  static double distance(const NdArray& a, const NdArray& b) {
    if (a.size() == 0) return 0;
    return max(absolute(a - b)).item().as_double();
  }
  static constexpr DType kTypes[] = {DType::float32, DType::float64, DType::complex64, DType::complex128};
  static double bound(DType dtype) { return real_type(dtype) == DType::float32 ? 2e-4 : 1e-12; }
};
QUARRY_ON_EVERY_DEVICE(MatrixParts);

MatrixView by_rows(const NdArray& x) { return {x.raw(), x.shape(0), x.shape(1), x.shape(1), 1}; }
MatrixView turned(const MatrixView& m) { return {m.data, m.columns, m.rows, m.column_stride, m.row_stride}; }

// c -= op(a) op(b), where one is a conjugate transpose, c by rows and by columns.
TEST_P(MatrixParts, ProductsConjugateTransposes) {
  const ExecContext context = current_context();
  for (const DType dtype : kTypes) {
    for (const auto& [m, n, k] :
         {std::array<int64_t, 3>{5, 4, 3}, {1, 4, 3}, {5, 1, 3}, {5, 4, 1}, {1, 1, 1}, {1, 5, 1}, {6, 1, 1}}) {
      for (const bool of_a : {true, false}) {
        for (const bool c_by_rows : {true, false}) {
          const NdArray a = numbers(of_a ? Dims{k, m} : Dims{m, k}, dtype, 1);
          const NdArray b = numbers(of_a ? Dims{k, n} : Dims{n, k}, dtype, 2);
          const NdArray c = numbers(c_by_rows ? Dims{m, n} : Dims{n, m}, dtype, 3), before = c.copy();
          // A library sees a conjugate transpose of what is by rows where c is, too.
          if (!c_by_rows && is_complex(dtype)) continue;
          Gemm task{dtype, -1, by_rows(a), by_rows(b), 1, c_by_rows ? by_rows(c) : turned(by_rows(c))};
          (of_a ? task.a : task.b) = turned(of_a ? task.a : task.b);
          (of_a ? task.conjugate_a : task.conjugate_b) = true;
          for (const NdArray* x : {&a, &b}) x->begin_read(context.stream);
          c.begin_write(context.stream);
          engine(context.device).products().gemm(task, context);
          const NdArray product = of_a ? matmul(conj(a.T()), b) : matmul(a, conj(b.T()));
          const NdArray expected = (c_by_rows ? before : NdArray(before.T())) - product;
          EXPECT_LT(distance(c_by_rows ? c : NdArray(c.T()), expected), bound(dtype))
              << name(dtype) << " " << m << " " << n << " " << k << " " << of_a << c_by_rows;
        }
      }
    }
  }
}

// Columns [0, n) and rows [first, rows) of a matrix by columns.
TEST_P(MatrixParts, AreDecomposedAndSolvedInPlace) {
  const ExecContext context = current_context();
  for (const DType dtype : kTypes) {
    for (const auto& [rows, n, first] : {std::array<int64_t, 3>{40, 7, 12}, {200, 100, 30}, {30, 30, 9}, {9, 1, 8}}) {
      const int64_t m = rows - first, k = std::min(m, n);
      const Slice part{first, rows, 1}, every{};
      const auto stack_of = [&](const NdArray& x, int64_t height, int64_t width) {
        return MatrixStack{static_cast<char*>(x.raw()) + first * x.itemsize(), 1, height, width, rows};
      };
      const NdArray a = numbers({n, rows}, dtype, 4), lu = a.copy(), qr = a.copy();
      const NdArray pivots({k}, DType::int32, context), tau({k}, dtype, context);
      const linalg::Info info({}, context);
      for (const NdArray* x : {&lu, &qr, &pivots, &tau}) x->begin_write(context.stream);
      linalg::run(Lu{dtype, stack_of(lu, m, n), pivots.data<int32_t>(), info.data(), /*complete=*/true}, lu);
      linalg::run(Qr{dtype, stack_of(qr, m, n), tau.raw()}, qr);
      // Rows above are left alone.
      const Slice above{0, first, 1};
      EXPECT_EQ(distance(lu[{every, above}], a[{every, above}]), 0);
      EXPECT_EQ(distance(qr[{every, above}], a[{every, above}]), 0);
      const NdArray given = NdArray(a[{every, part}]).T().copy();
      const NdArray factors = NdArray(lu[{every, part}]).T();
      const auto expected = ops::lu(given);
      const Slice top{0, k, 1};
      EXPECT_LT(distance(triu(factors[{top, every}]), expected[2]), 20 * bound(dtype)) << name(dtype) << " " << rows;
      const NdArray r = triu(NdArray(NdArray(qr[{every, part}]).T())[{top, every}]);
      const NdArray whole = std::get<NdArray>(ops::qr(given, "r"));
      EXPECT_LT(distance(matmul(conj(r.T()), r), matmul(conj(whole.T()), whole)), 400 * bound(dtype));
      if (m < n) continue;
      // L x = b from the left and x L^T = b from the right, with L in the part.
      const NdArray b = numbers({5, rows}, dtype, 6), x = b.copy(), y = numbers({n, 5}, dtype, 7), z = y.copy();
      const NdArray lower = tril(factors[{Slice{0, n, 1}, every}], -1) + eye(n).astype(dtype);
      linalg::run(TriangularSolve{dtype, Triangle::lower, MatrixOp::none, true, stack_of(lu, n, n), stack_of(x, n, 5)},
                  x);
      const Slice solved{first, first + n, 1};
      EXPECT_LT(distance(matmul(lower, NdArray(x[{every, solved}]).T()), NdArray(b[{every, solved}]).T()),
                100 * bound(dtype));
      linalg::run(TriangularSolve{dtype,
                                  Triangle::lower,
                                  MatrixOp::transpose,
                                  true,
                                  stack_of(lu, n, n),
                                  {z.raw(), 1, 5, n},
                                  /*from_right=*/true},
                  z);
      EXPECT_LT(distance(matmul(NdArray(z.reshape(n, 5)).T(), NdArray(lower.T())), NdArray(y.reshape(n, 5)).T()),
                100 * bound(dtype));
    }
  }
}

}  // namespace
}  // namespace quarry::local
