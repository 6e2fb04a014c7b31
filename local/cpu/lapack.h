// LAPACK's drivers on matrices in host memory, column by column. Each call uses one OpenBLAS thread and takes LAPACK's
// own workspace.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace quarry::local::cpu {

// Eigenvalues of an n x n matrix, which is overwritten. T is double or std::complex<double>. Throws InvalidArgument for
// NaN and infinity and where the solver does not converge (NumPy's LinAlgError).
template <class T>
std::vector<std::complex<double>> eigenvalues(T* a, int64_t n);

// min |a x - b| by singular values, those below rcond times the largest taken as 0: a is m x n and overwritten; b has
// max(m, n) rows and k columns and gets x in its first n rows, and below them what the residuals are the squares of.
// Returns the rank; `values` gets min(m, n) singular values. Throws InvalidArgument where the SVD does not converge.
template <class T>
int64_t least_squares(T* a, int64_t m, int64_t n, T* b, int64_t k, double rcond, double* values);

// b becomes the solution x of a x = b, k columns. Throws InvalidArgument("Singular matrix").
template <class T>
void solve(T* a, int64_t n, T* b, int64_t k);

}  // namespace quarry::local::cpu
