// Sparse matrices in chunks of rows beside those of one process, for tests on one rank and on several.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "quarry/local/sparse/arithmetic.h"
#include "quarry/local/sparse/construct.h"
#include "quarry/local/sparse/products.h"
#include "tests/support/evaluate.h"
#include "tests/support/tile_rows.h"

namespace quarry::testing {

namespace local_sparse = quarry::local::sparse;

constexpr local::DType kSparseTypes[] = {local::DType::float64, local::DType::complex64, local::DType::int64,
                                         local::DType::float32};

// Small integers, about a fifth of the elements, with two empty rows; duplicates and rows in no order where asked for.
inline local_sparse::SparseArray sparse_matrix(const local::Dims& shape, local::DType dtype, int64_t seed = 1,
                                               bool tangled = false) {
  std::vector<int64_t> indices, offsets{0};
  std::vector<std::complex<double>> values;
  uint64_t state = static_cast<uint64_t>(seed) * 7919 + 13;
  const auto next = [&](int64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n));
  };
  for (int64_t i = 0; i < shape[0]; ++i) {
    std::vector<int64_t> columns;
    if (i % 7 != 3 && shape[1] > 0)
      for (int64_t k = 0; k < std::min<int64_t>(shape[1], 4); ++k) columns.push_back(next(shape[1]));
    if (!tangled) {
      std::sort(columns.begin(), columns.end());
      columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    }
    for (const int64_t column : columns) {
      indices.push_back(column);
      values.emplace_back(static_cast<double>(next(17)) - 8, static_cast<double>(next(5)));
    }
    offsets.push_back(std::ssize(indices));
  }
  const local::NdArray all = local::from_vector(values);
  return local_sparse::csr_array((local::is_complex(dtype) ? all : all.real()).astype(dtype),
                                 local::from_vector(indices), local::from_vector(offsets), shape);
}

inline local::NdArray adjoint_of(const local::NdArray& dense) {
  return (local::is_complex(dense.dtype()) ? local::conjugate(dense) : dense).T().copy();
}

// Everything that a matrix has, in chunks of that many rows, against the dense local one. Values are small integers, so
// that sums are exact.
inline void check_sparse(const local_sparse::SparseArray& expected, int64_t row_chunk) {
  SCOPED_TRACE(fmt::format("{} {} in chunks of {} rows", local::to_string(expected.shape()),
                           local::name(expected.dtype()), row_chunk));
  const local::DType dtype = expected.dtype();
  const int64_t m = expected.rows(), n = expected.columns();
  const local::NdArray dense = expected.toarray();
  const sparse::SparseArray a = sparse::csr_array(expected, {.row_chunk = row_chunk});
  EXPECT_EQ(a.shape(), expected.shape());
  EXPECT_EQ(a.dtype(), dtype);
  EXPECT_EQ(a.nnz(), expected.nnz());
  EXPECT_EQ(a.chunks(), AxisChunks(m, row_chunk));
  const auto expect = [](const Array& found, const local::NdArray& wanted, const char* what) {
    SCOPED_TRACE(what);
    EXPECT_EQ(found.dtype(), wanted.dtype());
    EXPECT_TRUE(close(found.to_host(), wanted));
  };
  const auto same = [](const sparse::SparseArray& found, const local::NdArray& wanted, const char* what) {
    SCOPED_TRACE(what);
    EXPECT_EQ(found.dtype(), wanted.dtype());
    EXPECT_TRUE(close(found.toarray().to_host(), wanted));
    EXPECT_TRUE(close(found.to_host().toarray(), wanted));
  };
  same(a, dense, "itself");
  const auto operand = [&](int64_t rows, int64_t columns) {
    return (local::arange(rows * columns) % 5 - 2).astype(dtype).reshape({rows, columns});
  };
  const local::NdArray x = operand(n, 1).reshape({n}), many = operand(n, 5), left = operand(m, 1).reshape({m});
  expect(sparse::matmul(a, Array::from_local(x).rechunk({4})), local::matmul(dense, x), "matmul");
  expect(sparse::matmul(a, Array::from_local(many).rechunk({3, 2})), local::matmul(dense, many), "matmul with many");
  const sparse::SparseArray turned = a.T();
  same(turned, dense.T().copy(), "transpose");
  expect(sparse::matmul(turned, Array::from_local(left).rechunk({3})), local::matmul(dense.T().copy(), left), "A^T x");
  expect(sparse::matmul(a.H(), Array::from_local(left)), local::matmul(adjoint_of(dense), left), "A^H x");
  expect(a.sum(), local::sum(dense), "sum");
  expect(a.sum(0), local::sum(dense, 0), "sum of columns");
  expect(a.sum(1), local::sum(dense, 1), "sum of rows");
  expect(a.diagonal(), local::diagonal(dense), "diagonal");
  for (const int64_t k : {int64_t{1}, int64_t{-1}, row_chunk, -row_chunk - 1, n - 1, 1 - m})
    expect(a.diagonal(k), local::diagonal(dense, k), "other diagonal");
  for (const int64_t k : {n, n + 1, -m, -m - 1}) EXPECT_EQ(a.diagonal(k).size(), 0);
  const local::NdArray by_row = (local::arange(m) % 3 + 1).astype(dtype).reshape({m, 1});
  const local::NdArray by_column = (local::arange(n) % 4 + 1).astype(dtype), all = operand(m, n);
  same(a.multiply(Array::from_local(by_row).rechunk({2, 1})), dense * by_row, "rows scaled");
  same(a.multiply(Array::from_local(by_column).rechunk({3})), dense * by_column, "columns scaled");
  same(a.divide(Array::from_local(by_column)), dense / by_column, "columns divided");
  same(a.multiply(Array::from_local(all).rechunk({3, 4})), dense * all, "multiplied by a dense matrix");
  same(a * local::Scalar(3), dense * 3, "times a number");
  same(-a, -dense, "negative");
  const local_sparse::SparseArray second = sparse_matrix(expected.shape(), dtype, 5);
  const sparse::SparseArray b = sparse::csr_array(second, {.row_chunk = std::max<int64_t>(row_chunk - 1, 1)});
  same(a + b, dense + second.toarray(), "sum of two");
  same(a - b, dense - second.toarray(), "difference");
  same(a.multiply(b), dense * second.toarray(), "product of elements");
  // Rows of the second matrix that lie in several of its chunks, and one by its transpose.
  const local_sparse::SparseArray third = sparse_matrix({n, 11}, dtype, 9);
  for (const int64_t chunk : {int64_t{2}, std::max<int64_t>(n, 1)}) {
    const sparse::SparseArray found = sparse::matmul(a, sparse::csr_array(third, {.row_chunk = chunk}));
    same(found, local::matmul(dense, third.toarray()), "product of two");
    EXPECT_EQ(found.chunks(), a.chunks());
    EXPECT_EQ(found.nnz(), local_sparse::matmul(expected, third).nnz());
  }
  same(sparse::matmul(a, turned), local::matmul(dense, dense.T().copy()), "A A^T");
  for (const auto& [start, stop] : {std::pair(int64_t{0}, m), {m / 3, m - 1}, {m / 2, m / 2}}) {
    const local::Slice part{start, stop, std::nullopt};
    same(a.rows(part), dense[{part}].copy(), "rows");
  }
  for (const local::Slice& part : {local::Slice{{}, {}, 2}, {{}, {}, -1}, {m - 1, 0, -3}, {2, 1, 5}})
    same(a.rows(part), dense[{part}].copy(), "rows with a step");
  // In any order, several times, from the end; none; and by masks, in the chunks that they have.
  const auto listed = [](int64_t extent, int64_t count) {
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < count; ++i) positions.push_back((i * 5 + 2) % extent - (i % 3 == 0 ? extent : 0));
    return local::from_vector(positions);
  };
  for (const int64_t count : {int64_t{0}, int64_t{1}, m, 2 * m}) {
    const local::NdArray list = listed(m, count);
    same(a.rows_at(Array::from_local(list).rechunk({3})), local::take(dense, list, 0), "rows of a list");
  }
  for (const int64_t count : {int64_t{0}, int64_t{1}, n, 2 * n}) {
    const local::NdArray list = listed(n, count);
    same(a.columns_at(Array::from_local(list).rechunk({3})), local::take(dense, list, 1), "columns of a list");
  }
  const auto masked = [](int64_t extent) { return local::arange(extent) % 3 == 1; };
  same(a.rows_at(Array::from_local(masked(m)).rechunk({4})), local::compress(masked(m), dense, 0), "rows by a mask");
  same(a.columns_at(Array::from_local(masked(n))), local::compress(masked(n), dense, 1), "columns by a mask");
  same(a.power(3), local::power(dense, 3), "power");
  for (const local::Slice& part :
       {local::Slice{}, {n / 3, n - 1, {}}, {n / 2, n / 2, {}}, {{}, {}, -1}, {-1, 0, -2}, {-100, 100, 3}})
    same(a.columns(part), dense[{local::full_slice, part}].copy(), "columns");
  same(sparse::csr_array(Array::from_local(dense).rechunk({row_chunk, 3})), dense, "of a dense matrix");
  const sparse::SparseArray clean = a.sum_duplicates();
  EXPECT_LE(clean.nnz(), a.nnz());
  same(clean, dense, "without duplicates");
  EXPECT_EQ(clean.eliminate_zeros().nnz(), local::count_nonzero(dense).item<int64_t>());
  const local_sparse::SparseArray coo = expected.tocoo();
  same(sparse::coo_array(Array::from_local(coo.data()), Array::from_local(coo.row()), Array::from_local(coo.col()),
                         expected.shape(), {.row_chunk = row_chunk}),
       dense, "of coordinates");
  const local_sparse::SparseArray csc = expected.tocsc();
  same(sparse::csc_array(Array::from_local(csc.data()).rechunk({5}), Array::from_local(csc.indices()),
                         Array::from_local(csc.indptr()), expected.shape()),
       dense, "of columns");
}

// The five points of the Laplacian on a square of k x k.
inline local_sparse::SparseArray laplacian(int64_t k) {
  const local::NdArray two = local::full({k}, 2.), one = local::full({k - 1}, -1.);
  const auto line = local_sparse::diags_array({one, two, one}, {-1, 0, 1}, Dims{k, k}, local_sparse::Format::csr);
  return local_sparse::kronsum(line, line, local_sparse::Format::csr);
}

}  // namespace quarry::testing
