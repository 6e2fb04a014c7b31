// Calls of operators with what they mean on whole arrays: one row each, for tests on one rank and on several.
#pragma once

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/local.h"

namespace quarry::testing {

using NdArrays = std::vector<local::NdArray>;

// Random numbers for shapes, cuts and values; equal seeds give equal ones on every rank.
class Choices {
 public:
  explicit Choices(uint64_t seed) : random_(seed) {}
  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  // Extents among which are 0 and 1.
  local::Dims shape(int ndim) {
    local::Dims shape;
    for (int d = 0; d < ndim; ++d) shape.push_back(pick(0, 11) == 0 ? pick(0, 1) : pick(2, ndim > 2 ? 8 : 19));
    return shape;
  }
  // Small integers, so that sums are exact in any order; some are NaN if `nan`.
  local::NdArray values(const local::Dims& shape, local::DType dtype, bool nan = false) {
    std::vector<double> values(static_cast<size_t>(local::element_count(shape)));
    for (double& value : values) value = nan && pick(0, 4) == 0 ? local::nan : static_cast<double>(pick(-9, 9));
    return local::from_vector(values, shape).astype(dtype);
  }
  // Uneven cuts, from one chunk to chunks of one element.
  Grid grid(const local::Dims& shape) {
    std::vector<AxisChunks> axes;
    for (const int64_t extent : shape) {
      const int64_t kind = pick(0, 3);
      if (kind == 0) {
        axes.emplace_back(extent, std::max<int64_t>(extent, 1));
        continue;
      }
      std::vector<int64_t> extents;
      for (int64_t left = extent; left > 0; left -= extents.back())
        extents.push_back(kind == 1 ? 1 : std::min(left, pick(1, 7)));
      axes.emplace_back(extents);
    }
    return Grid(std::move(axes));
  }
  Array cut(const local::NdArray& array) { return Array::from_local(array).rechunk(grid(array.shape())); }
  local::DType dtype() {
    constexpr local::DType kinds[] = {local::DType::float64, local::DType::float32, local::DType::int64,
                                      local::DType::complex128};
    return kinds[pick(0, 3)];
  }

 private:
  std::mt19937_64 random_;
};

struct OperatorCall {
  std::vector<Array> chunked;
  NdArrays expected;
};
struct OperatorRow {
  const char* name;
  OperatorCall (*make)(Choices& choices);
};

// All rows. An operator without one is not tested.
inline const std::vector<OperatorRow>& operator_rows();

// --- the rows ---

namespace rows {

namespace ops = local::ops;
using local::DType;
using local::NdArray;

inline OperatorCall reshaped(Choices& choices) {
  const NdArray x = choices.values(choices.shape(3), choices.dtype());
  const local::Dims to{x.shape()[0] * x.shape()[1], x.shape()[2]};
  return {{reshape(choices.cut(x), to), ravel(choices.cut(x))}, {x.reshape(to), x.reshape({-1})}};
}

inline OperatorCall concatenated(Choices& choices) {
  const DType dtype = choices.dtype();
  local::Dims shape = choices.shape(2);
  NdArrays parts;
  std::vector<Array> arrays;
  const int axis = static_cast<int>(choices.pick(0, 1));
  for (int i = 0; i < 3; ++i) {
    shape[axis] = choices.pick(0, 9);
    parts.push_back(choices.values(shape, dtype));
    arrays.push_back(choices.cut(parts.back()));
  }
  const NdArray whole = ops::concatenate(parts, axis);
  const local::Slice backwards{{}, {}, -2};
  const local::IndexItem index[] = {local::Slice{}, backwards};
  const std::span<const local::IndexItem> items(index + (axis == 0 ? 1 : 0), axis == 0 ? 1 : 2);
  const Array joined = concatenate(arrays, axis);
  return {{joined, joined[items]}, {whole, whole[items]}};
}

inline OperatorCall eigenvalues(Choices& choices) {
  const int64_t n = choices.pick(0, 12);
  NdArray x = choices.values({n, n}, choices.pick(0, 1) == 0 ? DType::float64 : DType::float32);
  x = ops::add(x, x.T());
  const auto [values, vectors] = linalg::eigh(choices.cut(x));
  // The vectors' signs are free: what they diagonalise is compared.
  const Array again = matmul(vectors * expand_dims(values, 0), vectors.T());
  return {{values, again}, {local::linalg::eigvalsh(x), x}};
}

inline OperatorCall called_on_one_chunk(Choices& choices) {
  const NdArray x = choices.values(choices.shape(2), choices.dtype());
  const Array arrays[] = {choices.cut(x)};
  const std::vector<Array> sorted = local_call(
      "sort_with_positions", arrays,
      [](std::span<const Array> given) {
        return std::vector<LocalResult>{{given[0].shape(), given[0].dtype()}, {given[0].shape(), DType::int64}};
      },
      [](std::span<const NdArray> given) {
        return NdArrays{ops::sort(given[0], 0), ops::argsort(given[0], 0, "stable")};
      },
      {.identity = 1});
  return {sorted, {ops::sort(x, 0), ops::argsort(x, 0, "stable")}};
}

inline OperatorCall blocks(Choices& choices) {
  const NdArray x = choices.values(choices.shape(3), DType::float64);
  const NdArray y = choices.values({x.shape()[1], 1}, DType::float32);
  const Array cut_x = choices.cut(x), cut_y = choices.cut(y);
  const Array product =
      map_blocks([](const NdArray& a, const NdArray& b) { return ops::multiply(a, b); }, {cut_x, cut_y});
  // Where a chunk is: every element becomes its position along axis 0.
  const Array position = map_blocks(
      [](const NdArray& a, const ChunkPlace& place) {
        const int64_t first = place.outputs[0].start[0];
        return ops::add(ops::zeros(a.shape(), DType::int64),
                        ops::add(ops::arange(a.shape()[0]), first).reshape({-1, 1, 1}));
      },
      cut_x);
  const NdArray expected = ops::add(ops::zeros(x.shape(), DType::int64), ops::arange(x.shape()[0]).reshape({-1, 1, 1}));
  return {{product, position}, {ops::multiply(x, y), expected}};
}

inline OperatorCall dropped_and_new_axes(Choices& choices) {
  local::Dims shape = choices.shape(3);
  const NdArray x = choices.values(shape, DType::float64);
  const Array sums = map_blocks([](const NdArray& a) { return ops::sum(a, 1); }, choices.cut(x), {.drop_axis = {1}});
  const Array wider =
      map_blocks([](const NdArray& a) { return ops::expand_dims(a, 0); }, choices.cut(x), {.new_axis = {0}});
  return {{sums, wider}, {ops::sum(x, 1), ops::expand_dims(x, 0)}};
}

inline OperatorCall contraction(Choices& choices) {
  const int64_t m = choices.pick(1, 9), k = choices.pick(1, 9), n = choices.pick(1, 9);
  const NdArray a = choices.values({m, k}, DType::float64), b = choices.values({k, n}, DType::float64);
  const Array c = blockwise([](const NdArray& x, const NdArray& y) { return ops::matmul(x, y); }, "ij",
                            {{choices.cut(a), "ik"}, {choices.cut(b), "kj"}});
  const Array doubled = blockwise(
      [](const NdArray& x) {
        return ops::concatenate({x, x}, 0);
      },
      "ji", {{choices.cut(a), "ji"}}, {.adjust_chunks = {{'j', [](int64_t extent) { return 2 * extent; }}}});
  return {{c, sum(doubled, 0)}, {ops::matmul(a, b), ops::multiply(ops::sum(a, 0), 2.0)}};
}

inline OperatorCall overlaps(Choices& choices) {
  local::Dims shape = choices.shape(2);
  for (int64_t& extent : shape) extent = std::max<int64_t>(extent, 3);
  const NdArray x = choices.values(shape, choices.pick(0, 1) == 0 ? DType::float64 : DType::int64);
  const int64_t rows = choices.pick(0, 3), columns = choices.pick(0, 3);
  // Sums over the neighbourhood, by slices of the padded array.
  const auto neighbours = [rows, columns](const NdArray& padded) {
    const int64_t m = padded.shape()[0] - 2 * rows, n = padded.shape()[1] - 2 * columns;
    NdArray total = ops::zeros({m, n}, padded.dtype());
    for (int64_t i = 0; i <= 2 * rows; ++i)
      for (int64_t j = 0; j <= 2 * columns; ++j)
        total = ops::add(total, padded[{local::Slice{i, i + m, 1}, local::Slice{j, j + n, 1}}]);
    return total;
  };
  OperatorCall call;
  constexpr std::pair<Edge, const char*> kEdges[] = {
      {Edge::reflect, "symmetric"}, {Edge::periodic, "wrap"}, {Edge::nearest, "edge"}, {Edge::constant, "constant"}};
  for (const auto& [edge, mode] : kEdges) {
    const NdArray padded = ops::pad(x, local::from_vector<int64_t>({rows, rows, columns, columns}, {2, 2}), mode);
    call.expected.push_back(neighbours(padded));
    call.chunked.push_back(map_overlap(neighbours, choices.cut(x), {{rows, columns}, {{edge, 0}}, /*trim=*/false},
                                       {.dtypes = {x.dtype()}}));
    // With the halo taken off afterwards.
    call.expected.push_back(ops::add(x, 1));
    call.chunked.push_back(map_overlap([](const NdArray& a) { return ops::add(a, 1); }, choices.cut(x),
                                       {{rows, columns}, {{edge, 7}}}, {.dtypes = {x.dtype()}}));
  }
  call.expected.push_back(ops::multiply(x, 3));
  call.chunked.push_back(
      map_overlap([](const NdArray& a) { return ops::multiply(a, 3); }, choices.cut(x), {{rows, columns}, {}}));
  return call;
}

inline OperatorCall gufuncs(Choices& choices) {
  const int64_t core = choices.pick(1, 8);
  local::Dims shape = choices.shape(2);
  shape.push_back(core);
  const NdArray x = choices.values(shape, DType::float64), w = choices.values({shape[1], core}, DType::float64);
  const Array arrays[] = {choices.cut(x), choices.cut(w)};
  const std::vector<Array> results = apply_gufunc(block_function([](const NdArray& a, const NdArray& b) {
                                                    return std::pair(ops::sum(ops::multiply(a, b), -1), ops::add(a, b));
                                                  }),
                                                  "(i),(i)->(),(i)", arrays);
  // The same by a function of vectors alone.
  const std::vector<Array> each = apply_gufunc(
      block_function([](const NdArray& a, const NdArray& b) { return std::pair(ops::vdot(a, b), ops::add(a, b)); }),
      "(i),(i)->(),(i)", arrays, {.vectorize = true});
  const NdArray product = ops::sum(ops::multiply(x, w), -1), sum = ops::add(x, w);
  return {{results[0], results[1], each[0], each[1]}, {product, sum, product, sum}};
}

inline OperatorCall windows(Choices& choices) {
  local::Dims shape = choices.shape(2);
  for (int64_t& extent : shape) extent = std::max<int64_t>(extent, 3);
  const NdArray x = choices.values(shape, choices.dtype());
  const local::Dims window{choices.pick(1, 3), choices.pick(1, 3)};
  return {{sliding_window_view(choices.cut(x), window), sliding_window_view(choices.cut(x), {shape[1]}, 1)},
          {ops::sliding_window_view(x, window).copy(), ops::sliding_window_view(x, shape[1], 1).copy()}};
}

// Slices of what another stage makes, that begin elsewhere.
inline OperatorCall shifted_slices(Choices& choices) {
  local::Dims shape = choices.shape(2);
  for (int64_t& extent : shape) extent += 3;
  const NdArray x = choices.values(shape, choices.dtype());
  const Array made =
      map_blocks([](const NdArray& chunk) { return ops::multiply(chunk, 3); }, choices.cut(x), {}, {.identity = 2});
  const local::Slice low{{}, -2, {}}, middle{1, -1, {}}, high{2, {}, {}};
  const auto differences = [&](const auto& a) {
    return a[{middle, low}] + a[{middle, high}] + a[{low, middle}] + a[{high, middle}] - a[{middle, middle}] * 4;
  };
  const NdArray expected = differences(ops::multiply(x, 3));
  const Array result = differences(made);
  if (choices.pick(0, 1) == 0) return {{result}, {expected}};
  return {{result, sum(result, 0)}, {expected, local::sum(expected, 0)}};
}

inline OperatorCall diagonals(Choices& choices) {
  const NdArray x = choices.values(choices.shape(3), choices.dtype());
  const Array made =
      map_blocks([](const NdArray& chunk) { return ops::multiply(chunk, 3); }, choices.cut(x), {}, {.identity = 2});
  const NdArray tripled = ops::multiply(x, 3);
  const int64_t first = choices.pick(0, 2), second = (first + choices.pick(1, 2)) % 3, offset = choices.pick(-4, 4);
  return {{diagonal(made, offset, first, second), trace(made, offset, first, second)},
          {ops::diagonal(tripled, offset, first, second), ops::trace(tripled, offset, first, second)}};
}

inline OperatorCall coarsened(Choices& choices) {
  const int64_t m = choices.pick(0, 6), n = choices.pick(0, 9), factor = choices.pick(1, 4);
  const NdArray x = choices.values({3 * m, n * factor + choices.pick(0, factor - 1)}, DType::float64);
  const Array result = coarsen([](const NdArray& a, const Axes& axes) { return ops::sum(a, axes); }, choices.cut(x),
                               {{0, 3}, {-1, factor}}, /*trim_excess=*/true);
  const NdArray kept = x[{local::Slice{}, local::Slice{0, n * factor, 1}}];
  return {{result}, {ops::sum(kept.copy().reshape({m, 3, n, factor}), Axes(std::vector<int64_t>{1, 3}))}};
}

inline OperatorCall lines(Choices& choices) {
  local::Dims shape = choices.shape(3);
  for (int64_t& extent : shape) extent = std::max<int64_t>(extent, 1);
  const NdArray x = choices.values(shape, DType::float64);
  const int64_t axis = choices.pick(-3, 2);
  const auto twice = [](const NdArray& line) { return ops::stack({line, line}, 1); };
  const auto total = [](const NdArray& line) { return ops::sum(line); };
  const auto of = [&](const auto& function) {
    return ops::apply_along_axis([&](std::span<const NdArray> given) { return function(given[0]); }, axis, x);
  };
  return {{apply_along_axis(twice, axis, choices.cut(x)),
           apply_along_axis(total, axis, choices.cut(x), LocalResult{{}, DType::float64})},
          {of(twice), of(total)}};
}

inline OperatorCall folds(Choices& choices) {
  local::Dims shape = choices.shape(3);
  for (int64_t& extent : shape) extent = std::max<int64_t>(extent, 1);
  const NdArray x = choices.values(shape, DType::float64);
  const auto largest = [](const NdArray& a, const Axes& axes) {
    return ops::max(ops::abs(a), axes, {.keepdims = true});
  };
  const auto count = [](const NdArray& a, const Axes& axes) { return ops::count_nonzero(a, axes); };
  const auto add = [](const NdArray& a, const Axes& axes) { return ops::sum(a, axes); };
  return {{reduction(choices.cut(x), largest, largest, 1), reduction(choices.cut(x), count, add),
           reduction(choices.cut(x), count, add, Axes({0, 2}), /*keepdims=*/true)},
          {ops::max(ops::abs(x), 1), ops::sum(ops::not_equal(x, 0)),
           ops::sum(ops::not_equal(x, 0), Axes({0, 2}), {.keepdims = true})}};
}

inline OperatorCall sums(Choices& choices) {
  const NdArray x = choices.values(choices.shape(3), choices.dtype());
  const int64_t axis = choices.pick(-3, 2);
  return {{cumsum(choices.cut(x), axis), cumsum(choices.cut(x)), cumsum(choices.cut(x), axis, DType::complex128),
           cumulative_sum(choices.cut(x), axis, {}, {}, /*include_initial=*/true)},
          {ops::cumsum(x, axis), ops::cumsum(x), ops::cumsum(x, axis, DType::complex128),
           ops::cumulative_sum(x, axis, {}, {}, /*include_initial=*/true)}};
}

inline OperatorCall products(Choices& choices) {
  const local::Dims shape = choices.shape(2);
  const NdArray x = ops::sign(choices.values(shape, DType::float64, /*nan=*/true));
  const NdArray narrow = choices.values(shape, DType::int8);
  const int64_t axis = choices.pick(0, 1);
  return {{cumprod(choices.cut(x), axis), nancumprod(choices.cut(x), axis), nancumsum(choices.cut(x), axis),
           cumprod(choices.cut(narrow), axis, DType::int8), cumsum(choices.cut(narrow)), nancumsum(choices.cut(narrow)),
           cumulative_prod(choices.cut(x), axis, {}, {}, /*include_initial=*/true)},
          {ops::cumprod(x, axis), ops::nancumprod(x, axis), ops::nancumsum(x, axis),
           ops::cumprod(narrow, axis, DType::int8), ops::cumsum(narrow), ops::nancumsum(narrow),
           ops::cumulative_prod(x, axis, {}, {}, /*include_initial=*/true)}};
}

// Element by element.
inline NdArray filled_forward(const NdArray& x, int64_t n) {
  std::vector<double> values = local::to_vector<double>(x);
  const int64_t columns = x.shape()[1];
  for (int64_t row = 0; row < x.shape()[0]; ++row) {
    int64_t last = -1;
    for (int64_t i = 0; i < columns; ++i) {
      double& value = values[static_cast<size_t>(row * columns + i)];
      if (!std::isnan(value))
        last = i;
      else if (last >= 0 && i - last <= n)
        value = values[static_cast<size_t>(row * columns + last)];
    }
  }
  return local::from_vector(values, x.shape());
}

inline OperatorCall filled(Choices& choices) {
  const NdArray x = choices.values(choices.shape(2), DType::float64, /*nan=*/true);
  const NdArray whole = choices.values({3, 4}, DType::int64);
  const int64_t n = choices.pick(0, 3);
  return {{push(choices.cut(x)), push(choices.cut(x), n), push(choices.cut(whole))},
          {filled_forward(x, 1000), filled_forward(x, n), whole}};
}

// A random mask that is never true, at times, or always.
inline NdArray mask_of(Choices& choices, const local::Dims& shape) {
  const int64_t often = choices.pick(0, 4);
  return ops::less(choices.values(shape, DType::int64), -12 + 6 * often);
}

inline OperatorCall selections(Choices& choices) {
  const NdArray x = choices.values(choices.shape(3), choices.dtype());
  const NdArray rows = mask_of(choices, {x.shape()[0]}), columns = mask_of(choices, {x.shape()[2]});
  const NdArray planes = mask_of(choices, {x.shape()[0], x.shape()[1]}), all = mask_of(choices, x.shape());
  const NdArray shorter = rows[{local::Slice{{}, x.shape()[0] / 2, {}}}].copy();
  return {{choices.cut(x)[choices.cut(rows)], boolean_index(choices.cut(x), choices.cut(planes)),
           boolean_index(choices.cut(x), choices.cut(all)), compress(choices.cut(shorter), choices.cut(x), 0),
           compress(choices.cut(columns), choices.cut(x), -1), extract(choices.cut(all), choices.cut(x))},
          {ops::get(x, {rows}), ops::get(x, {planes}), ops::get(x, {all}), ops::compress(shorter, x, 0),
           ops::compress(columns, x, -1), ops::extract(all, x)}};
}

inline OperatorCall positions(Choices& choices) {
  const NdArray x = choices.values(choices.shape(2), choices.dtype());
  const NdArray mask = mask_of(choices, {choices.pick(0, 40)});
  OperatorCall call{nonzero(choices.cut(x)), {}};
  for (const NdArray& each : ops::nonzero(x)) call.expected.push_back(each);
  call.chunked.push_back(argwhere(choices.cut(x)));
  call.expected.push_back(ops::argwhere(x));
  call.chunked.push_back(flatnonzero(choices.cut(mask)));
  call.expected.push_back(ops::flatnonzero(mask));
  return call;
}

inline OperatorCall takes(Choices& choices) {
  local::Dims shape = choices.shape(2);
  for (int64_t& extent : shape) extent = std::max<int64_t>(extent, 1);
  const NdArray x = choices.values(shape, choices.dtype());
  const auto indices = [&](const local::Dims& of, int64_t extent) {
    std::vector<int64_t> values(static_cast<size_t>(local::element_count(of)));
    for (int64_t& value : values) value = choices.pick(-extent, extent - 1);
    return local::from_vector(values, of);
  };
  const NdArray rows = indices({choices.pick(0, 12)}, shape[0]), table = indices({2, 3}, shape[1]);
  const NdArray flat = indices({5}, shape[0] * shape[1]), ascending = ops::sort(ops::abs(rows)).copy();
  const NdArray limited = ops::remainder(ascending, shape[0]);
  const NdArray along = indices({shape[0], choices.pick(1, 5)}, shape[1]);
  return {{choices.cut(x)[choices.cut(rows)], take(choices.cut(x), choices.cut(table), 1), take(choices.cut(x), flat),
           take(choices.cut(x), limited, 0), take_along_axis(choices.cut(x), choices.cut(along), 1),
           take_along_axis(choices.cut(x), choices.cut(flat), std::nullopt)},
          {ops::take(x, rows, 0), ops::take(x, table, 1), ops::take(x, flat), ops::take(x, limited, 0),
           ops::take_along_axis(x, along, 1), ops::take_along_axis(x, flat, std::nullopt)}};
}

// Positions along an axis, some of them from its end.
inline NdArray picked(Choices& choices, const local::Dims& shape, int64_t extent) {
  std::vector<int64_t> values(static_cast<size_t>(local::element_count(shape)));
  for (int64_t& value : values) value = choices.pick(-extent, extent - 1);
  return local::from_vector(values, shape);
}

inline OperatorCall indices(Choices& choices) {
  local::Dims shape = choices.shape(4);
  for (int64_t& extent : shape) extent = std::min<int64_t>(std::max<int64_t>(extent, 1), 6);
  const NdArray x = choices.values(shape, DType::float64);
  const auto random = [&](const local::Dims& of, int axis) { return picked(choices, of, shape[axis]); };
  const NdArray a = random({3, 1}, 0), b = random({4}, 1), c = random({4}, 2), d = random({2}, 3);
  const NdArray mask = mask_of(choices, {shape[1], shape[2]}), row = mask_of(choices, {shape[3]});
  const NdArray one = random({1}, 3), c_of_one = random({2}, 1);
  const local::Slice all, backwards{{}, {}, -1};
  const local::Ellipsis rest;
  const local::NewAxis added;
  const Array y = choices.cut(x);
  return {{index(y, {a, b}), index(y, {all, b, c}), index(y, {all, b, backwards, one}),
           index(y, {backwards, c_of_one, all, choices.cut(d)}), index(y, {a, all, c}), index(y, {0, all, c, all}),
           index(y, {all, mask, all}), index(y, {rest, row}), index(y, {added, a, all, choices.cut(c), all})},
          {ops::get(x, {a, b}), ops::get(x, {all, b, c}), ops::get(x, {all, b, backwards, one}),
           ops::get(x, {backwards, c_of_one, all, d}), ops::get(x, {a, all, c}), ops::get(x, {0, all, c, all}),
           ops::get(x, {all, mask, all}), ops::get(x, {rest, row}), ops::get(x, {added, a, all, c, all})}};
}

inline OperatorCall spectra(Choices& choices) {
  local::Dims shape = choices.shape(3);
  const int axis = static_cast<int>(choices.pick(0, 2)), other = (axis + static_cast<int>(choices.pick(1, 2))) % 3;
  shape[axis] = std::max<int64_t>(shape[axis], 2), shape[other] = std::max<int64_t>(shape[other], 2);
  const NdArray x = choices.values(shape, DType::float64);
  const NdArray z = choices.values(shape, choices.pick(0, 1) == 0 ? DType::complex64 : DType::complex128);
  const int64_t n = choices.pick(1, 12);
  const std::vector<int64_t> axes{axis, other};
  return {{fft::fft(choices.cut(z), {}, axis), fft::rfft(choices.cut(x), n, axis, "ortho"),
           fft::irfft(choices.cut(z), n, axis), fft::fftn(choices.cut(x), {}, axes),
           fft::irfftn(choices.cut(z), {}, axes, "forward")},
          {local::fft::fft(z, {}, axis), local::fft::rfft(x, n, axis, "ortho"), local::fft::irfft(z, n, axis),
           local::fft::fftn(x, {}, axes), local::fft::irfftn(z, {}, axes, "forward")}};
}

// Longer than 4 chunks: as a matrix, or as a convolution.
inline OperatorCall long_spectra(Choices& choices) {
  const ChunkPolicyScope small({.chunks = {}, .target_bytes = 256});
  const NdArray x = choices.values({2, 12 * choices.pick(8, 16)}, choices.dtype());
  const int64_t n = 12 * choices.pick(9, 15);
  OperatorCall call{{fft::ifft(choices.cut(x))}, {local::fft::ifft(x)}};
  if (!local::is_complex(x.dtype())) {
    call.chunked.push_back(fft::rfft(choices.cut(x), n, 1, "ortho"));
    call.expected.push_back(local::fft::rfft(x, n, 1, "ortho"));
  }
  call.chunked.push_back(fft::irfft(choices.cut(x), n));
  call.expected.push_back(local::fft::irfft(x, n));
  const int64_t prime = choices.pick(0, 1) == 0 ? 101 : 179;
  call.chunked.push_back(fft::fft(choices.cut(x), prime));
  call.expected.push_back(local::fft::fft(x, prime));
  return call;
}

inline OperatorCall matrices(Choices& choices) {
  const int64_t n = choices.pick(1, 6);
  const local::Dims stack = choices.shape(2);
  const NdArray x = choices.values({stack[0], stack[1], n, n}, choices.dtype());
  const NdArray a = ops::add(ops::multiply(x, 0.125), ops::multiply(ops::eye(n), 9));
  const NdArray b = choices.values({stack[1], n, 3}, DType::float64),
                one = a.shape()[0] * a.shape()[1] == 0 ? NdArray(ops::eye(n)) : a[{0, 0}].copy();
  const linalg::SVDResult parts = linalg::svd(choices.cut(a));
  return {{linalg::inv(choices.cut(a)), linalg::solve(choices.cut(a), choices.cut(b)), linalg::inv(choices.cut(one)),
           linalg::solve(choices.cut(one), choices.cut(b)), linalg::slogdet(choices.cut(a)).logabsdet, parts.S,
           linalg::qr(choices.cut(a)).R},
          {local::linalg::inv(a), local::linalg::solve(a, b), local::linalg::inv(one), local::linalg::solve(one, b),
           local::linalg::slogdet(a).logabsdet, local::linalg::svdvals(a), local::linalg::qr(a).R}};
}

inline OperatorCall sorts(Choices& choices) {
  const local::Dims shape = choices.shape(3);
  const NdArray x = choices.values(shape, choices.dtype()), y = choices.values(shape, DType::int8);
  const NdArray missing = choices.values(shape, DType::float64, /*nan=*/true);
  const int64_t axis = choices.pick(-3, 2), last = std::max<int64_t>(shape[static_cast<int>((axis + 3) % 3)] - 1, 0);
  return {{sort(choices.cut(x), axis), sort(choices.cut(missing), std::nullopt), argsort(choices.cut(x), axis),
           argsort(choices.cut(missing), axis, "stable"), lexsort({choices.cut(x), choices.cut(y)}, axis),
           partition(choices.cut(x), {0, last}, axis), argpartition(choices.cut(missing), last, axis)},
          {ops::sort(x, axis), ops::sort(missing, std::nullopt), ops::argsort(x, axis),
           ops::argsort(missing, axis, "stable"), ops::lexsort({x, y}, axis), ops::partition(x, {0, last}, axis),
           ops::argpartition(missing, last, axis)}};
}

// Chunks of a few elements, so that short lines are long.
inline OperatorCall sorts_by_runs(Choices& choices) {
  const ChunkPolicyScope policy({chunk_policy().device, {}, choices.pick(4, 16)});
  const DType dtype = choices.dtype();
  const bool nan = local::is_float(dtype) || local::is_complex(dtype);
  const NdArray x = choices.values(choices.shape(2), dtype, nan), y = choices.values(x.shape(), DType::int8);
  const int axis = static_cast<int>(choices.pick(0, 1));
  const Array a = choices.cut(x), b = choices.cut(y);
  return {
      {sort(a, axis), sort(a, std::nullopt, "stable"), argsort(a, axis), lexsort({a, b}, axis), partition(b, 0, axis)},
      {ops::sort(x, axis), ops::sort(x, std::nullopt, "stable"), ops::argsort(x, axis), ops::lexsort({x, y}, axis),
       ops::sort(y, axis)}};
}

inline OperatorCall groups(Choices& choices) {
  const ChunkPolicyScope policy({chunk_policy().device, {}, choices.pick(16, 64)});
  const int64_t n = choices.pick(0, 60);
  const NdArray keys = choices.values({n}, DType::int32), values = choices.values({n}, DType::float32);
  const Grouped found = group_reduce({choices.cut(keys)}, choices.cut(values), {GroupOp::sum, GroupOp::count});
  const auto all = std::get<local::ArrayTuple>(ops::unique(keys, false, true, true));
  const NdArray sums = n == 0 ? values : ops::bincount(all[1], values.astype(DType::float64)).astype(DType::float32);
  return {{found.keys[0], found.results[0], found.results[1]}, {all[0], sums, all[2]}};
}

inline OperatorCall tops(Choices& choices) {
  local::Dims shape = choices.shape(2);
  for (int64_t& extent : shape) extent = std::max<int64_t>(extent, 1);
  const NdArray x = choices.values(shape, choices.dtype()), y = choices.values(shape, DType::float32, /*nan=*/true);
  const int64_t axis = choices.pick(0, 1), k = choices.pick(1, shape[static_cast<int>(axis)]);
  const auto [greatest, at] = top_k(choices.cut(x), k, axis);
  const auto [least, least_at] = top_k(choices.cut(y), k, axis, /*largest=*/false);
  const auto of_x = ops::top_k(x, k, axis), of_y = ops::top_k(y, k, axis, false);
  return {{greatest, at, least, least_at, topk(choices.cut(y), k, axis), argtopk(choices.cut(x), -k, axis)},
          {of_x.first, of_x.second, of_y.first, of_y.second, ops::top_k(y, k, axis).first,
           ops::top_k(x, k, axis, false).second}};
}

inline OperatorCall distincts(Choices& choices) {
  const local::Dims shape = choices.shape(2);
  const NdArray x = choices.values(shape, choices.dtype()), y = choices.values(shape, DType::float64, /*nan=*/true);
  const auto [values, first, inverse, counts] = unique(choices.cut(x), return_index, return_inverse, return_counts);
  const auto all = local::unique(x, return_index, return_inverse, return_counts);
  const UniqueAllResult each = unique_all(choices.cut(y));
  const auto local_each = ops::unique_all(y);
  const NdArray rows = ops::remainder(ops::nan_to_num(y), 2.0);
  return {{values, first, inverse, counts, each.values, each.indices, each.inverse_indices, each.counts,
           unique(choices.cut(rows), 0), intersect1d(choices.cut(x), choices.cut(y)),
           setdiff1d(choices.cut(y), choices.cut(x)), setxor1d(choices.cut(x), choices.cut(rows)),
           union1d(choices.cut(x), choices.cut(rows))},
          {all[0], all[1], all[2], all[3], local_each.values, local_each.indices, local_each.inverse_indices,
           local_each.counts, local::unique(rows, 0), local::intersect1d(x, y), ops::setdiff1d(y, x),
           ops::setxor1d(x, rows), ops::union1d(x, rows)}};
}

// Chunks of a few elements, so that lines are sorted by runs, or come whole to tasks.
inline OperatorCall weighted_quantiles(Choices& choices) {
  const ChunkPolicyScope policy({chunk_policy().device, {}, choices.pick(0, 1) == 0 ? 32 : 2048});
  local::Dims shape = choices.shape(2);
  for (int64_t& extent : shape) extent = std::max<int64_t>(extent, 1);
  const NdArray x = choices.values(shape, DType::float32, /*nan=*/true), y = ops::nan_to_num(x);
  const NdArray w = ops::add(ops::abs(choices.values(shape, DType::float64)), 0.1), q{0., 0.3, 0.5, 1.};
  const int64_t axis = choices.pick(0, 1);
  constexpr const char* kMethod = "inverted_cdf";
  const QuantileOptions options{.method = kMethod, .weights = choices.cut(w)};
  const local::QuantileOptions local_options{.method = kMethod, .weights = w};
  return {{quantile(choices.cut(y), q, axis, options), quantile(choices.cut(x), q, {}, options),
           nanpercentile(choices.cut(x), 40, axis, options)},
          {local::quantile(y, q, axis, local_options), local::quantile(x, q, {}, local_options),
           local::nanpercentile(x, 40, axis, local_options)}};
}

inline OperatorCall counts(Choices& choices) {
  const local::Dims shape{choices.pick(1, 30)};
  const NdArray x = choices.values(shape, DType::float64), y = choices.values(shape, DType::float32);
  const NdArray k = ops::abs(choices.values(shape, DType::int16)), w = choices.values(shape, DType::float64);
  const auto [of_both, x_edges, y_edges] = histogram2d(choices.cut(x), choices.cut(y), 3);
  return {
      {bincount(choices.cut(k)), bincount(choices.cut(k), choices.cut(w), 12), of_both, x_edges,
       histogram(choices.cut(x), 5, {.weights = choices.cut(w)}).first, histogram(choices.cut(x), 300).first},
      {ops::bincount(k), ops::bincount(k, w, 12), std::get<0>(ops::histogram2d(x, y, 3)),
       std::get<1>(ops::histogram2d(x, y, 3)), ops::histogram(x, 5, {}, {}, w).first, ops::histogram(x, 300).first}};
}

inline OperatorCall slid(Choices& choices) {
  const NdArray a = choices.values({choices.pick(1, 40)}, choices.dtype());
  const NdArray v = choices.values({choices.pick(1, 20)}, choices.dtype());
  OperatorCall call;
  for (const char* mode : {"full", "same", "valid"}) {
    call.chunked.push_back(convolve(choices.cut(a), choices.cut(v), mode));
    call.expected.push_back(ops::convolve(a, v, mode));
    call.chunked.push_back(correlate(choices.cut(a), choices.cut(v), mode));
    call.expected.push_back(ops::correlate(a, v, mode));
  }
  return call;
}

inline OperatorCall assignments(Choices& choices) {
  const DType dtype = choices.dtype();
  const NdArray x = choices.values({choices.pick(2, 9), choices.pick(2, 9), 3}, dtype);
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  const NdArray a = picked(choices, {4}, rows), b = picked(choices, {4}, columns);
  const NdArray mask = mask_of(choices, {rows, columns});
  const int64_t chosen = ops::count_nonzero(mask).item<int64_t>();
  const local::Slice backwards{{}, {}, -2}, inner{1, {}, 2}, all;
  struct Row {
    std::vector<local::IndexTerm> local;
    std::vector<IndexTerm> chunked;
    NdArray values;
  };
  const Array cut_mask = choices.cut(mask);
  const std::vector<Row> cases{
      {{backwards, inner}, {backwards, inner}, choices.values({(rows + 1) / 2, columns / 2, 3}, dtype)},
      {{mask}, {cut_mask}, choices.values({chosen, 3}, dtype)},
      {{mask}, {cut_mask}, choices.values({}, dtype)},
      {{a}, {choices.cut(a)}, choices.values({4, columns, 3}, dtype)},
      {{a, b}, {choices.cut(a), choices.cut(b)}, choices.values({4, 1}, dtype)},
      {{all, b, 1}, {all, choices.cut(b), 1}, choices.values({rows, 4}, dtype)},
  };
  OperatorCall call;
  for (const auto& [local_terms, terms, values] : cases) {
    call.expected.push_back(x.copy());
    ops::set(call.expected.back(), local_terms, values);
    call.chunked.push_back(assigned(choices.cut(x), terms, choices.cut(values)));
  }
  return call;
}

inline OperatorCall lines_put(Choices& choices) {
  const NdArray x = choices.values({choices.pick(1, 9), choices.pick(1, 9)}, choices.dtype());
  const NdArray indices = picked(choices, {x.shape()[0], 3}, x.shape()[1]);
  const NdArray values = choices.values({x.shape()[0], 3}, x.dtype());
  const NdArray expected = x.copy();
  ops::put_along_axis(expected, indices, values, 1);
  return {{put_along_axis(choices.cut(x), choices.cut(indices), choices.cut(values), 1)}, {expected}};
}

inline OperatorCall reshaped_chunks(Choices& choices) {
  const NdArray x = choices.values(choices.shape(3), choices.dtype());
  const Array cut = choices.cut(x);
  const Array merged = reshape_blockwise(cut, {x.shape()[0] * x.shape()[1], x.shape()[2]});
  return {{reshape_blockwise(merged, x.shape(), cut.chunks())}, {x}};
}

}  // namespace rows

inline const std::vector<OperatorRow>& operator_rows() {
  static const std::vector<OperatorRow> all{
      {"reshape", rows::reshaped},
      {"concatenate", rows::concatenated},
      {"eigh", rows::eigenvalues},
      {"local_call", rows::called_on_one_chunk},
      {"map_blocks", rows::blocks},
      {"map_blocks_axes", rows::dropped_and_new_axes},
      {"blockwise", rows::contraction},
      {"map_overlap", rows::overlaps},
      {"apply_gufunc", rows::gufuncs},
      {"sliding_window_view", rows::windows},
      {"coarsen", rows::coarsened},
      {"slices", rows::shifted_slices},
      {"diagonals", rows::diagonals},
      {"apply_along_axis", rows::lines},
      {"reduction", rows::folds},
      {"cumsum", rows::sums},
      {"cumprod", rows::products},
      {"push", rows::filled},
      {"select", rows::selections},
      {"nonzero", rows::positions},
      {"take", rows::takes},
      {"index", rows::indices},
      {"fft", rows::spectra},
      {"fft_of_long_lines", rows::long_spectra},
      {"linalg", rows::matrices},
      {"sort", rows::sorts},
      {"sort_by_runs", rows::sorts_by_runs},
      {"group_reduce", rows::groups},
      {"top_k", rows::tops},
      {"unique", rows::distincts},
      {"weighted_quantile", rows::weighted_quantiles},
      {"histogram", rows::counts},
      {"convolve", rows::slid},
      {"assign", rows::assignments},
      {"put_along_axis", rows::lines_put},
      {"reshape_blockwise", rows::reshaped_chunks},
  };
  return all;
}

}  // namespace quarry::testing
