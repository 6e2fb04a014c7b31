// Sparse matrices in the language of chunked arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quarry/apps/binding/sparse_values.h"
#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/display.h"
#include "quarry/apps/quarry/script.h"

namespace quarry::apps::expression {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// d is a 6 x 5 matrix in chunks of rows, s the same as a sparse one; c, z: complex ones; q, e: square ones, e empty.
Environment with_matrices() {
  Environment environment;
  environment.other = {&local_library(), "there it is"};
  const auto add = [&](const std::string& name, const std::string& text) {
    const Source source{text, "", 0};
    environment.variables.emplace(name, evaluate(source, *parse(source), environment));
  };
  add("d", "(arange(30.0).reshape(6, 5) * (arange(30).reshape(6, 5) % 4 == 1)).rechunk((4, 5))");
  add("s", "sparse.csr_array(d)");
  add("c", "d * (1 + 2j)");
  add("z", "sparse.csr_array(c)");
  add("q", "s[:5]");
  add("e", "sparse.csr_array(zeros((4, 4)))");
  add("x", "arange(1.0, 6.0)");
  add("m", "arange(10.0).reshape(5, 2)");
  return environment;
}

// What is printed, or the error.
std::string shown(const std::string& text) {
  try {
    Environment environment = with_matrices();
    const Source source{text, "", 0};
    const Value value = evaluate(source, *parse(source), environment);
    return display(std::span(&value, 1))[0];
  } catch (const local::Error& error) {
    return error.what();
  }
}
void expect_true(const std::string& text) { EXPECT_THAT(shown(text), HasSubstr("True")) << text; }

TEST(SparseValues, OperatorsAreThoseOfTheDenseMatrix) {
  expect_true("(s @ x == d @ x).all()");
  expect_true("(s @ [1, 2, 3, 4, 5] == d @ x).all()");
  expect_true("(s @ m == d @ m).all() and (s @ m).shape == (6, 2)");
  expect_true("abs(x @ s[:5] - x @ d[:5]).max() < 1e-12");
  expect_true("abs(arange(12.0).reshape(2, 6) @ s - arange(12.0).reshape(2, 6) @ d).max() < 1e-12");
  expect_true("(s.T @ arange(6.0) == d.T @ arange(6.0)).all() and s.T.shape == (5, 6)");
  expect_true("((s + 2 * s - s / 4 + q.T.T[:0].nnz * s).toarray() == d + 2 * d - d / 4).all()");
  expect_true("((s @ s.T).toarray() == d @ d.T).all() and sparse.issparse(s @ s.T)");
  expect_true("((-s).toarray() == -d).all() and ((+s).toarray() == d).all()");
  expect_true("((s * s).toarray() == d * d).all()");
  expect_true("((s * x).toarray() == d * x).all() and ((x * s).toarray() == d * x).all()");
  expect_true("((s / (x + 1)).toarray() == d / (x + 1)).all()");
  expect_true("(z.H.toarray() == conj(c).T).all() and (z.real.toarray() == d).all()");
  expect_true("(z.imag.toarray() == 2 * d).all() and (z.conj().toarray() == conj(c)).all()");
  expect_true("abs(z @ (x + 1j) - c @ (x + 1j)).max() < 1e-12");
}

TEST(SparseValues, MethodsAreScipys) {
  expect_true("(s.multiply(s).toarray() == d * d).all() and (s.multiply(3).toarray() == 3 * d).all()");
  expect_true("(s.multiply(x).toarray() == d * x).all() and (s.dot(x) == d @ x).all()");
  expect_true("(s.dot(s.T).toarray() == d @ d.T).all()");
  expect_true("s.sum() == d.sum() and (s.sum(0) == d.sum(0)).all() and (s.sum(axis=-1) == d.sum(1)).all()");
  expect_true("s.mean() == d.mean() and abs(s.mean(0) - d.mean(0)).max() < 1e-12");
  expect_true("(s.diagonal() == diagonal(d)).all() and s.trace() == trace(d)");
  expect_true("(s.diagonal(1) == diagonal(d, 1)).all() and (s.diagonal(k=-2) == diagonal(d, -2)).all()");
  expect_true("s.diagonal(5).shape == (0,) and s.diagonal(-9223372036854775807).shape == (0,)");
  expect_true("(s.todense() == d).all() and (s.transpose().toarray() == d.T).all()");
  expect_true("s.astype('float32').dtype == float32 and sparse.csr_array(d, dtype='float32').dtype == float32");
  expect_true("((s ** 2).toarray() == d ** 2).all() and (s.power(3).toarray() == d ** 3).all()");
  expect_true("(sparse.linalg.matrix_power(q, 3).toarray() == q.toarray() @ q.toarray() @ q.toarray()).all()");
  expect_true("(sparse.linalg.matrix_power(q, 0).toarray() == eye(5)).all()");
  expect_true("(s.tocsr().persist().compute().toarray() == d).all()");
  expect_true("sparse.issparse(s) and not sparse.issparse(d) and not sparse.issparse(3)");
}

TEST(SparseValues, AttributesAndRows) {
  EXPECT_EQ(shown("(s.shape, s.nnz, s.ndim, s.format, s.dtype.name)"), "((6, 5), 8, 2, 'csr', 'float64')");
  EXPECT_EQ(shown("s"),
            "<Compressed Sparse Row sparse array of dtype 'float64' with 8 stored elements and shape (6, 5)>");
  expect_true("(s[1:4].toarray() == d[1:4]).all() and (s[-2:, :].toarray() == d[-2:]).all()");
  expect_true("(s[...].toarray() == d).all() and (s[:, :].toarray() == d).all() and s[3:3].shape == (0, 5)");
  expect_true("(s[2:3].toarray() == d[2:3]).all()");
  expect_true("(s[:, 1:3].toarray() == d[:, 1:3]).all() and (s[1:, ::-2].toarray() == d[1:, ::-2]).all()");
  expect_true("s[:, 2:2].shape == (6, 0)");
  expect_true("(s[::2].toarray() == d[::2]).all() and (s[::-1, 1:].toarray() == d[::-1, 1:]).all()");
  expect_true("(s[[4, 1, 4, -6]].toarray() == d[[4, 1, 4, -6]]).all() and s[[]].shape == (0, 5)");
  expect_true("(s[:, [3, 1, 1]].toarray() == d[:, [3, 1, 1]]).all() and s[:, []].shape == (6, 0)");
  expect_true(
      "(s[1:, [3, -5]].toarray() == d[1:, [3, -5]]).all() and (s[[5, 2], 1:3].toarray() == d[[5, 2], 1:3]).all()");
  expect_true("(s[arange(6) % 2 == 1].toarray() == d[1::2]).all() and (s[:, x > 2].toarray() == d[:, 2:]).all()");
  expect_true("(s[s.sum(1) > 20].toarray() == d[d.sum(1) > 20]).all()");
  expect_true("(sparse.csr_array((s.data, s.indices, s.indptr), shape=(6, 5)).toarray() == d).all()");
  expect_true("(sparse.csc_array((s.data, s.indices, s.indptr), shape=(5, 6)).toarray() == d.T).all()");
  expect_true("(sparse.coo_array((s.data, nonzero(d)), shape=(6, 5)).toarray() == d).all()");
  expect_true("(sparse.coo_array(([1.0, 2.0, 3.0], ([0, 1, 0], [1, 0, 1]))).toarray() == [[0, 4], [2, 0]]).all()");
}

TEST(SparseValues, EmptyMatricesAreMatrices) {
  expect_true("e.nnz == 0 and (e @ ones(4) == 0).all() and (e.sum(1) == 0).all() and (e.toarray() == 0).all()");
  expect_true("(e + e).nnz == 0 and e.T.shape == (4, 4) and (e.indptr == 0).all() and e.indptr.shape == (5,)");
  expect_true("(sparse.csr_array(zeros((0, 3))) @ ones(3)).shape == (0,)");
}

TEST(SparseValues, WhatTheyDoNotHaveIsNamed) {
  const auto refused = [](const std::string& text, const std::string& what) {
    EXPECT_THAT(shown(text), AllOf(HasSubstr(what), HasSubstr("A.toarray()"))) << text;
  };
  refused("s > 1", "comparisons");
  refused("1 == s", "comparisons");
  refused("s + x", "+ of a sparse matrix and an array");
  refused("s + 1", "+ of a sparse matrix and an int");
  refused("1 / s", "/ of a sparse matrix and an int");
  refused("2 ** s", "** of a sparse matrix and an int");
  refused("s ** x", "** of a sparse matrix and an array");
  refused("s // s", "// of two of them");
  refused("~s", "~");
  refused("exp(s)", "csr_array");
  refused("abs(s)", "csr_array");
  refused("np.sum(s)", "csr_array");
  refused("sum(s)", "csr_array");
  refused("linalg.inv(s)", "csr_array");
  refused("concatenate([s, s])", "csr_array");
  refused("s.argmax()", "'argmax'");
  refused("s[0]", "indices of rows but slices");
  refused("s[:, 1]", "indices of columns but slices");
  refused("s[[0, 1], [0, 1]]", "pairs of positions");
  refused("float(s)", "conversions");
  refused("1 if s else 2", "a truth value");
  EXPECT_THAT(shown("s.multiply('x')"), AllOf(HasSubstr("cannot be a str"), Not(HasSubstr("toarray"))));
  EXPECT_THAT(shown("s @ arange(6.0)"), HasSubstr("matmul: shapes (6, 5) and (6,) do not match"));
  EXPECT_THAT(shown("x @ s"), HasSubstr("matmul: shapes (5,) and (6, 5) do not match"));
  EXPECT_THAT(shown("s + q"), HasSubstr("shapes (6, 5) and (5, 5) differ"));
  EXPECT_THAT(shown("s[[0, 6]]"), HasSubstr("rows: index 6 is out of bounds for an axis of 6"));
  EXPECT_THAT(shown("s[:, [True, False]]"), HasSubstr("columns: a mask of 2 elements"));
  EXPECT_THAT(shown("s[[0.5]]"), HasSubstr("rows: positions are integers or a mask, not float64"));
  EXPECT_THAT(shown("s ** 0"), HasSubstr("power 0"));
  EXPECT_THAT(shown("sparse.linalg.matrix_power(s, 2)"), HasSubstr("(6, 5)"));
  EXPECT_THAT(shown("sparse.linalg.matrix_power(q, -1)"), HasSubstr("power: -1"));
  EXPECT_THAT(shown("s[0, 1, 2]"), HasSubstr("two axes"));
  EXPECT_THAT(shown("sparse.coo_array(([1.0], ([7], [0])), shape=(3, 3))"), HasSubstr("row: position 7"));
  EXPECT_THAT(shown("sparse.csr_array(d, shape=(2, 2))"), HasSubstr("shape: (2, 2) is not that of the matrix"));
}

TEST(SparseValues, AreStoredAsGroups) {
  Environment environment = with_matrices();
  const Value& s = environment.variables.at("s");
  const std::vector<ma::FilledItem> items = store_items("/a", Value::tuple(std::vector<Value>{s, s}));
  std::vector<std::string> paths;
  for (const ma::FilledItem& item : items) paths.push_back(item.item.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/a.0/data", "/a.0/indices", "/a.0/indptr", "/a.1/data", "/a.1/indices",
                                             "/a.1/indptr"}));
  const detail::GroupAttributes groups = store_groups("/a", Value::tuple(std::vector<Value>{s, s}));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(std::get<std::string>(groups.at("/a.0").at("encoding-type")), "csr_matrix");
  EXPECT_EQ(std::get<std::vector<int64_t>>(groups.at("/a.1").at("shape")), (std::vector<int64_t>{6, 5}));
}

}  // namespace
}  // namespace quarry::apps::expression
