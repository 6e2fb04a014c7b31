// c = a b over tiles. A tile's sum over k runs along the fixed tree (tree.h) over the chunks of k: segments in order of
// k, kProductsPerTask products a task, then pairs. 2 m k n flops; a is read once per column of tiles, b once per row of
// tiles. With few tiles the work is spread along k, to where b's rows are, and partial sums travel (one tile per node
// of the tree); with many, to the owners of the tiles, and operands travel. A SYRK computes the tiles on and above the
// diagonal and transposes them for those below.
//
// The tree is walked depth-first: a pair of this rank's sums is added as soon as both are there, so that a tile has no
// more than levels + 1 of them at a time, seven; sums of several ranks are added at the end. The tasks of a stage have
// one depth in the order (order.h): what has the same progress runs in the order of the walk, which is the same on
// every rank. Where this rank's sums fit the budget, tasks run as their operands come, so that these need not stay;
// else tile by tile, so that sums are never spilled and operands make way for each other.
//
// Many ranks have tiles of one row, and read the same chunks of a; so have those of a column, of b. In jobs of more
// than a few ranks they pass them on (ADR 48), in the order of their first tiles there. Tasks are then placed by the
// number of their tile, so that what a rank waits for another one receives for a tile with a smaller number.
#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "quarry/chunked/exec/bodies/copy.h"
#include "quarry/chunked/exec/bodies/matmul.h"
#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/chunked/exec/lowering/values.h"
#include "quarry/chunked/grid/tree.h"
#include "quarry/chunked/plan/grids.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {
namespace {

using scheduler::BlockId;

// The chunks of k: those of b's row axis, or of a's column axis, where a whole axis of the array is mapped.
AxisChunks product_steps(const plan::MatMul& product) {
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
  Region a_box(int64_t tile, int64_t k) const { return box(tile, k, n_ - 1); }
  Region b_box(int64_t tile, int64_t k) const { return box(tile, k, n_ - 2); }

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
  // The tile's box with chunk `k` of the products along `axis`.
  Region box(int64_t tile, int64_t k, int axis) const {
    Region box = tiles_.chunk(tile);
    box.start[axis] = steps_.start(k);
    box.count[axis] = steps_.size(k);
    return box;
  }
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
    const OwnedChunks own = builder_.owned();
    int64_t left = own.size();
    for (const int64_t tile : along_k_ ? OwnedChunks(0, tiles_.count()) : own) {
      if (mirrored(tile)) continue;
      if (passes_on_) walked_ = builder_.progress(tile);
      add_tile(tile);
      if (!streams_) end_tile(tile, left--);
    }
    for (const int64_t tile : own) add_result(tile);
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
    for (const int64_t tile : builder_.owned()) sums += static_cast<double>(bytes(tile));
    return budget == 0 || sums * (tree_.levels() + 1) / 2 <= static_cast<double>(budget) / 2;
  }

  // The next tile's tasks, of which there are `left` tiles with this one, come behind this tile's, and behind what
  // writes it.
  void end_tile(int64_t tile, int64_t left) {
    if (!product_.syrk) builder_.note_complete(tile, walked_);
    walked_ += (kProgressEnd - walked_) / (left + 1);
  }

  // --- operands that ranks pass on ---

  // The same on every rank. Not where operands come in this phase, with a progress of their own, nor where a rank may
  // find that its tiles are saved.
  bool has_relays() const {
    return builder_.has_relays() && !along_k_ && !product_.syrk && tiles_.ndim() == 2 && !values_.is_on() &&
           !builder_.waits_for(product_.a) && !builder_.waits_for(product_.b);
  }
  // The ranks that have tiles of row, or column, `at`, in the order of their first ones.
  const std::vector<int>& readers(int axis, int64_t at) {
    std::vector<int>& ranks = readers_[static_cast<size_t>(axis)][at];
    if (!ranks.empty()) return ranks;
    std::unordered_set<int> seen;
    for (int64_t other = 0; other < tiles_.axis(1 - axis).count(); ++other) {
      const int owner = tile_owner(tiles_.flat(axis == 0 ? Dims{at, other} : Dims{other, at}));
      if (seen.insert(owner).second) ranks.push_back(owner);
    }
    return ranks;
  }
  // What a task of the tile reads of an operand, which all tiles of its row (axis 0) or column have in common.
  BlockId bring(const plan::Input& input, const Access& access, int64_t tile, int axis) {
    const bool is_chunk = access.kind != Access::Kind::gather && access.cover_count == access.chunk_shape;
    if (!passes_on_ || !is_chunk || builder_.mine(access.owner)) return builder_.prefetch(input, access);
    std::vector<int> chain{access.owner};
    std::ranges::copy_if(readers(axis, tiles_.coordinates(tile)[axis]), std::back_inserter(chain),
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

  // The rank that sums a segment of a tile's k.
  int home(int64_t tile, int64_t segment) const { return along_k_ ? home_along_k(tile, segment) : tile_owner(tile); }
  // That of b's rows.
  int home_along_k(int64_t tile, int64_t segment) const {
    const int64_t k = tree_.first(segment);
    const plan::Input& b = product_.b;
    const Region region = b.map.region(operands_->b_box(tile, k), b.shape.size());
    const Owners& owners = owners_of(b.array);
    const bool everywhere = owners.kind == Owners::Kind::everywhere;
    if (everywhere || region.elements() == 0) return builder_.context().owners.owner(k, operands_->steps().count());
    Dims coordinates = Dims::filled(region.ndim());
    for (int d = 0; d < region.ndim(); ++d) coordinates[d] = b.grid.axis(d).find(region.start[d]);
    return builder_.owner(owners, b.grid, b.grid.flat(coordinates));
  }

  // Whether the products are summed where b's rows are, and not by the owners of the tiles: that is for few tiles,
  // unless their owners are as many ranks as the rows', and then where that sends less.
  bool sums_along_k() const {
    const Ownership& job = builder_.context().owners;
    const int64_t tiles = tiles_.count();
    if (tiles >= 2 * job.ranks()) return false;
    if (tiles == 0 || tiles_.ndim() != 2) return true;
    std::set<int> homes;
    for (int64_t segment = 0; segment < tree_.segments(); ++segment) homes.insert(home_along_k(0, segment));
    const auto at_rows = std::ssize(homes);
    const auto matrix = static_cast<double>(local::element_count(tiles_.shape()));
    const double k = static_cast<double>(operands_->steps().extent());
    const double a = static_cast<double>(tiles_.shape()[0]) * k, b = static_cast<double>(tiles_.shape()[1]) * k;
    const double of_sums = static_cast<double>(at_rows - 1) * matrix + (product_.syrk ? 0 : a);
    // Those of one rank stand for all.
    std::set<int64_t> rows, columns;
    for (const int64_t tile : job.owned(stage_.owners, tiles_, tile_owner(tiles / 2))) {
      const Dims at = tiles_.coordinates(tile);
      rows.insert(at[0]);
      columns.insert(at[1]);
    }
    const auto at_tiles = static_cast<double>(std::min<int64_t>(tiles, job.ranks()));
    const double part_of_a = static_cast<double>(rows.size()) / static_cast<double>(tiles_.axis(0).count());
    const double part_of_b = static_cast<double>(columns.size()) / static_cast<double>(tiles_.axis(1).count());
    const double of_operands = at_tiles * (part_of_a * a + part_of_b * b);
    return at_tiles < static_cast<double>(at_rows) || of_sums < of_operands;
  }

  BlockKey node_key(int64_t tile, int level, int64_t node) const {
    return builder_.key(level > 0 ? kTree + static_cast<uint32_t>(level) : kSegment, tile * kSegments + node);
  }

  // The sum at a node of the tree, here.
  BlockId partial(int64_t tile, int level, int64_t node, bool keep = false) {
    std::tie(level, node) = tree_.solid(level, node);
    const int from = home(tile, node << level);
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
    const bool is_total = values_.is_on() && !saves_segments() && builder_.mine(home(tile, node << level));
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
    if (level == 0) return builder_.mine(home(tile, node)) ? multiply_segment(tile, node) : kProgressEnd;
    const int64_t left = add_sums(tile, level - 1, 2 * node), right = add_sums(tile, level - 1, 2 * node + 1);
    const int64_t latest = std::max(left, right);
    if (!builder_.mine(home(tile, node << level))) return kProgressEnd;
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
        if (!task.a.empty()) inputs.push_back(bring(product_.syrk ? product_.b : product_.a, task.a[i], tile, 0));
        inputs.push_back(bring(product_.b, task.b[i], tile, 1));
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
  const Tree tree_{operands_->steps().count()};
  const bool along_k_ = sums_along_k();
  SavedValues values_{builder_};
  const bool passes_on_ = has_relays();
  const bool streams_ = along_k_ || (!passes_on_ && sums_fit());
  std::unordered_map<int64_t, std::vector<int>> readers_[2];  // by row, and by column
  int64_t walked_ = 0;                                        // the progress of the last product
  std::shared_ptr<std::vector<Work>> works_ = std::make_shared<std::vector<Work>>();
  int32_t multiply_ = -1, sum_ = -1, mirror_ = -1;
  MatMulBody* multiply_body_ = nullptr;
  SumBody* sum_body_ = nullptr;
};

}  // namespace

void lower_work(Builder& builder, const plan::MatMul& /*product*/) { MatMulLowering(builder).lower(); }

}  // namespace quarry::exec
