// c = a b over tiles. A tile's sum over k runs along the fixed tree (tree.h) over the chunks of k: segments in order of
// k, kProductsPerTask products a task, then pairs. 2 m k n flops; a is read once per column of tiles, b once per row of
// tiles. Which rank sums what, and so what travels, operands or sums: product_places.h. A SYRK computes
// the tiles on and above the diagonal and transposes them for those below.
//
// The tree is walked depth-first: a pair of this rank's sums is added as soon as both are there, so that a tile has no
// more than levels + 1 of them at a time, seven; sums of several ranks are added at the end. The tasks of a stage have
// one depth in the order (order.h): what has the same progress runs in the order of the walk, which is the same on
// every rank. Where this rank's sums fit the budget, tasks run as their operands come, so that these need not stay;
// else tile by tile, in bands, so that sums are never spilled and operands make way for each other.
//
// Many ranks have tiles of one row, and read the same chunks of a; so have those of a column, of b. In jobs of more
// than a few ranks they pass them on (ADR 48), in the order of their first tiles there. Tasks are then placed by the
// number of their tile, so that what a rank waits for another one receives for a tile with a smaller number.
#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_set>

#include "quarry/chunked/exec/bodies/copy.h"
#include "quarry/chunked/exec/bodies/matmul.h"
#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/chunked/exec/lowering/values.h"
#include "quarry/chunked/exec/product_places.h"
#include "quarry/chunked/grid/tree.h"
#include "quarry/chunked/plan/grids.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {
namespace {

using scheduler::BlockId;

// What a task multiplies: a closed form that the task's body evaluates again when it runs.
class Operands {
 public:
  Operands(const plan::Stage& stage, const LoweringContext& context)
      : tiles_(stage.outputs[0].grid),
        product_(std::get<plan::MatMul>(stage.work)),
        dtype_(stage.outputs[0].dtype),
        steps_(product_steps(product_)),
        n_(tiles_.ndim()),
        rank_(context.rank),
        owners_(context.owners) {}

  const AxisChunks& steps() const { return steps_; }
  Region a_box(int64_t tile, int64_t k) const { return product_box(tiles_, steps_, tile, k, n_ - 1); }
  Region b_box(int64_t tile, int64_t k) const { return product_box(tiles_, steps_, tile, k, n_ - 2); }

  // Chunks [first_k, first_k + count) of k for one tile.
  MatMulBody::Operands of(int64_t tile, int64_t first_k, int64_t count, bool first) const {
    MatMulBody::Operands result{first, tiles_.chunk_shape(tile), {}, {}, {}, {}, {}};
    const Dims at = tiles_.coordinates(tile);
    for (int64_t k = first_k; k < first_k + count; ++k) {
      result.k.push_back(steps_.size(k));
      result.b.push_back(find(product_.b, b_box(tile, k)));
      result.b_strides.push_back(space_strides(product_.b.map, result.b.back().strides));
      if (!product_.syrk) {
        result.a.push_back(find(product_.a, a_box(tile, k)));
        result.a_strides.push_back(space_strides(product_.a.map, result.a.back().strides));
      } else if (at[0] != at[1]) {  // the columns of b that are this tile's rows, transposed
        Region box = b_box(tile, k);
        const Region rows = tiles_.chunk(tile);
        box.start[n_ - 1] = rows.start[n_ - 2];
        box.count[n_ - 1] = rows.count[n_ - 2];
        result.a.push_back(find(product_.b, box));
        Dims strides = space_strides(product_.b.map, result.a.back().strides);
        std::swap(strides[n_ - 2], strides[n_ - 1]);
        result.a_strides.push_back(std::move(strides));
        result.conjugate_a = local::is_complex(dtype_);
      }
    }
    return result;
  }

 private:
  Access find(const plan::Input& input, const Region& box) const {
    return resolve(input.array, input.grid, local::itemsize(input.dtype), input.map.region(box, input.shape.size()),
                   rank_, owners_);
  }

  const Grid& tiles_;
  const plan::MatMul& product_;
  local::DType dtype_;
  AxisChunks steps_;
  int n_, rank_;
  Ownership owners_;
};

class MatMulLowering {
 public:
  explicit MatMulLowering(Builder& builder)
      : builder_(builder), operands_(std::make_shared<Operands>(stage_, builder.context())) {
    QUARRY_CHECK(!product_.syrk || tiles_.ndim() == 2);
    QUARRY_CHECK(product_.b.array.kind != plan::ArrayRef::Kind::dataset &&
                 (product_.syrk || product_.a.array.kind != plan::ArrayRef::Kind::dataset));
    auto operands = [works = works_, operands = operands_](int64_t index) {
      const Work& work = (*works)[static_cast<size_t>(index)];
      return operands->of(work.tile, work.k, work.count, work.first);
    };
    std::tie(multiply_, multiply_body_) =
        builder.add_body<MatMulBody>(stage_.label, dtype_, product_.precision, builder.device(), operands);
    std::tie(sum_, sum_body_) = builder.add_body<SumBody>(stage_.label, dtype_);
  }

  void lower() {
    int64_t left = summed_.size();
    for (const int64_t tile : walk()) {
      if (mirrored(tile)) continue;
      if (passes_on_) walked_ = builder_.progress(tile);
      add_tile(tile);
      if (!streams_) end_tile(tile, left--);
    }
    for (const int64_t tile : builder_.owned()) add_result(tile);
  }

 private:
  // Task number i multiplies `count` chunks from chunk `k`, for a tile; `first`: there is no sum yet.
  struct Work {
    int64_t tile, k, count;
    bool first;
  };

  int64_t bytes(int64_t tile) const { return tiles_.chunk_elements(tile) * local::itemsize(dtype_); }
  int tile_owner(int64_t tile) const { return builder_.owner(stage_.owners, tiles_, tile); }

  // Whether all sums that this rank has at once, as operands come, take no more than half of the budget: as a rule half
  // of the sums on the way up the tree.
  bool sums_fit() const {
    const int64_t budget = builder_.context().memory_bytes;
    double sums = 0;
    for (const int64_t tile : summed_) sums += static_cast<double>(bytes(tile));
    return budget == 0 || sums * (tree_.levels() + 1) / 2 <= static_cast<double>(budget) / 2;
  }

  // Tile by tile, in bands of rows of tiles: their rows of a stay in memory while the columns of b pass by, which are
  // read once for each band. Or of columns, where that reads less.
  std::vector<int64_t> walk() const {
    constexpr int64_t kBandPart = 2;  // of the budget: beside a band are a line of the other operand, and sums
    std::vector<int64_t> order;
    std::vector<int64_t> lines[2];  // rows, and columns, that this rank has tiles of
    for (const int64_t tile : summed_) {
      order.push_back(tile);
      for (int axis = 0; tiles_.ndim() == 2 && axis < 2; ++axis) lines[axis].push_back(tiles_.coordinates(tile)[axis]);
    }
    const int64_t budget = builder_.context().memory_bytes;
    if (streams_ || passes_on_ || places_.are_split() || tiles_.ndim() != 2 || budget == 0 || order.empty())
      return order;
    int64_t together[2];
    double reads[2] = {};
    for (int axis = 0; axis < 2; ++axis) {
      std::ranges::sort(lines[axis]);
      lines[axis].erase(std::unique(lines[axis].begin(), lines[axis].end()), lines[axis].end());
    }
    for (int axis = 0; axis < 2; ++axis) {
      const auto bytes = [&](int of) {
        return tiles_.axis(of).largest() * operands_->steps().extent() * local::itemsize(dtype_);
      };
      const auto count = [&](int of) { return std::ssize(lines[of]); };
      together[axis] = std::clamp<int64_t>(budget / kBandPart / std::max<int64_t>(bytes(axis), 1), 1, count(axis));
      const int64_t bands = (count(axis) - 1) / together[axis] + 1;
      reads[axis] = static_cast<double>(count(axis)) * static_cast<double>(bytes(axis)) +
                    static_cast<double>(bands * count(1 - axis)) * static_cast<double>(bytes(1 - axis));
    }
    const int axis = reads[1] < reads[0] ? 1 : 0;
    std::ranges::sort(order, {}, [&](int64_t tile) {
      const Dims at = tiles_.coordinates(tile);
      const int64_t line = std::ranges::lower_bound(lines[axis], at[axis]) - lines[axis].begin();
      return std::tuple(line / together[axis], at[1 - axis], line);
    });
    return order;
  }

  // The next tile's tasks, of which there are `left` tiles with this one, come behind this tile's, and behind what
  // writes it.
  void end_tile(int64_t tile, int64_t left) {
    if (!product_.syrk && !places_.are_split()) builder_.note_complete(tile, walked_);
    walked_ += (kProgressEnd - walked_) / (left + 1);
  }

  // --- operands that ranks pass on ---

  // The same on every rank. Not where operands come in this phase, with a progress of their own, nor where a rank may
  // find that its tiles are saved.
  bool has_relays() const {
    return builder_.has_relays() && !places_.are_along_k() && !product_.syrk && tiles_.ndim() == 2 &&
           !values_.is_on() && !builder_.waits_for(product_.a) && !builder_.waits_for(product_.b);
  }
  // The ranks that sum the segment for tiles of the tile's row (axis 0) or column, in the order of their first ones.
  const std::vector<int>& readers(int axis, int64_t tile, int64_t segment) {
    const int64_t at = tiles_.coordinates(tile)[axis];
    std::vector<int>& ranks = readers_[static_cast<size_t>(axis)][{at, places_.layer(segment)}];
    if (!ranks.empty()) return ranks;
    std::unordered_set<int> seen;
    for (int64_t other = 0; other < tiles_.axis(1 - axis).count(); ++other) {
      const int rank = places_.home(tiles_.flat(axis == 0 ? Dims{at, other} : Dims{other, at}), 0, segment);
      if (seen.insert(rank).second) ranks.push_back(rank);
    }
    return ranks;
  }
  // What a task of the tile and segment reads of an operand, which all tiles of its row (axis 0) or column have in
  // common.
  BlockId bring(const plan::Input& input, const Access& access, int64_t tile, int64_t segment, int axis) {
    const bool is_chunk = access.kind != Access::Kind::gather && access.cover_count == access.chunk_shape;
    if (!passes_on_ || !is_chunk || builder_.mine(access.owner)) return builder_.prefetch(input, access);
    std::vector<int> chain{access.owner};
    std::ranges::copy_if(readers(axis, tile, segment), std::back_inserter(chain),
                         [&](int rank) { return rank != access.owner; });
    const auto number = static_cast<size_t>(std::ranges::find(chain, builder_.context().rank) - chain.begin());
    QUARRY_CHECK(number < chain.size());
    const BlockId block =
        builder_.prefetch_from(chain[Builder::relay_source(number)], input, access, {walked_, kChain});
    if (2 * number + 1 < chain.size()) builder_.name_block(builder_.key_of(input.array, access.chunk), block);
    return block;
  }

  // Below the diagonal of a SYRK.
  bool mirrored(int64_t tile) const {
    const Dims at = tiles_.coordinates(tile);
    return product_.syrk && at[0] > at[1];
  }

  BlockKey node_key(int64_t tile, int level, int64_t node) const {
    return builder_.key(level > 0 ? kTree + static_cast<uint32_t>(level) : kSegment, tile * kSegments + node);
  }

  // The sum at a node of the tree, here.
  BlockId partial(int64_t tile, int level, int64_t node, bool keep = false) {
    std::tie(level, node) = tree_.solid(level, node);
    const int from = places_.home(tile, level, node);
    const BlockKey key = node_key(tile, level, node);
    return builder_.mine(from) ? builder_.block(key)
                               : builder_.receive_whole(from, key, bytes(tile), stage_.label, keep);
  }

  // The block of a node; the root on its owner is the result.
  BlockId add_node(int64_t tile, int level, int64_t node) {
    const bool root = tree_.solid(tree_.levels(), 0) == std::pair(level, node) && builder_.mine(tile_owner(tile));
    return builder_.add_block(node_key(tile, level, node), bytes(tile), keep_ && root);
  }

  // The sums of segments are saved where they are small against what is multiplied, else those of tiles alone.
  bool saves_segments() const {
    constexpr int64_t kReadPerSum = 8;
    const double sums =
        static_cast<double>(local::element_count(tiles_.shape())) * static_cast<double>(tree_.segments());
    double read = 0;
    for (const plan::Input* input : stage_.reads()) read += static_cast<double>(local::element_count(input->shape));
    return read >= kReadPerSum * sums;
  }
  static int64_t index_of_total(int64_t tile) { return -1 - tile; }
  void add_tile(int64_t tile) {
    const auto [level, node] = tree_.solid(tree_.levels(), 0);
    const bool is_total = values_.is_on() && !saves_segments() && builder_.mine(places_.home(tile, level, node));
    if (is_total) {
      const bool keep = keep_ && builder_.mine(tile_owner(tile));
      if (const auto block = values_.restore(index_of_total(tile), bytes(tile), {kProgressEnd, kChain}, keep)) {
        builder_.name_block(node_key(tile, level, node), *block);
        return;
      }
    }
    const int64_t latest = add_sums(tile, tree_.levels(), 0);
    if (is_total)
      values_.save(index_of_total(tile), bytes(tile), {latest, kChain}, builder_.block(node_key(tile, level, node)));
  }

  // What this rank sums at a node and below it. Returns the latest progress of what it reads for that, or the end where
  // other ranks sum a part.
  int64_t add_sums(int64_t tile, int level, int64_t node) {
    std::tie(level, node) = tree_.solid(level, node);
    const bool mine = builder_.mine(places_.home(tile, level, node));
    if (level == 0) return mine ? multiply_segment(tile, node) : kProgressEnd;
    const int64_t left = add_sums(tile, level - 1, 2 * node), right = add_sums(tile, level - 1, 2 * node + 1);
    const int64_t latest = std::max(left, right);
    if (!mine) return kProgressEnd;
    const std::vector<BlockId> inputs{partial(tile, level - 1, 2 * node), partial(tile, level - 1, 2 * node + 1)};
    const BlockId total = add_node(tile, level, node);
    builder_.add_compute(sum_, tile, {latest, kChain}, {sum_body_->scratch_bytes(bytes(tile), builder_.device()), 0},
                         inputs, {total});
    return latest;
  }

  // Returns the latest progress of what is read for it.
  int64_t multiply_segment(int64_t tile, int64_t segment) {
    const int64_t end = tree_.end_leaf(0, segment);
    const bool is_saved = values_.is_on() && saves_segments();
    if (is_saved) {
      const bool is_total = tree_.solid(tree_.levels(), 0) == std::pair(0, segment) && builder_.mine(tile_owner(tile));
      if (const auto block =
              values_.restore(tile * kSegments + segment, bytes(tile), {kProgressEnd, kChain}, keep_ && is_total)) {
        builder_.name_block(node_key(tile, 0, segment), *block);
        return kProgressEnd;
      }
    }
    BlockId total = -1;
    int64_t latest = 0;
    for (int64_t k = tree_.first(segment); k < end;) {
      const int64_t count = std::min(plan::kProductsPerTask, end - k);
      works_->push_back({tile, k, count, total < 0});
      const MatMulBody::Operands task = operands_->of(tile, k, count, total < 0);
      if (!streams_) latest = walked_;
      for (const int64_t last = k + count; k < last; ++k) {
        latest = std::max(latest, builder_.latest(product_.b, operands_->b_box(tile, k)));
        if (!product_.syrk) latest = std::max(latest, builder_.latest(product_.a, operands_->a_box(tile, k)));
      }
      walked_ = latest;
      std::vector<BlockId> inputs;
      if (total >= 0) inputs.push_back(total);
      for (size_t i = 0; i < task.k.size(); ++i) {
        if (!task.a.empty())
          inputs.push_back(bring(product_.syrk ? product_.b : product_.a, task.a[i], tile, segment, 0));
        inputs.push_back(bring(product_.b, task.b[i], tile, segment, 1));
      }
      total = k == end ? add_node(tile, 0, segment) : builder_.add_block(bytes(tile));
      builder_.add_compute(multiply_, static_cast<int64_t>(works_->size()) - 1, {latest, kChain},
                           {multiply_body_->scratch_bytes(task), 0}, inputs, {total});
    }
    if (is_saved) values_.save(tile * kSegments + segment, bytes(tile), {latest, kChain}, total);
    return latest;
  }

  // A tile of the result, on its owner.
  void add_result(int64_t tile) {
    if (!mirrored(tile)) {
      builder_.name_block(builder_.key(0, tile), partial(tile, tree_.levels(), 0, keep_));
      return;
    }
    auto segments = [&tiles = tiles_, dtype = dtype_](int64_t t) {
      const Dims count = tiles.chunk_shape(t);
      const int64_t itemsize = local::itemsize(dtype);
      CopySegment segment{{}, count, Dims{itemsize, count[0] * itemsize}, local::contiguous_strides(count, itemsize),
                          0,  dtype};
      segment.conjugate = local::is_complex(dtype);
      return std::vector<CopySegment>{segment};
    };
    if (mirror_ < 0) mirror_ = builder_.add_body<CopyBody>(stage_.label, segments).first;
    const Dims at = tiles_.coordinates(tile);
    const BlockId above = partial(tiles_.flat(Dims{at[1], at[0]}), tree_.levels(), 0);
    const BlockId output = builder_.add_output(0, tile, bytes(tile));
    builder_.add_compute(mirror_, tile, {kProgressEnd, kFinalize},
                         {CopyBody::scratch_bytes(segments(tile), builder_.device()), 0}, {above}, {output},
                         scheduler::TaskKind::copy);
  }

  Builder& builder_;
  const plan::Stage& stage_ = builder_.stage();
  const plan::MatMul& product_ = std::get<plan::MatMul>(stage_.work);
  const Grid& tiles_ = stage_.outputs[0].grid;
  const local::DType dtype_ = stage_.outputs[0].dtype;
  const bool keep_ = builder_.kept(0);
  std::shared_ptr<const Operands> operands_;  // with the body
  const ProductPlaces places_{stage_, builder_.context().owners, product_.ranks};
  const Tree& tree_ = places_.tree();
  const OwnedChunks summed_ = places_.tiles_of(builder_.context().rank);
  SavedValues values_{builder_};
  const bool passes_on_ = has_relays();
  const bool streams_ = places_.are_along_k() || (!passes_on_ && sums_fit());
  std::map<std::pair<int64_t, int>, std::vector<int>> readers_[2];  // by row, and by column, with the layer
  int64_t walked_ = 0;                                              // the progress of the last product
  std::shared_ptr<std::vector<Work>> works_ = std::make_shared<std::vector<Work>>();
  int32_t multiply_ = -1, sum_ = -1, mirror_ = -1;
  MatMulBody* multiply_body_ = nullptr;
  SumBody* sum_body_ = nullptr;
};

}  // namespace

void lower_work(Builder& builder, const plan::MatMul& /*product*/) { MatMulLowering(builder).lower(); }

}  // namespace quarry::exec
