// Quicksort in vector registers against std::sort.
#include "quarry/local/cpu/sorting/vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace quarry::local::cpu {
namespace {

using Values = std::function<uint64_t(int64_t i, int64_t n, std::mt19937_64& random)>;

const std::vector<Values>& patterns() {
  static const std::vector<Values> all = {
      [](int64_t, int64_t, std::mt19937_64& random) { return random(); },
      [](int64_t, int64_t, std::mt19937_64& random) { return random() % 3; },
      [](int64_t, int64_t, std::mt19937_64& random) { return ~uint64_t{0} - random() % 3; },
      [](int64_t, int64_t, std::mt19937_64&) { return ~uint64_t{0}; },
      [](int64_t, int64_t, std::mt19937_64&) { return uint64_t{0}; },
      [](int64_t i, int64_t, std::mt19937_64&) { return static_cast<uint64_t>(i); },
      [](int64_t i, int64_t n, std::mt19937_64&) { return static_cast<uint64_t>(n - i); },
      [](int64_t i, int64_t n, std::mt19937_64&) { return static_cast<uint64_t>(std::min(i, n - i)); },
      [](int64_t i, int64_t, std::mt19937_64&) { return static_cast<uint64_t>(i % 17); },
      [](int64_t, int64_t, std::mt19937_64& random) { return uint64_t{1} << (random() % 64); },
  };
  return all;
}

template <class Key>
void check(int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(n));
  for (const Values& pattern : patterns()) {
    std::vector<Key> keys(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) keys[static_cast<size_t>(i)] = static_cast<Key>(pattern(i, n, random));
    std::vector<Key> expected = keys;
    std::sort(expected.begin(), expected.end());
    std::vector<Key> sorted = keys;
    sorted.resize(keys.size() + 64, Key{77});  // nothing is written behind the end
    vector_sort(sorted.data(), n, Decoding::none);
    ASSERT_TRUE(std::all_of(sorted.begin() + n, sorted.end(), [](Key key) { return key == 77; })) << n;
    sorted.resize(keys.size());
    ASSERT_EQ(sorted, expected) << n;
    for (const std::vector<int64_t>& kth : {std::vector<int64_t>{n / 3}, std::vector<int64_t>{0, n / 2, n - 1}}) {
      if (n == 0) continue;
      std::vector<Key> parts = keys;
      vector_sort(parts.data(), n, Decoding::none, kth.data(), static_cast<int64_t>(kth.size()));
      for (const int64_t k : kth) {
        const Key at = expected[static_cast<size_t>(k)];
        ASSERT_EQ(parts[static_cast<size_t>(k)], at) << n;
        ASSERT_TRUE(std::all_of(parts.begin(), parts.begin() + k, [at](Key key) { return key <= at; })) << n;
        ASSERT_TRUE(std::all_of(parts.begin() + k, parts.end(), [at](Key key) { return key >= at; })) << n;
      }
      std::sort(parts.begin(), parts.end());
      ASSERT_EQ(parts, expected) << n;
    }
  }
}

TEST(VectorSort, SortsAndSelects) {
  if (!has_vector_sort()) GTEST_SKIP() << "not this processor";
  for (int64_t n = 0; n < 700; n += n < 40 ? 1 : 13) {
    check<uint32_t>(n);
    check<uint64_t>(n);
  }
  for (const int64_t n : {1023, 1024, 4095, 4096, 20000, 300001}) {
    check<uint32_t>(n);
    check<uint64_t>(n);
  }
}

TEST(VectorSort, EncodingIsThatOfTheKeys) {
  if (!has_vector_sort()) GTEST_SKIP() << "not this processor";
  std::mt19937_64 random(1);
  std::vector<uint32_t> from(1000), keys(1000);
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<uint32_t>(random());
    if (i % 5 == 0) from[i] = 0x7f800000u | (from[i] & 0x80000003u);  // infinities and NaN
    if (i % 7 == 0) from[i] &= 0x80000000u;
  }
  for (const Decoding kind : {Decoding::none, Decoding::signed_integer, Decoding::floating}) {
    vector_encode(from.data(), keys.data(), 1000, kind);
    std::vector<uint32_t> sorted = keys;
    vector_sort(sorted.data(), 1000, kind);
    std::vector<uint32_t> expected = from;
    if (kind == Decoding::floating) {
      for (uint32_t& x : expected)
        if ((x & 0x7fffffffu) > 0x7f800000u) x &= 0x7fffffffu;  // NaN lose their sign
    }
    std::sort(expected.begin(), expected.end(), [&](uint32_t a, uint32_t b) {
      if (kind == Decoding::none) return a < b;
      if (kind == Decoding::signed_integer) return static_cast<int32_t>(a) < static_cast<int32_t>(b);
      const auto rank = [](uint32_t x) { return x >> 31 ? ~x : x | 0x80000000u; };
      return rank(a) < rank(b);
    });
    EXPECT_EQ(sorted, expected);
  }
}

}  // namespace
}  // namespace quarry::local::cpu
