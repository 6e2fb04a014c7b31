// The iterations behind eigsh() and eigs(), which know of no M and no sigma. Private to this folder.
#pragma once

#include "quarry/chunked/api/eigen.h"

namespace quarry::sparse::linalg::eigen {

DType computed_in(DType dtype);
EigenResult of_hermitian(const LinearOperator& a, int64_t k, const EigenOptions& options);
EigenResult of_general(const LinearOperator& a, int64_t k, const EigenOptions& options);

}  // namespace quarry::sparse::linalg::eigen
