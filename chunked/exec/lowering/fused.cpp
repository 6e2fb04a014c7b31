// Fused programs: one task per chunk of the stage's space makes the elementwise outputs and the states of the
// reductions. States are merged along the fixed tree (tree.h): every segment on the rank that owns its first leaf,
// every node above on the rank of its left end, results on the owners of their chunks.
#include <algorithm>

#include "chunked/exec/lowering/builder.h"
#include "chunked/exec/lowering/tree.h"
#include "local/base/error.h"

namespace quarry::exec {
namespace {

using scheduler::BlockId;

constexpr int64_t kLeavesPerCombine = 8;

bool broadcasts(const plan::Input& input, const Dims& space) {
  for (int d = 0; d < space.size(); ++d)
    if (input.map.axes[static_cast<size_t>(d)].source < 0 && space[d] > 1) return true;
  return false;
}

class Reductions {
 public:
  explicit Reductions(Builder& builder)
      : builder_(builder),
        stage_(builder.stage()),
        fused_(std::get<plan::Fused>(stage_.work)),
        map_(std::make_shared<ReduceMap>(stage_.grid, fused_.reduce_axes)) {
    auto elements = [map = map_](int64_t index) { return map->elements(index / kSegments); };
    std::tie(combine_, combine_body_) = builder.add_body<CombineBody>(stage_, builder.device(), elements);
    std::tie(finish_, finish_body_) =
        builder.add_body<FinalizeBody>(stage_, builder.device(), [map = map_](int64_t j) { return map->elements(j); });
  }

  void lower() {
    const std::vector<Segment> segments = own_segments();
    for (const Segment& segment : segments) merge_segment(segment);
    for (int level = 1; level <= tree_.levels(); ++level)
      for (const Segment& segment : segments) merge_pair(segment, level);
    const auto [first, last] = builder_.owned(map_->kept.count());
    for (int64_t j = first; j < last; ++j) add_results(j);
  }

 private:
  struct Segment {
    int64_t j, number;  // of kept chunk j
  };

  int64_t state_bytes(int64_t j) const { return StateLayout(fused_.program, map_->elements(j)).bytes; }
  int64_t leaf_chunk(int64_t j, int64_t leaf) const { return map_->chunk(stage_.grid, j, leaf); }
  int leaf_owner(int64_t chunk) const { return builder_.owner(chunk, stage_.grid.count()); }

  BlockKey node_key(int64_t j, int level, int64_t node) const {
    if (level > 0) return builder_.key(kTree + static_cast<uint32_t>(level), j * kSegments + node);
    if (tree_.end_leaf(0, node) - tree_.first(node) == 1) return builder_.key(kLeaf, leaf_chunk(j, tree_.first(node)));
    return builder_.key(kSegment, j * kSegments + node);
  }

  // The states of a node of the tree, here.
  BlockId state(int64_t j, int level, int64_t node) {
    std::tie(level, node) = tree_.solid(level, node);
    const int from = leaf_owner(leaf_chunk(j, tree_.first_leaf(level, node)));
    const BlockKey key = node_key(j, level, node);
    return builder_.mine(from) ? builder_.block(key) : builder_.receive_whole(from, key, state_bytes(j), stage_.label);
  }

  // A node comes after the latest of its leaves; with very many leaves, at the end of the phase.
  int64_t node_progress(int64_t j, int level, int64_t node) {
    const int64_t from = tree_.first_leaf(level, node), to = tree_.end_leaf(level, node);
    if (to - from > kSegments) return kProgressEnd;
    int64_t latest = 0;
    for (int64_t leaf = from; leaf < to; ++leaf) latest = std::max(latest, builder_.progress(leaf_chunk(j, leaf)));
    return latest;
  }

  // Those whose first leaf this rank owns.
  std::vector<Segment> own_segments() const {
    std::vector<Segment> segments;
    const auto [first, last] = builder_.owned(stage_.grid.count());
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const auto [j, leaf] = map_->split(stage_.grid, chunk);
      const int64_t segment = tree_.segment_of(leaf);
      if (tree_.first(segment) == leaf) segments.push_back({j, segment});
    }
    return segments;
  }

  void merge_segment(const Segment& segment) {
    const auto [j, number] = segment;
    const int64_t end = tree_.end_leaf(0, number);
    if (end - tree_.first(number) == 1) return;
    BlockId merged = -1;
    int64_t latest = 0;
    for (int64_t leaf = tree_.first(number); leaf < end;) {
      std::vector<BlockId> inputs;
      if (merged >= 0) inputs.push_back(merged);
      for (int64_t n = merged >= 0 ? 0 : -1; n < kLeavesPerCombine && leaf < end; ++n, ++leaf) {
        const int64_t chunk = leaf_chunk(j, leaf);
        const BlockKey key = builder_.key(kLeaf, chunk);
        const int from = leaf_owner(chunk);
        inputs.push_back(builder_.mine(from) ? builder_.block(key)
                                             : builder_.receive_whole(from, key, state_bytes(j), stage_.label));
        latest = std::max(latest, builder_.progress(chunk));
      }
      merged =
          leaf == end ? builder_.add_block(node_key(j, 0, number), state_bytes(j)) : builder_.add_block(state_bytes(j));
      add_combine(j, number, {latest, kChain}, inputs, merged);
    }
  }

  void merge_pair(const Segment& segment, int level) {
    const auto [j, number] = segment;
    if (number & ((int64_t{1} << level) - 1)) return;
    const int64_t node = number >> level;
    if (2 * node + 1 >= tree_.nodes(level - 1)) return;  // passes through
    std::vector<BlockId> inputs{state(j, level - 1, 2 * node), state(j, level - 1, 2 * node + 1)};
    const BlockId merged = builder_.add_block(node_key(j, level, node), state_bytes(j));
    add_combine(j, node, {node_progress(j, level, node), kTreeDepth + 2 * level}, inputs, merged);
  }

  void add_combine(int64_t j, int64_t node, Builder::Place place, const std::vector<BlockId>& inputs, BlockId merged) {
    builder_.add_compute(combine_, j * kSegments + node, place, {combine_body_->scratch_bytes(j * kSegments), 0},
                         inputs, {merged});
  }

  void add_results(int64_t j) {
    const int outputs = static_cast<int>(fused_.program.outputs().size());
    std::vector<BlockId> produced;
    for (size_t r = 0; r < fused_.reductions.size(); ++r) {
      const int output = outputs + static_cast<int>(r);
      QUARRY_CHECK(stage_.outputs[static_cast<size_t>(output)].grid.count() == map_->kept.count());
      produced.push_back(
          builder_.add_output(output, j, map_->elements(j) * local::itemsize(fused_.reductions[r].dtype)));
    }
    const int64_t latest = node_progress(j, tree_.levels(), 0);
    std::vector<BlockId> inputs{state(j, tree_.levels(), 0)};
    builder_.add_compute(finish_, j, {latest, kFinish}, {finish_body_->scratch_bytes(j), 0}, inputs, produced);
  }

  Builder& builder_;
  const plan::Stage& stage_;
  const plan::Fused& fused_;
  std::shared_ptr<const ReduceMap> map_;  // with the bodies
  const Tree tree_ = map_->tree;
  int32_t combine_ = -1, finish_ = -1;
  CombineBody* combine_body_ = nullptr;
  FinalizeBody* finish_body_ = nullptr;
};

}  // namespace

void lower_fused(Builder& builder) {
  const plan::Stage& stage = builder.stage();
  const auto& fused = std::get<plan::Fused>(stage.work);
  const auto [rank, ranks] = std::pair(builder.context().rank, builder.context().ranks);
  const auto [number, body] = builder.add_body<FusedBody>(stage, rank, ranks, builder.device());
  const int outputs = static_cast<int>(fused.program.outputs().size());
  const auto [first, last] = builder.owned(stage.grid.count());
  for (int64_t chunk = first; chunk < last; ++chunk) {
    std::vector<BlockId> inputs, produced;
    int64_t traffic = 0;
    for (size_t i = 0; i < fused.inputs.size(); ++i) {
      const plan::Input& input = fused.inputs[i];
      if (static_cast<int>(i) == body->streamed()) {
        traffic += body->input_region(static_cast<int>(i), chunk).elements() * local::itemsize(input.dtype);
        builder.result().read_bytes += traffic;
        continue;
      }
      const Access access = body->access(static_cast<int>(i), chunk);
      inputs.push_back(broadcasts(input, stage.shape) ? builder.arrive_shared(input, access)
                                                      : builder.arrive(input, access));
    }
    const int64_t elements = stage.grid.chunk(chunk).elements();
    for (int o = 0; o < outputs; ++o) {
      const local::DType dtype = fused.program.dtype(fused.program.outputs()[static_cast<size_t>(o)]);
      produced.push_back(builder.add_output(o, chunk, elements * local::itemsize(dtype)));
    }
    if (!fused.reductions.empty())
      produced.push_back(builder.add_block(builder.key(kLeaf, chunk), body->state_bytes(chunk)));
    builder.add_compute(number, chunk, {builder.progress(chunk), kMain}, {body->scratch_bytes(chunk), traffic}, inputs,
                        produced);
  }
  if (!fused.reductions.empty()) Reductions(builder).lower();
}

}  // namespace quarry::exec
