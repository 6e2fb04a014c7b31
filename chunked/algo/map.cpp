#include "quarry/chunked/algo/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "quarry/chunked/algo/chunkwise.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/op/trial.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::algo {
namespace {

using local::InvalidArgument;
using local::NdArray;

// Consecutive positions of a box along an axis that come from consecutive elements, in this or the other direction
// (step -1), from one element again and again (0), or from none (source -1).
struct Run {
  int64_t at = 0;  // in the box
  int64_t count = 0;
  int64_t source = -1;  // of the first
  int64_t step = 1;
};

int64_t floor_mod(int64_t a, int64_t n) { return ((a % n) + n) % n; }

// The runs of the positions [begin, end) of an axis of n elements.
std::vector<Run> runs_of(int64_t begin, int64_t end, int64_t n, Edge edge) {
  std::vector<Run> runs;
  if (edge == Edge::clip) begin = std::max<int64_t>(begin, 0), end = std::min(end, n);
  for (int64_t p = begin; p < end;) {
    Run run{p - begin, end - p};
    if (p >= 0 && p < n) {
      run.count = std::min(end, n) - p;
      run.source = p;
    } else {
      if (p < 0) run.count = std::min<int64_t>(end, 0) - p;
      switch (edge) {
        case Edge::clip:
        case Edge::constant:
          break;
        case Edge::nearest:
          run.source = p < 0 ? 0 : n - 1;
          run.step = 0;
          break;
        case Edge::periodic:
          run.source = floor_mod(p, n);
          run.count = std::min(run.count, n - run.source);
          break;
        case Edge::reflect: {
          const int64_t q = floor_mod(p, 2 * n);
          run.source = q < n ? q : 2 * n - 1 - q;
          run.step = q < n ? 1 : -1;
          run.count = std::min(run.count, (q < n ? n : 2 * n) - q);
          break;
        }
      }
    }
    runs.push_back(run);
    p += run.count;
  }
  return runs;
}

// A box of an argument as a chunk reads it: parts of the array, each a box that is laid out by its runs.
struct Box {
  Region place;                          // over the positions that the function sees
  std::vector<std::vector<Run>> pieces;  // of those that have a source, a run per axis; none of most whole ones
  bool is_whole = false;                 // one piece, as it lies
};

class Map final : public Chunkwise {
 public:
  explicit Map(MapSpec spec) : spec_(std::move(spec)) {}
  std::string_view name() const override { return spec_.name; }

  void hash(op::Hash& hash) const override {
    hash.add(spec_.identity).add(static_cast<uint64_t>(spec_.outputs.size()));
    hash.add(spec_.scratch_bytes.value_or(-1)).add(spec_.bytes_per_element).add(spec_.may_be_cut);
    for (const op::ArraySpec& output : spec_.outputs)
      hash.add(output.shape).add(static_cast<int>(output.dtype)).add(output.grid);
    for (const std::vector<Along>& axes : spec_.along) {
      hash.add(static_cast<uint64_t>(axes.size()));
      for (const Along& along : axes) {
        hash.add(along.axis).add(along.cuts.hash()).add(along.before).add(along.after);
        hash.add_bytes(along.chunks.data(), along.chunks.size() * sizeof(int64_t));
        hash.add(static_cast<int>(along.edge)).add(along.fill.as_complex().real()).add(along.fill.as_complex().imag());
      }
    }
  }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t room) const override;
  void check(std::span<const op::ArraySpec> arguments) const;

  std::optional<int> selects_along() const override { return spec_.selects_along; }
  bool calls_program() const override { return spec_.calls_program; }
  bool reads_sorted() const override { return spec_.reads_sorted; }
  void needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const override;
  int64_t scratch_bytes(const op::Call& call, int64_t chunk) const override;

  // The box of an argument for a chunk.
  Box box(const op::Call& call, size_t argument, int64_t chunk) const;
  ChunkPlace place(const op::Call& call, int64_t chunk) const;
  void make_chunk(const op::Call& call, int64_t chunk, std::span<const NdArray> pieces,
                  std::span<const NdArray> outputs) const override;
  std::vector<NdArray> made_chunk(const op::Call& call, int64_t chunk, std::span<const NdArray> pieces) const override;

 private:
  std::vector<NdArray> arguments_of(const op::Call& call, int64_t chunk, std::span<const NdArray> pieces) const;
  int64_t function_bytes(const op::Call& call, int64_t chunk, std::span<const op::ArraySpec> boxes,
                         int64_t result_bytes, uint64_t shapes) const;

  const MapSpec spec_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<uint64_t, int64_t> function_bytes_;  // by the shapes of boxes and results
};

Region need_of(const std::vector<Run>& piece) {
  Region region = Region::box(Dims(), Dims());
  for (const Run& run : piece) {
    region.start.push_back(run.step < 0 ? run.source - run.count + 1 : run.source);
    region.count.push_back(run.step == 0 ? 1 : run.count);
    region.step.push_back(1);
  }
  return region;
}

void Map::check(std::span<const op::ArraySpec> arguments) const {
  const auto fail = [&](const std::string& what) { throw InvalidArgument(fmt::format("{}: {}", spec_.name, what)); };
  if (spec_.outputs.empty()) fail("a function of chunks has an output");
  if (spec_.along.size() != arguments.size())
    fail(fmt::format("{} arrays, and ways to read {}", arguments.size(), spec_.along.size()));
  const Grid& grid = spec_.outputs[0].grid;
  for (const op::ArraySpec& output : spec_.outputs) {
    if (output.grid.shape() != output.shape)
      fail(fmt::format("chunks {} do not cut a result of shape {}", output.grid.to_string(),
                       local::to_string(output.shape)));
    if (output.grid.count() != grid.count())
      fail(fmt::format("results of {} and {} chunks", grid.count(), output.grid.count()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::vector<Along>& axes = spec_.along[i];
    if (std::ssize(axes) != arguments[i].shape.size())
      fail(fmt::format("argument {} has {} axes, and ways to read {}", i, arguments[i].shape.size(), axes.size()));
    for (size_t d = 0; d < axes.size(); ++d) {
      const Along& along = axes[d];
      const int64_t extent = arguments[i].shape[static_cast<int>(d)];
      if (along.before < 0 || along.after < 0)
        fail(fmt::format("a halo of {} and {} elements", along.before, along.after));
      if (along.axis >= grid.ndim() || (along.axis >= 0 && along.count() != grid.axis(along.axis).count()))
        fail(fmt::format("axis {} of argument {} does not have as many chunks as axis {} of the result", d, i,
                         along.axis));
      if (along.axis >= 0 && along.cuts.extent() - along.before > extent)
        fail(fmt::format("axis {} of argument {} has {} elements, and chunks of {} that begin {} before", d, i, extent,
                         along.cuts.extent(), along.before));
      const bool copies_edge = along.edge != Edge::clip && along.edge != Edge::constant;
      const bool differs = along.axis >= 0 && (along.before + along.after > 0 || !along.chunks.empty() ||
                                               along.cuts != grid.axis(along.axis));
      if (spec_.may_be_cut && differs)
        fail(fmt::format("axis {} of argument {} has other cuts than the result, which may be cut", d, i));
      if (extent == 0 && copies_edge && along.before + along.after > 0)
        fail(fmt::format("axis {} of argument {} is empty: nothing stands beyond its edges", d, i));
    }
  }
}

// With further cuts along the axes that arguments follow, as few as it takes.
std::vector<op::ArraySpec> Map::infer(std::span<const op::ArraySpec> arguments, int64_t room) const {
  std::vector<op::ArraySpec> outputs = spec_.outputs;
  if (room == 0 || !spec_.may_be_cut || outputs[0].chosen_grid) return outputs;
  std::vector<bool> follows(static_cast<size_t>(outputs[0].shape.size()));
  int64_t bytes = 0;  // per element of the axes that are followed
  for (size_t i = 0; i < arguments.size(); ++i) {
    int64_t of_argument = local::itemsize(arguments[i].dtype);
    for (size_t d = 0; d < spec_.along[i].size(); ++d) {
      const int axis = spec_.along[i][d].axis;
      if (axis >= 0)
        follows[static_cast<size_t>(axis)] = true;
      else
        of_argument *= std::max<int64_t>(arguments[i].shape[static_cast<int>(d)], 1);
    }
    bytes += of_argument;
  }
  for (const op::ArraySpec& output : outputs) {
    int64_t of_output = local::itemsize(output.dtype);
    for (int d = 0; d < output.shape.size(); ++d)
      if (!follows[static_cast<size_t>(d)]) of_output *= std::max<int64_t>(output.grid.axis(d).largest(), 1);
    bytes += of_output;
  }
  std::vector<AxisChunks> followed;
  for (size_t d = 0; d < follows.size(); ++d)
    if (follows[d]) followed.push_back(outputs[0].grid.axis(static_cast<int>(d)));
  const Grid cut = limited_grid(Grid(std::move(followed)), op::element_task_bytes(bytes), room);
  for (op::ArraySpec& output : outputs) {
    std::vector<AxisChunks> axes = output.grid.axes();
    int next = 0;
    for (size_t d = 0; d < follows.size(); ++d)
      if (follows[d]) axes[d] = cut.axis(next++);
    output.grid = Grid(std::move(axes));
  }
  return outputs;
}

Box Map::box(const op::Call& call, size_t argument, int64_t chunk) const {
  const Grid& grid = call.outputs[0].grid;
  const Dims& shape = call.arguments[argument].shape;
  const Dims at = grid.coordinates(chunk);
  Box box;
  box.place = {Dims::filled(shape.size()), Dims::filled(shape.size()), Dims::filled(shape.size(), 1)};
  box.is_whole = true;
  for (int d = 0; d < shape.size(); ++d) {
    const Along& along = spec_.along[argument][static_cast<size_t>(d)];
    const int64_t extent = shape[d];
    int64_t begin = 0, end = extent;
    if (along.axis >= 0) {
      const int64_t i = along.chunks.empty() ? at[along.axis] : along.chunks[static_cast<size_t>(at[along.axis])];
      const AxisChunks& cuts = spec_.may_be_cut ? grid.axis(along.axis) : along.cuts;
      begin = cuts.start(i) - along.before;
      end = cuts.start(i + 1) + along.after;
    }
    if (along.edge == Edge::clip) begin = std::max<int64_t>(begin, 0), end = std::min(end, extent);
    box.place.start[d] = begin;
    box.place.count[d] = std::max<int64_t>(end - begin, 0);
    box.is_whole = box.is_whole && begin >= 0 && begin < end && end <= extent;
  }
  if (box.is_whole) return box;

  std::vector<std::vector<Run>> axes;
  bool is_empty = false;
  box.is_whole = true;
  for (int d = 0; d < shape.size(); ++d) {
    const int64_t begin = box.place.start[d];
    const Edge edge = spec_.along[argument][static_cast<size_t>(d)].edge;
    axes.push_back(runs_of(begin, begin + box.place.count[d], shape[d], edge));
    is_empty = is_empty || axes.back().empty();
    box.is_whole = box.is_whole && axes.back().size() == 1 && axes.back()[0].step == 1 && axes.back()[0].source >= 0;
  }
  if (is_empty) {
    // One piece without elements, inside the array.
    std::vector<Run> none;
    for (int d = 0; d < shape.size(); ++d) {
      const int64_t start = std::clamp<int64_t>(box.place.start[d], 0, shape[d]);
      none.push_back({0, std::min(box.place.count[d], shape[d] - start), start, 1});
    }
    box.pieces.push_back(std::move(none));
    box.is_whole = need_of(box.pieces[0]).count == box.place.count;
    if (!box.is_whole) box.pieces.clear();  // a halo of constants around nothing
    return box;
  }
  std::vector<size_t> next(axes.size(), 0);
  for (bool more = true; more;) {
    std::vector<Run> piece;
    bool has_source = true;
    for (size_t d = 0; d < axes.size(); ++d) {
      piece.push_back(axes[d][next[d]]);
      has_source = has_source && piece.back().source >= 0;
    }
    if (has_source) box.pieces.push_back(std::move(piece));
    more = false;
    for (size_t d = axes.size(); d-- > 0 && !more;) {
      more = ++next[d] < axes[d].size();
      if (!more) next[d] = 0;
    }
  }
  return box;
}

ChunkPlace Map::place(const op::Call& call, int64_t chunk) const {
  ChunkPlace place;
  place.chunk = chunk;
  place.coordinates = call.outputs[0].grid.coordinates(chunk);
  place.counts = call.outputs[0].grid.counts();
  for (const op::ArraySpec& output : call.outputs) place.outputs.push_back(output.grid.chunk(chunk));
  for (size_t i = 0; i < call.arguments.size(); ++i) place.arguments.push_back(box(call, i, chunk).place);
  return place;
}

void Map::needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const {
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    Box read = box(call, i, chunk);
    if (read.is_whole && read.pieces.empty()) needs.push_back({static_cast<int>(i), std::move(read.place)});
    for (const std::vector<Run>& piece : read.pieces) needs.push_back({static_cast<int>(i), need_of(piece)});
  }
}

int64_t Map::scratch_bytes(const op::Call& call, int64_t chunk) const {
  int64_t copied = 0, result_bytes = 0;
  op::Hash shapes;
  std::vector<op::ArraySpec> boxes;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Box read = box(call, i, chunk);
    boxes.push_back(op::in_one_chunk(read.place.count, call.arguments[i].dtype));
    shapes.add(read.place.count);
    if (!read.is_whole) copied += local::rounded_allocation(boxes.back().bytes());
  }
  for (const op::ArraySpec& output : call.outputs) {
    const Dims shape = output.grid.chunk_shape(chunk);
    shapes.add(shape);
    result_bytes += local::element_count(shape) * local::itemsize(output.dtype);
  }
  return local::rounded_allocation(copied + spec_.scratch_bytes.value_or(0)) +
         (spec_.scratch_bytes ? 0 : function_bytes(call, chunk, boxes, result_bytes, shapes.value));
}

// Chunks of equal shapes take as much.
int64_t Map::function_bytes(const op::Call& call, int64_t chunk, std::span<const op::ArraySpec> boxes,
                            int64_t result_bytes, uint64_t shapes) const {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = function_bytes_.try_emplace(shapes, 0);
  if (is_new) {
    const auto function = [&](std::span<const NdArray> arrays) {
      if (!spec_.into) return spec_.function(arrays, place(call, chunk));
      std::vector<NdArray> outputs;
      for (const op::ArraySpec& output : call.outputs)
        outputs.emplace_back(output.grid.chunk_shape(chunk), output.dtype);
      spec_.into(arrays, place(call, chunk), outputs);
      return outputs;
    };
    int64_t elements = 0;
    for (const op::ArraySpec& box : boxes) elements += local::element_count(box.shape);
    for (const op::ArraySpec& output : call.outputs) elements += output.grid.chunk_elements(chunk);
    const local::DeviceKind device = chunk_policy().device;
    const int64_t libraries = spec_.calls_program ? op::library_bytes(device) : 0;
    const int64_t taken = spec_.by_trial ? op::tried_peak_bytes(function, boxes, result_bytes, device)
                                         : op::function_peak_bytes(boxes, result_bytes) + libraries;
    const int64_t beside = spec_.into ? std::max<int64_t>(taken - result_bytes, 0) : taken;
    known->second = local::rounded_allocation(beside + elements * spec_.bytes_per_element);
  }
  return known->second;
}

// An array over a piece, laid out as the box has it.
NdArray unrolled(const NdArray& array, const std::vector<Run>& piece) {
  Dims shape, strides;
  int64_t offset = array.offset();
  for (size_t d = 0; d < piece.size(); ++d) {
    const int64_t stride = array.strides()[static_cast<int>(d)];
    if (piece[d].step < 0) offset += stride * (piece[d].count - 1);
    shape.push_back(piece[d].count);
    strides.push_back(stride * piece[d].step);
  }
  return array.restrided(shape, strides, offset);
}

NdArray part_of(const NdArray& array, const std::vector<Run>& piece) {
  Dims shape;
  int64_t offset = array.offset();
  for (size_t d = 0; d < piece.size(); ++d) {
    shape.push_back(piece[d].count);
    offset += array.strides()[static_cast<int>(d)] * piece[d].at;
  }
  return array.restrided(shape, array.strides(), offset);
}

std::vector<NdArray> Map::arguments_of(const op::Call& call, int64_t chunk, std::span<const NdArray> pieces) const {
  std::vector<NdArray> arguments;
  size_t next = 0;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Box read = box(call, i, chunk);
    if (read.is_whole) {
      arguments.push_back(pieces[next++]);
      continue;
    }
    const NdArray together(read.place.count, call.arguments[i].dtype);
    const auto constant = std::ranges::find(spec_.along[i], Edge::constant, &Along::edge);
    if (constant != spec_.along[i].end()) together.fill(constant->fill);
    for (const std::vector<Run>& piece : read.pieces) part_of(together, piece).assign(unrolled(pieces[next++], piece));
    arguments.push_back(together.as_read_only());
  }
  return arguments;
}

void Map::make_chunk(const op::Call& call, int64_t chunk, std::span<const NdArray> pieces,
                     std::span<const NdArray> outputs) const {
  const std::vector<NdArray> arguments = arguments_of(call, chunk, pieces);
  if (spec_.into)
    spec_.into(arguments, place(call, chunk), outputs);
  else
    op::assign_results(spec_.function(arguments, place(call, chunk)), outputs);
}

std::vector<NdArray> Map::made_chunk(const op::Call& call, int64_t chunk, std::span<const NdArray> pieces) const {
  if (spec_.into) return Chunkwise::made_chunk(call, chunk, pieces);
  return op::taken_results(spec_.function(arguments_of(call, chunk, pieces), place(call, chunk)), call, chunk);
}

}  // namespace

std::vector<NodePtr> map(MapSpec spec, std::vector<NodePtr> arguments) {
  const size_t outputs = spec.outputs.size();
  const auto made = std::make_shared<Map>(std::move(spec));
  made->check(expr::specs_of(arguments));
  const NodePtr node = expr::apply(made, std::move(arguments));
  std::vector<NodePtr> nodes;
  for (size_t i = 0; i < outputs; ++i) nodes.push_back(expr::item(node, static_cast<int>(i)));
  return nodes;
}

}  // namespace quarry::algo
