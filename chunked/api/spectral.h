// Eigenvalues and singular values of matrices that no device decomposes by itself: by products and the factorisations
// of tiled.h alone, on all ranks and beyond memory. Private to this folder. Arguments are matrices that have been
// checked, of a dtype that solvers compute in. Collective, blocking.
#pragma once

#include <optional>

#include "quarry/chunked/api/array.h"
#include "quarry/local/program/subset.h"

namespace quarry::linalg::spectral {

// Whether a task holds such a matrix, and what the local function makes of it. Depends on shape, dtype, the kind of
// device and the budget of the smallest rank.
bool eigh_fits(int64_t n, DType dtype, const std::optional<local::Subset>& subset = std::nullopt);
bool svd_fits(const Dims& shape, DType dtype, bool with_vectors, bool full);

// Eigenvalues, ascending, and vectors in columns, of a Hermitian matrix of which both triangles are there. Throws
// InvalidArgument for NaN and infinity, LinAlgError where no way to divide the spectrum is found. Of a `subset`, whose
// numbers are in order and within the matrix, what lies outside of it is not decomposed.
struct Eigen {
  Array values;
  std::optional<Array> vectors;
};
Eigen eigh(const Array& a, bool with_vectors, const std::optional<local::Subset>& subset = std::nullopt);

// Singular values, descending, and vectors: all of U's, or of V's, with `full`. The same errors.
struct Singular {
  Array values;
  std::optional<Array> u, vh;
};
Singular svd(const Array& a, bool with_vectors, bool full);

}  // namespace quarry::linalg::spectral
