// The GPU's eigensolver of symmetric tridiagonal matrices on the CPU: what its kernels do for one element and what its
// host decides are the same functions; plain loops stand for launches and products.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quarry/local/cuda/eigh/leaf.h"
#include "quarry/local/cuda/eigh/merges.h"
#include "quarry/local/cuda/eigh/secular.h"
#include "quarry/local/cuda/eigh/sturm.h"
#include "quarry/local/ops/linalg/linalg.h"

namespace quarry::local::cuda::eigh {
namespace {

using Numbers = std::vector<double>;
constexpr double kPlace = std::numeric_limits<double>::epsilon();

size_t index(int64_t i) { return static_cast<size_t>(i); }

// ---- The solver, with loops for launches ----

// As eigh/vectors.cu.
class HostDevice {
 public:
  HostDevice(Numbers d, Numbers e)
      : n_(std::ssize(d)),
        d_(std::move(d)),
        e_(std::move(e)),
        vectors_(index(n_ * n_)),
        permuted_(index(n_ * n_)),
        secular_(index(n_ * n_)),
        values_(index(n_)),
        z_(index(n_)),
        origins_(index(n_)),
        offsets_(index(n_)) {
    e_.push_back(0);
  }

  void leaves() {
    const int levels = level_count(n_);
    for (int64_t part = 0; part < int64_t{1} << levels; ++part) {
      const int32_t begin = part_begin(n_, levels, part), size = part_begin(n_, levels, part + 1) - begin;
      ASSERT_LE(size, kMostLeaf);
      double cosines[kMostLeaf], sines[kMostLeaf], rows[kMostLeaf][kMostLeaf] = {};
      for (int i = 0; i < size; ++i) rows[i][i] = 1;
      Numbers e(e_.begin() + begin, e_.begin() + begin + size);
      Sweep sweep;
      for (int next = 0, sweeps = 0; next_sweep(size, d_.data() + begin, e.data(), next, cosines, sines, sweep);
           ++sweeps) {
        ASSERT_LT(sweeps, kMostSweeps);
        for (int i = 0; i < size; ++i) apply_sweep(sweep, cosines, sines, rows[i]);
      }
      for (int i = 0; i < size; ++i) {
        values_[index(begin + i)] = d_[index(begin + i)];
        for (int j = 0; j < size; ++j) at(vectors_, begin + i, begin + j) = rows[i][j];
      }
    }
  }
  void read(int level) {
    if (level < 0) return;
    for (int32_t j = 0; j < n_; ++j) z_[index(j)] = at(vectors_, coupled_row(n_, level, j), j);
  }
  const double* values() const { return values_.data(); }
  const double* z() const { return z_.data(); }

  void merge(int level, const MergePlan& plan) {
    for (size_t chain = 0; chain + 1 < plan.chains.size(); ++chain)
      for (int32_t r = plan.chains[chain]; r < plan.chains[chain + 1]; ++r) rotate(level, plan.rotations[index(r)]);
    for (const Merge& merge : plan.merges) {
      for (int32_t j = merge.begin; j < merge.end; ++j)
        for (int32_t i = merge.begin; i < merge.end; ++i)
          at(permuted_, i, j) = at(vectors_, i, merge.begin + plan.sources[index(j)]);
      make_secular_vectors(merge, plan);
      for (const bool is_lower : {false, true}) multiply(merge, half_of(merge, is_lower));
      for (int32_t j = merge.begin + merge.kept(); j < merge.end; ++j)
        for (int32_t i = merge.begin; i < merge.end; ++i) at(vectors_, i, j) = at(permuted_, i, j);
    }
  }

  double& at(Numbers& a, int64_t i, int64_t j) { return a[index(i + j * n_)]; }
  Numbers& vectors() { return vectors_; }

 private:
  void rotate(int level, const Rotation& r) {
    const int64_t part = part_of(n_, level, r.x);
    for (int32_t i = part_begin(n_, level, part); i < part_begin(n_, level, part + 1); ++i) {
      const double x = at(vectors_, i, r.x), y = at(vectors_, i, r.y);
      at(vectors_, i, r.x) = r.cosine * x - r.sine * y;
      at(vectors_, i, r.y) = r.sine * x + r.cosine * y;
    }
  }
  void make_secular_vectors(const Merge& merge, const MergePlan& plan) {
    const int32_t kept = merge.kept(), begin = merge.begin;
    const Secular problem{kept, plan.poles.data() + begin, plan.weights.data() + begin, merge.rho};
    for (int32_t i = 0; i < kept; ++i) {
      const Zero zero = secular_zero(problem, i, OneLane{});
      ASSERT_TRUE(zero.converged);
      origins_[index(begin + i)] = zero.origin;
      offsets_[index(begin + i)] = zero.offset;
      values_[index(begin + i)] = zero.origin + zero.offset;
    }
    Numbers exact(index(kept)), element(index(kept));
    for (int32_t j = 0; j < kept; ++j)
      exact[index(j)] = exact_weight(problem, origins_.data() + begin, offsets_.data() + begin, j, OneLane{});
    for (int32_t i = 0; i < kept; ++i) {
      double squares = 0;
      for (int32_t j = 0; j < kept; ++j) {
        element[index(j)] =
            vector_element(problem.poles[j], exact[index(j)], origins_[index(begin + i)], offsets_[index(begin + i)]);
        squares += element[index(j)] * element[index(j)];
      }
      for (int32_t j = 0; j < kept; ++j)
        at(secular_, begin + plan.rows[index(begin + j)], begin + i) = element[index(j)] / std::sqrt(squares);
    }
  }
  void multiply(const Merge& merge, const Half& half) {
    for (int32_t j = merge.begin; j < merge.begin + merge.kept(); ++j) {
      for (int32_t i = half.first_row; i < half.last_row; ++i) at(vectors_, i, j) = 0;
      for (int32_t k = half.first; k < half.last; ++k) {
        const double factor = at(secular_, k, j);
        for (int32_t i = half.first_row; i < half.last_row; ++i) at(vectors_, i, j) += at(permuted_, i, k) * factor;
      }
    }
  }

  const int64_t n_;
  Numbers d_, e_, vectors_, permuted_, secular_, values_, z_, origins_, offsets_;
};

struct Result {
  Numbers values, vectors;  // by columns
};

Result vectors_of(Numbers d, Numbers e) {
  const auto n = std::ssize(d);
  const Scaling scaling = scale(d, e);
  EXPECT_TRUE(scaling.is_finite);
  Merges merges(e);
  merges.cut(d);
  HostDevice device(d, e);
  divide_and_conquer(merges, device);
  Result result{Numbers(index(n)), Numbers(index(n * n))};
  for (int64_t j = 0; j < n; ++j) {
    const int32_t from = merges.order()[index(j)];
    result.values[index(j)] = std::ldexp(merges.value(from), scaling.exponent);
    for (int64_t i = 0; i < n; ++i) result.vectors[index(i + j * n)] = device.at(device.vectors(), i, from);
  }
  return result;
}

// As eigh/values.cu.
Numbers values_of(Numbers d, Numbers e) {
  const auto n = std::ssize(d);
  const int exponent = scale(d, e).exponent;
  const auto is_zero = [](double x) { return x == 0; };
  const bool all_zero = std::ranges::all_of(d, is_zero) && std::ranges::all_of(e, is_zero);
  Numbers values(index(n));
  for (int64_t number = 0; number < n; ++number) {
    Interval interval = all_values(all_zero);
    for (int stage = 0; stage < kStages; ++stage) {
      int passed = 0;
      for (int p = 0; p < kPoints; ++p) {
        Sturm sturm;
        const double x = point(interval, p);
        for (int64_t i = 0; i < n; ++i) {
          const double before = i == 0 ? 0 : e[index(i - 1)];
          count_row(sturm, d[index(i)], before * before, x);
          if (i % kStepsOfScale == kStepsOfScale - 1) rescale(sturm);
        }
        passed += sturm.below <= number ? 1 : 0;
      }
      interval = section(interval, passed);
    }
    values[index(number)] = std::ldexp((interval.low + interval.high) / 2, exponent);
  }
  return values;
}

// ---- Matrices ----

struct Matrix {
  std::string name;
  Numbers d, e;
};

Matrix matrix(std::string name, int64_t n) { return {std::move(name), Numbers(index(n)), Numbers(index(n - 1))}; }

std::vector<Matrix> matrices(int64_t n) {
  std::vector<Matrix> all;
  std::mt19937_64 random(static_cast<uint64_t>(n));
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::normal_distribution<double> normal;
  const auto add = [&](const char* name, auto&& diagonal, auto&& beside) {
    Matrix one = matrix(name, n);
    for (int64_t i = 0; i < n; ++i) one.d[index(i)] = diagonal(i);
    for (int64_t i = 0; i + 1 < n; ++i) one.e[index(i)] = beside(i);
    all.push_back(std::move(one));
  };
  const auto constant = [](double x) { return [x](int64_t) { return x; }; };
  const auto noise = [&](int64_t) { return uniform(random); };
  const auto real = [](int64_t i) { return static_cast<double>(i); };
  add("zero", constant(0), constant(0));
  add("identity", constant(1), constant(0));
  add("diagonal", noise, constant(0));
  add(
      "descending", [&](int64_t i) { return real(-i); }, constant(0));
  add("only beside", constant(0), constant(1));
  add("second differences", constant(2), constant(-1));
  add("uniform", noise, noise);
  add(
      "of a random symmetric matrix", [&](int64_t) { return std::sqrt(2) * normal(random); },
      [&](int64_t i) { return std::sqrt(std::chi_squared_distribution<double>(real(n - 1 - i))(random)); });
  add("Clement", constant(0), [&](int64_t i) { return std::sqrt(real((i + 1) * (n - 1 - i))); });
  add(
      "Wilkinson", [&](int64_t i) { return std::fabs(real(2 * i - n + 1)) / 2; }, constant(1));
  add(
      "glued Wilkinson", [&](int64_t i) { return std::fabs(real(i % 21) - 10); },
      [&](int64_t i) { return i % 21 == 20 ? 1e-8 : 1; });
  add(
      "loosely glued Wilkinson", [&](int64_t i) { return std::fabs(real(i % 21) - 10); },
      [&](int64_t i) { return i % 21 == 20 ? 1e-15 : 1; });
  add("split", noise, [&](int64_t i) { return i % 5 == 4 ? 0 : uniform(random); });
  add("split in the middle", noise, [&](int64_t i) { return i + 1 == n / 2 ? 0 : uniform(random); });
  add(
      "falling", [&](int64_t i) { return std::pow(10, -30 * real(i) / real(n)); },
      [&](int64_t i) { return std::pow(10, -30 * (real(i) + 1) / real(n)); });
  add(
      "rising", [&](int64_t i) { return std::pow(10, 30 * (real(i) / real(n) - 1)); },
      [&](int64_t i) { return std::pow(10, 30 * (real(i) / real(n) - 1)); });
  add(
      "cluster", [&](int64_t) { return 1 + 1e-9 * uniform(random); }, [&](int64_t) { return 1e-9 * uniform(random); });
  add(
      "cluster of roundings", [&](int64_t) { return 1 + 4e-16 * uniform(random); },
      [&](int64_t) { return 1e-16 * uniform(random); });
  add(
      "one large", [&](int64_t i) { return i == n / 3 ? 1e20 : uniform(random); }, noise);
  add(
      "large", [&](int64_t) { return 1e300 * uniform(random); }, [&](int64_t) { return 1e300 * uniform(random); });
  add(
      "small", [&](int64_t) { return 1e-300 * uniform(random); }, [&](int64_t) { return 1e-300 * uniform(random); });
  add(
      "blocks of all scales", [&](int64_t i) { return uniform(random) * std::pow(10, -10 * real(i / 40 % 4)); },
      [&](int64_t i) { return i % 40 == 39 ? 0 : uniform(random) * std::pow(10, -10 * real(i / 40 % 4)); });
  add(
      "a half of tiny numbers", [&](int64_t i) { return uniform(random) * (i < n / 2 ? 1 : 1e-250); },
      [&](int64_t i) { return uniform(random) * (i < n / 2 - 1 ? 1 : 1e-250); });
  return all;
}

double norm_of(const Numbers& d, const Numbers& e) {
  double norm = 0;
  for (size_t i = 0; i < d.size(); ++i) {
    const double row = std::fabs(d[i]) + (i > 0 ? std::fabs(e[i - 1]) : 0) + (i + 1 < d.size() ? std::fabs(e[i]) : 0);
    norm = std::max(norm, row);
  }
  return norm;
}

// LAPACK's test ratios, in units of the last place.
void expect_vectors(const Numbers& d, const Numbers& e, const Result& result) {
  const auto n = std::ssize(d);
  const double norm = norm_of(d, e), place = kPlace * static_cast<double>(n);
  const auto z = [&](int64_t i, int64_t j) { return result.vectors[index(i + j * n)]; };
  double residual = 0, product = 0;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) {
      double row = (d[index(i)] - result.values[index(j)]) * z(i, j);
      if (i > 0) row += e[index(i - 1)] * z(i - 1, j);
      if (i + 1 < n) row += e[index(i)] * z(i + 1, j);
      residual = std::max(residual, std::fabs(row));
      ASSERT_TRUE(std::isfinite(z(i, j)));
    }
    for (int64_t k = 0; k <= j; ++k) {
      double dot = k == j ? -1 : 0;
      for (int64_t i = 0; i < n; ++i) dot += z(i, j) * z(i, k);
      product = std::max(product, std::fabs(dot));
    }
  }
  EXPECT_LE(residual, 3 * norm * place);
  EXPECT_LE(product, 3 * place);
  EXPECT_TRUE(std::ranges::is_sorted(result.values));
}

// Of LAPACK by the dense matrix.
Numbers reference(const Numbers& d, const Numbers& e) {
  const auto n = std::ssize(d);
  Numbers dense(index(n * n));
  for (int64_t i = 0; i < n; ++i) {
    dense[index(i * n + i)] = d[index(i)];
    if (i + 1 < n) dense[index(i * n + i + 1)] = dense[index(i * n + n + i)] = e[index(i)];
  }
  return to_vector<double>(ops::eigvalsh(from_vector(dense, Dims{n, n})));
}

constexpr int64_t kSizes[] = {1, 2, 3, 17, 63, 64, 65, 130, 257};

TEST(TridiagonalEigensolver, FindsOrthogonalVectors) {
  for (const int64_t n : kSizes) {
    for (const Matrix& one : matrices(n)) {
      SCOPED_TRACE(one.name + ", n = " + std::to_string(n));
      expect_vectors(one.d, one.e, vectors_of(one.d, one.e));
    }
  }
}

TEST(TridiagonalEigensolver, FindsTheValuesOfLapack) {
  for (const int64_t n : kSizes) {
    for (const Matrix& one : matrices(n)) {
      SCOPED_TRACE(one.name + ", n = " + std::to_string(n));
      const Numbers &d = one.d, &e = one.e;
      const double place = kPlace * norm_of(d, e), of_lapack = static_cast<double>(n) * place;
      const Numbers expected = reference(d, e);
      const Numbers values = values_of(d, e), beside_vectors = vectors_of(d, e).values;
      EXPECT_TRUE(std::ranges::is_sorted(values));
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_NEAR(values[index(i)], expected[index(i)], place + of_lapack) << i;
        EXPECT_NEAR(beside_vectors[index(i)], expected[index(i)], 3 * of_lapack) << i;
      }
    }
  }
}

// ---- What the host decides ----

TEST(TridiagonalMerges, PartsAreSmallAndNextToEachOther) {
  for (const int64_t n : {1, 2, 63, 64, 65, 127, 128, 129, 1000, 4097, 100000}) {
    const int levels = level_count(n);
    for (int level = 0; level <= levels; ++level) {
      EXPECT_EQ(part_begin(n, level, 0), 0);
      EXPECT_EQ(part_begin(n, level, int64_t{1} << level), n);
      for (int64_t part = 0; part < int64_t{1} << level; ++part) {
        const int32_t begin = part_begin(n, level, part), end = part_begin(n, level, part + 1);
        EXPECT_GT(end, begin);
        EXPECT_EQ(part_of(n, level, begin), part);
        EXPECT_EQ(part_of(n, level, end - 1), part);
        if (level == levels) {
          EXPECT_LE(end - begin, kMostLeaf);
        } else {
          EXPECT_EQ(part_begin(n, level + 1, 2 * part), begin);
        }
      }
    }
  }
  // Of a cut in the middle: the last row of the upper part and the first of the lower one.
  EXPECT_EQ(coupled_row(100, 0, 10), 49);
  EXPECT_EQ(coupled_row(100, 0, 49), 49);
  EXPECT_EQ(coupled_row(100, 0, 50), 50);
  EXPECT_EQ(coupled_row(100, 0, 99), 50);
}

TEST(TridiagonalMerges, ScalesAndRefusesWhatIsNotFinite) {
  Numbers d{3, -1}, e{1e300};
  EXPECT_TRUE(scale(d, e).is_finite);
  EXPECT_TRUE(e[0] >= 0.5 && e[0] < 1);
  Numbers zero{0, 0}, nothing{0};
  EXPECT_EQ(scale(zero, nothing).exponent, 0);
  EXPECT_EQ(zero, (Numbers{0, 0}));
  Numbers least{std::numeric_limits<double>::denorm_min()}, none;
  EXPECT_EQ(scale(least, none).exponent, -1073);
  EXPECT_EQ(least[0], 0.5);
  for (const double x : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Numbers bad{1, x}, fine{1};
    EXPECT_FALSE(scale(bad, fine).is_finite);
    Numbers good{1, 2}, also_bad{-x};
    EXPECT_FALSE(scale(good, also_bad).is_finite);
  }
}

MergePlan plan_of(const Numbers& z, double e, Numbers values = {}) {
  Merges merges(Numbers(z.size() - 1, e));
  values.resize(z.size());
  merges.take_leaves(values.data());
  return merges.plan(0, z.data());
}
TEST(TridiagonalMerges, LeaveWhatDoesNotChange) {
  constexpr int64_t kSize = 128, kCut = 64;
  Numbers values(kSize), z(kSize, 1.0);
  for (int64_t i = 0; i < kSize; ++i) values[index(i)] = static_cast<double>(kSize - i) / 256;

  // Nothing is negligible: columns by their values, first those above.
  const MergePlan all = plan_of(z, -0.5, values);
  ASSERT_EQ(std::ssize(all.merges), 1);
  EXPECT_EQ(all.merges[0].above, kCut);
  EXPECT_EQ(all.merges[0].both, 0);
  EXPECT_EQ(all.merges[0].below, kSize - kCut);
  EXPECT_DOUBLE_EQ(all.merges[0].rho, 0.5 * static_cast<double>(kSize));
  EXPECT_TRUE(std::ranges::is_sorted(all.poles));
  EXPECT_EQ(all.sources[0], kCut - 1);
  EXPECT_EQ(all.rows[0], kCut);
  EXPECT_LT(all.weights[0], 0);  // the sign of e, in the lower part
  EXPECT_GT(all.weights[kSize - 1], 0);
  EXPECT_TRUE(all.rotations.empty());

  // A cut of nothing, and elements of nothing.
  EXPECT_EQ(plan_of(z, 0, values).merges[0].kept(), 0);
  z[3] = z[100] = 1e-17;
  const MergePlan fewer = plan_of(z, 0.5, values);
  EXPECT_EQ(fewer.merges[0].above, kCut - 1);
  EXPECT_EQ(fewer.merges[0].below, kSize - kCut - 1);
  EXPECT_EQ(fewer.sources[kSize - 2], 100);
  EXPECT_EQ(fewer.sources[kSize - 1], 3);
  z[3] = z[100] = 1;

  // Equal values are rotated to one column, which has elements in both parts if theirs were in both.
  values[10] = values[20] = values[70] = 0.25;
  const MergePlan equal = plan_of(z, 0.5, values);
  EXPECT_EQ(std::ssize(equal.rotations), 3);  // and the one whose value was 0.25
  EXPECT_EQ(equal.chains, (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(equal.merges[0].both, 1);
  EXPECT_EQ(equal.merges[0].kept(), kSize - 3);
  for (const Rotation& r : equal.rotations) EXPECT_NEAR(r.cosine * r.cosine + r.sine * r.sine, 1, 1e-15);
}

}  // namespace
}  // namespace quarry::local::cuda::eigh
