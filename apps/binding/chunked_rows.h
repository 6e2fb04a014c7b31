// The functions of chunked arrays as the rows of local/ops/functions/*.def name and call them: quarry's own, and
// adapters where those have other names or parameters. An adapter hides all of quarry's functions of its name.
#pragma once

#include <algorithm>
#include <variant>

#include "quarry/apps/binding/binding.h"
#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/assignment.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/calculus.h"
#include "quarry/chunked/api/choices.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/elementwise.h"
#include "quarry/chunked/api/fft.h"
#include "quarry/chunked/api/histogram.h"
#include "quarry/chunked/api/insertion.h"
#include "quarry/chunked/api/joining.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/nan.h"
#include "quarry/chunked/api/operand.h"
#include "quarry/chunked/api/out.h"
#include "quarry/chunked/api/partitions.h"
#include "quarry/chunked/api/polynomials.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/quantile.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/sets.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/sorting.h"
#include "quarry/chunked/api/statistics.h"
#include "quarry/chunked/api/structured.h"
#include "quarry/chunked/api/types.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/einsum.h"
#include "quarry/local/ops/products/products.h"

namespace quarry::apps::expression::chunked_rows {

using namespace quarry;

using local::Axes;
using local::Casting;
using local::Ints;
template <class T>
using Maybe = std::optional<T>;

// Functions under the name of a row whose symbol is not the public one.
#define QUARRY_ALSO(row, ...)                                  \
  template <class... T>                                        \
  auto row(const T&... args)->decltype(__VA_ARGS__(args...)) { \
    return __VA_ARGS__(args...);                               \
  }

// ---- Creation ----

// Arrays are never written, so that a copy is the array.
Array array(const Array& object, Maybe<DType> dtype, Maybe<bool> copy, std::string_view order, bool subok,
            int64_t ndmin);
Array asarray(const Array& a, Maybe<DType> dtype);
Array zeros(const Ints& shape, Maybe<DType> dtype);
Array ones(const Ints& shape, Maybe<DType> dtype);
Array empty(const Ints& shape, Maybe<DType> dtype);
Array full(const Ints& shape, const Operand& fill_value, Maybe<DType> dtype);
Array arange(const Scalar& start_or_stop, const Maybe<Scalar>& stop, const Scalar& step, Maybe<DType> dtype);
Array eye(int64_t N, Maybe<int64_t> M, int64_t k, Maybe<DType> dtype);
Array identity(int64_t n, Maybe<DType> dtype);
inline Array from_dlpack(const Array& x) { return x; }

// ---- Shapes, axes, joining ----

Array astype_method(const Array& a, DType dtype, std::string_view order, std::string_view casting, bool subok,
                    bool copy);
Array transpose(const Array& a, const Axes& axes);
Array transpose_method(const Array& a, const std::vector<Axes>& axes);
Array reshape(const Array& a, const Ints& shape, std::string_view order);
Array reshape_method(const Array& a, const std::vector<Ints>& shape, std::string_view order);
Array ravel(const Array& a, std::string_view order);
Array flatten(const Array& a, std::string_view order);
Array expand_dims(const Array& a, const Ints& axis);
Dims shape(const Array& a);
int64_t size(const Array& a, const Axes& axis);
int64_t ndim(const Array& a);
Array concatenate(const std::vector<Array>& arrays, Maybe<int64_t> axis, Maybe<DType> dtype, std::string_view casting);
Array stack(const std::vector<Array>& arrays, int64_t axis, Maybe<DType> dtype, std::string_view casting);
Array vstack(const std::vector<Array>& tup, Maybe<DType> dtype, std::string_view casting);
Array hstack(const std::vector<Array>& tup, Maybe<DType> dtype, std::string_view casting);

// Dask's forms of chunks: one int for every axis, or per axis one int (-1 or None: the whole axis) or the extents.
using AxisExtents = std::variant<std::monostate, int64_t, std::vector<int64_t>>;
Array rechunk(const Array& x, const std::variant<int64_t, std::vector<AxisExtents>>& chunks);

inline Array compress_array(const Array& a, const Array& condition, Maybe<int64_t> axis) {
  return quarry::compress(condition, a, axis);
}
inline std::variant<Array, ChunkedTuple> indices(const Dims& dimensions, DType dtype, bool sparse) {
  if (!sparse) return quarry::indices(dimensions, dtype);
  const std::vector<Array> axes = quarry::indices(dimensions, quarry::sparse_grid, dtype);
  return ChunkedTuple(axes.begin(), axes.end());
}

// ---- Elementwise ----

Array clip_between(const Array& a, const Maybe<Operand>& a_min, const Maybe<Operand>& a_max, const Maybe<Operand>& min,
                   const Maybe<Operand>& max, const Maybe<Array>& where, Casting casting, Maybe<DType> dtype);
Array clip_method(const Array& a, const Maybe<Operand>& min, const Maybe<Operand>& max, const Maybe<Array>& where,
                  Casting casting, Maybe<DType> dtype);
Array round_to(const Array& a, int64_t decimals);
std::variant<Array, ChunkedTuple> where_or_nonzero(const Operand& condition, const Maybe<Operand>& x,
                                                   const Maybe<Operand>& y);

// ---- Products ----

#define QUARRY_VIEW_OF_EACH(name)                                                       \
  inline std::variant<Array, std::vector<Array>> name(const std::vector<Array>& arys) { \
    if (arys.size() == 1) return quarry::name(arys[0]);                                 \
    std::vector<Array> views;                                                           \
    for (const Array& array : arys) views.push_back(quarry::name(array));               \
    return views;                                                                       \
  }
QUARRY_VIEW_OF_EACH(atleast_1d)
QUARRY_VIEW_OF_EACH(atleast_2d)
QUARRY_VIEW_OF_EACH(atleast_3d)
#undef QUARRY_VIEW_OF_EACH

inline std::variant<Array, std::pair<Array, Array>> average(const Array& a, const Axes& axis,
                                                            const Maybe<Array>& weights, bool returned, bool keepdims) {
  if (returned) return quarry::average(a, axis, weights, quarry::returned, keepdims);
  return quarry::average(a, axis, weights, keepdims);
}

// A number, the name of a rule, or edges.
using Bins = std::variant<std::string, int64_t, Array>;
template <class F>
auto with_bins(const Bins& bins, const F& function) {
  if (const auto* rule = std::get_if<std::string>(&bins)) return function(rule->c_str());
  if (const auto* count = std::get_if<int64_t>(&bins)) return function(*count);
  return function(std::get<Array>(bins));
}
inline std::pair<Array, Array> histogram(const Array& a, const Bins& bins, const BinRange& range, Maybe<bool> density,
                                         const Maybe<Array>& weights) {
  return with_bins(bins, [&](const auto& given) {
    return quarry::histogram(a, given, {.range = range, .density = density, .weights = weights});
  });
}
inline Array histogram_bin_edges(const Array& a, const Bins& bins, const BinRange& range, const Maybe<Array>& weights) {
  return with_bins(bins, [&](const auto& given) {
    return quarry::histogram_bin_edges(a, given, {.range = range, .weights = weights});
  });
}

inline std::variant<Array, ChunkedTuple> unique(const Array& ar, bool return_index, bool return_inverse,
                                                bool return_counts, Maybe<int64_t> axis, bool equal_nan,
                                                bool /*sorted*/) {
  const std::vector<Array> all =
      quarry::detail::unique(ar, {return_index, return_inverse, return_counts}, axis, equal_nan);
  if (!return_index && !return_inverse && !return_counts) return all[0];
  ChunkedTuple tuple;
  tuple.assign(all.begin(), all.end());
  return tuple;
}
inline std::variant<Array, ChunkedTuple> intersect1d(const Array& ar1, const Array& ar2, bool assume_unique,
                                                     bool return_indices) {
  if (!return_indices) return quarry::intersect1d(ar1, ar2, assume_unique);
  ChunkedTuple tuple;
  for (const Array& each : quarry::intersect1d(ar1, ar2, quarry::return_indices, assume_unique)) tuple.push_back(each);
  return tuple;
}

// An array for one axis, a list for several.
inline std::variant<Array, std::vector<Array>> gradient(const Array& f, const std::vector<quarry::Spacing>& varargs,
                                                        const Axes& axis, int64_t edge_order) {
  std::vector<Array> parts = quarry::gradient(f, varargs, axis, edge_order);
  if (parts.size() == 1) return parts[0];
  return parts;
}

#define QUARRY_QUANTILES(name)                                                                                  \
  inline Array name(const Array& a, const Operand& q, const Axes& axis, std::string_view method, bool keepdims, \
                    const Maybe<Array>& weights) {                                                              \
    return quarry::name(a, q, axis, {.method = method, .keepdims = keepdims, .weights = weights});              \
  }
QUARRY_QUANTILES(percentile)
QUARRY_QUANTILES(quantile)
QUARRY_QUANTILES(nanpercentile)
QUARRY_QUANTILES(nanquantile)
#undef QUARRY_QUANTILES

Array pad(const Array& array, const local::ops::AxisWidths& pad_width, std::string_view mode,
          const Maybe<NdArray>& stat_length, const Maybe<NdArray>& constant_values, const Maybe<NdArray>& end_values,
          Maybe<std::string_view> reflect_type);
Array pad(const Array& array, const NdArray& pad_width, std::string_view mode, const Maybe<NdArray>& stat_length,
          const Maybe<NdArray>& constant_values, const Maybe<NdArray>& end_values,
          Maybe<std::string_view> reflect_type);

// einsum("ij,jk", a, b), or every operand followed by its labels, and those of the result.
Array einsum(const std::vector<std::variant<std::string, Array, local::ops::EinsumLabels>>& operands,
             const local::ops::EinsumOptimize& optimize, Maybe<DType> dtype, std::string_view order, Casting casting,
             Precision precision);
Array matmul(const Array& x1, const Array& x2, Casting casting, Maybe<DType> dtype, const local::ops::CoreAxes& axes,
             Precision precision);
Array vecdot(const Array& x1, const Array& x2, const local::ops::CoreAxes& axes, Maybe<int64_t> axis, bool keepdims,
             Casting casting, Maybe<DType> dtype);

inline std::variant<Array, std::pair<Array, Array>> linspace(const Operand& start, const Operand& stop, int64_t num,
                                                             bool endpoint, bool retstep, Maybe<DType> dtype,
                                                             int64_t axis) {
  if (retstep) return quarry::linspace(start, stop, num, quarry::retstep, endpoint, dtype, axis);
  return quarry::linspace(start, stop, num, endpoint, dtype, axis);
}

inline std::variant<Array, std::pair<Array, Array>, FullFit> polyfit(const Array& x, const Array& y, int64_t deg,
                                                                     std::optional<double> rcond, bool full,
                                                                     const Maybe<Array>& w,
                                                                     const std::variant<bool, std::string>& cov) {
  if (full) return quarry::polyfit(x, y, deg, full_result, rcond, w);
  const bool* wanted = std::get_if<bool>(&cov);
  if (wanted != nullptr && !*wanted) return quarry::polyfit(x, y, deg, rcond, w);
  const bool scaled = wanted != nullptr || std::get<std::string>(cov) != "unscaled";
  return quarry::polyfit(x, y, deg, covariance, rcond, w, scaled);
}

namespace linalg {
using namespace quarry::linalg;
QUARRY_ALSO(linalg_cross, quarry::linalg::cross)
QUARRY_ALSO(linalg_outer, quarry::linalg::outer)
QUARRY_ALSO(linalg_matmul, quarry::linalg::matmul)
QUARRY_ALSO(linalg_tensordot, quarry::linalg::tensordot)
QUARRY_ALSO(linalg_vecdot, quarry::linalg::vecdot)
QUARRY_ALSO(linalg_trace, quarry::linalg::trace)
QUARRY_ALSO(linalg_diagonal, quarry::linalg::diagonal)

using Order = std::optional<std::variant<double, std::string>>;  // as local::ops::NormOrder
inline Array norm(const Array& x, const Order& ord, const Axes& axis, bool keepdims) {
  if (!ord) return quarry::linalg::norm(x, std::nullopt, axis, keepdims);
  if (const auto* text = std::get_if<std::string>(&*ord)) return quarry::linalg::norm(x, text->c_str(), axis, keepdims);
  return quarry::linalg::norm(x, std::get<double>(*ord), axis, keepdims);
}
inline Array matrix_norm(const Array& x, bool keepdims, const Order& ord) {
  if (!ord) return quarry::linalg::matrix_norm(x, "fro", keepdims);
  if (const auto* text = std::get_if<std::string>(&*ord))
    return quarry::linalg::matrix_norm(x, text->c_str(), keepdims);
  return quarry::linalg::matrix_norm(x, std::get<double>(*ord), keepdims);
}
inline Array cond(const Array& x, const Order& p) {
  if (!p) return quarry::linalg::cond(x);
  if (const auto* text = std::get_if<std::string>(&*p)) return quarry::linalg::cond(x, text->c_str());
  return quarry::linalg::cond(x, std::get<double>(*p));
}
inline std::vector<Array> tsqr(const Array& data, bool compute_svd) {
  const QRResult factors = quarry::linalg::tsqr(data);
  if (!compute_svd) return {factors.Q, factors.R};
  const SVDResult parts = svd(data, /*full_matrices=*/false);
  return {parts.U, parts.S, parts.Vh};
}
inline std::vector<Array> lu(const Array& a, bool permute_l, bool, bool check_finite, bool p_indices) {
  return quarry::linalg::lu(a, permute_l, p_indices, check_finite);
}
inline Array solve_triangular(const Array& a, const Array& b, const std::variant<int64_t, std::string>& trans,
                              bool lower, bool unit_diagonal, bool, bool check_finite) {
  return quarry::linalg::solve_triangular(a, b, trans, lower, unit_diagonal, check_finite);
}
inline std::variant<SVDResult, Array> svd(const Array& a, bool full_matrices, bool compute_uv, bool hermitian) {
  if (!compute_uv) return svdvals(a, hermitian);
  return quarry::linalg::svd(a, full_matrices, hermitian);
}
inline Array vector_norm(const Array& x, const Axes& axis, bool keepdims, const Order& ord) {
  const double* number = ord ? std::get_if<double>(&*ord) : nullptr;
  if (ord && number == nullptr) throw local::InvalidArgument("vector_norm(): ord must be a number");
  return quarry::linalg::vector_norm(x, axis, number == nullptr ? 2.0 : *number, keepdims);
}
inline Array solve_of(const Array& a, const Array& b, std::string_view assume_a, bool lower, bool check_symmetric,
                      bool refine) {
  return quarry::linalg::solve(a, b, local::ops::system_options(assume_a, lower, check_symmetric, refine));
}
std::variant<EigResult, Array> eigh_of(const Array& a, const std::variant<std::string, Array>& UPLO,
                                       const Maybe<Array>& b, Maybe<bool> lower, bool eigvals_only, int64_t type,
                                       bool check_finite, const local::ops::IndexRange& subset_by_index,
                                       const local::ops::ValueRange& subset_by_value);
Array eigvalsh_of(const Array& a, std::string_view UPLO, const local::ops::IndexRange& subset_by_index,
                  const local::ops::ValueRange& subset_by_value);
}  // namespace linalg

// ---- Statistics ----

namespace stats {
using namespace quarry::stats;
inline TestResult power_divergence(const Array& f_obs, const Maybe<Array>& f_exp, double ddof, Maybe<int64_t> axis,
                                   const std::variant<double, std::string>& lambda_) {
  if (const auto* name = std::get_if<std::string>(&lambda_))
    return quarry::stats::power_divergence(f_obs, f_exp, ddof, axis, std::string_view(*name));
  return quarry::stats::power_divergence(f_obs, f_exp, ddof, axis, std::get<double>(lambda_));
}
inline TestResult f_oneway(const std::vector<Array>& samples, Maybe<int64_t> axis) {
  return quarry::stats::f_oneway(std::span<const Array>(samples), axis);
}
}  // namespace stats

// ---- Functions of chunks; more are in chunk_functions.h ----

// The function gets local arrays.
Array apply_along_axis(const local::ArrayFunction& func1d, int64_t axis, const Array& arr,
                       const std::vector<Array>& args);

// ---- Random numbers ----

// What draws, with the parameters of the rows of local/ops/functions/random.def.
using Draws = quarry::random::Generator*;

}  // namespace quarry::apps::expression::chunked_rows
