// pad(): one axis after the other gets its edges, made of what is there already: along the axes before it the whole
// extent, along those after it the original one.
#include <algorithm>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/insertion.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/quantile.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/manipulation/pad_rules.h"

namespace quarry {

using namespace compose;
using namespace local::ops::padding;

namespace {

// One axis while its edges are added. `middle` grows; `widths` are what is still missing.
class PaddedAxis {
 public:
  PaddedAxis(Array middle, int axis, Widths widths) : middle_(std::move(middle)), axis_(axis), widths_(widths) {}

  const Array& array() const { return middle_; }
  int64_t size() const { return middle_.shape()[axis_]; }
  bool done() const { return widths_.left == 0 && widths_.right == 0; }

  // Values that broadcast to all that is missing.
  void add(const Array& left, const Array& right) {
    extend(spread(left, widths_.left), spread(right, widths_.right));
    widths_ = {};
  }
  void fill(const Pair& values) {
    const DType dtype = middle_.dtype();
    add(constant({}, values[0], dtype), constant({}, values[1], dtype));
  }
  void repeat_edges() { add(part(0, 1), part(size() - 1, 1)); }

  void ramp(const Pair& ends) {
    const auto samples = [&](const Scalar& end, int64_t edge, int64_t width) {
      return linspace(end, squeeze(part(edge, 1), axis_), width, /*endpoint=*/false, middle_.dtype(), axis_);
    };
    add(samples(ends[0], 0, widths_.left), flip(samples(ends[1], size() - 1, widths_.right), axis_));
  }

  void statistic(Mode mode, std::optional<Widths> lengths) {
    const int64_t all = size();
    const int64_t left = lengths ? std::min(lengths->left, all) : all;
    const int64_t right = lengths ? std::min(lengths->right, all) : all;
    if ((left == 0 || right == 0) && (mode == Mode::maximum || mode == Mode::minimum))
      throw InvalidArgument("stat_length of 0 yields no value for padding");
    add(value_of(mode, part(0, left)), value_of(mode, part(all - right, right)));
  }

  // One round of reflection at both ends; `period` is the original extent. Reflected values of the first round serve as
  // source for the next one.
  void reflect(bool include_edge, bool odd, int64_t period) {
    const int64_t skip = include_edge ? 0 : 1;  // the edge itself is left out
    const int64_t whole = include_edge ? size() / period * period : (size() - 1) / (period - 1) * (period - 1);
    const auto reflected = [&](const Array& source, int64_t edge) {
      const Array mirrored = flip(source, axis_);
      return (odd ? subtract(multiply(part(edge, 1), 2), mirrored) : mirrored).astype(middle_.dtype());
    };
    const int64_t left = std::min(whole, widths_.left);
    extend(reflected(part(skip, left), 0), part(0, 0));
    const int64_t n = size() - left;  // what was there before this round
    const int64_t right = std::min(whole, widths_.right);
    extend(part(0, 0), reflected(part(left + n - skip - right, right), left + n - 1));
    widths_.left -= left;
    widths_.right -= right;
  }

  void wrap(int64_t period) {
    const int64_t whole = size() / period * period;
    const int64_t left = std::min(whole, widths_.left), right = std::min(whole, widths_.right), end = size();
    extend(part(whole - left, left), part(end - whole, right));
    widths_.left -= left;
    widths_.right -= right;
  }

 private:
  Array part(int64_t start, int64_t count) const { return arrange::part(middle_, axis_, start, count); }
  Array spread(const Array& value, int64_t count) const {
    return broadcast_to(value.astype(middle_.dtype()), with_extent(middle_.shape(), axis_, count));
  }
  void extend(const Array& left, const Array& right) { middle_ = joined({left, middle_, right}, axis_); }

  Array value_of(Mode mode, const Array& chunk) const {
    const ReduceOptions keep{.keepdims = true};
    const Array value = mode == Mode::maximum   ? max(chunk, axis_, keep)
                        : mode == Mode::minimum ? min(chunk, axis_, keep)
                        : mode == Mode::median  ? median(chunk, axis_, {}, false, /*keepdims=*/true)
                                                : mean(chunk, axis_, keep);
    return local::is_integer(middle_.dtype()) && local::is_float(value.dtype()) ? rint(value) : value;
  }

  Array middle_;
  int axis_;
  Widths widths_;
};

}  // namespace

Array pad(const Array& array, const std::variant<AxisWidths, NdArray>& pad_width, std::string_view mode,
          const PadOptions& options) {
  const int ndim = array.ndim();
  const std::vector<Widths> widths = widths_of(pad_width, ndim);
  const Mode how = parse_mode(mode, {{"stat_length", options.stat_length.has_value()},
                                     {"constant_values", options.constant_values.has_value()},
                                     {"end_values", options.end_values.has_value()},
                                     {"reflect_type", options.reflect_type.has_value()}});
  const Dims shape = padded_shape(array.shape(), widths, how);
  const Scalar zero = typed(0, array.dtype());
  const auto pairs = [&](const std::optional<NdArray>& values) {
    return values ? as_pairs(*values, ndim) : std::vector<Pair>(static_cast<size_t>(ndim), Pair{zero, zero});
  };
  const std::vector<Pair> values = pairs(how == Mode::linear_ramp ? options.end_values : options.constant_values);
  std::optional<std::vector<Widths>> lengths;
  if (options.stat_length) lengths = as_widths(*options.stat_length, ndim);
  if (local::element_count(shape) == 0 || (array.size() == 0 && how != Mode::constant))
    return constant(shape, 0, array.dtype());
  const bool odd = options.reflect_type && *options.reflect_type == "odd";
  Array result = array;
  for (int d = 0; d < ndim; ++d) {
    const auto at = static_cast<size_t>(d);
    PaddedAxis axis(result, d, widths[at]);
    if (axis.done()) continue;
    // Arrays that are computed have no elements without a value.
    extend(axis, how == Mode::empty ? Mode::constant : how, array.shape()[d], values[at],
           lengths ? std::optional((*lengths)[at]) : std::nullopt, odd);
    result = axis.array();
  }
  return result;
}

Array pad(const Array& array, const NdArray& pad_width, std::string_view mode, const PadOptions& options) {
  return pad(array, std::variant<AxisWidths, NdArray>(pad_width), mode, options);
}
Array pad(const Array& array, int64_t pad_width, std::string_view mode, const PadOptions& options) {
  return pad(array, local::from_vector<int64_t>({pad_width}, {1}), mode, options);
}

}  // namespace quarry
