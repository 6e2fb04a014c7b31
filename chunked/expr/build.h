// Makes logical nodes: shapes, dtypes, grids and hashes are inferred here, and the user's mistakes throw here.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/detail.h"

namespace quarry::expr {

NodePtr source(std::shared_ptr<io::Dataset> dataset);
// `identity` tells stored arrays apart, the same on every rank. `chosen_grid`: as of the array that was computed.
NodePtr stored(std::shared_ptr<exec::StoredArray> array, uint64_t identity, const Dims& shape, local::DType dtype,
               const Grid& grid, bool chosen_grid = false);
// The same stored array, whose listings say how it was computed; others as they are.
NodePtr noted(const NodePtr& node, std::string_view how);
// For the identity of local data.
uint64_t content_hash(const void* data, int64_t bytes);
NodePtr constant(const local::Scalar& value, local::DType dtype, const Dims& shape = {});
// Positions along `axis` of an int64 array of `shape`.
NodePtr index(const Dims& shape, int axis);

// The dtype that an operation gives for arguments of these dtypes. Throws TypeError where there is no such loop.
local::DType result_dtype(local::Op op, std::span<const local::DType> arguments, std::optional<local::DType> loop);
// Arguments broadcast. Throws InvalidArgument naming the shapes, TypeError as above. The chunks are those of the
// largest argument that needs storage; axes that it does not have come from the others.
NodePtr elementwise(local::Op op, std::vector<NodePtr> args, std::optional<local::DType> loop = std::nullopt);
// The same operation on other arguments, of the same dtypes as those of the node.
NodePtr elementwise_like(const Node& node, std::vector<NodePtr> args);
NodePtr cast(const NodePtr& arg, local::DType dtype);

// `axes`: bit per axis. Throws InvalidArgument for an empty reduction without identity. Default accumulation: NumPy's.
NodePtr reduce(local::Reduction reduction, const NodePtr& arg, uint32_t axes,
               std::optional<local::DType> accumulate = std::nullopt, double ddof = 0);

// The same of every chunk of `cuts`, which cut arg: axes stay, those of `axes` with an element per chunk. Nothing is
// merged; positions count from the beginning of arg. The cuts are kept, whatever the budget. Throws InvalidArgument for
// an empty chunk where the reduction has no identity.
NodePtr fold_chunks(local::Reduction reduction, const NodePtr& arg, uint32_t axes, const Grid& cuts,
                    std::optional<local::DType> accumulate = std::nullopt, double ddof = 0);

// A view, without diagonals, of what is no such view itself, spelled as view() spells it; and whether that is its
// argument as it is.
View composed(View view, const Dims& shape);
bool changes_nothing(const View& view, const Dims& shape);
// Composes with a view below; gives `arg` itself where nothing changes.
NodePtr view(const NodePtr& arg, std::vector<View::Axis> axes, std::vector<std::pair<int, int64_t>> fixed,
             const Dims& shape);
// Elements [i, ..., j] with i = row + x, j = column + x of two axes, x in [0, count), as the last axis. Inside arg.
NodePtr diagonal(const NodePtr& arg, int row_axis, int column_axis, int64_t row, int64_t column, int64_t count);
NodePtr transpose(const NodePtr& arg, std::span<const int64_t> axes);  // a permutation
NodePtr broadcast_to(const NodePtr& arg, const Dims& shape);           // shapes agree
NodePtr insert_axes(const NodePtr& arg, uint32_t axes);                // bit per axis of the result that is new
NodePtr rechunk(const NodePtr& arg, const Grid& grid);
// The tiles of a product: chunks of a large operand beside a narrow one, but not of stacks; else by matmul_tile(), with
// the cuts of a's rows and `inner_hint`.
MatMulTile product_tile(const Node& a, const Node& b, bool syrk, local::DeviceKind device, int64_t target_bytes,
                        int64_t inner_hint);
// At least 2-d, equal dtypes that the engines multiply, batch axes equal.
NodePtr matmul(const NodePtr& a, const NodePtr& b, bool syrk = false,
               local::Precision precision = local::Precision::exact);
// Shapes, dtypes and chunks are what the operator infers; it throws the user's mistakes.
NodePtr apply(op::OperatorPtr op, std::vector<NodePtr> args);
// Output number `output` of an Apply.
NodePtr item(const NodePtr& arg, int output);

}  // namespace quarry::expr
