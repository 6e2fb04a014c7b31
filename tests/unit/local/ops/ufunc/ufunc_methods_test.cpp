// reduce, accumulate, outer and reduceat of the binary ufuncs; out=, where=, casting= of every ufunc.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class UfuncMethods : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(UfuncMethods);

NdArray counted(const Dims& shape, DType dtype = DType::float64) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return from_vector(values, shape).astype(dtype);
}
using test::doubles;
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_P(UfuncMethods, OutIsWrittenAndReturned) {
  const NdArray a = counted({2, 3}), out({2, 3}, DType::float32);
  const NdArray result = ops::add(a, 1, {.out = out});
  EXPECT_EQ(result.raw(), out.raw());
  EXPECT_EQ(doubles(out), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  // The inputs broadcast up to it.
  const NdArray wide({2, 3}, DType::float64);
  ops::multiply(a[{0}], 2, {.out = wide});
  EXPECT_EQ(doubles(wide), (std::vector<double>{0, 2, 4, 0, 2, 4}));
}

TEST_P(UfuncMethods, OutMayOverlapTheInputs) {
  const NdArray a = counted({6});
  ops::add(a, a, {.out = a[{Slice{{}, {}, -1}}]});
  EXPECT_EQ(doubles(a), (std::vector<double>{10, 8, 6, 4, 2, 0}));
  const NdArray b = counted({7});
  ops::add(b[{Slice{0, 6, {}}}], 1, {.out = b[{Slice{1, 7, {}}}]});
  EXPECT_EQ(doubles(b), (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
  const NdArray c = counted({3, 3});
  ops::add(c, c.T(), {.out = c});
  EXPECT_EQ(doubles(c), (std::vector<double>{0, 4, 8, 4, 8, 12, 8, 12, 16}));
  ops::add(c, c[{0}], {.out = c});  // the row is read by every row
  EXPECT_EQ(doubles(c), (std::vector<double>{0, 8, 16, 4, 12, 20, 8, 16, 24}));
}

TEST_P(UfuncMethods, WhereKeepsTheOthers) {
  const NdArray a = counted({2, 3}), out({2, 3}, DType::float64);
  out.fill(-1);
  const NdArray mask = from_vector(std::vector<bool>{true, false, true});
  ops::square(a, {.out = out, .where = mask});
  EXPECT_EQ(doubles(out), (std::vector<double>{0, -1, 4, 9, -1, 25}));
  EXPECT_THROW(ops::square(a, {.where = a}), TypeError);
}

TEST_P(UfuncMethods, CastingRules) {
  const NdArray a = counted({2, 3}), i = counted({2, 3}, DType::int64);
  EXPECT_EQ(error_of([&] { ops::add(a, a, {.out = i}); }),
            "Cannot cast ufunc 'add' output from dtype('float64') to dtype('int64') with casting rule 'same_kind'");
  EXPECT_EQ(error_of([&] { ops::add(a, 1, DType::int64); }),
            "Cannot cast ufunc 'add' input 0 from dtype('float64') to dtype('int64') with casting rule 'same_kind'");
  EXPECT_EQ(error_of([&] { ops::add(i, a, {.casting = Casting::no}); }),
            "Cannot cast ufunc 'add' input 0 from dtype('int64') to dtype('float64') with casting rule 'no'");
  EXPECT_EQ(doubles(ops::add(a, 1, {.dtype = DType::int64, .casting = Casting::unsafe})),
            (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(error_of([&] { ops::add(a, a, {.out = counted({3})}); }),
            "non-broadcastable output operand with shape (3,) doesn't match the broadcast shape (2,3)");
  EXPECT_EQ(error_of([&] {
              ops::add(a, a, {.out = counted({3}).broadcast_to({2, 3})});
            }),
            "the array of shape (2, 3) is read-only: it is a broadcast view, whose elements share memory");
  EXPECT_EQ(doubles(ops::where(from_vector(std::vector<bool>{true, false}), counted({2}, DType::uint8), -1)),
            (std::vector<double>{0, 255}));
  EXPECT_THROW(ops::power(i, i - 1), InvalidArgument);
  EXPECT_THROW(ops::power(i, -1), InvalidArgument);
}

TEST_P(UfuncMethods, SeveralOutputs) {
  const NdArray i = counted({4}, DType::int64), quotient({4}, DType::int64);
  const Arg args[] = {i, 3};
  const std::optional<NdArray> out[] = {quotient, std::nullopt};
  const auto results = apply(*find_multi_output("divmod"), args, {}, out);
  EXPECT_EQ(results[0].raw(), quotient.raw());
  EXPECT_EQ(doubles(quotient), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(doubles(results[1]), (std::vector<double>{0, 1, 2, 0}));
  const std::optional<NdArray> bad[] = {std::nullopt, counted({4}).astype(DType::bool_)};
  EXPECT_EQ(error_of([&] { apply(*find_multi_output("divmod"), args, {}, bad); }),
            "Cannot cast ufunc 'divmod' output 3 from dtype('int64') to dtype('bool') with casting rule 'same_kind'");
}

TEST_P(UfuncMethods, Reduce) {
  const NdArray a = counted({2, 3}), i = counted({2, 3}, DType::int64);
  EXPECT_EQ(doubles(ops::ufunc_reduce("add"_op, a)), (std::vector<double>{3, 5, 7}));
  EXPECT_EQ(doubles(ops::ufunc_reduce("subtract"_op, a, 1)), (std::vector<double>{-3, -6}));
  EXPECT_EQ(doubles(ops::ufunc_reduce("divide"_op, i)), (std::vector<double>{0, 0.25, 0.4}));
  EXPECT_EQ(doubles(ops::ufunc_reduce("gcd"_op, i)), (std::vector<double>{3, 1, 1}));
  EXPECT_EQ(doubles(ops::ufunc_reduce("power"_op, i)), (std::vector<double>{0, 1, 32}));
  EXPECT_EQ(doubles(ops::ufunc_reduce("logical_xor"_op, a, Axes{})), (std::vector<double>{1}));
  EXPECT_NEAR(ops::ufunc_reduce("hypot"_op, a, {0, 1}, {.keepdims = true}).item<double>(), std::sqrt(55.0), 1e-14);
  EXPECT_EQ(doubles(ops::ufunc_reduce("subtract"_op, a, 0, {.initial = Scalar(1)})), (std::vector<double>{-2, -4, -6}));
  EXPECT_EQ(doubles(ops::ufunc_reduce("bitwise_and"_op, NdArray({0}, DType::uint8))), (std::vector<double>{255}));
  EXPECT_EQ(ops::ufunc_reduce("add"_op, counted({3}, DType::uint8)).dtype(), DType::uint64);
  EXPECT_EQ(doubles(ops::ufunc_reduce("copysign"_op, a, 0, {.initial = Scalar(-2), .where = ops::greater(a, 2)})),
            (std::vector<double>{2, 2, 2}));
  EXPECT_THROW(ops::ufunc_reduce("subtract"_op, a, {0, 1}), InvalidArgument);
  EXPECT_THROW(ops::ufunc_reduce("subtract"_op, NdArray({0, 3}, DType::float64)), InvalidArgument);
  EXPECT_THROW(ops::ufunc_reduce("less"_op, a), TypeError);
  EXPECT_THROW(ops::ufunc_reduce("sqrt"_op, a), InvalidArgument);
  EXPECT_THROW(ops::ufunc_reduce("maximum"_op, a, 0, {.where = ops::greater(a, 2)}), InvalidArgument);
}

TEST_P(UfuncMethods, LongReductionsAreCutIntoParts) {
  const int64_t n = 100003;
  const NdArray x = counted({n}, DType::int64);
  int64_t expected = 0;
  for (int64_t i = 0; i < n; ++i) expected ^= i;
  EXPECT_EQ(ops::ufunc_reduce("bitwise_xor"_op, x).item<int64_t>(), expected);
  EXPECT_EQ(ops::ufunc_reduce("fmax"_op, x[{Slice{{}, {}, -1}}]).item<int64_t>(), n - 1);
  EXPECT_EQ(ops::ufunc_reduce("subtract"_op, x).item<int64_t>(), -n * (n - 1) / 2);
}

TEST_P(UfuncMethods, Accumulate) {
  const NdArray a = counted({2, 3});
  EXPECT_EQ(doubles(ops::ufunc_accumulate("add"_op, a, 1)), (std::vector<double>{0, 1, 3, 3, 7, 12}));
  EXPECT_EQ(doubles(ops::ufunc_accumulate("add"_op, a.T(), 1)), (std::vector<double>{0, 3, 1, 5, 2, 7}));
  EXPECT_EQ(doubles(ops::ufunc_accumulate("logical_xor"_op, a)), (std::vector<double>{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(doubles(ops::ufunc_accumulate("divide"_op, counted({3}, DType::int64) + 1)),
            (std::vector<double>{1, 0.5, 0.5 / 3}));
  EXPECT_EQ(ops::ufunc_accumulate("add"_op, counted({3}, DType::int8)).dtype(), DType::int64);
  EXPECT_THROW(ops::ufunc_accumulate("add"_op, counted({})), TypeError);
  EXPECT_THROW(ops::ufunc_accumulate("less"_op, a), TypeError);
  EXPECT_EQ(ops::ufunc_accumulate("add"_op, NdArray({0, 3}, DType::float64)).shape(), (Dims{0, 3}));
}

TEST_P(UfuncMethods, ScansOfEveryShape) {
  // One long line, many short ones, wide rows, few columns; against a loop.
  for (const Dims& shape : {Dims{70001}, Dims{33, 1025}, Dims{1025, 33}, Dims{3000, 3}, Dims{3, 3000}, Dims{17, 5, 130},
                            Dims{2100, 70}, Dims{20001, 3}, Dims{70, 1, 2100}})
    for (DType dtype : {DType::int64, DType::float32, DType::float16, DType::complex128}) {
      const NdArray x = (counted(shape, DType::int64) % 3).astype(dtype);
      for (int axis = 0; axis < shape.size(); ++axis) {
        const auto got = doubles(ops::ufunc_accumulate("maximum"_op, x, axis));
        const auto sums = doubles(ops::ufunc_accumulate("add"_op, x, axis, DType::int64));
        auto largest = doubles(x), total = largest;
        int64_t step = 1;
        for (int d = axis + 1; d < shape.size(); ++d) step *= shape[d];
        for (size_t i = 0; i < total.size(); ++i)
          if (static_cast<int64_t>(i) / step % shape[axis] != 0) {
            const size_t before = i - static_cast<size_t>(step);
            total[i] += total[before];
            largest[i] = std::max(largest[i], largest[before]);
          }
        ASSERT_EQ(sums, total) << to_string(shape) << axis << name(dtype);
        ASSERT_EQ(got, largest) << to_string(shape) << axis << name(dtype);
      }
    }
}

TEST_P(UfuncMethods, LongScansAreExactAndRepeatable) {
  const int64_t n = 2300003;  // several sections of tiles on a GPU
  const NdArray x = counted({n + 1}, DType::int64) % 7;
  const NdArray tail = x[{Slice{1, {}, {}}}];  // unaligned
  const std::vector<int64_t> values = to_vector<int64_t>(tail);
  std::vector<int64_t> expected(values.size());
  std::partial_sum(values.begin(), values.end(), expected.begin());
  ASSERT_EQ(to_vector<int64_t>(ops::ufunc_accumulate("add"_op, tail)), expected);
  ASSERT_EQ(to_vector<int64_t>(ops::ufunc_accumulate("add"_op, tail.astype(DType::uint8), 0, DType::int64)), expected);
  // The same bits every time, wherever the array begins.
  const NdArray f = ops::sin(x.astype(DType::float32)), g({n + 2}, DType::float32), moved = g[{Slice{2, {}, {}}}];
  const NdArray aligned = f[{Slice{1, {}, {}}}].copy();
  moved.assign(aligned);
  const std::vector<float> first = to_vector<float>(ops::ufunc_accumulate("add"_op, aligned));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(to_vector<float>(ops::ufunc_accumulate("add"_op, moved)), first);
  // In place.
  scan_axis("add"_op, x, 0, x);
  int64_t total = 0;
  for (int64_t i = 0; i <= n; ++i) total += i % 7;
  EXPECT_EQ(x[{n}].item<int64_t>(), total);
}

// The last elements of scans alone, and scans after what precedes the lines: the bits of a scan and of what follows it.
TEST_P(UfuncMethods, LastOfScansAndScansAfterOthers) {
  const auto bits = [](const NdArray& x) { return to_vector<uint8_t>(x.copy().view(DType::uint8).reshape({-1})); };
  const auto check = [&](Op op, const NdArray& x, int axis, DType dtype) {
    SCOPED_TRACE(std::string(info(op).name) + " of " + local::to_string(x.shape()) + ", axis " + std::to_string(axis));
    Dims kept = x.shape();
    kept[axis] = 1;
    const NdArray scan = ops::ufunc_accumulate(op, x, axis, dtype), last(kept, dtype), after(x.shape(), dtype);
    last_of_scan(op, x, axis, last);
    std::vector<IndexItem> end(static_cast<size_t>(axis), IndexItem(full_slice));
    end.emplace_back(Slice{-1, {}, {}});
    EXPECT_EQ(bits(last), bits(scan[end]));
    const NdArray before = (ops::cos(counted(kept)) * 3.0).astype(dtype);
    scan_axis(op, x, axis, after, before);
    EXPECT_EQ(bits(after), bits(apply(op, {before, scan}, dtype)));
    // What precedes may be one number for all lines; results may lie in any order.
    const NdArray one = before.reshape({-1})[{Slice{0, 1, {}}}].reshape(Dims::filled(x.ndim(), 1));
    const NdArray turned = x.T().astype(dtype).copy().T(), continued = x.T().astype(dtype).copy().T();
    scan_axis(op, x, axis, turned);
    scan_axis(op, x, axis, continued, one);
    EXPECT_EQ(bits(continued), bits(apply(op, {one, turned}, dtype)));
  };
  const auto waves = [](const Dims& shape, DType dtype = DType::float64) {
    return (ops::sin(counted(shape)) + 0.01).astype(dtype);
  };
  for (const Dims& shape : {Dims{1}, Dims{1, 1}, Dims{5}, Dims{70}, Dims{40001}, Dims{3, 40000}, Dims{300, 5},
                            Dims{20, 64}, Dims{4, 130, 17}})
    for (int axis = 0; axis < shape.size(); ++axis) {
      check("add"_op, waves(shape), axis, DType::float64);
      check("add"_op, waves(shape, DType::float32), axis, DType::float64);
      check("add"_op, waves(shape, DType::float16), axis, DType::float16);
      check("add"_op, waves(shape, DType::float64), axis, DType::float16);
      check("add"_op, ops::greater(waves(shape), 0.5), axis, DType::int64);
      check("multiply"_op, waves(shape, DType::complex128), axis, DType::complex128);
      check("subtract"_op, waves(shape), axis, DType::float64);
      check("maximum"_op, ops::where(ops::greater(waves(shape), 0.99), Scalar(std::nan("")), waves(shape)), axis,
            DType::float64);
    }
  const NdArray x = waves({4000, 9});
  check("add"_op, x[{Slice{{}, {}, -1}}], 0, DType::float64);
  check("add"_op, x[{Slice{{}, {}, 3}, Slice{{}, {}, -2}}], 0, DType::float64);
  check("add"_op, x.T(), 1, DType::float64);
  check("add"_op, x.T(), 0, DType::float64);
  const NdArray none({0, 3}, DType::float64), nothing({0, 3}, DType::float64);
  scan_axis("add"_op, none, 0, nothing, NdArray({1, 3}, DType::float64));
}

// Whole numbers, so that every grouping gives the same.
TEST_P(UfuncMethods, ScansInSegments) {
  for (const Dims& shape : {Dims{1}, Dims{64}, Dims{1000}, Dims{3, 1000}, Dims{1000, 3}, Dims{2, 130, 17}}) {
    for (int axis = 0; axis < shape.size(); ++axis) {
      const NdArray x = ((counted(shape) * 7.0) % 13.0 - 5.0).astype(DType::float32);
      const NdArray scan = ops::ufunc_accumulate("add"_op, x, axis, DType::float64);
      for (const int64_t length : {int64_t{1}, int64_t{5}, int64_t{64}, int64_t{1000}}) {
        SCOPED_TRACE(local::to_string(shape) + ", axis " + std::to_string(axis) + ", by " + std::to_string(length));
        Dims parts = shape;
        parts[axis] = (shape[axis] + length - 1) / length;
        const NdArray folds(parts, DType::float64), out(shape, DType::float64);
        fold_segments("add"_op, x, axis, length, folds);
        const NdArray before = ops::ufunc_accumulate("add"_op, folds, axis) - folds;
        scan_segments("add"_op, x, axis, length, before, out);
        EXPECT_EQ(doubles(out), doubles(scan));
      }
    }
  }
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::float64, DType::float16, DType::complex64, DType::int32}) {
    const NdArray values =
        dtype == DType::int32 ? NdArray{3, 0, -4}.astype(dtype)
                              : from_vector(std::vector<double>{-0.0, 0.0, std::nan(""), kInf, -kInf, 2}).astype(dtype);
    for (const Op op : {"add"_op, "multiply"_op, "maximum"_op, "minimum"_op}) {
      const std::optional<Scalar> identity = exact_identity(op, dtype);
      if (!identity) continue;
      const NdArray left(values.shape(), dtype);
      left.fill(*identity);
      const NdArray kept = apply(op, {left, values}, dtype);
      // A device may give all NaNs one pattern.
      const auto bits = [dtype](const NdArray& x) {
        const NdArray zero = from_vector(std::vector<double>{0}).astype(dtype);
        return to_vector<uint8_t>(ops::where(ops::isnan(x), zero, x).view(DType::uint8));
      };
      EXPECT_EQ(to_vector<bool>(ops::isnan(kept)), to_vector<bool>(ops::isnan(values)));
      EXPECT_EQ(bits(kept), bits(values));
    }
  }
}

TEST_P(UfuncMethods, OuterAndReduceat) {
  const NdArray a = counted({2, 3});
  EXPECT_EQ(ops::ufunc_outer("add"_op, a, counted({4})).shape(), (Dims{2, 3, 4}));
  EXPECT_EQ(doubles(ops::ufunc_outer("multiply"_op, counted({2}), counted({3}))),
            (std::vector<double>{0, 0, 0, 0, 1, 2}));
  const NdArray where = from_vector(std::vector<int64_t>{0, 1, 0});
  EXPECT_EQ(doubles(ops::ufunc_reduceat("add"_op, a, where, 1)), (std::vector<double>{0, 1, 3, 3, 4, 12}));
  EXPECT_EQ(doubles(ops::ufunc_reduceat("subtract"_op, a, from_vector(std::vector<int32_t>{1, 0}))),
            (std::vector<double>{3, 4, 5, -3, -3, -3}));
  EXPECT_EQ(ops::ufunc_reduceat("add"_op, a, NdArray({0}, DType::int64), 1).shape(), (Dims{2, 0}));
  EXPECT_THROW(ops::ufunc_reduceat("add"_op, a, from_vector(std::vector<int64_t>{3}), 1), IndexError);
  EXPECT_THROW(ops::ufunc_reduceat("add"_op, a, from_vector(std::vector<double>{1}), 1), TypeError);
}

TEST_P(UfuncMethods, ReductionOptions) {
  const NdArray a = counted({2, 3});
  const NdArray mask = ops::greater(a, 2);
  EXPECT_EQ(ops::sum(a, {}, {.initial = Scalar(5), .where = mask}).item<double>(), 17);
  EXPECT_EQ(doubles(ops::max(a, 0, {.initial = Scalar(4), .where = mask})), (std::vector<double>{4, 4, 5}));
  EXPECT_EQ(ops::mean(a, {}, {.where = mask}).item<double>(), 4);
  EXPECT_EQ(ops::var(a, {}, {.ddof = 1, .where = mask}).item<double>(), 1);
  EXPECT_TRUE(std::isnan(ops::mean(a, {}, {.where = ops::greater(a, 9)}).item<double>()));
  EXPECT_EQ(doubles(ops::var(a, 0, {.mean = counted({1, 3}) * 0})), (std::vector<double>{4.5, 8.5, 14.5}));
  EXPECT_EQ(ops::max(NdArray({0}, DType::float64), {}, {.initial = Scalar(1)}).item<double>(), 1);
  const NdArray out({}, DType::int64);
  EXPECT_EQ(ops::mean(a, {}, {.out = out}).raw(), out.raw());
  EXPECT_EQ(out.item<int64_t>(), 2);
  EXPECT_EQ(ops::mean(a, {}, {.dtype = DType::int64}).dtype(), DType::int64);
  EXPECT_EQ(doubles(ops::all(a, 1, {.where = mask})), (std::vector<double>{1, 1}));
  EXPECT_THROW(ops::sum(a, 0, {.out = counted({2})}), InvalidArgument);
  EXPECT_THROW(ops::max(a, {}, {.where = mask}), InvalidArgument);
}

TEST_P(UfuncMethods, VarianceFarFromZero) {
  std::vector<double> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1e8 + std::sin(static_cast<double>(i) * 12.9898) * 3;
  long double mean = 0, squares = 0;
  for (double v : values) mean += v;
  mean /= static_cast<long double>(values.size());
  for (double v : values) squares += (v - mean) * (v - mean);
  const double expected = static_cast<double>(squares / static_cast<long double>(values.size()));
  EXPECT_NEAR(ops::var(from_vector(values)).item<double>() / expected, 1, 1e-14);
  EXPECT_NEAR(ops::var(from_vector(values, {64, 64}), {0, 1}).item<double>() / expected, 1, 1e-14);
}

}  // namespace
}  // namespace quarry::local
