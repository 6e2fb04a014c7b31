// Factors that are kept to solve many systems, decompositions for one device and systems of a given structure, by
// scipy.linalg's names:
//   const auto lu = quarry::linalg::lu_factor(a);
//   const Array x = quarry::linalg::lu_solve(lu, b), y = quarry::linalg::lu_solve(lu, c, 1);
// Lazy. Values, dtypes and errors are those of arrays of one process (local/ops/linalg/linalg.h); b is a vector if it
// has one axis. `check_finite`: the computation throws InvalidArgument for NaN and infinity.
#pragma once

#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "quarry/chunked/api/linalg.h"

namespace quarry::linalg {

// L below its diagonal of ones and U in one array (..., m, n), and the rows that were swapped in turn, from 0: with
// which row below it row i was swapped (..., min(m, n)). Large matrices by tiles, as lu(). persist() both before many
// systems are solved.
std::pair<Array, Array> lu_factor(const Array& a, bool check_finite = true);
// trans 0: a x = b; 1: a^T x = b; 2: a^H x = b.
Array lu_solve(const std::pair<Array, Array>& lu_and_piv, const Array& b, int64_t trans = 0, bool check_finite = true);
// U with U^H U = a, or L with L L^H = a, and which of them it is; zeros in the other triangle.
std::pair<Array, bool> cho_factor(const Array& a, bool lower = false, bool check_finite = true);
Array cho_solve(const std::pair<Array, bool>& c_and_lower, const Array& b, bool check_finite = true);

// On one device (by LAPACK, on its host), which holds the matrix: planning throws NotSupported where the task does not
// fit the budget. Stacks are computed chunk by chunk.
std::pair<Array, Array> schur(const Array& a, std::string_view output = "real", bool check_finite = true);
std::tuple<Array, Array, Array> ldl(const Array& A, bool lower = true, bool hermitian = true, bool check_finite = true);
Array solve_banded(const std::pair<int64_t, int64_t>& l_and_u, const Array& ab, const Array& b,
                   bool check_finite = true);
Array solveh_banded(const Array& ab, const Array& b, bool lower = false, bool check_finite = true);
Array solve_toeplitz(const std::variant<std::pair<Array, Array>, Array>& c_or_cr, const Array& b,
                     bool check_finite = true);

}  // namespace quarry::linalg
