#include "quarry/chunked/expr/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "quarry/chunked/expr/form.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/listing.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/local/base/error.h"
#include "quarry/local/program/op.h"

namespace quarry::expr {

using local::DType;
using local::InvalidArgument;
using local::Scalar;

namespace {

// A computed chunk may exceed the target by this factor before it is cut.
constexpr int64_t kOversize = 2;

struct Hasher {
  op::Hash& h;
  bool with_arguments = true;
  void add(const NodePtr& arg) const {
    if (with_arguments) h.add(arg->hash);
  }
  void operator()(const Source& n) const {
    const io::DatasetInfo& info = n.dataset->info();
    h.add(info.file).add(info.object).add(info.stored_bytes);
  }
  void operator()(const Stored& n) const {
    if (with_arguments) h.add(n.identity);
  }
  void operator()(const Constant& n) const {
    const std::complex<double> z = n.value.as_complex();
    h.add(static_cast<int>(n.value.dtype())).add(z.real()).add(z.imag());
    h.add(local::is_integer(n.value.dtype()) ? n.value.as_uint64() : uint64_t{0});
  }
  void operator()(const Index& n) const { h.add(n.axis); }
  void operator()(const Elementwise& n) const {
    h.add(static_cast<int>(n.op)).add(n.loop ? static_cast<int>(*n.loop) : -1);
    for (const NodePtr& arg : n.args) add(arg);
  }
  void operator()(const Reduce& n) const {
    h.add(static_cast<int>(n.reduction));
    add(n.arg);
    h.add(static_cast<uint64_t>(n.axes));
    h.add(static_cast<int>(n.accumulate)).add(n.ddof).add(n.chunks ? n.chunks->hash() : 0);
  }
  void operator()(const View& n) const {
    add(n.arg);
    for (const View::Axis& axis : n.axes) h.add(axis.source).add(axis.start).add(axis.step);
    for (const auto& [axis, position] : n.fixed) h.add(axis).add(position);
    for (const auto& [axis, with] : n.beside) h.add(axis).add(with.source).add(with.start).add(with.step);
  }
  void operator()(const Rechunk& n) const { add(n.arg); }
  void operator()(const MatMul& n) const {
    add(n.a());
    add(n.b());
    h.add(n.syrk).add(static_cast<int>(n.precision));
  }
  void operator()(const Apply& n) const {
    h.add(n.op->name());
    n.op->hash(h);
    for (const NodePtr& arg : n.args) add(arg);
  }
  void operator()(const Item& n) const {
    add(n.arg);
    h.add(n.output);
  }
};

uint64_t hash_of(const Payload& payload, const Dims& shape, DType dtype, const Grid& grid, bool with_arguments) {
  op::Hash hash;
  hash.add(static_cast<uint64_t>(payload.index())).add(shape).add(static_cast<int>(dtype)).add(grid);
  std::visit(Hasher{hash, with_arguments}, payload);
  return hash.value;
}

NodePtr make(Payload payload, const Dims& shape, DType dtype, Grid grid, bool generated = false,
             bool chosen_grid = false) {
  auto node = std::make_shared<Node>();
  int64_t bytes = local::element_count(shape);  // throws where it does not fit 64 bits
  if (__builtin_mul_overflow(bytes, local::itemsize(dtype), &bytes))
    throw InvalidArgument(fmt::format("array is too big: the shape {} of {} has more bytes than 64 bits can count",
                                      local::to_string(shape), local::name(dtype)));
  node->hash = hash_of(payload, shape, dtype, grid, /*with_arguments=*/true);
  node->payload = std::move(payload);
  node->shape = shape;
  node->dtype = dtype;
  node->grid = std::move(grid);
  node->generated = generated;
  node->chosen_grid = chosen_grid;
  return node;
}

bool policy_chooses(const Dims& shape) {
  const ChunkPolicy& policy = chunk_policy();
  return policy.chunks && policy.chunks->size() == shape.size();
}

int64_t target() { return target_chunk_bytes(chunk_policy().device); }

struct GridChoice {
  Grid grid;
  bool chosen = false;
};

// The chunks of an array of `shape` whose argument number i covers it by broadcasting.
GridChoice unify(const Dims& shape, DType dtype, std::span<const NodePtr> args) {
  // The largest decides; of equal ones the chosen, then the finer chunks, then the first.
  const auto precedes = [](const Node* a, const Node* b) {
    const int64_t na = local::element_count(a->shape), nb = local::element_count(b->shape);
    if (na != nb) return na > nb;
    if (a->chosen_grid != b->chosen_grid) return a->chosen_grid;
    return a->grid != b->grid && largest_chunk_bytes(a->grid, 1) < largest_chunk_bytes(b->grid, 1);
  };
  std::vector<const Node*> candidates;
  candidates.reserve(args.size());
  for (const NodePtr& arg : args) {
    if (arg->generated && !arg->chosen_grid) continue;
    candidates.insert(std::ranges::upper_bound(candidates, arg.get(), precedes), arg.get());
  }
  if (candidates.empty()) return {default_grid(shape, dtype), policy_chooses(shape)};
  const Node& first = *candidates[0];
  if (first.shape == shape) return {first.grid, first.chosen_grid};
  std::vector<AxisChunks> axes;
  axes.reserve(static_cast<size_t>(shape.size()));
  for (int d = 0; d < shape.size(); ++d) {
    const AxisChunks* found = nullptr;
    for (const Node* arg : candidates) {
      const int axis = d - (shape.size() - arg->shape.size());
      if (axis < 0 || arg->shape[axis] != shape[d]) continue;
      found = &arg->grid.axis(axis);
      break;
    }
    axes.push_back(found ? *found : AxisChunks(shape[d], std::max<int64_t>(shape[d], 1)));
  }
  // Broadcasting against each other, two modest chunks may span a huge one.
  return {limited_grid(Grid(std::move(axes)), local::itemsize(dtype), kOversize * target()), first.chosen_grid};
}

// The chunks of the elements start + step * x, x in [0, count), of an axis.
AxisChunks view_chunks(const AxisChunks& source, int64_t start, int64_t step, int64_t count) {
  if (count == source.extent() && start == 0 && step == 1) return source;
  if (count == 0) return AxisChunks(0, 1);
  const int64_t stride = step < 0 ? -step : step;
  check_listable(std::abs(source.find(start + step * (count - 1)) - source.find(start)));
  std::vector<int64_t> extents;
  int64_t merged = 0;
  // With a step, as many chunks are merged, so that the chunks of a thinned array keep their size.
  for (int64_t x = 0, from = 0; x < count;) {
    const int64_t i = source.find(start + step * x);
    const int64_t next =
        step > 0 ? (source.start(i + 1) - start - 1) / stride + 1 : (start - source.start(i)) / stride + 1;
    x = std::min(next, count);
    if (++merged == stride || x == count) {
      extents.push_back(x - from);
      from = x;
      merged = 0;
    }
  }
  return AxisChunks(extents);
}

}  // namespace

NodePtr source(std::shared_ptr<io::Dataset> dataset) {
  const io::DatasetInfo& info = dataset->info();
  const Dims shape = info.shape;
  const DType dtype = info.dtype;
  Grid grid = default_grid(shape, dtype, info.chunks);
  return make(Source{std::move(dataset)}, shape, dtype, std::move(grid), false, policy_chooses(shape));
}

NodePtr stored(std::shared_ptr<exec::StoredArray> array, uint64_t identity, const Dims& shape, DType dtype,
               const Grid& grid, bool chosen_grid) {
  return make(Stored{std::move(array), identity}, shape, dtype, grid, /*generated=*/false, chosen_grid);
}

NodePtr noted(const NodePtr& node, std::string_view how) {
  const auto* stored = node->as<Stored>();
  if (stored == nullptr) return node;
  return make(Stored{stored->array, stored->identity, how}, node->shape, node->dtype, node->grid, node->generated,
              node->chosen_grid);
}

uint64_t form_of(const Node& node) {
  return op::Hash()
      .add(hash_of(node.payload, node.shape, node.dtype, node.grid, /*with_arguments=*/false))
      .add(node.generated)
      .add(node.chosen_grid)
      .value;
}

uint64_t hash_of(std::span<const uint64_t> words) {
  op::Hash hash;
  for (const uint64_t word : words) hash.add(word);
  return hash.value;
}

uint64_t content_hash(const void* data, int64_t bytes) {
  return op::Hash().add_bytes(data, static_cast<size_t>(bytes)).value;
}

NodePtr constant(const Scalar& value, DType dtype, const Dims& shape) {
  return make(Constant{Scalar::strong(value, dtype)}, shape, dtype, default_grid(shape, dtype), true,
              policy_chooses(shape));
}

NodePtr index(const Dims& shape, int axis) {
  QUARRY_CHECK(axis >= 0 && axis < shape.size());
  return make(Index{axis}, shape, DType::int64, default_grid(shape, DType::int64), true, policy_chooses(shape));
}

DType result_dtype(local::Op op, std::span<const DType> arguments, std::optional<DType> loop) {
  std::vector<local::PromotionOperand> operands;
  operands.reserve(arguments.size());
  for (DType dtype : arguments) operands.push_back({dtype, false});
  return local::resolve(op, operands, loop).result;
}

namespace {

Dims broadcast(std::span<const NodePtr> args) {
  // Most have the same shape, but for scalars.
  const Dims* shape = &args[0]->shape;
  for (const NodePtr& arg : args)
    if (shape->empty()) shape = &arg->shape;
  const auto is_usual = [&](const NodePtr& arg) { return arg->shape.empty() || arg->shape == *shape; };
  if (std::ranges::all_of(args, is_usual)) return *shape;
  std::vector<Dims> shapes;
  shapes.reserve(args.size());
  for (const NodePtr& arg : args) shapes.push_back(arg->shape);
  return local::broadcast_shapes(shapes);
}

NodePtr elementwise_of_dtype(local::Op op, std::vector<NodePtr> args, std::optional<DType> loop, DType dtype) {
  const Dims shape = broadcast(args);
  const bool generated = std::ranges::all_of(args, [](const NodePtr& arg) { return arg->generated; });
  GridChoice choice = unify(shape, dtype, args);
  return make(Elementwise{op, std::move(args), loop}, shape, dtype, std::move(choice.grid), generated, choice.chosen);
}

}  // namespace

NodePtr elementwise(local::Op op, std::vector<NodePtr> args, std::optional<DType> loop) {
  std::vector<DType> dtypes;
  dtypes.reserve(args.size());
  for (const NodePtr& arg : args) dtypes.push_back(arg->dtype);
  const DType dtype = op == "cast"_op ? loop.value() : result_dtype(op, dtypes, loop);
  return elementwise_of_dtype(op, std::move(args), loop, dtype);
}

NodePtr elementwise_like(const Node& node, std::vector<NodePtr> args) {
  const auto* given = node.as<Elementwise>();
  QUARRY_CHECK(given != nullptr && given->args.size() == args.size());
  return elementwise_of_dtype(given->op, std::move(args), given->loop, node.dtype);
}

NodePtr cast(const NodePtr& arg, DType dtype) {
  if (arg->dtype == dtype) return arg;
  if (const Constant* value = arg->as<Constant>()) return constant(value->value, dtype, arg->shape);
  return elementwise("cast"_op, {arg}, dtype);
}

NodePtr reduce(local::Reduction reduction, const NodePtr& arg, uint32_t axes, std::optional<DType> accumulate,
               double ddof) {
  const local::ReductionInfo& row = local::info(reduction);
  // A reduction of nothing (0-d arrays, axis=()) is one of an axis of length 1, so that a reduction always has an axis.
  if (axes == 0 && arg->shape.size() < local::kMaxDims)
    return reduce(reduction, insert_axes(arg, uint32_t{1} << arg->shape.size()), uint32_t{1} << arg->shape.size(),
                  accumulate, ddof);
  Dims shape;
  int64_t reduced = 1;
  std::vector<AxisChunks> kept;
  for (int d = 0; d < arg->shape.size(); ++d) {
    if (axes >> d & 1) {
      reduced = std::min<int64_t>(reduced, arg->shape[d]);
    } else {
      shape.push_back(arg->shape[d]);
      kept.push_back(arg->grid.axis(d));
    }
  }
  if (reduced == 0 && row.has_position)
    throw InvalidArgument(fmt::format("attempt to get {} of an empty sequence", row.name));
  if (reduced == 0 && !row.has_identity) {
    throw InvalidArgument(fmt::format("zero-size array to reduction operation {} which has no identity",
                                      row.ufunc ? row.ufunc : row.name));
  }
  const DType dtype = accumulate ? *accumulate : local::accumulate_dtype(reduction, arg->dtype);
  return make(Reduce{reduction, arg, axes, dtype, ddof}, shape, local::result_dtype(reduction, dtype),
              Grid(std::move(kept)), false, arg->chosen_grid);
}

NodePtr fold_chunks(local::Reduction reduction, const NodePtr& arg, uint32_t axes, const Grid& cuts,
                    std::optional<DType> accumulate, double ddof) {
  const local::ReductionInfo& row = local::info(reduction);
  QUARRY_CHECK(cuts.shape() == arg->shape && axes != 0);
  std::vector<AxisChunks> made = cuts.axes();
  for (int d = 0; d < cuts.ndim(); ++d) {
    if (!(axes >> d & 1)) continue;
    const int64_t count = cuts.axis(d).count();
    check_listable(count);
    for (int64_t i = 0; i < count; ++i)
      if (cuts.axis(d).size(i) == 0 && !row.has_identity)
        throw InvalidArgument(fmt::format("{} of an empty chunk, which has no identity", row.name));
    made[static_cast<size_t>(d)] = AxisChunks(count, 1);
  }
  Grid grid(std::move(made));
  const Dims shape = grid.shape();
  const DType dtype = accumulate ? *accumulate : local::accumulate_dtype(reduction, arg->dtype);
  return make(Reduce{reduction, arg, axes, dtype, ddof, cuts}, shape, local::result_dtype(reduction, dtype),
              std::move(grid), false, /*chosen_grid=*/true);
}

View composed(View view, const Dims& shape) {
  QUARRY_CHECK(static_cast<int>(view.axes.size()) == shape.size() && view.beside.empty());
  for (const View* below = view.arg->as<View>(); below != nullptr && below->beside.empty();
       below = view.arg->as<View>()) {
    for (View::Axis& axis : view.axes) {
      if (axis.source < 0) continue;
      const View::Axis& inner = below->axes[static_cast<size_t>(axis.source)];
      axis = inner.source < 0 ? View::Axis{}
                              : View::Axis{inner.source, inner.start + inner.step * axis.start, inner.step * axis.step};
    }
    std::vector<std::pair<int, int64_t>> all = below->fixed;
    for (const auto& [source, position] : view.fixed) {
      const View::Axis& inner = below->axes[static_cast<size_t>(source)];
      if (inner.source >= 0) all.emplace_back(inner.source, inner.start + inner.step * position);
    }
    view.fixed = std::move(all);
    view.arg = NodePtr(below->arg);
  }
  for (int d = 0; d < shape.size(); ++d) {
    View::Axis& axis = view.axes[static_cast<size_t>(d)];
    // One spelling for each view: an axis of one element has step 1, an empty one starts at 0.
    if (axis.source < 0 || shape[d] <= 1) axis.step = 1;
    if (axis.source < 0 || shape[d] == 0) axis.start = 0;
  }
  std::ranges::sort(view.fixed);
  return view;
}

bool changes_nothing(const View& view, const Dims& shape) {
  if (shape != view.arg->shape) return false;
  for (int d = 0; d < shape.size(); ++d)
    if (view.axes[static_cast<size_t>(d)] != View::Axis{d, 0, 1}) return false;
  return true;
}

NodePtr view(const NodePtr& arg, std::vector<View::Axis> axes, std::vector<std::pair<int, int64_t>> fixed,
             const Dims& shape) {
  View made = composed({arg, std::move(axes), std::move(fixed)}, shape);
  if (changes_nothing(made, shape)) return made.arg;
  const Node& from = *made.arg;
  if (const Constant* value = from.as<Constant>()) return constant(value->value, from.dtype, shape);

  Grid grid;
  if (from.generated) {
    grid = default_grid(shape, from.dtype);
  } else {
    std::vector<AxisChunks> chunks;
    chunks.reserve(made.axes.size());
    bool spread = false;
    for (int d = 0; d < shape.size(); ++d) {
      const View::Axis& axis = made.axes[static_cast<size_t>(d)];
      if (axis.source >= 0) {
        chunks.push_back(view_chunks(from.grid.axis(axis.source), axis.start, axis.step, shape[d]));
      } else {
        chunks.emplace_back(shape[d], std::max<int64_t>(shape[d], 1));
        spread = spread || shape[d] > 1;
      }
    }
    grid = Grid(std::move(chunks));
    if (spread) grid = limited_grid(grid, local::itemsize(from.dtype), kOversize * target());
  }
  return make(std::move(made), shape, from.dtype, std::move(grid), from.generated, from.chosen_grid);
}

NodePtr diagonal(const NodePtr& arg, int row_axis, int column_axis, int64_t row, int64_t column, int64_t count) {
  QUARRY_CHECK(row_axis != column_axis && row + count <= arg->shape[row_axis] &&
               column + count <= arg->shape[column_axis]);
  View made{arg, {}, {}};
  Dims shape;
  std::vector<AxisChunks> chunks;
  for (int d = 0; d < arg->shape.size(); ++d) {
    if (d == row_axis || d == column_axis) continue;
    made.axes.push_back({d, 0, 1});
    shape.push_back(arg->shape[d]);
    chunks.push_back(arg->grid.axis(d));
  }
  made.axes.push_back({row_axis, row, 1});
  made.beside.emplace_back(shape.size(), View::Axis{column_axis, column, 1});
  shape.push_back(count);
  if (const Constant* value = arg->as<Constant>()) return constant(value->value, arg->dtype, shape);
  chunks.push_back(view_chunks(arg->grid.axis(row_axis), row, 1, count));
  Grid grid = arg->generated ? default_grid(shape, arg->dtype) : Grid(std::move(chunks));
  return make(std::move(made), shape, arg->dtype, std::move(grid), arg->generated, arg->chosen_grid);
}

NodePtr transpose(const NodePtr& arg, std::span<const int64_t> order) {
  std::vector<View::Axis> axes;
  Dims shape;
  for (int64_t axis : order) {
    axes.push_back({static_cast<int>(axis), 0, 1});
    shape.push_back(arg->shape[static_cast<int>(axis)]);
  }
  return view(arg, std::move(axes), {}, shape);
}

NodePtr broadcast_to(const NodePtr& arg, const Dims& shape) {
  std::vector<View::Axis> axes;
  std::vector<std::pair<int, int64_t>> fixed;
  const int shift = shape.size() - arg->shape.size();
  for (int d = 0; d < shape.size(); ++d) {
    const int source = d - shift;
    if (source >= 0 && arg->shape[source] == shape[d]) {
      axes.push_back({source, 0, 1});
    } else {
      if (source >= 0) fixed.emplace_back(source, 0);
      axes.push_back({});
    }
  }
  return view(arg, std::move(axes), std::move(fixed), shape);
}

NodePtr insert_axes(const NodePtr& arg, uint32_t inserted) {
  std::vector<View::Axis> axes;
  Dims shape;
  int next = 0;
  for (int d = 0; d < arg->shape.size() + std::popcount(inserted); ++d) {
    if (inserted >> d & 1) {
      axes.push_back({});
      shape.push_back(1);
    } else {
      axes.push_back({next, 0, 1});
      shape.push_back(arg->shape[next++]);
    }
  }
  return view(arg, std::move(axes), {}, shape);
}

NodePtr rechunk(const NodePtr& arg, const Grid& grid) {
  if (grid.shape() != arg->shape)
    throw InvalidArgument(
        fmt::format("chunks {} do not cut an array of shape {}", grid.to_string(), local::to_string(arg->shape)));
  if (grid == arg->grid && arg->chosen_grid) return arg;
  const NodePtr below = arg->as<Rechunk>() ? arg->as<Rechunk>()->arg : arg;
  return make(Rechunk{below}, below->shape, below->dtype, grid, below->generated, true);
}

MatMulTile product_tile(const Node& a, const Node& b, bool syrk, local::DeviceKind device, int64_t target_bytes,
                        int64_t inner_hint) {
  const int nd = b.shape.size();
  const int64_t k = b.shape[nd - 2], n = b.shape[nd - 1], m = syrk ? n : a.shape[nd - 2];
  const int64_t itemsize = local::itemsize(b.dtype);
  if (!syrk && nd == 2) {
    const auto chunks = [](const Node& node) {
      if (node.generated) return MatMulChunks{};
      return MatMulChunks{node.grid.axis(0).largest(), node.grid.axis(1).largest()};
    };
    if (const auto tile = matmul_tile_of_chunks(m, k, n, itemsize, target_bytes, chunks(a), chunks(b))) return *tile;
  }
  const int64_t row_hint = syrk ? 0 : a.grid.axis(nd - 2).largest();
  return matmul_tile(m, k, n, itemsize, target_bytes, row_hint, inner_hint, matmul_unit(device));
}

NodePtr matmul(const NodePtr& a, const NodePtr& b, bool syrk, local::Precision precision) {
  // c is (n, n) for a SYRK of b (k, n).
  const int nd = b->shape.size();
  Dims shape = b->shape;
  shape[nd - 2] = syrk ? shape[nd - 1] : a->shape[nd - 2];
  const int64_t itemsize = local::itemsize(b->dtype);
  const MatMulTile tile = product_tile(*a, *b, syrk, chunk_policy().device, target(), /*inner_hint=*/0);
  Dims chunk = Dims::filled(nd, 1);
  chunk[nd - 2] = tile.m, chunk[nd - 1] = tile.n;
  // Many small products share a chunk.
  int64_t bytes = std::max(std::max(tile.m * tile.n, tile.m * tile.k), tile.k * tile.n) * itemsize;
  for (int d = nd - 3; d >= 0; --d) {
    chunk[d] = std::clamp<int64_t>(target() / std::max<int64_t>(bytes, 1), 1, std::max<int64_t>(shape[d], 1));
    bytes *= chunk[d];
    if (chunk[d] < shape[d]) break;
  }
  Grid grid = Grid::regular(shape, chunk);
  std::vector<NodePtr> args = syrk ? std::vector{b} : std::vector{a, b};
  return make(MatMul{std::move(args), syrk, precision}, shape, b->dtype, std::move(grid), false,
              a->chosen_grid || b->chosen_grid);
}

NodePtr apply(op::OperatorPtr op, std::vector<NodePtr> args) {
  std::vector<op::ArraySpec> outputs = op->infer(specs_of(args), /*room=*/0);
  QUARRY_CHECK(!outputs.empty());
  const op::ArraySpec first = outputs[0];
  return make(Apply{std::move(op), std::move(args), std::move(outputs)}, first.shape, first.dtype, first.grid,
              /*generated=*/false, first.chosen_grid);
}

NodePtr item(const NodePtr& arg, int output) {
  const Apply* applied = arg->as<Apply>();
  QUARRY_CHECK(applied && output >= 0 && output < std::ssize(applied->outputs));
  if (output == 0) return arg;
  const op::ArraySpec& made = applied->outputs[static_cast<size_t>(output)];
  return make(Item{arg, output}, made.shape, made.dtype, made.grid, /*generated=*/false, made.chosen_grid);
}

}  // namespace quarry::expr
