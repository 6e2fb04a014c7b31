#include "quarry/local/cuda/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "quarry/local/base/error.h"

namespace quarry::local::cuda {
namespace {

// Every operand's strides, those that decide the order of axes first.
std::vector<LayoutOperand*> by_priority(Layout& layout) {
  std::vector<LayoutOperand*> operands;
  for (auto& operand : layout.outputs) operands.push_back(&operand);
  std::vector<LayoutOperand*> inputs;
  for (auto& operand : layout.inputs) inputs.push_back(&operand);
  const auto elements = [&layout](const LayoutOperand* operand) {
    int64_t count = 1;
    for (int d = 0; d < layout.ndim(); ++d)
      if (operand->strides[static_cast<size_t>(d)] != 0) count *= layout.extents[static_cast<size_t>(d)];
    return count;
  };
  std::stable_sort(inputs.begin(), inputs.end(), [&](auto* a, auto* b) { return elements(a) > elements(b); });
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  for (auto& operand : layout.states) operands.push_back(&operand);
  return operands;
}

// Whether axis `a` belongs outside axis `b`: the first operand that moves along both differently decides.
bool outside(const std::vector<LayoutOperand*>& operands, size_t a, size_t b) {
  for (const LayoutOperand* operand : operands) {
    const int64_t sa = std::abs(operand->strides[a]), sb = std::abs(operand->strides[b]);
    if (sa != 0 && sb != 0 && sa != sb) return sa > sb;
  }
  return a < b;
}

void keep_axes(Layout& layout, const std::vector<size_t>& order) {
  const auto pick = [&order](auto& values) {
    std::remove_reference_t<decltype(values)> picked;
    for (const size_t axis : order) picked.push_back(values[axis]);
    values = std::move(picked);
  };
  pick(layout.extents);
  pick(layout.reduced);
  for (auto* operands : {&layout.inputs, &layout.outputs, &layout.states})
    for (auto& operand : *operands) pick(operand.strides);
  for (int& axis : layout.axis_of) {
    const auto place = std::find(order.begin(), order.end(), static_cast<size_t>(axis));
    axis = axis < 0 || place == order.end() ? -1 : static_cast<int>(place - order.begin());
  }
}

void merge_axes(Layout& layout, const std::vector<bool>& pinned) {
  std::vector<bool> fixed(layout.extents.size(), false);
  for (size_t d = 0; d < pinned.size(); ++d)
    if (pinned[d] && layout.axis_of[d] >= 0) fixed[static_cast<size_t>(layout.axis_of[d])] = true;
  // Inner axes first, so that a run of mergeable axes collapses into its innermost one. An axis may merge with the next
  // inner one of its own group (reduced or kept); axes of the other group in between do not matter.
  std::vector<size_t> kept;
  std::vector<bool> gone(layout.extents.size(), false);
  for (size_t inner = layout.extents.size(); inner-- > 0;) {
    if (gone[inner] || fixed[inner]) continue;
    for (size_t outer = inner; outer-- > 0;) {
      if (gone[outer] || layout.reduced[outer] != layout.reduced[inner]) continue;
      bool same = !fixed[outer];
      for (auto* operands : {&layout.inputs, &layout.outputs, &layout.states})
        for (auto& operand : *operands)
          same = same && operand.strides[outer] == operand.strides[inner] * layout.extents[inner];
      if (!same) break;
      layout.extents[inner] *= layout.extents[outer];
      gone[outer] = true;
    }
  }
  for (size_t d = 0; d < gone.size(); ++d)
    if (!gone[d]) kept.push_back(d);
  keep_axes(layout, kept);
}

}  // namespace

int64_t Layout::elements() const {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

int64_t Layout::elements(bool part) const {
  int64_t count = 1;
  for (size_t d = 0; d < extents.size(); ++d)
    if (reduced[d] == part) count *= extents[d];
  return count;
}

Layout make_layout(const Program& program, const Launch& launch) {
  const int ndim = launch.shape.size();
  size_t fields = 0;
  std::vector<DType> state_types;
  for (const ProgramReduction& reduction : program.reductions())
    for (const DType dtype : state_dtypes(reduction.reduction, reduction.accumulate)) {
      state_types.push_back(dtype);
      ++fields;
    }
  if (launch.inputs.size() != static_cast<size_t>(program.inputs()) ||
      launch.outputs.size() != program.outputs().size() || launch.states.size() != fields)
    throw InvalidArgument(fmt::format("launch has {} inputs, {} outputs and {} states, the program {}, {} and {}",
                                      launch.inputs.size(), launch.outputs.size(), launch.states.size(),
                                      program.inputs(), program.outputs().size(), fields));

  Layout layout;
  for (int d = 0; d < ndim; ++d) {
    layout.extents.push_back(launch.shape[d]);
    layout.reduced.push_back(fields != 0 && (launch.reduce_axes >> d & 1u) != 0);
    layout.axis_of.push_back(d);
    layout.index_offset.push_back(launch.index_offset.empty() ? 0 : launch.index_offset[d]);
  }
  const auto add = [ndim](std::vector<LayoutOperand>& to, const Operand& operand, DType dtype) {
    if (operand.strides.size() != ndim)
      throw InvalidArgument(
          fmt::format("operand has {} strides, the iteration space {} axes", operand.strides.size(), ndim));
    to.push_back({operand.data, dtype, {operand.strides.begin(), operand.strides.end()}});
  };
  for (size_t i = 0; i < launch.inputs.size(); ++i)
    add(layout.inputs, launch.inputs[i], program.input_dtype(static_cast<int>(i)));
  for (size_t i = 0; i < launch.outputs.size(); ++i)
    add(layout.outputs, launch.outputs[i], program.dtype(program.outputs()[i]));
  for (size_t i = 0; i < launch.states.size(); ++i) add(layout.states, launch.states[i], state_types[i]);

  std::vector<bool> pinned(static_cast<size_t>(ndim), false);
  for (const Value& value : program.values())
    if (value.kind == Value::Kind::index) {
      if (value.slot < 0 || value.slot >= ndim)
        throw InvalidArgument(fmt::format("program uses the index along axis {} of {}", value.slot, ndim));
      pinned[static_cast<size_t>(value.slot)] = true;
    }

  std::vector<size_t> order;
  for (size_t d = 0; d < layout.extents.size(); ++d)
    if (layout.extents[d] != 1) order.push_back(d);
  keep_axes(layout, order);

  // Insertion sort: "outside" is not transitive for every set of strides, and this needs no such promise.
  const auto operands = by_priority(layout);
  order.clear();
  for (size_t d = 0; d < layout.extents.size(); ++d) {
    size_t place = order.size();
    while (place > 0 && outside(operands, d, order[place - 1])) --place;
    order.insert(order.begin() + static_cast<int64_t>(place), d);
  }
  keep_axes(layout, order);
  merge_axes(layout, pinned);
  if (layout.extents.empty()) {
    // A single element: one axis of extent 1 that everything lies along.
    layout.extents.push_back(1);
    layout.reduced.push_back(!layout.states.empty());
    for (auto* group : {&layout.inputs, &layout.outputs, &layout.states})
      for (auto& operand : *group) operand.strides.push_back(group == &layout.states ? 0 : itemsize(operand.dtype));
  }
  return layout;
}

}  // namespace quarry::local::cuda
