// Selections along an axis whose sizes were settled before: chunk i of the result comes from one chunk of the argument,
// those of no elements are left out. Everything is read once. Elements at positions in any order are gathered so, and
// then put in order: a task holds a chunk of the result, what it takes from other ranks, and the chunks of its own rank
// that it takes from. Where the argument is read from a file, positions read what they need of a chunk: those that lie
// close together in one box.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>

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

// In pieces of at most so many elements.
Taken taken_of(std::span<const int64_t> counts, int64_t most = std::numeric_limits<int64_t>::max()) {
  Taken taken;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (int64_t left = counts[i]; left > 0; left -= taken.extents.back()) {
      taken.chunks.push_back(static_cast<int64_t>(i));
      taken.extents.push_back(std::min(left, most));
    }
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

// Elements of an axis that one read takes together: where the argument is, or is computed element by element from,
// files of which parts can be read by themselves, neighbours so far apart that reading what lies between would take
// longer than another read. None: chunks are taken whole.
constexpr int64_t kGapBytes = 32 << 10;

std::optional<int64_t> gap_of_source(const io::Dataset& dataset, int axis) {
  const io::DatasetInfo& info = dataset.info();
  const Dims& block = info.chunks ? *info.chunks : info.shape;
  // Chunks that are decoded as a whole are, once for all that is taken of them.
  if (dataset.decoded_chunk_bytes() > 0) return block[axis];
  if (!info.direct || !info.filters.empty()) return {};
  int64_t bytes = local::itemsize(info.dtype);
  for (int d = axis + 1; d < block.size(); ++d) bytes *= std::max<int64_t>(block[d], 1);
  return kGapBytes / bytes;
}

std::optional<int64_t> gap_of(const NodePtr& node, int axis) {
  if (const auto* source = node->as<expr::Source>()) return gap_of_source(*source->dataset, axis);
  if (const auto* rechunk = node->as<expr::Rechunk>()) return gap_of(rechunk->arg, axis);
  if (const auto* view = node->as<expr::View>()) {
    const expr::View::Axis& from = view->axes[static_cast<size_t>(axis)];
    if (from.source < 0 || from.step == 0 || !view->beside.empty()) return {};
    const std::optional<int64_t> gap = gap_of(view->arg, from.source);
    return gap ? std::optional(*gap / std::abs(from.step)) : gap;
  }
  const auto* work = node->as<expr::Elementwise>();
  if (work == nullptr) return {};
  std::optional<int64_t> largest;
  for (const NodePtr& arg : work->args) {
    // What is broadcast along the axis, or made of nothing, is there anyway.
    const int at = axis - (node->shape.size() - arg->shape.size());
    if (arg->generated || at < 0 || arg->shape[at] == 1) continue;
    const std::optional<int64_t> gap = gap_of(arg, at);
    if (!gap) return {};
    largest = std::max(largest.value_or(0), *gap);
  }
  return largest;
}

// Positions along an axis, chunk after chunk, read in boxes: of each chunk of the result those of the argument.
class Gathered final : public Chunkwise {
 public:
  // `positions`: of the chunks of the result in turn.
  Gathered(int axis, uint64_t identity, std::vector<int64_t> positions, int64_t gap, op::ArraySpec result)
      : axis_(axis), identity_(identity), positions_(std::move(positions)), gap_(gap), result_(std::move(result)) {
    const AxisChunks& cuts = result_.grid.axis(axis_);
    for (int64_t chunk = 0; chunk < cuts.count(); ++chunk) boxes_.push_back(boxes_of(positions_in(chunk)));
  }

  std::string_view name() const override { return "take"; }
  void hash(op::Hash& hash) const override { hash.add(identity_).add(axis_).add(gap_).add(result_.grid); }
  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> /*arguments*/, int64_t /*room*/) const override {
    return {result_};
  }
  void needs(const op::Call& /*call*/, int64_t chunk, std::vector<op::Need>& needs) const override {
    for (const Box& box : boxes_in(chunk)) {
      Region region = result_.grid.chunk(chunk);
      region.start[axis_] = box.start;
      region.count[axis_] = box.count;
      needs.push_back({0, std::move(region)});
    }
  }
  int64_t scratch_bytes(const op::Call& /*call*/, int64_t chunk) const override {
    const Dims shape = result_.grid.chunk_shape(chunk);
    const int64_t item = local::itemsize(result_.dtype), elements = local::element_count(shape);
    const std::vector<Box>& boxes = boxes_in(chunk);
    const int64_t read = boxes.back().at + boxes.back().count;
    const int64_t joined = boxes.size() > 1 ? elements / shape[axis_] * read * item : 0;
    return local::rounded_allocation(joined) + op::estimated_peak_bytes(joined + elements * item) +
           2 * local::rounded_allocation(shape[axis_] * kPositionBytes);
  }
  void make_chunk(const op::Call& /*call*/, int64_t chunk, std::span<const NdArray> pieces,
                  std::span<const NdArray> outputs) const override {
    const std::vector<Box>& boxes = boxes_in(chunk);
    std::vector<int64_t> index;  // in the boxes behind each other
    for (const int64_t position : positions_in(result_.grid.coordinates(chunk)[axis_])) {
      const Box& box = *std::prev(std::ranges::upper_bound(boxes, position, {}, &Box::start));
      index.push_back(box.at + position - box.start);
    }
    const NdArray joined = pieces.size() == 1 ? pieces[0] : ops::concatenate({pieces.begin(), pieces.end()}, axis_);
    op::assign_results({ops::take(joined, local::from_vector(index), axis_)}, outputs);
  }

 private:
  struct Box {
    int64_t start, count;
    int64_t at;  // of its first element, in all boxes behind each other
  };
  static constexpr size_t kMostBoxes = 64;  // of a chunk: each is a task

  std::span<const int64_t> positions_in(int64_t at) const {
    const AxisChunks& cuts = result_.grid.axis(axis_);
    return std::span(positions_).subspan(static_cast<size_t>(cuts.start(at)), static_cast<size_t>(cuts.size(at)));
  }
  const std::vector<Box>& boxes_in(int64_t chunk) const {
    return boxes_[static_cast<size_t>(result_.grid.coordinates(chunk)[axis_])];
  }
  std::vector<Box> boxes_of(std::span<const int64_t> positions) const {
    std::vector<int64_t> sorted(positions.begin(), positions.end());
    std::ranges::sort(sorted);
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    for (int64_t gap = gap_;; gap = 2 * gap + 1) {
      std::vector<Box> boxes;
      for (const int64_t position : sorted) {
        if (!boxes.empty() && position - (boxes.back().start + boxes.back().count) <= gap)
          boxes.back().count = position + 1 - boxes.back().start;
        else
          boxes.push_back({position, 1, 0});
      }
      // Where nearly all is wanted, one box costs least.
      const int64_t covered = sorted.back() + 1 - sorted.front();
      if (boxes.size() > 1 && 2 * std::ssize(sorted) >= covered) return {{sorted.front(), covered, 0}};
      if (boxes.size() > kMostBoxes) continue;
      for (size_t i = 1; i < boxes.size(); ++i) boxes[i].at = boxes[i - 1].at + boxes[i - 1].count;
      return boxes;
    }
  }

  const int axis_;
  const uint64_t identity_;
  const std::vector<int64_t> positions_;
  const int64_t gap_;
  const op::ArraySpec result_;
  std::vector<std::vector<Box>> boxes_;  // by the chunk of the result along the axis
};

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

namespace {

// A line is selected by its mask; along an axis of others, by positions.
bool is_by_mask(int ndim) { return ndim == 1; }

}  // namespace

int64_t selected_bytes(DType dtype, int ndim) {
  const int64_t bytes = 2 * local::itemsize(dtype) + local::itemsize(DType::bool_);  // with the result and the mask
  return op::element_task_bytes(bytes) + (is_by_mask(ndim) ? 0 : 3 * kPositionBytes);
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
  if (!is_by_mask(static_cast<int>(arg->shape.size()))) spec.bytes_per_element = kPositionBytes;
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
  spec.function = [](std::span<const NdArray> arrays, const ChunkPlace& place) {
    return std::vector<NdArray>{local::apply("add"_op, {ops::flatnonzero(arrays[0]), place.arguments[0].start[0]})};
  };
  return map(std::move(spec), {mask})[0];
}

namespace {

// The same from chunks as a whole.
NodePtr gathered_from_chunks(const NodePtr& arg, int axis, uint64_t identity, const std::vector<int64_t>& chunks,
                             std::shared_ptr<const std::vector<int64_t>> positions, op::ArraySpec result) {
  const AxisChunks cuts = result.grid.axis(axis);
  MapSpec gather{"take", identity, {along_of(arg, axis, chunks)}, {std::move(result)}, nullptr, {}};
  gather.bytes_per_element = kPositionBytes;
  gather.function = [axis, positions = std::move(positions), cuts](std::span<const NdArray> arrays,
                                                                   const ChunkPlace& place) {
    const int64_t chunk = place.coordinates[axis], first = cuts.start(chunk), size = cuts.size(chunk);
    const NdArray index = local::from_bytes(positions->data() + first, DType::int64, {size});
    return std::vector<NdArray>{
        ops::take(arrays[0], local::apply("subtract"_op, {index, place.arguments[0].start[axis]}), axis)};
  };
  return map(std::move(gather), {arg})[0];
}

}  // namespace

int64_t taken_bytes(DType dtype) { return op::element_task_bytes(2 * local::itemsize(dtype)) + 3 * kPositionBytes; }

NodePtr taken(const NodePtr& arg, int axis, std::vector<int64_t> positions, int64_t most) {
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
  const Taken from = taken_of(counts, most);
  const uint64_t identity = op::Hash().add(axis).add(hash_of(positions)).value;
  op::ArraySpec made_spec = with_axis(arg, axis, AxisChunks(from.extents));
  const AxisChunks made = made_spec.grid.axis(axis);
  NodePtr all;
  if (const std::optional<int64_t> gap = gap_of(arg, axis)) {
    all = expr::apply(std::make_shared<Gathered>(axis, identity, *gathered, *gap, std::move(made_spec)), {arg});
  } else {
    all = gathered_from_chunks(arg, axis, identity, from.chunks, gathered, std::move(made_spec));
  }
  if (in_order) return all;

  // Into the order that was asked for.
  const AxisChunks result(count, std::clamp<int64_t>(cuts.largest(), 1, most));
  return expr::apply(std::make_shared<Reordered>(axis, identity, made, places, with_axis(all, axis, result)), {all});
}

int64_t taken_along_bytes(DType dtype) {
  return op::element_task_bytes(2 * local::itemsize(dtype) + local::itemsize(DType::int64)) + kPositionBytes;
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
