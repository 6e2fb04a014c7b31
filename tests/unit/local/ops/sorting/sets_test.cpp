// Distinct elements, set functions and what sorts by several keys, on every device: properties of larger data. Values
// against NumPy are in the oracle's cases.
#include "quarry/local/ops/sorting/sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "quarry/local/ops/sorting/sorting.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

std::vector<int32_t> random_values(int64_t n, int32_t bound, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> values(static_cast<size_t>(n));
  for (int32_t& value : values) value = static_cast<int32_t>(random() % static_cast<uint64_t>(bound)) - bound / 2;
  return values;
}

class Sets : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Sets);

TEST_P(Sets, UniqueDescribesItsInput) {
  for (const int32_t bound : {1, 50, 2000000000}) {
    for (const int64_t n : {1, 2, 1000, 200000}) {
      const std::vector<int32_t> values = random_values(n, bound, static_cast<uint64_t>(n + bound));
      std::map<int32_t, std::pair<int64_t, int64_t>> expected;  // the first position, the count
      for (int64_t i = 0; i < n; ++i) {
        auto& entry = expected.try_emplace(values[static_cast<size_t>(i)], i, 0).first->second;
        ++entry.second;
      }
      const auto result = ops::unique_all(from_vector(values));
      const std::vector<int32_t> distinct = to_vector<int32_t>(result.values);
      const std::vector<int64_t> indices = to_vector<int64_t>(result.indices),
                                 counts = to_vector<int64_t>(result.counts);
      ASSERT_EQ(distinct.size(), expected.size());
      size_t at = 0;
      for (const auto& [value, entry] : expected) {
        ASSERT_EQ(distinct[at], value);
        ASSERT_EQ(indices[at], entry.first);
        ASSERT_EQ(counts[at], entry.second);
        ++at;
      }
      const std::vector<int64_t> inverse = to_vector<int64_t>(result.inverse_indices);
      for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(distinct[static_cast<size_t>(inverse[i])], values[i]);
      EXPECT_EQ(to_vector<int32_t>(ops::unique_values(from_vector(values))), distinct);
      EXPECT_EQ(to_vector<int64_t>(ops::unique_counts(from_vector(values)).counts), counts);
    }
  }
}

TEST_P(Sets, FunctionsOfTwoSets) {
  const std::vector<int32_t> one = random_values(30000, 40000, 1), other = random_values(20000, 50000, 2);
  const std::set<int32_t> a(one.begin(), one.end()), b(other.begin(), other.end());
  const NdArray x = from_vector(one), y = from_vector(other);
  std::vector<int32_t> expected;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
  EXPECT_EQ(to_vector<int32_t>(ops::union1d(x, y)), expected);
  expected.clear();
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
  EXPECT_EQ(to_vector<int32_t>(std::get<NdArray>(ops::intersect1d(x, y))), expected);
  expected.clear();
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
  EXPECT_EQ(to_vector<int32_t>(ops::setdiff1d(x, y)), expected);
  expected.clear();
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
  EXPECT_EQ(to_vector<int32_t>(ops::setxor1d(x, y)), expected);
  const std::vector<bool> found = to_vector<bool>(ops::isin(x, y));
  for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(found[i], b.contains(one[i]));
}

TEST_P(Sets, MembershipOfExtremes) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t base : {kLeast, kLeast + 1, int64_t{-500}, kMost - 3000}) {
    std::vector<int64_t> set(3000), element = {kLeast, kLeast + 1, -1, 0, 1, kMost - 1, kMost, base, base + 2999};
    for (size_t i = 0; i < set.size(); ++i) set[i] = base + static_cast<int64_t>(i / 2 * 2);
    for (int64_t i = 0; i < 50; ++i) element.push_back(base + 17 * i);
    const std::set<int64_t> members(set.begin(), set.end());
    const std::vector<bool> found = to_vector<bool>(ops::isin(from_vector(element), from_vector(set)));
    const std::vector<bool> missing = to_vector<bool>(ops::isin(from_vector(element), from_vector(set), false, true));
    for (size_t i = 0; i < element.size(); ++i) {
      EXPECT_EQ(found[i], members.contains(element[i])) << element[i] << " in " << base;
      EXPECT_EQ(missing[i], !members.contains(element[i]));
    }
  }
}

// Integers of 64 bits of both signs, and narrower ones beside uint64, of which float64 does not hold all.
TEST_P(Sets, MembershipOfMixedIntegersIsExact) {
  constexpr int64_t kBig = int64_t{1} << 53;
  const std::vector<int64_t> signs = {
      kBig + 1, kBig, -1, 5, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 0};
  const std::vector<uint64_t> plain = {
      static_cast<uint64_t>(kBig),    ~uint64_t{0}, 5, uint64_t{1} << 63, (uint64_t{1} << 63) - 2,
      static_cast<uint64_t>(kBig) + 3};
  for (const int64_t repeats : {1, 10, 400}) {  // few elements, a sorted set, a set large enough for a table
    std::vector<int64_t> a;
    std::vector<uint64_t> b;
    for (int64_t r = 0; r < repeats; ++r) {
      for (const int64_t x : signs) a.push_back(r == 0 ? x : x / 2 + 4 * r);
      for (const uint64_t x : plain) b.push_back(r == 0 ? x : x - static_cast<uint64_t>(r) * 8);
    }
    const auto same = [](int64_t x, uint64_t y) { return x >= 0 && static_cast<uint64_t>(x) == y; };
    const NdArray x = from_vector(a), y = from_vector(b);
    for (const bool invert : {false, true}) {
      const std::vector<bool> one = to_vector<bool>(ops::isin(x, y, false, invert)),
                              other = to_vector<bool>(ops::isin(y, x, false, invert));
      for (size_t i = 0; i < a.size(); ++i) {
        const bool found = std::any_of(b.begin(), b.end(), [&](uint64_t v) { return same(a[i], v); });
        EXPECT_EQ(one[i], found != invert) << a[i];
      }
      for (size_t i = 0; i < b.size(); ++i) {
        const bool found = std::any_of(a.begin(), a.end(), [&](int64_t v) { return same(v, b[i]); });
        EXPECT_EQ(other[i], found != invert) << b[i];
      }
    }
    std::set<int64_t> rest(a.begin(), a.end());
    for (const uint64_t v : b)
      if (v <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) rest.erase(static_cast<int64_t>(v));
    EXPECT_EQ(to_vector<int64_t>(ops::setdiff1d(x, y)), std::vector<int64_t>(rest.begin(), rest.end()));
  }
  const NdArray narrow = from_vector<int8_t>({-1, 5, 0}), wide = from_vector<uint64_t>({~uint64_t{0}, 5});
  EXPECT_EQ(to_vector<bool>(ops::isin(narrow, wide, false, false, "sort")), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(to_vector<bool>(ops::isin(wide, narrow, false, false, "sort")), (std::vector<bool>{false, true}));
}

TEST_P(Sets, MembershipOfAwkwardArrays) {
  const NdArray zeros = from_vector<double>({0.0, -0.0, NAN, 1, INFINITY});
  for (const auto kind : {std::optional<std::string_view>(), std::optional<std::string_view>("sort")}) {
    const auto found = [&](const NdArray& x, const NdArray& set) {
      return to_vector<bool>(ops::isin(x, set, false, false, kind));
    };
    EXPECT_EQ(found(zeros, from_vector<double>({-0.0, NAN})), (std::vector<bool>{true, true, false, false, false}));
    EXPECT_EQ(found(zeros, from_vector<float>({INFINITY}, Dims{})),
              (std::vector<bool>{false, false, false, false, true}));
    EXPECT_EQ(found(zeros[{Slice{std::nullopt, std::nullopt, -2}}], from_vector<int32_t>({1, 0, 0}, {3, 1})),
              (std::vector<bool>{false, false, true}));
    EXPECT_EQ(found(from_vector<double>({}), zeros), std::vector<bool>{});
    EXPECT_EQ(found(zeros, from_vector<double>({})), std::vector<bool>(5, false));
    EXPECT_EQ(ops::isin(from_vector<double>({1}, Dims{}), zeros, false, false, kind).ndim(), 0);
  }
  std::vector<int16_t> all(40);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int16_t>(3 * i);
  for (int64_t count = 1; count <= 40; ++count) {  // around the number that is compared one by one
    const std::vector<int16_t> set(all.begin(), all.begin() + count);
    const std::vector<bool> found = to_vector<bool>(ops::isin(test::arange({130}), from_vector(set)));
    for (int64_t i = 0; i < 130; ++i) ASSERT_EQ(found[static_cast<size_t>(i)], i % 3 == 0 && i / 3 < count);
  }
}

// Of equal elements the first one is taken, whether positions are asked for or not.
TEST_P(Sets, BothZerosAreOneElement) {
  for (const int64_t n : {2, 9, 40, 3000}) {
    for (const bool negative : {false, true}) {
      std::vector<double> values(static_cast<size_t>(n));
      for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 2 ? i % 5 - 2.5 : i % 2 == 0 ? 0.0 : -0.0;
      values[0] = negative ? -0.0 : 0.0;
      for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
        const NdArray a = from_vector(values).astype(dtype);
        const auto zero = [&](const NdArray& result) {
          std::vector<bool> found;
          for (const double x : test::doubles(result))
            if (x == 0) found.push_back(std::signbit(x));
          return found;
        };
        const std::vector<bool> expected{negative};
        EXPECT_EQ(zero(std::get<NdArray>(ops::unique(a))), expected);
        EXPECT_EQ(zero(std::get<ArrayTuple>(ops::unique(a, true))[0]), expected);
        EXPECT_EQ(zero(std::get<ArrayTuple>(ops::unique(a, false, true))[0]), expected);
        EXPECT_EQ(zero(std::get<ArrayTuple>(ops::unique(a, false, false, true))[0]), expected);
        EXPECT_EQ(to_vector<int64_t>(ops::unique_all(a).indices).size(), ops::unique_values(a).size());
        EXPECT_EQ(zero(ops::unique_values(a)), expected);
        EXPECT_EQ(zero(ops::unique_counts(a).values), expected);
        EXPECT_EQ(zero(ops::union1d(a, from_vector<double>({0.0, -0.0}).astype(dtype))), expected);
        EXPECT_EQ(
            zero(std::get<NdArray>(ops::intersect1d(a, from_vector<double>({negative ? 0.0 : -0.0}).astype(dtype)))),
            expected);
        const auto counts = ops::unique_counts(a);
        int64_t total = 0;
        for (const int64_t count : to_vector<int64_t>(counts.counts)) total += count;
        EXPECT_EQ(total, n);
      }
    }
  }
}

TEST_P(Sets, RowsAreDistinctOrSame) {
  const std::vector<int32_t> values = random_values(3000 * 3, 6, 7);
  const ArrayTuple result = std::get<ArrayTuple>(ops::unique(from_vector(values, {3000, 3}), true, true, true, 0));
  std::map<std::vector<int32_t>, std::pair<int64_t, int64_t>> expected;
  for (int64_t i = 0; i < 3000; ++i) {
    const auto row = values.begin() + i * 3;
    ++expected.try_emplace(std::vector<int32_t>(row, row + 3), i, 0).first->second.second;
  }
  std::vector<int32_t> rows;
  std::vector<int64_t> indices, counts;
  for (const auto& [row, entry] : expected) {
    rows.insert(rows.end(), row.begin(), row.end());
    indices.push_back(entry.first);
    counts.push_back(entry.second);
  }
  EXPECT_EQ(to_vector<int32_t>(result[0]), rows);
  EXPECT_EQ(to_vector<int64_t>(result[1]), indices);
  EXPECT_EQ(to_vector<int64_t>(result[3]), counts);
}

TEST_P(Sets, LexsortIsStable) {
  const int64_t n = 50000;
  const std::vector<int32_t> first = random_values(n, 9, 1), second = random_values(n, 5, 2);
  std::vector<int64_t> expected(static_cast<size_t>(n));
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&](int64_t i, int64_t j) {
    const auto a = static_cast<size_t>(i), b = static_cast<size_t>(j);
    return std::pair(second[a], first[a]) < std::pair(second[b], first[b]);
  });
  EXPECT_EQ(to_vector<int64_t>(ops::lexsort({from_vector(first), from_vector(second)})), expected);
}

TEST_P(Sets, TopKIsTheEndOfASort) {
  for (const bool largest : {true, false}) {
    for (const int64_t k : {1, 7, 100, 10000}) {
      const std::vector<int32_t> values = random_values(20000, 1000000, 3);
      const NdArray a = from_vector(values, {2, 10000});
      const auto [best, where] = ops::top_k(a, k, -1, largest);
      const std::vector<int32_t> got = to_vector<int32_t>(best);
      const std::vector<int64_t> positions = to_vector<int64_t>(where);
      for (int64_t row = 0; row < 2; ++row) {
        std::vector<int32_t> sorted(values.begin() + row * 10000, values.begin() + (row + 1) * 10000);
        std::sort(sorted.begin(), sorted.end());
        if (largest) std::reverse(sorted.begin(), sorted.end());
        for (int64_t i = 0; i < k; ++i) {
          const auto at = static_cast<size_t>(row * k + i);
          ASSERT_EQ(got[at], sorted[static_cast<size_t>(i)]);
          ASSERT_EQ(values[static_cast<size_t>(row * 10000 + positions[at])], got[at]);
        }
      }
    }
  }
  EXPECT_THROW(ops::top_k(from_vector<int32_t>({1, 2}), 3), InvalidArgument);
}

}  // namespace
}  // namespace quarry::local
