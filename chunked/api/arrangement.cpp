#include "quarry/chunked/api/arrangement.h"

#include <fmt/format.h>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {

using namespace compose;

Array permute_dims(const Array& a, const Axes& axes) {
  return axes.none() ? a.T() : a.ndim() == 0 && axes.list().empty() ? a : transpose(a, axes.list());
}
Array moveaxis(const Array& a, const Ints& source, const Ints& destination) {
  return arrange::moveaxis(a, source, destination);
}
Array rollaxis(const Array& a, int64_t axis, int64_t start) { return arrange::rollaxis(a, axis, start); }
Array atleast_1d(const Array& a) { return arrange::at_least(a, 1); }
Array atleast_2d(const Array& a) { return arrange::at_least(a, 2); }
Array atleast_3d(const Array& a) { return arrange::at_least(a, 3); }

Array flip(const Array& m, const Axes& axis) { return arrange::flip(m, axis); }
Array fliplr(const Array& m) { return arrange::fliplr(m); }
Array flipud(const Array& m) { return arrange::flipud(m); }
Array rot90(const Array& m, int64_t k, const Ints& axes) { return arrange::rot90(m, k, axes); }

Array roll(const Array& a, const Ints& shift, const Axes& axis) {
  if (axis.none()) return reshape(roll(ravel(a), shift, 0), a.shape());
  const std::vector<int64_t> amounts = arrange::rolled_by(a.shape(), shift, axis.list());
  Array result = a;
  for (int d = 0; d < a.ndim(); ++d) {
    const int64_t size = a.shape()[d], by = amounts[static_cast<size_t>(d)];
    if (by != 0) result = joined({arrange::part(result, d, size - by, by), arrange::part(result, d, 0, size - by)}, d);
  }
  return result;
}

namespace fft {

Array fftshift(const Array& x, const Axes& axes) {
  const auto [shifts, chosen] = arrange::half_shifts(x, axes, 1);
  return roll(x, shifts, chosen);
}
Array ifftshift(const Array& x, const Axes& axes) {
  const auto [shifts, chosen] = arrange::half_shifts(x, axes, -1);
  return roll(x, shifts, chosen);
}

}  // namespace fft

Array tile(const Array& A, const Ints& reps) {
  const auto [counts, shape] = arrange::tiled_by(A.shape(), reps);
  Array result = arrange::with_leading_axes(A, shape.size());
  // The last axis first, while the array is small.
  for (int d = shape.size(); d-- > 0;) {
    const int64_t count = counts[static_cast<size_t>(d)];
    if (count == 1) continue;
    Dims spread = result.shape(), merged = result.shape();
    spread.insert(d, count);
    merged[d] *= count;
    if (spread.size() <= local::kMaxDims && count > 0)
      result = reshape(broadcast_to(with_axes(result, d), spread), merged);
    else
      result = count == 0 ? constant(merged, 0, A.dtype())
                          : joined(std::vector<Array>(static_cast<size_t>(count), result), d);
  }
  return result;
}

Array resize(const Array& a, const Ints& new_shape) {
  Dims shape;
  for (const int64_t extent : new_shape.values()) shape.push_back(extent);
  for (const int64_t extent : shape)
    if (extent < 0)
      throw InvalidArgument("all elements of `new_shape` must be non-negative: " + local::to_string(shape));
  const int64_t total = local::element_count(shape), size = a.size();
  if (total == 0 || size == 0) return constant(shape, 0, a.dtype());
  const Array flat = reshape(a, {size});
  const Array all = total <= size ? flat : tile(flat, (total + size - 1) / size);
  return reshape(arrange::part(all, 0, 0, total), shape);
}

namespace {

// The array along one axis: flattened where there is none. A 0-d array has the axes 0 and -1 here.
std::pair<Array, int> along_axis(const Array& a, std::optional<int64_t> axis) {
  if (!axis || (a.ndim() == 0 && (*axis == 0 || *axis == -1))) return {ravel(a), 0};
  return {a, local::normalize_axis(*axis, a.ndim())};
}

}  // namespace

Array repeat(const Array& a, int64_t repeats, std::optional<int64_t> axis) {
  const auto [array, d] = along_axis(a, axis);
  const int64_t size = array.shape()[d];
  if (repeats < 0 && size > 0)
    throw InvalidArgument(fmt::format("repeats may not contain negative values: {}", repeats));
  int64_t total = 0;
  if (__builtin_mul_overflow(size, repeats, &total))
    throw InvalidArgument(fmt::format("the result of {} repetitions is too large", repeats));
  if (repeats == 1) return array;
  const Dims shape = with_extent(array.shape(), d, total);
  if (local::element_count(shape) == 0) return constant(shape, 0, a.dtype());
  Dims spread = array.shape();
  spread.insert(d + 1, repeats);
  return reshape(broadcast_to(with_axes(array, d + 1), spread), shape);
}

Array repeat(const Array& a, const Array& repeats, std::optional<int64_t> axis) {
  const auto [array, d] = along_axis(a, axis);
  const int64_t size = array.shape()[d];
  if (repeats.size() > 0 && !local::can_cast(repeats.dtype(), DType::int64, local::Casting::safe))
    throw local::TypeError(
        fmt::format("Cannot cast array data from dtype('{}') to dtype('int64') according to the rule 'safe'",
                    local::name(repeats.dtype())));
  if (repeats.ndim() > 1) throw InvalidArgument("object too deep for desired array: repeats has two axes");
  if (repeats.size() != 1 && repeats.size() != size) {
    throw InvalidArgument(
        fmt::format("operands could not be broadcast together with shape ({},) ({},)", size, repeats.size()));
  }
  const std::vector<int64_t> counts = settled(repeats);
  if (counts.size() == 1) return repeat(array, counts[0], d);
  std::vector<int64_t> positions;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) throw InvalidArgument("repeats may not contain negative values.");
    positions.insert(positions.end(), static_cast<size_t>(counts[i]), static_cast<int64_t>(i));
  }
  return gathered(array, d, positions);
}

}  // namespace quarry
