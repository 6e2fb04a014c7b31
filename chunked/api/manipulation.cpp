#include "quarry/chunked/api/manipulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {

using local::InvalidArgument;

Array transpose(const Array& x, std::span<const int64_t> axes) {
  const int ndim = x.ndim();
  std::vector<int64_t> order;
  if (axes.empty()) {
    for (int d = ndim - 1; d >= 0; --d) order.push_back(d);
  } else {
    if (static_cast<int>(axes.size()) != ndim) throw InvalidArgument("axes don't match array");
    uint32_t seen = 0;
    for (int64_t axis : axes) {
      const int d = local::normalize_axis(axis, ndim);
      if (seen >> d & 1) throw InvalidArgument("repeated axis in transpose");
      seen |= uint32_t{1} << d;
      order.push_back(d);
    }
  }
  return Array(expr::transpose(x.node(), order));
}

Array swapaxes(const Array& x, int64_t a, int64_t b) {
  std::vector<int64_t> order(static_cast<size_t>(x.ndim()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(local::normalize_axis(a, x.ndim()))],
            order[static_cast<size_t>(local::normalize_axis(b, x.ndim()))]);
  return x.ndim() == 0 ? x : Array(expr::transpose(x.node(), order));
}

Array broadcast_to(const Array& x, const Dims& shape) {
  bool fits = x.ndim() <= shape.size();
  for (int d = 0; fits && d < x.ndim(); ++d) {
    const int64_t from = x.shape()[d], to = shape[d + shape.size() - x.ndim()];
    fits = from == to || from == 1;
  }
  if (!fits)
    throw InvalidArgument(
        fmt::format("operands could not be broadcast together with remapped shapes "
                    "[original->remapped]: {} and requested shape {}",
                    local::to_string(x.shape()), local::to_string(shape)));
  return Array(expr::broadcast_to(x.node(), shape));
}

Array expand_dims(const Array& x, const Axes& axis) {
  if (axis.none()) throw InvalidArgument("expand_dims needs an axis");
  return Array(expr::insert_axes(x.node(), axis.mask(x.ndim() + static_cast<int>(axis.list().size()))));
}

Array squeeze(const Array& x, const Axes& axis) {
  uint32_t mask = axis.mask(x.ndim());
  Dims shape;
  std::vector<expr::View::Axis> axes;
  std::vector<std::pair<int, int64_t>> fixed;
  for (int d = 0; d < x.ndim(); ++d) {
    const bool named = mask >> d & 1;
    if (named && !axis.none() && x.shape()[d] != 1)
      throw InvalidArgument("cannot select an axis to squeeze out which has size not equal to one");
    if (named && x.shape()[d] == 1) {
      fixed.emplace_back(d, 0);
    } else {
      axes.push_back({d, 0, 1});
      shape.push_back(x.shape()[d]);
    }
  }
  return Array(expr::view(x.node(), std::move(axes), std::move(fixed), shape));
}

Array reshape(const Array& x, const Dims& shape) {
  Dims full = shape;
  int unknown = -1;
  bool valid = true;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1) {
      if (unknown >= 0) throw InvalidArgument("can only specify one unknown dimension");
      unknown = d;
      full[d] = 1;
    } else {
      valid = valid && shape[d] >= 0;
    }
  }
  const int64_t known = valid ? local::element_count(full) : 0;
  if (unknown >= 0 && valid) {
    valid = known > 0 && x.size() % known == 0;
    if (valid) full[unknown] = x.size() / known;
  }
  if (!valid || local::element_count(full) != x.size())
    throw InvalidArgument(
        fmt::format("cannot reshape array of size {} into shape {}", x.size(), local::to_string(shape)));
  return Array(algo::reshape(x.node(), full));
}

Array ravel(const Array& x) { return reshape(x, {x.size()}); }
Array flatten(const Array& x) { return ravel(x); }
Array matrix_transpose(const Array& x) {
  if (x.ndim() < 2) throw InvalidArgument("matrix transpose with ndim < 2 is undefined");
  return swapaxes(x, -1, -2);
}

Array concatenate(std::span<const Array> arrays, std::optional<int64_t> axis) {
  if (arrays.empty()) throw InvalidArgument("need at least one array to concatenate");
  if (!axis) {
    std::vector<Array> flat;
    for (const Array& array : arrays) flat.push_back(ravel(array));
    return concatenate(flat, 0);
  }
  const int ndim = arrays[0].ndim();
  if (ndim == 0) throw InvalidArgument("zero-dimensional arrays cannot be concatenated");
  const int along = local::normalize_axis(*axis, ndim);
  std::vector<local::PromotionOperand> dtypes;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Dims& shape = arrays[i].shape();
    if (shape.size() != ndim)
      throw InvalidArgument(fmt::format(
          "all the input array dimensions except for the concatenation axis must match exactly, but along dimension 0, "
          "the array at index 0 has {} dimension(s) and the array at index {} has {} dimension(s)",
          ndim, i, shape.size()));
    for (int d = 0; d < ndim; ++d)
      if (d != along && shape[d] != arrays[0].shape()[d])
        throw InvalidArgument(fmt::format(
            "all the input array dimensions except for the concatenation axis must match exactly, but along dimension "
            "{}, the array at index 0 has size {} and the array at index {} has size {}",
            d, arrays[0].shape()[d], i, shape[d]));
    dtypes.push_back({arrays[i].dtype(), false});
  }
  const DType dtype = local::result_type(dtypes);
  std::vector<expr::NodePtr> nodes;
  for (const Array& array : arrays) nodes.push_back(expr::cast(array.node(), dtype));
  return Array(algo::concatenate(std::move(nodes), along));
}

Array concatenate(std::initializer_list<Array> arrays, std::optional<int64_t> axis) {
  return concatenate(std::span<const Array>(arrays.begin(), arrays.size()), axis);
}

Array stack(std::span<const Array> arrays, int64_t axis) {
  if (arrays.empty()) throw InvalidArgument("need at least one array to stack");
  std::vector<Array> expanded;
  for (const Array& array : arrays) {
    if (array.shape() != arrays[0].shape()) throw InvalidArgument("all input arrays must have the same shape");
    expanded.push_back(expand_dims(array, axis));
  }
  return concatenate(expanded, axis);
}

Array stack(std::initializer_list<Array> arrays, int64_t axis) {
  return stack(std::span<const Array>(arrays.begin(), arrays.size()), axis);
}

}  // namespace quarry
