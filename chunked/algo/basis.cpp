// Vectors and the rows of a few blocks that hold a basis (as the iterative methods keep it): inner products, and sums
// of rows times coefficients. All blocks and the vector are cut alike along the vector. A task holds its chunk of all
// blocks; they are read once, 2 flops an element for each product.
//
// On a CPU a chunk is walked through by parts that stay in the cache, so that products with a vector which has just
// been changed read the blocks in passing. Local functions of a fixed form do the work, whatever the number of rows.
#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::algo {
namespace {

using local::DType;
using local::NdArray;

using Arrays = std::span<const NdArray>;

constexpr int64_t kPartBytes = 1 << 20;  // of all blocks

// Elements of the chunk that are worked on together.
int64_t part_of(Arrays blocks) {
  int64_t rows = 0;
  for (const NdArray& block : blocks) rows += block.shape()[0];
  const int64_t all = blocks[0].shape()[1];
  if (local::current_context().device.kind != local::DeviceKind::cpu) return std::max<int64_t>(all, 1);
  return std::max(int64_t{1024}, kPartBytes / (rows * local::itemsize(blocks[0].dtype())));
}

void accumulate(const NdArray& sum, const NdArray& term, local::Op op) {
  local::Fused f;
  f.run_into(f(op, f.input(sum), f.input(term)), sum);
}

std::vector<NdArray> parts_of(Arrays blocks, const local::IndexItem& part) {
  std::vector<NdArray> parts;
  for (const NdArray& block : blocks) parts.push_back(block[{local::full_slice, part}]);
  return parts;
}

// products = conj(rows) w, added up over parts.
void add_products(Arrays blocks, const NdArray& w, const NdArray& products) {
  std::vector<NdArray> each;
  const NdArray other = local::conjugated(w);
  for (const NdArray& block : blocks) each.push_back(local::ops::matmul(block, other));
  accumulate(products, local::conjugated(local::ops::concatenate(each, 0)), "add"_op);
}

// out = out - coefficients rows, or with "add" plus; coefficients (h) and out (n), or (r, h) and (r, n).
void add_rows(const NdArray& out, const NdArray& coefficients, Arrays blocks, local::Op op) {
  int64_t at = 0;
  for (const NdArray& block : blocks) {
    const int64_t end = at + block.shape()[0];
    const NdArray some = coefficients[{local::ellipsis, local::Slice{at, end, std::nullopt}}];
    accumulate(out, local::ops::matmul(some, block), op);
    at = end;
  }
}

template <class Work>
void for_each_part(Arrays blocks, const Work& work) {
  const int64_t all = blocks[0].shape()[1], step = part_of(blocks);
  for (int64_t at = 0; at < all; at += step) {
    const local::Slice part{at, std::min(at + step, all), std::nullopt};
    work(part, parts_of(blocks, part));
  }
}

MapSpec spec_of(const char* name, const std::vector<NodePtr>& blocks, std::vector<std::vector<Along>> along,
                std::vector<op::ArraySpec> outputs, int axis) {
  MapSpec spec;
  spec.name = name;
  spec.identity = op::Hash().add(std::string_view(name)).value;
  spec.along = std::move(along);
  for (const NodePtr& block : blocks)
    spec.along.push_back({Along::whole(), Along::following(axis, block->grid.axis(1))});
  spec.outputs = std::move(outputs);
  spec.by_trial = true;
  return spec;
}

std::vector<NodePtr> joined(std::vector<NodePtr> arguments, const std::vector<NodePtr>& blocks) {
  arguments.insert(arguments.end(), blocks.begin(), blocks.end());
  return arguments;
}

op::ArraySpec products_spec(const std::vector<NodePtr>& blocks) {
  int64_t rows = 0;
  for (const NodePtr& block : blocks) rows += block->shape[0];
  const int64_t chunks = blocks[0]->grid.axis(1).count();
  const Grid grid({AxisChunks(chunks, 1), AxisChunks(rows, rows)});
  return {grid.shape(), blocks[0]->dtype, grid};
}

op::ArraySpec spec_of(const NodePtr& w) { return {w->shape, w->dtype, w->grid, w->chosen_grid}; }

}  // namespace

NodePtr basis_products(const std::vector<NodePtr>& blocks, const NodePtr& w) {
  MapSpec spec =
      spec_of("basis products", blocks, {{Along::following(0, w->grid.axis(0))}}, {products_spec(blocks)}, 0);
  spec.into = [](Arrays arrays, const ChunkPlace&, Arrays outputs) {
    const NdArray products = outputs[0][{0}];
    products.fill(0);
    for_each_part(arrays.subspan(1),
                  [&](const local::Slice& part, Arrays blocks) { add_products(blocks, arrays[0][{part}], products); });
  };
  return map(std::move(spec), joined({w}, blocks))[0];
}

std::vector<NodePtr> without_basis(const std::vector<NodePtr>& blocks, const NodePtr& w, const NodePtr& coefficients,
                                   bool products) {
  std::vector<op::ArraySpec> outputs{spec_of(w)};
  if (products) outputs.push_back(products_spec(blocks));
  MapSpec spec = spec_of(products ? "orthogonalise, basis products" : "orthogonalise", blocks,
                         {{Along::following(0, w->grid.axis(0))}, {Along::whole()}}, std::move(outputs), 0);
  spec.into = [](Arrays arrays, const ChunkPlace&, Arrays outputs) {
    if (outputs.size() > 1) outputs[1].fill(0);
    for_each_part(arrays.subspan(2), [&](const local::Slice& part, Arrays blocks) {
      const NdArray out = outputs[0][{part}];
      out.assign(arrays[0][{part}]);
      add_rows(out, arrays[1], blocks, "subtract"_op);
      if (outputs.size() > 1) add_products(blocks, out, outputs[1][{0}]);
    });
  };
  return map(std::move(spec), joined({w, coefficients}, blocks));
}

std::vector<NodePtr> with_basis_row(const NodePtr& block, const NodePtr& number, const NodePtr& w,
                                    const NodePtr& squared) {
  MapSpec spec = spec_of("normalise, basis row", {block}, {{Along::following(0, w->grid.axis(0))}, {}, {}},
                         {spec_of(w), spec_of(block)}, 0);
  spec.into = [](Arrays arrays, const ChunkPlace&, Arrays outputs) {
    const NdArray &w = arrays[0], &squared = arrays[1], &number = arrays[2], &block = arrays[3];
    local::Fused divide;
    const auto from = divide.input(w), of = divide.input(squared);
    const auto length = divide("sqrt"_op, local::is_complex(squared.dtype()) ? divide("real"_op, of) : of);
    divide.run_into(divide("divide"_op, from, length), outputs[0]);
    const int64_t rows = block.shape()[0];
    const NdArray is_row = local::apply("equal"_op, {local::ops::arange(rows), number}).reshape({rows, 1});
    local::Fused select;
    const auto chosen = select.input(is_row), row = select.input(outputs[0]), others = select.input(block);
    select.run_into(select("where"_op, chosen, row, others), outputs[1]);
  };
  return map(std::move(spec), {w, squared, number, block});
}

NodePtr basis_combined(const std::vector<NodePtr>& blocks, const NodePtr& coefficients) {
  const int64_t rows = coefficients->shape[0];
  const Grid grid({AxisChunks(rows, std::max<int64_t>(rows, 1)), blocks[0]->grid.axis(1)});
  MapSpec spec =
      spec_of("combine basis", blocks, {{Along::whole(), Along::whole()}}, {{grid.shape(), blocks[0]->dtype, grid}}, 1);
  spec.into = [](Arrays arrays, const ChunkPlace&, Arrays outputs) {
    for_each_part(arrays.subspan(1), [&](const local::Slice& part, Arrays blocks) {
      const NdArray out = outputs[0][{local::full_slice, part}];
      out.fill(0);
      add_rows(out, arrays[0], blocks, "add"_op);
    });
  };
  return map(std::move(spec), joined({coefficients}, blocks))[0];
}

}  // namespace quarry::algo
