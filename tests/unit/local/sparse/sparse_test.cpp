// What the oracle does not say: formats kept, errors, large and odd matrices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "quarry/local/sparse/sparse.h"
#include "tests/support/on_devices.h"

namespace quarry::local::sparse {
namespace {

class Sparse : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Sparse);

NdArray ints(const std::vector<int64_t>& values) { return from_vector(values); }
NdArray cast_to(const NdArray& array, DType dtype) { return array.astype(dtype); }
NdArray reals(const std::vector<double>& values) { return from_vector(values); }
double distance(const NdArray& a, const NdArray& b) {
  return a.size() == 0 ? 0 : ops::max(ops::absolute(a - b)).item().as_double();
}

// The message of what `f` throws as an E.
template <class E, class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "nothing was thrown";
}

TEST_P(Sparse, MakersSumDuplicatesOnlyWhenCompressed) {
  const SparseArray coo = coo_array(reals({1, 2, 3, 4}), ints({2, 0, 2, 1}), ints({1, 3, 1, 0}), Dims{3, 4});
  EXPECT_EQ(coo.nnz(), 4);
  EXPECT_FALSE(coo.has_canonical_format());
  const SparseArray csr = coo.tocsr();
  EXPECT_EQ(csr.nnz(), 3);
  EXPECT_TRUE(csr.has_canonical_format());
  EXPECT_EQ(csr.indptr().dtype(), DType::int32);
  EXPECT_EQ(to_vector<int32_t>(csr.indptr()), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(to_vector<int32_t>(csr.indices()), (std::vector<int32_t>{3, 0, 1}));
  EXPECT_EQ(to_vector<double>(csr.data()), (std::vector<double>{2, 4, 4}));
  EXPECT_EQ(coo_array(reals({1, 2}), ints({4, 0}), ints({1, 2})).shape(), (Dims{5, 3}));
  EXPECT_EQ(csr.item(2, 1).as_double(), 4);
  EXPECT_EQ(csr.item(-1, -4).as_double(), 0);
}

TEST_P(Sparse, UnsortedAndRepeatedIndicesAreLegalAndKnown) {
  const SparseArray a = csr_array(reals({1, 2, 3, 4}), ints({3, 1, 1, 0}), ints({0, 3, 4}), Dims{2, 4});
  EXPECT_FALSE(a.has_sorted_indices());
  EXPECT_FALSE(a.has_canonical_format());
  EXPECT_THAT(message<InvalidArgument>([&] { a.check_canonical(); }), testing::HasSubstr("indices: not sorted"));
  SparseArray sorted = a;
  sorted.sort_indices();
  EXPECT_TRUE(sorted.has_sorted_indices());
  EXPECT_FALSE(sorted.has_canonical_format());
  EXPECT_THAT(message<InvalidArgument>([&] { sorted.check_canonical(); }), testing::HasSubstr("occurs twice"));
  sorted.sum_duplicates();
  EXPECT_TRUE(sorted.has_canonical_format());
  EXPECT_EQ(sorted.nnz(), 3);
  EXPECT_EQ(a.nnz(), 4);  // copies made before keep their arrays
  EXPECT_EQ(distance(a.toarray(), sorted.toarray()), 0);
  EXPECT_EQ(to_vector<double>(matmul(a, reals({1, 10, 100, 1000}))), (std::vector<double>{1050, 4}));
}

TEST_P(Sparse, BadPartsAreNamed) {
  const NdArray data = reals({1, 2}), two = ints({0, 1});
  const auto csr = [&](const NdArray& indices, const NdArray& indptr) {
    return message<InvalidArgument>([&] { csr_array(data, indices, indptr, Dims{2, 3}); });
  };
  EXPECT_EQ(csr(ints({0, 3}), ints({0, 1, 2})), "indices: position 3 is out of range for an axis of 3");
  EXPECT_EQ(csr(ints({-1, 1}), ints({0, 1, 2})), "indices: position -1 is out of range for an axis of 3");
  EXPECT_EQ(csr(two, ints({0, 2})), "indptr has 2 elements, it needs 3");
  EXPECT_EQ(csr(two, ints({1, 1, 2})), "indptr must start with 0, not 1");
  EXPECT_EQ(csr(two, ints({0, 1, 3})), "indptr ends with 3, but indices and data have 2 elements");
  EXPECT_EQ(csr(two, ints({0, 3, 2})), "indptr must not decrease");
  EXPECT_EQ(csr(ints({0, 1, 1}), ints({0, 1, 2})), "data has 2 elements and indices has 3");
  EXPECT_THAT(message<TypeError>([&] {
                csr_array(data, reals({0, 1}), ints({0, 1, 2}));
              }),
              testing::HasSubstr("indices must be integers"));
  EXPECT_THAT(message<InvalidArgument>([&] {
                coo_array(data, ints({0, 5}), two, Dims{2, 3});
              }),
              testing::HasSubstr("row: position 5"));
  EXPECT_THAT(message<InvalidArgument>([&] {
                coo_array(data, two, ints({0, 9}), Dims{2, 3});
              }),
              testing::HasSubstr("col: position 9"));
  EXPECT_THAT(message<InvalidArgument>([&] { coo_array(data, ints({0}), two); }), testing::HasSubstr("row has 1"));
  EXPECT_THAT(message<InvalidArgument>([&] {
                dia_array(data.reshape({2, 1}), ints({1, 1}), Dims{2, 2});
              }),
              testing::HasSubstr("offsets: 1 occurs twice"));
  EXPECT_THAT(message<InvalidArgument>([&] {
                dia_array(data.reshape({2, 1}), ints({1}), Dims{2, 2});
              }),
              testing::HasSubstr("data has 2 diagonals"));
  EXPECT_THROW(csr_array(NdArray({2, 2}, DType::float16)), TypeError);
  EXPECT_THROW(csr_array(reals({1, 2})), InvalidArgument);
  EXPECT_THROW(SparseArray(Format::csr, {2, -1}), InvalidArgument);
  EXPECT_THROW(SparseArray(Format::csr, {2, 3, 4}), InvalidArgument);
  EXPECT_THROW(parse_format("xyz"), InvalidArgument);
  EXPECT_THROW(parse_format("bsr"), NotSupported);
  const SparseArray a = csr_array(data, two, ints({0, 1, 2}), Dims{2, 3});
  EXPECT_THROW(a.tobsr(), NotSupported);
  EXPECT_THROW(a.todok(), NotSupported);
  EXPECT_THROW(a.tolil(), NotSupported);
  EXPECT_THROW(a.row(), InvalidArgument);
  EXPECT_THROW(a.index(2), IndexError);
  EXPECT_THROW(a.index(full_slice, -4), IndexError);
  EXPECT_THROW(a.index(std::vector<int64_t>{0, 2}), IndexError);
  EXPECT_THROW(a.index(newaxis), IndexError);
  EXPECT_THROW(a + a.T(), InvalidArgument);
  EXPECT_THROW(a + Scalar(1), NotSupported);
  EXPECT_THROW(matmul(a, a), InvalidArgument);
  EXPECT_THROW(matmul(a, reals({1, 2})), InvalidArgument);
  EXPECT_THROW(a.power(0), NotSupported);
  EXPECT_THROW(a.reshape({4, 2}), InvalidArgument);
  EXPECT_THROW(a.sum(2), IndexError);
  EXPECT_THROW(SparseArray(Format::csr, {0, 3}).max(), InvalidArgument);
  EXPECT_THROW(SparseArray(Format::csr, {2, 2}, DType::complex64).argmin(), TypeError);
}

TEST_P(Sparse, FormatsAreKept) {
  const SparseArray a = random(6, 6, 0.4, Format::csc, DType::float64, Generator(3));
  EXPECT_EQ((a + a).format(), Format::csc);
  EXPECT_EQ((a * 2.0).format(), Format::csc);
  EXPECT_EQ(a.tocoo().asformat("dia").format(), Format::dia);
  EXPECT_EQ(a.T().format(), Format::csr);
  EXPECT_EQ(a.T().T().data().raw(), a.data().raw());
  EXPECT_EQ(matmul(a, a).format(), Format::csc);
  EXPECT_EQ(hstack({a, a}).format(), Format::csc);
  EXPECT_EQ(a.index(Slice{1, 3, {}}).format(), Format::csc);
  EXPECT_TRUE(issparse(a) && !isspmatrix_csc(a) && !issparse(a.data()));
  EXPECT_EQ(swapaxes(a, 0, 1).format(), Format::csr);
  EXPECT_EQ(permute_dims(a, Axes{1, 0}).format(), Format::csr);
  EXPECT_EQ((a < Scalar(0.5)).dtype(), DType::bool_);
  EXPECT_EQ(get_index_dtype({a.indices()}), DType::int32);
  EXPECT_EQ(get_index_dtype({ints({1})}), DType::int64);
  EXPECT_EQ(get_index_dtype({ints({1})}, std::nullopt, true), DType::int32);
  EXPECT_EQ(get_index_dtype({}, int64_t{1} << 31), DType::int64);
}

TEST_P(Sparse, NanInfinityAndCancellation) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const SparseArray a = csr_array(from_vector<double>({0, nan, 1, inf, 0, -2}, {2, 3}));
  EXPECT_EQ(a.nnz(), 4);
  EXPECT_EQ((a - a).nnz(), 2);  // NaN and inf - inf stay
  EXPECT_TRUE(std::isnan(a.max().item().as_double()));
  EXPECT_TRUE(std::isnan(a.sum().item().as_double()));
  EXPECT_EQ(a.argmax().item().as_int64(), 1);
  EXPECT_EQ(a.argmin().item().as_int64(), 1);
  EXPECT_EQ(to_vector<int64_t>(a.argmax(0)), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ((a * 0.0).nnz(), 4);  // scaling keeps the structure, SciPy's too
  SparseArray zeros = csr_array(from_vector<double>({3, 0, 0, 5}, {2, 2})) * 0;
  zeros.eliminate_zeros();
  EXPECT_EQ(zeros.nnz(), 0);
}

TEST_P(Sparse, ProductsAgreeWithDenseOnes) {
  for (const DType dtype : {DType::float32, DType::float64, DType::complex64, DType::complex128}) {
    const SparseArray a = random(300, 200, 0.05, Format::csr, dtype, Generator(1));
    const SparseArray b = random(200, 170, 0.04, Format::csr, dtype, Generator(2));
    const NdArray left = a.toarray(), right = b.toarray();
    const double bound = itemsize(real_type(dtype)) == 8 ? 1e-13 : 1e-5;
    const SparseArray product = matmul(a, b);
    product.check_format();
    product.check_canonical();
    EXPECT_LT(distance(product.toarray(), local::linalg::matmul(left, right)), bound);
    EXPECT_LT(distance(matmul(a.tocsc(), b).toarray(), local::linalg::matmul(left, right)), bound);
    EXPECT_LT(distance(matmul(a, right), local::linalg::matmul(left, right)), bound);
    EXPECT_LT(distance(matmul(a.tocsc(), right), local::linalg::matmul(left, right)), bound);
    EXPECT_LT(distance(matmul(left, b), local::linalg::matmul(left, right)), bound);
    const NdArray x = right[{full_slice, 3}];  // strided
    EXPECT_LT(distance(matmul(a, x), local::linalg::matmul(left, x)), bound);
    EXPECT_LT(distance(matmul(a.index(Slice{7, 100, {}}), x), local::linalg::matmul(left, x)[{Slice{7, 100, {}}}]),
              bound);
  }
}

// Rows from none to more elements than one block of a GPU sums, and blocks of columns of odd widths.
TEST_P(Sparse, ProductsOfRowsOfAllLengths) {
  const int64_t columns = 150000;
  std::vector<int64_t> positions, offsets{0};
  for (const int64_t length : {int64_t{3}, int64_t{0}, int64_t{140000}, int64_t{1}, int64_t{300}, int64_t{70000}}) {
    for (int64_t k = 0; k < length; ++k) positions.push_back(k * (columns / length));
    offsets.push_back(static_cast<int64_t>(positions.size()));
  }
  const auto n = static_cast<int64_t>(positions.size());
  const NdArray values = ops::remainder(test::arange({n}), Scalar(11)) - Scalar(5);
  for (const DType dtype : {DType::float32, DType::float64, DType::complex64, DType::complex128}) {
    const SparseArray a = csr_array(cast_to(values, dtype), ints(positions), ints(offsets), Dims{6, columns});
    for (const int64_t width : {2, 3, 16, 40}) {
      const NdArray b = cast_to(ops::remainder(test::arange({columns * width}), Scalar(7)) - Scalar(3), dtype)
                            .reshape({columns, width});
      const NdArray c = matmul(a, b);
      for (int64_t j = 0; j < width; j += width - 1) {
        const NdArray column = matmul(a, b[{full_slice, j}]);
        // Sums of whole numbers below 2^24 are exact.
        EXPECT_EQ(distance(c[{full_slice, j}], column), 0) << name(dtype) << ' ' << width;
      }
    }
  }
}

TEST_P(Sparse, RowsToColumnsAndBack) {
  for (const DType dtype : {DType::bool_, DType::int16, DType::int32, DType::float64, DType::complex128}) {
    // Empty rows and columns, and both ends.
    const SparseArray a = csr_array(cast_to(reals({1, 2, 3, 4, 5, 6}), dtype), ints({0, 8, 2, 0, 2, 8}),
                                    ints({0, 0, 2, 3, 3, 6, 6}), Dims{6, 9});
    const SparseArray c = a.tocsc();
    EXPECT_EQ(to_vector<int32_t>(c.indptr()), (std::vector<int32_t>{0, 2, 2, 4, 4, 4, 4, 4, 4, 6}));
    EXPECT_EQ(to_vector<int32_t>(c.indices()), (std::vector<int32_t>{1, 4, 2, 4, 1, 4}));
    EXPECT_EQ(
        distance(cast_to(c.data(), DType::float64), cast_to(cast_to(reals({1, 4, 3, 5, 2, 6}), dtype), DType::float64)),
        0);
    EXPECT_EQ((a != c.tocsr()).nnz(), 0);
    EXPECT_TRUE(c.has_canonical_format());
  }
  for (const Dims& shape : {Dims{0, 3}, Dims{3, 0}, Dims{0, 0}, Dims{2, 1}}) {
    const SparseArray c = SparseArray(Format::csr, shape).tocsc();
    EXPECT_EQ(c.shape(), shape);
    EXPECT_EQ(c.nnz(), 0);
    EXPECT_EQ(ops::max(c.indptr()).item().as_int64(), 0);
  }
  // Short columns and long ones.
  for (const double density : {0.01, 0.1}) {
    const SparseArray large = random(3000, 2000, density, Format::csr, DType::float64, Generator(5));
    const SparseArray columns = large.tocsc();
    EXPECT_EQ(distance(columns.toarray(), large.toarray()), 0);
    EXPECT_TRUE(csc_array(columns.data(), columns.indices(), columns.indptr(), columns.shape()).has_canonical_format());
    EXPECT_EQ((large != columns.tocsr()).nnz(), 0);
  }
}

TEST_P(Sparse, LaplacianOfManyUnknowns) {
  const int64_t side = 300, n = side * side;
  const NdArray four = from_vector<double>({4}), minus = from_vector<double>({-1});
  const SparseArray line = diags({four * 0.5, minus, minus}, {0, -1, 1}, Dims{side, side}, Format::csr);
  const SparseArray a = kronsum(line, line, Format::csr);
  EXPECT_EQ(a.nnz(), 5 * n - 4 * side);
  EXPECT_TRUE(a.has_canonical_format());
  const NdArray x = test::arange({n}).astype(DType::float64);
  const NdArray grid = x.reshape({side, side});
  const NdArray y = matmul(a, x).reshape({side, side});
  // Second differences of a linear function vanish inside.
  EXPECT_EQ(ops::max(ops::absolute(y[{Slice{1, -1, {}}, Slice{1, -1, {}}}])).item<double>(), 0);
  EXPECT_EQ((y[{0, 0}].item<double>()), -1 - static_cast<double>(side));
  EXPECT_EQ((a - a.T()).nnz(), 0);
  EXPECT_EQ(a.trace().as_double(), 4.0 * static_cast<double>(n));
  EXPECT_EQ(a.tocsc().tocsr().nnz(), a.nnz());
  EXPECT_EQ((a != a.tocsc().tocsr()).nnz(), 0);
  EXPECT_EQ((a != a.todia().tocsr()).nnz(), 0);
  EXPECT_EQ(distance(a.sum(0), matmul(a, ops::square(x) * 0 + 1)), 0);
}

// What SciPy 1.17 answers for csr_array([[1, 2], [0, 3]]) and csr_matrix of the same.
TEST_P(Sparse, MatricesMultiplyAsMatricesAndArraysByElements) {
  const NdArray dense = reals({1, 2, 0, 3}).reshape({2, 2}), other = reals({1, 2, 3, 4}).reshape({2, 2});
  const NdArray x = reals({1, 2});
  const SparseArray a = csr_array(dense);
  const SparseMatrix m = csr_matrix(dense);
  const auto values = [](const auto& result) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(result)>, NdArray>)
      return to_vector<double>(result.astype(DType::float64));
    else
      return to_vector<double>(result.toarray().astype(DType::float64));
  };
  using Row = std::vector<double>;
  const Row elements{1, 4, 0, 9}, product{1, 8, 0, 9};
  // The left operand decides.
  EXPECT_EQ(values(a * a), elements);
  EXPECT_EQ(values(a * m), elements);
  EXPECT_EQ(values(m * a), product);
  EXPECT_EQ(values(m * m), product);
  EXPECT_EQ(values(matmul(a, m)), product);
  EXPECT_EQ(values(matmul(m, a)), product);
  EXPECT_EQ(values(m.multiply(a)), elements);
  EXPECT_EQ(values(m.dot(m)), product);
  static_assert(std::is_same_v<decltype(a * m), SparseArray> && std::is_same_v<decltype(m * a), SparseMatrix>);
  static_assert(std::is_same_v<decltype(a + m), SparseArray> && std::is_same_v<decltype(m + a), SparseMatrix>);
  static_assert(std::is_same_v<decltype(a == m), SparseArray> && std::is_same_v<decltype(m == a), SparseMatrix>);
  static_assert(std::is_same_v<decltype(m == m), SparseMatrix> && std::is_same_v<decltype(a != m), SparseArray>);
  static_assert(std::is_same_v<decltype(a < m), SparseArray> && std::is_same_v<decltype(m < a), SparseMatrix>);
  static_assert(std::is_same_v<decltype(matmul(a, m)), SparseArray>);
  static_assert(std::is_same_v<decltype(matmul(m, a)), SparseMatrix>);
  static_assert(std::is_same_v<decltype(a * x), SparseArray> && std::is_same_v<decltype(m * x), NdArray>);
  // With dense arrays.
  EXPECT_EQ(values(a * x), (Row{1, 4, 0, 6}));
  EXPECT_EQ(values(m * x), (Row{5, 6}));
  EXPECT_EQ(values(x * m), (Row{1, 8}));
  EXPECT_EQ(values(m * other), (Row{7, 10, 9, 12}));
  EXPECT_EQ(values(other * m), (Row{1, 8, 3, 18}));
  EXPECT_EQ(values(m / other), (Row{1, 1, 0, 0.75}));
  EXPECT_EQ(values(m + other), (Row{2, 4, 3, 7}));
  EXPECT_EQ((m * x.reshape({2, 1})).shape(), (Dims{2, 1}));
  EXPECT_THROW(m * x.reshape({1, 2}), InvalidArgument);
  EXPECT_THROW(m * csr_matrix(reals({1, 2, 3}).reshape({3, 1})), InvalidArgument);
  // With scalars both scale.
  EXPECT_EQ(values(m * 2.0), values(a * 2.0));
  EXPECT_EQ(values(2.0 * m), values(a * 2.0));
  EXPECT_EQ(values(m / 2.0), values(a / 2.0));
  EXPECT_EQ(values(-m), values(-a));
  // Powers.
  EXPECT_EQ(values(pow(a, 2)), elements);
  EXPECT_EQ(values(pow(m, 2)), product);
  EXPECT_EQ(values(pow(m, 0)), (Row{1, 0, 0, 1}));
  EXPECT_EQ(values(m.power(2)), elements);
  EXPECT_EQ(values(linalg::matrix_power(a, 2)), product);
  EXPECT_THROW(pow(m, -1), InvalidArgument);
  EXPECT_THROW(pow(m, 0.5), InvalidArgument);
  EXPECT_THROW(pow(a, 0), NotSupported);
  // Of no rows and of one element.
  EXPECT_EQ((csr_matrix(dense.reshape({4, 1}).operator[]({Slice{0, 0, {}}})) * reals({1})).shape(), (Dims{0}));
  EXPECT_EQ(values(csr_matrix(reals({3}).reshape({1, 1})) * reals({2})), (Row{6}));
}

TEST_P(Sparse, MethodsAndFunctionsOfMatricesGiveMatrices) {
  const SparseMatrix m = csc_matrix(reals({1, 2, 0, 3}).reshape({2, 2}));
  const SparseArray a = m;  // NOLINT(performance-unnecessary-copy-initialization): what is tested
  EXPECT_TRUE(issparse(m) && isspmatrix(m) && isspmatrix_csc(m) && !isspmatrix_csr(m));
  EXPECT_TRUE(issparse(a) && !isspmatrix(a) && !isspmatrix_csc(a));
  EXPECT_EQ(a.data().raw(), m.data().raw());
  const auto is_matrix = [](const auto& x) { return isspmatrix(x); };
  EXPECT_TRUE(is_matrix(m.T()) && is_matrix(m.tocsr()) && is_matrix(m.astype(DType::float32)) && is_matrix(m.copy()));
  EXPECT_TRUE(is_matrix(m.index(IndexTerm(0))) && is_matrix(m.getrow(0)) && is_matrix(m.reshape({1, 4})));
  EXPECT_TRUE(is_matrix(absolute(m)) && is_matrix(tril(m)) && is_matrix(linalg::matrix_power(m, 3)));
  EXPECT_TRUE(is_matrix(hstack({m, m})) && is_matrix(kron(m, m)) && is_matrix(block_diag({m, m})));
  EXPECT_FALSE(is_matrix(hstack({m, a})) || is_matrix(kron(m, a)) || is_matrix(kronsum(a, m)));
  EXPECT_FALSE(is_matrix(csr_array(m)) || is_matrix(block_array({{m}})));
  EXPECT_TRUE(is_matrix(csr_matrix(a)) && is_matrix(eye(2)) && is_matrix(identity(2)) && is_matrix(rand(2, 2)));
  EXPECT_TRUE(is_matrix(diags({reals({1, 2})})) && is_matrix(linalg::spsolve(m, a)));
  EXPECT_FALSE(is_matrix(eye_array(2)) || is_matrix(diags_array({reals({1, 2})})) || is_matrix(random_array({2, 2})));
  EXPECT_EQ(distance(hstack({m, a}).toarray(), hstack({m, m}).toarray()), 0);
  EXPECT_EQ(m.T().getformat(), std::string("csr"));
}

TEST_P(Sparse, RandomMatrices) {
  for (const double density : {0.0, 0.01, 0.5, 1.0}) {
    const SparseArray a = random(40, 50, density, Format::coo, DType::float32, Generator(9));
    EXPECT_EQ(a.nnz(), static_cast<int64_t>(density * 2000));
    EXPECT_EQ(a.tocsr().nnz(), a.nnz());  // no position twice
    EXPECT_EQ(a.dtype(), DType::float32);
  }
  EXPECT_EQ(random(3, 3, 1, Format::csr, DType::int16, Generator(1)).dtype(), DType::int16);
  EXPECT_EQ(rand(3, 3, 0.5, Format::csr).nnz(), 5);
  EXPECT_EQ(random_array({3, 3}, 0.5).nnz(), 5);
  EXPECT_THROW(random(3, 3, 1.5), InvalidArgument);
  EXPECT_THROW(random(3, 3, std::nan("")), InvalidArgument);
  const SparseArray first = random(20, 20, 0.1, Format::csr, DType::float64, Generator(4));
  EXPECT_EQ((first != random(20, 20, 0.1, Format::csr, DType::float64, Generator(4))).nnz(), 0);
}

TEST_P(Sparse, PositionsBeyond32Bits) {
  const int64_t huge = int64_t{1} << 40;
  const SparseArray a =
      coo_array(reals({1, 2, 4}), ints({huge - 1, 5, huge - 1}), ints({3, huge - 2, 3}), Dims{huge, huge});
  EXPECT_EQ(a.index_dtype(), DType::int64);
  SparseArray summed = a;
  summed.sum_duplicates();
  EXPECT_EQ(summed.nnz(), 2);
  EXPECT_EQ(to_vector<double>(summed.data()), (std::vector<double>{2, 5}));
  EXPECT_EQ(to_vector<int64_t>(summed.T().row()), (std::vector<int64_t>{huge - 2, 3}));
}

TEST_P(Sparse, Printing) {
  const SparseArray a = csr_array(from_vector<double>({0, 1.5, 2, 0}, {2, 2}));
  EXPECT_EQ(
      a.to_string(),
      "<csr sparse matrix of dtype 'float64' with 2 stored elements and shape (2, 2)>\n  (0, 1)\t1.5\n  (1, 0)\t2.0");
}

}  // namespace
}  // namespace quarry::local::sparse
