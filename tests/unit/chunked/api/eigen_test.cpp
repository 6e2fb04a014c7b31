// Eigenvalues and singular values of chunked matrices: beside those of one process and LAPACK, and given bad input.
#include "quarry/chunked/api/eigen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "quarry/chunked/api/quarry.h"
#include "tests/support/krylov_rows.h"
#include "tests/support/on_devices.h"
#include "tests/support/runtime_on.h"

namespace quarry::sparse::linalg {
namespace {

using testing::adjoint;
using testing::cut;
using ::testing::HasSubstr;
using testing::random_matrix;
namespace local_solvers = testing::local_solvers;

class Spectra : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  // All on the CPU, and some where there is a queue between.
  static std::vector<DType> dtypes() {
    if (GetParam() == local::DeviceKind::cpu)
      return {std::begin(testing::kKrylovTypes), std::end(testing::kKrylovTypes)};
    return {DType::float64, DType::complex64};
  }
  const Runtime runtime_{testing::runtime_on(GetParam())};
};
QUARRY_ON_DEVICE_KINDS(Spectra);

template <class Error, class F>
std::string message_of(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing of that kind was thrown";
}
double norm_of(const NdArray& x) { return std::sqrt(local::sum(local::square(local::absolute(x))).item<double>()); }
// Of numbers, whatever their dtypes.
bool near(const NdArray& a, const NdArray& b, double relative = 1e-9, double absolute = 1e-9) {
  return testing::close(a.astype(DType::float64), b.astype(DType::float64), relative, absolute);
}
double eps(DType dtype) { return local::itemsize(local::real_type(dtype)) == 8 ? 2.2e-16 : 1.2e-7; }
double distance_from_identity(const NdArray& q) {
  return norm_of(local::matmul(adjoint(q), q) - local::eye(q.shape()[1]));
}

// With eigenvalues that are given, in random directions.
NdArray with_spectrum(const NdArray& values, DType dtype) {
  const int64_t n = values.size();
  const NdArray q = local::linalg::qr(random_matrix({n, n}, dtype, 31)).Q;
  return local::matmul(q * values.astype(dtype), adjoint(q));
}

TEST_P(Spectra, EigenvaluesAreThoseOfLapack) {
  for (const DType dtype : dtypes()) {
    const NdArray values = local::concatenate(
        {local::linspace(-1., 1., 66), local::from_vector<double>({2., 2.5, -4., 4.5})});  // some apart
    const NdArray a = with_spectrum(values, dtype);
    const Array matrix = Array::from_local(a).rechunk({27, 27});
    const NdArray all = local::linalg::eigh(a).eigenvalues.astype(DType::float64);
    for (const char* which : {"LM", "LA", "SA", "BE"}) {
      SCOPED_TRACE(fmt::format("{} {}", local::name(dtype), which));
      EigenOptions options;
      options.which = which;
      local_solvers::EigenOptions same;
      same.which = which;
      const EigenResult found = eigsh(matrix, 4, options);
      const local_solvers::EigenResult expected = local_solvers::eigsh(a, 4, same);
      const NdArray w = found.values.to_host(), v = found.vectors.to_host();
      const double bound = 500 * eps(dtype);
      EXPECT_EQ(v.shape(), (Dims{70, 4}));
      EXPECT_EQ(v.dtype(), dtype);
      EXPECT_EQ(w.dtype(), local::real_type(dtype));
      EXPECT_TRUE(near(w, expected.values, bound, bound)) << w.repr() << expected.values.repr();
      EXPECT_LE(norm_of(local::matmul(a, v) - v * w), bound * 5);
      EXPECT_LE(distance_from_identity(v), bound);
      if (std::string(which) == "LA") {
        EXPECT_TRUE(near(w, all[{Slice{66, std::nullopt, std::nullopt}}].copy(), bound, bound));
      }
    }
  }
}

// Of two matrices, near a number, both: for Hermitian matrices and for general ones.
TEST_P(Spectra, ProblemsOfTwoMatricesAndNearANumber) {
  const int64_t n = 60;
  for (const DType dtype : dtypes()) {
    SCOPED_TRACE(local::name(dtype));
    const double bound = 5000 * eps(dtype);
    const NdArray x = with_spectrum(local::linspace(0.5, 2., n), dtype);
    const NdArray a = with_spectrum(local::linspace(-3., 4., n), dtype), b = local::matmul(x, x);
    const NdArray product = local::matmul(a, x);  // neither symmetric nor Hermitian
    const Array ca = Array::from_local(a).rechunk({17, 25}), cb = Array::from_local(b).rechunk({31, 17}),
                cp = Array::from_local(product).rechunk({17, 25});
    const auto expect_solves = [&](const EigenResult& found, const NdArray& left, bool with_b) {
      const NdArray w = found.values.to_host(), v = found.vectors.to_host();
      EXPECT_LE(norm_of(local::matmul(left, v) - (with_b ? local::matmul(b, v) : v) * w), bound);
      return w;
    };
    // The wanted ones: of SciPy's definition, the nearest by distance for "LM".
    const auto nearest = [&](NdArray all, double sigma, int64_t k) {
      const NdArray order = local::argsort(local::absolute(all - sigma));
      return local::sort(local::take(all, order(Slice{0, k, 1}), 0));
    };
    const NdArray plain = local::linalg::eigvalsh(a).astype(DType::float64),
                  both = std::get<0>(local::linalg::eigh(a, b).tie()).astype(DType::float64);
    const auto values = [](const NdArray& w) { return w.astype(DType::float64); };
    EXPECT_TRUE(near(values(expect_solves(eigsh(ca, 4, {.which = "LA", .M = cb}), a, true)),
                     both(Slice{n - 4, n, 1}).copy(), bound, bound));
    EXPECT_TRUE(
        near(values(expect_solves(eigsh(ca, 4, {.sigma = 0.3}), a, false)), nearest(plain, 0.3, 4), bound, bound));
    const EigenResult near_both = eigsh(ca, 4, {.M = cb, .sigma = 0.3});
    EXPECT_TRUE(near(values(expect_solves(near_both, a, true)), nearest(both, 0.3, 4), bound, bound));
    const NdArray v = near_both.vectors.to_host();
    EXPECT_LE(norm_of(local::matmul(adjoint(v), local::matmul(b, v)) - local::eye(4)), bound);
    EXPECT_EQ(near_both.values.dtype(), local::real_type(dtype));
    expect_solves(eigs(cp, 3, {.M = cb}), product, true);
    expect_solves(eigs(cp, 3, {.sigma = 0.3}), product, false);
    expect_solves(eigs(cp, 3, {.M = cb, .sigma = 0.3}), product, true);
    EXPECT_EQ(eigsh(ca, 4, {.sigma = 0.3, .return_eigenvectors = false}).vectors.size(), 0);
  }
  const Array one = eye(n);
  EXPECT_THROW(eigsh(one, 2, {.M = eye(n + 1)}), local::InvalidArgument);
  EXPECT_THROW(eigsh(one, 2, {.M = -one}), local::LinAlgError);
  EXPECT_THROW(eigsh(one, 2, {.sigma = 1}), local::LinAlgError);  // singular
  EXPECT_THROW(eigsh(LinearOperator(one), 2, {.sigma = 0.5}), local::NotSupported);
  EXPECT_THROW(eigsh(ones({3, 4}), 2, {.sigma = 0.5}), local::InvalidArgument);
}

TEST_P(Spectra, OperatorsAndInvariantSpaces) {
  // The start lies in a space of two eigenvectors: the method goes on in other directions.
  const NdArray d = local::concatenate({local::linspace(1., 3., 38), local::from_vector<double>({7., 9.})});
  const Array diagonal = Array::from_local(d).rechunk({11});
  const LinearOperator op({40, 40}, [diagonal](const Array& x) { return diagonal * x; });
  EigenOptions options;
  options.v0 = (arange(40.) >= 38.).astype(DType::float64).rechunk({11});
  options.ncv = 8;
  options.which = "LA";
  EXPECT_TRUE(near(eigsh(op, 3, options).values.to_host(), local::from_vector<double>({3., 7., 9.})));
  options.return_eigenvectors = false;
  EXPECT_EQ(eigsh(op, 3, options).vectors.shape(), (Dims{40, 0}));
  options.maxiter = 1;
  options.v0 = ones({40});
  options.which = "SA";
  EXPECT_THAT(message_of<local::LinAlgError>([&] { eigsh(op, 5, options); }), HasSubstr("no convergence"));
  using local::InvalidArgument;
  EXPECT_THAT(message_of<InvalidArgument>([&] { eigsh(op, 40); }), HasSubstr("k: 40 is not between 1 and 39"));
  EXPECT_THAT(message_of<InvalidArgument>([] { eigsh(ones({4, 5}), 2); }), HasSubstr("square"));
  options.v0 = ones({39});
  EXPECT_THAT(message_of<InvalidArgument>([&] { eigsh(op, 2, options); }), HasSubstr("v0: shape (39,)"));
  options.v0 = zeros({40});
  EXPECT_THAT(message_of<InvalidArgument>([&] { eigsh(op, 2, options); }), HasSubstr("no direction"));
  options = {};
  options.which = "XX";
  EXPECT_THAT(message_of<InvalidArgument>([&] { eigsh(op, 2, options); }), HasSubstr("which"));
  const LinearOperator bad({40, 40}, [](const Array& x) { return x * std::nan(""); });
  EXPECT_THAT(message_of<InvalidArgument>([&] { eigsh(bad, 2); }), HasSubstr("NaN"));
}

TEST_P(Spectra, SingularValuesAreThoseOfLapack) {
  for (const DType dtype : dtypes()) {
    for (const Dims& shape : {Dims{61, 23}, Dims{23, 61}}) {
      SCOPED_TRACE(fmt::format("{} {}", local::name(dtype), local::to_string(shape)));
      const NdArray a = random_matrix(shape, dtype, 37);
      const Array matrix = testing::cut(a);
      const NdArray all = local::linalg::svdvals(a).astype(DType::float64);
      for (const int64_t k : {int64_t{5}, int64_t{23}}) {
        const SvdsResult found = svds(matrix, k);
        const NdArray u = found.u.to_host(), s = found.values.to_host(), vh = found.vh.to_host();
        const double bound = 2e3 * eps(dtype);
        EXPECT_EQ(u.shape(), (Dims{shape[0], k}));
        EXPECT_EQ(vh.shape(), (Dims{k, shape[1]}));
        EXPECT_TRUE(near(s, all[{Slice{k - 1, std::nullopt, -1}}].copy(), bound, bound)) << s.repr();
        EXPECT_LE(norm_of(local::matmul(a, adjoint(vh)) - u * s), bound * 50);
        EXPECT_LE(distance_from_identity(u), bound * 5);
        EXPECT_LE(distance_from_identity(adjoint(vh).copy()), bound * 5);
      }
    }
  }
  SvdsOptions options;
  options.return_singular_vectors = false;
  EXPECT_EQ(svds(ones({9, 8}), 2, options).u.shape(), (Dims{9, 0}));
  options.which = "LA";
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { svds(ones({9, 8}), 2, options); }), HasSubstr("which"));
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { svds(ones({9, 8}), 9); }), HasSubstr("between 1 and 8"));
}

TEST_P(Spectra, BlocksOfVectorsConverge) {
  for (const DType dtype : dtypes()) {
    SCOPED_TRACE(local::name(dtype));
    const NdArray values = local::concatenate({local::linspace(1., 2., 57), local::from_vector<double>({5., 6., 8.})});
    const NdArray a = with_spectrum(values, dtype), b = testing::positive_definite(60, dtype) / local::Scalar(60.);
    const Array matrix = Array::from_local(a).rechunk({17, 17});
    const Array start = Array::from_local(random_matrix({60, 3}, dtype, 41));
    const double bound = local::itemsize(local::real_type(dtype)) == 8 ? 1e-6 : 2e-2;
    LobpcgOptions options;
    options.tol = bound / 10;
    options.maxiter = 100;
    LobpcgResult found = lobpcg(matrix, start, options);
    EXPECT_TRUE(near(found.values.to_host(), local::from_vector<double>({8., 6., 5.}), bound, bound));
    NdArray x = found.vectors.to_host();
    EXPECT_LE(norm_of(local::matmul(a, x) - x * found.values.to_host()), bound);
    EXPECT_LE(distance_from_identity(x), bound);
    // The same steps as in one process.
    local_solvers::LobpcgOptions same;
    same.tol = options.tol;
    same.maxiter = options.maxiter = 4;
    const auto expected = local_solvers::lobpcg(a, start.to_host(), same);
    found = lobpcg(matrix, start, options);
    ASSERT_EQ(found.residual_norms.size(), expected.residual_norms.size());
    for (size_t i = 0; i < expected.residual_norms.size(); ++i)
      EXPECT_TRUE(near(found.residual_norms[i], expected.residual_norms[i], bound, bound));
    // The generalised problem, preconditioned, without the largest.
    options.maxiter = 200;
    options.largest = false;
    options.B = LinearOperator(Array::from_local(b.astype(dtype)).rechunk({17, 17}));
    options.M = jacobi(matrix);
    found = lobpcg(matrix, start, options);
    x = found.vectors.to_host();
    EXPECT_LE(norm_of(local::matmul(a, x) - local::matmul(b, x) * found.values.to_host()), 3 * bound);
    EXPECT_LE(norm_of(local::matmul(adjoint(x), local::matmul(b, x)) - local::eye(3)), bound);
    options.Y = found.vectors;
    const NdArray next = lobpcg(matrix, start, options).vectors.to_host();
    EXPECT_LE(norm_of(local::matmul(adjoint(x), local::matmul(b, next))), bound);
  }
  EXPECT_THAT(message_of<local::InvalidArgument>([] { lobpcg(eye(5), ones({4, 2})); }), HasSubstr("X: shape (4, 2)"));
  EXPECT_THAT(message_of<local::InvalidArgument>([] { lobpcg(eye(5), ones({5, 2})); }), HasSubstr("dependent"));
}

// ---- svd_compressed ----

// The wanted values in LAPACK's order of a general matrix, beside what was found: every one is near one of them.
void expect_among(const NdArray& found, const NdArray& all, double bound) {
  const auto values = local::to_vector<std::complex<double>>(found.astype(DType::complex128));
  const auto known = local::to_vector<std::complex<double>>(all.astype(DType::complex128));
  for (const std::complex<double> value : values) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const std::complex<double> one : known) nearest = std::min(nearest, std::abs(value - one));
    EXPECT_LE(nearest, bound) << value;
  }
}

TEST_P(Spectra, EigenvaluesOfGeneralMatricesAreThoseOfLapack) {
  for (const DType dtype : dtypes()) {
    SCOPED_TRACE(local::name(dtype));
    const NdArray a = random_matrix({60, 60}, dtype, 41);
    const NdArray all = local::linalg::eigvals(a);
    const double size = norm_of(a), bound = 1e5 * eps(dtype) * size;
    for (const char* which : {"LM", "LR", "SR", "LI"}) {
      SCOPED_TRACE(which);
      const EigenResult found = eigs(cut(a), 5, {.which = which, .ncv = 30});
      const NdArray values = found.values.to_host(), vectors = found.vectors.to_host();
      const int64_t count = values.size();
      EXPECT_TRUE(count == 5 || count == 6);
      EXPECT_TRUE(local::is_complex(values.dtype()));
      expect_among(values, all, bound);
      EXPECT_LE(norm_of(local::matmul(a, vectors) - vectors * values), bound);
      // None that is wanted more is missing.
      const std::string name(which);
      const auto worth = [&](const NdArray& x) {
        if (name[1] == 'M') return local::absolute(x);
        if (name[1] == 'R') return name[0] == 'L' ? NdArray(x.real()) : -x.real();
        return local::is_complex(dtype) ? NdArray(x.imag()) : local::absolute(x.imag());
      };
      const NdArray least = local::min(worth(values)), better = worth(all) > least + bound;
      EXPECT_LT(local::count_nonzero(better).item<int64_t>(), count);
      if (!local::is_complex(dtype)) {
        const NdArray imaginary = local::sum(values.imag());
        EXPECT_LE(std::abs(imaginary.item<double>()), bound);  // pairs are whole
      }
    }
    const local_solvers::EigenResult alone = local_solvers::eigs(a, 4, {.ncv = 30});
    expect_among(alone.values, all, bound);
    EXPECT_LE(norm_of(local::matmul(a, alone.vectors) - alone.vectors * alone.values), bound);
  }
}

TEST_P(Spectra, GeneralMatricesMayBeDefectiveOrCyclic) {
  // A turn of n places: all eigenvalues are of magnitude 1.
  const NdArray turn = local::roll(local::eye(24), 1, 0);
  const NdArray found = eigs(cut(turn), 4, {.ncv = 24}).values.to_host();
  expect_among(found, local::linalg::eigvals(turn), 1e-10);
  EXPECT_LE(std::abs(local::sum(found.imag()).item<double>()), 1e-10);
  // Blocks of Jordan's: the computed eigenvalues are off by the root of the rounding errors.
  NdArray defective = local::diag(local::arange(40.) * 0.1);
  for (int64_t i = 36; i < 39; ++i) {
    defective(i, i) = 9.;
    defective(i, i + 1) = 1.;
  }
  defective(39, 39) = 9.;
  const EigenResult block = eigs(cut(defective), 4, {.tol = 1e-10});
  expect_among(block.values.to_host(), local::from_vector<double>({9}), 1e-2);
  EXPECT_NEAR(local::sum(block.values.to_host().real()).item<double>(), 36, 1e-8);  // of the block together
  // Clustered values.
  const NdArray close = local::diag(local::concatenate({local::arange(50.) * 0.02, 5. + local::arange(5.) * 1e-6}));
  expect_among(eigs(cut(close), 5).values.to_host(), 5. + local::arange(5.) * 1e-6, 1e-10);
  using local::InvalidArgument;
  EXPECT_THAT(message_of<InvalidArgument>([&] { eigs(eye(5), 5); }), HasSubstr("k: 5"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { eigs(eye(5), 2, {.which = "LA"}); }), HasSubstr("'LA'"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { eigs(eye(9), 3, {.ncv = 4}); }), HasSubstr("ncv: 4"));
  EXPECT_THAT(message_of<InvalidArgument>([] { eigs(ones({4, 5}), 2); }), HasSubstr("square"));
  EXPECT_THAT(message_of<local::LinAlgError>([&] {
                eigs(cut(random_matrix({60, 60}, DType::float64, 41)), 5, {.maxiter = 1});
              }),
              HasSubstr("no convergence"));
}

TEST_P(Spectra, CompressedDecompositionsAreNearTheBest) {
  for (const DType dtype : dtypes()) {
    for (const Dims& shape : {Dims{300, 40}, Dims{40, 300}}) {
      SCOPED_TRACE(fmt::format("{} {}", local::name(dtype), local::to_string(shape)));
      // Singular values that fall by half.
      const int64_t n = 40, k = 6;
      const NdArray left = local::linalg::qr(random_matrix({shape[0], n}, dtype, 43)).Q;
      const NdArray right = local::linalg::qr(random_matrix({shape[1], n}, dtype, 47)).Q;
      const NdArray sizes = local::exp2(local::arange(40.) * -1.);
      const NdArray a = local::matmul(left * sizes.astype(dtype), adjoint(right));
      const Array matrix = Array::from_local(a).rechunk({64, 64});
      for (const char* iterator : {"power", "QR"}) {
        for (const bool compute : {false, true}) {
          quarry::linalg::SvdCompressedOptions options;
          options.iterator = iterator;
          options.n_power_iter = 2;
          options.seed = 5;
          options.compute = compute;
          options.n_error_samples = 6;
          const auto found = quarry::linalg::svd_compressed(matrix, k, options);
          const Array arrays[] = {found.u, found.s, found.v, found.error};
          const std::vector<NdArray> values = to_host(arrays);
          const NdArray& u = values[0];
          const NdArray& s = values[1];
          const NdArray& v = values[2];
          const double bound = 1e3 * eps(dtype);
          // The powers lose small singular values in float32.
          const bool loses = std::string(iterator) == "power" && bound > 1e-6;
          EXPECT_EQ(u.shape(), (Dims{shape[0], k}));
          EXPECT_EQ(v.shape(), (Dims{k, shape[1]}));
          EXPECT_EQ(u.dtype(), dtype);
          const Slice exact{0, loses ? 4 : k, std::nullopt};
          EXPECT_TRUE(near(s[{exact}].copy(), sizes[{exact}].copy(), 1e-5, bound)) << s.repr();
          EXPECT_LE(distance_from_identity(u), bound);
          EXPECT_LE(distance_from_identity(adjoint(v).copy()), bound);
          // ||a - u s v|| is near the first singular value that is left out, and not above the estimate.
          const double error = norm_of(a - local::matmul(u * s.astype(dtype), v));
          EXPECT_LE(error, (loses ? 3 : 1.3) * std::exp2(-6.) * std::sqrt(4. / 3));
          EXPECT_GE(values[3].item<double>(), std::exp2(-6.));
          EXPECT_LE(values[3].item<double>(), 100 * std::exp2(-6.));
          const NdArray sums = local::sum(local::is_complex(dtype) ? v.real() : v, Axes(1));
          EXPECT_TRUE(local::all(sums >= 0.).item<bool>());
        }
      }
    }
  }
  using local::InvalidArgument;
  const auto with = [](quarry::linalg::SvdCompressedOptions options) {
    return message_of<InvalidArgument>([&] { quarry::linalg::svd_compressed(ones({9, 8}), 2, options); });
  };
  EXPECT_THAT(with({.iterator = "none"}), HasSubstr("iterator: 'none'"));
  EXPECT_THAT(with({.n_power_iter = -1}), HasSubstr("n_power_iter"));
  EXPECT_THAT(message_of<InvalidArgument>([] {
                quarry::linalg::svd_compressed(ones({9, 8}), 9);
              }),
              HasSubstr("k: 9 is not between 1 and 8"));
}

// A tall matrix by tiles, that does not fit memory.
TEST(SpectraOutOfCore, MatricesAreSpilled) {
  RuntimeOptions given = testing::runtime_on(local::DeviceKind::cpu, "4MiB");
  const Runtime runtime(given);
  const int64_t m = 6000, n = 150;
  const Array i = arange(m).astype(DType::float64).rechunk({250}), j = arange(n).astype(DType::float64);
  const Array a =
      (sin(expand_dims(i, 1) * expand_dims(j, 0) * 0.001) * exp2(expand_dims(j, 0) * -0.1)).rechunk({250, n}).persist();
  const double largest = std::sqrt(eigsh(matmul(a.T(), a).persist(), 1).values.item<double>());
  const SvdsResult some = svds(a, 3);
  EXPECT_NEAR(some.values.to_host()[{2}].item<double>(), largest, 1e-9 * largest);
  quarry::linalg::SvdCompressedOptions options;
  options.n_power_iter = 2;
  options.iterator = "QR";
  const auto found = quarry::linalg::svd_compressed(a, 3, options);
  EXPECT_NEAR(found.s.to_host()[{0}].item<double>(), largest, 1e-3 * largest);
  EXPECT_GT(runtime.statistics().spilled_bytes, int64_t{1} << 20);
}

}  // namespace
}  // namespace quarry::sparse::linalg
