// Systems of equations of which more is known than that they are square, and products of which one operand is given by
// a triangle: scipy.linalg.solve's assume_a, and the names of BLAS 3.
#pragma once

#include <string_view>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/triangle.h"

namespace quarry::local::ops {

enum class Assumed : uint8_t { general, symmetric, hermitian, positive_definite };

struct SystemOptions {
  Assumed assume = Assumed::general;
  Triangle triangle = Triangle::upper;  // which one is read where a is not general
  // Throws LinAlgError where a is not symmetric (Hermitian) but for roundings; reads both triangles.
  bool check = false;
  // Factors a float64 or complex128 matrix in single precision, and refines the solution to double precision:
  // LAPACK's dsgesv. Where that does not converge, it is as without.
  bool refine = false;
};

// x of a x = b. Positive definite: by Cholesky's factor, LinAlgError where there is none. Symmetric, Hermitian: by
// Bunch and Kaufman's decomposition, on GPUs and of stacks by LU. General: as solve(). Stacks are not refined.
NdArray solve(const NdArray& a, const NdArray& b, const SystemOptions& options);
// By SciPy's names: "gen", "sym", "her", "pos", or in full. Throws InvalidArgument for others.
SystemOptions system_options(std::string_view assume_a, bool lower, bool check_symmetric, bool refine);
NdArray solve_of(const NdArray& a, const NdArray& b, std::string_view assume_a = "gen", bool lower = false,
                 bool check_symmetric = false, bool refine = false);

// a b, or b a with side 1, of a symmetric (Hermitian) matrix of which one triangle is read.
NdArray symm(const NdArray& a, const NdArray& b, int64_t side = 0, bool lower = false);
NdArray hemm(const NdArray& a, const NdArray& b, int64_t side = 0, bool lower = false);
// op(a) b, or b op(a) with side 1, of a triangle: trans 0 takes a itself, 1 its transpose, 2 the conjugate of that.
NdArray trmm(const NdArray& a, const NdArray& b, int64_t side = 0, bool lower = false, int64_t trans = 0,
             bool unit_diagonal = false);
// a a^T (a^T a with `trans`), and a a^H (a^H a): both triangles.
NdArray syrk(const NdArray& a, bool trans = false);
NdArray herk(const NdArray& a, bool trans = false);
// Throws LinAlgError where the largest difference of elements from those across the diagonal exceeds roundings of the
// largest element.
void check_difference(double difference, double largest, DType dtype, bool hermitian);
// Throw InvalidArgument for another side (0, 1) or trans (0, 1, 2).
void check_side(int64_t side);
void check_trans(int64_t trans);

}  // namespace quarry::local::ops
