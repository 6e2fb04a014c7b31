// Selections along an axis whose sizes were settled before: chunk i of the result comes from one chunk of the argument,
// those of no elements are left out. Everything is read once. Elements at positions in any order are gathered so, and
// then put in order: a task holds a chunk of the result, what it takes from other ranks, and the chunks of its own rank
// that it takes from.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/chunkwise.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::algo {
namespace {

namespace ops = local::ops;
using local::DType;
using local::NdArray;

// The chunks that something is taken from.
struct Taken {
  std::vector<int64_t> chunks, extents;
};

Taken taken_of(std::span<const int64_t> counts) {
  Taken taken;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    taken.chunks.push_back(static_cast<int64_t>(i));
    taken.extents.push_back(counts[i]);
  }
  return taken;
}

// What positions take on the way, for every element.
constexpr int64_t kPositionBytes = 3 * sizeof(int64_t);

uint64_t hash_of(std::span<const int64_t> values) {
  return op::Hash().add_bytes(values.data(), values.size_bytes()).value;
}

// A result with the argument's chunks, but for the axis.
op::ArraySpec with_axis(const NodePtr& arg, int axis, AxisChunks cuts) {
  std::vector<AxisChunks> axes = arg->grid.axes();
  axes[static_cast<size_t>(axis)] = std::move(cuts);
  Grid grid(std::move(axes));
  const Dims shape = grid.shape();
  return {shape, arg->dtype, std::move(grid), arg->chosen_grid};
}

NodePtr nothing(const NodePtr& arg, int axis) {
  Dims shape = arg->shape;
  shape[axis] = 0;
  return expr::constant(0, arg->dtype, shape);
}

// Reads `arg` by its chunks; along the axis only those that are taken from.
std::vector<Along> along_of(const NodePtr& arg, int axis, const std::vector<int64_t>& chunks) {
  std::vector<Along> along;
  for (int d = 0; d < arg->grid.ndim(); ++d) along.push_back(Along::following(d, arg->grid.axis(d)));
  along[static_cast<size_t>(axis)].chunks = chunks;
  return along;
}

// An axis of gathered chunks in another order. A chunk of the source holds its elements in the order of the result, so
// what it gives to a chunk of that is one run: all that a task reads.
class Reordered final : public Chunkwise {
 public:
  // `places`: where each element of the result is in the source, whose chunks along the axis are `source`.
  Reordered(int axis, uint64_t identity, const AxisChunks& source, std::shared_ptr<const std::vector<int64_t>> places,
            op::ArraySpec result)
      : axis_(axis), identity_(identity), source_(source), places_(std::move(places)), result_(std::move(result)) {
    const AxisChunks& cuts = result_.grid.axis(axis_);
    std::vector<int64_t> next(static_cast<size_t>(source_.count()), -1);  // the run of a source chunk that goes on
    for (int64_t chunk = 0; chunk < cuts.count(); ++chunk) {
      std::vector<Run>& runs = runs_.emplace_back();
      for (int64_t i = cuts.start(chunk); i < cuts.start(chunk + 1); ++i) {
        const int64_t place = (*places_)[static_cast<size_t>(i)], from = source_.find(place);
        int64_t& run = next[static_cast<size_t>(from)];
        if (run < 0) {
          run = std::ssize(runs);
          runs.push_back({from, place, 0});
        }
        ++runs[static_cast<size_t>(run)].count;
      }
      for (const Run& run : runs) next[static_cast<size_t>(run.from)] = -1;
    }
  }

  std::string_view name() const override { return "take"; }
  void hash(op::Hash& hash) const override { hash.add(identity_).add(axis_).add(result_.grid); }
  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> /*arguments*/, int64_t /*room*/) const override {
    return {result_};
  }
  void needs(const op::Call& /*call*/, int64_t chunk, std::vector<op::Need>& needs) const override {
    for (const Run& run : runs_of(chunk)) {
      Region box = result_.grid.chunk(chunk);
      box.start[axis_] = run.start;
      box.count[axis_] = run.count;
      needs.push_back({0, std::move(box)});
    }
  }
  int64_t scratch_bytes(const op::Call& /*call*/, int64_t chunk) const override {
    const int64_t elements = result_.grid.chunk_elements(chunk), bytes = elements * local::itemsize(result_.dtype);
    return local::rounded_allocation(bytes + op::estimated_peak_bytes(2 * bytes) + 2 * elements * kPositionBytes);
  }
  void make_chunk(const op::Call& /*call*/, int64_t chunk, std::span<const NdArray> pieces,
                  std::span<const NdArray> outputs) const override {
    const AxisChunks& cuts = result_.grid.axis(axis_);
    const int64_t at = result_.grid.coordinates(chunk)[axis_];
    std::vector<int64_t> next(static_cast<size_t>(source_.count()), 0);  // of each source chunk's run
    int64_t together = 0;
    for (const Run& run : runs_of(chunk)) {
      next[static_cast<size_t>(run.from)] = together;
      together += run.count;
    }
    std::vector<int64_t> index;
    for (int64_t i = cuts.start(at); i < cuts.start(at + 1); ++i)
      index.push_back(next[static_cast<size_t>(source_.find((*places_)[static_cast<size_t>(i)]))]++);
    const NdArray joined = pieces.size() == 1 ? pieces[0] : ops::concatenate({pieces.begin(), pieces.end()}, axis_);
    op::assign_results({ops::take(joined, local::from_vector(index), axis_)}, outputs);
  }

 private:
  struct Run {
    int64_t from, start, count;  // of a chunk of the source: elements [start, start + count) of the axis
  };
  const std::vector<Run>& runs_of(int64_t chunk) const {
    return runs_[static_cast<size_t>(result_.grid.coordinates(chunk)[axis_])];
  }

  const int axis_;
  const uint64_t identity_;
  const AxisChunks source_;
  const std::shared_ptr<const std::vector<int64_t>> places_;
  const op::ArraySpec result_;
  std::vector<std::vector<Run>> runs_;  // by the chunk of the result along the axis, in order of the first use
};

}  // namespace

NodePtr true_counts(const NodePtr& mask) {
  return expr::fold_chunks("count_nonzero"_reduction, mask, /*axes=*/1, mask->grid);
}

NodePtr selected(const NodePtr& arg, const NodePtr& mask, int axis, std::span<const int64_t> counts) {
  QUARRY_CHECK(mask->grid.axis(0) == arg->grid.axis(axis) && std::ssize(counts) == mask->grid.count());
  const Taken taken = taken_of(counts);
  if (taken.chunks.empty()) return nothing(arg, axis);
  Along of_mask = Along::following(axis, mask->grid.axis(0));
  of_mask.chunks = taken.chunks;
  MapSpec spec{"compress",
               op::Hash().add(axis).add(hash_of(counts)).value,
               {along_of(arg, axis, taken.chunks), {of_mask}},
               {with_axis(arg, axis, AxisChunks(taken.extents))},
               nullptr,
               {}};
  spec.bytes_per_element = kPositionBytes;
  if (taken.chunks.size() == counts.size()) spec.selects_along = axis;
  spec.function = [axis](std::span<const NdArray> arrays, const ChunkPlace&) {
    return std::vector<NdArray>{ops::compress(arrays[1], arrays[0], axis)};
  };
  return map(std::move(spec), {arg, mask})[0];
}

NodePtr true_positions(const NodePtr& mask, std::span<const int64_t> counts) {
  QUARRY_CHECK(std::ssize(counts) == mask->grid.count());
  const Taken taken = taken_of(counts);
  if (taken.chunks.empty()) return expr::constant(0, DType::int64, {0});
  op::ArraySpec result = with_axis(mask, 0, AxisChunks(taken.extents));
  result.dtype = DType::int64;
  MapSpec spec{"flatnonzero", hash_of(counts), {along_of(mask, 0, taken.chunks)}, {result}, nullptr, {}};
  spec.bytes_per_element = kPositionBytes;
  spec.function = [](std::span<const NdArray> arrays, const ChunkPlace& place) {
    return std::vector<NdArray>{local::apply("add"_op, {ops::flatnonzero(arrays[0]), place.arguments[0].start[0]})};
  };
  return map(std::move(spec), {mask})[0];
}

NodePtr taken(const NodePtr& arg, int axis, std::vector<int64_t> positions) {
  const AxisChunks& cuts = arg->grid.axis(axis);
  const auto count = static_cast<int64_t>(positions.size());
  if (count == 0) return nothing(arg, axis);
  // What each chunk gives, in the order in which it is asked for, and where in the result that belongs.
  std::vector<int64_t> counts(static_cast<size_t>(cuts.count()), 0);
  for (const int64_t position : positions) ++counts[static_cast<size_t>(cuts.find(position))];
  std::vector<int64_t> next(counts.size(), 0);
  for (size_t i = 1; i < counts.size(); ++i) next[i] = next[i - 1] + counts[i - 1];
  const auto gathered = std::make_shared<std::vector<int64_t>>(positions.size());  // positions, chunk after chunk
  const auto places = std::make_shared<std::vector<int64_t>>(positions.size());    // of the result, in those
  bool in_order = true;
  for (size_t i = 0; i < positions.size(); ++i) {
    int64_t& at = next[static_cast<size_t>(cuts.find(positions[i]))];
    (*gathered)[static_cast<size_t>(at)] = positions[i];
    (*places)[i] = at;
    in_order = in_order && at == static_cast<int64_t>(i);
    ++at;
  }
  const Taken from = taken_of(counts);
  const uint64_t identity = op::Hash().add(axis).add(hash_of(positions)).value;
  MapSpec gather{
      "take",  identity, {along_of(arg, axis, from.chunks)}, {with_axis(arg, axis, AxisChunks(from.extents))},
      nullptr, {}};
  const AxisChunks made = gather.outputs[0].grid.axis(axis);
  gather.bytes_per_element = kPositionBytes;
  gather.function = [axis, gathered, made](std::span<const NdArray> arrays, const ChunkPlace& place) {
    const int64_t chunk = place.coordinates[axis], first = made.start(chunk), size = made.size(chunk);
    const NdArray index = local::from_bytes(gathered->data() + first, DType::int64, {size});
    return std::vector<NdArray>{
        ops::take(arrays[0], local::apply("subtract"_op, {index, place.arguments[0].start[axis]}), axis)};
  };
  NodePtr all = map(std::move(gather), {arg})[0];
  if (in_order) return all;

  // Into the order that was asked for.
  const AxisChunks result(count, std::max<int64_t>(cuts.largest(), 1));
  return expr::apply(std::make_shared<Reordered>(axis, identity, made, places, with_axis(all, axis, result)), {all});
}

NodePtr taken_along_axis(const NodePtr& arg, const NodePtr& indices, int axis) {
  std::vector<Along> of_arg, of_indices;
  for (int d = 0; d < indices->grid.ndim(); ++d) {
    of_indices.push_back(Along::following(d, indices->grid.axis(d)));
    of_arg.push_back(d == axis ? Along::whole() : Along::following(d, indices->grid.axis(d)));
  }
  MapSpec spec{"take_along_axis",
               op::Hash().add(axis).value,
               {of_arg, of_indices},
               {{indices->shape, arg->dtype, indices->grid, indices->chosen_grid}},
               nullptr,
               {}};
  spec.bytes_per_element = kPositionBytes;
  spec.function = [axis](std::span<const NdArray> arrays, const ChunkPlace&) {
    return std::vector<NdArray>{ops::take_along_axis(arrays[0], arrays[1], axis)};
  };
  return map(std::move(spec), {arg, indices})[0];
}

}  // namespace quarry::algo
