// The arguments of pad(), for arrays of one process and chunked ones.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/ops/manipulation/manipulation.h"

namespace quarry::local::ops::padding {

enum class Mode : uint8_t {
  constant,
  edge,
  linear_ramp,
  maximum,
  mean,
  median,
  minimum,
  reflect,
  symmetric,
  wrap,
  empty
};

// Throws InvalidArgument for another mode, and for a keyword that is given and that the mode does not take.
Mode parse_mode(std::string_view mode, std::initializer_list<std::pair<std::string_view, bool>> given);

// What is before and after an axis.
using Pair = std::array<Scalar, 2>;
struct Widths {
  int64_t left = 0, right = 0;
};
// One pair per axis, from what broadcasts to (ndim, 2). They block.
std::vector<Pair> as_pairs(const NdArray& values, int ndim);
std::vector<Widths> as_widths(const NdArray& values, int ndim);
std::vector<Widths> widths_of(const std::variant<AxisWidths, NdArray>& given, int ndim);

// Throws InvalidArgument for what is too large, and for empty axes that the mode cannot extend.
Dims padded_shape(const Dims& shape, const std::vector<Widths>& widths, Mode mode);

// Fills what is before and after an axis of `extent` elements. Axis: fill, repeat_edges, ramp, statistic, reflect,
// wrap, done; reflect and wrap make one round. Of mode `empty` nothing is filled.
template <class Axis>
void extend(Axis& axis, Mode mode, int64_t extent, const Pair& values, const std::optional<Widths>& stat_length,
            bool odd) {
  switch (mode) {
    case Mode::constant:
      return axis.fill(values);
    case Mode::edge:
      return axis.repeat_edges();
    case Mode::linear_ramp:
      return axis.ramp(values);
    case Mode::maximum:
    case Mode::minimum:
    case Mode::mean:
    case Mode::median:
      return axis.statistic(mode, stat_length);
    case Mode::reflect:
    case Mode::symmetric:
      // An axis of one element has nothing to reflect.
      if (extent == 1) axis.repeat_edges();
      while (extent > 1 && !axis.done()) axis.reflect(mode == Mode::symmetric, odd, extent);
      return;
    case Mode::wrap:
      while (!axis.done()) axis.wrap(extent);
      return;
    case Mode::empty:
      return;
  }
}

}  // namespace quarry::local::ops::padding
