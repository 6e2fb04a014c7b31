// Functions of matrices by those of local arrays: matrices are whole, stacks of them stay cut along the other axes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/matrix_calls.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/sorting.h"
#include "quarry/chunked/api/spectral.h"
#include "quarry/chunked/api/tiled.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/ndarray/trial.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/support.h"

namespace quarry::linalg {
namespace {

using namespace compose;
namespace ops = local::ops;
using namespace calls;

// Matrices whole; where they were not, stacks are cut until a chunk has about the usual bytes.
Array with_whole_core(const Argument& argument) {
  const Array& array = argument.array;
  const Grid& grid = array.chunks();
  int64_t bytes = local::itemsize(array.dtype());
  bool is_whole = true;
  std::vector<AxisChunks> axes, core;
  for (int d = 0; d < array.ndim(); ++d) {
    if (d < argument.loops()) {
      axes.push_back(grid.axis(d));
      continue;
    }
    const int64_t extent = std::max<int64_t>(array.shape()[d], 1);
    is_whole = is_whole && grid.axis(d).count() == 1;
    bytes *= extent;
    core.emplace_back(array.shape()[d], extent);
  }
  if (is_whole) return array;
  const int64_t most =
      std::max(target_chunk_bytes(chunk_policy().device), largest_chunk_bytes(grid, local::itemsize(array.dtype())));
  axes = limited_grid(Grid(std::move(axes)), bytes, most).axes();
  axes.insert(axes.end(), core.begin(), core.end());
  const Grid cut(std::move(axes));
  return array.rechunk(cut);
}

// The signature that apply_gufunc() takes: every core axis by a name of its own, as the function has checked them.
std::string names_of(char kind, size_t number, int count) {
  std::string text = "(";
  for (int d = 0; d < count; ++d) text += fmt::format("{}{}{}_{}", d == 0 ? "" : ",", kind, number, d);
  return text + ")";
}

}  // namespace

namespace calls {

std::vector<local::ArraySpec> results_of(const Call& call) {
  std::vector<local::ArraySpec> ones, whole;
  for (const Argument& argument : call.arguments) {
    Dims shape = argument.array.shape();
    whole.push_back({shape, argument.array.dtype()});
    for (int d = 0; d < argument.loops(); ++d) shape[d] = std::min<int64_t>(shape[d], 1);
    ones.push_back({shape, argument.array.dtype()});
  }
  try {
    return local::trial(call.function, ones, local::DeviceKind::cpu).results;
  } catch (const local::Error&) {
    local::trial(call.function, whole, local::DeviceKind::cpu);  // its message has the shapes that were given
    throw;
  }
}

std::vector<Array> applied(Call call) {
  const std::vector<local::ArraySpec> made = results_of(call);
  const std::string name = "linalg." + call.name;
  BlockOptions options;
  options.name = name;
  options.identity = op::Hash().add(std::string_view(name)).add(call.parameters.value).value;
  options.by_trial = true;
  Dims stack;
  std::vector<Array> arrays;
  for (const Argument& argument : call.arguments) {
    const Dims& shape = argument.array.shape();
    stack = local::broadcast_shapes(stack, Dims(shape.begin(), shape.begin() + argument.loops()));
    arrays.push_back(argument.array);
  }
  if (stack.size() == 0) {
    const auto infer = [&made](std::span<const Array>) {
      std::vector<LocalResult> results;
      for (const local::ArraySpec& result : made) results.push_back({result.shape, result.dtype});
      return results;
    };
    return local_call(name, arrays, infer, std::move(call.function), options);
  }
  std::string inputs, outputs;
  GufuncOptions how;
  for (size_t i = 0; i < arrays.size(); ++i) {
    arrays[i] = with_whole_core(call.arguments[i]);
    inputs += (i == 0 ? "" : ",") + names_of('i', i, call.arguments[i].core);
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const int core = made[i].shape.size() - stack.size();
    outputs += (i == 0 ? "" : ",") + names_of('o', i, core);
    for (int d = 0; d < core; ++d) how.output_sizes[fmt::format("o{}_{}", i, d)] = made[i].shape[stack.size() + d];
    options.dtypes.push_back(made[i].dtype);
  }
  return apply_gufunc(block_function(std::move(call.function)), inputs + "->" + outputs, arrays, how, options);
}

bool is_large(const Array& a) { return tiled::is_large(a, computed_in(a.dtype())); }
bool is_large_with(const Array& a, int64_t elements) {
  const int64_t arrays = 1 + local::divided_up(elements, std::max<int64_t>(a.size(), 1));
  return tiled::is_large(a, computed_in(a.dtype()), static_cast<int>(std::min<int64_t>(arrays, 1 << 20)));
}

Array finite(const Array& given, bool wanted) {
  if (!wanted) return given;
  // A chunk, its copy and what the function takes for each: many of them in the budget.
  constexpr int64_t kParts = 16;
  const int64_t room = Runtime::current().plan_bytes() / kParts;
  const Array a = room == 0 ? given : with_chunks_within(given, room);
  BlockOptions options;
  options.name = "check_finite";
  options.identity = op::Hash().add(std::string_view(options.name)).value;
  options.dtypes = {a.dtype()};
  const auto checked = [](const NdArray& x) {
    local::linalg::check_values(x, /*wanted=*/true);
    return x;
  };
  return map_blocks(checked, a, {}, options);
}

Array both_triangles(const Array& a, local::Triangle triangle) {
  const Array side = triangle == local::Triangle::lower ? tril(a, -1) : triu(a, 1);
  return where(positions(a.shape(), 0) == positions(a.shape(), 1), real(a).astype(a.dtype()), side + adjoint(side));
}

}  // namespace calls

namespace {

// A function of one stack of matrices with one result.
Array of_each(const char* name, const Array& a, NdArray (*function)(const NdArray&)) {
  return applied({name, {{a}}, {}, [function](Arrays given) { return Results{function(given[0])}; }})[0];
}

// Whether no device decomposes the matrix by itself.
bool exceeds_eigh(const Array& a, const std::optional<Subset>& subset = std::nullopt) {
  return is_large(a) && !spectral::eigh_fits(a.shape(0), computed_in(a.dtype()), subset);
}
bool exceeds_svd(const Array& a, bool with_vectors = true, bool full = false) {
  constexpr int kArrays = 4;  // the matrix, U and V^H, one of which may be the larger square
  const DType dtype = computed_in(a.dtype());
  return tiled::is_large(a, dtype, kArrays) && !spectral::svd_fits(a.shape(), dtype, with_vectors, full);
}

// SciPy's trans=, which the local function has checked.
local::MatrixOp operation_of(const std::variant<int64_t, std::string>& trans) {
  constexpr std::string_view kLetters = "NTC";
  const auto* letter = std::get_if<std::string>(&trans);
  return static_cast<local::MatrixOp>(letter ? static_cast<int64_t>(kLetters.find(*letter)) : std::get<int64_t>(trans));
}

// Complex eigenvalues and vectors, of which those of a real array become real where all eigenvalues are.
std::vector<Array> settled_eigen(const Array& a, std::vector<Array> found) {
  if (local::is_complex(a.dtype())) return found;
  std::vector<Array> values{any(not_equal(imag(found[0]), 0))};
  Settled known = settle(values, found);
  if (known.values[0].item<bool>()) return known.kept;
  for (Array& array : known.kept) array = real(array).astype(inexact(a.dtype()));
  return known.kept;
}

}  // namespace

Array inv(const Array& a) {
  if (!is_large(a)) return of_each("inv", a, ops::inv);
  check_square(a);
  return tiled::inv(computed(a)).astype(inexact(a.dtype()));
}
Array det(const Array& a) {
  if (!is_large(a)) return of_each("det", a, ops::det);
  check_square(a);
  return tiled::det(computed(a)).astype(inexact(a.dtype()));
}

SlogdetResult slogdet(const Array& a) {
  if (is_large(a)) {
    check_square(a);
    const SlogdetResult parts = tiled::slogdet(computed(a));
    return {parts.sign.astype(inexact(a.dtype())), parts.logabsdet.astype(local::real_type(inexact(a.dtype())))};
  }
  const std::vector<Array> found = applied({"slogdet", {{a}}, {}, [](Arrays given) {
                                              const ops::SlogdetResult parts = ops::slogdet(given[0]);
                                              return Results{parts.sign, parts.logabsdet};
                                            }});
  return {found[0], found[1]};
}

Array cholesky(const Array& a, bool upper) {
  if (is_large(a)) {
    check_square(a);
    return tiled::cholesky(computed(a), upper).astype(inexact(a.dtype()));
  }
  return applied({"cholesky", {{a}}, op::Hash().add(upper), [upper](Arrays given) {
                    return Results{ops::cholesky(given[0], upper)};
                  }})[0];
}

Array solve(const Array& a, const Array& b) {
  Call call{"solve", {{a}, {b, b.ndim() == 1 ? kVector : kMatrix}}, {}, [](Arrays given) {
              return Results{ops::solve(given[0], given[1])};
            }};
  if (b.ndim() <= 2 && is_large(a)) {
    const DType result = results_of(call)[0].dtype;
    return tiled::solve(a.astype(computed_in(result)), b.astype(computed_in(result))).astype(result);
  }
  return applied(std::move(call))[0];
}

Array solve_triangular(const Array& a, const Array& b, const std::variant<int64_t, std::string>& trans, bool lower,
                       bool unit_diagonal, bool check_finite) {
  op::Hash parameters;
  parameters.add(lower).add(unit_diagonal).add(check_finite).add(static_cast<int>(trans.index()));
  std::visit([&](const auto& value) { parameters.add(value); }, trans);
  Call call{"solve_triangular", {{a}, {b, b.ndim() == 1 ? kVector : kMatrix}}, parameters, [=](Arrays given) {
              return Results{ops::solve_triangular(given[0], given[1], trans, lower, unit_diagonal,
                                                   /*overwrite_b=*/false, check_finite)};
            }};
  if (b.ndim() <= 2 && is_large(a)) {
    const DType result = results_of(call)[0].dtype;
    const Array left = a.astype(computed_in(result)), right = b.astype(computed_in(result));
    const local::MatrixOp op = operation_of(trans);
    const Array x = tiled::solve_triangular(finite(left, check_finite), finite(right, check_finite),
                                            lower ? Triangle::lower : Triangle::upper, op, unit_diagonal);
    return x.astype(result);
  }
  return applied(std::move(call))[0];
}

// Of a tall matrix beside its right-hand sides the triangle R has all that least squares ask for: [a b] = Q R makes
// |a x - b| that of R's columns, of which the last rows are the residual.
std::vector<Array> reduced_least_squares(const Array& a, const Array& b, DType dtype) {
  const bool vector = b.ndim() == 1;
  const Array sides = vector ? expand_dims(b, 1) : b;
  const int64_t n = a.shape(1), r = sides.shape(1);
  const Array both = joined({a.astype(dtype), sides.astype(dtype)}, 1);
  const Array triangle = tiled::qr(both, /*with_q=*/false, /*complete=*/false).r;
  const Array upper = arrange::part(arrange::part(triangle, 0, 0, n), 1, 0, n);
  const Array right = arrange::part(arrange::part(triangle, 0, 0, n), 1, n, r);
  const Array rest = arrange::part(arrange::part(triangle, 0, n, triangle.shape(0) - n), 1, n, r);
  const Array squares = sum(square(absolute(rest)), Axes(0));
  return {upper, vector ? squeeze(right, Axes(1)) : right, squares};
}

namespace {

// Singular values of at most so much of the largest count as 0, where nothing else is asked for.
double rounding_limit(const Array& a, DType dtype) {
  return static_cast<double>(std::max(a.shape(0), a.shape(1))) * local::linalg::epsilon_of(local::real_type(dtype));
}
// V S^+ b, of the singular values that are large.
Array solved_by_svd(const Array& s, const Array& vh, const Array& large, const Array& b) {
  return matmul(adjoint(vh), expand_dims(where(large, 1.0 / s, 0), 1) * b);
}

// x = V S^+ U^H b, and what the local function gives beside.
std::vector<Array> least_squares_by_svd(const Array& a, const Array& b, DType dtype, std::optional<double> rcond) {
  const spectral::Singular parts = spectral::svd(a.astype(dtype), /*with_vectors=*/true, /*full=*/false);
  const Array s = parts.values.persist();
  const Array large = s > max(s) * rcond.value_or(rounding_limit(a, dtype));
  const bool vector = b.ndim() == 1;
  const Array sides = (vector ? expand_dims(b, 1) : b).astype(dtype);
  const Array x = solved_by_svd(s, *parts.vh, large, matmul(adjoint(*parts.u), sides));
  const Array squares = sum(square(absolute(matmul(a.astype(dtype), x) - sides)), Axes(0));
  return {vector ? squeeze(x, Axes(1)) : x, squares, count_nonzero(large), s};
}

}  // namespace

LstsqResult lstsq(const Array& a, const Array& b, std::optional<double> rcond) {
  const auto function = [rcond](Arrays given) {
    const ops::LeastSquares found = ops::least_squares(given[0], given[1], rcond);
    return Results{found.x, found.squares, found.rank, found.s};
  };
  // Their axes are checked by the function: there are no stacks.
  Call call{
      "lstsq", {{a, a.ndim()}, {b, b.ndim()}}, op::Hash().add(rcond.has_value()).add(rcond.value_or(0)), function};
  std::vector<Array> found;
  if (is_large(a) && a.shape(0) >= 2 * a.shape(1)) {
    const DType dtype = computed_in(results_of(call)[0].dtype);
    if (!rcond) rcond = rounding_limit(a, dtype);  // NumPy's default counts the rows of `a`
    const std::vector<Array> reduced = reduced_least_squares(a, b, dtype);
    const bool is_by_svd = exceeds_svd(reduced[0]);
    Call small{"lstsq",
               {{reduced[0], 2}, {reduced[1], b.ndim()}},
               op::Hash().add(true).add(*rcond),
               [limit = *rcond](Arrays given) {
                 const ops::LeastSquares parts = ops::least_squares(given[0], given[1], limit);
                 return Results{parts.x, parts.squares, parts.rank, parts.s};
               }};
    found = is_by_svd ? least_squares_by_svd(reduced[0], reduced[1], dtype, rcond) : applied(std::move(small));
    found[1] = reduced[2];
  } else if (exceeds_svd(a)) {
    found = least_squares_by_svd(a, b, computed_in(results_of(call)[0].dtype), rcond);
  } else {
    found = applied(std::move(call));
  }
  const std::vector<Array> values{found[2]}, keep{found[0], found[1], found[3]};
  const Settled known = settle(values, keep, InPlans::zeros);
  const int64_t m = a.shape(0), n = a.shape(1);
  const int64_t rank = known.is_planned ? std::min(m, n) : known.values[0].item<int64_t>();
  const Array residuals = rank == n && m > n ? known.kept[1] : arrange::part(known.kept[1], 0, 0, 0);
  return {known.kept[0], residuals, Scalar::strong(Scalar(rank), DType::int32), known.kept[2]};
}

Array pinv(const Array& a, const std::optional<Operand>& rcond, bool hermitian, const PinvTolerance& rtol) {
  const auto* given = std::get_if<std::optional<Array>>(&rtol);
  Call call{"pinv", {{a}}, op::Hash().add(hermitian), nullptr};
  const bool has_rcond = rcond.has_value(), has_rtol = given != nullptr && *given;
  if (has_rcond) call.arguments.push_back({as_array(*rcond), kNumber});
  if (has_rtol) call.arguments.push_back({**given, kNumber});
  const std::string text = given != nullptr ? "" : std::get<std::string>(rtol);
  call.parameters.add(has_rcond).add(has_rtol).add(std::string_view(text));
  call.function = [=, is_given = given != nullptr](Arrays arrays) {
    std::optional<NdArray> first, second;
    if (has_rcond) first = arrays[1];
    if (has_rtol) second = arrays[has_rcond ? 2 : 1];
    return Results{
        ops::pinv(arrays[0], first, hermitian, is_given ? ops::PinvTolerance(second) : ops::PinvTolerance(text))};
  };
  if (exceeds_svd(a)) {
    const DType result = results_of(call)[0].dtype;  // the local function checks the options
    constexpr double kDefault = 1e-15;               // NumPy's
    const SVDResult parts = svd(computed(a), /*full_matrices=*/false, hermitian);
    const Array s = parts.S.persist();
    const bool by_default = given == nullptr && s.dtype() == DType::float64;
    const Array limit = call.arguments.size() > 1
                            ? call.arguments[1].array
                            : as_array(by_default ? kDefault : rounding_limit(a, s.dtype()), s.dtype());
    return solved_by_svd(s, parts.Vh, s > max(s) * limit, adjoint(parts.U)).astype(result);
  }
  return applied(std::move(call))[0];
}

QROutcome qr(const Array& a, std::string_view mode) {
  const auto elements = [&] {
    const int64_t m = a.shape(0), n = a.shape(1), k = mode == "complete" ? m : std::min(m, n);
    return k * n + (mode == "r" ? 0 : m * k);
  };
  const bool has_tiles = a.ndim() == 2 && (mode == "reduced" || mode == "complete" || mode == "r");
  if (has_tiles && is_large_with(a, elements())) {
    const DType result = inexact(a.dtype());
    const tiled::Orthogonal found = tiled::qr(computed(a), mode != "r", mode == "complete");
    const Array r = found.r.astype(result);
    if (!found.q) return r;
    return QRResult{found.q->astype(result), r};
  }
  const auto function = [mode = std::string(mode)](Arrays given) {
    auto found = ops::qr(given[0], mode);
    if (const auto* both = std::get_if<ops::QRResult>(&found)) return Results{both->Q, both->R};
    if (const auto* r = std::get_if<NdArray>(&found)) return Results{*r};
    return Results(std::get<local::ArrayTuple>(found));
  };
  const std::vector<Array> found = applied({"qr", {{a}}, op::Hash().add(mode), function});
  if (found.size() == 1) return found[0];
  if (mode == "raw") return std::pair(found[0], found[1]);
  return QRResult{found[0], found[1]};
}

namespace {

void check_matrix(const char* function, const Array& data) {
  if (data.ndim() != 2)
    throw InvalidArgument(fmt::format("{}: data of shape {} is no matrix", function, local::to_string(data.shape())));
}

}  // namespace

QRResult tsqr(const Array& data) {
  check_matrix("tsqr", data);
  return qr(data, reduced);
}
QRResult sfqr(const Array& data) {
  check_matrix("sfqr", data);
  if (data.shape(0) > data.shape(1))
    throw InvalidArgument(fmt::format("sfqr: data of shape {} has more rows than columns, tsqr() takes it",
                                      local::to_string(data.shape())));
  return qr(data, reduced);
}

std::vector<Array> lu(const Array& a, bool permute_l, bool p_indices, bool check_finite) {
  const auto elements = [&] {
    const int64_t m = a.shape(0), n = a.shape(1), k = std::min(m, n);
    return m * m + k * (m + n);
  };
  if (a.ndim() == 2 && is_large_with(a, elements())) {
    const DType result = inexact(a.dtype());
    const tiled::Factors found = tiled::lu(finite(computed(a), check_finite), permute_l);
    const Array lower = found.lower.astype(result), upper = found.upper.astype(result);
    if (permute_l) return {lower, upper};
    if (p_indices) return {argsort(found.order), lower, upper};
    const Dims square{a.shape(0), a.shape(0)};
    // P[i, j] = 1 where row i of a is row j of L U.
    return {(positions(square, 0) == expand_dims(found.order, 0)).astype(local::real_type(result)), lower, upper};
  }
  return applied({"lu", {{a}}, op::Hash().add(permute_l).add(p_indices).add(check_finite), [=](Arrays given) {
                    return Results(ops::lu(given[0], permute_l, /*overwrite_a=*/false, check_finite, p_indices));
                  }});
}
LUResult lu(const Array& a) {
  const std::vector<Array> parts = lu(a, /*permute_l=*/false, /*p_indices=*/false);
  return {parts[0], parts[1], parts[2]};
}
std::pair<Array, Array> lu(const Array& a, local::linalg::PermuteL) {
  const std::vector<Array> parts = lu(a, /*permute_l=*/true, /*p_indices=*/false);
  return {parts[0], parts[1]};
}

// Tall matrices by the decomposition of their triangle: a = Q R, R = U S V^H.
bool by_triangle(const Array& a) { return is_large(a) && a.shape(0) >= 2 * a.shape(1); }

SVDResult svd(const Array& a, bool full_matrices, bool hermitian) {
  if (!full_matrices && !hermitian && by_triangle(a)) {
    const tiled::Orthogonal parts = tiled::qr(computed(a), /*with_q=*/true, /*complete=*/false);
    const SVDResult small = svd(parts.r, /*full_matrices=*/false);
    const DType result = inexact(a.dtype());
    return {matmul(*parts.q, small.U).astype(result), small.S.astype(local::real_type(result)),
            small.Vh.astype(result)};
  }
  if (!full_matrices && !hermitian && a.ndim() == 2 && by_triangle(a.T())) {
    const SVDResult turned = svd(conj(a.T()), /*full_matrices=*/false);
    return {conj(turned.Vh.T()), turned.S, conj(turned.U.T())};
  }
  const DType dtype = inexact(a.dtype());
  if (hermitian && exceeds_eigh(a)) {
    check_square(a);
    // a = V W V^H: the moduli of W, and its signs go with the vectors on one side.
    const EigResult parts = eigh(a);
    const Array values = parts.eigenvalues.persist(), order = argsort(-absolute(values)).persist();
    const Array v = take(parts.eigenvectors, order, 1).persist();
    return {v, absolute(take(values, order, 0)), conj((v * sign(take(values, order, 0)).astype(dtype)).T())};
  }
  if (!hermitian && exceeds_svd(a, /*with_vectors=*/true, full_matrices)) {
    const spectral::Singular parts = spectral::svd(computed(a), /*with_vectors=*/true, full_matrices);
    return {parts.u->astype(dtype), parts.values.astype(local::real_type(dtype)), parts.vh->astype(dtype)};
  }
  const auto function = [=](Arrays given) {
    const auto found = std::get<ops::SVDResult>(ops::svd(given[0], full_matrices, /*compute_uv=*/true, hermitian));
    return Results{found.U, found.S, found.Vh};
  };
  const std::vector<Array> found = applied({"svd", {{a}}, op::Hash().add(full_matrices).add(hermitian), function});
  return {found[0], found[1], found[2]};
}

Array svdvals(const Array& x, bool hermitian) {
  if (!hermitian && by_triangle(x))
    return svdvals(tiled::qr(computed(x), /*with_q=*/false, /*complete=*/false).r)
        .astype(local::real_type(inexact(x.dtype())));
  if (!hermitian && x.ndim() == 2 && by_triangle(x.T())) return svdvals(x.T());
  if (hermitian && exceeds_eigh(x)) return -sort(-absolute(eigvalsh(x)));
  if (!hermitian && exceeds_svd(x, /*with_vectors=*/false))
    return spectral::svd(computed(x), /*with_vectors=*/false, /*full=*/false)
        .values.astype(local::real_type(inexact(x.dtype())));
  return applied({"svdvals", {{x}}, op::Hash().add(hermitian), [hermitian](Arrays given) {
                    return Results{std::get<NdArray>(
                        ops::svd(given[0], /*full_matrices=*/false, /*compute_uv=*/false, hermitian))};
                  }})[0];
}

EigResult eig(const Array& a) {
  const std::vector<Array> found = settled_eigen(a, applied({"eig", {{a}}, {}, [](Arrays given) {
                                                               const ops::Eigen parts =
                                                                   ops::complex_eigen(given[0], /*vectors=*/true);
                                                               return Results{parts.values, parts.vectors};
                                                             }}));
  return {found[0], found[1]};
}

Array eigvals(const Array& a) {
  return settled_eigen(a, applied({"eigvals", {{a}}, {}, [](Arrays given) {
                                     return Results{ops::complex_eigen(given[0], /*vectors=*/false).values};
                                   }}))[0];
}

namespace {

// Of a matrix that no device decomposes. Computes: a singular one is found by its factorisation.
Array large_condition(const Array& x, const ops::NormOrder& p) {
  const auto* number = p ? std::get_if<double>(&*p) : nullptr;
  if (!p || (number != nullptr && std::abs(*number) == 2)) {
    const Array s = svdvals(x).persist();
    const Array first = s(0), last = s(-1);
    return number != nullptr && *number < 0 ? last / first : first / last;
  }
  check_square(x);
  const auto norm_of = [&](const Array& a) {
    return number != nullptr ? norm(a, *number, {-2, -1}) : norm(a, std::get<std::string>(*p).c_str(), {-2, -1});
  };
  try {
    return norm_of(x) * norm_of(inv(x).persist());
  } catch (const local::LinAlgError&) {
    return constant({}, std::numeric_limits<double>::infinity(), local::real_type(inexact(x.dtype())));
  }
}

Array condition(const Array& x, const ops::NormOrder& p, const op::Hash& parameters) {
  if (exceeds_svd(x, /*with_vectors=*/false)) return large_condition(x, p);
  return applied({"cond", {{x}}, parameters, [p](Arrays given) { return Results{ops::cond(given[0], p)}; }})[0];
}

}  // namespace

Array cond(const Array& x, std::optional<double> p) {
  return condition(x, p ? ops::NormOrder(*p) : std::nullopt, op::Hash().add(p.has_value()).add(p.value_or(0)));
}
Array cond(const Array& x, const char* p) {
  return condition(x, ops::NormOrder(std::string(p)), op::Hash().add(std::string_view(p)));
}

Array matrix_rank(const Array& A, const std::optional<Operand>& tol, bool hermitian,
                  const std::optional<Operand>& rtol) {
  if (tol && rtol) throw InvalidArgument("`tol` and `rtol` can't be both set.");
  if (A.ndim() < 2) return any(not_equal(A, 0)).astype(DType::int64);
  if (exceeds_svd(A, /*with_vectors=*/false)) {
    const Array s = svdvals(A, hermitian).persist();
    if (tol) return count_nonzero(s > as_array(*tol));
    return count_nonzero(s > max(s) * (rtol ? as_array(*rtol) : as_array(rounding_limit(A, s.dtype()), s.dtype())));
  }
  Call call{"matrix_rank", {{A}}, op::Hash().add(hermitian).add(tol.has_value()).add(rtol.has_value()), nullptr};
  if (tol) call.arguments.push_back({as_array(*tol), kNumber});
  if (rtol) call.arguments.push_back({as_array(*rtol), kNumber});
  call.function = [hermitian, is_tol = tol.has_value(), is_rtol = rtol.has_value()](Arrays given) {
    std::optional<NdArray> first, second;
    if (is_tol) first = given[1];
    if (is_rtol) second = given[1];
    return Results{ops::matrix_rank(given[0], first, hermitian, second)};
  };
  return applied(std::move(call))[0];
}

namespace {

// The values, vectors and counts that `call` makes; of the values and vectors those that are there. Computes by value.
std::vector<Array> some_of(const Array& a, const Subset& subset, Call call) {
  if (a.ndim() > 2 && std::holds_alternative<ByValue>(subset))
    throw InvalidArgument("a subset by value is of one matrix: those of a stack may have as many each as they like");
  call.name = "eigh_some";
  call.parameters.add(subset.index());
  if (const auto* by_index = std::get_if<ByIndex>(&subset))
    call.parameters.add(by_index->first).add(by_index->last);
  else
    call.parameters.add(std::get<ByValue>(subset).low).add(std::get<ByValue>(subset).high);
  std::vector<Array> found = applied(std::move(call));
  const bool vectors = found.size() == 3;
  int64_t count = local::most_of(subset, a.shape(-1));
  if (std::holds_alternative<ByValue>(subset)) {
    const Array number = found.back();
    found.pop_back();
    Settled known = settle(std::span(&number, 1), found);
    count = known.values[0].item().as_int64();
    found = known.kept;
  }
  std::vector<Array> parts{arrange::part(found[0], a.ndim() - 2, 0, count)};
  if (vectors) parts.push_back(arrange::part(found[1], a.ndim() - 1, 0, count));
  return parts;
}
std::vector<Array> some_eigen(const Array& a, const Subset& subset, Triangle triangle, bool vectors) {
  const char* uplo = triangle == Triangle::lower ? "L" : "U";
  return some_of(a, subset,
                 {"", {{a}}, op::Hash().add(std::string_view(uplo)).add(vectors), [=](Arrays given) {
                    const ops::SomeEigen some = ops::some_eigen(given[0], subset, uplo, vectors);
                    return vectors ? Results{some.values, some.vectors, some.found} : Results{some.values, some.found};
                  }});
}

}  // namespace

EigResult eigh(const Array& a, const Subset& subset, Triangle triangle) {
  check_square(a);
  if (exceeds_eigh(a, subset)) {
    const DType result = inexact(a.dtype());
    const spectral::Eigen found = spectral::eigh(both_triangles(computed(a), triangle), /*with_vectors=*/true, subset);
    return {found.values.astype(local::real_type(result)), found.vectors->astype(result)};
  }
  const std::vector<Array> found = some_eigen(a, subset, triangle, /*vectors=*/true);
  return {found[0], found[1]};
}
Array eigvalsh(const Array& a, const Subset& subset, Triangle triangle) {
  check_square(a);
  if (exceeds_eigh(a, subset))
    return spectral::eigh(both_triangles(computed(a), triangle), /*with_vectors=*/false, subset)
        .values.astype(local::real_type(inexact(a.dtype())));
  return some_eigen(a, subset, triangle, /*vectors=*/false)[0];
}

EigResult eigh(const Array& a, const Array& b, bool lower, int64_t type, const std::optional<Subset>& subset) {
  if (subset) {
    check_square(a);
    const std::vector<Array> found =
        some_of(a, *subset, {"", {{a}, {b}}, op::Hash().add(lower).add(type), [=](Arrays given) {
                               const ops::SomeEigen some = ops::some_eigen(given[0], given[1], *subset, lower, type,
                                                                           /*check_finite=*/false);
                               return Results{some.values, some.vectors, some.found};
                             }});
    return {found[0], found[1]};
  }
  const std::vector<Array> found =
      applied({"eigh", {{a}, {b}}, op::Hash().add(lower).add(type), [lower, type](Arrays given) {
                 const ops::EighResult parts = ops::eigh(given[0], given[1], lower, type, /*check_finite=*/false);
                 return Results{parts.eigenvalues, parts.eigenvectors};
               }});
  return {found[0], found[1]};
}

EigResult eigh(const Array& a, Triangle triangle) {
  check_square(a);
  if (a.ndim() > 2) {
    const char* uplo = triangle == Triangle::lower ? "L" : "U";
    const std::vector<Array> found =
        applied({"eigh", {{a}}, op::Hash().add(std::string_view(uplo)), [uplo](Arrays given) {
                   const ops::EighResult parts = ops::eigh(given[0], uplo);
                   return Results{parts.eigenvalues, parts.eigenvectors};
                 }});
    return {found[0], found[1]};
  }
  if (a.dtype() == DType::float16 || a.dtype() == DType::bfloat16)
    throw local::TypeError(fmt::format("array type {} is unsupported in linalg", local::name(a.dtype())));
  const Array given = a.astype(inexact(a.dtype()));
  if (exceeds_eigh(a)) {
    const spectral::Eigen found = spectral::eigh(both_triangles(given, triangle), /*with_vectors=*/true);
    return {found.values, *found.vectors};
  }
  const expr::NodePtr node = algo::eigh(given.node(), triangle);
  return {Array(expr::item(node, 0)), Array(expr::item(node, 1))};
}

Array eigvalsh(const Array& a, Triangle triangle) {
  check_square(a);
  if (a.ndim() == 2 && exceeds_eigh(a))
    return spectral::eigh(both_triangles(computed(a), triangle), /*with_vectors=*/false).values;
  const char* uplo = triangle == Triangle::lower ? "L" : "U";
  return applied({"eigvalsh", {{a}}, op::Hash().add(std::string_view(uplo)), [uplo](Arrays given) {
                    return Results{ops::eigvalsh(given[0], uplo)};
                  }})[0];
}

}  // namespace quarry::linalg
