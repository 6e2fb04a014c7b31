// Matrices in files, sparse or dense, for the commands that copy and compare files.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "quarry/chunked/api/sparse.h"

namespace quarry::apps {

using Matrix = std::variant<Array, sparse::SparseArray>;

// What a Matrix Market file holds, or a group with data, indices and indptr at `object`; of `/`, also the only such
// group below it in a file without other arrays. Nothing where there is no matrix of that kind. Collective. Throws
// as sparse::mmread and sparse::group_info.
std::optional<Matrix> open_matrix(const std::string& file, const std::string& object);

// Throws InvalidArgument where a sparse matrix cannot be written to a file of that name.
void check_holds_sparse(const std::string& file);

}  // namespace quarry::apps
