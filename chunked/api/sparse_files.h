// What files hold of sparse matrices, for programs that show and store them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/sparse.h"
#include "quarry/io/attribute.h"
#include "quarry/io/dataset.h"

namespace quarry::sparse {

// Whether the name is that of a Matrix Market file, which mmread() takes.
bool is_matrix_market(const std::string& file);
// Whether such a file is in array format. Collective: rank 0 reads its first lines. Throws as local::sparse::mminfo().
bool is_dense_matrix_market(const std::string& file);
// A file in array format as a dense matrix. Each rank reads it as a whole. Throws as local::sparse::mmread().
Array mmread_dense(const std::string& file);

// Reads all of such a file, piece by piece, and returns its bytes. Not collective. Throws as local::sparse::mmread().
int64_t verify_matrix_market(const std::string& file);

// A group with the data sets data, indices and indptr.
struct GroupInfo {
  std::string format;         // "csr" or "csc"
  std::optional<Dims> shape;  // where the file tells of it; else `major` of rows (csr) or columns (csc)
  int64_t major = 0, nnz = 0;
  DType dtype = DType::float64;
};
// Nothing where the group has not the three, each of one axis. `objects`: of the file, those below the group among
// them. Not collective. Throws InvalidArgument for another format.
std::optional<GroupInfo> group_info(const std::string& file, const std::string& group,
                                    std::span<const io::ObjectInfo> objects);
// Whether the group is one, on every rank; not where there is no such file or group. Collective. Throws as
// group_info().
bool holds_matrix(const std::string& file, const std::string& group);

// What to_hdf5() writes: the data sets, and the attributes of the group. Lazy.
std::vector<StoreItem> group_items(const std::string& group, const SparseArray& a);
std::map<std::string, io::Attribute> group_attributes(const SparseArray& a);

}  // namespace quarry::sparse
