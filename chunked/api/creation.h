// Arrays made from nothing, from numbers, and from functions of their positions. Lazy; they take no storage: their
// elements are computed where they are used.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/base/error.h"

namespace quarry {

// ---- Arrays and numbers ----

// An array, a number (0-d), numbers in braces or an array of one process, which must be the same on every rank.
Array asarray(const Operand& a, std::optional<DType> dtype = std::nullopt);
inline Array array(const Operand& object, std::optional<DType> dtype = std::nullopt) { return asarray(object, dtype); }
// In chunks of these extents (-1: the whole axis). Throws InvalidArgument for chunks that do not fit.
Array from_array(const NdArray& x, const std::optional<Dims>& chunks = std::nullopt);
Array from_array(const Array& x, const std::optional<Dims>& chunks = std::nullopt);
// Of an array that shares the producer's memory by DLPack; the data is copied.
Array from_dlpack(const NdArray& x);

// ---- One value ----

// An array broadcasts to the shape. Without a dtype the value decides it. Throw InvalidArgument for negative extents.
Array full(const Dims& shape, const Operand& value, std::optional<DType> dtype = std::nullopt);
Array zeros(const Dims& shape, DType dtype = DType::float64);
Array ones(const Dims& shape, DType dtype = DType::float64);
Array empty(const Dims& shape, DType dtype = DType::float64);  // some value: 0
Array full_like(const Array& a, const Operand& fill_value, std::optional<DType> dtype = std::nullopt,
                const std::optional<Dims>& shape = std::nullopt);
Array zeros_like(const Array& a, std::optional<DType> dtype = std::nullopt,
                 const std::optional<Dims>& shape = std::nullopt);
Array ones_like(const Array& a, std::optional<DType> dtype = std::nullopt,
                const std::optional<Dims>& shape = std::nullopt);
Array empty_like(const Array& a, std::optional<DType> dtype = std::nullopt,
                 const std::optional<Dims>& shape = std::nullopt);

// ---- Ranges ----

// start, start + step, ... below stop. Default dtype: that of the arguments. Throws InvalidArgument for step 0, NaN or
// more elements than 64 bits count.
Array arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1,
             std::optional<DType> dtype = std::nullopt);
Array arange(const Scalar& start, const Scalar& stop, DType dtype);
Array arange(const Scalar& stop);
Array arange(const Scalar& stop, DType dtype);
// `num` evenly spaced values, along a new axis where start and stop are arrays; the last is exactly `stop` with
// endpoint. Throws InvalidArgument for num < 0.
Array linspace(const Operand& start, const Operand& stop, int64_t num = 50, bool endpoint = true,
               std::optional<DType> dtype = std::nullopt, int64_t axis = 0);
// Also the distance: auto [x, step] = linspace(0, 1, 50, retstep).
struct RetStep {};
inline constexpr RetStep retstep{};
std::pair<Array, Array> linspace(const Operand& start, const Operand& stop, int64_t num, RetStep, bool endpoint = true,
                                 std::optional<DType> dtype = std::nullopt, int64_t axis = 0);
// base ** linspace(start, stop).
Array logspace(const Operand& start, const Operand& stop, int64_t num = 50, bool endpoint = true,
               const Operand& base = 10.0, std::optional<DType> dtype = std::nullopt, int64_t axis = 0);
// A geometric progression; start and stop may be negative or complex, but not zero: arrays are computed to see that
// (blocking, collective), and InvalidArgument is thrown.
Array geomspace(const Operand& start, const Operand& stop, int64_t num = 50, bool endpoint = true,
                std::optional<DType> dtype = std::nullopt, int64_t axis = 0);

namespace fft {
// 0, 1 ... in steps of 1 / (n d), the upper half negative; float64. Throws InvalidArgument for n d == 0, and for n < 0.
Array fftfreq(int64_t n, double d = 1.0);
// Not negative: n / 2 + 1 of them, none for n < 0.
Array rfftfreq(int64_t n, double d = 1.0);
}  // namespace fft

// ---- Grids ----

// 1 where column - row == k.
Array eye(int64_t rows, std::optional<int64_t> columns = std::nullopt, int64_t k = 0, DType dtype = DType::float64);
Array identity(int64_t n, DType dtype = DType::float64);
// One array per axis with the positions along it, stacked; sparse: one array per axis, of extent 1 along the others.
Array indices(const Dims& dimensions, DType dtype = DType::int64);
struct Sparse {};
inline constexpr Sparse sparse_grid{};
std::vector<Array> indices(const Dims& dimensions, Sparse, DType dtype = DType::int64);
// Coordinate arrays of the vectors xi: views. Throws InvalidArgument for an indexing but "xy" and "ij".
std::vector<Array> meshgrid(const std::vector<Array>& xi, bool copy = true, bool sparse = false,
                            std::string_view indexing = "xy");
// auto [x, y] = meshgrid(a, b)
template <class... Arrays>
requires(std::is_convertible_v<const Arrays&, Array>&&...) std::array<Array, sizeof...(Arrays)> meshgrid(
    const Arrays&... xi) {
  const std::vector<Array> grids = meshgrid(std::vector<Array>{Array(xi)...});
  std::array<Array, sizeof...(Arrays)> result;
  std::copy(grids.begin(), grids.end(), result.begin());
  return result;
}

namespace detail {
// The positions along each axis, of the whole shape.
std::vector<Array> position_arrays(const Dims& shape, DType dtype);
template <int arity, class F>
Array call_with(F& function, const std::vector<Array>& args) {
  if constexpr (arity > 8) {
    throw local::InvalidArgument("fromfunction(): the function does not take one position per axis");
  } else {
    if (args.size() != arity) return call_with<arity + 1>(function, args);
    const auto called = [&]<size_t... I>(std::index_sequence<I...>)->Array {
      if constexpr (std::is_invocable_v<F&, decltype((static_cast<void>(I), args[0]))...>)
        return function(args[I]...);
      else
        throw local::InvalidArgument("fromfunction(): the function does not take one position per axis");
    };
    return called(std::make_index_sequence<arity>());
  }
}
}  // namespace detail
// function(i, j ...) of the positions along every axis, as float64 arrays unless `dtype` says otherwise.
template <class F>
Array fromfunction(F function, const Dims& shape, std::optional<DType> dtype = std::nullopt) {
  return detail::call_with<1>(function, detail::position_arrays(shape, dtype.value_or(DType::float64)));
}

}  // namespace quarry
