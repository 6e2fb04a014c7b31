// What the tests of kernels for stacks of small matrices on the host share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/small_matrices.h"
#include "tests/unit/local/cuda/kernels_on_host.h"

namespace quarry::local::cuda {

// Square matrices, column by column.
template <class T>
struct Stack {
  int64_t count, n;
  std::vector<T> elements;

  T& at(int64_t p, int64_t i, int64_t j) { return elements[static_cast<size_t>((p * n + j) * n + i)]; }
  T at(int64_t p, int64_t i, int64_t j) const { return elements[static_cast<size_t>((p * n + j) * n + i)]; }
};

template <class T>
T random_number(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  if constexpr (requires(T x) { x.imag(); })
    return T(static_cast<typename T::value_type>(normal(random)), static_cast<typename T::value_type>(normal(random)));
  else
    return static_cast<T>(normal(random));
}

constexpr int64_t kCount = 19;
template <class T>
Stack<T> random_stack(int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(n));
  Stack<T> a{kCount, n, std::vector<T>(static_cast<size_t>(kCount * n * n))};
  for (T& x : a.elements) x = random_number<T>(random);
  // Pivots that are not where they are looked for first: the identity backwards.
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i) a.at(1, i, j) = i + j == n - 1 ? T(1) : T(0);
  return a;
}

// |x| of a matrix: the largest sum of a column.
template <class F>
double norm(int64_t n, const F& element) {
  double most = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(std::abs(element(i, j)));
    most = std::isnan(sum) ? sum : std::max(most, sum);
  }
  return most;
}

inline int64_t slot_of(const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); }

template <class T>
class SmallMatricesOnHost : public ::testing::Test {
 protected:
  using Real = decltype(std::abs(T()));
  static constexpr double kRatio = 30;  // LAPACK's bound of its test ratios

  static DType dtype() {
    const bool is_double = sizeof(Real) == 8;
    if constexpr (std::is_same_v<T, Real>)
      return is_double ? DType::float64 : DType::float32;
    else
      return is_double ? DType::complex128 : DType::complex64;
  }
  // Families whose texts differ in their lists of kernels alone. False where there is no compiler.
  bool compile(const std::vector<SmallMatrices>& families) {
    ModuleSource source = small_matrices_source(families[0], dtype());
    for (size_t i = 1; i < families.size(); ++i) {
      const bool larger = families[i] == SmallMatrices::invert_larger || families[i] == SmallMatrices::factor_larger ||
                          families[i] == SmallMatrices::warp_jacobi_32 || families[i] == SmallMatrices::warp_eigh_32;
      if (larger && dtype() == DType::complex128) continue;
      const ModuleSource other = small_matrices_source(families[i], dtype());
      const size_t from = other.text.find("extern \"C\"");
      source.text.insert(source.text.rfind('}'), other.text.substr(from, other.text.rfind('}') - from));
      source.kernels.insert(source.kernels.end(), other.kernels.begin(), other.kernels.end());
    }
    kernels_.add(source, "small");
    try {
      kernels_.compile();
    } catch (const NotSupported&) {
      return false;
    }
    return true;
  }
  // In place where `out` is `a`. Two blocks take all matrices, up to eight each at a time.
  void eliminate(const char* name, Stack<T>& a, Stack<T>& out) {
    pivots_.assign(static_cast<size_t>(a.count * a.n), -1);
    info_.assign(static_cast<size_t>(a.count), -1);
    run_slots(name_with_side(name, a.n), {slot_of(a.elements.data()), slot_of(out.elements.data()),
                                          slot_of(pivots_.data()), slot_of(info_.data()), a.count, a.n});
  }
  void run_slots(const std::string& kernel, std::vector<int64_t> slots) {
    slots.resize(12);
    ASSERT_EQ(kernels_.call("run_" + kernel, 2, 1, slots), "");
  }
  static std::string name_with_side(const char* name, int64_t n) {
    return std::string(name) + '_' + (n > 64 ? "128" : n > 32 ? "64" : n > 16 ? "32" : "16");
  }
  // L U from what `factor`(stack) leaves in place, pivots_ and info_ is the matrix; of singular ones too.
  template <class Factor>
  void expect_factors(int64_t n, Factor&& factor) {
    const Stack<T> a = random_stack<T>(n);
    Stack<T> lu = a, exchanged = a;
    factor(lu);
    for (int64_t p = 0; p < kCount; ++p) {
      EXPECT_EQ(info_[static_cast<size_t>(p)], 0);
      for (int64_t k = 0; k < n; ++k) {
        const int64_t other = pivots_[static_cast<size_t>(p * n + k)] - 1;
        ASSERT_TRUE(other >= k && other < n);
        for (int64_t j = 0; j < n; ++j) std::swap(exchanged.at(p, k, j), exchanged.at(p, other, j));
        for (int64_t i = k + 1; i < n; ++i) EXPECT_LE(std::abs(lu.at(p, i, k)), 1.5);  // by |re| + |im|
      }
      const double error = norm(n, [&](int64_t i, int64_t j) {
        T sum = -exchanged.at(p, i, j);
        for (int64_t k = 0; k <= std::min(i, j); ++k) sum += (k == i ? T(1) : lu.at(p, i, k)) * lu.at(p, k, j);
        return sum;
      });
      const double scale = norm(n, [&](int64_t i, int64_t j) { return a.at(p, i, j); });
      EXPECT_LT(error / (scale * static_cast<double>(n) * std::numeric_limits<decltype(std::abs(T()))>::epsilon()),
                kRatio)
          << n << ", matrix " << p;
    }
    lu = a;
    for (int64_t i = 0; i < n; ++i) lu.at(0, i, n / 2) = T(0);
    factor(lu);
    EXPECT_EQ(info_[0], n / 2 + 1);
    for (const T& x : lu.elements) EXPECT_FALSE(std::isnan(std::abs(x)));
  }

  KernelsOnHost kernels_;
  std::vector<int32_t> pivots_, info_;
};

}  // namespace quarry::local::cuda
