// Sparse matrices in chunks of rows: beside those of one process, spilled, given bad input, in the iterative methods.
#include "quarry/chunked/api/sparse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/sparse/matrix_market.h"
#include "tests/support/hdf5_file.h"
#include "tests/support/runtime_on.h"
#include "tests/support/sparse_rows.h"
#include "tests/support/temp_dir.h"

namespace quarry::sparse {
namespace {

using ::testing::HasSubstr;

class Sparse : public testing::OnEveryRuntime {};
QUARRY_ON_EVERY_DEVICE(Sparse);

template <class Error, class F>
std::string message_of(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing of that kind was thrown";
}

TEST_P(Sparse, AreThoseOfOneProcess) {
  for (const DType dtype : testing::kSparseTypes) testing::check_sparse(testing::sparse_matrix({23, 17}, dtype), 5);
  for (const int64_t row_chunk : {1, 40})
    testing::check_sparse(testing::sparse_matrix({19, 29}, DType::float64), row_chunk);
}

TEST_P(Sparse, AddUpDuplicatesInAnyOrder) {
  for (const DType dtype : {DType::float64, DType::int64})
    testing::check_sparse(testing::sparse_matrix({20, 6}, dtype, 3, /*tangled=*/true), 4);
}

TEST_P(Sparse, MayBeEmpty) {
  for (const Dims& shape : {Dims{1, 9}, Dims{9, 1}, Dims{1, 1}, Dims{4, 4}})
    testing::check_sparse(testing::sparse_matrix(shape, DType::float64), 3);
  const local::sparse::SparseArray nothing(local::sparse::Format::csr, {6, 5});
  const SparseArray none = sparse::csr_array(nothing, {.row_chunk = 2});
  EXPECT_EQ(none.nnz(), 0);
  EXPECT_TRUE(testing::close(matmul(none, ones({5})).to_host(), local::zeros({6})));
  EXPECT_TRUE(testing::close(matmul(none.T(), ones({6})).to_host(), local::zeros({5})));
  EXPECT_TRUE(testing::close((none + none).toarray().to_host(), local::zeros({6, 5})));
  EXPECT_EQ(matmul(none, none.T()).nnz(), 0);
  EXPECT_EQ(matmul(sparse::csr_array(ones({2, 6})), none).shape(), (Dims{2, 5}));
  for (const Dims& shape : {Dims{0, 3}, Dims{3, 0}, Dims{0, 0}}) {
    SCOPED_TRACE(local::to_string(shape));
    const SparseArray a = sparse::csr_array(local::sparse::SparseArray(local::sparse::Format::csr, shape));
    EXPECT_EQ(matmul(a, ones({shape[1]})).shape(), Dims{shape[0]});
    EXPECT_TRUE(testing::close(matmul(a, ones({shape[1]})).to_host(), local::zeros({shape[0]})));
    EXPECT_EQ(a.T().shape(), (Dims{shape[1], shape[0]}));
    EXPECT_EQ(matmul(a, a.T()).shape(), (Dims{shape[0], shape[0]}));
    EXPECT_EQ(matmul(a, a.T()).nnz(), 0);
  }
}

TEST_P(Sparse, ReadWhatTheirRowsTouch) {
  const local::sparse::SparseArray points = testing::laplacian(60);
  const SparseArray a = sparse::csr_array(points, {.row_chunk = 360});
  EXPECT_LE(a.largest_halo(), 360 + 2 * 60);
  const NdArray x = local::sin(local::arange(3600.));
  EXPECT_TRUE(
      testing::close(matmul(a, Array::from_local(x).rechunk({250})).to_host(), local::sparse::matmul(points, x)));
  // Columns far apart are brought in pieces, and never more than the matrix has.
  std::vector<int64_t> far;
  for (int64_t i = 0; i < 200; ++i) far.push_back(i * i * 7919 % 1000003);
  const SparseArray wide =
      csr_array(ones({200}), Array::from_local(local::from_vector(far)), arange(201), Dims{200, 1000003});
  const NdArray y = local::arange(1000003.);
  EXPECT_TRUE(testing::close(matmul(wide, Array::from_local(y).rechunk({70001})).to_host(),
                             local::from_vector(far).astype(DType::float64)));
}

TEST_P(Sparse, HaveMoreColumnsThanAnInt32) {
  const int64_t n = int64_t{1} << 40;
  const Array indices = Array::from_local(local::from_vector<int64_t>({n - 1, 5, int64_t{1} << 33, n - 1}));
  const Array indptr({0, 2, 2, 4});
  const SparseArray a = csr_array(Array({1., 2., 3., 4.}), indices, indptr, Dims{3, n}, {.row_chunk = 1});
  EXPECT_LE(a.largest_halo(), 2);
  EXPECT_TRUE(testing::close(a.sum(1).to_host(), local::from_vector<double>({3, 0, 7})));
  const local::sparse::SparseArray back = a.to_host();
  EXPECT_EQ(back.shape(), (Dims{3, n}));
  EXPECT_EQ(back.item(2, n - 1).as_double(), 4);
  EXPECT_EQ(back.item(0, 5).as_double(), 2);
}

TEST_P(Sparse, KeepNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const SparseArray a = csr_array(Array({1., nan, 3.}), Array({0, 1, 2}), Array({0, 1, 2, 3}));
  EXPECT_TRUE(testing::close(matmul(a, ones({3})).to_host(), local::from_vector<double>({1, nan, 3})));
  // What is not stored is not multiplied.
  EXPECT_TRUE(testing::close(matmul(a, Array({nan, 0., 1.})).to_host(), local::from_vector<double>({nan, nan, 3})));
  EXPECT_TRUE(testing::close(matmul(a, a).data().to_host(), local::from_vector<double>({1, nan, 9})));
}

TEST_P(Sparse, NameWhatIsWrong) {
  using local::InvalidArgument;
  const Array data = ones({4}), indptr({0, 2, 3, 4});
  const auto made = [&](const Array& indices, const Array& offsets, const std::optional<Dims>& shape) {
    return message_of<InvalidArgument>([&] { csr_array(data, indices, offsets, shape, {.row_chunk = 2}); });
  };
  EXPECT_THAT(made(Array({0, 1, 7, 1}), indptr, Dims{3, 4}), HasSubstr("row 1 has an element in column 7"));
  EXPECT_THAT(made(Array({0, 1, 2, -3}), indptr, Dims{3, 4}), HasSubstr("row 2 has an element in column -3"));
  EXPECT_THAT(made(Array({0, 1, 2, 3}), Array({0, 3, 2, 4}), Dims{3, 4}), HasSubstr("row 1"));
  EXPECT_THAT(made(Array({0, 1, 2, 3}), Array({0, 2, 4, 3, 4}), Dims{4, 4}), HasSubstr("row 2"));
  EXPECT_THAT(made(Array({0, 1, 2, 3}), Array({1, 2, 3, 4}), Dims{3, 4}), HasSubstr("start with 0, not 1"));
  EXPECT_THAT(made(Array({0, 1, 2, 3}), Array({0, 2, 3, 5}), Dims{3, 4}), HasSubstr("ends with 5"));
  EXPECT_THAT(made(Array({0, 1, 2, 3}), indptr, Dims{5, 4}), HasSubstr("needs 6"));
  EXPECT_THAT(made(Array({0, 1, 2}), indptr, Dims{3, 4}), HasSubstr("indices has 3"));
  const SparseArray narrow = csr_array(data, Array({0, 1, 2, 3}), indptr, Dims{3, 4});
  EXPECT_THAT(message_of<InvalidArgument>([&] { matmul(narrow, narrow); }), HasSubstr("(3, 4) and (3, 4)"));
  EXPECT_THROW(csr_array(data, ones({4}), indptr), local::TypeError);
  EXPECT_THROW(csr_array(data.astype(DType::float16), Array({0, 1, 2, 3}), indptr), local::TypeError);
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                coo_array(data, Array({0, 1, 2, 9}), Array({0, 1, 2, 3}), {5, 5});
              }),
              HasSubstr("row: position 9"));
  const SparseArray a = csr_array(data, Array({0, 1, 2, 3}), indptr, Dims{3, 4});
  EXPECT_THAT(message_of<InvalidArgument>([&] { matmul(a, ones({3})); }), HasSubstr("(3, 4) and (3,)"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { a + a.T(); }), HasSubstr("differ"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { a.multiply(ones({3})); }), HasSubstr("does not broadcast"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { linalg::jacobi(a); }), HasSubstr("square"));
}

TEST_P(Sparse, TakeRowsAndColumnsAsTheyAre) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::complex<double> far(inf, 1), none(nan, 2), negative(-0.0, 0);
  const Array data = Array::from_local(local::from_vector<std::complex<double>>({far, none, negative}));
  const SparseArray a = csr_array(data, Array({0, 1, 0}), Array({0, 2, 3}), Dims{2, 2}, {.row_chunk = 1});
  const NdArray taken = a.rows_at(Array({1, 0, 1})).data().to_host();
  EXPECT_TRUE(std::signbit(taken[{0}].item().as_complex().real()));
  EXPECT_EQ(taken[{1}].item().as_complex(), far);
  EXPECT_EQ(taken[{2}].item().as_complex().imag(), 2);
  EXPECT_EQ(a.columns_at(Array({0, 0})).data().to_host()[{1}].item().as_complex(), far);
}

TEST_P(Sparse, NameIndicesThatDoNotFit) {
  using local::IndexError;
  const SparseArray a = sparse::csr_array(testing::sparse_matrix({5, 4}, DType::float64), {.row_chunk = 2});
  const auto rows = [&](const Array& chosen) { return message_of<IndexError>([&] { a.rows_at(chosen); }); };
  const auto columns = [&](const Array& chosen) { return message_of<IndexError>([&] { a.columns_at(chosen); }); };
  EXPECT_THAT(rows(Array({0, 5})), HasSubstr("rows: index 5 is out of bounds for an axis of 5"));
  EXPECT_THAT(rows(Array({0, -6})), HasSubstr("rows: index -6"));
  EXPECT_THAT(columns(Array({4})), HasSubstr("columns: index 4 is out of bounds for an axis of 4"));
  EXPECT_THAT(columns(Array({-5})), HasSubstr("columns: index -5"));
  const uint64_t large = uint64_t{1} << 63;
  EXPECT_THAT(rows(Array::from_local(local::from_vector<uint64_t>({large}))), HasSubstr("beyond int64"));
  EXPECT_THAT(rows(ones({4}, DType::bool_)), HasSubstr("rows: a mask of 4 elements does not fit an axis of 5"));
  EXPECT_THAT(columns(ones({5}, DType::bool_)), HasSubstr("columns: a mask of 5 elements"));
  EXPECT_THAT(rows(ones({5, 4}, DType::bool_)), HasSubstr("shape (5, 4)"));
  EXPECT_THROW(a.rows_at(ones({2})), local::TypeError);
}

TEST_P(Sparse, ArePowersOfThemselves) {
  for (const DType dtype : {DType::float64, DType::complex64, DType::int64}) {
    const local::sparse::SparseArray expected = testing::sparse_matrix({13, 13}, dtype);
    const SparseArray a = sparse::csr_array(expected, {.row_chunk = 4});
    for (const int64_t power : {0, 1, 2, 3, 6})
      EXPECT_TRUE(testing::close(linalg::matrix_power(a, power).toarray().to_host(),
                                 local::linalg::matrix_power(expected.toarray(), power), 1e-5));
    EXPECT_EQ(linalg::matrix_power(a, 0).dtype(), dtype);
    EXPECT_EQ(linalg::matrix_power(a, 0).chunks(), a.chunks());
  }
  const SparseArray nothing = sparse::csr_array(local::sparse::SparseArray(local::sparse::Format::csr, {0, 0}));
  for (const int64_t power : {0, 3}) EXPECT_EQ(linalg::matrix_power(nothing, power).shape(), (Dims{0, 0}));
  const SparseArray a = sparse::csr_array(testing::sparse_matrix({5, 4}, DType::float64));
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { linalg::matrix_power(a, 2); }), HasSubstr("(5, 4)"));
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { linalg::matrix_power(nothing, -1); }), HasSubstr("-1"));
  EXPECT_THAT(message_of<local::NotSupported>([&] { a.power(0); }), HasSubstr("power 0"));
}

TEST_P(Sparse, ServeTheIterativeMethods) {
  const local::sparse::SparseArray points = testing::laplacian(12);
  const SparseArray a = sparse::csr_array(points, {.row_chunk = 40});
  const NdArray b = local::cos(local::arange(144.));
  const NdArray dense = points.toarray(), x = local::linalg::solve(dense, b);
  const Array right = Array::from_local(b);
  linalg::SolveOptions options;
  options.rtol = 1e-11;
  EXPECT_TRUE(testing::close(linalg::cg(a, right, options).x.to_host(), x, 1e-8, 1e-8));
  EXPECT_TRUE(testing::close(linalg::gmres(a, right, options).x.to_host(), x, 1e-8, 1e-8));
  EXPECT_TRUE(testing::close(linalg::lsqr(a, right, 0, 1e-13, 1e-13).x.to_host(), x, 1e-6, 1e-6));
  for (const linalg::LinearOperator& m : {linalg::jacobi(a), linalg::block_jacobi(a), linalg::ilu(a)}) {
    options.M = m;
    EXPECT_TRUE(testing::close(linalg::cg(a, right, options).x.to_host(), x, 1e-8, 1e-8));
  }
  const Array whole = Array::from_local(dense).rechunk({40, 40});
  EXPECT_TRUE(testing::close(linalg::block_jacobi(a).matvec(right).to_host(),
                             linalg::block_jacobi(whole).matvec(right).to_host(), 1e-12, 1e-12));
  const NdArray values = local::linalg::eigvalsh(dense);
  EXPECT_TRUE(
      testing::close(linalg::eigsh(a, 3).values.to_host(), values[{Slice{141, 144, std::nullopt}}].copy(), 1e-8, 1e-8));
  const SparseArray tall = sparse::csr_array(testing::sparse_matrix({40, 15}, DType::float64), {.row_chunk = 9});
  const NdArray s = local::linalg::svdvals(tall.to_host().toarray());
  EXPECT_TRUE(testing::close(local::sort(linalg::svds(tall, 2).values.to_host()),
                             local::sort(s[{Slice{0, 2, std::nullopt}}].copy()), 1e-8, 1e-8));
}

// L U of incomplete factors without fill, of dense blocks, by the book's loop.
NdArray incomplete_product(const NdArray& dense, int64_t chunk) {
  const int64_t n = dense.shape()[0];
  NdArray product = local::zeros({n, n}, dense.dtype());
  for (int64_t first = 0; first < n; first += chunk) {
    const Slice part{first, std::min(first + chunk, n), std::nullopt};
    NdArray f = dense[{part, part}].copy();
    const NdArray places = f != 0;
    const int64_t rows = f.shape()[0];
    for (int64_t i = 1; i < rows; ++i)
      for (int64_t k = 0; k < i; ++k) {
        if (!places[{i, k}].item<bool>()) continue;
        f[{i, k}].assign(f[{i, k}] / f[{k, k}]);
        for (int64_t j = k + 1; j < rows; ++j)
          if (places[{i, j}].item<bool>()) f[{i, j}].assign(f[{i, j}] - f[{i, k}] * f[{k, j}]);
      }
    const NdArray lower = local::tril(f, -1) + local::eye(rows).astype(f.dtype());
    product[{part, part}].assign(local::matmul(lower, local::triu(f)));
  }
  return product;
}

TEST_P(Sparse, HaveIncompleteFactors) {
  for (const DType dtype : {DType::float64, DType::complex128}) {
    local::sparse::SparseArray points = testing::laplacian(6).astype(dtype);
    const NdArray turn = local::exp(local::arange(36.) * Scalar(std::complex<double>(0, 1)));
    if (local::is_complex(dtype)) points = points.multiply(turn.reshape({36, 1})).multiply(local::conj(turn) + 0.25);
    const NdArray dense = points.toarray(), x = local::sin(local::arange(36.)).astype(dtype);
    for (const int64_t chunk : {1, 10, 36, 50}) {
      SCOPED_TRACE(fmt::format("{} {}", local::name(dtype), chunk));
      const SparseArray a = sparse::csr_array(points, {.row_chunk = chunk});
      const NdArray product = incomplete_product(dense, chunk);
      const linalg::LinearOperator m = linalg::ilu(a);
      const Array right = Array::from_local(x).rechunk({7});
      EXPECT_TRUE(testing::close(local::matmul(product, m.matvec(right).to_host()), x, 1e-12, 1e-12));
      EXPECT_TRUE(
          testing::close(local::matmul(testing::adjoint_of(product), m.rmatvec(right).to_host()), x, 1e-12, 1e-12));
      const NdArray many = local::stack({x, x * 2, x + 1}, 1);
      EXPECT_TRUE(testing::close(local::matmul(product, m.matmat(Array::from_local(many).rechunk({9, 2})).to_host()),
                                 many, 1e-12, 1e-12));
    }
    // Of a dense matrix, in chunks of whole rows.
    const Array right = Array::from_local(x), whole = Array::from_local(dense).rechunk({10, 12});
    const int64_t rows = sparse::csr_array(whole).chunks().largest();
    EXPECT_TRUE(testing::close(
        local::matmul(incomplete_product(dense, rows), linalg::ilu(whole).matvec(right).to_host()), x, 1e-12, 1e-12));
  }
  // Integers count as float64.
  const SparseArray whole = csr_array(Array({2, 4}), Array({0, 1}), Array({0, 1, 2}));
  EXPECT_TRUE(testing::close(linalg::ilu(whole).matvec(ones({2})).to_host(), local::from_vector<double>({0.5, 0.25})));
  const SparseArray nothing = sparse::csr_array(local::sparse::SparseArray(local::sparse::Format::csr, {0, 0}));
  EXPECT_EQ(linalg::ilu(nothing).matvec(ones({0})).shape(), Dims{0});
}

TEST_P(Sparse, IncompleteFactorsSaveIterations) {
  const SparseArray a = sparse::csr_array(testing::laplacian(24), {.row_chunk = 144});
  const Array b = sin(arange(576.));
  const auto iterations = [&](const auto& method, const std::optional<linalg::LinearOperator>& m) {
    int64_t count = 0;
    linalg::SolveOptions options;
    options.rtol = 1e-9;
    options.M = m;
    options.callback = [&](const Array&) { ++count; };
    const linalg::Solution found = method(a, b, options);
    EXPECT_EQ(found.info, 0);
    EXPECT_LE(quarry::linalg::norm(matmul(a, found.x) - b).template item<double>(), 1e-7);
    return count;
  };
  const linalg::LinearOperator m = linalg::ilu(a);
  const auto cg = [](const auto&... arguments) { return linalg::cg(arguments...); };
  const auto bicgstab = [](const auto&... arguments) { return linalg::bicgstab(arguments...); };
  const auto gmres = [](const auto& matrix, const auto& right, const auto& options) {
    return linalg::gmres(matrix, right, options, 30);
  };
  EXPECT_LE(3 * iterations(cg, m), 2 * iterations(cg, std::nullopt));
  EXPECT_LE(3 * iterations(bicgstab, m), 2 * iterations(bicgstab, std::nullopt));
  EXPECT_LE(3 * iterations(gmres, m), 2 * iterations(gmres, std::nullopt));
}

TEST_P(Sparse, IncompleteFactorsNameTheirPivots) {
  const auto message = [](const NdArray& dense) {
    const SparseArray a = sparse::csr_array(local::sparse::csr_array(dense), {.row_chunk = 3});
    return message_of<local::LinAlgError>([&] { linalg::ilu(a); });
  };
  NdArray a = local::eye(8) * 2;
  a(6, 6) = 0.;
  EXPECT_THAT(message(a), HasSubstr("row 6 has no element on the diagonal"));
  EXPECT_THAT(message(local::zeros({8, 8})), HasSubstr("row 0 has no element"));
  NdArray singular = local::eye(8) * 2;
  singular(6, 7) = 4.;
  singular(7, 6) = 1.;  // row 7 minus half of row 6: 2 - 0.5 * 4
  EXPECT_THAT(message(singular), HasSubstr("the pivot of row 7 is zero"));
  const SparseArray tall = sparse::csr_array(testing::sparse_matrix({5, 4}, DType::float64));
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { linalg::ilu(tall); }), HasSubstr("(5, 4)"));
  // What is not a number is no zero: the method says that it did not converge.
  NdArray poisoned = local::eye(8) * 2;
  poisoned(4, 4) = std::numeric_limits<double>::quiet_NaN();
  const SparseArray b = sparse::csr_array(local::sparse::csr_array(poisoned), {.row_chunk = 3});
  linalg::SolveOptions options;
  options.M = linalg::ilu(b);
  EXPECT_LT(linalg::cg(b, ones({8}), options).info, 0);
}

void add_set(test::H5File& file, const std::string& object, const NdArray& values, hid_t type) {
  const NdArray packed = values.copy();
  H5Dclose(file.create(object, packed.shape(), type, {}, type));
  const hid_t set = test::h5(H5Dopen2(file.id(), object.c_str(), H5P_DEFAULT));
  test::h5(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, packed.raw()));
  H5Dclose(set);
}
void add_text(hid_t object, const char* name, const std::string& text) {
  const hid_t type = test::h5(H5Tcopy(H5T_C_S1)), space = test::h5(H5Screate(H5S_SCALAR));
  H5Tset_size(type, text.size());
  const hid_t attribute = test::h5(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
  test::h5(H5Awrite(attribute, type, text.data()));
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}
void add_shape(hid_t object, const char* name, const Dims& shape) {
  const hsize_t two = 2;
  const hid_t space = test::h5(H5Screate_simple(1, &two, nullptr));
  const hid_t attribute = test::h5(H5Acreate2(object, name, H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT));
  const int64_t extents[] = {shape[0], shape[1]};
  test::h5(H5Awrite(attribute, H5T_NATIVE_INT64, extents));
  H5Aclose(attribute);
  H5Sclose(space);
}

// As AnnData, h5sparse and 10x write them.
TEST_P(Sparse, AreReadFromHdf5) {
  const test::TempDir dir;
  const local::sparse::SparseArray csr = testing::sparse_matrix({40, 13}, DType::float64), csc = csr.tocsc();
  {
    test::H5File file(dir / "cells.h5ad");
    const auto add = [&](const std::string& name, const local::sparse::SparseArray& a) {
      const hid_t group = test::h5(H5Gcreate2(file.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      add_set(file, name + "/data", a.data(), H5T_NATIVE_DOUBLE);
      add_set(file, name + "/indices", a.indices().astype(DType::int32), H5T_NATIVE_INT32);
      add_set(file, name + "/indptr", a.indptr().astype(DType::int32), H5T_NATIVE_INT32);
      return group;
    };
    hid_t group = add("/X", csr);
    add_text(group, "encoding-type", "csr_matrix");
    add_shape(group, "shape", csr.shape());
    H5Gclose(group);
    group = add("/columns", csc);
    add_text(group, "encoding-type", "csc_matrix");
    add_shape(group, "shape", csr.shape());
    H5Gclose(group);
    group = add("/old", csr);
    add_text(group, "h5sparse_format", "csr");
    add_shape(group, "h5sparse_shape", csr.shape());
    H5Gclose(group);
    H5Gclose(add("/matrix", csc));
    add_set(file, "/matrix/shape", local::from_vector<int64_t>({40, 13}), H5T_NATIVE_INT64);
    group = add("/wrong", csr);
    add_text(group, "encoding-type", "array");
    H5Gclose(group);
  }
  for (const char* group : {"/X", "/columns", "/old", "/matrix"}) {
    SCOPED_TRACE(group);
    const SparseArray a = open_hdf5(dir / "cells.h5ad", group, {.row_chunk = 7});
    EXPECT_EQ(a.shape(), csr.shape());
    EXPECT_TRUE(testing::close(a.toarray().to_host(), csr.toarray()));
  }
  using local::InvalidArgument;
  EXPECT_THAT(message_of<InvalidArgument>([&] { open_hdf5(dir / "cells.h5ad", "/wrong"); }), HasSubstr("'array'"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { open_hdf5(dir / "cells.h5ad", "/X/data"); }), HasSubstr("no group"));
}

TEST_P(Sparse, AreReadFromMatrixMarket) {
  const test::TempDir dir;
  const std::string file = dir / "a.mtx";
  // Pieces of a few lines, which begin anywhere.
  for (const int64_t bytes : {23, 64, 1 << 20}) {
    SCOPED_TRACE(bytes);
    ChunkPolicy policy = chunk_policy();
    policy.target_bytes = bytes;
    const ChunkPolicyScope scope(policy);
    for (const DType dtype : {DType::float64, DType::int64, DType::complex128}) {
      const local::sparse::SparseArray a = testing::sparse_matrix({30, 17}, dtype);
      local::sparse::mmwrite(file, a, {.comment = "made for a test"});
      const SparseArray read = mmread(file, {.row_chunk = 8});
      EXPECT_EQ(read.dtype(), dtype);
      EXPECT_TRUE(testing::close(read.toarray().to_host(), a.toarray()));
    }
    const local::sparse::SparseArray points = testing::laplacian(5);
    local::sparse::mmwrite(file, points, {.symmetry = "symmetric"});
    EXPECT_TRUE(testing::close(mmread(file).toarray().to_host(), points.toarray()));
    local::sparse::mmwrite(file, local::sparse::SparseArray(local::sparse::Format::coo, {4, 3}));
    EXPECT_TRUE(testing::close(mmread(file).toarray().to_host(), local::zeros({4, 3})));
    local::sparse::mmwrite(file, local::eye(6));
    EXPECT_TRUE(testing::close(mmread(file).toarray().to_host(), local::eye(6)));
    const auto said = [&](const std::string& text) {
      std::ofstream(file) << "%%MatrixMarket matrix coordinate real general\n" << text;
      return message_of<local::IoError>([&] { mmread(file); });
    };
    EXPECT_THAT(said("3 3 3\n1 1 1.0\n2 2 2.0\n"), HasSubstr("a.mtx:2: the header tells of 3 entries, and 2 follow"));
    EXPECT_THAT(said("3 3 1\n1 1 1.0\n2 2 2.0\n"), HasSubstr("a.mtx:2: the header tells of 1 entries, and 2 follow"));
    EXPECT_THAT(said("3 3 2\n1 1 1.0\n2 4 2.0\n"), HasSubstr("a.mtx:4:3: column 4 is not between 1 and 3"));
    EXPECT_THAT(said("% one\n\n3 3 4\n1 1 1.0\n% two\n\n2 2 2.0\n3 3 0.5\n4 1 2.0\n"),
                HasSubstr("a.mtx:10:1: row 4 is not between 1 and 3"));
    EXPECT_THAT(said("3 3 2\n1 1 1.0\n2 x 2.0\n"), HasSubstr("a.mtx:4:3: the column 'x' is not a number"));
    const auto read = [&](const std::string& text) {
      std::ofstream(file) << "%%MatrixMarket matrix coordinate " << text;
      return local::to_vector<double>(mmread(file).toarray().to_host().astype(DType::float64));
    };
    EXPECT_EQ(read("pattern symmetric\n3 3 3\n1 1\n% between\n2 01\n\n003 +3"),
              (std::vector<double>{1, 1, 0, 1, 0, 0, 0, 0, 1}));
    EXPECT_EQ(read("integer skew-symmetric\n3 3 2\n2 1 5\n3 2 -7\n"),
              (std::vector<double>{0, -5, 0, 5, 0, 7, 0, -7, 0}));
    EXPECT_EQ(read("real general\n1 3 2\n1 3 2.5\n1 3 1\n"), (std::vector<double>{0, 0, 3.5}));
  }
}

// To the byte what one process writes, in parts of any size.
TEST_P(Sparse, AreWrittenToMatrixMarket) {
  const test::TempDir dir;
  const std::string file = dir / "a.mtx";
  const auto text = [&] {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  };
  for (const int64_t bytes : {100, 700, 1 << 20}) {
    SCOPED_TRACE(bytes);
    ChunkPolicy policy = chunk_policy();
    policy.target_bytes = bytes;
    const ChunkPolicyScope scope(policy);
    for (const DType dtype : testing::kSparseTypes)
      for (const Dims& shape : {Dims{30, 17}, Dims{1, 1}, Dims{0, 3}}) {
        const local::sparse::SparseArray a = testing::sparse_matrix(shape, dtype, 2, /*tangled=*/true);
        mmwrite(file, csr_array(a, {.row_chunk = 8}), {.overwrite = true});
        EXPECT_EQ(text(), local::sparse::mmwrite_text(a.to(local::kCpu)));
        const NdArray dense = a.toarray();
        mmwrite(file, Array::from_local(dense), {.overwrite = true});
        EXPECT_EQ(text(), local::sparse::mmwrite_text(dense));
      }
  }
  mmwrite(file, arange(3), {.overwrite = true});
  const std::string before = text();
  EXPECT_EQ(before, "%%MatrixMarket matrix array integer general\n3 1\n0\n1\n2\n");
  using local::InvalidArgument;
  EXPECT_THAT(message_of<InvalidArgument>([&] { mmwrite(file, arange(4)); }), HasSubstr("exists"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { mmwrite(dir / "b.mtx", ones({2, 2, 2})); }), HasSubstr("(2, 2, 2)"));
  EXPECT_THROW(mmwrite(dir / "b.mtx", ones({2}, DType::float16)), local::TypeError);
  EXPECT_THROW(mmwrite(dir / "b.mtx", ones({2}), {.resume = true}), local::NotSupported);
  EXPECT_THROW(mmwrite("/nowhere/b.mtx", ones({2})), local::IoError);
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                store(dir / "b.mtx", {{"/a", ones({2})}, {"/b", ones({2})}});
              }),
              HasSubstr("holds one matrix, and there are 2 arrays"));
  EXPECT_EQ(text(), before);
  EXPECT_FALSE(std::filesystem::exists(dir / "b.mtx"));
}

TEST_P(Sparse, AreWrittenToHdf5) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  for (const DType dtype : {DType::float32, DType::complex128, DType::int64}) {
    const local::sparse::SparseArray local = testing::sparse_matrix({40, 13}, dtype);
    const SparseArray a = csr_array(local, {.row_chunk = 7});
    EXPECT_TRUE(testing::close(a.indices().to_host(), local.tocsr().indices().astype(DType::int64)));
    EXPECT_TRUE(testing::close(a.indptr().to_host(), local.tocsr().indptr().astype(DType::int64)));
    to_hdf5(file, "/group/a", a, {.overwrite = true});
    const SparseArray back = open_hdf5(file, "/group/a");
    EXPECT_EQ(back.shape(), a.shape());
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_TRUE(testing::close(back.toarray().to_host(), local.toarray()));
  }
  const SparseArray none = csr_array(zeros({5, 4}));
  to_hdf5(file, "/none", none);
  EXPECT_EQ(open_hdf5(file, "/none").shape(), (Dims{5, 4}));
  EXPECT_EQ(open_hdf5(file, "/none").nnz(), 0);
}

TEST(SparseOutOfCore, ProductsThatFitNoTaskAreRefused) {
  const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu, "8MiB"));
  const int64_t n = 2000;
  // A full column times a full row is all of the dense matrix, in chunks that fit; a row of it takes all of it.
  const SparseArray row = csr_array(ones({n}), arange(n), Array({0, n}), Dims{1, n});
  const SparseArray column = csr_array(ones({n}), zeros({n}, DType::int64), arange(n + 1), Dims{n, 1});
  const SparseArray all = matmul(column, row);
  EXPECT_EQ(all.nnz(), n * n);
  EXPECT_GT(all.chunks().count(), column.chunks().count());
  EXPECT_THAT(message_of<local::BudgetError>([&] { matmul(row, all); }), HasSubstr("sparse matmul"));
  EXPECT_EQ(sum(all.data()).item<double>(), static_cast<double>(n * n));
}

// Twice the budget, chunk by chunk.
TEST(SparseOutOfCore, MatricesAreSpilled) {
  for (const local::DeviceKind device : {local::DeviceKind::cpu, local::DeviceKind::emulated}) {
    SCOPED_TRACE(local::name(device));
    RuntimeOptions options = testing::runtime_on(device, "8MiB");
    if (device != local::DeviceKind::cpu) options.host_memory = "16MiB";
    const Runtime runtime(options);
    const int64_t n = 40000, width = 50;
    // Row i has the columns i, i + 1 ... modulo n.
    const Array at = arange(n * width).rechunk({25000});
    const Array row = floor_divide(at, width), column = remainder(row + remainder(at, width), n);
    const Array data = (remainder(at, 7) - 3).astype(DType::float64);
    const SparseArray a = csr_array(data, column, arange(n + 1) * width, Dims{n, n}, {.row_chunk = 500});
    const Array x = (remainder(arange(n), 11)).astype(DType::float64).rechunk({500}).persist();
    const NdArray y = matmul(a, x).to_host(), again = matmul(a.T(), x).to_host();
    EXPECT_GT(runtime.statistics().spilled_bytes, int64_t{8} << 20);
    std::vector<double> expected(static_cast<size_t>(n)), turned(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < width; ++k) {
        const double value = static_cast<double>((i * width + k) % 7 - 3);
        const int64_t j = (i + k) % n;
        expected[static_cast<size_t>(i)] += value * static_cast<double>(j % 11);
        turned[static_cast<size_t>(j)] += value * static_cast<double>(i % 11);
      }
    EXPECT_TRUE(testing::close(y, local::from_vector(expected)));
    EXPECT_TRUE(testing::close(again, local::from_vector(turned)));
  }
}

}  // namespace
}  // namespace quarry::sparse
