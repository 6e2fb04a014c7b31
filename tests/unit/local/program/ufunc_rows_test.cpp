// What the rows of ufunc.def say of identities and grouping holds for the operations themselves.
#include <gtest/gtest.h>

#include <vector>

#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/program/scanning.h"

namespace quarry::local {
namespace {

// 0, 1, 2, 3 and their negatives, as far as the dtype has them.
NdArray values(DType dtype) {
  std::vector<double> list{0, 1, 2, 3};
  if (kind(dtype) == 'i' || is_float(dtype)) list.insert(list.end(), {-1, -2, -3});
  return from_vector(list).astype(dtype);
}

bool equal(const NdArray& a, const NdArray& b) { return a.dtype() == b.dtype() && a.to_string() == b.to_string(); }

TEST(UfuncRows, IdentitiesChangeNothing) {
  int identities = 0;
  for (int i = 0; i < op_count(); ++i) {
    const auto op = static_cast<Op>(i);
    const OpInfo& row = info(op);
    if (row.identity == OpInfo::Identity::none) continue;
    EXPECT_EQ(row.arity, 2) << row.name;
    for (const DType dtype : {DType::bool_, DType::int8, DType::uint64, DType::float64}) {
      if (!Scanning::supports(op, dtype)) continue;
      ++identities;
      const NdArray x = values(dtype);
      const std::optional<Scalar> identity = identity_of(op, dtype);
      ASSERT_TRUE(identity) << row.name;
      // gcd and hypot give magnitudes.
      const bool magnitude = op == "gcd"_op || op == "hypot"_op;
      const NdArray expected = magnitude ? apply("absolute"_op, {x}) : x;
      EXPECT_TRUE(equal(apply(op, {x, *identity}), expected)) << row.name << ' ' << name(dtype);
      EXPECT_TRUE(equal(apply(op, {*identity, x}), expected)) << row.name << ' ' << name(dtype);
    }
  }
  EXPECT_GE(identities, 20);
}

TEST(UfuncRows, AssociativeOperationsMayBeGroupedInAnyWay) {
  int operations = 0;
  for (int i = 0; i < op_count(); ++i) {
    const auto op = static_cast<Op>(i);
    const OpInfo& row = info(op);
    if (!is_associative(op)) {
      EXPECT_FALSE(is_reorderable(op)) << row.name;
      continue;
    }
    for (const DType dtype : {DType::bool_, DType::int8, DType::uint8}) {  // what does not round
      if (!Scanning::supports(op, dtype)) continue;
      ++operations;
      const NdArray x = values(dtype);
      const NdArray a = x.reshape({x.size(), 1, 1}), b = x.reshape({1, x.size(), 1}), c = x.reshape({1, 1, x.size()});
      EXPECT_TRUE(equal(apply(op, {apply(op, {a, b}), c}), apply(op, {a, apply(op, {b, c})})))
          << row.name << ' ' << name(dtype);
    }
  }
  EXPECT_GE(operations, 20);
}

TEST(UfuncRows, Costs) {
  for (int i = 0; i < op_count(); ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    EXPECT_GE(row.cost, 1) << row.name;
    EXPECT_LE(row.cost, 20) << row.name;
  }
  EXPECT_EQ(info("add"_op).cost, 1);
  EXPECT_EQ(info("divide"_op).cost, 4);
  EXPECT_EQ(info("exp"_op).cost, 20);
}

TEST(UfuncRows, ReductionsOfOperations) {
  EXPECT_EQ(reduction_of("add"_op), "sum"_reduction);
  EXPECT_EQ(reduction_of("minimum"_op), "min"_reduction);
  EXPECT_EQ(reduction_of("logical_and"_op), "all"_reduction);
  EXPECT_EQ(reduction_of("subtract"_op), std::nullopt);
  for (int r = 0; r < reduction_count(); ++r) {
    const ReductionInfo& row = info(static_cast<Reduction>(r));
    if (row.ufunc) {
      ASSERT_TRUE(find_op(row.ufunc)) << row.name;
      EXPECT_TRUE(is_reorderable(*find_op(row.ufunc))) << row.name;
    }
  }
}

}  // namespace
}  // namespace quarry::local
