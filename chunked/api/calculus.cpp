#include "quarry/chunked/api/calculus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/numerical/numerical.h"
#include "quarry/local/ops/numerical/sliding.h"
#include "quarry/local/ops/ufunc/compositions.h"

namespace quarry {

using namespace compose;

namespace {

// a[start:stop] along one axis.
Array between(const Array& a, int axis, std::optional<int64_t> start, std::optional<int64_t> stop) {
  return arrange::sliced(a, axis, Slice{start, stop, std::nullopt});
}

}  // namespace

Array diff(const Array& a, int64_t n, int64_t axis, const std::optional<Operand>& prepend,
           const std::optional<Operand>& append) {
  if (n == 0) return a;
  if (n < 0) throw InvalidArgument(fmt::format("order must be non-negative but got {}", n));
  if (a.ndim() == 0) throw InvalidArgument("diff requires input that is at least one dimensional");
  const int d = local::normalize_axis(axis, a.ndim());
  const auto edge = [&](const Operand& given) {
    const Array x = as_array(given);
    return x.ndim() > 0 ? x : broadcast_to(x, with_extent(a.shape(), d, 1));
  };
  std::vector<Array> parts;
  if (prepend) parts.push_back(edge(*prepend));
  parts.push_back(a);
  if (append) parts.push_back(edge(*append));
  Array x = parts.size() == 1 ? a : concatenate(parts, d);
  for (int64_t i = 0; i < n; ++i) {
    const Array right = between(x, d, 1, {}), left = between(x, d, {}, -1);
    x = x.dtype() == DType::bool_ ? not_equal(right, left) : subtract(right, left);
  }
  return x;
}

Array unwrap(const Array& p, std::optional<double> discont, int64_t axis, const Scalar& period) {
  if (p.ndim() == 0) throw InvalidArgument("diff requires input that is at least one dimensional");
  const int d = local::normalize_axis(axis, p.ndim());
  const Array jump = diff(p, 1, d);
  const local::PromotionOperand types[] = {{jump.dtype(), false}, {period.dtype(), period.weak()}};
  const DType dtype = local::result_type(types);
  const Array correction =
      local::compositions::unwrap_correction<Operand>(kApply, jump, discont, period, local::is_integer(dtype)).array();
  return concatenate(
      {between(p, d, {}, 1).astype(dtype), between(p, d, 1, {}).astype(dtype) + cumsum(correction, d).astype(dtype)},
      d);
}

Array ediff1d(const Array& ary, const std::optional<Operand>& to_end, const std::optional<Operand>& to_begin) {
  const Array flat = ravel(ary);
  const auto edge = [&](const std::optional<Operand>& given, const char* name) {
    if (!given) return constant({0}, 0, ary.dtype());
    const Array x = as_array(*given);
    if (!local::can_cast(x.dtype(), ary.dtype(), local::Casting::same_kind))
      throw local::TypeError(
          fmt::format("dtype of `{}` must be compatible with input `ary` under the `same_kind` rule.", name));
    return ravel(x).astype(ary.dtype());
  };
  const Array begin = edge(to_begin, "to_begin"), end = edge(to_end, "to_end");
  return joined({begin, subtract(between(flat, 0, 1, {}), between(flat, 0, {}, -1)), end}, 0);
}

Array trapezoid(const Array& y, const std::optional<Array>& x, const Operand& dx, int64_t axis) {
  const int d = local::normalize_axis(axis, y.ndim());
  Operand step = dx;
  if (x) step = x->ndim() == 1 ? along(diff(*x), d, y.ndim()) : diff(*x, 1, axis);
  const Array area = divide(multiply(step, add(between(y, d, 1, {}), between(y, d, {}, -1))), 2.0);
  // Counted from the end, as the product may have more axes than y.
  return sum(area, d - y.ndim(), {.dtype = area.dtype()});
}

namespace {

// d/dx along one axis; `spacing` is a step or the positions.
Array gradient_along(const Array& f, const Spacing& spacing, int axis, int64_t edge_order) {
  const int64_t n = f.shape()[axis];
  const Array* given = std::get_if<Array>(&spacing);
  const Scalar step = given ? Scalar(1.0) : std::get<Scalar>(spacing);
  Array gaps;
  if (given) {
    if (given->ndim() != 1) throw InvalidArgument("distances must be either scalars or 1d");
    if (given->shape()[0] != n)
      throw InvalidArgument("when 1d, distances must match the length of the corresponding dimension");
    gaps = along(diff(local::is_integer(given->dtype()) ? given->astype(DType::float64) : *given), axis, f.ndim());
  }
  const auto at = [&](int64_t i) { return arrange::part(f, axis, i, 1); };
  const auto gap = [&](int64_t begin, int64_t end) { return arrange::part(gaps, axis, begin, end - begin); };
  // A number of the step's kind and dtype.
  const auto number = [&](std::complex<double> value) {
    const Scalar scalar = local::is_complex(step.dtype()) ? Scalar(value) : Scalar(value.real());
    return step.weak() || local::is_integer(step.dtype()) ? scalar : typed(scalar, step.dtype());
  };
  const auto edge = [&](bool first) -> Array {
    if (edge_order == 1) {
      const int64_t from = first ? 0 : n - 2;
      const Array rise = at(from + 1) - at(from);
      return given ? rise / gap(from, from + 1) : divide(rise, step);
    }
    const int64_t base = first ? 0 : n - 3;
    const Array f0 = at(base), f1 = at(base + 1), f2 = at(base + 2);
    if (!given) {
      constexpr double k[2][3] = {{-1.5, 2.0, -0.5}, {0.5, -2.0, 1.5}};
      const double* c = k[first ? 0 : 1];
      const auto over = [&](double factor) { return number(factor / step.as_complex()); };
      return over(c[0]) * f0 + over(c[1]) * f1 + over(c[2]) * f2;
    }
    const Array h1 = gap(base, base + 1), h2 = gap(base + 1, base + 2), both = h1 + h2, product = h1 * h2;
    const Array a = first ? -(2.0 * h1 + h2) / (h1 * both) : h2 / (h1 * both);
    const Array b = first ? both / product : -both / product;
    const Array c = first ? -h1 / (h2 * both) : (2.0 * h2 + h1) / (h2 * both);
    return a * f0 + b * f1 + c * f2;
  };
  const DType dtype = f.dtype() == DType::bool_ ? DType::float64 : f.dtype();
  std::vector<Array> parts{edge(true).astype(dtype)};
  if (n > 2) {
    const Array left = between(f, axis, {}, -2), right = between(f, axis, 2, {});
    if (given) {
      const Array middle = between(f, axis, 1, -1), h1 = gap(0, n - 2), h2 = gap(1, n - 1), both = h1 + h2;
      const Array a = -h2 / (h1 * both), b = (h2 - h1) / (h1 * h2), c = h1 / (h2 * both);
      parts.push_back((a * left + b * middle + c * right).astype(dtype));
    } else {
      parts.push_back(divide(right - left, number(2.0 * step.as_complex())).astype(dtype));
    }
  }
  parts.push_back(edge(false).astype(dtype));
  return joined(parts, axis);
}

}  // namespace

ArrayList gradient(const Array& f, const std::vector<Spacing>& given, const Axes& axis, int64_t edge_order) {
  axis.mask(f.ndim());
  std::vector<int64_t> list;
  for (const int64_t a : axis.none() ? arrange::axes_in_order(f.ndim()) : axis.list())
    list.push_back(local::normalize_axis(a, f.ndim()));
  std::vector<Spacing> spacings = given;
  if (spacings.empty()) spacings.assign(list.size(), Spacing(Scalar(1.0)));
  if (spacings.size() == 1 && list.size() != 1 && std::holds_alternative<Scalar>(spacings[0]))
    spacings.assign(list.size(), Spacing(spacings[0]));
  if (spacings.size() != list.size()) throw local::TypeError("invalid number of arguments");
  if (edge_order > 2) throw InvalidArgument("'edge_order' greater than 2 not supported");
  // Integers would wrap.
  const Array values = local::is_integer(f.dtype()) ? f.astype(DType::float64) : f;
  ArrayList results;
  for (size_t i = 0; i < list.size(); ++i) {
    if (f.shape()[static_cast<int>(list[i])] < edge_order + 1)
      throw InvalidArgument(
          "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
          "required.");
    results.push_back(gradient_along(values, spacings[i], static_cast<int>(list[i]), edge_order));
  }
  return results;
}
ArrayList gradient(const Array& f, double spacing, const Axes& axis, int64_t edge_order) {
  return gradient(f, std::vector<Spacing>{Scalar(spacing)}, axis, edge_order);
}

namespace {

// The sliding products of a with the shorter v, which a task holds whole: a chunk of them follows the elements of a
// that meet v there.
Array sliding_products(const Array& a, const Array& v, std::string_view mode) {
  const int64_t taps = v.size();
  const auto [before, results] = local::ops::sliding_extent(mode, a.size(), taps);
  const AxisChunks cuts(results, std::max<int64_t>(a.chunks().axis(0).largest(), 1));
  algo::Along along = algo::Along::following(0, cuts);
  along.before = before;
  along.after = taps - 1 - before;
  algo::MapSpec spec;
  spec.name = "convolve";
  spec.along = {{along}, {algo::Along::whole()}};
  spec.outputs = {{{results}, promoted({a, v}), Grid({cuts}), a.node()->chosen_grid}};
  spec.bytes_per_element = sizeof(double);  // what narrow floats are widened to
  spec.function = [before = before, taps](std::span<const NdArray> arrays, const ChunkPlace& place) {
    const NdArray &part = arrays[0], backwards = arrange::backwards(arrays[1], 0);
    const int64_t count = place.outputs[0].count[0];
    // Where the first result's element 0 of v is; the part begins there, unless that is outside of a.
    const int64_t missing = place.arguments[0].start[0] - (place.outputs[0].start[0] - before);
    if (missing == 0 && part.size() == count + taps - 1)
      return std::vector<NdArray>{local::ops::convolve(part, backwards, "valid")};
    const NdArray all = local::ops::convolve(part, backwards, "full");
    return std::vector<NdArray>{arrange::part(all, 0, taps - 1 - missing, count)};
  };
  return Array(algo::map(std::move(spec), {a.node(), v.node()})[0]);
}

Array as_vector(const Array& a) {
  if (a.ndim() > 1) throw InvalidArgument("object too deep for desired array");
  return arrange::at_least(a, 1);
}

}  // namespace

Array correlate(const Array& a_in, const Array& v_in, std::string_view mode) {
  for (const Array* array : {&a_in, &v_in})
    if (array->ndim() == 0) throw InvalidArgument("object of too small depth for desired array");
  const Array a = as_vector(a_in), plain = as_vector(v_in);
  if (a.size() == 0) throw InvalidArgument("first array argument cannot be empty");
  if (plain.size() == 0) throw InvalidArgument("second array argument cannot be empty");
  const Array v = conjugated(plain);
  if (a.size() >= v.size()) return sliding_products(a, v, mode);
  return arrange::backwards(sliding_products(v, a, mode), 0);
}

Array convolve(const Array& a_in, const Array& v_in, std::string_view mode) {
  const Array a = as_vector(a_in), v = as_vector(v_in);
  const bool swapped = v.size() > a.size();
  const Array &longer = swapped ? v : a, &shorter = swapped ? a : v;
  if (longer.size() == 0) throw InvalidArgument("a cannot be empty");
  if (shorter.size() == 0) throw InvalidArgument("v cannot be empty");
  return sliding_products(longer, arrange::backwards(shorter, 0), mode);
}

Array interp(const Array& x, const Array& xp, const Array& fp, std::optional<Scalar> left, std::optional<Scalar> right,
             std::optional<double> period) {
  const Array both[] = {xp, fp};
  const std::vector<NdArray> points = to_host(both);
  const NdArray nothing(Dims{0}, x.dtype(), local::default_context(local::kCpu));
  const DType dtype = local::ops::interp(nothing, points[0], points[1], left, right, period).dtype();  // checks
  op::Hash identity;
  for (const std::optional<Scalar>& value : {left, right}) {
    const std::complex<double> z = value ? value->as_complex() : 0;
    identity.add(value.has_value()).add(z.real()).add(z.imag());
  }
  identity.add(period.has_value()).add(period.value_or(0));
  const Array arrays[] = {x, Array::from_local(points[0].reshape({-1})), Array::from_local(points[1].reshape({-1}))};
  const auto function = [left, right, period](const NdArray& at, const NdArray& places, const NdArray& values) {
    return local::ops::interp(at, places, values, left, right, period);
  };
  const BlockOptions options{.name = "interp", .dtypes = {dtype}, .identity = identity.value};
  return apply_gufunc(block_function(function), "(),(n),(n)->()", arrays, {}, options)[0];
}

}  // namespace quarry
