// Eigenvalues and singular values of matrices that no device decomposes by itself: LAPACK's test ratios.
#include "quarry/chunked/api/spectral.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/beyond_memory.h"
#include "tests/support/runtime_on.h"
#include "tests/support/spectra.h"

namespace quarry {
namespace {

using testing::DType;
using ::testing::HasSubstr;
using testing::NdArray;
using ::testing::ThrowsMessage;

class Spectral : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
    // The pretended device waits a little for each call.
    size_ = on_gpu() ? 2600 : is_quick() ? 150 : 140;
  }
  bool on_gpu() const { return GetParam() == local::DeviceKind::cuda; }
  bool is_quick() const { return GetParam() == local::DeviceKind::cpu; }
  // All of float64 on the CPU, some of the others.
  testing::Named some(testing::Named all, DType dtype) const {
    if (!is_quick() || dtype != DType::float64) all.resize(is_quick() ? 1 : 2);
    return all;
  }
  std::vector<DType> dtypes() const {
    if (is_quick()) return {DType::float64, DType::complex64, DType::float32, DType::complex128};
    return {DType::float64};
  }

  // What a function makes of matrices that are in files, where a device holds none of their decompositions.
  using Function = std::function<std::vector<Array>(const std::vector<Array>&)>;
  std::vector<NdArray> beyond(const std::vector<NdArray>& given, const Function& function) const {
    const testing::BeyondMemory arrays;
    const auto name = [](const char* what, size_t i) { return what + std::to_string(i); };
    for (size_t i = 0; i < given.size(); ++i) arrays.write(name("given", i), given[i]);
    size_t count = 0;
    {
      RuntimeOptions options = testing::runtime_on(GetParam(), on_gpu() ? "256MiB" : "600KiB");
      if (GetParam() == local::DeviceKind::emulated) options.host_memory = "16MiB";
      const Runtime runtime(options);
      const ChunkPolicyScope policy(ChunkPolicy{GetParam(), {}, on_gpu() ? int64_t{4} << 20 : 12288});
      EXPECT_FALSE(linalg::spectral::eigh_fits(size_, DType::float64));
      EXPECT_FALSE(linalg::spectral::svd_fits({size_, size_}, DType::float64, true, false));
      std::vector<Array> opened;
      for (size_t i = 0; i < given.size(); ++i) opened.push_back(arrays.open(name("given", i)));
      for (const Array& made : function(opened)) arrays.keep(made, name("made", count++));
    }
    std::vector<NdArray> values;
    for (size_t i = 0; i < count; ++i) values.push_back(arrays.value(name("made", i)));
    return values;
  }
  int64_t size_ = 0;
};
INSTANTIATE_TEST_SUITE_P(All, Spectral,
                         ::testing::Values(local::DeviceKind::cpu, local::DeviceKind::emulated,
                                           local::DeviceKind::cuda),
                         [](const auto& info) { return std::string(local::name(info.param)); });

TEST_P(Spectral, EigenvaluesAndVectors) {
  for (const DType dtype : dtypes()) {
    for (const auto& [name, a] : some(testing::hermitian_matrices(size_, dtype), dtype)) {
      SCOPED_TRACE(name + ", " + local::name(dtype));
      const bool both = name == "random";
      const std::vector<NdArray> got = beyond({a}, [&](const std::vector<Array>& given) {
        const auto [values, vectors] = linalg::eigh(given[0]);
        std::vector<Array> made{values, vectors};
        if (both) made.push_back(linalg::eigvalsh(given[0]));
        return made;
      });
      testing::expect_eigen(a, got[0], got[1]);
      if (both) testing::expect_small(got[2] - got[0], local::absolute(a), "values alone");
    }
  }
}

TEST_P(Spectral, OneTriangleIsRead) {
  const NdArray x = testing::random_matrix({size_, size_}, DType::complex128);
  for (const auto triangle : {local::Triangle::lower, local::Triangle::upper}) {
    const NdArray side = triangle == local::Triangle::lower ? local::tril(x, -1) : local::triu(x, 1);
    const NdArray a = side + testing::adjoint(side) + local::diag(local::real(local::diagonal(x)));
    const std::vector<NdArray> got = beyond({x}, [&](const std::vector<Array>& given) {
      const auto [values, vectors] = linalg::eigh(given[0], triangle);
      return std::vector<Array>{values, vectors};
    });
    testing::expect_eigen(a, got[0], got[1]);
    if (!is_quick()) break;
  }
}

// Only what a part of the spectrum needs is decomposed.
TEST_P(Spectral, PartsOfASpectrum) {
  for (const DType dtype : dtypes()) {
    int kind = 0;
    for (const auto& [name, a] : some(testing::hermitian_matrices(size_, dtype), dtype)) {
      if (kind++ % 3 != 0) continue;  // each takes five divisions
      SCOPED_TRACE(name + ", " + local::name(dtype));
      const NdArray all = local::linalg::eigvalsh(a), scale = local::maximum(local::absolute(a), 1e-300);
      const std::vector<double> numbers = local::to_vector<double>(all.astype(DType::float64));
      const auto at = [&](int64_t i) { return numbers[static_cast<size_t>(i)]; };
      // Between eigenvalues that are not equal but for roundings.
      const double spread = numbers.back() - numbers.front(), nothing = numbers.back() + std::abs(spread) + 1;
      double middle = numbers.front() - 1;
      for (int64_t i = size_ / 2; i + 1 < size_ && middle < numbers.front(); ++i)
        if (at(i + 1) - at(i) > 1e-3 * spread / double(size_)) middle = (at(i) + at(i + 1)) / 2;
      const int64_t above = std::ranges::count_if(numbers, [&](double x) { return x > middle; });
      const std::vector<NdArray> got = beyond({a}, [&](const std::vector<Array>& given) {
        const auto [low, low_vectors] = linalg::eigh(given[0], linalg::ByIndex{0, 4});
        const auto [inner, inner_vectors] = linalg::eigh(given[0], linalg::ByIndex{size_ / 2 - 3, size_ / 2 + 3});
        const auto [high, high_vectors] = linalg::eigh(given[0], linalg::ByValue{middle, local::inf});
        const auto [none, no_vectors] = linalg::eigh(given[0], linalg::ByValue{nothing, nothing + 1});
        EXPECT_EQ(none.shape(), (local::Dims{0}));
        EXPECT_EQ(no_vectors.shape(), (local::Dims{size_, 0}));
        EXPECT_EQ(linalg::eigvalsh(given[0], linalg::ByValue{nothing, local::inf}).size(), 0);
        return std::vector<Array>{low,
                                  low_vectors,
                                  inner,
                                  inner_vectors,
                                  high,
                                  high_vectors,
                                  linalg::eigvalsh(given[0], linalg::ByIndex{size_ - 1, size_ - 1})};
      });
      const auto expect = [&, &a = a](const NdArray& values, const NdArray& vectors, int64_t first, int64_t count) {
        ASSERT_EQ(values.shape(), (local::Dims{count}));
        ASSERT_EQ(vectors.shape(), (local::Dims{size_, count}));
        EXPECT_EQ(values.dtype(), local::real_type(dtype));
        EXPECT_EQ(vectors.dtype(), dtype);
        testing::expect_small(values - all(local::Slice{first, first + count, 1}), scale, "eigenvalues");
        testing::expect_small(local::matmul(a, vectors) - vectors * values.astype(dtype), scale, "A V - V W");
        testing::expect_small(local::matmul(testing::adjoint(vectors), vectors) - testing::identity(count, dtype),
                              local::eye(size_), "I - V^H V");
      };
      expect(got[0], got[1], 0, 5);
      expect(got[2], got[3], size_ / 2 - 3, 7);
      expect(got[4], got[5], size_ - above, above);
      testing::expect_small(got[6] - all(local::Slice{size_ - 1, {}, 1}), scale, "the largest");
    }
  }
}

TEST_P(Spectral, SingularValuesAndVectors) {
  const int64_t n = is_quick() ? 170 : size_;
  for (const DType dtype : dtypes()) {
    for (const auto& [name, a] : some(testing::rectangular_matrices(n, dtype), dtype)) {
      for (const bool full : {false, true}) {
        if (full && name != "tall" && !(is_quick() && name == "dependent")) continue;
        SCOPED_TRACE(name + ", " + local::name(dtype) + (full ? ", full" : ""));
        const std::vector<NdArray> got = beyond({a}, [&](const std::vector<Array>& given) {
          const auto [u, s, vh] = linalg::svd(given[0], full);
          std::vector<Array> made{u, s, vh};
          if (!full) made.push_back(linalg::svdvals(given[0]));
          return made;
        });
        const int64_t k = std::min(a.shape(0), a.shape(1));
        EXPECT_EQ(got[0].shape(), (local::Dims{a.shape(0), full ? a.shape(0) : k}));
        EXPECT_EQ(got[2].shape(), (local::Dims{full ? a.shape(1) : k, a.shape(1)}));
        testing::expect_svd(a, got[0], got[1], got[2]);
        const NdArray scale = local::maximum(local::absolute(a), 1e-300);
        if (!full) testing::expect_small(got[3] - got[1], scale, "singular values alone");
      }
    }
  }
}

// What the functions of numpy.linalg make of singular values.
TEST_P(Spectral, WhatFollowsFromThem) {
  const int64_t n = size_;
  const NdArray i = local::arange(double(n)), limit{1e-9};
  const NdArray dependent = testing::hermitian_with(local::where(i < double(n - 5), 1. + i, 0.), DType::float64);
  const NdArray a = testing::random_matrix({n, n - 4}, DType::float64);
  const NdArray b = testing::random_matrix({n, 2}, DType::float64, 8);
  const NdArray full = testing::random_matrix({n, n}, DType::float64, 4);
  std::vector<int64_t> ranks;
  const std::vector<NdArray> got =
      beyond({dependent, a, b, full, local::diag(i)}, [&](const std::vector<Array>& given) {
        const auto [x, squares, rank, s] = linalg::lstsq(given[1], given[2]);
        const auto [y, none, low, t] = linalg::lstsq(given[0], given[2], 1e-9);
        const auto [wide, some, all, w] = linalg::lstsq(given[1].T(), given[2](local::Slice{0, n - 4, 1}));
        ranks = {rank.as_int64(), low.as_int64(), all.as_int64()};
        return std::vector<Array>{linalg::pinv(given[1]),
                                  linalg::pinv(given[0], Operand(1e-9)),
                                  linalg::pinv(given[0], Operand(1e-9), /*hermitian=*/true),
                                  linalg::matrix_rank(given[0]),
                                  linalg::matrix_rank(given[0], std::nullopt, /*hermitian=*/true),
                                  linalg::norm(given[1], 2),
                                  linalg::norm(given[1], "nuc"),
                                  linalg::cond(given[3]),
                                  linalg::cond(given[3], -2.),
                                  linalg::cond(given[3], 1.),
                                  linalg::cond(given[4], 1.),
                                  x,
                                  squares,
                                  s,
                                  y,
                                  none,
                                  t,
                                  wide};
      });
  const auto [x0, squares0, rank0, s0] = local::linalg::lstsq(a, b);
  const auto [y0, none0, low0, t0] = local::linalg::lstsq(dependent, b, 1e-9);
  EXPECT_EQ(ranks, (std::vector<int64_t>{rank0.as_int64(), low0.as_int64(), n - 4}));
  const NdArray inverse = local::linalg::pinv(dependent, limit(0));
  const std::vector<NdArray> wanted{local::linalg::pinv(a),
                                    inverse,
                                    inverse,
                                    local::full({}, n - 5),
                                    local::full({}, n - 5),
                                    local::linalg::norm(a, 2),
                                    local::linalg::norm(a, "nuc"),
                                    local::linalg::cond(full),
                                    local::linalg::cond(full, -2.),
                                    local::linalg::cond(full, 1.),
                                    local::full({}, local::inf),
                                    x0,
                                    squares0,
                                    s0,
                                    y0,
                                    none0,
                                    t0,
                                    std::get<0>(local::linalg::lstsq(a.T(), b(local::Slice{0, n - 4, 1})))};
  for (size_t k = 0; k < wanted.size(); ++k)
    EXPECT_TRUE(testing::close(got[k], wanted[k], 1e-7, 1e-7))
        << "result " << k << ": " << got[k].repr() << " for " << wanted[k].repr();
}

TEST_P(Spectral, ExplainTellsThatASpectrumWasDivided) {
  const NdArray a = testing::hermitian_matrices(size_, DType::float64)[0].second;
  beyond({a}, [&](const std::vector<Array>& given) {
    const auto [values, vectors] = linalg::eigh(given[0]);
    for (const Array& array : {values, vectors + 1, linalg::svdvals(given[0])})
      EXPECT_THAT(explain(array), HasSubstr("by dividing the spectrum"));
    return std::vector<Array>();
  });
  const Runtime runtime(testing::runtime_on(GetParam()));
  EXPECT_THAT(explain(linalg::eigvalsh(ones({30, 30}))), ::testing::Not(HasSubstr("by dividing the spectrum")));
}

TEST_P(Spectral, NaNAndShapesAreNamed) {
  NdArray a = testing::hermitian_matrices(size_, DType::float64)[0].second;
  a(7, 3) = local::nan;
  beyond({a, a(local::Slice{0, size_ - 1, {}})}, [&](const std::vector<Array>& given) {
    EXPECT_THAT([&] { linalg::eigh(given[0]); },
                ThrowsMessage<local::InvalidArgument>(HasSubstr("eigh(): the matrix has NaN or infinite elements")));
    EXPECT_THAT([&] { linalg::svd(given[0]); },
                ThrowsMessage<local::InvalidArgument>(HasSubstr("svd(): the matrix has NaN or infinite elements")));
    EXPECT_THROW(linalg::eigh(given[1]), local::LinAlgError);
    EXPECT_THROW(linalg::eigvalsh(given[1]), local::LinAlgError);
    return std::vector<Array>();
  });
}

}  // namespace
}  // namespace quarry
