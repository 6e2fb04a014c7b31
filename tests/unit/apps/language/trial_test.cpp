// What functions take on arrays of some size, tried and on the CPU. The oracle's cases, which are small, are tried too
// (oracle_test.cpp).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "quarry/apps/binding/local_values.h"
#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/local_eval.h"
#include "quarry/local/local.h"
#include "quarry/local/memory/allocation_count.h"

namespace quarry::apps::expression {
namespace {

using namespace local;
using LocalValue = expression::Value;
using Variables = std::map<std::string, NdArray>;

// Tried for all threads, and with scratch for short loops that small arrays do without.
constexpr int64_t kSmall = int64_t{64} << 10;
constexpr double kMore = 1.1;

// x, y: numbers; a: positive definite; st: a stack of such; i: positions; k: integers; c: complex; f: float32; m:
// bools; s: sorted; t: three axes.
Variables variables() {
  auto generator = local::random::default_rng(7);
  Variables all;
  all["x"] = generator.normal(0., 1., Ints{300, 400});
  all["y"] = generator.normal(0., 1., Ints{400});
  const NdArray square = generator.random(Ints{150, 150});
  all["a"] = matmul(square, square.T()) + eye(150);
  all["b"] = generator.random(Ints{150, 20});
  const NdArray squares = generator.random(Ints{30, 20, 20});
  all["st"] = matmul(squares, squares.transpose(0, 2, 1)) + eye(20);
  all["i"] = generator.integers(0, Arg(int64_t{300}), Ints{300});
  all["k"] = generator.integers(0, Arg(int64_t{100}), Ints{300, 400}).astype(DType::int32);
  all["c"] = (all["x"] + Scalar(std::complex<double>(0, 1))).copy();
  all["f"] = generator.random(Ints{500, 300}).astype(DType::float32);
  all["m"] = all["x"] > 0.;
  all["s"] = sort(all["y"]);
  all["t"] = generator.random(Ints{40, 30, 50});
  return all;
}

struct Outcome {
  std::vector<std::pair<Dims, DType>> arrays;
  int64_t peak = 0;
};

void collect(const LocalValue& value, Outcome& outcome) {
  if (const SequenceValue* sequence = value.sequence()) {
    for (const LocalValue& item : sequence->items) collect(item, outcome);
  } else if (is_local_operand(value)) {
    const NdArray array = to_ndarray(value);
    outcome.arrays.emplace_back(array.shape(), array.dtype());
  }
}

Outcome outcome_on(Device device, const std::string& text, const Variables& given) {
  ExecContext context = default_context(device);
  Environment environment;
  environment.library = &local_library();
  for (const auto& [name, array] : given) {
    environment.variables.emplace(name, device == kCpu ? array : NdArray(array.shape(), array.dtype(), context));
  }
  const AllocationCount counted(device, /*also_cpu=*/true);
  const DeviceScope scope(context);
  Outcome outcome;
  const Source source{text, "", 0};
  collect(evaluate(source, *parse(source), environment), outcome);
  outcome.peak = counted.peak_bytes();
  return outcome;
}

constexpr const char* kExpressions[] = {
    // Shapes.
    "concatenate([x, x], axis=1)",
    "stack([x, x])",
    "block([[x, x], [x, x]])",
    "tile(x, (2, 3))",
    "repeat(x, 3, axis=0)",
    "roll(x, 7, axis=1)",
    "pad(x, ((1, 2), (3, 4)))",
    "pad(x, 5, mode='reflect')",
    "pad(x, 5, mode='mean')",
    "flip(x)",
    "rot90(x)",
    "tril(x)",
    "triu(x, 3)",
    "diag(y)",
    "diagonal(x)",
    "delete(x, 3, axis=1)",
    "insert(x, 3, 1.0, axis=1)",
    "append(x, x, axis=0)",
    "transpose(t, (2, 0, 1)).copy()",
    "ravel(x.T)",
    "reshape(x.T, (100, 1200))",
    "resize(x, (7, 9))",
    "sliding_window_view(y, 10).sum(axis=1)",
    "broadcast_to(y, (5, 400)).copy()",
    "split(x, 4)",
    "x[::-1, ::2].copy()",
    "kron(b, b[:5, :5])",
    "unstack(t)",
    "squeeze(t)",
    "vander(y, 5)",
    "meshgrid(y, y)",
    // Masks and positions that choose no shape.
    "where(m, x, 0.0)",
    "take(x, i, axis=0)",
    "take_along_axis(x, argsort(x, axis=1), axis=1)",
    "x[i]",
    "x[i, i]",
    "choose(k % 2, [x, x + 1])",
    "select([m], [x], 3.0)",
    "copysign(x, y)",
    "putmask(x.copy(), m, 0.0)",

    // Elementwise.
    "x * 2 + y",
    "exp(x) / (1 + exp(x))",
    "x.astype(float32)",
    "c * c",
    "abs(c)",
    "round(x, 2)",
    "clip(x, -1, 1)",
    "k // 3",
    "divmod(k, 7)",
    "modf(x)",
    "frexp(x)",
    "isclose(x, x)",
    "nan_to_num(x)",
    "x ** k",
    "f @ f.T",
    "angle(c)",
    "sinc(x)",
    "i0(x)",
    "special.erf(x)",
    "special.gammaln(abs(x) + 1)",
    "logaddexp(x, y)",
    "hypot(x, y)",
    "x == y",
    "invert(m)",
    "heaviside(x, 0.5)",
    // Reductions.
    "sum(x)",
    "sum(x, axis=0)",
    "mean(x, axis=1)",
    "std(x, axis=0)",
    "var(x.T, axis=0)",
    "prod(t, axis=(0, 2))",
    "min(k)",
    "max(k, axis=1)",
    "argmax(x, axis=0)",
    "argmin(x)",
    "any(m, axis=0)",
    "all(m)",
    "count_nonzero(k, axis=1)",
    "ptp(x, axis=1)",
    "nansum(x, axis=0)",
    "nanmean(x, axis=1)",
    "nanstd(x)",
    "nanmax(x, axis=0)",
    "nanargmin(x, axis=1)",
    "average(x, axis=1, weights=y)",
    "median(x, axis=1)",
    "median(x)",
    "percentile(x, 30, axis=0)",
    "quantile(x, [0.1, 0.9])",
    "cov(b)",
    "corrcoef(b.T)",
    "linalg.norm(x)",
    "linalg.norm(x, axis=1)",
    "special.logsumexp(x, axis=1)",
    "trace(x)",
    "sum(x, where=m)",
    // Scans.
    "cumsum(x)",
    "cumsum(x, axis=0)",
    "cumprod(x.T, axis=1)",
    "nancumsum(x, axis=1)",
    "diff(x, axis=0)",
    "gradient(x)",
    "trapezoid(x, axis=1)",
    "ediff1d(y)",
    "maximum.accumulate(x, axis=1)",
    "add.reduce(x, axis=1)",
    "add.outer(y, y)",
    "add.reduceat(x, [0, 10, 50], axis=1)",
    "unwrap(x)",
    // Order.
    "sort(x)",
    "sort(x, axis=0)",
    "sort(x, axis=None)",
    "argsort(x)",
    "argsort(k, axis=0)",
    "sort(c)",
    "argsort(c, axis=0)",
    "partition(x, 10)",
    "argpartition(x, 10, axis=0)",
    "searchsorted(s, x)",
    "lexsort([y, y])",
    "isin(k, [1, 2, 3])",
    "isin(k, i)",
    "digitize(x, s)",
    "sort(f, axis=0)",
    "sort(m)",
    "sort(k, axis=0)",
    // Statistics of bins.
    "histogram(x, bins=20, range=(-1, 1))",
    "histogram2d(y, y, bins=5, range=[[0, 1], [0, 1]])",
    "interp(x, s, s)",
    "histogram(x, bins=[0.0, 0.5, 1.0])",
    // Products.
    "x @ x.T",
    "x.T @ x",
    "matmul(st, st)",
    "dot(x, y)",
    "inner(x, x)",
    "outer(y, y)",
    "tensordot(t, t, axes=([1, 2], [1, 2]))",
    "einsum('ij,kj->ik', x, x)",
    "einsum('ijk,k->ij', t, y[:50])",
    "einsum('ij->j', x)",
    "vdot(y, y)",
    "k @ k.T",
    "f @ f.T",
    "c @ c.T",
    "linalg.multi_dot([x, x.T, x])",
    "linalg.matrix_power(a, 5)",
    "convolve(y, y)",
    "correlate(y, s)",
    "cross(t[..., :3], t[..., 1:4])",
    "kron(a[:10], b[:10])",
    "polyval(y[:5], x)",

    // Linear algebra.
    "linalg.cholesky(a)",
    "linalg.cholesky(st)",
    "linalg.cholesky(a, upper=True)",
    "linalg.inv(a)",
    "linalg.inv(st)",
    "linalg.solve(a, b)",
    "linalg.solve(st, st)",
    "linalg.det(a)",
    "linalg.slogdet(st)",
    "linalg.qr(x)",
    "linalg.qr(x.T)",
    "linalg.qr(st)",
    "linalg.qr(x.T, mode='complete')",
    "linalg.qr(f, mode='r')",
    "linalg.svd(x)",
    "linalg.svd(x, full_matrices=False)",
    "linalg.svdvals(x.T)",
    "linalg.svd(st)",
    "linalg.eigh(a)",
    "linalg.eigvalsh(st)",
    "linalg.eigvalsh(a)",
    "linalg.pinv(b)",
    "linalg.cond(a)",
    "linalg.matrix_rank(a)",
    "linalg.svd(c, full_matrices=False)",
    "linalg.eigh(matmul(c, conj(c.T)))",
    "linalg.lu(a)",
    "linalg.lu_factor(a)",
    "linalg.lu_solve(linalg.lu_factor(a), b)",
    "linalg.solve_triangular(a, b)",
    "linalg.cho_solve(linalg.cho_factor(a), b)",
    "linalg.schur(a)",
    "linalg.ldl(a)",
    "linalg.solve_toeplitz(s[:150] + 9, b)",
    "linalg.solve_banded((1, 1), x[:3, :150] + 5, b)",
    "linalg.solveh_banded(concatenate([x[:1, :150] + 9, x[:1, :150]]), b, lower=True)",
    "linalg.tensorinv(reshape(a, (10, 15, 150)), ind=2)",
    // Fourier transforms.
    "fft.fft(x)",
    "fft.fft(x, axis=0)",
    "fft.ifft(c)",
    "fft.rfft(x)",
    "fft.irfft(c)",
    "fft.fft2(x)",
    "fft.fftn(t)",
    "fft.rfftn(t)",
    "fft.irfft2(c)",
    "fft.fft(y, 397)",
    "fft.fftshift(x)",
    "fft.fft(f, axis=0)",
    "fft.hfft(c)",
    // Creation and random numbers.
    "zeros((100, 200))",
    "arange(1000)",
    "linspace(0, 1, 1000)",
    "eye(200)",
    "full((30, 40), 3)",
    "geomspace(1, 100, 1000)",
    "indices((30, 40))",
    "tri(100)",
    "hanning(1000)",
    "random.default_rng(1).random((200, 300))",
    "random.default_rng(1).normal(size=(200, 300))",
    "random.default_rng(1).gamma(2.0, size=100000)",
    "random.default_rng(1).integers(0, 10, 100000)",
    "random.default_rng(1).permutation(x)",
    "random.default_rng(1).choice(1000, 100)",
    "random.default_rng(1).poisson(abs(x))",
    "random.default_rng(1).multivariate_normal(zeros(150), a, size=100)",
    "random.default_rng(1).dirichlet([1.0, 2.0, 3.0], 1000)",
};

TEST(Trials, OfLargeArraysAreAsTheCpu) {
  const Variables given = variables();
  int failures = 0;
  for (const char* text : kExpressions) {
    Outcome taken, tried;
    try {
      taken = outcome_on(kCpu, text, given);
    } catch (const std::exception& error) {
      ADD_FAILURE() << text << " on the CPU: " << error.what();
      continue;
    }
    try {
      tried = outcome_on(trial_of(DeviceKind::cpu), text, given);
    } catch (const std::exception& error) {
      ADD_FAILURE() << text << ": " << error.what();
      continue;
    }
    EXPECT_EQ(tried.arrays, taken.arrays) << text;
    if (tried.peak < taken.peak || static_cast<double>(tried.peak) > kMore * static_cast<double>(taken.peak) + kSmall)
      ADD_FAILURE() << fmt::format("{}: {} bytes, the CPU takes {}", text, tried.peak, taken.peak);
    failures += tried.peak < taken.peak;
  }
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace quarry::apps::expression
