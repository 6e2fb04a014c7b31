// Indexing against element-by-element references; NumPy's own answers are replayed in tests/unit/apps/language.
#include "quarry/local/ops/indexing/elements.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "quarry/local/ops/ufunc/in_place.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using test::arange;
using test::counting;
NdArray ints(const std::vector<int64_t>& values) { return from_vector(values); }
NdArray mask(const std::vector<bool>& values) { return from_vector(values); }
using Values = std::vector<int64_t>;
Values values(const NdArray& array) { return to_vector<int64_t>(array); }

template <class E, class F>
void expect_error(const F& f, const std::string& message) {
  try {
    f();
    ADD_FAILURE() << "no error; expected " << message;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

class IndexingOnDevices : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(IndexingOnDevices);

TEST_P(IndexingOnDevices, BasicIndexesAreViews) {
  const NdArray x = arange({3, 4});
  const NdArray row = ops::get(x, {1, Slice{{}, {}, 2}});
  EXPECT_EQ(row.buffer(), x.buffer());
  EXPECT_EQ(values(row), (Values{4, 6}));
  ops::set(x, {ellipsis, 0}, -1);
  EXPECT_EQ(values(ops::get(x, {Slice{}, 0})), (Values{-1, -1, -1}));
  x(Slice{}, 0) += ints({1, 2, 3});
  EXPECT_EQ(values(ops::get(x, {Slice{}, 0})), (Values{0, 1, 2}));
  ops::set(x, {0}, 2.9);  // assignment casts as astype does
  EXPECT_EQ(values(ops::get(x, {0})), (Values{2, 2, 2, 2}));
}

TEST_P(IndexingOnDevices, PlacesBroadcastAxesAsNumPy) {
  const NdArray x = arange({2, 3, 4, 5});
  const NdArray i = ints({0, 1}), j = ints({1, -1});
  EXPECT_EQ(ops::get(x, {Slice{}, i, j}).shape(), (Dims{2, 2, 5}));
  EXPECT_EQ(ops::get(x, {i, Slice{}, j}).shape(), (Dims{2, 3, 5}));
  EXPECT_EQ(ops::get(x, {Slice{}, i, newaxis, j}).shape(), (Dims{2, 2, 1, 5}));
  EXPECT_EQ(ops::get(x, {Slice{}, i, ellipsis, j, Slice{}}).shape(), (Dims{2, 2, 5}));
  EXPECT_EQ(ops::get(x, {0, Slice{}, j}).shape(), (Dims{2, 3, 5}));
  EXPECT_EQ(ops::get(x, {ellipsis, j}).shape(), (Dims{2, 3, 4, 2}));
  EXPECT_EQ(ops::get(x, {Slice{}, true, i}).shape(), (Dims{2, 2, 4, 5}));
  EXPECT_EQ(ops::get(x, {false}).shape(), (Dims{0, 2, 3, 4, 5}));
  EXPECT_EQ(ops::get(x, {i.reshape({2, 1}), Slice{1, {}, {}}, j}).shape(), (Dims{2, 2, 2, 5}));
  const NdArray got = ops::get(x, {i.reshape({2, 1}), Slice{1, {}, {}}, j});
  EXPECT_EQ((ops::get(got, {1, 0, 1, 4}).item<int64_t>()), 1 * 60 + 2 * 20 + 1 * 5 + 4);
  EXPECT_EQ((ops::get(got, {0, 1, 0, 3}).item<int64_t>()), 0 * 60 + 1 * 20 + 3 * 5 + 3);
}

TEST_P(IndexingOnDevices, RandomIndexesAgreeWithElements) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    // x of 3 axes with arbitrary steps, indexed along two of them by arrays of two axes.
    const int64_t a = 1 + static_cast<int64_t>(random() % 5), b = 1 + static_cast<int64_t>(random() % 6),
                  c = 1 + static_cast<int64_t>(random() % 40);
    const int64_t flip = random() % 2 == 0 ? 1 : -1, step = 1 + static_cast<int64_t>(random() % 2);
    NdArray x = arange({a, b, c * step});
    x = x[{Slice{}, Slice{{}, {}, flip}, Slice{{}, {}, step}}];
    if (random() % 3 == 0) x = x.T().copy().T();
    const Values flat = values(x);
    const int64_t m = 1 + static_cast<int64_t>(random() % 4), n = 1 + static_cast<int64_t>(random() % 50);
    Values i(static_cast<size_t>(m)), k(static_cast<size_t>(n));
    for (int64_t& v : i) v = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * a)) - a;
    for (int64_t& v : k) v = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * c)) - c;
    const NdArray got = ops::get(x, {ints(i).reshape({m, 1}), Slice{}, ints(k)});
    ASSERT_EQ(got.shape(), (Dims{m, n, b}));
    Values expected;
    for (int64_t p : i)
      for (int64_t q : k)
        for (int64_t r = 0; r < b; ++r)
          expected.push_back(flat[static_cast<size_t>(((p < 0 ? p + a : p) * b + r) * c + (q < 0 ? q + c : q))]);
    EXPECT_EQ(values(got), expected);
    // And back: the last of repeated writes counts.
    const NdArray y = x.copy();
    ops::set(y, {ints(i).reshape({m, 1}), Slice{}, ints(k)}, arange({m, n, b}));
    Values written = flat;
    int64_t at = 0;
    for (int64_t p : i)
      for (int64_t q : k)
        for (int64_t r = 0; r < b; ++r)
          written[static_cast<size_t>(((p < 0 ? p + a : p) * b + r) * c + (q < 0 ? q + c : q))] = at++;
    EXPECT_EQ(values(y), written);
  }
}

// Many more positions than elements, and few positions that every row uses.
TEST_P(IndexingOnDevices, ManyPositionsInASmallArray) {
  std::mt19937_64 random(13);
  const int64_t n = 70000, rows = 7, columns = 3;
  Values i(static_cast<size_t>(n)), k(static_cast<size_t>(n));
  for (int64_t& v : i) v = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * rows)) - rows;
  for (int64_t& v : k) v = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * columns)) - columns;
  for (const bool transposed : {false, true}) {
    const NdArray x = transposed ? arange({rows, columns}).T().copy().T() : arange({rows, columns});
    const Values before = values(x);
    Values written = before, sums = before;
    for (size_t p = 0; p < i.size(); ++p) {
      const int64_t row = i[p] < 0 ? i[p] + rows : i[p], column = k[p] < 0 ? k[p] + columns : k[p];
      written[static_cast<size_t>(row * columns + column)] = static_cast<int64_t>(p);
      sums[static_cast<size_t>(row * columns + column)] += static_cast<int64_t>(p);
    }
    const NdArray y = x.copy(), z = x.copy();
    ops::set(y, {ints(i), ints(k)}, arange({n}));
    EXPECT_EQ(values(y), written);
    ops::ufunc_at("add"_op, z, {ints(i), ints(k)}, arange({n}));
    EXPECT_EQ(values(z), sums);
    Values bad = k;
    bad[static_cast<size_t>(n - 2)] = columns;
    const std::string message = "index 3 is out of bounds for axis 1 with size 3";
    expect_error<IndexError>([&] { ops::set(x, {ints(i), ints(bad)}, arange({n})); }, message);
    expect_error<IndexError>([&] { ops::ufunc_at("add"_op, x, {ints(i), ints(bad)}, arange({n})); }, message);
    expect_error<IndexError>([&] { ops::get(x, {ints(i), ints(bad)}); }, message);
    EXPECT_EQ(values(x), before);
  }
}

TEST_P(IndexingOnDevices, TakeByEveryAxisAndMode) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 40; ++round) {
    const Dims shape{1 + static_cast<int64_t>(random() % 40), 1 + static_cast<int64_t>(random() % 6),
                     1 + static_cast<int64_t>(random() % 40)};
    NdArray x = arange(shape);
    if (round % 3 == 1) x = x.T().copy().T();
    if (round % 3 == 2) x = x[{Slice{{}, {}, -1}}];
    const Values flat = values(x);
    const int axis = static_cast<int>(random() % 3);
    const int64_t extent = shape[axis], m = 1 + static_cast<int64_t>(random() % 5);
    const char* const mode = round % 2 == 0 ? "wrap" : "clip";
    Values positions(static_cast<size_t>(2 * m));
    for (int64_t& v : positions) v = static_cast<int64_t>(random() % 200) - 100;
    NdArray index = ints(positions).reshape({2, m});
    if (round % 5 == 0) index = index.T().copy().T();
    const NdArray got = ops::take(x, index, axis, std::nullopt, mode);
    Values expected;
    const int64_t before = axis == 0 ? 1 : axis == 1 ? shape[0] : shape[0] * shape[1];
    const int64_t after = element_count(shape) / before / extent;
    for (int64_t b = 0; b < before; ++b)
      for (int64_t at : positions)
        for (int64_t a = 0; a < after; ++a) {
          const int64_t inside =
              round % 2 == 0 ? (at % extent + extent) % extent : std::clamp<int64_t>(at, 0, extent - 1);
          expected.push_back(flat[static_cast<size_t>((b * extent + inside) * after + a)]);
        }
    EXPECT_EQ(values(got), expected) << round;
  }
}

TEST_P(IndexingOnDevices, EveryWidthAndManyAxes) {
  for (const DType dtype : {DType::bool_, DType::int16, DType::float32, DType::float64, DType::complex128}) {
    const NdArray x = arange({10, 6}).astype(dtype);
    EXPECT_EQ(values(ops::get(x, {ints({9, -9})}).astype(DType::int64)),
              values(ops::get(arange({10, 6}).astype(dtype).astype(DType::int64), {ints({9, 1})})));
    const NdArray z = x.copy();
    ops::set(z, {Slice{}, ints({5, 0})}, ops::get(x, {Slice{}, ints({0, 5})}));
    EXPECT_EQ(values(ops::get(z, {Slice{}, 5}).astype(DType::int64)),
              values(ops::get(x, {Slice{}, 0}).astype(DType::int64)));
    const NdArray m = arange({10, 6}) % 3 == Scalar(0);
    EXPECT_EQ(ops::get(x, {m}).size(), 20);
  }
  const NdArray deep = arange({2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
  const NdArray one = ints({1, 0});
  EXPECT_EQ(values(ops::get(deep, {one, one, one, one, one, one, one, one, one, one})), (Values{1023, 0}));
  EXPECT_EQ(values(ops::get(deep, {ellipsis, one, 0, 0, 0, 0, 0, 0, 0, 0, 0})), (Values{512, 0}));
}

TEST_P(IndexingOnDevices, Masks) {
  const NdArray x = arange({3, 4});
  const NdArray even = x % 2 == Scalar(0);
  EXPECT_EQ(values(ops::get(x, {even})), (Values{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(values(ops::get(x, {mask({true, false, true})})), (Values{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(values(ops::get(x, {Slice{}, mask({true, false, false, true})})), (Values{0, 3, 4, 7, 8, 11}));
  EXPECT_EQ(values(ops::get(x, {mask({true, false, true}), 1})), (Values{1, 9}));
  EXPECT_EQ(ops::get(x, {x > 100}).shape(), (Dims{0}));
  EXPECT_EQ(values(ops::get(x.T(), {even.T()})), (Values{0, 4, 8, 2, 6, 10}));
  const NdArray y = x.copy();
  ops::set(y, {even}, 7);
  EXPECT_EQ(values(y), (Values{7, 1, 7, 3, 7, 5, 7, 7, 7, 9, 7, 11}));
  ops::set(y, {even}, ints({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(y), (Values{1, 1, 2, 3, 3, 5, 4, 7, 5, 9, 6, 11}));
  y(mask({false, true, false})) *= 10;
  EXPECT_EQ(values(y), (Values{1, 1, 2, 3, 30, 50, 40, 70, 5, 9, 6, 11}));
  // A mask of two of three axes, in memory that does not lie in order.
  const NdArray deep = arange({2, 3, 4});
  const NdArray pairs = from_vector<bool>({true, false, false, true, true, false}, {3, 2});
  const int64_t axes[] = {1, 0, 2};
  EXPECT_EQ(values(ops::get(deep.transpose(axes), {pairs, 3})), (Values{3, 19, 11}));
  EXPECT_EQ(values(ops::get(deep, {pairs.T(), 3})), (Values{3, 11, 19}));
}

TEST_P(IndexingOnDevices, LargeMasks) {
  const int64_t n = 100003;  // several tiles and an incomplete one
  std::mt19937_64 random(3);
  for (const uint64_t sparse : {1u, 2u, 1000u}) {
    std::vector<bool> bits(static_cast<size_t>(n));
    Values expected;
    for (int64_t i = 0; i < n; ++i)
      if ((bits[static_cast<size_t>(i)] = random() % sparse == 0)) expected.push_back(i);
    const NdArray m = mask(bits), x = arange({n});
    EXPECT_EQ(values(ops::get(x, {m})), expected);
    EXPECT_EQ(values(ops::get(x[{Slice{{}, {}, -1}}], {m[{Slice{{}, {}, -1}}]})),
              Values(expected.rbegin(), expected.rend()));
    const NdArray y = x.copy();
    ops::set(y, {m}, -ops::get(x, {m}));
    Values negated = counting(n);
    for (int64_t i : expected) negated[static_cast<size_t>(i)] = -i;
    EXPECT_EQ(values(y), negated);
  }
}

TEST_P(IndexingOnDevices, ErrorsNameIndexAxisAndSize) {
  const NdArray x = arange({3, 4});
  const Values before = values(x);
  expect_error<IndexError>([&] { ops::get(x, {ints({0, 5})}); }, "index 5 is out of bounds for axis 0 with size 3");
  expect_error<IndexError>(
      [&] {
        ops::get(x, {Slice{}, ints({-5})});
      },
      "index -5 is out of bounds for axis 1 with size 4");
  expect_error<IndexError>(
      [&] {
        ops::get(x, {ints({0, 1}), ints({9, 7})});
      },
      "index 9 is out of bounds for axis 1 with size 4");
  expect_error<IndexError>(
      [&] {
        ops::set(x, {ints({0, 1, 2, 3})}, -1);
      },
      "index 3 is out of bounds for axis 0 with size 3");
  expect_error<IndexError>(
      [&] {
        ops::ufunc_at("add"_op, x, {ints({0, 8})}, 1);
      },
      "index 8 is out of bounds for axis 0 with size 3");
  EXPECT_EQ(values(x), before);
  expect_error<IndexError>([&] { ops::get(x, {7}); }, "index 7 is out of bounds for axis 0 with size 3");
  expect_error<IndexError>(
      [&] {
        ops::get(NdArray({3, 0}, DType::int8), {ints({4})});
      },
      "index 4 is out of bounds for axis 0 with size 3");
  EXPECT_EQ(ops::get(x, {ints({9}), ints({}).reshape({0, 1})}).shape(), (Dims{0, 1}));
  expect_error<IndexError>(
      [&] {
        ops::get(x, {ints({0, 1}), ints({0, 1, 2})});
      },
      "shape mismatch: indexing arrays could not be broadcast together with shapes (2,) (3,)");
  expect_error<IndexError>(
      [&] {
        ops::get(x, {mask({true, false})});
      },
      "boolean index did not match indexed array along axis 0; size of axis is 3 but size of corresponding boolean "
      "axis "
      "is 2");
  expect_error<IndexError>(
      [&] {
        ops::get(x, {0, 0, ints({0})});
      },
      "too many indices for array: array is 2-dimensional, but 3 were indexed");
  expect_error<IndexError>([&] { ops::get(x, {x.astype(DType::float32)}); }, "integer or boolean arrays are valid");
  expect_error<InvalidArgument>(
      [&] {
        ops::set(x, {x > 8}, ints({1, 2}));
      },
      "NumPy boolean array indexing assignment cannot assign 2 input values to the 3 output values");
  expect_error<InvalidArgument>(
      [&] {
        ops::set(x, {ints({0, 1})}, ints({1, 2}));
      },
      "shape mismatch: value array of shape (2,) could not be broadcast to indexing result of shape (2,4)");
  expect_error<TypeError>([&] { x(ints({0})) += 1.5; }, "Cannot cast ufunc 'add' output");
  EXPECT_THROW(ops::set(arange({2}).astype(DType::int8), {ints({0})}, 300), InvalidArgument);
}

TEST_P(IndexingOnDevices, ErrorsOfFunctionsNameIndexAxisAndSize) {
  const NdArray x = arange({3, 4}), few = arange({4}).astype(DType::int8);
  const Values before = values(x);
  const auto fails = [](const auto& f, const std::string& message) { expect_error<IndexError>(f, message); };
  fails([&] { ops::take(x, ints({1, 4}), 1); }, "index 4 is out of bounds for axis 1 with size 4");
  // Many points of few positions: the first bad one is named, and nothing is left behind by the others.
  const NdArray many = arange({4096, 40});
  fails([&] { ops::take(many, ints({1, 39, -41, 3, 40}), 1); }, "index -41 is out of bounds for axis 1 with size 40");
  fails([&] { ops::take(many, ints({0, 5000}), 0); }, "index 5000 is out of bounds for axis 0 with size 4096");
  EXPECT_EQ(ops::take(many, ints({-1, 0, 39}), 1)[{4095}].to_string(), "[163839 163800 163839]");
  fails([&] { ops::take(x, ints({-4}), 0); }, "index -4 is out of bounds for axis 0 with size 3");
  fails([&] { ops::take(x, ints({12})); }, "index 12 is out of bounds for axis 0 with size 12");
  fails([&] { ops::put(x, ints({0, -13}), 5); }, "index -13 is out of bounds for axis 0 with size 12");
  fails(
      [&] {
        ops::take_along_axis(x, ints({4, 0, 0}).reshape({3, 1}), 1);
      },
      "index 4 is out of bounds for axis 1 with size 4");
  fails(
      [&] {
        ops::put_along_axis(x, ints({0, 0, 0, -4}).reshape({1, 4}), 7, 0);
      },
      "index -4 is out of bounds for axis 0 with size 3");
  fails(
      [&] {
        ops::compress(mask({false, false, false, true}), x, 0);
      },
      "index 3 is out of bounds for axis 0 with size 3");
  fails([&] { ops::get(few, {ints({127})}); }, "index 127 is out of bounds for axis 0 with size 4");
  fails([&] { ops::item(x, {Ints(12)}); }, "index 12 is out of bounds for size 12");
  fails([&] { ops::item(x, {Ints(0), Ints(-5)}); }, "index -5 is out of bounds for axis 1 with size 4");
  fails([&] { x[{0, 4}]; }, "index 4 is out of bounds for axis 1 with size 4");
  fails([&] { x(Slice{}, ints({0, 9})) += 1; }, "index 9 is out of bounds for axis 1 with size 4");
  expect_error<InvalidArgument>(
      [&] {
        ops::unravel_index(ints({1, 99}), {3, 4});
      },
      "index 99 is out of bounds for array with size 12");
  EXPECT_EQ(values(x), before);
}

TEST_P(IndexingOnDevices, OverlapAndRepeats) {
  const NdArray x = arange({6});
  ops::set(x, {ints({0, 1, 2, 3, 4, 5})}, x[{Slice{{}, {}, -1}}]);
  EXPECT_EQ(values(x), (Values{5, 4, 3, 2, 1, 0}));
  const NdArray y = ints({1, 0, 2});
  ops::set(y, {y}, ints({7, 8, 9}));  // the index is the array itself
  EXPECT_EQ(values(y), (Values{8, 7, 9}));
  const NdArray z = arange({4});
  ops::set(z, {ints({1, 1, 1, 2})}, ints({5, 6, 7, 8}));
  EXPECT_EQ(values(z), (Values{0, 7, 8, 3}));
  z(ints({0, 0, 0})) += 1;  // does not accumulate
  EXPECT_EQ(values(z)[0], 1);
  ops::ufunc_at("add"_op, z, {ints({0, 0, 0})}, 1);  // does
  EXPECT_EQ(values(z)[0], 4);
}

TEST_P(IndexingOnDevices, UfuncAt) {
  std::mt19937_64 random(11);
  const int64_t n = 5000, buckets = 37;
  Values where(static_cast<size_t>(n)), by(static_cast<size_t>(n));
  for (int64_t& v : where) v = static_cast<int64_t>(random() % buckets) - (random() % 2 == 0 ? buckets : 0);
  for (int64_t& v : by) v = static_cast<int64_t>(random() % 100) + 1;
  const auto bucket = [&](size_t i) { return static_cast<size_t>(where[i] < 0 ? where[i] + buckets : where[i]); };
  for (const DType dtype : {DType::int8, DType::uint16, DType::int32, DType::int64, DType::float32, DType::float64}) {
    for (const Op op : {"add"_op, "subtract"_op, "maximum"_op, "bitwise_xor"_op, "remainder"_op}) {
      if (op == "bitwise_xor"_op && is_float(dtype)) continue;
      const NdArray x = arange({buckets}).astype(dtype);
      ops::ufunc_at(op, x, {ints(where)}, ints(by).astype(dtype));
      NdArray expected = arange({buckets}).astype(dtype).to(kCpu);
      const NdArray host = ints(by).astype(dtype).to(kCpu);
      dispatch(dtype, [&]<class T>() {
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          T* const out = expected.data<T>();
          for (size_t i = 0; i < where.size(); ++i) {
            T& element = out[bucket(i)];
            const T v = host.data<T>()[i];
            if (op == "add"_op) element = static_cast<T>(element + v);
            if (op == "subtract"_op) element = static_cast<T>(element - v);
            if (op == "maximum"_op) element = std::max(element, v);
            if constexpr (std::is_integral_v<T>) {
              if (op == "bitwise_xor"_op) element = static_cast<T>(element ^ v);
              if (op == "remainder"_op) element = static_cast<T>(((element % v) + v) % v);
            } else {
              if (op == "remainder"_op) element = std::fmod(element, v);
            }
          }
        }
      });
      if (op == "remainder"_op && is_float(dtype)) continue;  // checked by integers
      EXPECT_EQ(values(x.astype(DType::int64)), values(expected.astype(DType::int64)))
          << info(op).name << " " << name(dtype);
    }
  }
  // Mixed dtypes, rows, unary.
  const NdArray x = arange({2, 3}).astype(DType::float16);
  ops::ufunc_at("add"_op, x, {ints({1, 1})}, from_vector<double>({1, 2, 3}));
  EXPECT_EQ(values(x.astype(DType::int64)), (Values{0, 1, 2, 5, 8, 11}));
  const NdArray y = arange({3});
  ops::ufunc_at("negative"_op, y, {ints({1, 2, 2})});
  EXPECT_EQ(values(y), (Values{0, -1, 2}));
  ops::ufunc_at("multiply"_op, y, {mask({false, true, true})}, ints({3, 4}));
  EXPECT_EQ(values(y), (Values{0, -3, 8}));
  const NdArray z = from_vector<std::complex<double>>({{1, 2}, {3, 4}});
  ops::ufunc_at("multiply"_op, z, {ints({0, 0, 1})}, from_vector<std::complex<double>>({{0, 1}, {0, 1}, {2, 0}}));
  EXPECT_EQ(to_vector<std::complex<double>>(z), (std::vector<std::complex<double>>{{-1, -2}, {6, 8}}));
  EXPECT_THROW(ops::ufunc_at("add"_op, y, {ints({0})}), InvalidArgument);
  EXPECT_THROW(ops::ufunc_at("add"_op, y, {ints({0, 1})}, ints({1, 2, 3})), InvalidArgument);
}

// Far more points than elements; sums of whole numbers are exact in any order.
TEST_P(IndexingOnDevices, ManyAdditionsToFewElements) {
  constexpr int64_t n = 300'000;
  for (const DType dtype : {DType::int32, DType::uint64, DType::float32, DType::float64, DType::complex64}) {
    for (const int64_t buckets : {1, 50, 4000}) {
      Values where(n), by(n), expected(static_cast<size_t>(2 * buckets));
      for (int64_t i = 0; i < n; ++i) {
        const int64_t bucket = i * 7919 % buckets;
        where[static_cast<size_t>(i)] = bucket - (i % 2 == 0 ? buckets : 0);
        by[static_cast<size_t>(i)] = i % 7;
        expected[static_cast<size_t>(2 * bucket + 1)] += i % 7;
      }
      const NdArray backing = arange({2 * buckets}).astype(dtype);
      const NdArray x = ops::get(backing, {Slice{1, {}, 2}});
      const NdArray before = backing.copy();
      ops::ufunc_at("add"_op, x, {ints(where)}, ints(by).astype(dtype));
      EXPECT_EQ(values((backing - before).astype(DType::int64)), expected) << name(dtype) << " " << buckets;
      ops::ufunc_at("subtract"_op, x, {ints(where)}, ints(by).astype(dtype));
      EXPECT_EQ(values(backing.astype(DType::int64)), values(before.astype(DType::int64))) << name(dtype);
    }
  }
  // Elements that nothing is added to keep their sign of zero; a bad position: nothing is written.
  const NdArray x = from_vector<double>({-0.0, 0, 0});
  ops::ufunc_at("add"_op, x, {ints(Values(n, 2))}, 1);
  EXPECT_TRUE(std::signbit(to_vector<double>(x)[0]));
  Values where(n, 2);
  where.back() = 3;
  EXPECT_THROW(ops::ufunc_at("add"_op, x, {ints(where)}, 1), IndexError);
  EXPECT_EQ(to_vector<double>(x)[2], static_cast<double>(n));
}

}  // namespace
}  // namespace quarry::local
