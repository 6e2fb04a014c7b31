// The arguments of pad(), for arrays of one process and chunked ones.
#pragma once

#include <array>
#include <initializer_list>
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

}  // namespace quarry::local::ops::padding
