// Scans and differences, products, interpolation, functions applied to parts of arrays, and polynomials.
// See local/ops/scans, local/ops/products and local/ops/numerical.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/numerical/math.h"
#include "quarry/local/ops/scans/scans.h"

namespace quarry::local {

using ops::cumprod;
using ops::cumsum;
using ops::cumulative_prod;
using ops::cumulative_sum;
using ops::diff;
using ops::ediff1d;
using ops::nancumprod;
using ops::nancumsum;
using ops::trapezoid;
using ops::unwrap;

// One array per axis. It is the array itself where there is one: NdArray g = gradient(f) for one dimension.
struct ArrayList : std::vector<NdArray> {
  using std::vector<NdArray>::vector;
  ArrayList(std::vector<NdArray> arrays) : std::vector<NdArray>(std::move(arrays)) {}
  // Throws InvalidArgument unless there is one.
  operator NdArray() const {
    if (size() != 1) throw InvalidArgument("the result has " + std::to_string(size()) + " arrays, one per axis");
    return front();
  }
};
// Central differences along all axes or those given; spacing: one number for all, or one number or array of positions
// per axis.
inline ArrayList gradient(const NdArray& f, const std::vector<ops::Spacing>& spacing = {}, const Axes& axis = {},
                          int64_t edge_order = 1) {
  std::variant<NdArray, std::vector<NdArray>> result = ops::gradient(f, spacing, axis, edge_order);
  if (NdArray* one = std::get_if<NdArray>(&result)) return ArrayList{std::vector<NdArray>{std::move(*one)}};
  return ArrayList{std::move(std::get<1>(result))};
}
inline ArrayList gradient(const NdArray& f, double spacing, const Axes& axis = {}, int64_t edge_order = 1) {
  return gradient(f, std::vector<ops::Spacing>{Scalar(spacing)}, axis, edge_order);
}

using ops::cross;
using ops::dot;
using ops::inner;
using ops::kron;
using ops::matmul;
using ops::matvec;
using ops::outer;
using ops::vdot;
using ops::vecdot;
using ops::vecmat;

// In less than float32's precision on request (local/program/precision.h); as everywhere, exact is the default.
inline NdArray matmul(const NdArray& x1, const NdArray& x2, Precision precision) {
  return ops::matmul(x1, x2, std::nullopt, Casting::same_kind, "K", std::nullopt, /*subok=*/true, std::nullopt,
                     precision);
}
inline NdArray dot(const NdArray& a, const NdArray& b, Precision precision) {
  return ops::dot(a, b, std::nullopt, precision);
}

// Over the last `axes` axes of a and the first of b, or over pairs: tensordot(a, b, {{1, 2}, {0, 1}}).
inline NdArray tensordot(const NdArray& a, const NdArray& b, int64_t axes = 2, Precision precision = Precision::exact) {
  return ops::tensordot(a, b, axes, precision);
}
inline NdArray tensordot(const NdArray& a, const NdArray& b, const std::vector<Ints>& axes,
                         Precision precision = Precision::exact) {
  return ops::tensordot(a, b, axes, precision);
}

// einsum("ij,jk->ik", a, b), and einsum(Precision::tf32, "ij,jk->ik", a, b)
template <class... Arrays>
requires(std::is_convertible_v<const Arrays&, NdArray>&&...) NdArray
    einsum(Precision precision, std::string_view subscripts, const Arrays&... operands) {
  return ops::einsum(ops::EinsumOperands{std::string(subscripts), NdArray(operands)...}, std::nullopt, std::monostate{},
                     std::nullopt, "K", Casting::safe, precision);
}
template <class... Arrays>
requires(std::is_convertible_v<const Arrays&, NdArray>&&...) NdArray
    einsum(std::string_view subscripts, const Arrays&... operands) {
  return einsum(Precision::exact, subscripts, operands...);
}
template <class... Arrays>
requires(std::is_convertible_v<const Arrays&, NdArray>&&...) std::pair<ops::EinsumPath, std::string> einsum_path(
    std::string_view subscripts, const Arrays&... operands) {
  return ops::einsum_path(ops::EinsumOperands{std::string(subscripts), NdArray(operands)...});
}

using ops::convolve;
using ops::correlate;
using ops::interp;

// func1d(line, args...) for every line along the axis.
template <class F, class... Args>
requires std::is_invocable_v<F, NdArray, const Args&...> NdArray apply_along_axis(F func1d, int64_t axis,
                                                                                  const NdArray& arr,
                                                                                  const Args&... args) {
  return ops::apply_along_axis([&](std::span<const NdArray> line) -> NdArray { return func1d(line[0], args...); }, axis,
                               arr);
}
// func(array, axis) for each of the axes in turn.
template <class F>
requires std::is_invocable_v<F, NdArray, int64_t> NdArray apply_over_axes(F func, const NdArray& a, const Ints& axes) {
  return ops::apply_over_axes(
      [&](std::span<const NdArray> args) -> NdArray { return func(args[0], args[1].item<int64_t>()); }, a, axes);
}

// One part of piecewise(): a function of the elements, or a value.
class Piece {
 public:
  template <class F>
  requires std::is_invocable_v<F, NdArray> Piece(F function)
      : value_(ArrayFunction([function](std::span<const NdArray> args) -> NdArray { return function(args[0]); })) {}
  template <detail::Literal T>
  Piece(T value) : value_(Arg(value)) {}
  const std::variant<ArrayFunction, Arg>& value() const { return value_; }

 private:
  std::variant<ArrayFunction, Arg> value_;
};
// piecewise(x, {x < 0, x >= 0}, {[](const auto& v) { return -v; }, 0.5})
inline NdArray piecewise(const NdArray& x, const std::vector<NdArray>& condlist, const std::vector<Piece>& funclist) {
  std::vector<std::variant<ArrayFunction, Arg>> pieces;
  for (const Piece& piece : funclist) pieces.push_back(piece.value());
  return ops::piecewise(x, ops::stack(condlist), pieces);
}

using ops::poly;
using ops::polyadd;
using ops::polyder;
using ops::polydiv;
using ops::polyint;
using ops::polymul;
using ops::polysub;
using ops::polyval;
using ops::roots;

// The coefficients of the least-squares polynomial, highest power first.
struct Full {};
struct Cov {};
inline constexpr Full full_result{};
inline constexpr Cov covariance{};
inline NdArray polyfit(const NdArray& x, const NdArray& y, int64_t deg, std::optional<double> rcond = std::nullopt,
                       const std::optional<NdArray>& w = std::nullopt) {
  return std::get<NdArray>(ops::polyfit(x, y, deg, rcond, false, w));
}
// auto [coefficients, residuals, rank, singular_values, rcond] = polyfit(x, y, 2, full_result)
inline std::tuple<NdArray, NdArray, Scalar, NdArray, double> polyfit(const NdArray& x, const NdArray& y, int64_t deg,
                                                                     Full, std::optional<double> rcond = std::nullopt,
                                                                     const std::optional<NdArray>& w = std::nullopt) {
  return std::get<2>(ops::polyfit(x, y, deg, rcond, true, w));
}
// auto [coefficients, covariances] = polyfit(x, y, 2, covariance)
inline std::pair<NdArray, NdArray> polyfit(const NdArray& x, const NdArray& y, int64_t deg, Cov,
                                           std::optional<double> rcond = std::nullopt,
                                           const std::optional<NdArray>& w = std::nullopt) {
  return std::get<1>(ops::polyfit(x, y, deg, rcond, false, w, true));
}

}  // namespace quarry::local
