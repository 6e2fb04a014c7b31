// Distinct elements, set functions and what sorts by several keys, on every device: properties of larger data. Values
// against NumPy are in the oracle's cases.
#include "quarry/local/ops/sorting/sets.h"

#include <gtest/gtest.h>

#include <algorithm>
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
