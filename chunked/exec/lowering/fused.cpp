// Fused programs: one task per chunk of the stage's space makes the elementwise outputs and the states of the
// reductions. States are merged along the fixed tree (tree.h): every segment at its home, which is the rank that owns
// its last leaf, every node above at the home of its left end, results on the owners of their chunks. Of blocks, ranks
// that share a segment merge their own leaves into what the rank before sends them, which is the same sum in the same
// order; of other owners, all leaves go to the home. States of folds per chunk are finalised where they are.
#include <algorithm>
#include <bit>
#include <optional>

#include "quarry/chunked/exec/bodies/aggregate.h"
#include "quarry/chunked/exec/bodies/fused.h"
#include "quarry/chunked/exec/bodies/stealing.h"
#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/chunked/exec/lowering/chunks.h"
#include "quarry/chunked/exec/lowering/values.h"
#include "quarry/chunked/exec/stealing.h"
#include "quarry/chunked/grid/tree.h"
#include "quarry/local/base/error.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {
namespace {

using scheduler::BlockId;
namespace policy = local::memory_policy;

constexpr int64_t kLeavesPerCombine = 8;
// On a GPU, small neighbouring chunks of a segment share a task as long as they are no larger together, also in the
// part of the memory budget that this leaves for others (memory/policy.h), and their states stay small.
constexpr int64_t kLeavesPerTask = 64;
constexpr int64_t kSharedStateBytes = int64_t{64} << 10;

bool broadcasts(const plan::Input& input, const Dims& space) {
  for (int d = 0; d < space.size(); ++d)
    if (input.map.axes[static_cast<size_t>(d)].source < 0 && space[d] > 1) return true;
  return false;
}

// Whether all chunks of the stage read the same of an input, which every rank then has.
bool same_for_all(const plan::Input& input, const plan::Stage& stage) {
  if (input.array.kind == plan::ArrayRef::Kind::stored && input.array.stored->replicated()) return true;
  for (int d = 0; d < stage.grid.ndim(); ++d) {
    if (input.map.axes[static_cast<size_t>(d)].source >= 0 && stage.grid.axis(d).count() > 1) return false;
  }
  return true;
}

// Where the data of an input of a chunk arrives.
BlockId prefetch(Builder& builder, const FusedBody& body, const plan::Input& input, int number, int64_t chunk) {
  if (body.reads_whole_chunks(number) && builder.stage().grid.chunk_elements(chunk) > 0) {
    if (const auto block = builder.whole_chunk(input, chunk)) return *block;
  }
  const Access access = body.access(number, chunk);
  if (!broadcasts(input, builder.stage().shape)) return builder.prefetch(input, access);
  return same_for_all(input, builder.stage()) ? builder.prefetch_for_all(input, access)
                                              : builder.prefetch_shared(input, access);
}

bool is_regular(const Grid& grid) {
  return std::ranges::all_of(grid.axes(),
                             [](const AxisChunks& axis) { return axis == AxisChunks(axis.extent(), axis.size(0)); });
}

// Whether other ranks may compute chunks of the stage (stealing.h): what they read is in a file or everywhere, what
// they make are states only, few against what is read, and enough is read to be worth two messages.
bool is_stealable(const Builder& builder, FusedBody& body) {
  constexpr int64_t kLeastBytes = 64 << 10, kLeastGpuBytes = 4 << 20, kReadPerState = 8;
  const plan::Stage& stage = builder.stage();
  const auto& fused = std::get<plan::Fused>(stage.work);
  const int file = body.file_input();
  if (builder.context().thieves == 0 || builder.context().owners.ranks() == 1 || file < 0) return false;
  if (!fused.program.outputs().empty() || fused.reductions.empty()) return false;
  if (stage.owners.kind != Owners::Kind::blocks) return false;
  if (local::element_count(stage.shape) == 0 || !is_regular(stage.grid)) return false;
  for (size_t i = 0; i < fused.inputs.size(); ++i) {
    if (static_cast<int>(i) != file && !same_for_all(fused.inputs[i], stage)) return false;
  }
  const int64_t bytes =
      body.input_region(file, 0).elements() * local::itemsize(fused.inputs[static_cast<size_t>(file)].dtype);
  const int64_t least = builder.device().kind == local::DeviceKind::cuda ? kLeastGpuBytes : kLeastBytes;
  return bytes >= std::max(least, kReadPerState * body.state_bytes(0));
}

// What chunks need; most are of the shape of the one before.
class Sizes {
 public:
  Sizes(const FusedBody& body, const Grid& grid) : body_(body), grid_(grid) {}
  int64_t scratch_bytes(int64_t chunk) {
    if (!body_.aligned() || !body_.makers().empty()) return body_.scratch_bytes(chunk, known_);
    look(chunk);
    if (scratch_bytes_ < 0) scratch_bytes_ = body_.scratch_bytes(chunk);
    return scratch_bytes_;
  }
  int64_t scratch_bytes(int64_t chunk, const FusedBody::Cells& cells) {
    return body_.scratch_bytes(chunk, cells, known_cell_);
  }
  int64_t state_bytes(int64_t chunk) {
    look(chunk);
    if (state_bytes_ < 0) state_bytes_ = body_.state_bytes(chunk);
    return state_bytes_;
  }

 private:
  void look(int64_t chunk) {
    if (chunk == chunk_) return;
    if (chunk_ < 0 || !grid_.same_shape(chunk, chunk_)) scratch_bytes_ = state_bytes_ = -1;
    chunk_ = chunk;
  }

  const FusedBody& body_;
  const Grid& grid_;
  int64_t chunk_ = -1;  // the last one, whose shape they are of
  int64_t scratch_bytes_ = -1, state_bytes_ = -1;
  FusedBody::KnownScratch known_, known_cell_;
};

class Reductions {
 public:
  Reductions(Builder& builder, const FusedBody& chunks)
      : builder_(builder),
        chunks_(chunks),
        stage_(builder.stage()),
        fused_(std::get<plan::Fused>(stage_.work)),
        map_(std::make_shared<ReduceMap>(stage_.grid, fused_.reduce_axes)) {
    auto elements = [map = map_](int64_t index) { return map->elements(index / kSegments); };
    const auto combining = [&](local::MergeOrder order) {
      return builder.add_body<CombineBody>(stage_, builder.device(), order, elements);
    };
    std::tie(chain_, chain_body_) = combining(local::MergeOrder::chain);
    std::tie(pairs_, pairs_body_) = combining(local::MergeOrder::pairs);
    std::tie(finalize_, finalize_body_) =
        builder.add_body<FinalizeBody>(stage_, builder.device(), [map = map_](int64_t j) { return map->elements(j); });
    for (int64_t j = 0; values_.is_on() && j < map_->kept.count(); ++j)
      state_bytes_of_all_ += tree_.segments() * state_bytes(j);
  }

  // Adds tasks that make the states of several chunks each; of one only where no other rank may take it.
  void lower_shared(bool movable) {
    const int64_t most = leaves_per_task();
    if (most > (movable ? 1 : 0)) share(most);
  }
  int64_t shared_leaves() const { return shared_leaves_; }
  // Whether one of them makes the states of this chunk.
  bool shares(int64_t chunk) const {
    if (shared_.empty()) return false;
    const auto [j, leaf] = map_->split(chunk);
    return shared_.contains(j * kSegments + tree_.segment_of(leaf));
  }

  // Of a segment with one chunk, whose states an earlier run has saved: reads them.
  bool restores_leaf(int64_t chunk) {
    const auto [j, leaf] = map_->split(chunk);
    const int64_t number = tree_.segment_of(leaf);
    return tree_.end_leaf(0, number) - tree_.first(number) == 1 &&
           restore(j, number, {builder_.progress(chunk), kMain});
  }
  // Of one whose states this run has made.
  void save_leaf(int64_t chunk) {
    const auto [j, leaf] = map_->split(chunk);
    const int64_t number = tree_.segment_of(leaf);
    if (tree_.end_leaf(0, number) - tree_.first(number) == 1)
      save(j, number, {builder_.progress(chunk), kMain}, builder_.block(node_key(j, 0, number)));
  }

  void lower() {
    if (in_one_task()) {
      add_tree();
      return;
    }
    for (const Run& run : own_runs()) merge_run(run);
    for (const Run& run : own_runs()) {
      if (run.end == tree_.end_leaf(0, run.number)) merge_above(run);
    }
    for (const int64_t j : builder_.owned(results_owners(), map_->kept)) add_results(j);
  }

 private:
  bool restore(int64_t j, int64_t number, Builder::Priority priority) {
    const auto block = values_.restore(j * kSegments + number, state_bytes(j), priority);
    if (block) builder_.name_block(node_key(j, 0, number), *block);
    return block.has_value();
  }
  // The states of segments are saved where they are small against what they are made of.
  void save(int64_t j, int64_t number, Builder::Priority priority, BlockId block) {
    constexpr int64_t kReadPerState = 8;
    if (local::element_count(stage_.shape) >= kReadPerState * state_bytes_of_all_)
      values_.save(j * kSegments + number, state_bytes(j), priority, block);
  }

  // Leaves [first, end) of a segment of kept chunk j that this rank merges.
  struct Run {
    int64_t j, number;
    int64_t first, end;
  };

  int64_t state_bytes(int64_t j) {
    const int64_t elements = map_->elements(j);
    if (elements != known_elements_) known_bytes_ = AggregateLayout(fused_.program, elements).bytes;
    known_elements_ = elements;
    return known_bytes_;
  }
  int64_t leaf_chunk(int64_t j, int64_t leaf) const { return map_->chunk(j, leaf); }
  int leaf_owner(int64_t chunk) const { return builder_.owner(stage_.owners, stage_.grid, chunk); }
  const Owners& results_owners() const { return stage_.outputs[fused_.program.outputs().size()].owners; }
  // The rank that has the states of a node.
  int home(int64_t j, int level, int64_t node) const {
    return leaf_owner(leaf_chunk(j, tree_.end_leaf(0, node << level) - 1));
  }
  // Whether it has those of all segments below it as well.
  bool is_all_mine(int64_t j, int level, int64_t node) const {
    const int64_t last = std::min((node + 1) << level, tree_.segments()) - 1;
    if (in_blocks_) return builder_.mine(home(j, level, node)) && builder_.mine(home(j, 0, last));
    for (int64_t segment = node << level; segment <= last; ++segment)
      if (!builder_.mine(home(j, 0, segment))) return false;
    return true;
  }

  BlockKey node_key(int64_t j, int level, int64_t node) const {
    if (level > 0) return builder_.key(kTree + static_cast<uint32_t>(level), j * kSegments + node);
    if (tree_.end_leaf(0, node) - tree_.first(node) == 1) return builder_.key(kLeaf, leaf_chunk(j, tree_.first(node)));
    return builder_.key(kSegment, j * kSegments + node);
  }

  // The states of a node of the tree, here.
  BlockId state(int64_t j, int level, int64_t node) {
    std::tie(level, node) = tree_.solid(level, node);
    const int from = home(j, level, node);
    const BlockKey key = node_key(j, level, node);
    return builder_.mine(from) ? builder_.block(key) : builder_.receive_whole(from, key, state_bytes(j), stage_.label);
  }

  // A node comes after the latest of its leaves, so that the tree is walked depth-first: no more than levels + 1 states
  // of a result are kept at a time, beside a segment's leaves. Where finding the latest means to look at many leaves of
  // other ranks, it comes at the end.
  int64_t node_progress(int64_t j, int level, int64_t node) {
    if (merges_late_) return kProgressEnd;
    const int64_t from = tree_.first_leaf(level, node), to = tree_.end_leaf(level, node);
    // Leaves ascend in the stage's chunks.
    if (builder_.waits_for_none()) return builder_.progress(leaf_chunk(j, to - 1));
    const auto mine = [&](int64_t leaf) { return builder_.mine(leaf_owner(leaf_chunk(j, leaf))); };
    const bool all_mine = in_blocks_ && mine(from) && mine(to - 1);
    if (to - from > kSegments && !all_mine) return kProgressEnd;
    int64_t latest = 0;
    for (int64_t s = tree_.segment_of(from); s < tree_.segments() && tree_.first(s) < to; ++s) {
      latest = std::max(latest, segment_progress(j, s));
    }
    return latest;
  }

  int64_t segment_progress(int64_t j, int64_t segment) {
    const auto [found, added] = segment_progress_.try_emplace(j * kSegments + segment, 0);
    if (added) {
      const int64_t end = tree_.end_leaf(0, segment);
      for (int64_t leaf = tree_.first(segment); leaf < end; ++leaf) {
        found->second = std::max(found->second, builder_.progress(leaf_chunk(j, leaf)));
      }
    }
    return found->second;
  }

  // In the order of the segments' first chunks, which is the same on every rank: with that of the leaves' progress no
  // rank waits for another one in a circle.
  const std::vector<Run>& own_runs() {
    if (!runs_.empty()) return runs_;
    const OwnedChunks own = builder_.owned();
    const bool one_result = map_->kept.count() == 1;  // then chunks are leaves
    for (int64_t i = 0; i < own.size();) {
      const auto [j, leaf] = map_->split(own[i]);
      const int64_t number = tree_.segment_of(leaf), first = tree_.first(number), end = tree_.end_leaf(0, number);
      if (in_blocks_) {
        if (leaf == first || leaf_chunk(j, leaf - 1) < own[0])
          runs_.push_back({j, number, leaf, own_end(j, leaf, end, own[own.size() - 1])});
      } else if (leaf + 1 == end) {
        runs_.push_back({j, number, first, end});
      }
      i += in_blocks_ && one_result ? runs_.back().end - leaf : 1;
    }
    const auto first_chunk = [this](const Run& run) { return leaf_chunk(run.j, tree_.first(run.number)); };
    if (!one_result) std::ranges::sort(runs_, {}, first_chunk);
    return runs_;
  }

  // The end of the leaves from one on, before `end`, whose chunks are not behind `last`.
  int64_t own_end(int64_t j, int64_t leaf, int64_t end, int64_t last) const {
    while (end - leaf > 1) {
      const int64_t middle = leaf_chunk(j, end - 1) <= last ? end : leaf + (end - leaf) / 2;
      if (middle == end) return end;
      (leaf_chunk(j, middle) <= last ? leaf : end) = middle;
    }
    return end;
  }

  // The states of a segment up to a leaf, which is not its last one.
  BlockKey run_key(int64_t j, int64_t number, int64_t end) const {
    const int64_t last = leaf_chunk(j, end - 1);
    return builder_.key(end - tree_.first(number) == 1 ? kLeaf : kRun, last);
  }
  BlockKey key_behind(const Run& run) const {
    return run.end == tree_.end_leaf(0, run.number) ? node_key(run.j, 0, run.number)
                                                    : run_key(run.j, run.number, run.end);
  }
  // What the rank before has merged of the segment, if it is not all from here.
  std::optional<BlockId> before(const Run& run) {
    if (run.first == tree_.first(run.number)) return std::nullopt;
    return builder_.receive_whole(leaf_owner(leaf_chunk(run.j, run.first - 1)), run_key(run.j, run.number, run.first),
                                  state_bytes(run.j), stage_.label);
  }
  // Of the leaves up to the end of a run.
  int64_t run_progress(const Run& run) {
    if (builder_.waits_for_none()) return builder_.progress(leaf_chunk(run.j, run.end - 1));
    const int64_t begin = tree_.first(run.number);
    if (run.first > begin && tree_.end_leaf(0, run.number) - begin > kSegments) return kProgressEnd;
    int64_t latest = 0;
    for (int64_t leaf = begin; leaf < run.end; ++leaf)
      latest = std::max(latest, builder_.progress(leaf_chunk(run.j, leaf)));
    return latest;
  }

  // 0: chunks do not share tasks.
  int64_t leaves_per_task() const {
    const LoweringContext& context = builder_.context();
    if (context.device.kind == local::DeviceKind::cpu || context.memory_bytes == 0) return 0;
    if (!fused_.program.outputs().empty() || !fused_.made.empty() || tree_.leaves <= kSegments) return 0;
    const int64_t elements = local::element_count(stage_.grid.largest());
    int64_t bytes = 0;
    for (const plan::Input& input : fused_.inputs) bytes += elements * local::itemsize(input.dtype);
    const int64_t states =
        std::max<int64_t>(AggregateLayout(fused_.program, local::element_count(map_->kept.largest())).bytes, 1);
    const int64_t part = context.memory_bytes / policy::kSharedTaskPart;
    const int64_t fitting = std::clamp<int64_t>(
        std::min(policy::kMostSharedTaskBytes, part) / std::max<int64_t>(bytes, 1), 1, kLeavesPerTask);
    const int64_t most = std::min(fitting, kSharedStateBytes / states);
    if (most == 0) return 0;
    // A segment's states are merged by one task.
    const int64_t blocks = tree_.leaves / kSegments / most + 1;
    return blocks * scheduler::charged_bytes(most * states) <= part ? most : 0;
  }

  // Every run of this rank's leaves.
  void share(int64_t most) {
    const OwnedChunks own = builder_.owned();
    if (own.size() == 0 || (!in_blocks_ && builder_.context().owners.ranks() > 1)) return;
    const int64_t last = own[own.size() - 1];
    auto chunks = [map = map_, tree = tree_, most, last](int64_t index, std::vector<int64_t>& list) {
      const int64_t j = index / tree.leaves, leaf = index % tree.leaves;
      const int64_t end = std::min(leaf + most, tree.end_leaf(0, tree.segment_of(leaf)));
      list.clear();
      for (int64_t l = leaf; l < end && map->chunk(j, l) <= last; ++l) list.push_back(map->chunk(j, l));
    };
    const int32_t body = builder_.add_body<UpdateBody>(chunks_, chunks).first;
    std::vector<BlockId> inputs;
    Sizes sizes(chunks_, stage_.grid);
    for (const auto& [j, number, first, end] : own_runs()) {
      if (end - first == 1) continue;
      Shared& shared = shared_[j * kSegments + number];
      shared_leaves_ += end - first;
      for (int64_t leaf = first; leaf < end;) {
        const int64_t begin = leaf, until = std::min(begin + most, end);
        int64_t latest = 0, scratch = 0;
        inputs.clear();
        for (; leaf < until; ++leaf) {
          const int64_t chunk = leaf_chunk(j, leaf);
          for (size_t i = 0; i < fused_.inputs.size(); ++i) {
            inputs.push_back(prefetch(builder_, chunks_, fused_.inputs[i], static_cast<int>(i), chunk));
          }
          latest = std::max(latest, builder_.progress(chunk));
          scratch += sizes.scratch_bytes(chunk);
        }
        shared.push_back(builder_.add_block((until - begin) * state_bytes(j)));
        builder_.add_compute(body, j * tree_.leaves + begin, {latest, kMain}, {scratch, 0}, inputs, {shared.back()});
      }
    }
    builder_.result().grouped = true;
    levels_together_ = std::bit_width(static_cast<uint64_t>(pairs_body_->most())) - 1;
    merges_late_ = states_can_wait();
  }

  // Few small states can wait, so that those of all segments merge together. Alone only: what other ranks fetch comes
  // as early as they expect it.
  bool states_can_wait() {
    const LoweringContext& context = builder_.context();
    const int64_t blocks_bytes = stage_.grid.count() * scheduler::charged_bytes(state_bytes(0));
    return context.states == nullptr && context.owners.ranks() == 1 &&
           blocks_bytes <= context.memory_bytes / policy::kLateMergePart;
  }

  // On a GPU, one task merges all states of a single result: a task for every node costs more time than its work.
  bool in_one_task() {
    const LoweringContext& context = builder_.context();
    if (context.device.kind == local::DeviceKind::cpu || context.memory_bytes == 0) return false;
    if (map_->kept.count() != 1 || tree_.leaves < 3 || state_bytes(0) == 0 || !states_can_wait()) return false;
    return 2 * kSegments * scheduler::charged_bytes(state_bytes(0)) <= context.memory_bytes / policy::kSharedTaskPart;
  }

  void add_tree() {
    const auto [number, body] = builder_.add_body<TreeBody>(stage_, builder_.device(), tree_,
                                                            [map = map_](int64_t j) { return map->elements(j); });
    std::vector<BlockId> inputs;
    for (int64_t segment = 0; segment < tree_.segments(); ++segment) {
      if (const auto found = shared_.find(segment); found != shared_.end()) {
        inputs.insert(inputs.end(), found->second.begin(), found->second.end());
        continue;
      }
      for (int64_t leaf = tree_.first(segment); leaf < tree_.first(segment + 1); ++leaf)
        inputs.push_back(builder_.block(builder_.key(kLeaf, leaf_chunk(0, leaf))));
    }
    builder_.result().grouped = true;
    builder_.add_compute(number, 0, {kProgressEnd, kFinalize}, {body->scratch_bytes(0), 0}, inputs,
                         add_result_blocks(0));
  }

  void merge_run(const Run& run) {
    const auto [j, number, first, end] = run;
    const bool is_begun = first > tree_.first(number);
    const bool is_home = end == tree_.end_leaf(0, number);
    if (end - first == 1 && !is_begun) return;  // the leaf's states are all
    const int64_t progress = run_progress(run);
    if (is_home && restore(j, number, {progress, kChain})) return;
    if (const auto found = shared_.find(j * kSegments + number); found != shared_.end()) {
      std::vector<BlockId> inputs = found->second;
      if (const auto begun = before(run)) inputs.insert(inputs.begin(), *begun);
      add_chain(j, number, {merges_late_ ? kProgressEnd : progress, kChain}, inputs, end - first + (is_begun ? 1 : 0),
                builder_.add_block(key_behind(run), state_bytes(j)));
      if (is_home) save(j, number, {progress, kChain}, builder_.block(key_behind(run)));
      return;
    }
    BlockId merged = is_begun ? *before(run) : -1;
    int64_t latest = 0;
    for (int64_t leaf = first; leaf < end;) {
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
      merged = leaf == end ? builder_.add_block(key_behind(run), state_bytes(j)) : builder_.add_block(state_bytes(j));
      const int64_t here = is_begun && !builder_.waits_for_none() ? progress : latest;
      add_chain(j, number, {here, kChain}, inputs, std::ssize(inputs), merged);
      if (leaf == end && is_home) save(j, number, {here, kChain}, merged);
    }
  }

  // The highest node that begins with the segment, unless it becomes part of a higher one here.
  void merge_above(const Run& run) {
    const int64_t j = run.j;
    int64_t node = run.number;
    int level = 0;
    for (; level < tree_.levels() && node % 2 == 0; ++level) node /= 2;
    if (level < tree_.levels() && builder_.mine(home(j, level + 1, node / 2))) return;
    merge_node(j, level, node);
  }

  // The states of a node, with all that is merged here for them.
  BlockId merge_node(int64_t j, int level, int64_t node) {
    std::tie(level, node) = tree_.solid(level, node);
    if (level == 0 || !builder_.mine(home(j, level, node))) return state(j, level, node);
    // Several levels at once where all is here.
    const int step = is_all_mine(j, level, node) ? std::min(level, levels_together_) : 1;
    const int64_t begin = node << step, end = std::min((node + 1) << step, tree_.nodes(level - step));
    std::vector<BlockId> inputs;
    for (int64_t child = begin; child < end; ++child) inputs.push_back(merge_node(j, level - step, child));
    const BlockId merged = builder_.add_block(node_key(j, level, node), state_bytes(j));
    const int64_t index = j * kSegments + node;
    builder_.add_compute(pairs_, index, {node_progress(j, level, node), kTreeDepth + 2 * level},
                         {pairs_body_->scratch_bytes(index, end - begin), 0}, inputs, {merged});
    return merged;
  }

  void add_chain(int64_t j, int64_t node, Builder::Priority priority, const std::vector<BlockId>& inputs,
                 int64_t states, BlockId merged) {
    builder_.add_compute(chain_, j * kSegments + node, priority, {chain_body_->scratch_bytes(j * kSegments, states), 0},
                         inputs, {merged});
  }

  std::vector<BlockId> add_result_blocks(int64_t j) {
    const int outputs = static_cast<int>(fused_.program.outputs().size());
    std::vector<BlockId> produced;
    for (size_t r = 0; r < fused_.reductions.size(); ++r) {
      const int output = outputs + static_cast<int>(r);
      QUARRY_CHECK(stage_.outputs[static_cast<size_t>(output)].grid.count() == map_->kept.count());
      produced.push_back(
          builder_.add_output(output, j, map_->elements(j) * local::itemsize(fused_.reductions[r].dtype)));
    }
    return produced;
  }
  void add_results(int64_t j) {
    const std::vector<BlockId> produced = add_result_blocks(j);
    const int64_t latest = node_progress(j, tree_.levels(), 0);
    std::vector<BlockId> inputs{state(j, tree_.levels(), 0)};
    builder_.add_compute(finalize_, j, {latest, kFinalize}, {finalize_body_->scratch_bytes(j), 0}, inputs, produced);
  }

  Builder& builder_;
  const FusedBody& chunks_;
  const plan::Stage& stage_;
  const plan::Fused& fused_;
  std::shared_ptr<const ReduceMap> map_;  // with the bodies
  const Tree tree_ = map_->tree;
  int32_t chain_ = -1, pairs_ = -1, finalize_ = -1;
  CombineBody *chain_body_ = nullptr, *pairs_body_ = nullptr;
  FinalizeBody* finalize_body_ = nullptr;
  const bool in_blocks_ = stage_.owners.kind == Owners::Kind::blocks;
  std::vector<Run> runs_;
  // Runs whose leaves share tasks, by j and number: the blocks of their states in order.
  using Shared = std::vector<BlockId>;
  std::unordered_map<int64_t, Shared> shared_;
  std::unordered_map<int64_t, int64_t> segment_progress_;  // of segments whose chunks wait for others, as shared_
  int64_t shared_leaves_ = 0;
  bool merges_late_ = false;                       // behind all leaves
  int levels_together_ = 1;                        // of the tree
  int64_t known_elements_ = -1, known_bytes_ = 0;  // of a state
  SavedValues values_{builder_};
  int64_t state_bytes_of_all_ = 0;  // of all results and segments
};

}  // namespace

// The tasks that compute chunks of other ranks, behind this rank's own.
void lower_stealing(Builder& builder, FusedBody& body) {
  const plan::Stage& stage = builder.stage();
  const auto& fused = std::get<plan::Fused>(stage.work);
  std::vector<BlockId> inputs;
  for (size_t i = 0; i < fused.inputs.size(); ++i) {
    const int input = static_cast<int>(i);
    if (input != body.file_input()) inputs.push_back(prefetch(builder, body, fused.inputs[i], input, /*chunk=*/0));
  }
  const LoweringContext& context = builder.context();
  const bool on_cpu = context.device.kind == local::DeviceKind::cpu;
  const auto [number, take] =
      builder.add_body<StealBody>(body, context.device, builder.key(0, 0).stage, context.service, context.executor);
  for (int taker = 0; taker < context.thieves; ++taker) {
    builder.add_task(scheduler::TaskKind::host, on_cpu ? scheduler::QueueKind::compute : scheduler::QueueKind::worker,
                     number, taker, {kProgressEnd, kSteal}, {take->scratch_bytes(), 0}, inputs, {});
  }
}

// The states of every own chunk become elements of the results.
void lower_folds(Builder& builder, const FusedBody& body) {
  const plan::Stage& stage = builder.stage();
  const auto& fused = std::get<plan::Fused>(stage.work);
  const auto elements = [&body](int64_t chunk) {
    return local::element_count(body.kept_shape(body.stage().grid.chunk_shape(chunk)));
  };
  const auto [number, finalize] = builder.add_body<FinalizeBody>(stage, builder.device(), elements);
  const int first_output = static_cast<int>(fused.program.outputs().size());
  std::vector<BlockId> produced;
  for (const int64_t chunk : builder.owned()) {
    produced.clear();
    for (size_t r = 0; r < fused.reductions.size(); ++r) {
      const int64_t bytes = elements(chunk) * local::itemsize(fused.reductions[r].dtype);
      produced.push_back(builder.add_output(first_output + static_cast<int>(r), chunk, bytes));
    }
    builder.add_compute(number, chunk, {builder.progress(chunk), kFinalize}, {finalize->scratch_bytes(chunk), 0},
                        {builder.block(builder.key(kLeaf, chunk))}, produced);
  }
}

void lower_work(Builder& builder, const plan::Fused& fused) {
  const plan::Stage& stage = builder.stage();
  const int rank = builder.context().rank;
  const auto [number, body] =
      builder.add_body<FusedBody>(stage, rank, builder.context().owners, builder.device(), builder.copy_rules().room);
  const int outputs = static_cast<int>(fused.program.outputs().size());
  const OwnedChunks own = builder.owned();
  std::optional<Reductions> reductions;
  const bool may_move = is_stealable(builder, *body);
  const bool folds = fused.per_chunk && !fused.reductions.empty();
  if (!fused.reductions.empty() && !folds) reductions.emplace(builder, *body).lower_shared(may_move);
  std::vector<BlockId> inputs, produced;
  Sizes sizes(*body, stage.grid);
  int32_t leaf = number;
  int32_t owned_read = -1;
  const ReadBody* reader = nullptr;  // of owned_read
  const int64_t shared = reductions ? reductions->shared_leaves() : 0;
  const bool movable = shared == 0 && may_move;
  if (movable) {
    Service* const service = builder.context().service;
    leaf = builder.add_body<StealableBody>(*body, builder.key(kLeaf, 0), service, rank).first;
    const plan::Input& file = fused.inputs[static_cast<size_t>(body->file_input())];
    if (body->streamed() < 0) {
      const LoweringContext& context = builder.context();
      const auto [read, read_body] = builder.add_body<StealableReadBody>(*body, file, builder.key(0, 0).stage, service,
                                                                         context.executor, context.decoding, rank);
      owned_read = read;
      reader = &read_body->reader();
    }
    if (service != nullptr) {
      const int64_t first = own.size() > 0 ? own[0] : 0;
      service->stealing().make_stealable(builder.key(kLeaf | kStolen, 0), first, first + own.size());
    }
  }
  const bool all_shared = shared == own.size();
  const bool has_states = reductions && builder.context().states != nullptr;
  for (const int64_t chunk : all_shared ? OwnedChunks(0, 0) : own) {
    if (shared > 0 && reductions->shares(chunk)) continue;
    if (has_states && outputs == 0 && reductions->restores_leaf(chunk)) continue;
    inputs.clear();
    produced.clear();
    int64_t traffic = 0;
    const std::optional<FusedBody::Cells> in_place = body->cells(chunk);
    if (in_place) {
      builder.result().grouped = true;
      for (const FusedBody::Cells::Chunk& read : in_place->chunks)
        inputs.push_back(*builder.whole_chunk(fused.inputs[static_cast<size_t>(read.input)], read.chunk));
    }
    for (const Region& part : body->splits() && !in_place ? body->parts(chunk) : std::vector<Region>()) {
      for (size_t i = 0; i < fused.inputs.size(); ++i)
        inputs.push_back(builder.prefetch_shared(fused.inputs[i], body->access(static_cast<int>(i), part)));
    }
    for (size_t i = 0; i < fused.inputs.size() && !body->splits(); ++i) {
      const plan::Input& input = fused.inputs[i];
      if (!fused.arrives(i)) continue;
      if (static_cast<int>(i) == body->streamed()) {
        traffic += body->input_region(static_cast<int>(i), chunk).elements() * local::itemsize(input.dtype);
        builder.result().read_bytes += traffic;
        continue;
      }
      if (owned_read >= 0 && static_cast<int>(i) == body->file_input()) {
        const ReadBody::Box box{body->input_region(static_cast<int>(i), chunk)};
        inputs.push_back(builder.prefetch_by(owned_read, chunk, box.elements() * local::itemsize(input.dtype),
                                             reader->scratch_bytes(box, builder.device())));
        builder.note_staging(
            [&](int64_t host_bytes) { return reader->staging_bytes(box, builder.device(), host_bytes); });
        continue;
      }
      inputs.push_back(prefetch(builder, *body, input, static_cast<int>(i), chunk));
    }
    for (const ChunkMaker& maker : body->makers()) prefetch_chunk(builder, maker, chunk, inputs);
    const int64_t elements = stage.grid.chunk_elements(chunk);
    for (int o = 0; o < outputs; ++o) {
      const local::DType dtype = fused.program.dtype(fused.program.outputs()[static_cast<size_t>(o)]);
      produced.push_back(builder.add_output(o, chunk, elements * local::itemsize(dtype)));
    }
    if (!fused.reductions.empty())
      produced.push_back(builder.add_block(builder.key(kLeaf, chunk), sizes.state_bytes(chunk)));
    const int64_t scratch = in_place ? sizes.scratch_bytes(chunk, *in_place) : sizes.scratch_bytes(chunk);
    builder.add_compute(leaf, chunk, {builder.progress(chunk), kMain}, {scratch, traffic}, inputs, produced);
    if (has_states) reductions->save_leaf(chunk);
  }
  if (movable) lower_stealing(builder, *body);
  if (reductions) reductions->lower();
  if (folds) lower_folds(builder, *body);
}

}  // namespace quarry::exec
