// Assignment to elements of chunked arrays: values are those of the same assignment to an array of one process, for
// random indices, values and chunks; mistakes are found before anything changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/local/local.h"
#include "tests/support/cuts.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"
#include "tests/support/runtime_on.h"

namespace quarry {
namespace {

namespace ops = local::ops;
using local::IndexError;
using local::InvalidArgument;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Array numbers(int64_t n, int64_t chunk) { return Array::from_local(ops::arange(n)).rechunk({chunk}); }

// The same index for both kinds of array.
struct BothTerms {
  std::vector<IndexTerm> chunked;
  std::vector<local::IndexTerm> local;
  std::string text;

  void add(const local::IndexTerm& term, const IndexTerm& chunked_term, const std::string& what) {
    local.push_back(term);
    chunked.push_back(chunked_term);
    text += what + " ";
  }
};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool one_in(int64_t n) { return pick(0, n - 1) == 0; }
  std::mt19937& random() { return random_; }

  Dims shape(int ndim) {
    Dims shape;
    for (int d = 0; d < ndim; ++d) shape.push_back(one_in(14) ? pick(0, 1) : pick(2, 7));
    return shape;
  }
  NdArray values(const Dims& shape, DType dtype) {
    std::vector<double> values(static_cast<size_t>(local::element_count(shape)));
    for (double& value : values) value = one_in(9) ? local::nan : static_cast<double>(pick(-50, 50));
    if (!local::is_float(dtype))
      for (double& value : values) value = std::isnan(value) ? 77 : value;
    return local::from_vector(values, shape).astype(dtype);
  }
  Slice slice(int64_t extent) {
    Slice slice;
    if (!one_in(3)) slice.start = pick(-extent - 1, extent + 1);
    if (!one_in(3)) slice.stop = pick(-extent - 1, extent + 1);
    if (!one_in(3)) slice.step = one_in(2) ? pick(1, 3) : -pick(1, 3);
    return slice;
  }
  NdArray mask(const Dims& shape) {
    std::vector<bool> values;
    for (int64_t i = local::element_count(shape); i > 0; --i) values.push_back(one_in(2));
    return local::from_vector(values, shape);
  }
  NdArray positions(const Dims& shape, int64_t extent) {
    std::vector<int64_t> values;
    for (int64_t i = local::element_count(shape); i > 0; --i) values.push_back(pick(-extent, extent - 1));
    return local::from_vector(values, shape);
  }

  BothTerms index(const Dims& shape) {
    BothTerms terms;
    const Dims together{pick(1, 3), pick(0, 5)};
    bool had_ellipsis = false;
    for (int d = 0; d < shape.size();) {
      const int64_t extent = shape[d];
      const int64_t kind = pick(0, 9);
      if (kind == 0) {
        terms.add(local::newaxis, local::newaxis, "newaxis");
      } else if (kind == 1 && !had_ellipsis) {
        terms.add(local::ellipsis, local::ellipsis, "...");
        had_ellipsis = true;
        d += static_cast<int>(pick(0, shape.size() - d));
      } else if (kind == 2 && extent > 0) {
        const int64_t position = pick(-extent, extent - 1);
        terms.add(position, position, std::to_string(position));
        ++d;
      } else if (kind <= 4 && extent > 0) {
        const Dims of_term[] = {together, {together[1]}, {1}, {}};
        const NdArray array = positions(of_term[pick(0, 3)], extent);
        terms.add(array, testing::cut(array, random_), array.to_string());
        ++d;
      } else if (kind == 5) {
        const int axes = static_cast<int>(pick(1, shape.size() - d));
        Dims of_mask;
        for (int i = 0; i < axes; ++i) of_mask.push_back(shape[d + i]);
        const NdArray array = mask(of_mask);
        terms.add(array, testing::cut(array, random_), array.to_string());
        d += axes;
      } else {
        const Slice each = slice(extent);
        const auto text = [](const std::optional<int64_t>& v) { return v ? std::to_string(*v) : ""; };
        terms.add(each, each, text(each.start) + ":" + text(each.stop) + ":" + text(each.step));
        ++d;
      }
      if (one_in(5)) break;
    }
    return terms;
  }

 private:
  std::mt19937 random_;
};

// What a call gives or, instead, which error.
template <class F>
std::pair<std::optional<NdArray>, std::string> outcome(const F& call) {
  try {
    return {call(), ""};
  } catch (const local::Error& error) {
    return {std::nullopt, error.what()};
  }
}

class Assigned : public ::testing::TestWithParam<local::DeviceKind> {};

TEST_P(Assigned, RandomIndicesMeanWhatTheyMeanOnWholeArrays) {
  const Runtime runtime(testing::runtime_on(GetParam()));
  const int draws = GetParam() == local::DeviceKind::cpu ? 900 : 150;
  int compared = 0, refused = 0;
  for (int seed = 0; seed < draws; ++seed) {
    Draw draw(static_cast<unsigned>(seed));
    const Dims shape = draw.shape(static_cast<int>(draw.pick(1, 3)));
    constexpr DType kTypes[] = {DType::float64, DType::int32, DType::float32, DType::int8};
    const DType dtype = kTypes[draw.pick(0, 3)];
    const NdArray whole = draw.values(shape, dtype);
    const BothTerms terms = draw.index(shape);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": shape " + local::to_string(shape) + ", index " + terms.text);
    const auto selected = outcome([&] { return ops::get(whole, terms.local); });
    const Array x = testing::cut(whole, draw.random());
    const auto read = outcome([&] { return index(x, terms.chunked).to_host(); });
    ASSERT_EQ(read.first.has_value(), selected.first.has_value()) << read.second << selected.second;
    if (!selected.first) {
      ++refused;
      continue;
    }
    ASSERT_TRUE(testing::close(*read.first, *selected.first, 0, 0)) << read.first->repr() << selected.first->repr();
    // Values of the result's shape, or with axes of one element, or with fewer axes.
    Dims of_values = selected.first->shape();
    for (int d = 0; d < of_values.size(); ++d)
      if (draw.one_in(4)) of_values[d] = 1;
    while (of_values.size() > 0 && draw.one_in(4)) of_values.erase(0);
    const NdArray values = draw.values(of_values, draw.one_in(3) ? DType::float64 : dtype);
    const auto expected = outcome([&] {
      NdArray copy = whole.copy();
      ops::set(copy, terms.local, values);
      return copy;
    });
    Array result;
    const auto given = outcome([&] {
      result = assigned(x, terms.chunked, testing::cut(values, draw.random()));
      return result.to_host();
    });
    ASSERT_EQ(given.first.has_value(), expected.first.has_value()) << given.second << expected.second;
    if (!expected.first) {
      ++refused;
      continue;
    }
    ++compared;
    ASSERT_EQ(result.dtype(), dtype);
    ASSERT_TRUE(testing::close(*given.first, *expected.first, 0, 0))
        << given.first->repr() << "\nwhole: " << expected.first->repr() << "\nvalues: " << values.repr();
    ASSERT_TRUE(testing::close(x.to_host(), whole, 0, 0)) << "the array itself has changed";
    // A slice of the result computes the same.
    std::vector<local::IndexItem> part;
    for (const int64_t extent : shape) part.emplace_back(draw.slice(extent));
    ASSERT_TRUE(testing::close(std::as_const(result)[part].to_host(), (*expected.first)[part], 0, 0));
  }
  EXPECT_GT(compared, draws / 2);
  EXPECT_GT(refused, 0);
}

TEST_P(Assigned, RandomUpdatesMeanWhatTheyMeanOnWholeArrays) {
  const Runtime runtime(testing::runtime_on(GetParam()));
  int compared = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    Draw draw(1000 + seed);
    const Dims shape = draw.shape(static_cast<int>(draw.pick(1, 3)));
    const NdArray whole = draw.values(shape, DType::int64);
    const BothTerms terms = draw.index(shape);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": shape " + local::to_string(shape) + ", index " + terms.text);
    const NdArray value = draw.values({}, DType::int64);
    const auto expected = outcome([&] {
      NdArray copy = whole.copy();
      ops::update(copy, terms.local, local::named_op<"multiply">(), value);
      return copy;
    });
    const Array x = testing::cut(whole, draw.random());
    const auto given = outcome([&] {
      return updated(x, terms.chunked, local::named_op<"multiply">(), testing::cut(value, draw.random())).to_host();
    });
    ASSERT_EQ(given.first.has_value(), expected.first.has_value()) << given.second << expected.second;
    if (!expected.first) continue;
    ++compared;
    ASSERT_TRUE(testing::close(*given.first, *expected.first, 0, 0));
  }
  EXPECT_GT(compared, 60);
}

QUARRY_ON_DEVICE_KINDS(Assigned);

TEST(Assignment, TheHandleNamesANewArray) {
  Array x = numbers(6, 4);
  const Array before = x;
  x[0] = 9;
  x("1:3"_s) = NdArray{7, 8};
  EXPECT_EQ(x.to_host().to_string(), "[9 7 8 3 4 5]");
  EXPECT_EQ(before.to_host().to_string(), "[0 1 2 3 4 5]");
  x[x > 6] = 0;
  x["::-2"_s] += 10;
  EXPECT_EQ(x.to_host().to_string(), "[ 0 10  0 13  4 15]");
  x(NdArray{1, 1, -1}) = x(NdArray{3, 5, 1});
  EXPECT_EQ(x.to_host().to_string(), "[ 0 15  0 13  4 10]");
  x[NdArray{0, 0}] -= 1;
  EXPECT_EQ(x.to_host().to_string(), "[-1 15  0 13  4 10]");
  x[ellipsis] = 5;
  EXPECT_EQ(x.to_host().to_string(), "[5 5 5 5 5 5]");
}

TEST(Assignment, ViewsAndElementsAreArrays) {
  Array x = numbers(6, 4);
  EXPECT_EQ((x["1:3"_s] * 2).to_host().to_string(), "[2 4]");
  EXPECT_EQ(sqrt(x[slice(4, 5)]).to_host().to_string(), "[2.]");
  const Array some = x[x > 3];
  EXPECT_EQ(some.to_host().to_string(), "[4 5]");
  EXPECT_EQ(x[x > 3].sum().item<int64_t>(), 9);
  EXPECT_EQ((x[x > 3] + 1).to_host().to_string(), "[5 6]");
  EXPECT_EQ(x[nonzero(x > 3)].to_host().to_string(), "[4 5]");
  const Array row = x[1];
  x[1] = 40;
  EXPECT_EQ(row.item<int64_t>(), 1);
  static_assert(!std::is_assignable_v<Array, Array>, "x.T() = y compiles");
  static_assert(!std::is_assignable_v<const Array&, Array>);
  static_assert(!std::is_assignable_v<decltype(std::declval<const Array&>()[0]), int>);
}

TEST(Assignment, MistakesAreNamedBeforeAnythingChanges) {
  Array x = numbers(6, 4);
  EXPECT_THAT([&] { x[6] = 1; },
              ThrowsMessage<IndexError>(HasSubstr("index 6 is out of bounds for axis 0 with size 6")));
  const NdArray outside{1, -7};
  EXPECT_THAT([&] { x[outside] = 1; },
              ThrowsMessage<IndexError>(HasSubstr("index -7 is out of bounds for axis 0 with size 6")));
  EXPECT_THAT([&] { x[numbers(7, 3)] = 1; }, ThrowsMessage<IndexError>(HasSubstr("index 6")));
  EXPECT_THAT([&] { x[numbers(5, 3) > 2] = 1; },
              ThrowsMessage<IndexError>(AllOf(HasSubstr("axis 0"), HasSubstr("is 6"), HasSubstr("is 5"))));
  const NdArray three{1, 2, 3};
  EXPECT_THAT([&] { x["1:3"_s] = three; }, ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("(3,)"), HasSubstr("(2,)"))));
  EXPECT_THAT([&] { x[x > 1] = three; },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("3 input values"), HasSubstr("4 output values"))));
  EXPECT_THROW((x(0, 0) = 1), IndexError);
  EXPECT_THROW((x[0] = NdArray{1}), InvalidArgument);
  EXPECT_THROW((x[NdArray{1.5}] = 1), IndexError);
  EXPECT_THROW((x[1] = local::nan), InvalidArgument);
  EXPECT_THROW((x[slice(0, 2)] += 0.5), local::TypeError);
  EXPECT_THROW((x[x > 1] += 0.5), local::TypeError);
  EXPECT_EQ(x.to_host().to_string(), "[0 1 2 3 4 5]");
}

TEST(Assignment, MasksOfNoAxes) {
  Array x = numbers(4, 3);
  x[true] = 7;
  EXPECT_EQ(x.to_host().to_string(), "[7 7 7 7]");
  x[false] = 8;
  x(false, 0) = 8;
  EXPECT_EQ(x.to_host().to_string(), "[7 7 7 7]");
  x(true, 2) = 9;
  EXPECT_EQ(x.to_host().to_string(), "[7 7 9 7]");
  EXPECT_EQ(index(x, {true, Slice{}}).shape(), (Dims{1, 4}));
  EXPECT_EQ(index(x, {false, Slice{}}).shape(), (Dims{0, 4}));
  Array s = Array::from_local(ops::full({}, 1.0));
  s[s < 2] = 5.;
  EXPECT_EQ(s.item<double>(), 5);
  s[ellipsis] = 6.;
  EXPECT_EQ(s.item<double>(), 6);
}

// What counts the chunks that it computes.
Array counting(std::atomic<int>& chunks, const Array& x) {
  return map_blocks(
      [&chunks](const NdArray& a) {
        ++chunks;
        return a;
      },
      x, {}, {.dtypes = {x.dtype()}});
}

TEST(Assignment, OnlyWhatIsReachedIsComputed) {
  std::atomic<int> of_array{0}, of_values{0};
  const Array x = counting(of_array, numbers(40, 10)), values = counting(of_values, numbers(20, 5));
  const Array lazy = assigned(x, {Slice{15, 35, {}}}, values);
  EXPECT_EQ(of_array + of_values, 0);
  // Values alone reach the third chunk, and nothing else is computed for it.
  EXPECT_EQ(lazy["20:30"_s].to_host().to_string(), "[ 5  6  7  8  9 10 11 12 13 14]");
  of_array = of_values = 0;
  EXPECT_EQ(lazy["0:10"_s].to_host().to_string(), "[0 1 2 3 4 5 6 7 8 9]");
  EXPECT_EQ(of_values, 0);
  // One value by a mask is lazy.
  std::atomic<int> of_mask{0};
  const Array masked = assigned(x, {counting(of_mask, numbers(40, 10)) > 38}, -1);
  EXPECT_EQ(of_mask, 0);
  EXPECT_EQ(masked["38:"_s].to_host().to_string(), "[38 -1]");
}

TEST(Assignment, AVeryLargeArrayIsLazy) {
  Array x = zeros({1'000'000, 1'000'000});
  x(slice(3, none, 1000), -1) = 2;
  x[x > 1] = 7;
  x[5] = arange(1000000);
  EXPECT_EQ(x(3, -1).item<double>(), 7);
  EXPECT_EQ(x(5, 12).item<double>(), 12);
  EXPECT_EQ(x(4, 12).item<double>(), 0);
  x(_, NdArray{999'999, -2}) = 8;
  EXPECT_EQ(x(77, 999'998).item<double>(), 8);
  EXPECT_EQ(x(77, 999'997).item<double>(), 0);
}

// Positions are eight times as large as these elements, and count as scratch.
TEST(Assignment, PositionsOfNarrowElementsHaveTheirScratch) {
  constexpr int64_t n = 1 << 20;
  const NdArray whole = ops::remainder(ops::arange(n), 100).astype(DType::int8);
  for (const int64_t chunk : {n, n / 3}) {
    const Array x = Array::from_local(whole).rechunk({chunk});
    const Array some = x == 3;
    const int64_t count = sum(some).item<int64_t>();
    const Array numbered = assigned(x, {some}, remainder(arange(count), 90));
    EXPECT_EQ(numbered[903].item<int64_t>(), 9);
    EXPECT_EQ(numbered[904].item<int64_t>(), 4);
    const Array backwards = assigned(x, {ops::arange(n - 1, -1, -1)}, x);
    EXPECT_TRUE(all(backwards == std::as_const(x)["::-1"_s]).item<bool>());
    EXPECT_TRUE(all(assigned(x, {Slice{{}, {}, -1}}, x) == backwards).item<bool>());
    EXPECT_TRUE(all(assigned(x, {Slice{0, n, 3}}, x(slice(0, n, 3))) == x).item<bool>());
  }
}

TEST(PutAlongAxis, WritesWhatArgsortNames) {
  std::mt19937 random(7);
  for (const int64_t axis : {0, 1, -1}) {
    const NdArray whole = ops::arange(24).reshape(4, 6);
    const NdArray indices =
        ops::remainder(ops::arange(axis == 0 ? 12 : 8), 4).reshape(axis == 0 ? Dims{2, 6} : Dims{4, 2});
    const NdArray expected = whole.copy();
    ops::put_along_axis(expected, indices, NdArray{-1, -2}.reshape(axis == 0 ? Dims{2, 1} : Dims{1, 2}), axis);
    const Array x = testing::cut(whole, random);
    const Array values = Array::from_local(NdArray{-1, -2}.reshape(axis == 0 ? Dims{2, 1} : Dims{1, 2}));
    EXPECT_EQ(put_along_axis(x, testing::cut(indices, random), values, axis).to_host().to_string(),
              expected.to_string());
  }
  const Array x = numbers(6, 4);
  EXPECT_EQ(put_along_axis(x, Array{1, -1}, 9, {}).to_host().to_string(), "[0 9 2 3 4 9]");
  EXPECT_THROW(put_along_axis(x, Array{6}, 9, 0).to_host(), local::Error);
  EXPECT_THROW(put_along_axis(x, Array{1.5}, 9, 0), IndexError);
  EXPECT_THROW(put_along_axis(reshape(x, {2, 3}), Array{1}, 9, 0), InvalidArgument);
}

}  // namespace
}  // namespace quarry
