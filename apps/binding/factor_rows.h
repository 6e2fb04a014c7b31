// Rows of scipy.linalg whose functions of chunked arrays write nothing in place: overwrite_a= and overwrite_b= say
// nothing to them.
#pragma once

#include <string_view>
#include <tuple>
#include <utility>

#include "quarry/chunked/api/factors.h"

namespace quarry::apps::expression::chunked_rows::linalg {

inline std::pair<Array, Array> lu_factor(const Array& a, bool, bool check_finite) {
  return quarry::linalg::lu_factor(a, check_finite);
}
inline Array lu_solve(const std::pair<Array, Array>& lu_and_piv, const Array& b, int64_t trans, bool,
                      bool check_finite) {
  return quarry::linalg::lu_solve(lu_and_piv, b, trans, check_finite);
}
inline std::pair<Array, bool> cho_factor(const Array& a, bool lower, bool, bool check_finite) {
  return quarry::linalg::cho_factor(a, lower, check_finite);
}
inline Array cho_solve(const std::pair<Array, bool>& c_and_lower, const Array& b, bool, bool check_finite) {
  return quarry::linalg::cho_solve(c_and_lower, b, check_finite);
}
inline std::pair<Array, Array> schur(const Array& a, std::string_view output, bool, bool check_finite) {
  return quarry::linalg::schur(a, output, check_finite);
}
inline std::tuple<Array, Array, Array> ldl(const Array& A, bool lower, bool hermitian, bool, bool check_finite) {
  return quarry::linalg::ldl(A, lower, hermitian, check_finite);
}
inline Array solve_banded(const std::pair<int64_t, int64_t>& l_and_u, const Array& ab, const Array& b, bool, bool,
                          bool check_finite) {
  return quarry::linalg::solve_banded(l_and_u, ab, b, check_finite);
}
inline Array solveh_banded(const Array& ab, const Array& b, bool, bool, bool lower, bool check_finite) {
  return quarry::linalg::solveh_banded(ab, b, lower, check_finite);
}

}  // namespace quarry::apps::expression::chunked_rows::linalg
