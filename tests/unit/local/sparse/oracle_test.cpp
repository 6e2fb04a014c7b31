// SciPy's results (scripts/oracle/tables/sparse.py).
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/program/op_enum.h"
#include "quarry/local/sparse/sparse.h"
#include "tests/oracle/reader.h"
#include "tests/support/on_devices.h"

namespace quarry::local::sparse {
namespace {

// ---- The file ----

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);)
    if (at != ' ' || !part.empty()) parts.push_back(part);
  return parts;
}
std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  for (const std::string& word : split(text, ' ')) values.push_back(std::strtod(word.c_str(), nullptr));
  return values;
}
std::vector<int64_t> integers(const std::string& text) {
  std::vector<int64_t> values;
  for (const double value : numbers(text)) values.push_back(static_cast<int64_t>(value));
  return values;
}
NdArray values_of(const std::string& text, DType dtype, const Dims& shape) {
  const std::vector<double> parts = numbers(text);
  if (!is_complex(dtype)) return from_vector(parts, shape).astype(dtype);
  std::vector<std::complex<double>> pairs;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) pairs.emplace_back(parts[i], parts[i + 1]);
  return from_vector(pairs, shape).astype(dtype);
}
NdArray positions(const std::vector<int64_t>& values) { return from_vector(values); }

// ---- Arguments ----

class Case {
 public:
  Case(const std::map<std::string, SparseArray>& matrices, const std::map<std::string, NdArray>& arrays,
       std::vector<std::string> words)
      : matrices_(matrices), arrays_(arrays), words_(std::move(words)) {}
  size_t count() const { return words_.size(); }
  SparseArray matrix(size_t i) const {
    const std::vector<std::string> parts = split(words_.at(i), ':');
    return matrices_.at(parts.at(0)).asformat(parts.at(1));
  }
  const NdArray& array(size_t i) const { return arrays_.at(words_.at(i)); }
  int64_t integer(size_t i) const { return std::strtoll(words_.at(i).c_str(), nullptr, 10); }
  const std::string& word(size_t i) const { return words_.at(i); }
  Scalar scalar(size_t i) const {
    const std::string& text = words_.at(i);
    if (text.find('.') == std::string::npos) return Scalar(integer(i));
    return Scalar(std::strtod(text.c_str(), nullptr));
  }
  std::optional<int64_t> axis(size_t i) const { return i < count() ? std::optional(integer(i)) : std::nullopt; }
  std::vector<int64_t> list(size_t i) const {
    std::vector<int64_t> values;
    const std::string& text = words_.at(i);
    for (const std::string& part : split(text.substr(1, text.size() - 2), ',')) values.push_back(std::stoll(part));
    return values;
  }
  IndexTerm term(size_t i) const {
    const std::string& text = words_.at(i);
    if (text[0] == '[') return IndexTerm(list(i));
    if (text.find(':') == std::string::npos) return IndexTerm(integer(i));
    std::vector<std::string> parts = split(text + ":", ':');
    parts.resize(3);
    const auto bound = [&](size_t k) {
      return parts[k].empty() ? std::nullopt : std::optional<int64_t>(std::stoll(parts[k]));
    };
    return IndexTerm(Slice{bound(0), bound(1), bound(2)});
  }
  std::vector<SparseArray> all_matrices() const {
    std::vector<SparseArray> all;
    for (size_t i = 0; i < count(); ++i) all.push_back(matrix(i));
    return all;
  }

 private:
  const std::map<std::string, SparseArray>& matrices_;
  const std::map<std::string, NdArray>& arrays_;
  std::vector<std::string> words_;
};

// ---- Operations ----

// A result, and what must hold of every matrix that quarry makes.
NdArray dense(const SparseArray& a) {
  a.check_format();
  if (a.format() == Format::csr || a.format() == Format::csc) {
    const SparseArray unknown(a.format(), a.shape(), a.data(), a.first(), a.second());
    EXPECT_TRUE(!a.has_canonical_format() || unknown.has_canonical_format());
  }
  return a.toarray();
}

using Operation = NdArray (*)(const Case&);
template <Op op>
NdArray binary(const Case& c) {
  return dense(elementwise(op, c.matrix(0), c.matrix(1)));
}
template <Op op>
NdArray with_scalar(const Case& c) {
  return dense(elementwise(op, c.matrix(0), c.scalar(1)));
}
template <NdArray (SparseArray::*method)(std::optional<int64_t>) const>
NdArray reduced(const Case& c) {
  return (c.matrix(0).*method)(c.axis(1));
}
NdArray set_elements(const Case& c) {
  SparseArray a = c.matrix(0);
  a.set(c.term(1), c.term(2), c.scalar(3));
  return dense(a);
}
NdArray set_sparse(const Case& c) {
  SparseArray a = c.matrix(0);
  a.set(c.term(1), c.term(2), c.matrix(3).index(c.term(4), c.term(5)));
  return dense(a);
}
NdArray set_diagonal(const Case& c) {
  SparseArray a = c.matrix(0);
  a.setdiag(c.scalar(2), c.integer(1));
  if (c.count() > 3) a.setdiag(c.array(3), c.integer(1));
  return dense(a);
}
NdArray block_array_of_three(const Case& c) {
  return dense(block_array({{c.matrix(0), c.matrix(1)}, {c.matrix(2), std::nullopt}}));
}
NdArray cube(const Case& c) {
  const SparseArray a = c.matrix(0);
  return dense(matmul(matmul(a, a), a));
}

const std::map<std::string, Operation> kOperations = {
    {"toarray", [](const Case& c) { return dense(c.matrix(0)); }},
    {"transpose", [](const Case& c) { return dense(c.matrix(0).T()); }},
    {"sum", [](const Case& c) { return c.matrix(0).sum(c.axis(1)); }},
    {"mean", [](const Case& c) { return c.matrix(0).mean(c.axis(1)); }},
    {"max", reduced<&SparseArray::max>},
    {"min", reduced<&SparseArray::min>},
    {"argmax", reduced<&SparseArray::argmax>},
    {"argmin", reduced<&SparseArray::argmin>},
    {"count_nonzero", [](const Case& c) { return c.matrix(0).count_nonzero(c.integer(1)); }},
    {"diagonal", [](const Case& c) { return c.matrix(0).diagonal(c.integer(1)); }},
    {"tril", [](const Case& c) { return dense(tril(c.matrix(0), c.integer(1))); }},
    {"triu", [](const Case& c) { return dense(triu(c.matrix(0), c.integer(1), Format::csr)); }},
    {"conj", [](const Case& c) { return dense(c.matrix(0).conj()); }},
    {"real", [](const Case& c) { return dense(c.matrix(0).real()); }},
    {"imag", [](const Case& c) { return dense(c.matrix(0).imag()); }},
    {"negative", [](const Case& c) { return dense(-c.matrix(0)); }},
    {"absolute", [](const Case& c) { return dense(absolute(c.matrix(0))); }},
    {"power", [](const Case& c) { return dense(c.matrix(0).power(c.scalar(1))); }},
    {"asfptype", [](const Case& c) { return dense(c.matrix(0).asfptype()); }},
    {"reshape",
     [](const Case& c) {
       return dense(c.matrix(0).reshape({c.integer(1), c.integer(2)}, c.word(3)));
     }},
    {"add", [](const Case& c) { return dense(c.matrix(0) + c.matrix(1)); }},
    {"subtract", [](const Case& c) { return dense(c.matrix(0) - c.matrix(1)); }},
    {"multiply", [](const Case& c) { return dense(c.matrix(0) * c.matrix(1)); }},
    {"equal", binary<Op::equal>},
    {"not_equal", binary<Op::not_equal>},
    {"less", binary<Op::less>},
    {"greater_equal", binary<Op::greater_equal>},
    {"maximum", binary<Op::maximum>},
    {"minimum", binary<Op::minimum>},
    {"less_scalar", with_scalar<Op::less>},
    {"not_equal_scalar", with_scalar<Op::not_equal>},
    {"greater_equal_scalar", with_scalar<Op::greater_equal>},
    {"maximum_scalar", with_scalar<Op::maximum>},
    {"minimum_scalar", with_scalar<Op::minimum>},
    {"scale", [](const Case& c) { return dense(c.matrix(0) * c.scalar(1)); }},
    {"divide", [](const Case& c) { return dense(c.matrix(0) / c.scalar(1)); }},
    {"add_dense", [](const Case& c) { return c.matrix(0) + c.array(1); }},
    {"multiply_dense", [](const Case& c) { return dense(c.matrix(0) * c.array(1)); }},
    {"divide_dense", [](const Case& c) { return dense(c.matrix(0) / c.array(1)); }},
    {"matmul_dense", [](const Case& c) { return matmul(c.matrix(0), c.array(1)); }},
    {"dense_matmul", [](const Case& c) { return matmul(c.array(0), c.matrix(1)); }},
    {"matmul", [](const Case& c) { return dense(matmul(c.matrix(0), c.matrix(1))); }},
    {"matrix_power", cube},
    {"kron", [](const Case& c) { return dense(kron(c.matrix(0), c.matrix(1))); }},
    {"kronsum", [](const Case& c) { return dense(kronsum(c.matrix(0), c.matrix(1))); }},
    {"index", [](const Case& c) { return dense(c.matrix(0).index(c.term(1), c.term(2))); }},
    {"values_at", [](const Case& c) { return c.matrix(0).values_at(positions(c.list(1)), positions(c.list(2))); }},
    {"set", set_elements},
    {"set_sparse", set_sparse},
    {"setdiag", set_diagonal},
    {"setdiag_array", set_diagonal},
    {"hstack", [](const Case& c) { return dense(hstack(c.all_matrices())); }},
    {"vstack", [](const Case& c) { return dense(vstack(c.all_matrices())); }},
    {"block_diag", [](const Case& c) { return dense(block_diag(c.all_matrices())); }},
    {"block_array", block_array_of_three},
    {"eye", [](const Case& c) { return dense(eye(c.integer(0), c.integer(1), c.integer(2))); }},
    {"diags",
     [](const Case& c) {
       return dense(diags({c.array(0)}, c.list(1), Dims{c.integer(2), c.integer(3)}));
     }},
    {"spdiags", [](const Case& c) { return dense(spdiags(c.array(0), c.list(1), c.integer(2), c.integer(3))); }},
};

// ---- Comparison ----

double tolerance(DType dtype) {
  const DType part = real_type(dtype);
  return part == DType::float32 ? 1e-5 : part == DType::float64 ? 1e-12 : 0;
}
std::string difference(const NdArray& got, const NdArray& want) {
  if (got.dtype() != want.dtype()) return std::string("dtype ") + local::name(got.dtype());
  if (!(got.shape() == want.shape())) return "shape " + local::to_string(got.shape());
  const std::vector<std::complex<double>> a = to_vector<std::complex<double>>(got.astype(DType::complex128));
  const std::vector<std::complex<double>> b = to_vector<std::complex<double>>(want.astype(DType::complex128));
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance(want.dtype()) * (1 + std::abs(b[i]))))
      return "element " + std::to_string(i) + "\n" + got.to_string() + "\n" + want.to_string();
  return "";
}

class SparseOracle : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(SparseOracle);

TEST_P(SparseOracle, ScipysResults) {
  std::map<std::string, SparseArray> matrices;
  std::map<std::string, NdArray> arrays;
  NdArray want;
  int cases = 0, failures = 0;
  for (const std::vector<std::string>& row : oracle::table("sparse", "sparse")) {
    std::vector<std::string> parts = split(row.at(0) + " ", '|');
    parts.resize(4);
    const std::vector<std::string> head = split(parts[0], ' ');
    const auto dtype_at = [&](size_t i) { return parse_dtype(head.at(i)).value(); };
    if (head[0] == "matrix") {
      const Dims shape{std::stoll(head[3]), std::stoll(head[4])};
      const std::vector<int64_t> rows = integers(parts[1]), columns = integers(parts[2]);
      matrices.emplace(head[1], coo_array(values_of(parts[3], dtype_at(2), {static_cast<int64_t>(rows.size())}),
                                          from_vector(rows), from_vector(columns), shape));
      continue;
    }
    const auto array_from = [&](size_t at) {
      Dims shape;
      for (size_t i = 0; i < std::stoul(head.at(at + 1)); ++i) shape.push_back(std::stoll(head.at(at + 2 + i)));
      return values_of(parts[1], dtype_at(at), shape);
    };
    if (head[0] == "dense") {
      arrays.emplace(head[1], array_from(2));
      continue;
    }
    const size_t equals = static_cast<size_t>(std::find(head.begin(), head.end(), "=") - head.begin());
    if (head.at(equals + 1) != "~") want = array_from(equals + 1);
    const Case arguments(matrices, arrays, {head.begin() + 2, head.begin() + static_cast<std::ptrdiff_t>(equals)});
    ++cases;
    std::string problem;
    try {
      problem = difference(kOperations.at(head[1])(arguments), want);
    } catch (const std::exception& e) {
      problem = e.what();
    }
    if (problem.empty()) continue;
    ADD_FAILURE() << parts[0].substr(0, parts[0].find('=')) << ": " << problem;
    if (++failures > 40) break;
  }
  EXPECT_GT(cases, 1000);
}

}  // namespace
}  // namespace quarry::local::sparse
