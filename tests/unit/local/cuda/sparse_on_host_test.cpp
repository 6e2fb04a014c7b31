// Kernels for sparse matrices, compiled by NVRTC, and run on the host: rows of all lengths, odd numbers of columns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/sparse/kernels.h"
#include "tests/unit/local/cuda/kernels_on_host.h"

namespace quarry::local::cuda {
namespace {

TEST(CudaCompile, SparseKernels) {
  const auto expect_kernels = [](const ModuleSource& source) {
    const std::string code = compile(source.text, 90);
    for (const std::string& kernel : source.kernels) EXPECT_NE(code.find(kernel), std::string::npos) << kernel;
  };
  for (const DType index : {DType::int32, DType::int64}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::complex64, DType::complex128})
      expect_kernels(row_products_source({dtype, index}));
    for (const int64_t itemsize : {1, 2, 4, 8, 16}) {
      expect_kernels(row_transposes_source({index, itemsize, itemsize > 4, itemsize == 8}));
      expect_kernels(short_transposes_source(index, itemsize));
    }
  }
}

int64_t address(const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); }
std::vector<int64_t> slots(std::vector<int64_t> values) {
  values.resize(16);
  return values;
}
bool compiled(KernelsOnHost& kernels, const ModuleSource& source) {
  kernels.add(source, "sparse");
  try {
    kernels.compile();
  } catch (const NotSupported&) {
    return false;
  }
  return true;
}

// Rows of these lengths; columns and values by a rule.
template <class T, class I>
struct Matrix {
  Matrix(const std::vector<int64_t>& lengths, int64_t columns) : columns(columns) {
    offsets.push_back(0);
    for (const int64_t length : lengths) {
      for (int64_t k = 0; k < length; ++k) {
        indices.push_back(static_cast<I>((k * 7 + static_cast<int64_t>(offsets.size()) * 3) % columns));
        values.push_back(value(static_cast<int64_t>(values.size())));
      }
      offsets.push_back(static_cast<I>(values.size()));
    }
  }
  static T value(int64_t k) {
    const auto x = static_cast<float>(k % 17 - 8), y = static_cast<float>(k % 5 - 2);
    if constexpr (requires(T z) { z.imag(); })
      return T(x, y);
    else
      return static_cast<T>(x) + static_cast<T>(y) / 4;
  }
  int64_t rows() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t nonzeros() const { return static_cast<int64_t>(values.size()); }

  int64_t columns;
  std::vector<T> values;
  std::vector<I> indices, offsets;
};

template <class T, class I>
void expect_products(DType dtype, DType index) {
  KernelsOnHost kernels;
  if (!compiled(kernels, row_products_source({dtype, index}))) GTEST_SKIP() << "no compiler";
  const std::vector<int64_t> short_rows = {0, 1, 5, 5, 4, 3, 0, 129, 2, 700, 8, 1, 0, 5, 513, 9};
  const std::vector<int64_t> huge = {3, 70000, 0, 5, 40000, 100001, 66000};
  for (const auto& [lengths, widths] : {std::pair{short_rows, std::vector<int64_t>{2, 3, 4, 8, 16, 17, 33, 64, 130}},
                                        std::pair{huge, std::vector<int64_t>{2, 16}}}) {
    const Matrix<T, I> a(lengths, 50);
    for (const int64_t width : widths) {
      const auto size = static_cast<int64_t>(sizeof(T));
      const int64_t lanes = width * size % 16 == 0 ? std::max<int64_t>(1, 16 / size) : 1;
      const std::string suffix = lanes > 1 ? "wide" : "one";
      int64_t shift = 0;
      while ((lanes << shift) < width && shift < 5) ++shift;
      std::vector<T> b(static_cast<size_t>(50 * width)), c(static_cast<size_t>(a.rows() * width), T(99)),
          pieces(static_cast<size_t>(2 * (a.nonzeros() / 32768 + 1) * width), T(-1000));
      for (size_t k = 0; k < b.size(); ++k) b[k] = Matrix<T, I>::value(static_cast<int64_t>(k) * 3);
      const std::vector<int64_t> task =
          slots({address(a.values.data()), address(a.indices.data()), address(a.offsets.data()), address(b.data()),
                 address(c.data()), address(pieces.data()), a.rows(), a.nonzeros(), width, width, width, shift});
      ASSERT_EQ(kernels.call("multiply_" + suffix, 2, 2, task), "");
      if (a.nonzeros() > 65536) {
        ASSERT_EQ(kernels.call("sum_pieces_" + suffix, 3, 1, task), "");
        ASSERT_EQ(kernels.call("add_up_pieces", 3, 1, task), "");
      }
      for (int64_t i = 0; i < a.rows(); ++i) {
        for (int64_t j = 0; j < width; ++j) {
          // Multiples of a quarter: sums of float64 are exact.
          T sum(0);
          double bound = 0;
          for (int64_t k = a.offsets[static_cast<size_t>(i)]; k < a.offsets[static_cast<size_t>(i) + 1]; ++k) {
            const T term = a.values[static_cast<size_t>(k)] *
                           b[static_cast<size_t>(a.indices[static_cast<size_t>(k)] * width + j)];
            sum += term;
            bound += std::abs(term);
          }
          const bool single = dtype == DType::float32 || dtype == DType::complex64;
          EXPECT_LE(std::abs(c[static_cast<size_t>(i * width + j)] - sum), single ? 1e-4 * bound : 0)
              << i << ' ' << j << " of " << width;
        }
      }
    }
  }
}

TEST(SparseOnHost, ProductsOfFloat32) { expect_products<float, int32_t>(DType::float32, DType::int32); }
TEST(SparseOnHost, ProductsOfFloat64) { expect_products<double, int64_t>(DType::float64, DType::int64); }
TEST(SparseOnHost, ProductsOfComplex64) {
  expect_products<std::complex<float>, int64_t>(DType::complex64, DType::int64);
}
TEST(SparseOnHost, ProductsOfComplex128) {
  expect_products<std::complex<double>, int32_t>(DType::complex128, DType::int32);
}

template <class I, class K, class P>
void expect_transposes(DType index) {
  KernelsOnHost kernels;
  if (!compiled(kernels, row_transposes_source({index, sizeof(double), sizeof(K) == 8, sizeof(P) == 8})))
    GTEST_SKIP() << "no compiler";
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{1}, std::vector<int64_t>{0, 3, 0, 5000, 0, 0, 7, 0}, std::vector<int64_t>(1000, 5)}) {
    const Matrix<double, I> a(lengths, 3000);
    const auto n = static_cast<size_t>(a.nonzeros());
    std::vector<K> keys(n);
    std::vector<P> positions(n);
    std::vector<I> numbers(n), rows(n), offsets(static_cast<size_t>(a.columns) + 1, I(-1));
    std::vector<double> values(n);
    ASSERT_EQ(kernels.call("number_elements", 2, 1,
                           slots({address(a.indices.data()), address(a.offsets.data()), address(keys.data()),
                                  address(positions.data()), address(numbers.data()), a.rows(), a.nonzeros()})),
              "");
    for (size_t k = 0; k < n; ++k) {
      ASSERT_EQ(keys[k], static_cast<K>(a.indices[k]));
      ASSERT_EQ(positions[k], k);
      const auto row = static_cast<size_t>(numbers[k]);
      ASSERT_TRUE(a.offsets[row] <= static_cast<I>(k) && static_cast<I>(k) < a.offsets[row + 1]);
    }
    std::stable_sort(positions.begin(), positions.end(), [&](P x, P y) { return keys[x] < keys[y]; });
    std::sort(keys.begin(), keys.end());
    ASSERT_EQ(kernels.call("find_columns", 2, 1,
                           slots({address(keys.data()), address(offsets.data()), a.columns, a.nonzeros()})),
              "");
    for (int64_t column = 0; column <= a.columns; ++column) {
      const auto place = std::lower_bound(keys.begin(), keys.end(), static_cast<K>(column)) - keys.begin();
      ASSERT_EQ(offsets[static_cast<size_t>(column)], place) << column;
    }
    ASSERT_EQ(kernels.call("collect_elements", 2, 1,
                           slots({address(a.values.data()), address(numbers.data()), address(positions.data()),
                                  address(values.data()), address(rows.data()), a.nonzeros()})),
              "");
    for (size_t k = 0; k < n; ++k) {
      ASSERT_EQ(values[k], a.values[positions[k]]);
      ASSERT_EQ(rows[k], numbers[positions[k]]);
    }
  }
}

TEST(SparseOnHost, TransposesWithShortIndices) { expect_transposes<int32_t, uint32_t, uint32_t>(DType::int32); }
TEST(SparseOnHost, TransposesWithLongIndices) { expect_transposes<int64_t, uint64_t, uint64_t>(DType::int64); }

template <class I>
void expect_short_transposes(DType index) {
  KernelsOnHost kernels;
  if (!compiled(kernels, short_transposes_source(index, sizeof(double)))) GTEST_SKIP() << "no compiler";
  for (const auto& [lengths, columns] : {std::pair{std::vector<int64_t>{1}, int64_t{1}},
                                         {std::vector<int64_t>{0, 3, 0, 1500, 0, 0, 7, 0}, 700},
                                         {std::vector<int64_t>(1000, 5), 999},
                                         {std::vector<int64_t>(200, 60), 200},
                                         {{64}, 1},
                                         {{65}, 1}}) {
    const Matrix<double, I> a(lengths, columns);
    const auto n = static_cast<size_t>(a.nonzeros());
    std::vector<uint32_t> counts(static_cast<size_t>(columns) + 1);
    std::vector<uint8_t> numbers(n);
    uint64_t many = 0;
    ASSERT_EQ(kernels.call("count_elements", 2, 1,
                           slots({address(a.indices.data()), address(counts.data()), address(numbers.data()),
                                  address(&many), a.nonzeros()})),
              "");
    ASSERT_EQ(many != 0, *std::max_element(counts.begin(), counts.end()) > 64);
    if (many != 0) continue;
    std::vector<I> begins(counts.begin(), counts.end());
    for (size_t c = 1; c < begins.size(); ++c) begins[c] += begins[c - 1];
    ASSERT_EQ(begins.back(), static_cast<I>(n));
    std::vector<uint64_t> pairs(n);
    ASSERT_EQ(kernels.call("place_elements", 2, 1,
                           slots({address(a.indices.data()), address(a.offsets.data()), address(numbers.data()),
                                  address(begins.data()), address(pairs.data()), a.rows(), a.nonzeros()})),
              "");
    std::vector<uint64_t> order(n);
    for (size_t k = 0; k < n; ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(), [&](uint64_t x, uint64_t y) { return a.indices[x] < a.indices[y]; });
    for (const int64_t each : {1, 100, 256}) {
      std::vector<double> values(n);
      std::vector<I> rows(n);
      ASSERT_EQ(kernels.call("finish_columns", 2, 1,
                             slots({address(pairs.data()), address(a.values.data()), address(begins.data()),
                                    address(values.data()), address(rows.data()), columns, each})),
                "");
      for (size_t k = 0; k < n; ++k) {
        ASSERT_EQ(values[k], a.values[order[k]]);
        const auto row = static_cast<size_t>(rows[k]);
        ASSERT_TRUE(a.offsets[row] <= static_cast<I>(order[k]) && static_cast<I>(order[k]) < a.offsets[row + 1]);
      }
    }
  }
}

TEST(SparseOnHost, ShortColumns) {
  expect_short_transposes<int32_t>(DType::int32);
  expect_short_transposes<int64_t>(DType::int64);
}

}  // namespace
}  // namespace quarry::local::cuda
