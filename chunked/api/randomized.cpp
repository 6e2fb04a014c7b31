// The largest singular values from random combinations of columns (Halko, Martinsson and Tropp, SIAM Review 53(2),
// 2011): with l = k and some more columns of Omega, normally distributed,
//   Y = A Omega, (A A^H)^q Y,   Y = Q R,   A near Q (Q^H A),   Q^H A = W S Z^H,   U = Q W.
// 2 m n l operations in each of 2 + 2 q passes over the m x n matrix A, 2 m l^2 in each QR decomposition of m rows. In
// each pass a rank receives the parts of the l columns that its chunks of A meet, and sums of l columns: at most
// (m + n) l elements. Tasks hold a chunk of A and l columns of its rows and of its columns. Of the error's bound: 10
// sqrt(2 / pi) times the largest norm of what is left of random columns (section 4.3 there).
#include "quarry/chunked/api/randomized.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::linalg {

using namespace compose;

namespace {

// (rows, columns), normally distributed, in the operator's chunks of rows.
Array normal_columns(random::Generator& generator, int64_t rows, int64_t columns, DType dtype,
                     const std::optional<AxisChunks>& chunks) {
  const Array made = generator.standard_normal(local::Ints{rows, columns}, local::real_type(dtype)).astype(dtype);
  return chunks ? made.rechunk(Grid({*chunks, AxisChunks(columns, columns)})) : made;
}

Array kept(const Array& x, bool compute) { return compute ? x.persist() : x; }

}  // namespace

SvdCompressedResult svd_compressed(const sparse::linalg::LinearOperator& given, int64_t k,
                                   const SvdCompressedOptions& options) {
  const int64_t m = given.shape()[0], n = given.shape()[1];
  if (k < 1 || k > std::min(m, n))
    throw InvalidArgument(fmt::format("k: {} is not between 1 and {}", k, std::min(m, n)));
  if (options.iterator != "power" && options.iterator != "QR")
    throw InvalidArgument(fmt::format("iterator: '{}' is none of 'power', 'QR'", options.iterator));
  if (options.n_power_iter < 0 || options.n_oversamples < 0 || options.n_error_samples < 0)
    throw InvalidArgument(
        fmt::format("n_power_iter, n_oversamples and n_error_samples must not be negative: {}, {}, {}",
                    options.n_power_iter, options.n_oversamples, options.n_error_samples));
  const bool half = local::is_half(given.dtype());
  const DType dtype = half ? DType::float32 : is_inexact(given.dtype()) ? given.dtype() : DType::float64;
  const int64_t width = std::min(std::min(m, n), k + options.n_oversamples);
  random::Generator generator(static_cast<uint64_t>(options.seed.value_or(0)));
  const auto image = [&](const Array& x) { return given.matmat(x).astype(dtype); };
  const auto adjoint_image = [&](const Array& x) { return given.rmatmat(x).astype(dtype); };
  const auto basis = [&](const Array& x) { return kept(qr(x).Q, options.compute); };
  // The range, from which k columns and some more are drawn.
  Array y = kept(image(normal_columns(generator, n, width, dtype, given.column_chunks())), options.compute);
  if (options.iterator == "QR") y = basis(y);
  for (int64_t i = 0; i < options.n_power_iter; ++i) {
    if (options.iterator == "QR")
      y = basis(image(basis(adjoint_image(y))));
    else
      y = kept(image(kept(adjoint_image(y), options.compute)), options.compute);
  }
  const Array q = options.iterator == "QR" ? y : basis(y);
  // a is near q q^H a = q (w s z^H)^H, w s z^H = a^H q.
  const SVDResult small = svd(kept(adjoint_image(q), options.compute), /*full_matrices=*/false);
  SvdCompressedResult result;
  result.s = arrange::part(small.S, 0, 0, k);
  result.u = matmul(q, arrange::part(adjoint(small.Vh), 1, 0, k));
  result.v = arrange::part(adjoint(small.U), 0, 0, k);
  if (options.coerce_signs) {
    const Array sums = sum(result.v, Axes(1));
    const Array level = local::is_complex(dtype) ? real(sums) : sums;
    const Array signs = where(level < 0, constant({}, -1, dtype), constant({}, 1, dtype));
    result.u = result.u * expand_dims(signs, 0);
    result.v = result.v * expand_dims(signs, 1);
  }
  if (options.compute) {
    const std::vector<Array> all = persist(std::vector<Array>{result.u, result.s, result.v});
    result.u = all[0], result.s = all[1], result.v = all[2];
  }
  if (options.n_error_samples > 0) {
    const Array drawn = image(normal_columns(generator, n, options.n_error_samples, dtype, given.column_chunks()));
    const Array rest = drawn - matmul(result.u, matmul(adjoint(result.u), drawn));
    const double factor = 10 * std::sqrt(2 / std::numbers::pi);
    result.error = sqrt(max(sum(square(absolute(rest)), Axes(0)))) * factor;
  }
  return result;
}

}  // namespace quarry::linalg
