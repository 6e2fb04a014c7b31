// Sorting against std::stable_sort with NumPy's order, on every device: properties, awkward shapes, errors. Values
// against NumPy are in the oracle's cases.
#include "quarry/local/ops/sorting/sorting.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "quarry/local/device/device.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/sorting/sets.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

// NumPy's order of two elements.
template <class T>
bool before(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    using Real = typename T::value_type;
    const auto group = [](const T& x) { return (std::isnan(x.real()) ? 2 : 0) + (std::isnan(x.imag()) ? 1 : 0); };
    if (group(a) != group(b)) return group(a) < group(b);
    const auto key = [&](const T& x) -> std::pair<Real, Real> {
      if (group(x) == 3) return {0, 0};
      if (group(x) == 2) return {0, x.imag()};
      if (group(x) == 1) return {x.real(), 0};
      return {x.real(), x.imag()};
    };
    return key(a) < key(b);
  } else if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return x < y || (std::isnan(y) && !std::isnan(x));
  }
}
template <class T>
bool same(const T& a, const T& b) {
  return !before(a, b) && !before(b, a);
}

enum class Pattern { random, narrow, constant, ascending, descending, special };
constexpr Pattern kPatterns[] = {Pattern::random,    Pattern::narrow,     Pattern::constant,
                                 Pattern::ascending, Pattern::descending, Pattern::special};

template <class T>
T make_value(Pattern pattern, int64_t i, int64_t n, std::mt19937_64& random) {
  const auto real = [&]() -> double {
    switch (pattern) {
      case Pattern::random:
        return std::ldexp(static_cast<double>(random() >> 11), -static_cast<int>(random() % 60)) *
               (random() % 2 ? 1 : -1);
      case Pattern::narrow:
        return static_cast<double>(random() % 7);
      case Pattern::constant:
        return 3;
      case Pattern::ascending:
        return static_cast<double>(i);
      case Pattern::descending:
        return static_cast<double>(n - i);
      case Pattern::special: {
        constexpr double kInf = std::numeric_limits<double>::infinity();
        constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
        const double values[] = {kNan, -kNan, kInf, -kInf, 0.0, -0.0, 1.5, -1.5};
        return values[random() % 8];
      }
    }
    return 0;
  };
  if constexpr (std::is_same_v<T, bool>) {
    return random() % 2 != 0;
  } else if constexpr (std::is_integral_v<T>) {
    switch (pattern) {
      case Pattern::random:
        return static_cast<T>(random());
      case Pattern::special: {
        const T values[] = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 0, 1};
        return values[random() % 4];
      }
      default:
        return static_cast<T>(real());
    }
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    using Real = typename T::value_type;
    const auto first = static_cast<Real>(random() % 2 ? real() : std::floor(real()));
    return T(first, static_cast<Real>(real()));
  } else {
    return T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(real()));
  }
}

template <class T>
std::vector<T> make_values(Pattern pattern, int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = make_value<T>(pattern, i, n, random);
  return values;
}

template <class T>
std::vector<int64_t> stable_order(const std::vector<T>& values, size_t begin, size_t n) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return before<T>(values[begin + static_cast<size_t>(a)], values[begin + static_cast<size_t>(b)]);
  });
  return order;
}

class Sorts : public test::OnDevice {
 protected:
  // sort, argsort, partition and argpartition of rows of `n` elements.
  template <class T>
  void check(Pattern pattern, int64_t rows, int64_t n) {
    const std::vector<T> values = make_values<T>(pattern, rows * n, static_cast<uint64_t>(rows * 1000 + n));
    const NdArray a = from_vector(values, {rows, n});
    const std::vector<T> sorted = to_vector<T>(ops::sort(a));
    const std::vector<int64_t> order = to_vector<int64_t>(ops::argsort(a));
    const Ints kth({n / 2, std::min<int64_t>(2, n - 1), -1});
    const std::vector<T> parts = to_vector<T>(ops::partition(a, kth));
    const std::vector<int64_t> part_order = to_vector<int64_t>(ops::argpartition(a, kth));
    int64_t bad = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const auto begin = static_cast<size_t>(row * n), count = static_cast<size_t>(n);
      const std::vector<int64_t> expected = stable_order(values, begin, count);
      std::vector<char> seen(count, 0);
      const auto at = [&](size_t i) { return values[begin + static_cast<size_t>(expected[i])]; };
      for (size_t i = 0; i < count; ++i) {
        bad += order[begin + i] != expected[i];
        bad += !same<T>(sorted[begin + i], at(i));
        const int64_t p = part_order[begin + i];
        if (p < 0 || p >= n || seen[static_cast<size_t>(p)]++) ++bad;
      }
      ASSERT_EQ(bad, 0) << "row " << row << " of " << rows << " x " << n << " " << name(dtype_of_v<T>) << " pattern "
                        << static_cast<int>(pattern);
      for (int64_t k : {n / 2, std::min<int64_t>(2, n - 1), n - 1}) {
        const auto split = static_cast<size_t>(k);
        bad += !same<T>(parts[begin + split], at(split));
        for (size_t i = 0; i < count; ++i) {
          const T moved = values[begin + static_cast<size_t>(part_order[begin + i])];
          if (i <= split) bad += before<T>(at(split), parts[begin + i]) + before<T>(at(split), moved);
          if (i >= split) bad += before<T>(parts[begin + i], at(split)) + before<T>(moved, at(split));
        }
      }
      ASSERT_EQ(bad, 0) << "partition, row " << row << " of " << rows << " x " << n << " " << name(dtype_of_v<T>);
    }
  }
};
QUARRY_ON_EVERY_DEVICE(Sorts);

TEST_P(Sorts, EveryDtypeAndPattern) {
  for (int d = 0; d < kDTypeCount; ++d) {
    dispatch(static_cast<DType>(d), [&]<class T>() {
      for (Pattern pattern : kPatterns) {
        check<T>(pattern, 1, 5000);
        check<T>(pattern, 3, 100);
        check<T>(pattern, 200, 7);
        check<T>(pattern, 5, 1);
      }
    });
  }
}

TEST_P(Sorts, LongRows) {
  check<float>(Pattern::random, 1, 300000);
  check<double>(Pattern::random, 1, 300000);
  check<double>(Pattern::special, 1, 100000);
  check<int64_t>(Pattern::random, 2, 150000);
  check<int8_t>(Pattern::random, 1, 300000);
  check<uint16_t>(Pattern::random, 1, 300000);
  check<int32_t>(Pattern::narrow, 1, 300000);
  check<std::complex<float>>(Pattern::random, 1, 100000);
  check<std::complex<double>>(Pattern::narrow, 3, 70000);
  check<uint64_t>(Pattern::descending, 1, 3000000);
}

TEST_P(Sorts, WideKeysThatAreAlmostEqual) {
  // 64-bit keys whose differences do not fit beside a position: few, many and hardly any equal in their upper bits.
  std::mt19937_64 random(1);
  for (const int low_bits : {2, 12, 40}) {
    for (const bool outlier : {false, true}) {
      const int64_t n = 60000;
      std::vector<int64_t> values(static_cast<size_t>(n));
      for (int64_t& value : values) value = static_cast<int64_t>(random() & ((uint64_t{1} << low_bits) - 1));
      if (outlier) values[7] = std::numeric_limits<int64_t>::max(), values[70] = std::numeric_limits<int64_t>::min();
      const NdArray a = from_vector(values);
      const std::vector<int64_t> expected = stable_order(values, 0, values.size());
      EXPECT_EQ(to_vector<int64_t>(ops::argsort(a)), expected) << low_bits << outlier;
      for (const int64_t k : {int64_t{0}, n / 3, n - 1}) {
        const std::vector<int64_t> order = to_vector<int64_t>(ops::argpartition(a, k));
        const int64_t at = values[static_cast<size_t>(expected[static_cast<size_t>(k)])];
        std::vector<char> seen(values.size(), 0);
        int64_t bad = values[static_cast<size_t>(order[static_cast<size_t>(k)])] != at;
        for (int64_t i = 0; i < n; ++i) {
          const auto p = static_cast<size_t>(order[static_cast<size_t>(i)]);
          bad += seen[p]++ != 0;
          bad += i < k ? values[p] > at : values[p] < at;
        }
        EXPECT_EQ(bad, 0) << low_bits << outlier << " " << k;
      }
    }
  }
}

// Few positions of rows that are long enough for a selection, against the sort.
template <class T>
void check_selection(Pattern pattern, int64_t rows, int64_t n, const std::vector<int64_t>& kth) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << n << " " << name(dtype_of_v<T>) << " pattern "
                                    << static_cast<int>(pattern) << ", " << kth.size() << " positions");
  const std::vector<T> values = make_values<T>(pattern, rows * n, static_cast<uint64_t>(n + 7));
  const NdArray a = from_vector(values, {rows, n});
  const auto sorted = to_vector<T>(ops::sort(a));
  const NdArray partition = ops::partition(a, Ints(kth));
  const auto parts = to_vector<T>(partition), parts_sorted = to_vector<T>(ops::sort(partition));
  const auto found = to_vector<T>(selected_rows(a, kth, context_for(a.device())));
  const auto order = to_vector<int64_t>(ops::argpartition(a, Ints(kth)));
  const NdArray in_place = a.copy();
  ops::partition_in_place(in_place, Ints(kth));
  const auto again = to_vector<T>(in_place);
  int64_t bad_values = 0, bad_parts = 0, bad_order = 0, bad_in_place = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = static_cast<size_t>(row * n);
    std::vector<char> seen(static_cast<size_t>(n), 0);
    size_t next = 0;  // the first position that is not before i
    for (int64_t i = 0; i < n; ++i) {
      const size_t at = begin + static_cast<size_t>(i);
      const int64_t p = order[at];
      if (p < 0 || p >= n || seen[static_cast<size_t>(p)]++ != 0) {
        ++bad_order;
        continue;
      }
      const T moved = values[begin + static_cast<size_t>(p)];
      bad_parts += !same<T>(parts_sorted[at], sorted[at]);
      if (next > 0) {
        const T low = sorted[begin + static_cast<size_t>(kth[next - 1])];
        bad_parts += before<T>(parts[at], low);
        bad_order += before<T>(moved, low);
        bad_in_place += before<T>(again[at], low);
      }
      if (next == kth.size()) continue;
      const T high = sorted[begin + static_cast<size_t>(kth[next])];
      bad_parts += before<T>(high, parts[at]);
      bad_order += before<T>(high, moved);
      bad_in_place += before<T>(high, again[at]);
      if (i != kth[next]) continue;
      bad_values += !same<T>(found[static_cast<size_t>(row) * kth.size() + next], high);
      bad_parts += !same<T>(parts[at], high);
      bad_order += !same<T>(moved, high);
      bad_in_place += !same<T>(again[at], high);
      ++next;
    }
  }
  EXPECT_EQ(bad_values, 0);
  EXPECT_EQ(bad_parts, 0);
  EXPECT_EQ(bad_order, 0);
  EXPECT_EQ(bad_in_place, 0);
}

TEST_P(Sorts, SelectionsAgreeWithSorts) {
  constexpr int64_t kLong = int64_t{1} << 17;
  for (int d = 0; d < kDTypeCount; ++d) {
    dispatch(static_cast<DType>(d), [&]<class T>() {
      for (Pattern pattern : kPatterns) {
        const int64_t n = kLong + 1;
        check_selection<T>(pattern, 1, n, {0, n / 3, n / 2, n / 2 + 1, n - 1});
      }
      check_selection<T>(Pattern::random, 1, kLong + 2049, {kLong});
    });
  }
  for (const int64_t n : {kLong - 1, kLong, kLong + 2047, kLong + 2048, kLong + 4095, kLong + 4097}) {
    check_selection<float>(Pattern::random, 1, n, {0});
    check_selection<double>(Pattern::special, 1, n, {n - 1});
    check_selection<int64_t>(Pattern::descending, 1, n, {5, 6});
    const int64_t k = n / 10;
    check_selection<uint32_t>(Pattern::random, 1, n, {0, 1, k, 2 * k, 3 * k, 5 * k, 7 * k, n - 1});
    check_selection<int16_t>(Pattern::random, 1, n, {1, k, 2 * k, 3 * k, 4 * k, 5 * k, 6 * k, 7 * k, 8 * k});
  }
  check_selection<double>(Pattern::random, 2, (int64_t{1} << 20) + 3, {7, 1 << 19});
}

TEST_P(Sorts, SelectionsOfKeysThatAgreeInTheirFirstBits) {
  // All, most, few of the elements in one range that is narrow at some bit of the keys.
  std::mt19937_64 random(5);
  const int64_t n = 150000;
  for (const int bits : {0, 1, 11, 12, 30, 52, 53, 63}) {
    for (const int others : {0, 3, 60000, 120000}) {
      std::vector<int64_t> values(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t low = random() & ((uint64_t{1} << bits) - 1);
        values[static_cast<size_t>(i)] = static_cast<int64_t>(i < others ? random() : (uint64_t{1} << 62) / 3 + low);
      }
      const NdArray a = from_vector(values);
      const std::vector<int64_t> kth{0, n / 4, n / 2, n - 2};
      const auto found = to_vector<int64_t>(selected_rows(a, kth, context_for(a.device())));
      const auto moved = to_vector<int64_t>(ops::take(a, ops::argpartition(a, Ints(kth))));
      std::sort(values.begin(), values.end());
      for (size_t k = 0; k < kth.size(); ++k) {
        EXPECT_EQ(found[k], values[static_cast<size_t>(kth[k])]) << bits << " bits, " << others << " others";
        EXPECT_EQ(moved[static_cast<size_t>(kth[k])], found[k]) << bits << " bits, " << others << " others";
      }
    }
  }
}

TEST_P(Sorts, GreatestAndSmallestOfLongRows) {
  for (const int64_t n : {int64_t{5000}, int64_t{200000}}) {
    for (Pattern pattern : kPatterns) {
      const std::vector<float> values = make_values<float>(pattern, n, 21);
      const NdArray a = from_vector(values);
      const auto sorted = to_vector<float>(ops::sort(a));
      for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{100}, n}) {
        for (const bool largest : {false, true}) {
          const auto [elements, positions] = ops::top_k(a, k, -1, largest);
          const auto found = to_vector<float>(elements);
          const auto where = to_vector<int64_t>(positions);
          std::vector<char> seen(static_cast<size_t>(n), 0);
          int64_t bad = 0;
          for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
            const auto p = static_cast<size_t>(where[i]);
            ASSERT_LT(p, values.size());
            bad += seen[p]++ != 0;
            bad += !same(values[p], found[i]);
            bad += !same(found[i], sorted[largest ? sorted.size() - 1 - i : i]);
          }
          EXPECT_EQ(bad, 0) << n << " pattern " << static_cast<int>(pattern) << " k " << k << largest;
        }
      }
    }
  }
}

TEST_P(Sorts, SumsOfSignsAndNans) {
  // A sort keeps the number of each zero and of NaN.
  const NdArray a = from_vector<double>({0.0, -0.0, NAN, -NAN, 1, -0.0});
  const std::vector<double> sorted = to_vector<double>(ops::sort(a));
  EXPECT_EQ(std::count_if(sorted.begin(), sorted.end(), [](double x) { return x == 0 && std::signbit(x); }), 2);
  EXPECT_EQ(std::count_if(sorted.begin(), sorted.end(), [](double x) { return std::isnan(x); }), 2);
  EXPECT_EQ(to_vector<int64_t>(ops::argsort(a)), (std::vector<int64_t>{0, 1, 5, 4, 2, 3}));
}

// In no stable order zeros with a sign come first, which chunked sorts count on.
template <class T>
void check_signs(int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(n));
  std::vector<T> values(static_cast<size_t>(n));
  const T special[] = {T(0), T(-0.0), T(NAN), T(-NAN), T(1), T(-1), T(INFINITY), T(-INFINITY)};
  for (T& x : values) x = special[random() % std::size(special)];
  const std::vector<T> sorted = to_vector<T>(ops::sort(from_vector(values)));
  const auto number = [](T x) { return static_cast<double>(x); };
  const auto is_negative_zero = [&](T x) { return number(x) == 0 && std::signbit(number(x)); };
  const auto is_nan = [&](T x) { return std::isnan(number(x)); };
  EXPECT_EQ(std::ranges::count_if(sorted, is_negative_zero), std::ranges::count_if(values, is_negative_zero));
  EXPECT_EQ(std::ranges::count_if(sorted, is_nan), std::ranges::count_if(values, is_nan));
  EXPECT_TRUE(std::ranges::is_sorted(sorted, {}, [&](T x) {
    return is_nan(x) ? std::pair(1, 0.) : std::pair(0, number(x) + std::copysign(0.5, number(x)));
  }));
}
TEST_P(Sorts, ZerosWithASignComeFirst) {
  for (const int64_t n : {6, 1000, 70000, 300000}) {
    check_signs<double>(n);
    check_signs<float>(n);
    check_signs<float16>(n);
  }
}

// Equal elements that differ in their bits come out in the order of the input: zeros, NaNs with signs and payloads.
template <class T, class Bits>
void check_stable(const std::vector<Bits>& special, int64_t n) {
  static_assert(sizeof(T) % sizeof(Bits) == 0);
  constexpr size_t kParts = sizeof(T) / sizeof(Bits);
  std::mt19937_64 random(static_cast<uint64_t>(n));
  std::vector<Bits> bits(static_cast<size_t>(n) * kParts);
  for (Bits& x : bits) x = special[random() % special.size()];
  std::vector<T> values(static_cast<size_t>(n));
  std::memcpy(static_cast<void*>(values.data()), bits.data(), bits.size() * sizeof(Bits));
  const NdArray a = from_vector(values);
  std::vector<T> expected;
  for (const int64_t i : stable_order(values, 0, values.size())) expected.push_back(values[static_cast<size_t>(i)]);
  const auto same_bits = [&](const NdArray& sorted) {
    const std::vector<T> got = to_vector<T>(sorted);
    return got.size() == expected.size() && std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)) == 0;
  };
  EXPECT_TRUE(same_bits(ops::sort(a, -1, "stable"))) << name(a.dtype()) << n;
  EXPECT_TRUE(same_bits(ops::sort(a, std::nullopt, "mergesort"))) << name(a.dtype()) << n;
  EXPECT_TRUE(same_bits(ops::sort(a, -1, std::nullopt, std::nullopt, true))) << name(a.dtype()) << n;
  EXPECT_TRUE(same_bits(ops::take(a, ops::argsort(a)))) << name(a.dtype()) << n;
  if constexpr (kParts == 1) {  // and where nothing has to be put in order
    EXPECT_TRUE(same_bits(ops::sort(ops::sort(a, -1, "stable"), -1, "stable")));
  }
  NdArray twice({2, n}, a.dtype());  // columns and rows in place
  twice.assign(a);
  ops::sort_in_place(twice, 1, "stable");
  EXPECT_TRUE(same_bits(twice[{1}])) << name(a.dtype()) << n;
  const NdArray column = twice.T().copy()[{full_slice, Slice{0, 1, std::nullopt}}];
  column.assign(a.reshape({n, 1}));
  ops::sort_in_place(column, 0, "stable");
  EXPECT_TRUE(same_bits(column)) << name(a.dtype()) << n;
}

TEST_P(Sorts, StableMeansThatEqualElementsKeepTheirOrder) {
  for (const int64_t n : {1, 2, 3, 20, 200, 5000, 70000}) {
    const std::vector<uint64_t> wide = {0x8000000000000000u, 0,
                                        0x7ff8000000000001u, 0xfff8000000000002u,
                                        0x7ff8000000000003u, 0x3ff0000000000000u,
                                        0xbff0000000000000u, 0x7ff0000000000000u};
    const std::vector<uint32_t> single = {0x80000000u, 0,           0x7fc00001u, 0xffc00002u,
                                          0x7fc00003u, 0x3f800000u, 0xbf800000u, 0x7f800000u};
    const std::vector<uint16_t> half = {0x8000, 0, 0x7e01, 0xfe02, 0x7e03, 0x3c00, 0xbc00, 0x7c00};
    check_stable<double>(wide, n);
    check_stable<std::complex<double>>(wide, n);
    check_stable<float>(single, n);
    check_stable<std::complex<float>>(single, n);
    check_stable<float16>(half, n);
  }
}

// Stretches that are sorted become what a sort makes of them, with the same bits.
TEST_P(Sorts, MergesOfStretches) {
  const std::vector<std::vector<int64_t>> cases{{},
                                                {0},
                                                {1},
                                                {5},
                                                {0, 3, 0},
                                                {1, 1},
                                                {2, 1, 4},
                                                {7, 0, 9, 1, 30},
                                                {100, 1000, 10, 3000, 0, 70, 1},
                                                {70000, 100000, 1, 90000}};
  const auto bytes = [](const NdArray& a) { return to_vector<uint8_t>(a.view(DType::uint8)); };
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    dispatch(dtype, [&]<class T>() {
      for (const std::vector<int64_t>& lengths : cases) {
        for (const bool stably : {false, true}) {
          const auto sort = [&](const NdArray& a) { return stably ? ops::sort(a, -1, "stable") : ops::sort(a); };
          std::vector<NdArray> parts{NdArray({0}, dtype)};
          for (const int64_t length : lengths)
            parts.push_back(sort(from_vector(make_values<T>(Pattern::special, length, parts.size()))));
          const NdArray joined = ops::concatenate(parts, 0);
          EXPECT_EQ(bytes(merged_stretches(joined, lengths, stably)), bytes(sort(joined)))
              << name(dtype) << ", " << lengths.size() << " stretches of " << joined.size()
              << (stably ? ", stably" : "");
        }
      }
    });
  }
  EXPECT_THROW(merged_stretches(from_vector<float>({1, 2, 3}), {1, 1}, true), InvalidArgument);
  EXPECT_THROW(merged_stretches(NdArray({2, 2}, DType::float32), {2, 2}, true), InvalidArgument);
}

TEST_P(Sorts, AxesAndStrides) {
  const std::vector<float> values = make_values<float>(Pattern::random, 4 * 5 * 6, 3);
  const NdArray a = from_vector(values, {4, 5, 6});
  for (int axis = -3; axis < 3; ++axis) {
    const NdArray sorted = ops::sort(a, axis), order = ops::argsort(a, axis);
    ASSERT_EQ(sorted.shape(), a.shape());
    EXPECT_TRUE(sorted.is_contiguous());
    // The same through views with other strides.
    const std::vector<int64_t> reversed = {2, 1, 0};
    const NdArray transposed = a.transpose(reversed);
    const int there = 2 - (axis + 3) % 3;
    EXPECT_EQ(to_vector<float>(ops::sort(transposed, there).transpose(reversed)), to_vector<float>(sorted));
    EXPECT_EQ(to_vector<int64_t>(ops::argsort(transposed, there).transpose(reversed)), to_vector<int64_t>(order));
    const NdArray flipped = a[{Slice{{}, {}, -1}, ellipsis, Slice{{}, {}, -2}}];
    EXPECT_EQ(to_vector<float>(ops::sort(flipped, axis)), to_vector<float>(ops::sort(flipped.copy(), axis)));
  }
  EXPECT_EQ(ops::sort(a, std::nullopt).shape(), (Dims{120}));
  const NdArray broadcast = from_vector<int32_t>({3, 1, 2}).broadcast_to({2, 3});
  EXPECT_EQ(to_vector<int32_t>(ops::sort(broadcast)), (std::vector<int32_t>{1, 2, 3, 1, 2, 3}));
}

TEST_P(Sorts, InPlace) {
  const NdArray a = from_vector<int16_t>({3, 1, 2, 9, 8, 7}, {2, 3});
  ops::sort_in_place(a);
  EXPECT_EQ(to_vector<int16_t>(a), (std::vector<int16_t>{1, 2, 3, 7, 8, 9}));
  const NdArray column = a[{full_slice, Slice{{}, {}, -1}}];
  ops::sort_in_place(column);
  EXPECT_EQ(to_vector<int16_t>(a), (std::vector<int16_t>{3, 2, 1, 9, 8, 7}));
  ops::sort_in_place(a.T()[{ellipsis}], 0);
  EXPECT_EQ(to_vector<int16_t>(a), (std::vector<int16_t>{1, 2, 3, 7, 8, 9}));
  const NdArray b = from_vector(make_values<double>(Pattern::random, 1000, 5));
  ops::partition_in_place(b, 500);
  const std::vector<double> values = to_vector<double>(b);
  EXPECT_EQ(*std::max_element(values.begin(), values.begin() + 501), values[500]);
  EXPECT_EQ(*std::min_element(values.begin() + 500, values.end()), values[500]);
}

TEST_P(Sorts, EmptyAndScalar) {
  EXPECT_EQ(ops::sort(NdArray({0}, DType::float32)).shape(), (Dims{0}));
  EXPECT_EQ(ops::sort(NdArray({3, 0}, DType::float32)).shape(), (Dims{3, 0}));
  EXPECT_EQ(ops::argsort(NdArray({0, 3}, DType::int8), 0).shape(), (Dims{0, 3}));
  EXPECT_EQ(ops::partition(NdArray({0}, DType::float32), 0).shape(), (Dims{0}));
  const NdArray scalar = from_vector<int32_t>({7}, {});
  EXPECT_THROW(ops::sort(scalar), IndexError);
  EXPECT_EQ(to_vector<int32_t>(ops::sort(scalar, std::nullopt)), (std::vector<int32_t>{7}));
  EXPECT_EQ(to_vector<int64_t>(ops::argsort(scalar)), (std::vector<int64_t>{0}));
}

TEST_P(Sorts, Errors) {
  const NdArray a = from_vector<float>({3, 1, 2});
  EXPECT_THROW(ops::sort(a, 1), IndexError);
  EXPECT_THROW(ops::sort(a, -1, "foo"), InvalidArgument);
  EXPECT_THROW(ops::sort(a, -1, "stable", std::nullopt, true), InvalidArgument);
  EXPECT_THROW(ops::argsort(a, -1, std::nullopt, "x"), InvalidArgument);
  EXPECT_THROW(ops::partition(a, 3), InvalidArgument);
  EXPECT_THROW(ops::partition(a, -4), InvalidArgument);
  EXPECT_THROW(ops::partition(a, Ints(std::vector<int64_t>{})), TypeError);
  EXPECT_THROW(ops::argpartition(a, 0, -1, "quick"), InvalidArgument);
  EXPECT_THROW(ops::searchsorted(a.reshape({3, 1}), a), InvalidArgument);
  EXPECT_THROW(ops::searchsorted(a, 1, "middle"), InvalidArgument);
  EXPECT_THROW(ops::digitize(a, from_vector<float>({1, 3, 2})), InvalidArgument);
}

TEST_P(Sorts, Searches) {
  for (int d = 0; d < kDTypeCount; ++d) {
    dispatch(static_cast<DType>(d), [&]<class T>() {
      for (Pattern pattern : kPatterns) {
        std::vector<T> values = make_values<T>(pattern, 1000, 11);
        std::vector<T> sorted = make_values<T>(pattern, 301, 12);
        std::stable_sort(sorted.begin(), sorted.end(), before<T>);
        for (const char* side : {"left", "right"}) {
          std::vector<int64_t> expected;
          for (const T value : values) {
            const auto at = side[0] == 'l' ? std::lower_bound(sorted.begin(), sorted.end(), value, before<T>)
                                           : std::upper_bound(sorted.begin(), sorted.end(), value, before<T>);
            expected.push_back(at - sorted.begin());
          }
          const NdArray found = ops::searchsorted(from_vector(sorted), from_vector(values, {10, 100}), side);
          EXPECT_EQ(found.shape(), (Dims{10, 100}));
          EXPECT_EQ(to_vector<int64_t>(found), expected) << name(dtype_of_v<T>);
        }
      }
    });
  }
  EXPECT_EQ(ops::searchsorted(from_vector<float>({1, 2, 2, 3}), 2).item<int64_t>(), 1);
  EXPECT_EQ(ops::searchsorted(from_vector<float>({1, 2, 2, 3}), 2, "right").item<int64_t>(), 3);
  EXPECT_EQ(to_vector<int64_t>(ops::searchsorted(NdArray({0}, DType::int32), from_vector<double>({1, 2}))),
            (std::vector<int64_t>{0, 0}));
}

// Many values in a short row, which devices search in another way.
TEST_P(Sorts, ManyValuesInAShortRow) {
  constexpr int64_t kCount = 1'200'000, kLength = 100;
  const std::vector<float> sorted = [] {
    std::vector<float> row = make_values<float>(Pattern::special, kLength, 5);
    std::stable_sort(row.begin(), row.end(), before<float>);
    return row;
  }();
  std::vector<float> values = make_values<float>(Pattern::special, kCount, 6);
  for (size_t i = 0; i < values.size(); i += 2) values[i] = static_cast<float>(i % 7) - 3;
  for (const char* side : {"left", "right"}) {
    const std::vector<int64_t> found =
        to_vector<int64_t>(ops::searchsorted(from_vector(sorted), from_vector(values), side));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = side[0] == 'l' ? std::lower_bound(sorted.begin(), sorted.end(), values[i], before<float>)
                                     : std::upper_bound(sorted.begin(), sorted.end(), values[i], before<float>);
      ASSERT_EQ(found[i], at - sorted.begin()) << side << ' ' << values[i];
    }
  }
  const std::vector<bool> member = to_vector<bool>(ops::isin(from_vector(values), from_vector(sorted)));
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(member[i], std::find(sorted.begin(), sorted.end(), values[i]) != sorted.end()) << values[i];
}

TEST_P(Sorts, Digitize) {
  const NdArray x = from_vector<double>({0.2, 6.4, 3.0, 1.6});
  EXPECT_EQ(to_vector<int64_t>(ops::digitize(x, from_vector<double>({0, 1, 2.5, 4, 10}))),
            (std::vector<int64_t>{1, 4, 3, 2}));
  EXPECT_EQ(to_vector<int64_t>(ops::digitize(x, from_vector<int32_t>({10, 3, 1, 0}))),
            (std::vector<int64_t>{3, 1, 1, 2}));
  EXPECT_EQ(to_vector<int64_t>(ops::digitize(x, from_vector<int32_t>({10, 3, 1, 0}), true)),
            (std::vector<int64_t>{3, 1, 2, 2}));
}

// 2^20 values, repeated 2049 times: 2^31 + 2^20 elements.
TEST(LargeSorts, MoreThan2To31ElementsOnAGpu) {
  if (!available(DeviceKind::cuda)) GTEST_SKIP() << "no GPU";
  constexpr int64_t kNeeded = int64_t{64} << 30;
  const int64_t free_bytes = backend(DeviceKind::cuda).info(0).free_bytes;
  if (free_bytes < kNeeded) GTEST_SKIP() << "needs 64 GiB of memory, " << free_bytes << " bytes are free";
  const DeviceScope scope(Device{DeviceKind::cuda, 0});
  constexpr int64_t kPart = int64_t{1} << 20, kParts = 2049;
  const std::vector<uint8_t> part = make_values<uint8_t>(Pattern::random, kPart, 5);
  std::vector<std::vector<int64_t>> positions(256);
  for (int64_t i = 0; i < kPart; ++i) positions[part[static_cast<size_t>(i)]].push_back(i);
  const NdArray a = from_vector(part).broadcast_to({kParts, kPart}).copy().reshape({-1});
  ASSERT_EQ(a.size(), kParts * kPart);
  std::vector<uint8_t> all(256);
  std::iota(all.begin(), all.end(), uint8_t{0});
  {
    const NdArray sorted = ops::sort(a);
    const std::vector<int64_t> starts = to_vector<int64_t>(ops::searchsorted(sorted, from_vector(all)));
    int64_t expected = 0;
    for (size_t v = 0; v < 256; ++v) {
      EXPECT_EQ(starts[v], expected) << v;
      expected += kParts * static_cast<int64_t>(positions[v].size());
    }
    const NdArray low = sorted[{Slice{std::nullopt, -1, std::nullopt}}];
    const NdArray high = sorted[{Slice{1, std::nullopt, std::nullopt}}];
    EXPECT_FALSE(ops::any(apply("less"_op, {high, low})).item().as_bool());
  }
  {
    const NdArray sorted = ops::sort(a.astype(DType::float32));
    const std::vector<int64_t> starts =
        to_vector<int64_t>(ops::searchsorted(sorted, from_vector(all).astype(DType::float32)));
    EXPECT_EQ(starts[128], to_vector<int64_t>(ops::searchsorted(ops::sort(a), from_vector<uint8_t>({128})))[0]);
  }
  const NdArray order = ops::argsort(a);
  int64_t start = 0;
  for (size_t v = 0; v < 256; ++v) {
    const auto count = static_cast<int64_t>(positions[v].size());
    for (const int64_t repeat : {int64_t{0}, int64_t{1000}, kParts - 1}) {
      const int64_t first = start + repeat * count;
      std::vector<int64_t> expected = positions[v];
      for (int64_t& position : expected) position += repeat * kPart;
      ASSERT_EQ(to_vector<int64_t>(order[{Slice{first, first + count, std::nullopt}}]), expected) << v;
    }
    start += kParts * count;
  }
}

}  // namespace
}  // namespace quarry::local
