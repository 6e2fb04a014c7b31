#include "quarry/chunked/api/factors.h"

#include <fmt/format.h>

#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/matrix_calls.h"
#include "quarry/chunked/api/tiled.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/structured.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/ufunc/ufunc.h"

namespace quarry::linalg {
namespace {

using namespace compose;
using namespace calls;
namespace ops = local::ops;
using local::MatrixOp;

Argument sides_of(const Array& b) { return {b, b.ndim() == 1 ? kVector : kMatrix}; }

// A function of one vector of integers, which one task takes whole and whose values it reads.
Array of_integers(const char* name, const Array& given, int64_t size, DType dtype,
                  std::function<NdArray(const NdArray&)> function) {
  constexpr int64_t kArrays = 8;  // of the larger one's size, in the function
  BlockOptions options;
  options.name = fmt::format("linalg.{}", name);
  options.identity = op::Hash().add(std::string_view(options.name)).add(size).value;
  options.scratch_bytes = kArrays * static_cast<int64_t>(sizeof(int64_t)) * std::max(size, given.size());
  const auto infer = [=](std::span<const Array>) { return std::vector<LocalResult>{{Dims{size}, dtype}}; };
  const auto called = [function = std::move(function)](Arrays arrays) { return Results{function(arrays[0])}; };
  return local_call(options.name, std::span(&given, 1), infer, called, options)[0];
}

}  // namespace

std::pair<Array, Array> lu_factor(const Array& a, bool check_finite) {
  if (a.ndim() == 2 && is_large_with(a, a.size())) {
    const tiled::PackedFactors found = tiled::packed_lu(finite(computed(a), check_finite));
    const int64_t count = std::min(a.shape(0), a.shape(1));
    const auto swaps = [count](const NdArray& order) {
      return local::linalg::swaps_to(order, count).astype(DType::int32);
    };
    return {found.both.astype(inexact(a.dtype())), of_integers("swaps_to", found.order, count, DType::int32, swaps)};
  }
  const std::vector<Array> found = applied({"lu_factor", {{a}}, op::Hash().add(check_finite), [=](Arrays given) {
                                              const auto [both, swaps] =
                                                  ops::lu_factor(given[0], /*overwrite_a=*/false, check_finite);
                                              return Results{both, swaps};
                                            }});
  return {found[0], found[1]};
}

Array lu_solve(const std::pair<Array, Array>& lu_and_piv, const Array& b, int64_t trans, bool check_finite) {
  const auto& [both, swaps] = lu_and_piv;
  Call call{
      "lu_solve", {{both}, {swaps, kVector}, sides_of(b)}, op::Hash().add(trans).add(check_finite), [=](Arrays given) {
        return Results{ops::lu_solve({given[0], given[1]}, given[2], trans, /*overwrite_b=*/false, check_finite)};
      }};
  if (b.ndim() > 2 || !is_large(both)) return applied(std::move(call))[0];
  const DType result = results_of(call)[0].dtype, dtype = computed_in(result);
  const int64_t n = both.shape(0);
  const Array order = of_integers("row_order", swaps, n, DType::int64, [n](const NdArray& given) {
    local::linalg::check_swaps(given, n);
    return local::linalg::row_order(ops::add(given, 1).astype(DType::int32), n);
  });
  const Array factors = both.astype(dtype), sides = finite(b.astype(dtype), check_finite);
  return tiled::solve_by_lu(factors, factors, order, sides, static_cast<MatrixOp>(trans)).astype(result);
}

std::pair<Array, bool> cho_factor(const Array& a, bool lower, bool check_finite) {
  if (is_large(a)) return {cholesky(finite(a, check_finite), !lower), lower};
  return {applied({"cho_factor",
                   {{a}},
                   op::Hash().add(lower).add(check_finite),
                   [=](Arrays given) {
                     return Results{ops::cho_factor(given[0], lower, /*overwrite_a=*/false, check_finite).first};
                   }})[0],
          lower};
}

Array cho_solve(const std::pair<Array, bool>& c_and_lower, const Array& b, bool check_finite) {
  const auto& [c, lower] = c_and_lower;
  Call call{"cho_solve", {{c}, sides_of(b)}, op::Hash().add(lower).add(check_finite), [=, lower = lower](Arrays given) {
              return Results{ops::cho_solve({given[0], lower}, given[1], /*overwrite_b=*/false, check_finite)};
            }};
  if (b.ndim() > 2 || !is_large(c)) return applied(std::move(call))[0];
  const DType result = results_of(call)[0].dtype, dtype = computed_in(result);
  const Array factor = finite(c.astype(dtype), check_finite), sides = finite(b.astype(dtype), check_finite);
  return tiled::solve_by_cholesky(factor, sides, lower ? Triangle::lower : Triangle::upper).astype(result);
}

std::pair<Array, Array> schur(const Array& a, std::string_view output, bool check_finite) {
  const std::vector<Array> found = applied({"schur",
                                            {{a}},
                                            op::Hash().add(output).add(check_finite),
                                            [output = std::string(output), check_finite](Arrays given) {
                                              const auto [t, z] =
                                                  ops::schur(given[0], output, /*overwrite_a=*/false, check_finite);
                                              return Results{t, z};
                                            }});
  return {found[0], found[1]};
}

std::tuple<Array, Array, Array> ldl(const Array& A, bool lower, bool hermitian, bool check_finite) {
  const std::vector<Array> found =
      applied({"ldl", {{A}}, op::Hash().add(lower).add(hermitian).add(check_finite), [=](Arrays given) {
                 const auto [factor, d, order] =
                     ops::ldl(given[0], lower, hermitian, /*overwrite_a=*/false, check_finite);
                 return Results{factor, d, order};
               }});
  return {found[0], found[1], found[2]};
}

Array solve_banded(const std::pair<int64_t, int64_t>& l_and_u, const Array& ab, const Array& b, bool check_finite) {
  return applied({"solve_banded",
                  {{ab}, sides_of(b)},
                  op::Hash().add(l_and_u.first).add(l_and_u.second).add(check_finite),
                  [=](Arrays given) {
                    return Results{ops::solve_banded(l_and_u, given[0], given[1], /*overwrite_ab=*/false,
                                                     /*overwrite_b=*/false, check_finite)};
                  }})[0];
}

Array solveh_banded(const Array& ab, const Array& b, bool lower, bool check_finite) {
  return applied({"solveh_banded", {{ab}, sides_of(b)}, op::Hash().add(lower).add(check_finite), [=](Arrays given) {
                    return Results{ops::solveh_banded(given[0], given[1], /*overwrite_ab=*/false, /*overwrite_b=*/false,
                                                      lower, check_finite)};
                  }})[0];
}

Array solve_toeplitz(const std::variant<std::pair<Array, Array>, Array>& c_or_cr, const Array& b, bool check_finite) {
  const auto* both = std::get_if<std::pair<Array, Array>>(&c_or_cr);
  const Array& column = both ? both->first : std::get<Array>(c_or_cr);
  const Array row = both ? both->second : conjugated(column);
  return applied({"solve_toeplitz",
                  {{column, column.ndim()}, {row, row.ndim()}, sides_of(b)},
                  op::Hash().add(check_finite),
                  [=](Arrays given) {
                    return Results{ops::solve_toeplitz(std::pair(given[0], given[1]), given[2], check_finite)};
                  }})[0];
}

}  // namespace quarry::linalg
