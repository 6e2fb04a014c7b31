#include "chunked/exec/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>
#include <set>

#include "chunked/exec/bodies.h"

namespace quarry::exec {
namespace {

using local::DType;
using scheduler::BlockId;
using scheduler::LaneKind;
using scheduler::TaskKind;

// Parts of a BlockKey beside output numbers.
constexpr uint32_t kLeaf = 1u << 16;     // states of one chunk
constexpr uint32_t kSegment = 2u << 16;  // merged states of one segment
constexpr uint32_t kTree = 3u << 16;     // + level
constexpr int64_t kSegments = 64;

// Order of a stage's tasks inside one progress value.
constexpr int64_t kDepthsPerStage = 64;
enum Depth : int64_t { kSupport = 0, kMain = 8, kChain = 12, kTreeDepth = 16, kFinish = 48, kSink = 60 };
constexpr int64_t kProgressEnd = (int64_t{1} << 32) - 1;
constexpr int64_t kLeavesPerCombine = 8;
constexpr int64_t kProductsPerTask = 4;

// The fixed tree over n leaves: min(n, 64) contiguous segments, sequential inside; then pairs.
struct Tree {
  int64_t leaves;
  int64_t segments() const { return std::min(leaves, kSegments); }
  int64_t first(int64_t segment) const { return leaves * segment / segments(); }
  int64_t segment_of(int64_t leaf) const {
    int64_t s = leaf * segments() / leaves;
    while (first(s) > leaf) --s;
    while (s + 1 < segments() && first(s + 1) <= leaf) ++s;
    return s;
  }
  int64_t nodes(int level) const { return (segments() + (int64_t{1} << level) - 1) >> level; }
  int levels() const {
    int level = 0;
    while (nodes(level) > 1) ++level;
    return level;
  }
  // The node without its pass-through levels: one that merges two, or a segment.
  std::pair<int, int64_t> solid(int level, int64_t node) const {
    while (level > 0 && 2 * node + 1 >= nodes(level - 1)) {
      --level;
      node *= 2;
    }
    return {level, node};
  }
  int64_t first_leaf(int level, int64_t node) const { return first(node << level); }
  int64_t end_leaf(int level, int64_t node) const {
    const int64_t end = std::min((node + 1) << level, segments());
    return end == segments() ? leaves : first(end);
  }
};

bool is_barrier(const plan::Stage& stage, int output) {
  if (const auto* fused = std::get_if<plan::Fused>(&stage.work))
    return output >= static_cast<int>(fused->program.outputs().size());
  return !std::holds_alternative<plan::Assemble>(stage.work);
}

std::vector<const plan::Input*> inputs_of(const plan::Stage& stage) {
  std::vector<const plan::Input*> inputs;
  if (const auto* fused = std::get_if<plan::Fused>(&stage.work)) {
    for (const plan::Input& input : fused->inputs) inputs.push_back(&input);
  } else if (const auto* assemble = std::get_if<plan::Assemble>(&stage.work)) {
    for (const auto& part : assemble->parts) inputs.push_back(&part.input);
  } else if (const auto* product = std::get_if<plan::MatMul>(&stage.work)) {
    if (!product->syrk) inputs.push_back(&product->a);
    inputs.push_back(&product->b);
  } else {
    inputs.push_back(&std::get<plan::Eigh>(stage.work).a);
  }
  return inputs;
}

// A box of a stage's space that is copied to a place in an output block.
struct CopyPart {
  const plan::Input* input;
  Region box;      // of the input's space
  int64_t offset;  // bytes into the output
  Dims strides;    // of the output per axis of the box, bytes
};

std::vector<CopyPart> copy_parts(const plan::Stage& stage, int64_t chunk) {
  const auto& assemble = std::get<plan::Assemble>(stage.work);
  const int64_t itemsize = local::itemsize(stage.outputs[0].dtype);
  const Region box = stage.outputs[0].grid.chunk(chunk);
  std::vector<CopyPart> parts;
  if (assemble.linear) {
    const auto [begin, end] = linear_range(stage.outputs[0].shape, box);
    int64_t at = begin;
    for (Region& source : linear_boxes(assemble.parts[0].count, begin, end)) {
      const int64_t elements = source.elements();
      Dims strides = local::contiguous_strides(source.count, itemsize);
      parts.push_back({&assemble.parts[0].input, std::move(source), (at - begin) * itemsize, std::move(strides)});
      at += elements;
    }
    return parts;
  }
  const Dims strides = local::contiguous_strides(box.count, itemsize);
  for (const auto& part : assemble.parts) {
    Region inside = Region::box(Dims(box.ndim()), Dims(box.ndim()));
    int64_t offset = 0;
    bool empty = false;
    for (int d = 0; d < box.ndim(); ++d) {
      const int64_t first = std::max(box.start[d], part.offset[d]);
      const int64_t end = std::min(box.start[d] + box.count[d], part.offset[d] + part.count[d]);
      empty = empty || end <= first;
      inside.start[d] = first - part.offset[d];
      inside.count[d] = end - first;
      offset += (first - box.start[d]) * strides[d];
    }
    if (!empty) parts.push_back({&part.input, std::move(inside), offset, strides});
  }
  return parts;
}

std::vector<CopyAtom> atoms_of(const std::vector<CopyPart>& parts, int rank, int ranks) {
  std::vector<CopyAtom> atoms;
  for (const CopyPart& part : parts) {
    const plan::Input& input = *part.input;
    const int64_t itemsize = local::itemsize(input.dtype);
    const Region region = input.map.region(part.box, input.shape.size());
    if (region.elements() == 0) continue;
    if (input.array.kind == plan::ArrayRef::Kind::dataset) {
      CopyAtom atom{resolve(input.array, input.grid, itemsize, region, rank, ranks),
                    part.box.count,
                    {},
                    part.strides,
                    part.offset,
                    input.dtype,
                    input.array.dataset->info().swapped};
      atom.source_strides = space_strides(input.map, atom.access.strides);
      atoms.push_back(std::move(atom));
      continue;
    }
    for (Piece& piece : pieces(input.grid, region)) {
      CopyAtom atom{resolve(input.array, input.grid, itemsize, piece.region, rank, ranks),
                    part.box.count,
                    {},
                    part.strides,
                    part.offset,
                    input.dtype};
      for (int d = 0; d < atom.count.size(); ++d) {
        const int source = input.map.axes[static_cast<size_t>(d)].source;
        if (source < 0) continue;
        atom.count[d] = piece.region.count[source];
        atom.offset += piece.offset[source] * part.strides[d];
      }
      atom.source_strides = space_strides(input.map, atom.access.strides);
      atoms.push_back(std::move(atom));
    }
  }
  return atoms;
}

class Lowering {
 public:
  Lowering(const plan::Plan& plan, const std::vector<Sink>& sinks, const LoweringContext& context)
      : plan_(plan), sinks_(sinks), context_(context), result_(std::make_unique<Lowered>()) {
    for (const plan::Stage& stage : plan.stages)
      for (const plan::Input* input : inputs_of(stage)) number_stored(input->array);
    for (const Sink& sink : sinks) {
      number_stored(sink.array);
      if (sink.kind == Sink::Kind::keep) kept_.insert({sink.array.stage, sink.array.output});
    }
    progress_.resize(plan.stages.size());
    for (size_t s = 0; s < plan.stages.size(); ++s) phases_.push_back(find_phase(static_cast<int>(s)));
    delay_operands();
  }

  std::unique_ptr<Lowered> run() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      stage_ = static_cast<int>(s);
      const plan::Stage& stage = plan_.stages[s];
      if (std::holds_alternative<plan::Fused>(stage.work)) {
        lower_fused(stage);
      } else if (std::holds_alternative<plan::Assemble>(stage.work)) {
        lower_assemble(stage);
      } else if (std::holds_alternative<plan::MatMul>(stage.work)) {
        lower_product(stage);
      } else {
        lower_eigh(stage);
      }
    }
    for (const Sink& sink : sinks_) lower_sink(sink);
    emit();
    return std::move(result_);
  }

 private:
  struct Pending {
    scheduler::TaskDecl decl;
    std::vector<BlockId> inputs, outputs;
    bool support;
  };

  // --- the global order ---

  int find_phase(int s) {
    const plan::Stage& stage = plan_.stages[static_cast<size_t>(s)];
    int phase = 0;
    for (const plan::Input* input : inputs_of(stage)) {
      if (input->array.kind != plan::ArrayRef::Kind::stage) continue;
      const int from = input->array.stage;
      phase = std::max(phase, phases_[static_cast<size_t>(from)] +
                                  (is_barrier(plan_.stages[static_cast<size_t>(from)], input->array.output) ? 1 : 0));
    }
    // An all-to-all copy is a barrier too: its first chunk needs nearly all of its input.
    if (std::holds_alternative<plan::Assemble>(stage.work) && input_progress(s, 0, phase) > kProgressEnd / 2) ++phase;
    return phase;
  }

  // A stage whose chunks are wanted in a later phase only is run there: its chunks would have to be kept until then (z
  // in z @ vectors, of which the plan has a second copy beside the one in z.T @ z). Not before all-to-all copies: those
  // want their input finished.
  void delay_operands() {
    std::vector<int> wanted(plan_.stages.size(), INT_MAX);
    for (const Sink& sink : sinks_)
      if (sink.array.kind == plan::ArrayRef::Kind::stage) wanted[static_cast<size_t>(sink.array.stage)] = -1;
    for (size_t s = plan_.stages.size(); s-- > 0;) {
      const plan::Stage& stage = plan_.stages[s];
      const auto* fused = std::get_if<plan::Fused>(&stage.work);
      if (fused && fused->reductions.empty() && wanted[s] != INT_MAX) phases_[s] = std::max(phases_[s], wanted[s]);
      const int phase = std::holds_alternative<plan::Assemble>(stage.work) ? -1 : phases_[s];
      for (const plan::Input* input : inputs_of(stage)) {
        if (input->array.kind != plan::ArrayRef::Kind::stage) continue;
        int& other = wanted[static_cast<size_t>(input->array.stage)];
        other = std::min(other, phase);
      }
    }
    for (auto& memo : progress_) memo.clear();
  }

  // The latest progress of what chunk `chunk` of a streaming stage reads in `phase`.
  int64_t input_progress(int s, int64_t chunk, int phase) {
    const plan::Stage& stage = plan_.stages[static_cast<size_t>(s)];
    int64_t latest = 0;
    auto visit = [&](const plan::Input& input, const Region& box) {
      if (input.array.kind != plan::ArrayRef::Kind::stage || phases_[static_cast<size_t>(input.array.stage)] != phase)
        return;
      if (is_barrier(plan_.stages[static_cast<size_t>(input.array.stage)], input.array.output)) return;
      for (const Piece& piece : pieces(input.grid, input.map.region(box, input.shape.size()))) {
        latest = std::max(latest, progress(input.array.stage, piece.chunk));
      }
    };
    if (const auto* fused = std::get_if<plan::Fused>(&stage.work)) {
      for (const plan::Input& input : fused->inputs) visit(input, stage.grid.chunk(chunk));
    } else if (std::holds_alternative<plan::Assemble>(stage.work)) {
      for (const CopyPart& part : copy_parts(stage, chunk)) visit(*part.input, part.box);
    }
    return latest;
  }

  int64_t progress(int s, int64_t chunk) {
    auto& memo = progress_[static_cast<size_t>(s)];
    if (const auto found = memo.find(chunk); found != memo.end()) return found->second;
    const plan::Stage& stage = plan_.stages[static_cast<size_t>(s)];
    const int64_t count = std::max<int64_t>(1, stage.grid.count());
    const auto own = static_cast<int64_t>((static_cast<__int128>(chunk) << 32) / count);
    const int64_t value = std::max(own, input_progress(s, chunk, phases_[static_cast<size_t>(s)]));
    memo.emplace(chunk, value);
    return value;
  }

  int64_t position(int64_t progress, int64_t depth) const {
    QUARRY_CHECK(stage_ < (1 << 14));
    return (static_cast<int64_t>(phases_[static_cast<size_t>(stage_)]) << 53) | (progress << 21) |
           (static_cast<int64_t>(stage_) * kDepthsPerStage + depth);
  }

  // --- tasks and blocks ---

  bool mine(int owner) const { return owner == context_.rank; }
  int owner(int64_t chunk, int64_t count) const { return plan::owner(chunk, count, context_.ranks); }
  std::pair<int64_t, int64_t> owned(int64_t count) const { return plan::owned(context_.rank, count, context_.ranks); }
  bool kept(int stage, int output) const { return kept_.contains({stage, output}); }

  BlockId add_block(int64_t bytes, bool keep = false) { return result_->graph.add_block(bytes, 0, keep); }
  BlockId add_block(const BlockKey& key, int64_t bytes, bool keep = false) {
    const BlockId block = add_block(bytes, keep);
    result_->blocks.emplace(key, block);
    return block;
  }
  BlockId block(const BlockKey& key) const {
    const auto found = result_->blocks.find(key);
    QUARRY_CHECK(found != result_->blocks.end());
    return found->second;
  }

  void add_task(TaskKind kind, LaneKind lane, int32_t body, int64_t index, int64_t position, int64_t scratch_bytes,
                int64_t traffic_bytes, std::vector<BlockId> inputs, std::vector<BlockId> outputs,
                bool support = false) {
    Pending pending{{kind, lane, body, index, position, scratch_bytes, traffic_bytes, {}, {}},
                    std::move(inputs),
                    std::move(outputs),
                    support};
    pending_.push_back(std::move(pending));
  }

  template <class Body, class... Args>
  std::pair<int32_t, Body*> add_body(Args&&... args) {
    auto made = std::make_unique<Body>(std::forward<Args>(args)...);
    Body* const pointer = made.get();
    return {result_->graph.add_body(std::move(made)), pointer};
  }

  // Support tasks (reads, receives, uploads, gathers) move to just before the first task that needs them, since several
  // may share one.
  void emit() {
    std::vector<int64_t> needed(static_cast<size_t>(result_->graph.block_count()), INT64_MAX);
    for (auto task = pending_.rbegin(); task != pending_.rend(); ++task) {
      if (task->support) {
        int64_t first = INT64_MAX;
        for (BlockId output : task->outputs) first = std::min(first, needed[static_cast<size_t>(output)]);
        if (first != INT64_MAX) task->decl.position = first;
      }
      for (BlockId input : task->inputs) {
        int64_t& position = needed[static_cast<size_t>(input)];
        position = std::min(position, task->decl.position);
      }
    }
    for (Pending& task : pending_) {
      task.decl.inputs = task.inputs;
      task.decl.outputs = task.outputs;
      result_->graph.add_task(task.decl);
    }
    pending_.clear();
  }

  void number_stored(const plan::ArrayRef& array) {
    if (array.kind == plan::ArrayRef::Kind::stored)
      stored_numbers_.emplace(array.stored.get(), static_cast<uint32_t>(plan_.stages.size() + stored_numbers_.size()));
  }

  BlockKey key_of(const plan::ArrayRef& array, int64_t chunk) const {
    if (array.kind == plan::ArrayRef::Kind::stored) return {stored_numbers_.at(array.stored.get()), 0, chunk};
    return {static_cast<uint32_t>(array.stage), static_cast<uint32_t>(array.output), chunk};
  }

  // A chunk that this rank holds.
  BlockId chunk_block(const plan::ArrayRef& array, int64_t chunk) {
    const BlockKey key = key_of(array, chunk);
    if (array.kind == plan::ArrayRef::Kind::stage) return block(key);
    if (const auto found = result_->blocks.find(key); found != result_->blocks.end()) return found->second;
    if (!array.stored->replicated()) {
      const BlockId stored = result_->graph.add_stored(array.stored->block(chunk));
      result_->blocks.emplace(key, stored);
      return stored;
    }
    const int64_t bytes = array.stored->value().nbytes();
    const BlockId uploaded = add_block(key, bytes);
    add_task(TaskKind::copy, LaneKind::io, add_body<UploadBody>(array.stored).first, 0, position(0, kSupport), 0, bytes,
             {}, {uploaded}, /*support=*/true);
    return uploaded;
  }

  BlockId receive(int from, const BlockKey& key, const BlockBox& box, const std::string& label, bool keep = false) {
    const std::string memo = fmt::format("{}/{}/{}/{}/{}", key.stage, key.part, key.chunk, local::to_string(box.start),
                                         local::to_string(box.count));
    if (const auto found = received_.find(memo); found != received_.end()) return found->second;
    if (!receive_body_) {
      const auto [number, body] = add_body<ReceiveBody>(context_.service);
      receive_number_ = number;
      receive_body_ = body;
    }
    const int64_t bytes = local::element_count(box.count) * box.itemsize;
    const BlockId received = add_block(bytes, keep);
    add_task(TaskKind::receive, LaneKind::comm, receive_number_, receive_body_->add({from, key, box, label}),
             position(0, kSupport), 0, bytes, {}, {received},
             /*support=*/true);
    result_->pulls.push_back({from, key});
    received_.emplace(memo, received);
    return received;
  }
  // A whole block as bytes.
  BlockId receive_whole(int from, const BlockKey& key, int64_t bytes, const std::string& label, bool keep = false) {
    return receive(from, key, {Dims{bytes}, Dims{0}, Dims{bytes}, 1}, label, keep);
  }

  BlockId read(const std::shared_ptr<io::Dataset>& dataset, const Region& region, DType dtype) {
    auto& [number, body] = read_bodies_[dataset.get()];
    if (!body) std::tie(number, body) = add_body<ReadBody>(dataset, context_.executor);
    const int64_t bytes = region.elements() * local::itemsize(dtype);
    const BlockId packed = add_block(bytes);
    add_task(TaskKind::read, LaneKind::io, number, body->add(region), position(0, kSupport),
             body->scratch_bytes(region, context_.device), bytes, {}, {packed},
             /*support=*/true);
    result_->read_bytes += bytes;
    return packed;
  }

  std::string label_of(const plan::ArrayRef& array) const {
    return array.kind == plan::ArrayRef::Kind::stage ? plan_.stages[static_cast<size_t>(array.stage)].label
                                                     : "stored array";
  }

  // Where an access's data arrives; adds the tasks that bring it.
  BlockId arrive(const plan::Input& input, const Access& access) {
    switch (access.kind) {
      case Access::Kind::read:
        return read(input.array.dataset, access.region, input.dtype);
      case Access::Kind::chunk:
        return chunk_block(input.array, access.chunk);
      case Access::Kind::receive:
        return receive(access.owner, key_of(input.array, access.chunk),
                       {access.chunk_shape, access.box_start, access.box_count, local::itemsize(input.dtype)},
                       label_of(input.array));
      case Access::Kind::gather:
        break;
    }
    // A packed copy of the region, over the array's own axes.
    auto gathered = std::make_shared<plan::Input>(input);
    gathered->map = plan::AccessMap::identity(input.shape.size());
    for (int d = 0; d < input.shape.size(); ++d) {
      gathered->map.axes[static_cast<size_t>(d)].start = access.region.start[d];
      gathered->map.axes[static_cast<size_t>(d)].step = access.region.step[d];
    }
    const Region box = Region::box(Dims(access.region.ndim()), access.region.count);
    const int64_t itemsize = local::itemsize(input.dtype);
    auto atoms = [gathered, box, itemsize, rank = context_.rank, ranks = context_.ranks](int64_t) {
      return atoms_of({{gathered.get(), box, 0, local::contiguous_strides(box.count, itemsize)}}, rank, ranks);
    };
    std::vector<BlockId> inputs;
    for (const CopyAtom& atom : atoms(0)) inputs.push_back(arrive(*gathered, atom.access));
    const int64_t bytes = box.elements() * itemsize;
    const BlockId packed = add_block(bytes);
    const auto [number, body] = add_body<CopyBody>(label_of(input.array), atoms);
    add_task(TaskKind::copy, LaneKind::compute, number, 0, position(0, kSupport),
             body->scratch_bytes(0, context_.device), bytes, std::move(inputs), {packed}, /*support=*/true);
    return packed;
  }

  // The same with one shared block for a region that many chunks read (an input that is broadcast along an axis).
  BlockId arrive_shared(const plan::Input& input, const Access& access) {
    if (access.kind == Access::Kind::chunk || access.kind == Access::Kind::receive) return arrive(input, access);
    const void* array = input.array.dataset.get();
    if (input.array.kind == plan::ArrayRef::Kind::stored) array = input.array.stored.get();
    const std::string memo = fmt::format("{}/{}/{}/{}/{}/{}", array, input.array.stage, input.array.output,
                                         local::to_string(access.region.start), local::to_string(access.region.count),
                                         local::to_string(access.region.step));
    if (const auto found = shared_.find(memo); found != shared_.end()) return found->second;
    return shared_.emplace(memo, arrive(input, access)).first->second;
  }

  static bool broadcasts(const plan::Input& input, const Dims& space) {
    for (int d = 0; d < space.size(); ++d)
      if (input.map.axes[static_cast<size_t>(d)].source < 0 && space[d] > 1) return true;
    return false;
  }

  // --- stages ---

  void lower_fused(const plan::Stage& stage) {
    const auto& fused = std::get<plan::Fused>(stage.work);
    const auto [number, body] = add_body<FusedBody>(stage, context_.rank, context_.ranks, context_.device);
    const int outputs = static_cast<int>(fused.program.outputs().size());
    const auto [first, last] = owned(stage.grid.count());
    for (int64_t chunk = first; chunk < last; ++chunk) {
      std::vector<BlockId> inputs, produced;
      int64_t traffic = 0;
      for (size_t i = 0; i < fused.inputs.size(); ++i) {
        const plan::Input& input = fused.inputs[i];
        if (static_cast<int>(i) == body->streamed()) {
          traffic += body->input_region(static_cast<int>(i), chunk).elements() * local::itemsize(input.dtype);
          result_->read_bytes += traffic;
          continue;
        }
        const Access access = body->access(static_cast<int>(i), chunk);
        inputs.push_back(broadcasts(input, stage.shape) ? arrive_shared(input, access) : arrive(input, access));
      }
      const int64_t elements = stage.grid.chunk(chunk).elements();
      for (int o = 0; o < outputs; ++o) {
        const int64_t bytes =
            elements * local::itemsize(fused.program.dtype(fused.program.outputs()[static_cast<size_t>(o)]));
        produced.push_back(add_block(BlockKey{static_cast<uint32_t>(stage_), static_cast<uint32_t>(o), chunk}, bytes,
                                     kept(stage_, o)));
      }
      if (!fused.reductions.empty())
        produced.push_back(add_block(BlockKey{static_cast<uint32_t>(stage_), kLeaf, chunk}, body->state_bytes(chunk)));
      add_task(TaskKind::compute, LaneKind::compute, number, chunk, position(progress(stage_, chunk), kMain),
               body->scratch_bytes(chunk), traffic, std::move(inputs), std::move(produced));
    }
    if (!fused.reductions.empty()) lower_reductions(stage, fused);
  }

  // Chunks along the kept and the reduced axes of a stage.
  struct ReduceMap {
    Grid kept;
    Dims kept_axes, reduced_axes, reduced_counts;
    Tree tree{1};
    ReduceMap(const Grid& grid, uint32_t reduce_axes) {
      std::vector<AxisChunks> axes;
      for (int d = 0; d < grid.ndim(); ++d) {
        if (reduce_axes >> d & 1) {
          reduced_axes.push_back(d);
          reduced_counts.push_back(grid.axis(d).count());
        } else {
          kept_axes.push_back(d);
          axes.push_back(grid.axis(d));
        }
      }
      kept = Grid(std::move(axes));
      tree.leaves = local::element_count(reduced_counts);
    }
    // Leaf number `leaf` of kept chunk `j` as a chunk of the stage, and back.
    int64_t chunk(const Grid& grid, int64_t j, int64_t leaf) const {
      Dims coordinates(grid.ndim());
      const Dims kept_coordinates = kept.coordinates(j);
      for (int k = 0; k < kept_axes.size(); ++k) coordinates[static_cast<int>(kept_axes[k])] = kept_coordinates[k];
      for (int r = reduced_axes.size() - 1; r >= 0; --r) {
        coordinates[static_cast<int>(reduced_axes[r])] = leaf % reduced_counts[r];
        leaf /= reduced_counts[r];
      }
      return grid.flat(coordinates);
    }
    std::pair<int64_t, int64_t> split(const Grid& grid, int64_t chunk) const {
      const Dims coordinates = grid.coordinates(chunk);
      Dims kept_coordinates(kept_axes.size());
      for (int k = 0; k < kept_axes.size(); ++k) kept_coordinates[k] = coordinates[static_cast<int>(kept_axes[k])];
      int64_t leaf = 0;
      for (int r = 0; r < reduced_axes.size(); ++r)
        leaf = leaf * reduced_counts[r] + coordinates[static_cast<int>(reduced_axes[r])];
      return {kept.flat(kept_coordinates), leaf};
    }
    int64_t elements(int64_t j) const { return kept.chunk(j).elements(); }
  };

  void lower_reductions(const plan::Stage& stage, const plan::Fused& fused) {
    const auto map = std::make_shared<ReduceMap>(stage.grid, fused.reduce_axes);
    const Tree tree = map->tree;
    const auto s = static_cast<uint32_t>(stage_);
    auto elements = [map](int64_t index) { return map->elements(index / kSegments); };
    const auto [combine, combine_body] = add_body<CombineBody>(stage, context_.device, elements);
    const auto [finish, finish_body] =
        add_body<FinalizeBody>(stage, context_.device, [map](int64_t j) { return map->elements(j); });
    const int64_t chunks = stage.grid.count();
    auto state_bytes = [&](int64_t j) { return StateLayout(fused.program, map->elements(j)).bytes; };
    auto leaf_chunk = [&](int64_t j, int64_t leaf) { return map->chunk(stage.grid, j, leaf); };
    auto node_owner = [&](int64_t j, int level, int64_t node) {
      return owner(leaf_chunk(j, tree.first_leaf(level, node)), chunks);
    };
    auto node_key = [&](int64_t j, int level, int64_t node) -> BlockKey {
      if (level > 0) return {s, kTree + static_cast<uint32_t>(level), j * kSegments + node};
      if (tree.end_leaf(0, node) - tree.first(node) == 1) return {s, kLeaf, leaf_chunk(j, tree.first(node))};
      return {s, kSegment, j * kSegments + node};
    };
    auto state = [&](int64_t j, int level, int64_t node) {
      std::tie(level, node) = tree.solid(level, node);
      const int from = node_owner(j, level, node);
      return mine(from) ? block(node_key(j, level, node))
                        : receive_whole(from, node_key(j, level, node), state_bytes(j), stage.label);
    };
    // A node comes after the latest of its leaves; with very many leaves, at the end of the phase.
    auto node_progress = [&](int64_t j, int level, int64_t node) {
      const int64_t from = tree.first_leaf(level, node), to = tree.end_leaf(level, node);
      if (to - from > kSegments) return kProgressEnd;
      int64_t latest = 0;
      for (int64_t leaf = from; leaf < to; ++leaf) latest = std::max(latest, progress(stage_, leaf_chunk(j, leaf)));
      return latest;
    };

    // Segments: this rank's are those whose first leaf it owns.
    std::vector<std::pair<int64_t, int64_t>> segments;
    const auto [first, last] = owned(chunks);
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const auto [j, leaf] = map->split(stage.grid, chunk);
      const int64_t segment = tree.segment_of(leaf);
      if (tree.first(segment) == leaf) segments.emplace_back(j, segment);
    }
    for (const auto& [j, segment] : segments) {
      const int64_t end = tree.end_leaf(0, segment);
      BlockId merged = -1;
      int64_t latest = 0;
      for (int64_t leaf = tree.first(segment); leaf < end && end - tree.first(segment) > 1;) {
        std::vector<BlockId> inputs;
        if (merged >= 0) inputs.push_back(merged);
        for (int64_t n = merged >= 0 ? 0 : -1; n < kLeavesPerCombine && leaf < end; ++n, ++leaf) {
          const int64_t chunk = leaf_chunk(j, leaf);
          const BlockKey key{s, kLeaf, chunk};
          const int from = owner(chunk, chunks);
          inputs.push_back(mine(from) ? block(key) : receive_whole(from, key, state_bytes(j), stage.label));
          latest = std::max(latest, progress(stage_, chunk));
        }
        merged = leaf == end ? add_block(node_key(j, 0, segment), state_bytes(j)) : add_block(state_bytes(j));
        add_task(TaskKind::compute, LaneKind::compute, combine, j * kSegments + segment, position(latest, kChain),
                 combine_body->scratch_bytes(j * kSegments), 0, std::move(inputs), {merged});
      }
    }
    // The tree, level by level: a node belongs to the owner of its left end.
    for (int level = 1; level <= tree.levels(); ++level) {
      for (const auto& [j, segment] : segments) {
        if (segment & ((int64_t{1} << level) - 1)) continue;
        const int64_t node = segment >> level;
        if (2 * node + 1 >= tree.nodes(level - 1)) continue;  // passes through
        std::vector<BlockId> inputs{state(j, level - 1, 2 * node), state(j, level - 1, 2 * node + 1)};
        const BlockId merged = add_block(node_key(j, level, node), state_bytes(j));
        add_task(TaskKind::compute, LaneKind::compute, combine, j * kSegments + node,
                 position(node_progress(j, level, node), kTreeDepth + 2 * level),
                 combine_body->scratch_bytes(j * kSegments), 0, std::move(inputs), {merged});
      }
    }
    // Results, on the owners of the result's chunks.
    const int outputs = static_cast<int>(fused.program.outputs().size());
    const int64_t results = map->kept.count();
    const auto [first_result, last_result] = owned(results);
    for (int64_t j = first_result; j < last_result; ++j) {
      std::vector<BlockId> produced;
      for (size_t r = 0; r < fused.reductions.size(); ++r) {
        const int output = outputs + static_cast<int>(r);
        QUARRY_CHECK(stage.outputs[static_cast<size_t>(output)].grid.count() == results);
        produced.push_back(add_block(BlockKey{s, static_cast<uint32_t>(output), j},
                                     map->elements(j) * local::itemsize(fused.reductions[r].dtype),
                                     kept(stage_, output)));
      }
      add_task(TaskKind::compute, LaneKind::compute, finish, j, position(node_progress(j, tree.levels(), 0), kFinish),
               finish_body->scratch_bytes(j), 0, {state(j, tree.levels(), 0)}, std::move(produced));
    }
  }

  void lower_assemble(const plan::Stage& stage) {
    const Grid& grid = stage.outputs[0].grid;
    auto atoms = [&stage, rank = context_.rank, ranks = context_.ranks](int64_t chunk) {
      return atoms_of(copy_parts(stage, chunk), rank, ranks);
    };
    const auto [number, body] = add_body<CopyBody>(stage.label, atoms);
    const auto [first, last] = owned(grid.count());
    for (int64_t chunk = first; chunk < last; ++chunk) {
      // Atoms in order of their parts; each part's input tells where its blocks come from.
      std::vector<BlockId> inputs;
      for (const CopyPart& part : copy_parts(stage, chunk)) {
        for (const CopyAtom& atom : atoms_of({part}, context_.rank, context_.ranks))
          inputs.push_back(arrive(*part.input, atom.access));
      }
      const int64_t bytes = grid.chunk(chunk).elements() * local::itemsize(stage.outputs[0].dtype);
      const BlockId output = add_block(BlockKey{static_cast<uint32_t>(stage_), 0, chunk}, bytes, kept(stage_, 0));
      add_task(TaskKind::copy, LaneKind::compute, number, chunk, position(progress(stage_, chunk), kMain),
               body->scratch_bytes(chunk, context_.device), bytes, std::move(inputs), {output});
    }
  }

  // The chunks of k: those of b's row axis, or of a's column axis, where a whole axis of the array is mapped.
  static AxisChunks product_steps(const plan::MatMul& product) {
    auto whole_axis = [](const plan::Input& input, int space_axis) -> const AxisChunks* {
      const auto& axis = input.map.axes[static_cast<size_t>(space_axis)];
      return axis.source >= 0 && axis.start == 0 && axis.step == 1 ? &input.grid.axis(axis.source) : nullptr;
    };
    const int n = static_cast<int>(product.b.map.axes.size());
    if (const AxisChunks* rows = whole_axis(product.b, n - 2)) return *rows;
    if (!product.syrk) {
      if (const AxisChunks* columns = whole_axis(product.a, n - 1)) return *columns;
    }
    const auto& axis = product.b.map.axes[static_cast<size_t>(n - 2)];
    QUARRY_CHECK(axis.source >= 0);
    const int64_t extent = product.b.shape[axis.source];
    return {extent, std::max<int64_t>(1, std::min<int64_t>(extent, 4096))};
  }

  void lower_product(const plan::Stage& stage) {
    const auto& product = std::get<plan::MatMul>(stage.work);
    const Grid& tiles = stage.outputs[0].grid;
    const int n = tiles.ndim();
    const DType dtype = stage.outputs[0].dtype;
    const int64_t itemsize = local::itemsize(dtype);
    const auto s = static_cast<uint32_t>(stage_);
    QUARRY_CHECK(!product.syrk || n == 2);
    QUARRY_CHECK(product.b.array.kind != plan::ArrayRef::Kind::dataset &&
                 (product.syrk || product.a.array.kind != plan::ArrayRef::Kind::dataset));
    const AxisChunks steps = product_steps(product);
    const Tree tree{steps.count()};

    auto b_box = [&tiles, steps, n](int64_t tile, int64_t k) {
      Region box = tiles.chunk(tile);
      box.start[n - 2] = steps.start(k);
      box.count[n - 2] = steps.size(k);
      return box;
    };
    auto a_box = [&tiles, steps, n](int64_t tile, int64_t k) {
      Region box = tiles.chunk(tile);
      box.start[n - 1] = steps.start(k);
      box.count[n - 1] = steps.size(k);
      return box;
    };
    auto find = [rank = context_.rank, ranks = context_.ranks](const plan::Input& input, const Region& box) {
      return resolve(input.array, input.grid, local::itemsize(input.dtype), input.map.region(box, input.shape.size()),
                     rank, ranks);
    };
    // With few tiles the work is spread along k, to where b's rows are; with many, to the owners of the tiles.
    const bool along_k = tiles.count() < 2 * context_.ranks;
    auto home = [&](int64_t tile, int64_t segment) {
      if (!along_k) return owner(tile, tiles.count());
      const int64_t k = tree.first(segment);
      const Region region = product.b.map.region(b_box(tile, k), product.b.shape.size());
      const bool everywhere =
          product.b.array.kind == plan::ArrayRef::Kind::stored && product.b.array.stored->replicated();
      if (everywhere || region.elements() == 0) return owner(k, steps.count());
      Dims coordinates(region.ndim());
      for (int d = 0; d < region.ndim(); ++d) coordinates[d] = product.b.grid.axis(d).find(region.start[d]);
      return owner(product.b.grid.flat(coordinates), product.b.grid.count());
    };
    auto mirrored = [&](int64_t tile) {
      const Dims at = tiles.coordinates(tile);
      return product.syrk && at[0] > at[1];
    };
    auto bytes = [&](int64_t tile) { return tiles.chunk(tile).elements() * itemsize; };
    auto node_key = [&](int64_t tile, int level, int64_t node) -> BlockKey {
      return {s, level > 0 ? kTree + static_cast<uint32_t>(level) : kSegment, tile * kSegments + node};
    };
    auto node_home = [&](int64_t tile, int level, int64_t node) { return home(tile, node << level); };
    auto partial = [&](int64_t tile, int level, int64_t node, bool keep = false) {
      std::tie(level, node) = tree.solid(level, node);
      const int from = node_home(tile, level, node);
      return mine(from) ? block(node_key(tile, level, node))
                        : receive_whole(from, node_key(tile, level, node), bytes(tile), stage.label, keep);
    };

    // Tasks are numbered by (tile, first chunk of k, how many, whether there is a sum already).
    struct Work {
      int64_t tile, k, count;
      bool first;
    };
    auto works = std::make_shared<std::vector<Work>>();
    auto operands = [&stage, &product, works, find, a_box, b_box, steps, n](int64_t index) {
      const Work& work = (*works)[static_cast<size_t>(index)];
      const Grid& grid = stage.outputs[0].grid;
      ProductBody::Operands result{work.first, grid.chunk(work.tile).count, {}, {}, {}, {}, {}};
      const Dims at = grid.coordinates(work.tile);
      for (int64_t k = work.k; k < work.k + work.count; ++k) {
        result.k.push_back(steps.size(k));
        result.b.push_back(find(product.b, b_box(work.tile, k)));
        result.b_strides.push_back(space_strides(product.b.map, result.b.back().strides));
        if (!product.syrk) {
          result.a.push_back(find(product.a, a_box(work.tile, k)));
          result.a_strides.push_back(space_strides(product.a.map, result.a.back().strides));
        } else if (at[0] != at[1]) {  // the columns of b that are this tile's rows, transposed
          Region box = b_box(work.tile, k);
          const Region rows = grid.chunk(work.tile);
          box.start[n - 1] = rows.start[n - 2];
          box.count[n - 1] = rows.count[n - 2];
          result.a.push_back(find(product.b, box));
          Dims strides = space_strides(product.b.map, result.a.back().strides);
          std::swap(strides[n - 2], strides[n - 1]);
          result.a_strides.push_back(std::move(strides));
          result.conjugate_a = local::is_complex(stage.outputs[0].dtype);
        }
      }
      return result;
    };
    const auto [number, body] = add_body<ProductBody>(stage.label, dtype, context_.device, operands);
    const auto [sum, sum_body] = add_body<SumBody>(stage.label, dtype);
    const bool keep_output = kept(stage_, 0);

    const auto [first_tile, last_tile] = along_k ? std::pair<int64_t, int64_t>{0, tiles.count()} : owned(tiles.count());
    auto is_root = [&](int64_t tile, int level, int64_t node) {
      return tree.solid(tree.levels(), 0) == std::pair<int, int64_t>{level, node} && mine(owner(tile, tiles.count()));
    };
    for (int64_t tile = first_tile; tile < last_tile; ++tile) {
      if (mirrored(tile)) continue;
      for (int64_t segment = 0; segment < tree.segments(); ++segment) {
        if (!mine(home(tile, segment))) continue;
        const int64_t end = tree.end_leaf(0, segment);
        BlockId total = -1;
        int64_t latest = 0;
        for (int64_t k = tree.first(segment); k < end;) {
          const int64_t count = std::min(kProductsPerTask, end - k);
          works->push_back({tile, k, count, total < 0});
          const auto index = static_cast<int64_t>(works->size()) - 1;
          const ProductBody::Operands task = operands(index);
          std::vector<BlockId> inputs;
          if (total >= 0) inputs.push_back(total);
          for (size_t i = 0; i < task.k.size(); ++i) {
            if (!task.a.empty()) inputs.push_back(arrive(product.syrk ? product.b : product.a, task.a[i]));
            inputs.push_back(arrive(product.b, task.b[i]));
          }
          for (int64_t j = k; j < k + count; ++j) {
            latest = std::max(latest, operand_progress(product.b, b_box(tile, j)));
            if (!product.syrk) latest = std::max(latest, operand_progress(product.a, a_box(tile, j)));
          }
          k += count;
          total = k == end
                      ? add_block(node_key(tile, 0, segment), bytes(tile), keep_output && is_root(tile, 0, segment))
                      : add_block(bytes(tile));
          add_task(TaskKind::compute, LaneKind::compute, number, index, position(latest, kChain),
                   body->scratch_bytes(index), 0, std::move(inputs), {total});
        }
      }
    }
    for (int level = 1; level <= tree.levels(); ++level) {
      for (int64_t tile = first_tile; tile < last_tile; ++tile) {
        if (mirrored(tile)) continue;
        for (int64_t node = 0; 2 * node + 1 < tree.nodes(level - 1); ++node) {
          if (!mine(node_home(tile, level, node))) continue;
          std::vector<BlockId> inputs{partial(tile, level - 1, 2 * node), partial(tile, level - 1, 2 * node + 1)};
          const BlockId total =
              add_block(node_key(tile, level, node), bytes(tile), keep_output && is_root(tile, level, node));
          add_task(TaskKind::compute, LaneKind::compute, sum, tile, position(kProgressEnd, kTreeDepth + 2 * level),
                   sum_body->scratch_bytes(bytes(tile), context_.device), 0, std::move(inputs), {total});
        }
      }
    }
    // The tiles of the result, on their owners; below the diagonal of a SYRK they are transposed from above.
    int32_t mirror = -1;
    CopyBody* mirror_body = nullptr;
    const auto [first_result, last_result] = owned(tiles.count());
    for (int64_t tile = first_result; tile < last_result; ++tile) {
      const BlockKey key{s, 0, tile};
      if (!mirrored(tile)) {
        result_->blocks.emplace(key, partial(tile, tree.levels(), 0, keep_output));
        continue;
      }
      if (mirror < 0) {
        auto atoms = [&tiles, itemsize, dtype](int64_t t) {
          const Dims count = tiles.chunk(t).count;
          CopyAtom atom{{}, count, Dims{itemsize, count[0] * itemsize}, local::contiguous_strides(count, itemsize),
                        0,  dtype};
          atom.conjugate = local::is_complex(dtype);
          return std::vector<CopyAtom>{atom};
        };
        std::tie(mirror, mirror_body) = add_body<CopyBody>(stage.label, atoms);
      }
      const Dims at = tiles.coordinates(tile);
      const BlockId above = partial(tiles.flat(Dims{at[1], at[0]}), tree.levels(), 0);
      add_task(TaskKind::copy, LaneKind::compute, mirror, tile, position(kProgressEnd, kFinish),
               mirror_body->scratch_bytes(tile, context_.device), 0, {above},
               {add_block(key, bytes(tile), keep_output)});
    }
  }

  int64_t operand_progress(const plan::Input& input, const Region& box) {
    int64_t latest = 0;
    if (input.array.kind != plan::ArrayRef::Kind::stage ||
        phases_[static_cast<size_t>(input.array.stage)] != phases_[static_cast<size_t>(stage_)])
      return latest;
    for (const Piece& piece : pieces(input.grid, input.map.region(box, input.shape.size())))
      latest = std::max(latest, progress(input.array.stage, piece.chunk));
    return latest;
  }

  void lower_eigh(const plan::Stage& stage) {
    if (!mine(owner(0, 1))) return;
    const auto& eigh = std::get<plan::Eigh>(stage.work);
    const auto [number, body] = add_body<EighBody>(stage, context_.rank, context_.ranks);
    const BlockId input = arrive(eigh.a, body->access());
    std::vector<BlockId> produced;
    for (size_t o = 0; o < stage.outputs.size(); ++o) {
      const auto& output = stage.outputs[o];
      QUARRY_CHECK(output.grid.count() == 1);
      produced.push_back(add_block(BlockKey{static_cast<uint32_t>(stage_), static_cast<uint32_t>(o), 0},
                                   local::element_count(output.shape) * local::itemsize(output.dtype),
                                   kept(stage_, static_cast<int>(o))));
    }
    add_task(TaskKind::compute, LaneKind::compute, number, 0, position(kProgressEnd, kFinish),
             body->scratch_bytes(context_.device), 0, {input}, std::move(produced));
  }

  void lower_sink(const Sink& sink) {
    result_->kept.emplace_back();
    QUARRY_CHECK(sink.array.kind == plan::ArrayRef::Kind::stage);
    stage_ = sink.array.stage;
    const plan::Stage& stage = plan_.stages[static_cast<size_t>(stage_)];
    const auto& output = stage.outputs[static_cast<size_t>(sink.array.output)];
    int32_t number = -1;
    if (sink.kind == Sink::Kind::write)
      number = add_body<WriteBody>(output.grid, stage.label, context_.executor, sink.whole, sink.write).first;
    const auto [first, last] = owned(output.grid.count());
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const BlockId result = block(key_of(sink.array, chunk));
      if (sink.kind == Sink::Kind::keep) {
        result_->kept.back().push_back(result);
        continue;
      }
      const int64_t bytes = output.grid.chunk(chunk).elements() * local::itemsize(output.dtype);
      const bool late = is_barrier(stage, sink.array.output);
      add_task(TaskKind::write, LaneKind::io, number, chunk,
               position(late ? kProgressEnd : progress(stage_, chunk), kSink), 0, bytes, {result}, {});
      result_->write_bytes += bytes;
    }
  }

  const plan::Plan& plan_;
  const std::vector<Sink>& sinks_;
  const LoweringContext& context_;
  std::unique_ptr<Lowered> result_;
  std::vector<int> phases_;
  std::vector<std::unordered_map<int64_t, int64_t>> progress_;
  std::set<std::pair<int, int>> kept_;
  std::vector<Pending> pending_;
  int stage_ = 0;
  std::unordered_map<const StoredArray*, uint32_t> stored_numbers_;
  std::unordered_map<std::string, BlockId> received_, shared_;
  ReceiveBody* receive_body_ = nullptr;
  int32_t receive_number_ = -1;
  std::unordered_map<const io::Dataset*, std::pair<int32_t, ReadBody*>> read_bodies_;
};

}  // namespace

std::unique_ptr<Lowered> lower(const plan::Plan& plan, const std::vector<Sink>& sinks, const LoweringContext& context) {
  return Lowering(plan, sinks, context).run();
}

void exchange_pulls(Lowered& lowered, comm::Communicator& communicator, Service& service) {
  // What this rank pulls, as (stage, part, chunk, times) per owner.
  struct Announcement {
    uint32_t stage, part;
    int64_t chunk, times;
  };
  const int ranks = communicator.size();
  std::vector<std::map<std::tuple<uint32_t, uint32_t, int64_t>, int64_t>> counts(static_cast<size_t>(ranks));
  for (const Lowered::Pull& pull : lowered.pulls)
    ++counts[static_cast<size_t>(pull.owner)][{pull.key.stage, pull.key.part, pull.key.chunk}];
  std::vector<std::vector<Announcement>> out(static_cast<size_t>(ranks)), in(static_cast<size_t>(ranks));
  std::vector<int64_t> sizes(static_cast<size_t>(ranks)),
      all_sizes(static_cast<size_t>(ranks) * static_cast<size_t>(ranks));
  for (size_t r = 0; r < out.size(); ++r) {
    for (const auto& [key, times] : counts[r])
      out[r].push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), times});
    sizes[r] = static_cast<int64_t>(out[r].size());
  }
  communicator.all_gather(sizes.data(), ranks * static_cast<int64_t>(sizeof(int64_t)), all_sizes.data());
  constexpr uint64_t kTag = 0x70756c6c;  // "pull"
  std::vector<std::unique_ptr<comm::Request>> requests;
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<size_t>(r);
    in[i].resize(
        static_cast<size_t>(all_sizes[i * static_cast<size_t>(ranks) + static_cast<size_t>(communicator.rank())]));
    if (r == communicator.rank()) continue;
    if (!in[i].empty())
      requests.push_back(
          communicator.receive(in[i].data(), static_cast<int64_t>(in[i].size() * sizeof(Announcement)), r, kTag));
    if (!out[i].empty())
      requests.push_back(
          communicator.send(out[i].data(), static_cast<int64_t>(out[i].size() * sizeof(Announcement)), r, kTag));
  }
  for (const auto& request : requests) request->wait();
  std::unordered_map<BlockKey, int64_t, Lowered::KeyHash> readers;
  for (const auto& from : in)
    for (const Announcement& a : from) readers[{a.stage, a.part, a.chunk}] += a.times;
  std::unordered_map<BlockId, int64_t> per_block;  // one block may go by two keys
  for (const auto& [key, times] : readers) {
    const auto found = lowered.blocks.find(key);
    QUARRY_CHECK(found != lowered.blocks.end());
    per_block[found->second] += times;
    service.expose(key, found->second);
  }
  for (const auto& [block, times] : per_block) lowered.graph.set_remote_readers(block, static_cast<int32_t>(times));
}

}  // namespace quarry::exec
