#include "quarry/chunked/api/index_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/program/op.h"

namespace quarry {

using local::IndexError;

namespace {

// What an array is computed from by elementwise work alone, by the hashes of the nodes, and what that costs per
// element; none where there is other work.
struct Leaves {
  std::set<uint64_t> hashes;
  int64_t cost = 0;
};
std::optional<Leaves> leaves_of(const expr::NodePtr& top) {
  Leaves leaves;
  for (const expr::NodePtr& node : expr::topological(std::span(&top, 1))) {
    if (const auto* elementwise = node->as<expr::Elementwise>())
      leaves.cost += local::info(elementwise->op).cost;
    else if (node->as<expr::Source>() != nullptr || node->as<expr::Stored>() != nullptr)
      leaves.hashes.insert(node->hash);
    else if (!node->as<expr::View>() && !node->as<expr::Rechunk>() && !node->generated)
      return {};
  }
  return leaves;
}

// Whether computing `again` in the tasks that compute `beside` reads nothing more and costs little.
bool reads_no_more(const expr::NodePtr& again, const expr::NodePtr& beside) {
  constexpr int64_t kCheap = 64;  // as in plan/materialise.cpp
  const std::optional<Leaves> mine = leaves_of(again), others = leaves_of(beside);
  return mine && others && mine->cost <= kCheap && std::ranges::includes(others->hashes, mine->hashes);
}

bool is_mask(const Array& array) { return array.dtype() == DType::bool_; }

int axes_of(const IndexTerm& term) {
  if (const auto* array = std::get_if<Array>(&term.value())) return is_mask(*array) ? array->ndim() : 1;
  return std::holds_alternative<int64_t>(term.value()) || std::holds_alternative<Slice>(term.value()) ? 1 : 0;
}

// NumPy lets an empty extent of a mask stand for any.
void check_mask(const Array& mask, const Array& x, int axis) {
  for (int d = 0; d < mask.ndim(); ++d) {
    const int64_t extent = x.shape()[axis + d], of_mask = mask.shape()[d];
    if (of_mask != 0 && of_mask != extent)
      throw IndexError(
          fmt::format("boolean index did not match indexed array along axis {}; size of axis is {} but size of "
                      "corresponding boolean axis is {}",
                      axis + d, extent, of_mask));
  }
}

}  // namespace

IndexParts parts_of(const Array& x, std::span<const IndexTerm> terms) {
  IndexParts parts;
  int named = 0, ellipses = 0, integers = 0;
  for (const IndexTerm& term : terms) {
    named += axes_of(term);
    ellipses += std::holds_alternative<local::Ellipsis>(term.value());
    integers += std::holds_alternative<int64_t>(term.value());
    if (const auto* array = std::get_if<Array>(&term.value());
        array != nullptr && !is_mask(*array) && !local::is_integer(array->dtype()))
      throw IndexError("arrays used as indices must be of integer (or boolean) type, not " +
                       std::string(local::name(array->dtype())));
  }
  if (ellipses > 1) throw IndexError("an index can only have a single ellipsis ('...')");
  if (named > x.ndim())
    throw IndexError(
        fmt::format("too many indices for array: array is {}-dimensional, but {} were indexed", x.ndim(), named));
  parts.integers_only = integers == x.ndim() && integers == static_cast<int>(terms.size());
  local::IndexPlacement placement;
  int axis = 0;
  for (const IndexTerm& term : terms) {
    if (const auto* array = std::get_if<Array>(&term.value())) {
      placement.array();
      parts.has_arrays = true;
      if (is_mask(*array) && array->ndim() == 0) {
        parts.truths.push_back(*array);
        continue;
      }
      if (is_mask(*array)) check_mask(*array, x, axis);
      parts.arrays.push_back({*array, axis});
      for (int d = 0; d < axes_of(term); ++d, ++axis) parts.basic.emplace_back(local::full_slice);
      continue;
    }
    const int taken = std::holds_alternative<local::Ellipsis>(term.value()) ? x.ndim() - named : axes_of(term);
    if (std::holds_alternative<int64_t>(term.value()))
      placement.array();
    else
      placement.other(std::holds_alternative<local::NewAxis>(term.value()) ? 1 : taken);
    std::visit(
        [&](const auto& value) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, Array>) parts.basic.emplace_back(value);
        },
        term.value());
    axis += taken;
  }
  parts.place = placement.place();
  parts.is_one_mask = parts.is_mask() && terms.size() == 1 && parts.arrays[0].array.shape() == x.shape();
  return parts;
}

IndexPositions positions_of(const Array& x, const IndexParts& parts) {
  std::vector<Array> arrays = parts.truths;
  std::vector<int> of_x;
  for (const auto& [array, axis] : parts.arrays) {
    if (!is_mask(array)) {
      arrays.push_back(array);
      of_x.push_back(axis);
      continue;
    }
    int at = axis;
    for (const Array& positions : nonzero(array)) {
      arrays.push_back(positions);
      of_x.push_back(at++);
    }
  }
  const std::vector<NdArray> values = settle(arrays, {}).values;
  const size_t truths = parts.truths.size();
  std::vector<Dims> shapes;
  for (size_t i = 0; i < values.size(); ++i)
    shapes.push_back(i < truths ? Dims{values[i].item().as_bool() ? 1 : 0} : values[i].shape());
  IndexPositions result;
  try {
    result.shape = local::broadcast_shapes(shapes);
  } catch (const local::InvalidArgument&) {
    std::string list;
    for (const Dims& shape : shapes) list += " " + local::to_string(shape);
    throw IndexError("shape mismatch: indexing arrays could not be broadcast together with shapes" + list);
  }
  const local::BasicIndex basic = local::resolve_index(parts.basic, x.shape());
  for (size_t i = 0; i < of_x.size(); ++i) {
    const int axis = of_x[i];
    result.axes.push_back(axis_in_view(basic, axis));
    result.positions.push_back(checked_positions(values[truths + i].broadcast_to(result.shape), axis, x.shape()[axis]));
  }
  return result;
}

std::vector<int64_t> checked_positions(const NdArray& indices, int axis, int64_t extent) {
  if (!local::is_integer(indices.dtype()))
    throw local::TypeError(fmt::format("indices are integers, not {}", local::name(indices.dtype())));
  std::vector<int64_t> positions =
      local::to_vector<int64_t>(indices.to(local::kCpu).astype(DType::int64).reshape({-1}));
  for (int64_t& position : positions) {
    if (position < -extent || position >= extent)
      throw IndexError(fmt::format("index {} is out of bounds for axis {} with size {}", position, axis, extent));
    if (position < 0) position += extent;
  }
  return positions;
}

MaskCounts counted(const Array& given, const AxisChunks& cuts, const Array* beside) {
  const Array mask = given.rechunk(Grid({cuts}));
  const Array counts(algo::true_counts(mask.node()));
  // A mask of rows is small beside them, and computing it once more would read their elements one by one.
  if (beside != nullptr && mask.size() == beside->size() && reads_no_more(mask.node(), beside->node()))
    return {mask, local::to_vector<int64_t>(settle(std::span(&counts, 1), {}).values[0])};
  const Settled settled = settle(std::span(&counts, 1), std::span(&mask, 1));
  return {settled.kept[0], local::to_vector<int64_t>(settled.values[0])};
}

int axis_in_view(const local::BasicIndex& basic, int axis) {
  for (size_t d = 0; d < basic.axes.size(); ++d)
    if (basic.axes[d].source == axis) return static_cast<int>(d);
  return -1;
}

}  // namespace quarry
