// A few singular values and vectors of matrices of any size in a few passes, with Dask's name and arguments.
#pragma once

#include <string_view>

#include "quarry/chunked/api/linear_operator.h"

namespace quarry::linalg {

struct SvdCompressedOptions {
  // How the range is improved where singular values fall slowly: "power", the products alone, which lose what is far
  // below the largest singular value to rounding; or "QR", orthonormal again after each product.
  std::string_view iterator = "power";
  int64_t n_power_iter = 0;          // each reads the matrix twice more
  int64_t n_oversamples = 10;        // columns beside k
  std::optional<int64_t> seed = {};  // of the random matrix; none: 0
  bool compute = false;              // persists the range and what it is made of: fewer passes are made at once
  bool coerce_signs = true;          // (the real part of) the sum of every row of v is not negative
  int64_t n_error_samples = 0;       // random vectors for `error`, that read the matrix once more
};
struct SvdCompressedResult {
  Array u, s, v;  // (m, k), (k,) descending, (k, n)
  // 0-d, with n_error_samples = r: an upper bound of ||a - u u^H a||_2, wrong with a probability of 10^-r at most.
  Array error;
};
// u s v is near a, and nearest of rank k but for a factor near 1: N. Halko, P. Martinsson and J. Tropp, Finding
// Structure with Randomness (2011), algorithms 4.3, 4.4 and 5.1, and 4.3 for the error. The matrix, or operator with
// rmatmat or rmatvec, is read 2 + 2 n_power_iter times; beside it (m + n) (k + n_oversamples) elements are held a few
// times, and m x (k + n_oversamples) ones decomposed by qr(). Lazy, but for `compute`, which is collective and blocks.
// Throws InvalidArgument for k < 1 or above min(m, n), and for options out of range.
SvdCompressedResult svd_compressed(const sparse::linalg::LinearOperator& a, int64_t k,
                                   const SvdCompressedOptions& options = {});

}  // namespace quarry::linalg
