// Arrays made from nothing, from numbers, and from functions. See local/ops/creation/creation.h.
#pragma once

#include <array>
#include <functional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/api/names.h"
#include "quarry/local/ndarray/dlpack.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/manipulation/windows.h"

namespace quarry::local {

using ops::array;  // array({{1, 2}, {3, 4}}), array(x, f32)
using ops::asarray;
using ops::empty;
using ops::empty_like;
using ops::eye;
using ops::full;
using ops::full_like;
using ops::geomspace;
using ops::identity;
using ops::logspace;
using ops::ones;
using ops::ones_like;
using ops::vander;
using ops::zeros;
using ops::zeros_like;

using ops::bartlett;
using ops::blackman;
using ops::hamming;
using ops::hanning;
using ops::kaiser;

using ops::from_dlpack;

inline NdArray asanyarray(const NdArray& a, std::optional<DType> dtype = std::nullopt) { return asarray(a, dtype); }

using ops::arange;  // arange(5), arange(1, 5), arange(0., 1., 0.1, f32)
inline NdArray arange(const Scalar& stop, DType dtype) { return ops::arange(stop, std::nullopt, 1, dtype); }
inline NdArray arange(const Scalar& start, const Scalar& stop, DType dtype) {
  return ops::arange(start, stop, 1, dtype);
}

// Also returns what NumPy returns with a keyword: auto [x, step] = linspace(0, 1, 50, retstep).
struct RetStep {};
inline constexpr RetStep retstep{};

inline NdArray linspace(const Arg& start, const Arg& stop, int64_t num = 50, bool endpoint = true,
                        std::optional<DType> dtype = std::nullopt, int64_t axis = 0) {
  return std::get<NdArray>(ops::linspace(start, stop, num, endpoint, false, dtype, axis));
}
inline std::pair<NdArray, NdArray> linspace(const Arg& start, const Arg& stop, int64_t num, RetStep,
                                            bool endpoint = true, std::optional<DType> dtype = std::nullopt,
                                            int64_t axis = 0) {
  return std::get<1>(ops::linspace(start, stop, num, endpoint, true, dtype, axis));
}

// function(i, j ...) of the positions along every axis, as float64 arrays unless `dtype` says otherwise.
template <class F>
NdArray fromfunction(F function, const Ints& shape, std::optional<DType> dtype = std::nullopt) {
  const ArrayFunction called = [&function](std::span<const NdArray> args) -> NdArray {
    const auto arity = [&]<size_t... I>(std::index_sequence<I...>)->NdArray { return function(args[I]...); };
    if constexpr (std::is_invocable_v<F, std::span<const NdArray>>) {
      return function(args);
    } else {
      switch (args.size()) {
        case 1:
          if constexpr (std::is_invocable_v<F, NdArray>) return arity(std::make_index_sequence<1>{});
          break;
        case 2:
          if constexpr (std::is_invocable_v<F, NdArray, NdArray>) return arity(std::make_index_sequence<2>{});
          break;
        case 3:
          if constexpr (std::is_invocable_v<F, NdArray, NdArray, NdArray>) return arity(std::make_index_sequence<3>{});
          break;
        default:
          break;
      }
      throw InvalidArgument("fromfunction(): the function does not take one position per axis");
    }
  };
  return ops::fromfunction(called, shape, dtype);
}

// auto [x, y] = meshgrid(a, b). Every array has the shape of the grid.
template <class... Arrays>
requires(std::is_convertible_v<const Arrays&, NdArray>&&...) std::array<NdArray, sizeof...(Arrays)> meshgrid(
    const Arrays&... xi) {
  const std::vector<NdArray> grids = ops::meshgrid({NdArray(xi)...});
  std::array<NdArray, sizeof...(Arrays)> result;
  std::copy(grids.begin(), grids.end(), result.begin());
  return result;
}
using ops::meshgrid;  // of a vector, with copy, sparse and indexing

}  // namespace quarry::local
