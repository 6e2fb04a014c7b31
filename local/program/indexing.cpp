#include "quarry/local/program/indexing.h"

#include <fmt/format.h>

#include "quarry/local/base/error.h"

namespace quarry::local {

void throw_out_of_bounds(int64_t index, int axis, int64_t size) {
  throw IndexError(fmt::format("index {} is out of bounds for axis {} with size {}", index, axis, size));
}

void merge_axes(Dims& shape, std::span<Dims* const> strides) {
  int kept = 0;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool merge = kept > 0;
    for (const Dims* operand : strides) merge = merge && (*operand)[kept - 1] == (*operand)[d] * shape[d];
    const int target = merge ? kept - 1 : kept++;
    shape[target] = merge ? shape[target] * shape[d] : shape[d];
    for (Dims* operand : strides) (*operand)[target] = (*operand)[d];
  }
  shape.resize(kept);
  for (Dims* operand : strides) operand->resize(kept);
}

CompactElements compact(const IndexedElements& elements, const Operand& other, int64_t itemsize) {
  CompactElements result{elements, other, itemsize};
  std::vector<Dims*> strides{&result.elements.array.strides, &result.other.strides};
  for (AxisIndex& index : result.elements.indices) strides.push_back(&index.positions.strides);
  merge_axes(result.elements.shape, strides);
  return result;
}

}  // namespace quarry::local
