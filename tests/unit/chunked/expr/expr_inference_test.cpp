// Shapes and dtypes against NumPy 2 (scripts/oracle/tables/inference.py).
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/expr/node_table.h"
#include "quarry/local/base/error.h"
#include "tests/oracle/reader.h"
#include "tests/support/cpu_chunks.h"
#include "tests/support/memory_dataset.h"

namespace quarry {
namespace {

struct Row {
  std::string name, arguments, dtype, shape;
};

Dims parse_shape(const std::string& text) {
  Dims shape;
  std::istringstream stream(text);
  for (std::string extent; std::getline(stream, extent, ',');) shape.push_back(std::stoll(extent));
  return shape;
}

Operand parse_operand(const std::string& text) {
  if (text == "~True") return true;
  if (text == "~1j") return std::complex<double>(0, 1);
  if (text[0] == '~') {
    if (text.find('.') != std::string::npos) return std::stod(text.substr(1));
    return std::stoll(text.substr(1));
  }
  const size_t colon = text.find(':');
  return ones(parse_shape(text.substr(colon + 1)), *local::parse_dtype(text.substr(0, colon)));
}

Array result_of(const Row& row) {
  std::vector<Operand> operands;
  Axes axes;
  ReduceOptions options;
  std::istringstream stream(row.arguments);
  for (std::string word; stream >> word;) {
    if (word.starts_with("axis="))
      axes = word == "axis=none" ? Axes() : Axes(std::stoll(word.substr(5)));
    else if (word.starts_with("keepdims="))
      options.keepdims = word.back() == '1';
    else
      operands.push_back(parse_operand(word));
  }
  if (row.name == "matmul") return matmul(operands[0].array(), operands[1].array());
  if (const auto op = local::find_op(row.name)) return quarry::apply(*op, operands);
  return reduce(local::find_reduction(row.name).value(), operands[0].array(), axes, options);
}

TEST(ExprInference, AgreesWithNumPy) {
  int disagreeing = 0;
  const std::vector<std::vector<std::string>> rows = oracle::table("inference", "inference");
  for (const std::vector<std::string>& fields : rows) {
    const Row row{fields.at(0), fields.at(1), fields.at(2), fields.at(3)};
    std::string dtype = "error", shape, message;
    try {
      const Array result = result_of(row);
      dtype = local::name(result.dtype());
      for (int64_t extent : result.shape()) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    } catch (const local::InvalidArgument& error) {
      message = error.what();
    }
    if (dtype != row.dtype || shape != row.shape) {
      ++disagreeing;
      ADD_FAILURE() << row.name << "(" << row.arguments << "): " << dtype << " (" << shape << ") " << message
                    << ", NumPy: " << row.dtype << " (" << row.shape << ")";
    }
  }
  EXPECT_EQ(disagreeing, 0);
  EXPECT_GT(rows.size(), 800u);
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const local::InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(ExprErrors, NameTheShapes) {
  const Array a = ones({2, 3}), b = ones({4});
  EXPECT_EQ(message_of([&] { a + b; }), "operands could not be broadcast together with shapes (2, 3) (4,)");
  EXPECT_NE(message_of([&] { matmul(a, b); }).find("size 4 is different from 3"), std::string::npos);
  EXPECT_NE(message_of([&] {
              reshape(a, {4, -1});
            }).find("cannot reshape array of size 6 into shape (4, -1)"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { reshape(a, {-1, -1}); }), "can only specify one unknown dimension");
  EXPECT_EQ(message_of([&] { sum(a, 2); }), "axis 2 is out of bounds for array of dimension 2");
  EXPECT_EQ(message_of([&] { sum(a, {0, -2}); }), "duplicate value in 'axis'");
  EXPECT_EQ(message_of([&] {
              min(zeros({0, 3}), 0);
            }),
            "zero-size array to reduction operation minimum which has no identity");
  EXPECT_EQ(message_of([&] { argmax(zeros({0})); }), "attempt to get argmax of an empty sequence");
  EXPECT_EQ(message_of([&] { power(ones({2}, DType::int64), -1); }),
            "Integers to negative integer powers are not allowed.");
  EXPECT_NE(message_of([&] { broadcast_to(a, {3}); }), "no error");
  EXPECT_NE(message_of([&] { concatenate({a, ones({2, 4})}); }).find("dimension 1"), std::string::npos);
  EXPECT_NE(message_of([&] { linalg::eigh(a); }), "no error");
  EXPECT_NE(message_of([&] { ones({2}, DType::int8) + 300; }), "no error");
  EXPECT_NE(message_of([&] { a.rechunk({0, 3}); }), "no error");
  EXPECT_NE(message_of([&] { zeros({-1}); }), "no error");
}

TEST(ExprOperators, SpellTheirFunctions) {
  const Array a = ones({2}, DType::int64), b = ones({2}, DType::int64);
  EXPECT_EQ((a + b).node()->hash, add(a, b).node()->hash);
  EXPECT_EQ((2 - a).node()->hash, subtract(2, a).node()->hash);
  EXPECT_EQ((a / 2).dtype(), DType::float64);
  EXPECT_EQ((a % 2).node()->hash, remainder(a, 2).node()->hash);
  EXPECT_EQ((a == 1).dtype(), DType::bool_);
  EXPECT_EQ((1 < a).node()->hash, less(1, a).node()->hash);
  EXPECT_EQ((~a).node()->hash, invert(a).node()->hash);
  EXPECT_EQ((a << 3).dtype(), DType::int64);
  EXPECT_EQ(divmod(a, 2).second.node()->hash, (a % 2).node()->hash);
}

TEST(ExprHash, TellsGraphsApart) {
  const Array a = ones({4, 4}), b = full({4, 4}, 2.0);
  EXPECT_NE(a.node()->hash, b.node()->hash);
  EXPECT_NE(add(a, b).node()->hash, add(b, a).node()->hash);
  EXPECT_NE(a.T().node()->hash, sum(a, 0).node()->hash);
  EXPECT_EQ((a + 1).node()->hash, (a + 1).node()->hash);
  EXPECT_NE((a + 1).node()->hash, (a + 2).node()->hash);
  EXPECT_NE(sum(a, 0).node()->hash, sum(a, 1).node()->hash);
}

TEST(ExprHash, DeepChainsNeedNoStack) {
  Array x = ones({4});
  for (int i = 0; i < 20000; ++i) x = x + 1;
  EXPECT_EQ(expr::topological(std::span(&x.node(), 1)).size(), 20000u * 2 + 1);
}

TEST(ExprRewritten, EveryNodeOnceAndNothingAnewWhereNothingChanges) {
  const Array x = ones({4}), shared = x + 1, y = shared * shared, z = exp(shared);
  const std::vector<expr::NodePtr> roots{y.node(), z.node(), y.node()};
  int seen = 0;
  const auto same = [&](const expr::NodePtr& node, std::span<const expr::NodePtr> args) {
    ++seen;
    return expr::with_arguments(node, args);
  };
  EXPECT_EQ(expr::rewritten(roots, same), roots);
  EXPECT_EQ(seen, 5);  // x, 1, x + 1, y and z
  const auto to_two = [](const expr::NodePtr& node, std::span<const expr::NodePtr> args) {
    return node->as<expr::Constant>() && node->shape.empty() ? expr::constant(2, DType::float64)
                                                             : expr::with_arguments(node, args);
  };
  EXPECT_EQ(expr::rewritten(roots, to_two)[1]->hash, exp(x + 2.0).node()->hash);
}

TEST(NodeTable, KeepsValuesWhileItGrows) {
  std::vector<expr::NodePtr> nodes;
  for (int i = 0; i < 1000; ++i) nodes.push_back(expr::constant(i, DType::int64));
  expr::NodeTable<int> table;
  for (int i = 0; i < 1000; i += 2) table[*nodes[static_cast<size_t>(i)]] = i + 1;
  for (int i = 0; i < 1000; ++i) {
    const int* value = table.find(*nodes[static_cast<size_t>(i)]);
    if (i % 2 == 0)
      EXPECT_EQ(*value, i + 1);
    else
      EXPECT_EQ(value, nullptr);
  }
  EXPECT_EQ(table[*nodes[1]], 0);
}

class ExprChunks : public testing::CpuChunks {};

TEST_F(ExprChunks, FollowTheLargestStoredArgument) {
  const Array x(
      expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{100000, 512}, DType::float64, Dims{8192, 64})));
  EXPECT_EQ(x.chunks().largest(), (Dims{8192, 256}));
  EXPECT_EQ((x + 1).chunks(), x.chunks());
  EXPECT_EQ((arange(512) + x).chunks(), x.chunks());
  EXPECT_EQ(sum(x, 0).chunks().largest(), Dims{256});
  EXPECT_EQ(x.T().chunks().largest(), (Dims{256, 8192}));
  EXPECT_EQ(x.rechunk({1000, -1}).chunks().largest(), (Dims{1000, 512}));
  EXPECT_EQ((x.rechunk({1000, -1}) * 2).chunks().largest(), (Dims{1000, 512}));
}

TEST_F(ExprChunks, AnOuterProductIsCutToTheTarget) {
  const Array x(expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{1 << 20}, DType::float64)));
  const Array y = expand_dims(x, 1) * x;
  EXPECT_EQ(y.shape(), (Dims{1 << 20, 1 << 20}));
  EXPECT_LE(local::element_count(y.chunks().largest()) * 8, int64_t{32} << 20);
}

}  // namespace
}  // namespace quarry
