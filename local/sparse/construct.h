// Makers of sparse matrices, by SciPy's names. `format` is that of the result; matrices are made on the device of their
// arguments, else on the current one. As in SciPy, functions whose names end in _array, and bmat(), give arrays, the
// older ones beside them (eye, identity, diags, spdiags, random, rand) matrices (sparse_matrix.h), and what is made of
// others is a matrix where all of them are.
#pragma once

#include "quarry/local/ops/random/random.h"
#include "quarry/local/sparse/sparse_matrix.h"

namespace quarry::local::sparse {

using OptionalFormat = std::optional<Format>;

// Ones on diagonal k. Without a format DIA.
SparseMatrix eye(int64_t m, std::optional<int64_t> n = {}, int64_t k = 0, DType dtype = DType::float64,
                 OptionalFormat format = {});
SparseArray eye_array(int64_t m, std::optional<int64_t> n = {}, int64_t k = 0, DType dtype = DType::float64,
                      OptionalFormat format = {});
SparseMatrix identity(int64_t n, DType dtype = DType::float64, OptionalFormat format = {});
// diagonals[k], of the length of that diagonal or of one element, on diagonal offsets[k]. Without a shape square, as
// large as the first diagonal asks for.
SparseMatrix diags(const std::vector<NdArray>& diagonals, const std::vector<int64_t>& offsets = {0},
                   const std::optional<Dims>& shape = {}, OptionalFormat format = {}, std::optional<DType> dtype = {});
SparseArray diags_array(const std::vector<NdArray>& diagonals, const std::vector<int64_t>& offsets = {0},
                        const std::optional<Dims>& shape = {}, OptionalFormat format = {},
                        std::optional<DType> dtype = {});
// The rows of `data` as dia_array() takes them.
SparseMatrix spdiags(const NdArray& data, const std::vector<int64_t>& offsets, int64_t m, int64_t n,
                     OptionalFormat format = {});

// The Kronecker product, CSR; kronsum: kron(I_n, a) + kron(b, I_m) of square matrices.
SparseArray kron(const SparseArray& a, const SparseArray& b, OptionalFormat format = {});
SparseArray kronsum(const SparseArray& a, const SparseArray& b, OptionalFormat format = {});

// Blocks; nothing stands for zeros. Throw InvalidArgument naming the block whose shape does not fit. COO without a
// format, or CSR (CSC) where all blocks are stacked in the direction of their lines.
using BlockRow = std::vector<std::optional<SparseArray>>;
SparseArray block_array(const std::vector<BlockRow>& blocks, OptionalFormat format = {},
                        std::optional<DType> dtype = {});
SparseArray bmat(const std::vector<BlockRow>& blocks, OptionalFormat format = {}, std::optional<DType> dtype = {});
SparseArray block_diag(const std::vector<SparseArray>& matrices, OptionalFormat format = {},
                       std::optional<DType> dtype = {});
SparseArray hstack(const std::vector<SparseArray>& blocks, OptionalFormat format = {}, std::optional<DType> dtype = {});
SparseArray vstack(const std::vector<SparseArray>& blocks, OptionalFormat format = {}, std::optional<DType> dtype = {});

// round(density m n) elements at distinct random positions, with values uniform in [0, 1) (integers: over the whole
// range; complex: both parts). Memory for m n keys where the density is above 1/8. rand() and random_array() are the
// same.
SparseMatrix random(int64_t m, int64_t n, double density = 0.01, Format format = Format::coo,
                    DType dtype = DType::float64, std::optional<Generator> rng = {});
SparseMatrix rand(int64_t m, int64_t n, double density = 0.01, Format format = Format::coo,
                  DType dtype = DType::float64, std::optional<Generator> rng = {});
SparseArray random_array(const Dims& shape, double density = 0.01, Format format = Format::coo,
                         DType dtype = DType::float64, std::optional<Generator> rng = {});

// On and below, on and above diagonal k. COO.
SparseArray tril(const SparseArray& a, int64_t k = 0, OptionalFormat format = {});
SparseArray triu(const SparseArray& a, int64_t k = 0, OptionalFormat format = {});

// The same of matrices.
inline SparseMatrix kron(const SparseMatrix& a, const SparseMatrix& b, OptionalFormat format = {}) {
  return SparseMatrix(kron(static_cast<const SparseArray&>(a), static_cast<const SparseArray&>(b), format));
}
inline SparseMatrix kronsum(const SparseMatrix& a, const SparseMatrix& b, OptionalFormat format = {}) {
  return SparseMatrix(kronsum(static_cast<const SparseArray&>(a), static_cast<const SparseArray&>(b), format));
}
inline SparseMatrix tril(const SparseMatrix& a, int64_t k = 0, OptionalFormat format = {}) {
  return SparseMatrix(tril(static_cast<const SparseArray&>(a), k, format));
}
inline SparseMatrix triu(const SparseMatrix& a, int64_t k = 0, OptionalFormat format = {}) {
  return SparseMatrix(triu(static_cast<const SparseArray&>(a), k, format));
}
// Braces of matrices alone choose the first of each, other braces the functions above.
#define QUARRY_STACK_OF_MATRICES(name)                                                                \
  inline SparseMatrix name(std::initializer_list<SparseMatrix> blocks, OptionalFormat format = {},    \
                           std::optional<DType> dtype = {}) {                                         \
    return SparseMatrix(name(std::vector<SparseArray>(blocks.begin(), blocks.end()), format, dtype)); \
  }                                                                                                   \
  inline SparseMatrix name(const std::vector<SparseMatrix>& blocks, OptionalFormat format = {},       \
                           std::optional<DType> dtype = {}) {                                         \
    return SparseMatrix(name(std::vector<SparseArray>(blocks.begin(), blocks.end()), format, dtype)); \
  }
QUARRY_STACK_OF_MATRICES(block_diag)
QUARRY_STACK_OF_MATRICES(hstack)
QUARRY_STACK_OF_MATRICES(vstack)
#undef QUARRY_STACK_OF_MATRICES

struct Found {
  NdArray rows, columns, values;  // of the elements that are not zero, by rows
};
Found find(const SparseArray& a);

}  // namespace quarry::local::sparse
