#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "quarry/local/sparse/sparse.h"
#include "tests/support/on_devices.h"

namespace quarry::local::sparse {
namespace {

class MatrixMarket : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(MatrixMarket);

SparseArray read(const std::string& text) { return std::get<SparseArray>(mmread_text(text)); }
NdArray dense(const std::string& text) { return std::get<NdArray>(mmread_text(text)); }
std::string problem(const std::string& text) {
  try {
    mmread_text(text, "a.mtx");
  } catch (const IoError& e) {
    return e.what();
  }
  return "nothing was thrown";
}
template <class T>
std::vector<T> values(const SparseArray& a) {
  return to_vector<T>(a.toarray());
}

TEST_P(MatrixMarket, FieldsAndSymmetries) {
  const SparseArray real = read(
      "%%MatrixMarket matrix coordinate real general\n% a comment\n\n2 3 3\n1 1 1.5\n  2 3 -2e3 \n% another\n1 2 "
      "+.25\n");
  EXPECT_EQ(real.format(), Format::coo);
  EXPECT_EQ(real.device(), current_device());
  EXPECT_EQ(values<double>(real), (std::vector<double>{1.5, 0.25, 0, 0, 0, -2000}));
  EXPECT_EQ(values<int64_t>(read("%%matrixmarket MATRIX Coordinate Integer Symmetric\n2 2 2\n2 1 7\n2 2 -9\n")),
            (std::vector<int64_t>{0, 7, 7, -9}));
  EXPECT_EQ(values<double>(read("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n")),
            (std::vector<double>{1, 1, 1, 0}));
  EXPECT_EQ(values<double>(read("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 3\n")),
            (std::vector<double>{0, -3, 3, 0}));
  using C = std::complex<double>;
  EXPECT_EQ(values<C>(read("%%MatrixMarket matrix coordinate complex hermitian\n2 2 2\n1 1 4 0\n2 1 1 2\n")),
            (std::vector<C>{4, {1, -2}, {1, 2}, 0}));
  EXPECT_EQ(to_vector<double>(dense("%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n")),
            (std::vector<double>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(to_vector<int64_t>(dense("%%MatrixMarket matrix array integer symmetric\n2 2\n1\n2\n3\n")),
            (std::vector<int64_t>{1, 2, 2, 3}));
  EXPECT_EQ(to_vector<double>(dense("%%MatrixMarket matrix array real skew-symmetric\n2 2\n5\n")),
            (std::vector<double>{0, -5, 5, 0}));
  EXPECT_EQ(read("%%MatrixMarket matrix coordinate real general\n0 0 0\n").shape(), (Dims{0, 0}));
  EXPECT_EQ(dense("%%MatrixMarket matrix array real general\n0 4\n").shape(), (Dims{0, 4}));
  EXPECT_TRUE(std::isinf(
      read("%%MatrixMarket matrix coordinate real general\r\n1 1 1\r\n1 1 1e999\r\n").item(0, 0).as_double()));
}

TEST_P(MatrixMarket, MalformedFilesNameTheLine) {
  const std::string head = "%%MatrixMarket matrix coordinate real general\n";
  EXPECT_EQ(problem(""), "a.mtx:1: the file is empty");
  EXPECT_EQ(problem("hello\n"), "a.mtx:1:1: the file begins with 'hello', not with %%MatrixMarket");
  EXPECT_EQ(problem("%%MatrixMarket vector array real general\n"), "a.mtx:1: the object is 'vector', not matrix");
  EXPECT_EQ(problem("%%MatrixMarket matrix list real general\n"),
            "a.mtx:1: the format is 'list', not coordinate or array");
  EXPECT_THAT(problem("%%MatrixMarket matrix array quaternion general\n"), testing::HasSubstr("a.mtx:1: the field is"));
  EXPECT_THAT(problem("%%MatrixMarket matrix array real upper\n"), testing::HasSubstr("a.mtx:1: the symmetry is"));
  EXPECT_THAT(problem("%%MatrixMarket matrix array pattern general\n"), testing::HasSubstr("a.mtx:1:"));
  EXPECT_EQ(problem(head), "a.mtx:2: the line of sizes is missing");
  EXPECT_EQ(problem(head + "2 2\n"), "a.mtx:2:4: the number of entries is missing");
  EXPECT_EQ(problem(head + "2 2 1 7\n1 1 1\n"), "a.mtx:2:7: '7' follows after the numbers of the line");
  EXPECT_EQ(problem(head + "2 -2 1\n"), "a.mtx:2: a size is negative");
  EXPECT_EQ(problem(head + "2 2 2\n1 1 1.0\n"), "a.mtx:4: the file ends after 1 of 2 entries");
  EXPECT_EQ(problem(head + "2 2 1\n\n3 1 1.0\n"), "a.mtx:4:1: row 3 is not between 1 and 2");
  EXPECT_EQ(problem(head + "2 2 1\n1 0 1.0\n"), "a.mtx:3:3: column 0 is not between 1 and 2");
  EXPECT_EQ(problem(head + "2 2 1\n1 1 one\n"), "a.mtx:3:5: the value 'one' is not a number");
  EXPECT_EQ(problem(head + "2 2 1\n1 1\n"), "a.mtx:3:4: the value is missing");
  EXPECT_EQ(problem(head + "2 2 1\n1 1 1 1\n"), "a.mtx:3:7: '1' follows after the numbers of the line");
  EXPECT_EQ(problem(head + "2 2 1\n1 1 1\n2 2 2\n"), "a.mtx:4: there are more lines than the header tells of");
  EXPECT_EQ(problem(head + "2 2 99999999999999999999\n"),
            "a.mtx:2:5: the number of entries '99999999999999999999' is out of range");
  EXPECT_THAT(problem(head + "2 2 9000000000000000000\n1 1 1\n"), testing::HasSubstr("more than the file can hold"));
  EXPECT_THAT(problem("%%MatrixMarket matrix array real general\n3000000000 3000000000000\n1\n"),
              testing::HasSubstr("a.mtx:2:"));
  EXPECT_THAT(problem("%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n"), testing::HasSubstr("is square"));
  EXPECT_THAT(problem("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 3\n"),
              testing::HasSubstr("a.mtx:3: element (1, 2) is above the diagonal"));
  EXPECT_THAT(problem("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 2 3\n"),
              testing::HasSubstr("a.mtx:3: element (2, 2) is on the diagonal"));
  EXPECT_THAT(problem("%%MatrixMarket matrix coordinate real hermitian\n2 2 0\n"), testing::HasSubstr("complex"));
  EXPECT_THAT(problem("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1.5\n"),
              testing::HasSubstr("a.mtx:3:"));
  EXPECT_THROW(mmread("/nowhere/a.mtx"), IoError);
}

TEST_P(MatrixMarket, PartsOfAFile) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("quarry_" + std::to_string(getpid()) + "_parts.mtx")).string();
  // Comments longer than what is read at once.
  const std::string head =
      "%%MatrixMarket matrix coordinate integer symmetric\n%" + std::string(200000, 'x') + "\n\n% 1 1 1\n 3 3 4\n";
  const std::string first = "1 1 5\n% no entry\n\n2 1 6\n", second = "3 3 7\n3 2 8";
  std::ofstream(path) << head << first << second;
  const MatrixMarketInfo info = mminfo(path);
  EXPECT_EQ(info.begin, std::ssize(head));
  EXPECT_EQ(info.header_lines, 5);
  EXPECT_EQ(info.entries, 4);
  const MatrixMarketCounts counts = mmcount(first, info), rest = mmcount(second, info);
  EXPECT_EQ(counts.lines, 4);
  EXPECT_EQ(counts.entries, 2);
  EXPECT_EQ(counts.elements, 3);
  EXPECT_EQ(rest.lines, 1);  // the last one does not end
  EXPECT_EQ(rest.elements, 3);
  const MatrixMarketElements elements = mmread_lines(first, info, path, 6);
  EXPECT_EQ(elements.row.device(), current_device());
  EXPECT_EQ(to_vector<int64_t>(elements.row), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(to_vector<int64_t>(elements.col), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(to_vector<int64_t>(elements.data), (std::vector<int64_t>{5, 6, 6}));
  try {
    mmread_lines("3 3 7\n\n3 4 8", info, "a.mtx", 10);
    ADD_FAILURE();
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("a.mtx:12:3: column 4 is not between 1 and 3"));
  }
  std::ofstream(path) << "%%MatrixMarket matrix coordinate real general\n% no sizes\n";
  EXPECT_THROW(mminfo(path), IoError);
  std::ofstream(path) << "%%MatrixMarket matrix coordinate real general\n3 3 100\n1 1 1.0\n";
  EXPECT_THROW(mminfo(path), IoError);
  std::ofstream(path) << "";
  EXPECT_THROW(mminfo(path), IoError);
  std::filesystem::remove(path);
}

TEST_P(MatrixMarket, WhatIsWrittenIsReadBack) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("quarry_" + std::to_string(getpid()) + ".mtx")).string();
  for (const DType dtype : {DType::float64, DType::complex128, DType::int64}) {
    const SparseArray a = random(7, 9, 0.4, Format::csc, dtype, Generator(1));
    mmwrite(path, a, {.comment = "two\nlines"});
    const SparseArray back = std::get<SparseArray>(mmread(path));
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ((back.tocsr() != a.tocsr()).nnz(), 0);
    mmwrite(path, a.toarray());
    EXPECT_TRUE(ops::array_equal(std::get<NdArray>(mmread(path)), a.toarray()));
    const MatrixMarketInfo info = mminfo(path);
    EXPECT_EQ(info.format, "array");
    EXPECT_EQ(info.entries, 63);
  }
  const SparseArray half = random(5, 5, 0.5, Format::csr, DType::float64, Generator(2)), a = half + half.T();
  mmwrite(path, a, {.symmetry = "symmetric"});
  EXPECT_EQ(mminfo(path).symmetry, "symmetric");
  EXPECT_EQ((std::get<SparseArray>(mmread(path)).tocsr() != a).nnz(), 0);
  std::filesystem::remove(path);
  EXPECT_EQ(mmwrite_text(coo_array(from_vector<double>({0.125}), from_vector<int64_t>({1}), from_vector<int64_t>({0}),
                                   Dims{2, 1})),
            "%%MatrixMarket matrix coordinate real general\n2 1 1\n2 1 0.125\n");
  EXPECT_EQ(mmwrite_text(from_vector<float>({0.1F, 1.0F / 3}, {1, 2})),
            "%%MatrixMarket matrix array real general\n1 2\n0.1\n0.33333334\n");
  EXPECT_EQ(mmwrite_text(from_vector<double>({1.0 / 3}, {1, 1}), {.precision = 3}),
            "%%MatrixMarket matrix array real general\n1 1\n3.33e-01\n");
  EXPECT_EQ(mmwrite_text(half, {.field = "pattern"}).substr(0, 49),
            "%%MatrixMarket matrix coordinate pattern general\n");
  EXPECT_THROW(mmwrite_text(half, {.field = "octonion"}), InvalidArgument);
  EXPECT_THROW(mmwrite_text(half, {.symmetry = "upper"}), InvalidArgument);
  EXPECT_THROW(mmwrite_text(from_vector<double>({1})), InvalidArgument);
  EXPECT_THROW(mmwrite("/nowhere/a.mtx", half), IoError);
}

// Lines of any parts of a matrix together are its file.
TEST_P(MatrixMarket, PartsAreWrittenAsTheWhole) {
  const SparseArray a = random(7, 9, 0.4, Format::csr, DType::complex64, Generator(3)).tocoo();
  std::string text = mmwrite_head(a.dtype(), a.shape(), a.nnz());
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 5}, {5, 5}, {5, a.nnz()}}) {
    const IndexTerm part(Slice{begin, end, std::nullopt});
    text += mmwrite_lines({ops::get(a.row(), {part}), ops::get(a.col(), {part}), ops::get(a.data(), {part})});
  }
  EXPECT_EQ(text, mmwrite_text(a));
  const NdArray x = from_vector<int64_t>({1, -2, 3, 4, 5, 6}, {3, 2});
  EXPECT_EQ(mmwrite_head(x.dtype(), x.shape(), {}) + mmwrite_lines(x.T().copy().reshape({6})), mmwrite_text(x));
  const double least = -std::numeric_limits<double>::min();
  const int64_t far = std::numeric_limits<int64_t>::max() - 1;
  const MatrixMarketElements longest{from_vector<int64_t>({far}), from_vector<int64_t>({far}),
                                     from_vector<std::complex<double>>({{least, least}})};
  EXPECT_LE(std::ssize(mmwrite_lines(longest)), kLongestMatrixMarketLine);
}

TEST_P(MatrixMarket, ComponentsOfGraphs) {
  const auto graph = [](int64_t n, const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
    return coo_array(from_vector(std::vector<double>(from.size(), 1.0)), from_vector(from), from_vector(to),
                     Dims{n, n});
  };
  const auto labels = [](const csgraph::Components& c) { return to_vector<int32_t>(c.labels); };
  const SparseArray a = graph(7, {0, 1, 2, 4, 5, 4}, {1, 2, 0, 5, 6, 6});
  const csgraph::Components weak = csgraph::connected_components(a);
  EXPECT_EQ(weak.count, 3);
  EXPECT_EQ(labels(weak), (std::vector<int32_t>{0, 0, 0, 1, 2, 2, 2}));
  const csgraph::Components strong = csgraph::connected_components(a, true, "strong");
  EXPECT_EQ(strong.count, 5);
  EXPECT_EQ(labels(strong), (std::vector<int32_t>{0, 0, 0, 1, 2, 3, 4}));
  // A long path, numbered against its direction.
  std::vector<int64_t> from, to;
  for (int64_t i = 0; i + 1 < 5000; ++i) from.push_back(i * 7 % 5000), to.push_back((i + 1) * 7 % 5000);
  EXPECT_EQ(csgraph::connected_components(graph(5000, from, to)).count, 1);
  from.push_back(to.back()), to.push_back(from.front());
  EXPECT_EQ(csgraph::connected_components(graph(5000, from, to), true, "strong").count, 1);
  EXPECT_EQ(csgraph::connected_components(SparseArray(Format::csr, {4, 4})).count, 4);
  EXPECT_EQ(csgraph::connected_components(SparseArray(Format::csr, {0, 0})).count, 0);
  EXPECT_THROW(csgraph::connected_components(a, true, "both"), InvalidArgument);
  EXPECT_THROW(csgraph::connected_components(a.index(0)), InvalidArgument);
}

}  // namespace
}  // namespace quarry::local::sparse
