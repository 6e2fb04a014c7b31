// Diagonals and triangles of matrices, and the positions of their elements. Lazy.
#pragma once

#include <array>

#include "quarry/chunked/api/operand.h"

namespace quarry {

// 1 where column - row <= k.
Array tri(int64_t N, std::optional<int64_t> M = std::nullopt, int64_t k = 0, DType dtype = DType::float64);
// The matrices in the last two axes without what is above diagonal k, or below it. A vector stands for the rows of a
// square.
Array tril(const Array& m, int64_t k = 0);
Array triu(const Array& m, int64_t k = 0);

// The elements at (i, i + offset) of two axes, as the last axis. Of a file only they are read, or where its chunks are
// compressed those that hold them. Throws InvalidArgument for fewer than two dimensions and for equal axes.
Array diagonal(const Array& a, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1);
// A matrix with v on diagonal k, or that diagonal of a matrix.
Array diag(const Array& v, int64_t k = 0);
Array diagflat(const Array& v, int64_t k = 0);
// The sum of diagonal().
Array trace(const Array& a, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1,
            std::optional<DType> dtype = std::nullopt);
// `a` with `val`, repeated as necessary, on the main diagonal: a new array. A matrix with more rows than columns has
// further diagonals below with `wrap`. Throws InvalidArgument for fewer than two dimensions, and for more unless they
// are equal.
Array fill_diagonal(const Array& a, const Operand& val, bool wrap = false);

// The rows and columns of the elements of an n x m triangle, in C order. They take no storage.
std::array<Array, 2> tril_indices(int64_t n, int64_t k = 0, std::optional<int64_t> m = std::nullopt);
std::array<Array, 2> triu_indices(int64_t n, int64_t k = 0, std::optional<int64_t> m = std::nullopt);
std::array<Array, 2> tril_indices_from(const Array& arr, int64_t k = 0);
std::array<Array, 2> triu_indices_from(const Array& arr, int64_t k = 0);

}  // namespace quarry
