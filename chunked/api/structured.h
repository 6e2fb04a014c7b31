// Systems of equations of which more is known than that they are square, and products of which one operand is given by
// a triangle, of chunked arrays.
#pragma once

#include "quarry/chunked/api/linalg.h"
#include "quarry/local/ops/linalg/structured.h"

namespace quarry::linalg {

using local::ops::Assumed;
using local::ops::SystemOptions;

// x of a x = b: solve(a, b, {.assume = Assumed::positive_definite}), SciPy's assume_a; b as solve() takes it.
//
// Small matrices and stacks go to the local function. Of a large one: positive definite by Cholesky's factor, whose
// computation throws LinAlgError where there is none. Symmetric and Hermitian by Cholesky's factor too, if there is
// one, else by LU of both triangles (ADR 44): collective, blocking, and explain() of x tells which. Complex symmetric
// and general ones by LU. `check` is collective and blocks. `refine` is too, for large float64 and complex128 matrices:
// factors in half the memory, and x is persisted; others are solved without.
Array solve(const Array& a, const Array& b, const SystemOptions& options);

// Products that touch the stored triangle alone, as the functions of arrays of one process: a b or, with side 1, b a
// for symmetric (Hermitian) or triangular a, and a a^T, a a^H. Of large matrices by halves: a = [a11 0; a21 a22]
// needs three products of half the size. trsm is solve_triangular().
Array symm(const Array& a, const Array& b, int64_t side = 0, bool lower = false);
Array hemm(const Array& a, const Array& b, int64_t side = 0, bool lower = false);
Array trmm(const Array& a, const Array& b, int64_t side = 0, bool lower = false, int64_t trans = 0,
           bool unit_diagonal = false);
Array syrk(const Array& a, bool trans = false);
Array herk(const Array& a, bool trans = false);

}  // namespace quarry::linalg
