// Chunked vectors of the iterative methods (local/sparse/krylov.h): lazy expressions until compute(). Private to the
// folder.
#pragma once

#include <complex>
#include <initializer_list>
#include <span>
#include <vector>

#include "quarry/chunked/api/eigen.h"
#include "quarry/chunked/api/solvers.h"
#include "quarry/local/sparse/lanczos.h"

namespace quarry::sparse::linalg {

struct ChunkedVectors {
  using Complex = std::complex<double>;
  using Vector = Array;
  using Operator = LinearOperator;
  using Options = SolveOptions;
  using Solution = linalg::Solution;
  using LsqrResult = linalg::LsqrResult;
  using LsmrResult = linalg::LsmrResult;
  using EigenOptions = linalg::EigenOptions;
  using EigenResult = linalg::EigenResult;
  using SvdsOptions = linalg::SvdsOptions;
  using SvdsResult = linalg::SvdsResult;
  using LobpcgOptions = linalg::LobpcgOptions;
  using LobpcgResult = linalg::LobpcgResult;
  using Small = local::sparse::krylov::Small;

  // b in the operator's chunks of rows and that dtype, and x0, or zeros, in its chunks of columns.
  static Array left_vector(const LinearOperator& a, const Array& b, DType dtype);
  static Array right_vector(const LinearOperator& a, const std::optional<Array>& x0, const Array& left);
  // In like's dtype and chunks.
  static Array converted(const Array& x, const Array& like);
  static Array own(const Array& result, const Array& v) { return converted(result, v); }

  static Array inner(const Array& a, const Array& b);
  static void add_scaled(Array& y, const Array& a, const Array& x);
  static void add_scaled(Array& y, Complex a, const Array& x) { add_scaled(y, number(a, y.dtype()), x); }
  static void scale_add(Array& y, const Array& a, const Array& x);
  static void scale_add(Array& y, Complex a, const Array& x) { scale_add(y, number(a, y.dtype()), x); }
  static Array scaled(const Array& x, Complex a);
  static Array copy_of(const Array& x) { return x; }
  static Array zeros_like(const Array& x);
  static Array real_zeros_like(const Array& x);
  static Array squares(const Array& x);
  // Of a number that is real but for rounding, in its dtype.
  static Array real_part(const Array& number);
  static Array square_root(const Array& number);
  // 0-d, the same on every rank. What changes from step to step is such an array and no literal, so that the steps'
  // expressions are alike.
  static Array number(Complex value, DType dtype);
  static Array number(double value) { return number(value, DType::float64); }
  static Array number(double value, const Array& like) { return number(Complex(value), like.dtype()); }
  // The values of numbers, which become arrays that every rank has, and in the same plan those of vectors that are not
  // computed yet, which are persisted. Collective, blocking.
  static std::vector<Complex> compute(std::span<Array* const> numbers, std::span<Array* const> live);
  static std::vector<Complex> compute(std::initializer_list<Array*> numbers, std::span<Array* const> live) {
    return compute(std::span<Array* const>(numbers.begin(), numbers.size()), live);
  }
  static std::vector<Complex> compute(std::initializer_list<Array*> numbers, std::initializer_list<Array*> live) {
    return compute(numbers, std::span<Array* const>(live.begin(), live.size()));
  }

  // ---- Random vectors, and vectors as the columns of matrices ----

  static Array random(const Array& like, int64_t number);
  static Array random_left(const LinearOperator& a, DType dtype);
  static Array random_right(const LinearOperator& a, DType dtype);
  // Real numbers, a matrix, the identity and an array without elements, of like's dtype.
  static Array values(const std::vector<double>& numbers, const Array& like);
  static Array matrix(const Small& m, const Array& like) { return Array::from_local(m.array(like.dtype())); }
  static Array complex_values(const std::vector<Complex>& numbers, const Array& like);
  static Array complex_columns(const Array& real, const Array& imaginary);
  static Array unit(int64_t n, const Array& like);
  static Array empty(const Dims& shape, const Array& like);
  static Array of_dtype(const Array& m, DType dtype) { return m.astype(dtype); }
  static Small products(const Array& a, const Array& b);  // a^H b. Collective, blocking.
  static Array turned(const Array& columns, const Small& by);
  static Array column_norms(const Array& m);
  static Array columns_over(const Array& m, const Array& norms);  // where a norm is not 0
  static Array adjoint(const Array& m);
  // In the operator's chunks of rows, columns whole.
  static Array own_columns(const Array& m, const LinearOperator& a, DType dtype);
  // a^H b, on the host of every rank (collective, blocking), and columns combined by such a matrix.
  static NdArray gram(const Array& a, const Array& b);
  static Array times(const Array& columns, const NdArray& by);
  // x y^H m.
  static Array projected(const Array& x, const Array& y, const Array& m);
  static Array joined(const std::vector<Array>& parts);
  static Array columns_from(const Array& m, int64_t first);
  static Array small(const NdArray& values) { return Array::from_local(values); }
  static NdArray small_value(const Array& values) { return values.to_host(); }

  // Orthonormal vectors, in the rows of a few blocks. Rows that have no vector yet are zeros, so that a step has the
  // form of the one before it, and work is done by functions of chunks: the number of programs does not grow with that
  // of the vectors, and that of plans is bounded.
  class Basis {
   public:
    Basis(int64_t count, const Array& like);
    // The vectors from k on are no longer there.
    void set(int64_t k, const Array& v);
    // The last one alone: number k.
    const Array& vector(int64_t k) const;
    // Takes w, made orthogonal to the first `count` vectors and of length 1, as the next one. Returns its coefficients
    // and that length, at which 0 leaves it out. Collective, blocking.
    std::vector<Complex> append(int64_t count, Array w);
    // The sum of as many vectors, each times its coefficient.
    Array combined(const std::vector<Complex>& coefficients) const;
    // As many vectors as the coefficients have rows, combined by their columns: in place of the first ones, and as the
    // columns of a matrix. Collective, blocking.
    void turn(const Small& coefficients);
    Array columns(const Small& coefficients) const;

   private:
    // As many rows as `coefficients` has columns, over the rows of the blocks.
    Array rows_combined(const Small& coefficients) const;
    Array& block_of(int64_t k);
    // `block`, with row k, v, and without rows that follow.
    Array with_row(const Array& block, int64_t k, const Array& v) const;
    // Rows from `count` on are zeros again: one that was appended may have been refused.
    void cut_off(int64_t count);

    Array like_;
    int64_t height_;             // of a block
    std::vector<Array> blocks_;  // that hold vectors
    int64_t filled_ = 0;         // rows
    int64_t last_number_ = -1;
    Array last_;
  };
};

}  // namespace quarry::sparse::linalg
