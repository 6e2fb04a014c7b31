// Vectors of the iterative methods: updates in place and products. Private to the folder.
#pragma once

#include <complex>
#include <concepts>
#include <span>
#include <vector>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/eigen.h"
#include "quarry/local/sparse/lanczos.h"
#include "quarry/local/sparse/linear_operator.h"
#include "quarry/local/sparse/solvers.h"

namespace quarry::local::sparse::linalg {

using Complex = std::complex<double>;

// sum of conj(a) b, 0-d, on the device; does not block.
inline NdArray inner(const NdArray& a, const NdArray& b) { return ops::vdot(a, b); }
// The same as a number: blocks.
inline Complex inner_value(const NdArray& a, const NdArray& b) { return inner(a, b).item().as_complex(); }
double norm2(const NdArray& x);

// A number as a factor of a vector that keeps the vector's dtype.
Scalar factor_for(const NdArray& x, Complex value);

inline constexpr uint64_t kSeed = 20261121;
// Of fixed numbers, normally distributed.
NdArray random_vector(int64_t n, DType dtype, Device device, int64_t number = 0);

// y = y + a x and y = x + a y, in place; `a` is a number or 0-d.
void add_scaled(const NdArray& y, const Arg& a, const NdArray& x);
void scale_add(const NdArray& y, const Arg& a, const NdArray& x);
template <std::same_as<Complex> T>  // not what converts to one: an array does
void add_scaled(const NdArray& y, T a, const NdArray& x) {
  add_scaled(y, Arg(factor_for(y, a)), x);
}
// x * a, new.
NdArray scaled(const NdArray& x, Complex a);
NdArray copy_of(const NdArray& x);
NdArray zeros_like(const NdArray& x);
// a^H of a matrix.
inline NdArray adjoint(const NdArray& a) { return conjugated(a).T(); }
NdArray matmul(const NdArray& a, const NdArray& b);

// What krylov.h works with in one process.
struct LocalVectors {
  using Vector = NdArray;
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
  using Small = krylov::Small;

  // b as a new vector of that dtype, and x0, or zeros, as one of a's columns, beside such a vector.
  static NdArray left_vector(const LinearOperator& a, const NdArray& b, DType dtype);
  static NdArray right_vector(const LinearOperator& a, const std::optional<NdArray>& x0, const NdArray& left);
  // As a new vector of like's dtype.
  static NdArray converted(const NdArray& x, const NdArray& like);
  // An operator's result in v's dtype, and not v.
  static NdArray own(const NdArray& result, const NdArray& v);

  static NdArray inner(const NdArray& a, const NdArray& b) { return linalg::inner(a, b); }
  static void add_scaled(const NdArray& y, const NdArray& a, const NdArray& x) { linalg::add_scaled(y, a, x); }
  static void add_scaled(const NdArray& y, Complex a, const NdArray& x) { linalg::add_scaled(y, a, x); }
  static void scale_add(const NdArray& y, const NdArray& a, const NdArray& x) { linalg::scale_add(y, a, x); }
  static void scale_add(const NdArray& y, Complex a, const NdArray& x) {
    linalg::scale_add(y, Arg(factor_for(y, a)), x);
  }
  static NdArray scaled(const NdArray& x, Complex a) { return linalg::scaled(x, a); }
  static NdArray copy_of(const NdArray& x) { return linalg::copy_of(x); }
  static NdArray zeros_like(const NdArray& x) { return linalg::zeros_like(x); }
  static NdArray real_zeros_like(const NdArray& x) { return linalg::zeros_like(x.real()); }
  static NdArray squares(const NdArray& x) { return apply("square"_op, {apply("absolute"_op, {x})}); }
  // Of a number that is real but for rounding, in its dtype.
  static NdArray real_part(const NdArray& number);
  static NdArray square_root(const NdArray& number) { return apply("sqrt"_op, {real_part(number)}); }
  static NdArray number(double value) { return from_vector<double>({value}).reshape({}); }
  static NdArray number(double value, const NdArray& like);
  // The numbers' values. Blocks.
  static std::vector<Complex> compute(std::initializer_list<NdArray*> numbers, std::span<NdArray* const> live);
  static std::vector<Complex> compute(std::initializer_list<NdArray*> numbers, std::initializer_list<NdArray*> live) {
    return compute(numbers, std::span<NdArray* const>(live.begin(), live.size()));
  }

  // ---- Random vectors, and vectors as the columns of matrices ----

  static NdArray random(const NdArray& like, int64_t number) {
    return random_vector(like.size(), like.dtype(), like.device(), number);
  }
  static NdArray random_left(const LinearOperator& a, DType dtype) {
    return random_vector(a.shape()[0], dtype, current_device());
  }
  static NdArray random_right(const LinearOperator& a, DType dtype) {
    return random_vector(a.shape()[1], dtype, current_device());
  }
  // Real numbers, a matrix, the identity and an array without elements, beside `like`.
  static NdArray values(const std::vector<double>& numbers, const NdArray& like);
  static NdArray matrix(const Small& m, const NdArray& like) { return m.array(like.dtype()).to(like.device()); }
  static NdArray complex_values(const std::vector<Complex>& numbers, const NdArray& like);
  static NdArray complex_columns(const NdArray& real, const NdArray& imaginary);
  static NdArray unit(int64_t n, const NdArray& like);
  static NdArray empty(const Dims& shape, const NdArray& like) {
    return NdArray(shape, like.dtype(), context_for(like.device()));
  }
  static NdArray of_dtype(const NdArray& m, DType dtype);
  static Small products(const NdArray& a, const NdArray& b);  // a^H b. Blocks.
  static NdArray turned(const NdArray& columns, const Small& by) { return matmul(columns, matrix(by, columns)); }
  static NdArray column_norms(const NdArray& m);
  static NdArray columns_over(const NdArray& m, const NdArray& norms);  // where a norm is not 0
  static NdArray adjoint(const NdArray& m) { return linalg::adjoint(m).copy(context_for(m.device())); }
  static NdArray own_columns(const NdArray& m, const LinearOperator&, DType dtype) { return of_dtype(m, dtype); }
  // a^H b, and columns combined by a small matrix beside them.
  static NdArray gram(const NdArray& a, const NdArray& b) { return matmul(linalg::adjoint(a), b); }
  static NdArray times(const NdArray& columns, const NdArray& by) { return matmul(columns, by); }
  // x y^H m.
  static NdArray projected(const NdArray& x, const NdArray& y, const NdArray& m) { return times(x, gram(y, m)); }
  static NdArray joined(const std::vector<NdArray>& parts);
  static NdArray columns_from(const NdArray& m, int64_t first) {
    return m[{full_slice, Slice{first, std::nullopt, std::nullopt}}];
  }
  static NdArray small(const NdArray& values) { return values; }
  static NdArray small_value(const NdArray& values) { return values; }

  // Orthonormal vectors, in rows.
  class Basis {
   public:
    Basis(int64_t count, const NdArray& like);
    void set(int64_t k, const NdArray& v);
    NdArray vector(int64_t k) const { return linalg::copy_of(rows_[{k}]); }
    // Takes w, made orthogonal to the first `count` vectors and of length 1, as the next one. Returns its coefficients
    // and that length, at which 0 leaves it out. Blocks.
    std::vector<Complex> append(int64_t count, NdArray w);
    // The sum of as many vectors, each times its coefficient.
    NdArray combined(const std::vector<Complex>& coefficients) const;
    // As many vectors as the coefficients have rows, combined by their columns: in place of the first ones, and as the
    // columns of a matrix.
    void turn(const Small& coefficients);
    NdArray columns(const Small& coefficients) const;

   private:
    NdArray first(int64_t count) const { return rows_[{Slice{0, count, std::nullopt}}]; }

    NdArray rows_;
  };
};

}  // namespace quarry::local::sparse::linalg
