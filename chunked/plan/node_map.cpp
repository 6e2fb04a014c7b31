#include "quarry/chunked/plan/node_map.h"

namespace quarry::plan {

using expr::View;

NodeMap identity_map(int ndim) {
  NodeMap map;
  map.reserve(static_cast<size_t>(ndim));
  for (int d = 0; d < ndim; ++d) map.push_back({d, 0, 1});
  return map;
}

NodeMap argument_map(const expr::Node& node, const expr::Node& arg, const NodeMap& map) {
  NodeMap result;
  result.reserve(static_cast<size_t>(arg.shape.size()));
  int axis = node.shape.size() - arg.shape.size();
  for (const int64_t extent : arg.shape) {
    const bool broadcast = extent != node.shape[axis];
    result.push_back(broadcast ? NodeAxis{} : map[static_cast<size_t>(axis)]);
    ++axis;
  }
  return result;
}

NodeMap viewed_map(const View& view, const NodeMap& map) {
  NodeMap result(static_cast<size_t>(view.arg->shape.size()));
  for (size_t i = 0; i < view.axes.size(); ++i) {
    const View::Axis& axis = view.axes[i];
    if (axis.source < 0) continue;
    result[static_cast<size_t>(axis.source)] = {map[i].space, axis.start + axis.step * map[i].start,
                                                map[i].space < 0 ? 1 : axis.step * map[i].step};
  }
  for (const auto& [i, axis] : view.beside) {
    const NodeAxis& mapped = map[static_cast<size_t>(i)];
    result[static_cast<size_t>(axis.source)] = {mapped.space, axis.start + axis.step * mapped.start,
                                                mapped.space < 0 ? 1 : axis.step * mapped.step};
  }
  for (const auto& [axis, position] : view.fixed) result[static_cast<size_t>(axis)] = {-1, position, 1};
  return result;
}

AccessMap access_map(const NodeMap& map, int space_ndim) {
  AccessMap access;
  access.axes.resize(static_cast<size_t>(space_ndim));
  for (size_t d = 0; d < map.size(); ++d) {
    const View::Axis axis{static_cast<int>(d), map[d].start, map[d].step};
    if (map[d].space < 0)
      access.fixed.emplace_back(axis.source, axis.start);
    else if (View::Axis& first = access.axes[static_cast<size_t>(map[d].space)]; first.source < 0)
      first = axis;
    else
      access.beside.emplace_back(map[d].space, axis);
  }
  return access;
}

}  // namespace quarry::plan
