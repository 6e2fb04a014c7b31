#include "quarry/local/ops/products/pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/numerical/gufunc.h"

namespace quarry::local::ops {
namespace {

[[noreturn]] void not_aligned(const Dims& a, int a_axis, const Dims& b, int b_axis) {
  throw InvalidArgument(fmt::format("shapes {} and {} not aligned: {} (dim {}) != {} (dim {})", compact_shape(a),
                                    compact_shape(b), a[a_axis], a_axis, b[b_axis], b_axis));
}

}  // namespace

AxisPairs dot_axes(const Dims& a, const Dims& b) {
  const int a_axis = a.size() - 1, b_axis = std::max(b.size() - 2, 0);
  if (a[a_axis] != b[b_axis]) not_aligned(a, a_axis, b, b_axis);
  return {{a_axis}, {b_axis}};
}

AxisPairs inner_axes(const Dims& a, const Dims& b) {
  const int a_axis = a.size() - 1, b_axis = b.size() - 1;
  if (a[a_axis] != b[b_axis]) {
    // NumPy's text shows b with its last two axes exchanged.
    Dims shown = b;
    const int place = std::max(b_axis - 1, 0);
    if (b_axis > 0) std::swap(shown[b_axis], shown[place]);
    not_aligned(a, a_axis, shown, place);
  }
  return {{a_axis}, {b_axis}};
}

AxisPairs tensordot_axes(const Dims& a, const Dims& b, const std::variant<int64_t, std::vector<Ints>>& axes) {
  AxisPairs pairs;
  auto& [a_axes, b_axes] = pairs;
  if (const int64_t* count = std::get_if<int64_t>(&axes)) {
    if (*count > a.size() || *count > b.size())
      throw IndexError(fmt::format("tensordot: {} axes of arrays of {} and {} dimensions", *count, a.size(), b.size()));
    for (int64_t i = 0; i < *count; ++i) {
      a_axes.push_back(static_cast<int>(a.size() - *count + i));
      b_axes.push_back(static_cast<int>(i));
    }
  } else {
    const auto& lists = std::get<std::vector<Ints>>(axes);
    if (lists.size() != 2)
      throw InvalidArgument(fmt::format("tensordot takes two lists of axes, got {}", lists.size()));
    if (lists[0].values().size() != lists[1].values().size()) throw InvalidArgument("shape-mismatch for sum");
    for (auto [from, ndim, to] : {std::tuple(&lists[0], a.size(), &a_axes), std::tuple(&lists[1], b.size(), &b_axes)}) {
      for (int64_t axis : from->values()) to->push_back(normalize_axis(axis, ndim));
    }
  }
  for (const std::vector<int>* list : {&a_axes, &b_axes})
    for (size_t i = 0; i < list->size(); ++i)
      if (std::count(list->begin(), list->end(), (*list)[i]) > 1)
        throw InvalidArgument("duplicate axes are not allowed in tensordot");
  for (size_t i = 0; i < a_axes.size(); ++i)
    if (a[a_axes[i]] != b[b_axes[i]]) throw InvalidArgument("shape-mismatch for sum");
  return pairs;
}

KroneckerShapes kron_shapes(const Dims& a, const Dims& b) {
  const int ndim = std::max(a.size(), b.size());
  if (2 * ndim > kMaxDims)
    throw InvalidArgument(fmt::format("kron takes arrays of at most {} dimensions, got {}", kMaxDims / 2, ndim));
  // Axes of a and of b in turn; joined in pairs.
  KroneckerShapes shapes;
  auto& [a_shape, b_shape, shape] = shapes;
  for (int d = 0; d < ndim; ++d) {
    const int64_t from_a = d < ndim - a.size() ? 1 : a[d - (ndim - a.size())];
    const int64_t from_b = d < ndim - b.size() ? 1 : b[d - (ndim - b.size())];
    a_shape.push_back(from_a), a_shape.push_back(1);
    b_shape.push_back(1), b_shape.push_back(from_b);
    shape.push_back(from_a * from_b);
  }
  return shapes;
}

}  // namespace quarry::local::ops
