// Functions of float32 and float64 against correctly rounded or extended-precision values, in units in the last place;
// sums against NumPy's pairwise algorithm.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <sstream>
#include <type_traits>

#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"
#include "tests/support/shared_data.h"

namespace quarry::local {
namespace {

class Accuracy : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Accuracy);

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// How many representable values lie between; NaN equals NaN, the zeros are one.
template <class T>
double distance(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : INFINITY;
  const auto order = [](T x) {
    const auto bits = std::bit_cast<BitsOf<T>>(x);
    const auto magnitude = static_cast<long double>(bits & (~BitsOf<T>{0} >> 1));
    return std::signbit(x) ? -magnitude : magnitude;
  };
  return static_cast<double>(std::abs(order(a) - order(b)));
}

template <class T>
std::vector<T> evaluate(Op op, const std::vector<std::vector<T>>& arguments) {
  std::vector<NdArray> arrays;
  for (const std::vector<T>& argument : arguments) arrays.push_back(from_vector(argument));
  return to_vector<T>(local::apply(op, std::vector<Arg>(arrays.begin(), arrays.end())));
}

// One line per function: the worst element.
template <class T>
void expect_within(Op op, const std::vector<std::vector<T>>& arguments, const std::vector<T>& expected,
                   const std::vector<double>& bounds) {
  if (expected.empty()) return;
  const std::vector<T> got = evaluate(op, arguments);
  ASSERT_EQ(got.size(), expected.size());
  size_t worst = 0;
  double excess = -INFINITY;
  for (size_t i = 0; i < got.size(); ++i) {
    const double over = distance(got[i], expected[i]) - bounds[i];
    if (over > excess) excess = over, worst = i;
  }
  std::ostringstream text;
  text << std::hexfloat << info(op).name;
  for (const std::vector<T>& argument : arguments) text << ' ' << argument[worst];
  EXPECT_LE(excess, 0) << text.str() << " gives " << got[worst] << ", expected " << expected[worst];
}

template <class T>
struct Validation {
  std::vector<T> inputs, outputs;
  std::vector<double> bounds;

  void add(const std::string& input, const std::string& output, double bound) {
    const auto value = [](const std::string& text) {
      return std::bit_cast<T>(static_cast<BitsOf<T>>(std::stoull(text, nullptr, 16)));
    };
    inputs.push_back(value(input));
    outputs.push_back(value(output));
    bounds.push_back(bound);
  }
};

// NumPy's set of correctly rounded values with its own bounds.
TEST_P(Accuracy, UmathValidationSetSharedData) {
  const auto folder = test::shared_data() / "umath";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  for (const char* function : {"exp", "log", "sin", "log1p", "tanh", "arctan", "cbrt"}) {
    std::ifstream file(folder / ("umath-validation-set-" + std::string(function) + ".csv"));
    ASSERT_TRUE(file) << function;
    Validation<float> singles;
    Validation<double> doubles;
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("np.float")) continue;
      std::istringstream fields(line);
      std::string type, input, output, bound;
      std::getline(fields, type, ',');
      std::getline(fields, input, ',');
      std::getline(fields, output, ',');
      std::getline(fields, bound, ',');
      if (type == "np.float32") singles.add(input, output, std::stod(bound));
      if (type == "np.float64") doubles.add(input, output, std::stod(bound));
    }
    ASSERT_FALSE(singles.inputs.empty() && doubles.inputs.empty()) << function;
    const Op op = *find_op(function);
    expect_within<float>(op, {singles.inputs}, singles.outputs, singles.bounds);
    expect_within<double>(op, {doubles.inputs}, doubles.outputs, doubles.bounds);
  }
}

// Every exponent with a few mantissas and both signs.
template <class T>
std::vector<T> sweep(int least_exponent, int largest_exponent, bool negative, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> mantissa(1, 2);
  std::vector<T> values;
  for (int exponent = least_exponent; exponent <= largest_exponent; ++exponent) {
    values.push_back(static_cast<T>(std::ldexp(1.0, exponent)));
    for (int i = 0; i < 4; ++i) values.push_back(static_cast<T>(std::ldexp(mantissa(random), exponent)));
  }
  if (negative)
    for (size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  return values;
}
template <class T>
constexpr int kLeast = std::numeric_limits<T>::min_exponent - 1;
template <class T>
constexpr int kLargest = std::numeric_limits<T>::max_exponent - 1;

using Extended = long double;
struct Unary {
  Op op;
  Extended (*reference)(Extended);
  double least, largest;  // powers of two of the magnitudes; 0, 0 for all
  bool negative = true;
};

template <class T>
void check_unary(const Unary& row) {
  const bool all = row.least == 0 && row.largest == 0;
  const int least = all ? kLeast<T> : std::max(kLeast<T>, static_cast<int>(row.least));
  const int largest = all ? kLargest<T> : std::min(kLargest<T>, static_cast<int>(row.largest));
  const std::vector<T> inputs = sweep<T>(least, largest, row.negative, 1);
  std::vector<T> expected;
  for (const T x : inputs) expected.push_back(static_cast<T>(row.reference(static_cast<Extended>(x))));
  expect_within<T>(row.op, {inputs}, expected, std::vector<double>(inputs.size(), 4));
}

TEST_P(Accuracy, FunctionsOverAllExponents) {
  constexpr double kTiny = -2000;
  const Unary rows[] = {
      {"sqrt"_op, std::sqrt, 0, 0, false},
      {"cbrt"_op, std::cbrt, 0, 0},
      {"reciprocal"_op, [](Extended x) { return 1 / x; }, 0, 0},
      {"exp"_op, std::exp, 0, 0},
      {"exp2"_op, std::exp2, 0, 0},
      {"expm1"_op, std::expm1, 0, 0},
      {"log"_op, std::log, 0, 0, false},
      {"log2"_op, std::log2, 0, 0, false},
      {"log10"_op, std::log10, 0, 0, false},
      {"log1p"_op, std::log1p, 0, 0, false},
      {"log1p"_op, std::log1p, kTiny, -1},
      {"sin"_op, std::sin, 0, 0},
      {"cos"_op, std::cos, 0, 0},
      {"tan"_op, std::tan, 0, 0},
      {"arcsin"_op, std::asin, kTiny, -1},
      {"arccos"_op, std::acos, kTiny, -1},
      {"arctan"_op, std::atan, 0, 0},
      {"sinh"_op, std::sinh, 0, 0},
      {"cosh"_op, std::cosh, 0, 0},
      {"tanh"_op, std::tanh, 0, 0},
      {"arcsinh"_op, std::asinh, 0, 0},
      {"arccosh"_op, std::acosh, 0, 2000, false},
      {"arctanh"_op, std::atanh, kTiny, -1},
      {"degrees"_op, [](Extended x) { return x * (180 / std::numbers::pi_v<Extended>); }, 0, 0},
      {"radians"_op, [](Extended x) { return x * (std::numbers::pi_v<Extended> / 180); }, 0, 0},
  };
  for (const Unary& row : rows) {
    check_unary<float>(row);
    check_unary<double>(row);
  }
}

template <class T>
void check_binary(Op op, Extended (*reference)(Extended, Extended), const std::vector<T>& x, const std::vector<T>& y) {
  std::vector<T> expected;
  for (size_t i = 0; i < x.size(); ++i)
    expected.push_back(static_cast<T>(reference(static_cast<Extended>(x[i]), static_cast<Extended>(y[i]))));
  expect_within<T>(op, {x, y}, expected, std::vector<double>(x.size(), 4));
}

// Pairs whose exponents are drawn independently, or near each other.
template <class T>
void check_pairs() {
  std::vector<T> x = sweep<T>(kLeast<T>, kLargest<T>, true, 2), y = x, near;
  std::shuffle(y.begin(), y.end(), std::mt19937_64(3));
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> factor(0.125, 8), exponents(-20, 20);
  for (const T value : x)
    near.push_back(static_cast<T>(std::clamp<double>(factor(random) * static_cast<double>(value),
                                                     -std::numeric_limits<T>::max(), std::numeric_limits<T>::max())));
  for (const std::vector<T>& other : {y, near}) {
    check_binary<T>("arctan2"_op, std::atan2, x, other);
    check_binary<T>("hypot"_op, std::hypot, x, other);
    check_binary<T>(
        "divide"_op, [](Extended a, Extended b) { return a / b; }, x, other);
    check_binary<T>("fmod"_op, std::fmod, x, other);
  }
  std::vector<T> bases = sweep<T>(kLeast<T>, kLargest<T>, false, 5), powers, first, second;
  for (size_t i = 0; i < bases.size(); ++i) powers.push_back(static_cast<T>(exponents(random)));
  check_binary<T>("power"_op, std::pow, bases, powers);
  std::uniform_real_distribution<double> logarithms(0, 80);  // where no cancellation makes the result small
  for (int i = 0; i < 4000; ++i) {
    first.push_back(static_cast<T>(logarithms(random)));
    second.push_back(static_cast<T>(logarithms(random)));
  }
  constexpr auto kNatural = [](Extended a, Extended b) { return std::log(std::exp(a) + std::exp(b)); };
  constexpr auto kBinary = [](Extended a, Extended b) { return std::log2(std::exp2(a) + std::exp2(b)); };
  check_binary<T>("logaddexp"_op, kNatural, first, second);
  check_binary<T>("logaddexp2"_op, kBinary, first, second);
  if constexpr (sizeof(T) == 4) {  // results from a tenth down to a millionth
    std::uniform_real_distribution<double> least(-6, -0.01), result(-5, -1);
    for (const double base : {std::numbers::e, 2.0}) {
      for (size_t i = 0; i < first.size(); ++i) {
        const double a = least(random), sum = std::pow(10.0, 5 * result(random) / 4) * (i % 2 == 0 ? 1 : -1);
        first[i] = static_cast<T>(a);
        second[i] = static_cast<T>(std::log(std::max(1e-6, std::pow(base, sum) - std::pow(base, a))) / std::log(base));
        if (i % 3 == 0) std::swap(first[i], second[i]);
      }
      first[0] = second[0] = -1;
      first[1] = second[1] = static_cast<T>(-std::numbers::ln2);
      check_binary<T>(base == 2 ? "logaddexp2"_op : "logaddexp"_op, base == 2 ? kBinary : kNatural, first, second);
    }
  }
}

TEST_P(Accuracy, FunctionsOfTwoArguments) {
  check_pairs<float>();
  check_pairs<double>();
}

// NumPy's summation of contiguous elements: eight accumulators over blocks of at most 128, halves above.
template <class T>
T pairwise_sum(const T* x, size_t n) {
  if (n < 8) {
    T sum = 0;
    for (size_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
  if (n <= 128) {
    T part[8];
    for (size_t k = 0; k < 8; ++k) part[k] = x[k];
    size_t i = 8;
    for (; i + 8 <= n; i += 8)
      for (size_t k = 0; k < 8; ++k) part[k] += x[i + k];
    T sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; i < n; ++i) sum += x[i];
    return sum;
  }
  const size_t half = n / 2 - n / 2 % 8;
  return pairwise_sum(x, half) + pairwise_sum(x + half, n - half);
}

// Root mean square error over arrays of many lengths, against the pairwise algorithm's. Both are binary trees; ours has
// full tiles below, so its last merges are less even, which costs about a tenth.
template <class T>
void check_sums() {
  double ours = 0, pairwise = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<T> uniform(0, 1);
    std::vector<T> values(std::uniform_int_distribution<size_t>(1'000, 100'000)(random));
    Extended exact = 0;
    for (T& value : values) exact += value = uniform(random);
    const T got = to_vector<T>(reduce("sum"_reduction, from_vector(values)))[0];
    const auto squared = [&](T sum) {
      const auto error = static_cast<double>((static_cast<Extended>(sum) - exact) / exact);
      return error * error;
    };
    ours += squared(got);
    pairwise += squared(pairwise_sum(values.data(), values.size()));
  }
  EXPECT_LE(std::sqrt(ours), 1.25 * std::sqrt(pairwise)) << sizeof(T) << " bytes";
}

TEST_P(Accuracy, SumsAreNoWorseThanPairwise) {
  check_sums<float>();
  check_sums<double>();
}

}  // namespace
}  // namespace quarry::local
