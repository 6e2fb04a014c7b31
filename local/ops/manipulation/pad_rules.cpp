#include "quarry/local/ops/manipulation/pad_rules.h"

#include <fmt/format.h>

#include <cmath>

#include "quarry/local/base/detail.h"

namespace quarry::local::ops::padding {
namespace {

struct ModeName {
  std::string_view name;
  Mode mode;
  std::string_view keyword;  // the one that it takes
};
constexpr std::array<ModeName, 11> kModes = {{{"constant", Mode::constant, "constant_values"},
                                              {"edge", Mode::edge, ""},
                                              {"linear_ramp", Mode::linear_ramp, "end_values"},
                                              {"maximum", Mode::maximum, "stat_length"},
                                              {"mean", Mode::mean, "stat_length"},
                                              {"median", Mode::median, "stat_length"},
                                              {"minimum", Mode::minimum, "stat_length"},
                                              {"reflect", Mode::reflect, "reflect_type"},
                                              {"symmetric", Mode::symmetric, "reflect_type"},
                                              {"wrap", Mode::wrap, ""},
                                              {"empty", Mode::empty, ""}}};

}  // namespace

Mode parse_mode(std::string_view mode, std::initializer_list<std::pair<std::string_view, bool>> given) {
  for (const ModeName& row : kModes) {
    if (row.name != mode) continue;
    for (const auto& [keyword, is_given] : given)
      if (is_given && keyword != row.keyword)
        throw InvalidArgument(fmt::format("unsupported keyword arguments for mode '{}': {{'{}'}}", mode, keyword));
    return row.mode;
  }
  throw InvalidArgument(fmt::format("mode '{}' is not supported", mode));
}

std::vector<Pair> as_pairs(const NdArray& values, int ndim) {
  const NdArray host = values.to(kCpu);
  NdArray pairs = host;
  if (host.ndim() < 3 && host.size() == 1) pairs = host.reshape({1, 1});
  if (host.ndim() < 3 && host.size() == 2 && !(host.shape() == Dims{2, 1})) pairs = host.reshape({1, 2});
  pairs = pairs.broadcast_to({ndim, 2});
  std::vector<Pair> result(static_cast<size_t>(ndim));
  for (int64_t d = 0; d < ndim; ++d)
    for (int64_t side = 0; side < 2; ++side)
      result[static_cast<size_t>(d)][static_cast<size_t>(side)] = pairs[{d, side}].item();
  return result;
}

namespace {

void check_width(const Widths& widths) {
  if (widths.left < 0 || widths.right < 0)
    throw InvalidArgument(fmt::format("index can't contain negative values, not ({}, {})", widths.left, widths.right));
}

}  // namespace

std::vector<Widths> as_widths(const NdArray& values, int ndim) {
  std::vector<Widths> result;
  // Widths for no axis are checked all the same.
  for (const double value : to_vector<double>(values.to(kCpu).astype(DType::float64, default_context(kCpu))))
    if (value < 0) throw InvalidArgument("index can't contain negative values");
  for (const Pair& pair : as_pairs(values, ndim)) {
    const Widths widths{static_cast<int64_t>(std::nearbyint(pair[0].as_double())),
                        static_cast<int64_t>(std::nearbyint(pair[1].as_double()))};
    check_width(widths);
    result.push_back(widths);
  }
  return result;
}

std::vector<Widths> widths_of(const std::variant<AxisWidths, NdArray>& given, int ndim) {
  if (const NdArray* array = std::get_if<NdArray>(&given)) {
    if (kind(array->dtype()) != 'i') {
      throw TypeError(fmt::format("`pad_width` must be of integral type, not {}", name(array->dtype())));
    }
    return as_widths(*array, ndim);
  }
  std::vector<Widths> result(static_cast<size_t>(ndim));
  for (const auto& [axis, sides] : std::get<AxisWidths>(given)) {
    const int normal = normalize_axis(axis, ndim);
    const Widths widths{sides.first, sides.second};
    check_width(widths);
    result[static_cast<size_t>(normal)] = widths;
  }
  return result;
}

Dims padded_shape(const Dims& from, const std::vector<Widths>& widths, Mode mode) {
  Dims shape = from;
  for (int d = 0; d < from.size(); ++d) {
    const Widths& w = widths[static_cast<size_t>(d)];
    int64_t added = 0;
    if (__builtin_add_overflow(w.left, w.right, &added) || __builtin_add_overflow(shape[d], added, &shape[d]))
      throw InvalidArgument(fmt::format("pad widths ({}, {}) of axis {} are too large", w.left, w.right, d));
    if (from[d] == 0 && added > 0 && mode != Mode::constant && mode != Mode::empty) {
      throw InvalidArgument(fmt::format("can't extend empty axis {} using modes other than 'constant' or 'empty'", d));
    }
  }
  return shape;
}

}  // namespace quarry::local::ops::padding
