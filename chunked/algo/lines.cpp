// Functions of whole lines along an axis of one chunk: sorting and what is like it. One read, one write; a task holds a
// chunk, its result and the function's scratch.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/op/operator.h"

namespace quarry::algo {
namespace {

constexpr int64_t kPositionBytes = sizeof(int64_t);  // beside narrow elements

}  // namespace

NodePtr of_lines(const std::string& name, uint64_t identity, local::DType result, LinesFunction function,
                 const std::vector<NodePtr>& args) {
  const Grid& grid = args[0]->grid;
  std::vector<Along> along;
  for (int d = 0; d < grid.ndim(); ++d) along.push_back(Along::following(d, grid.axis(d)));
  MapSpec spec;
  spec.name = name;
  spec.identity = identity;
  spec.along.assign(args.size(), along);
  spec.outputs = {{args[0]->shape, result, grid, args[0]->chosen_grid}};
  spec.bytes_per_element = kPositionBytes;
  spec.function = [function = std::move(function)](std::span<const local::NdArray> lines, const ChunkPlace&) {
    return std::vector<local::NdArray>{function(lines)};
  };
  return map(std::move(spec), args)[0];
}

int64_t line_bytes(int64_t item_bytes) { return op::element_task_bytes(item_bytes) + kPositionBytes; }

int64_t line_task_bytes(int64_t bytes, int64_t elements) {
  return bytes + op::estimated_peak_bytes(bytes) + elements * kPositionBytes;
}

}  // namespace quarry::algo
