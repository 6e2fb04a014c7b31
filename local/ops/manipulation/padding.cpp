// pad(): the array is copied into the middle of the result, then one axis after the other gets its edges from what is
// there already: along the axes before it the whole extent, along those after it the original one.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/manipulation/pad_rules.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local::ops {

using namespace padding;

namespace {

// Calls the function with every line of the padded array, along one axis after the other.
void pad_lines(const NdArray& padded, const std::vector<Widths>& widths, const PadFunction& function) {
  for (int axis = 0; axis < padded.ndim(); ++axis) {
    const NdArray lines = moveaxis(padded, axis, -1);
    const Dims outer(std::vector<int64_t>(lines.shape().begin(), lines.shape().end() - 1));
    const Widths& w = widths[static_cast<size_t>(axis)];
    std::vector<IndexItem> index(static_cast<size_t>(outer.size()), IndexItem(int64_t{0}));
    for (int64_t i = 0; i < element_count(outer); ++i) {
      int64_t rest = i;
      for (int d = outer.size(); d-- > 0; rest /= outer[d]) index[static_cast<size_t>(d)] = rest % outer[d];
      function(lines[index], {w.left, w.right}, axis);
    }
  }
}

// One axis of the result while its edges are written.
class PaddedAxis {
 public:
  PaddedAxis(NdArray region, int axis, Widths widths) : region_(std::move(region)), axis_(axis), widths_(widths) {}

  int64_t size() const { return region_.shape()[axis_] - widths_.left - widths_.right; }  // of what is there
  bool done() const { return widths_.left == 0 && widths_.right == 0; }
  // `count` elements from `start`, counted from the first one that is there; negative and later ones are padding.
  NdArray part(int64_t start, int64_t count) const { return sliced(region_, axis_, widths_.left + start, count); }
  NdArray backwards(int64_t start, int64_t count) const {
    return sliced(region_, axis_, widths_.left + start, count, -1);
  }

  void set_left(const NdArray& value) { write_into(part(-widths_.left, widths_.left), value); }
  void set_right(const NdArray& value) { write_into(part(size(), widths_.right), value); }
  void fill(const Pair& values) {
    part(-widths_.left, widths_.left).fill(values[0]);
    part(size(), widths_.right).fill(values[1]);
  }
  void repeat_edges() {
    set_left(part(0, 1));
    set_right(part(size() - 1, 1));
  }

  void ramp(const Pair& ends) {
    const auto samples = [&](const Scalar& end, int64_t edge, int64_t width) {
      const NdArray stop = squeeze(part(edge, 1), axis_);
      return std::get<NdArray>(
          linspace(end, stop, width, /*endpoint=*/false, /*retstep=*/false, region_.dtype(), axis_));
    };
    if (widths_.left > 0) set_left(samples(ends[0], 0, widths_.left));
    if (widths_.right > 0) set_right(flip(samples(ends[1], size() - 1, widths_.right), axis_));
  }

  void statistic(Mode mode, std::optional<Widths> lengths) {
    const int64_t all = size();
    const int64_t left = lengths ? std::min(lengths->left, all) : all;
    const int64_t right = lengths ? std::min(lengths->right, all) : all;
    if ((left == 0 || right == 0) && (mode == Mode::maximum || mode == Mode::minimum))
      throw InvalidArgument("stat_length of 0 yields no value for padding");
    const NdArray first = value_of(mode, part(0, left));
    const NdArray last = left == all && right == all ? first : value_of(mode, part(all - right, right));
    set_left(first);
    set_right(last);
  }

  // One round of reflection at both ends; `period` is the original extent. Reflected values of the first round serve as
  // source for the next one.
  void reflect(bool include_edge, bool odd, int64_t period) {
    const int64_t skip = include_edge ? 0 : 1;  // the edge itself is left out
    const int64_t whole = include_edge ? size() / period * period : (size() - 1) / (period - 1) * (period - 1);
    Widths done;
    if (widths_.left > 0) {
      done.left = std::min(whole, widths_.left);
      write_reflected(part(-done.left, done.left), backwards(skip + done.left - 1, done.left), part(0, 1), odd);
      widths_.left -= done.left;
    }
    if (widths_.right > 0) {
      const int64_t n = size() - done.left;  // what was there before this round
      done.right = std::min(whole, widths_.right);
      const int64_t at = done.left + n;
      write_reflected(part(at, done.right), backwards(at - 1 - skip, done.right), part(at - 1, 1), odd);
      widths_.right -= done.right;
    }
  }

  void wrap(int64_t period) {
    const int64_t whole = size() / period * period;
    const int64_t left = std::min(whole, widths_.left), right = std::min(whole, widths_.right), end = size();
    if (left > 0) write_into(part(-left, left), part(whole - left, left));
    if (right > 0) write_into(part(end, right), part(end - whole, right));
    widths_.left -= left;
    widths_.right -= right;
  }

 private:
  NdArray value_of(Mode mode, const NdArray& chunk) const {
    const ReduceOptions keep{.keepdims = true};
    NdArray value = mode == Mode::maximum   ? ops::max(chunk, axis_, keep)
                    : mode == Mode::minimum ? ops::min(chunk, axis_, keep)
                    : mode == Mode::mean    ? ops::mean(chunk, axis_, keep)
                                            : median(chunk);
    return is_integer(region_.dtype()) && is_float(value.dtype()) ? apply("rint"_op, {value}) : value;
  }

  // The mean of the middle one or two; NaN if there is one, or nothing.
  NdArray median(const NdArray& chunk) const {
    if (chunk.shape()[axis_] == 0) return ops::mean(chunk, axis_, {.keepdims = true});
    const NdArray sorted = ops::sort(chunk, axis_);
    const int64_t count = chunk.shape()[axis_], middle = count % 2 ? 1 : 2;
    const NdArray last = sliced(sorted, axis_, std::max<int64_t>(count - 1, 0), 1);
    NdArray value = ops::mean(sliced(sorted, axis_, (count - 1) / 2, middle), axis_, {.keepdims = true});
    if (!is_float(chunk.dtype()) && !is_complex(chunk.dtype())) return value;
    return apply("where"_op, {apply("isnan"_op, {last}), last, value});
  }

  void write_reflected(const NdArray& target, const NdArray& mirrored, const NdArray& edge, bool odd) const {
    write_into(target, odd ? edge * 2 - mirrored : mirrored);
  }

  NdArray region_;
  int axis_;
  Widths widths_;  // still to be written
};

}  // namespace

NdArray pad(const NdArray& array, const std::variant<AxisWidths, NdArray>& pad_width,
            const std::variant<std::string_view, PadFunction>& mode, const std::optional<NdArray>& stat_length,
            const std::optional<NdArray>& constant_values, const std::optional<NdArray>& end_values,
            std::optional<std::string_view> reflect_type) {
  const Range named("pad");
  const int ndim = array.ndim();
  const std::vector<Widths> widths = widths_of(pad_width, ndim);
  const PadFunction* function = std::get_if<PadFunction>(&mode);
  const Mode how = function
                       ? Mode::constant
                       : parse_mode(std::get<std::string_view>(mode), {{"stat_length", stat_length.has_value()},
                                                                       {"constant_values", constant_values.has_value()},
                                                                       {"end_values", end_values.has_value()},
                                                                       {"reflect_type", reflect_type.has_value()}});
  const Dims shape = padded_shape(array.shape(), widths, how);
  NdArray result(shape, array.dtype(), context_for(array.device()));
  // The region of the axes from `from` on that the original fills.
  const auto region = [&](int from) {
    NdArray view = result;
    for (int d = from; d < ndim; ++d) view = sliced(view, d, widths[static_cast<size_t>(d)].left, array.shape()[d]);
    return view;
  };
  write_into(region(0), array);
  if (how == Mode::empty || result.size() == 0 || (array.size() == 0 && how != Mode::constant)) return result;

  const Scalar zero = Scalar::strong(0, array.dtype());
  const auto pairs = [&](const std::optional<NdArray>& values) {
    return values ? as_pairs(*values, ndim) : std::vector<Pair>(static_cast<size_t>(ndim), Pair{zero, zero});
  };
  const std::vector<Pair> values = how == Mode::linear_ramp ? pairs(end_values)
                                   : function               ? pairs(std::nullopt)
                                                            : pairs(constant_values);
  std::optional<std::vector<Widths>> lengths;
  if (stat_length) lengths = as_widths(*stat_length, ndim);
  const bool odd = reflect_type && *reflect_type == "odd";
  for (int d = 0; d < ndim; ++d) {
    const auto at = static_cast<size_t>(d);
    PaddedAxis axis(region(d + 1), d, widths[at]);
    if (axis.done()) continue;
    extend(axis, how, array.shape()[d], values[at], lengths ? std::optional((*lengths)[at]) : std::nullopt, odd);
  }
  if (function) pad_lines(result, widths, *function);
  return result;
}

}  // namespace quarry::local::ops
