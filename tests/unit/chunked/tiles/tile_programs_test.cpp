// Factorisations by tiles on one rank: LAPACK's test ratios, bits, errors, memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "tests/support/evaluate.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tile_rows.h"

namespace quarry {
namespace {

using testing::DType;
using ::testing::HasSubstr;
using testing::NdArrays;

bool same_bits(const local::NdArray& a, const local::NdArray& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.copy().raw(), static_cast<size_t>(a.nbytes())) == 0;
}

struct Setting {
  const char* name;
  testing::TileRow row;
  local::DeviceKind device;
};
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const testing::TileRow& row : testing::tile_rows())
    for (const auto device : {local::DeviceKind::cpu, local::DeviceKind::emulated, local::DeviceKind::cuda})
      all.push_back({local::name(device), row, device});
  return all;
}

class TilePrograms : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam().device)) GTEST_SKIP() << "no device of kind " << GetParam().name;
  }
};
INSTANTIATE_TEST_SUITE_P(All, TilePrograms, ::testing::ValuesIn(settings()),
                         [](const auto& info) { return std::string(info.param.name) + "_" + info.param.row.name; });

TEST_P(TilePrograms, GiveSmallResidualsAndTheBitsOfTheLoopOnWholeArrays) {
  const Runtime runtime(testing::runtime_on(GetParam().device));
  const ChunkPolicyScope small(testing::small_tiles(GetParam().device));
  // The pretended device waits a little for each call.
  const bool is_slow = GetParam().device == local::DeviceKind::emulated;
  const std::vector<DType> all{DType::float64, DType::complex64, DType::float32, DType::complex128};
  for (const DType dtype : std::span(all).first(is_slow ? 2 : 4)) {
    for (const auto& [m, n] : testing::tile_sizes()) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " " << local::name(dtype));
      const testing::TileCase tried = GetParam().row.make(m, n, dtype);
      const NdArrays values = to_host(tried.chunked);
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(values[i].shape(), tried.chunked[i].shape());
        EXPECT_EQ(values[i].dtype(), tried.chunked[i].dtype());
      }
      tried.check(values);
      const bool exact = testing::is_exact(GetParam().row, m, n) && GetParam().device != local::DeviceKind::cuda;
      for (size_t i = 0; exact && i < values.size(); ++i)
        EXPECT_TRUE(same_bits(values[i], testing::evaluate(tried.chunked[i].node()))) << "result " << i;
    }
  }
}

// Tiles are spilled, and columns are taken in groups: the same bits. The results are stored, since they are larger than
// the least budget.
TEST_P(TilePrograms, HaveTheSameBitsInAnyBudget) {
  const test::TempDir directory;
  const bool on_cpu = GetParam().device == local::DeviceKind::cpu;
  // The local functions that a triangle goes to need room for it.
  const bool is_small = std::string_view(GetParam().row.name) == "svd";
  // The pretended device waits a little for each call.
  const bool is_slow = GetParam().device == local::DeviceKind::emulated;
  const auto [m, n] = is_small ? std::pair(3000, 20) : is_slow ? std::pair(110, 100) : std::pair(150, 140);
  NdArrays first;
  for (const char* memory : {"64MiB", "600KiB"}) {
    SCOPED_TRACE(memory);
    const std::string file = directory / (std::string(memory) + ".h5");
    RuntimeOptions options = testing::runtime_on(GetParam().device, memory);
    if (!on_cpu) options.host_memory = "4MiB";
    if (GetParam().device == local::DeviceKind::cuda)
      options.memory = memory == std::string_view("64MiB") ? "1GiB" : "256MiB";
    testing::TileCase tried;
    std::vector<StoreItem> items;
    {
      const Runtime runtime(options);
      const ChunkPolicyScope policy({GetParam().device, {}, /*target_bytes=*/4096});
      tried = GetParam().row.make(m, n, DType::float64);
      for (size_t i = 0; i < tried.chunked.size(); ++i) items.push_back({"/x" + std::to_string(i), tried.chunked[i]});
      store(file, items);
      tried.chunked.clear();
    }
    NdArrays values;
    for (const StoreItem& item : items) values.push_back(open_hdf5(file, item.path).to_host());
    if (first.empty()) {
      first = values;
      tried.check(values);
    }
    for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(same_bits(values[i], first[i])) << "result " << i;
  }
}

// A matrix of no more than two tiles goes by smaller ones where the budget is too small for the local function.
class SmallBudgets : public ::testing::TestWithParam<local::DeviceKind> {};
INSTANTIATE_TEST_SUITE_P(All, SmallBudgets,
                         ::testing::Values(local::DeviceKind::cpu, local::DeviceKind::emulated,
                                           local::DeviceKind::cuda),
                         [](const auto& info) { return std::string(local::name(info.param)); });

TEST_P(SmallBudgets, MatricesOfATileAreCut) {
  if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
  const bool on_gpu = GetParam() == local::DeviceKind::cuda;
  const int64_t n = on_gpu ? 3000 : 300;
  RuntimeOptions options = testing::runtime_on(GetParam(), on_gpu ? "320MiB" : "3MiB");
  if (GetParam() == local::DeviceKind::emulated) options.host_memory = "16MiB";
  const Runtime runtime(options);
  const local::NdArray a = testing::positive_definite(n, DType::float64),
                       b = testing::random_matrix({n, 2}, DType::float64);
  const Array given = Array::from_local(a).rechunk({n / 3, n / 3}), sides = Array::from_local(b);
  const local::NdArray x = linalg::solve(given, sides).to_host();
  testing::expect_small(local::matmul(a, x) - b, local::matmul(local::absolute(a), local::absolute(x)), "A X - B");
  const auto expect_near = [&](const local::NdArray& found, const local::NdArray& wanted, const char* what) {
    EXPECT_LT(testing::ratio(found - wanted, wanted, n), 30) << what;
  };
  const local::NdArray one = local::eye(n);
  expect_near(local::matmul(linalg::inv(given).to_host(), a), one, "A^-1 A");
  const auto [q, r] = linalg::qr(given);
  expect_near(local::matmul(q.to_host(), r.to_host()), a, "Q R");
  const auto [w, v] = linalg::eigh(given);
  const local::NdArray vectors = v.to_host();
  expect_near(local::matmul(vectors * w.to_host(), vectors.T()), a, "V W V^T");
  const auto [u, s, vh] = linalg::svd(given);
  expect_near(local::matmul(u.to_host() * s.to_host(), vh.to_host()), a, "U S V^T");
}

class TileErrors : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
    runtime_.emplace(testing::runtime_on(GetParam()));
    small_.emplace(testing::small_tiles(GetParam()));
  }

 private:
  std::optional<Runtime> runtime_;
  std::optional<ChunkPolicyScope> small_;
};
INSTANTIATE_TEST_SUITE_P(All, TileErrors,
                         ::testing::Values(local::DeviceKind::cpu, local::DeviceKind::emulated,
                                           local::DeviceKind::cuda),
                         [](const auto& info) { return std::string(local::name(info.param)); });

template <class Error, class F>
std::string message_of(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing of that kind was thrown";
}

TEST_P(TileErrors, NameWhatIsWrongWithTheMatrix) {
  using local::LinAlgError;
  constexpr int64_t n = 30;
  local::NdArray a = testing::positive_definite(n, DType::float64);
  a(20, 20) = -1.;
  EXPECT_THAT(message_of<LinAlgError>([&] { linalg::cholesky(testing::cut(a)).to_host(); }),
              HasSubstr("Matrix is not positive definite: its leading minor of order 21 is not"));
  local::NdArray nan = testing::positive_definite(n, DType::float64);
  nan(25, 3) = local::nan;
  local::NdArray singular = testing::random_matrix({n, n}, DType::float64);
  singular(local::full_slice, 17) = 0.;
  EXPECT_THAT(message_of<LinAlgError>([&] { linalg::solve(testing::cut(singular), ones(Dims{n})).to_host(); }),
              HasSubstr("Singular matrix: pivot 18 is 0"));
  EXPECT_THAT(message_of<LinAlgError>([&] { linalg::inv(testing::cut(singular)).to_host(); }),
              HasSubstr("Singular matrix: pivot 18 is 0"));
  EXPECT_EQ(linalg::det(testing::cut(singular)).item<double>(), 0);
  EXPECT_EQ(linalg::slogdet(testing::cut(singular)).logabsdet.item<double>(), -local::inf);
  local::NdArray triangle = local::tril(testing::random_matrix({n, n}, DType::float64));
  triangle(11, 11) = 0.;
  EXPECT_THAT(message_of<LinAlgError>([&] {
                linalg::solve_triangular(testing::cut(triangle), ones(Dims{n}), 0, /*lower=*/true).to_host();
              }),
              HasSubstr("singular matrix: a diagonal element is zero, number 11"));
  EXPECT_THAT(message_of<local::InvalidArgument>(
                  [&] { linalg::solve_triangular(testing::cut(nan), ones(Dims{n}), 0, /*lower=*/true).to_host(); }),
              HasSubstr("array must not contain infs or NaNs"));
  EXPECT_THROW(linalg::cholesky(testing::cut(testing::random_matrix({n, n + 1}, DType::float64))), LinAlgError);
  EXPECT_THROW(linalg::solve(testing::cut(a), ones(Dims{n + 1})), local::InvalidArgument);
  // NaN goes through what does not check.
  EXPECT_TRUE(local::any(local::isnan(linalg::cholesky(testing::cut(nan)).to_host())).item<bool>());
  // cuSOLVER's LU may lose it.
  if (GetParam() == local::DeviceKind::cuda) return;
  EXPECT_TRUE(local::any(local::isnan(linalg::solve(testing::cut(nan), ones(Dims{n})).to_host())).item<bool>());
}

TEST_P(TileErrors, OtherDtypesAreComputedInTheirs) {
  const local::NdArray a = local::rint(testing::positive_definite(30, DType::float64) * 4.);
  for (const DType dtype : {DType::int64, DType::float16, DType::bool_}) {
    const Array given = testing::cut(dtype == DType::bool_ ? local::eye(30).astype(dtype) : a.astype(dtype));
    const DType expected = dtype == DType::float16 ? DType::float16 : DType::float64;
    const local::NdArray factor = linalg::cholesky(given).to_host();
    EXPECT_EQ(local::name(factor.dtype()), local::name(expected));
    EXPECT_EQ(linalg::inv(given).dtype(), expected);
    EXPECT_EQ(linalg::det(given).dtype(), expected);
    EXPECT_EQ(linalg::qr(given).R.dtype(), expected);
    EXPECT_EQ(linalg::solve(given, ones(Dims{30})).dtype(), dtype == DType::float16 ? DType::float64 : expected);
  }
}

// Hard matrices have residuals as small as others.
TEST_P(TileErrors, HilbertGradedAndDependentMatrices) {
  constexpr int64_t n = 40;
  const local::NdArray i = local::arange(n), hilbert = 1. / (local::expand_dims(i, 1) + i + 1.);
  const local::NdArray graded = testing::random_matrix({n, n}, DType::float64) * local::power(10., -i / 4.);
  local::NdArray dependent = testing::random_matrix({n, n}, DType::float64);
  dependent(local::full_slice, 30) = dependent(local::full_slice, 3);
  dependent(local::full_slice, 31) = 0.;
  for (const local::NdArray& a : {local::NdArray(hilbert), local::NdArray(graded), dependent}) {
    const auto [q, r] = linalg::qr(testing::cut(a));
    const local::NdArray qs = q.to_host(), rs = r.to_host();
    testing::expect_small(local::matmul(qs, rs) - a, a, "A - Q R");
    testing::expect_small(local::matmul(testing::adjoint(qs), qs) - local::eye(n), local::eye(n), "I - Q^H Q");
    const auto [p, l, u] = linalg::lu(testing::cut(a));
    testing::expect_small(local::matmul(p.to_host(), local::matmul(l.to_host(), u.to_host())) - a, a, "A - P L U");
  }
  // Without any reflection, and with one alone.
  for (const DType dtype : {DType::float32, DType::complex64, DType::float64, DType::complex128}) {
    for (const local::NdArray& a : {local::zeros(Dims{n, 9}, dtype), local::ones(Dims{n, 9}, dtype)}) {
      const auto [q, r] = linalg::qr(testing::cut(a), linalg::complete);
      const local::NdArray qs = q.to_host();
      testing::expect_small(local::matmul(qs, r.to_host()) - a, local::ones(a.shape(), dtype), "A - Q R");
      const local::NdArray one = local::eye(n).astype(dtype);
      testing::expect_small(local::matmul(testing::adjoint(qs), qs) - one, one, "I - Q^H Q");
    }
  }
  const auto [q, r] = linalg::qr(testing::cut(local::concatenate(
      {dependent, dependent, hilbert, graded, graded, graded})(local::full_slice, local::Slice{0, 33, 4})));
  const local::NdArray qs = q.to_host();
  testing::expect_small(local::matmul(testing::adjoint(qs), qs) - local::eye(qs.shape(1)), local::eye(qs.shape(1)),
                        "I - Q^H Q");
}

TEST_P(TileErrors, LeastSquaresOfTallMatrices) {
  const local::NdArray a = testing::random_matrix({90, 6}, DType::float64),
                       b = testing::random_matrix({90, 2}, DType::float64, 5);
  local::NdArray dependent = a.copy();
  dependent(local::full_slice, 4) = dependent(local::full_slice, 1) * 2.;
  for (const local::NdArray& given : {a, dependent}) {
    const auto [x, squares, rank, s] = linalg::lstsq(testing::cut(given), testing::cut(b));
    const auto [x0, squares0, rank0, s0] = local::linalg::lstsq(given, b);
    EXPECT_TRUE(testing::close(x.to_host(), x0, 1e-9, 1e-9));
    EXPECT_TRUE(testing::close(squares.to_host(), squares0, 1e-9, 1e-9));
    EXPECT_EQ(rank.as_int64(), rank0.as_int64());
    EXPECT_TRUE(testing::close(s.to_host(), s0, 1e-9, 1e-9));
  }
}

TEST_P(TileErrors, DasksNamesForQr) {
  const local::NdArray a = testing::random_matrix({90, 6}, DType::float64);
  const auto expect = [](const linalg::QRResult& found, const local::NdArray& wanted) {
    const local::NdArray q = found.Q.to_host(), r = found.R.to_host();
    testing::expect_small(local::matmul(q, r) - wanted, wanted, "A - Q R");
    EXPECT_TRUE(local::all(local::tril(r, -1) == 0).item<bool>());
    const int64_t k = std::min(wanted.shape(0), wanted.shape(1));
    EXPECT_EQ(q.shape(), (local::Dims{wanted.shape(0), k}));
  };
  expect(linalg::tsqr(testing::cut(a)), a);
  expect(linalg::sfqr(testing::cut(a.T())), a.T());
  expect(linalg::sfqr(testing::cut(a(local::Slice{0, 6, {}}))), a(local::Slice{0, 6, {}}));
  EXPECT_THAT(message_of<local::InvalidArgument>([] { linalg::tsqr(ones({4})); }), HasSubstr("shape (4,)"));
  EXPECT_THAT(message_of<local::InvalidArgument>([] { linalg::sfqr(ones({2, 2, 2})); }), HasSubstr("(2, 2, 2)"));
  EXPECT_THAT(message_of<local::InvalidArgument>([] { linalg::sfqr(ones({4, 3})); }), HasSubstr("tsqr()"));
}

// Chunks of a tall matrix are put together in tasks, not before: also those of fewer rows than columns.
TEST_P(TileErrors, TallMatricesAreReadByTheirOwnChunks) {
  const auto expect = [](const linalg::QRResult& found, const local::NdArray& a) {
    const local::NdArray q = found.Q.to_host();
    EXPECT_LT(local::max(local::absolute(local::matmul(q.T(), q) - local::eye(2))).item().as_double(), 1e-14);
    testing::expect_small(local::matmul(q, found.R.to_host()) - a, a, "A - Q R");
  };
  for (const auto& [m, rows] : {std::pair<int64_t, int64_t>{60, 1}, {700, 5}, {700, 50}}) {
    const local::NdArray a = testing::random_matrix({m, 2}, DType::float64);
    const linalg::QRResult found = linalg::qr(Array::from_local(a).rechunk({rows, 2}).persist());
    EXPECT_THAT(explain(found.R), Not(HasSubstr("rechunk"))) << rows;
    expect(found, a);
    expect(linalg::qr(Array::from_local(a).rechunk({rows, 1})), a);
  }
}

// NIST's statistical reference data sets Longley and Wampler1 to 5: coefficients that are certified.
TEST_P(TileErrors, LeastSquaresOfNistsData) {
  const auto digits = [](const Array& a, const Array& y, const local::NdArray& certified) {
    const local::NdArray x = std::get<0>(linalg::lstsq(a, y)).to_host();
    const local::NdArray error = local::max(local::absolute(x - certified) / local::absolute(certified));
    return -std::log10(std::max(error.item().as_double(), 1e-16));
  };
  const local::NdArray longley = local::from_vector<double>(
      {60323, 83,    234289, 2356, 1590, 107608, 1947, 61122, 88.5,  259426, 2325, 1456, 108632, 1948,
       60171, 88.2,  258054, 3682, 1616, 109773, 1949, 61187, 89.5,  284599, 3351, 1650, 110929, 1950,
       63221, 96.2,  328975, 2099, 3099, 112075, 1951, 63639, 98.1,  346999, 1932, 3594, 113270, 1952,
       64989, 99,    365385, 1870, 3547, 115094, 1953, 63761, 100,   363112, 3578, 3350, 116219, 1954,
       66019, 101.2, 397469, 2904, 3048, 117388, 1955, 67857, 104.6, 419180, 2822, 2857, 118734, 1956,
       68169, 108.4, 442769, 2936, 2798, 120445, 1957, 66513, 110.8, 444546, 4681, 2637, 121950, 1958,
       68655, 112.6, 482704, 3813, 2552, 123366, 1959, 69564, 114.2, 502601, 3931, 2514, 125368, 1960,
       69331, 115.7, 518173, 4806, 2572, 127852, 1961, 70551, 116.9, 554894, 4007, 2827, 130081, 1962},
      {16, 7});
  local::NdArray design = longley.copy();
  design(local::full_slice, 0) = 1.;
  const local::NdArray observed = longley(local::full_slice, 0).copy();
  const auto certified =
      local::from_vector<double>({-3482258.63459582, 15.0618722713733, -0.0358191792925910, -2.02022980381683,
                                  -1.03322686717359, -0.0511041056535807, 1829.15146461355});
  EXPECT_GE(digits(testing::cut(design), testing::cut(observed), certified), 8);
  // Polynomials of degree 5 at 0 to 20, to which 3 to 5 add noise of 1, 100 and 10000 times a vector that is orthogonal
  // to them.
  const local::NdArray i = local::arange(21.), powers = local::power(local::expand_dims(i, 1), local::arange(6.));
  const local::NdArray ones = local::ones({6}), falling = local::power(0.1, local::arange(6.));
  const local::NdArray noise =
      local::from_vector<double>({759,   -2048, 2048,  -2048, 2523,  -2048, 2048,  -2048, 1838,  -2048, 2048,
                                  -2048, 1838,  -2048, 2048,  -2048, 2523,  -2048, 2048,  -2048, 759});
  const auto solved = [&](const local::NdArray& wanted, double times) {
    return digits(testing::cut(powers), testing::cut(local::matmul(powers, wanted) + noise * times), wanted);
  };
  EXPECT_GE(solved(ones, 0), 8);
  EXPECT_GE(solved(falling, 0), 10);
  EXPECT_GE(solved(ones, 1), 8);
  EXPECT_GE(solved(ones, 100), 7);
  EXPECT_GE(solved(ones, 10000), 5);
}

}  // namespace
}  // namespace quarry
