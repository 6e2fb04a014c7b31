// A tile program's loop runs on every rank. Per tile the rank keeps the number of the tile's last version and where it
// is: a task of another rank costs a look at these, an own one becomes a task of the graph. A version that another rank
// reads gets a key, and that rank receives it under this key; so both know of it by the loop alone.
//
// In jobs of more than a few ranks those that read a version pass it on (ADR 48): number i of its readers, from 1 on in
// the order in which the loop comes to them, has it from number (i - 1) / 2, where 0 is the owner. So no rank sends a
// version to more than two, and what a rank waits for another one receives for a task with a smaller number.
//
// The progress of a task is its number among the tasks of all ranks: what it reads precedes it on every rank, so the
// order is one without cycles (ADR 2). Arguments that other stages compute are finished in an earlier phase.
//
// A tile is updated in its own memory where nothing else reads the version before: every reader of that precedes the
// update in the loop, so it is known here. Else, and where it is an argument's, the task begins with a copy.
//
// Saved states (chunked/exec/saved_states.h): at a step each rank saves the last versions of its tiles, which are
// enough for all tasks behind it. A run that goes on passes by the tasks whose versions are no later than the saved
// ones, and reads a saved tile where it is first used. Versions of a tile follow each other in the same way in any
// order of the loop, so the order, which depends on the job's memory, may be another one; what has been passed by at a
// step and what was saved before it together are again a state.
#include "quarry/chunked/exec/lowering/tiles.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>

#include "quarry/chunked/exec/bodies/arguments.h"
#include "quarry/chunked/exec/bodies/scratch_pool.h"
#include "quarry/chunked/exec/bodies/state.h"
#include "quarry/chunked/op/trial.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {
namespace {

using scheduler::BlockId;
using tiles::Tile;
using tiles::TileKernel;
using tiles::Tiles;
using tiles::Use;
using Mode = Use::Mode;

// Parts of keys of versions: one for each matrix of the program.
constexpr uint32_t kVersions = 5U << 16;

// A matrix of the program, as its tasks need it when they run.
struct Matrix {
  Grid grid;
  local::DType dtype;
  int argument = -1;  // of which its tiles are, or as which they begin
  int64_t tile_bytes(int64_t index) const { return grid.chunk_elements(index) * local::itemsize(dtype); }
};

// A use when its task runs.
struct Placed {
  int32_t matrix;
  Mode mode;
  bool is_argument;  // what is read, or what an update begins as, is an argument's
  int64_t index;     // of the tile
};

// The tasks of one kernel.
class TileBody final : public scheduler::TaskBody {
 public:
  TileBody(const plan::Applied& stage, const std::string& label, const LoweringContext& context,
           std::shared_ptr<const std::vector<Matrix>> matrices, const TileKernel& kernel)
      : stage_(stage),
        label_(label),
        rank_(context.rank),
        owners_(context.owners),
        matrices_(std::move(matrices)),
        kernel_(kernel) {}

  int64_t add(std::vector<Placed> uses, const tiles::Parameters& parameters, int64_t scratch_bytes) {
    works_.push_back({std::move(uses), parameters, scratch_bytes});
    return static_cast<int64_t>(works_.size()) - 1;
  }
  std::string name(int64_t index) const override {
    const std::vector<Placed>& uses = works_[static_cast<size_t>(index)].uses;
    if (uses.empty()) return fmt::format("{} in {}", kernel_.name, label_);
    const Placed& first = uses[0];
    const Dims at = matrix_of(first).grid.coordinates(first.index);
    return fmt::format("{} of tile {} in {}", kernel_.name, local::to_string(at), label_);
  }

  Operations operations(int64_t index) const override {
    const Work& work = works_[static_cast<size_t>(index)];
    std::vector<Dims> shapes;
    for (const Placed& use : work.uses) shapes.push_back(matrix_of(use).grid.chunk_shape(use.index));
    if (kernel_.flops == nullptr || shapes.empty()) return {};
    return {kernel_.name, tiles::flops_of(kernel_, shapes, work.parameters, matrix_of(work.uses[0]).dtype)};
  }

  void run(scheduler::TaskRun& run) override {
    const Work& work = works_[static_cast<size_t>(run.index)];
    ScratchPool scratch(run.context, work.scratch_bytes);
    const local::ExecContext context = scratch.context();
    const local::DeviceScope scope(context);
    // Blocks are those of updates first, then those of reads and writes (TileLowering::add).
    size_t updates = 0, reads = 0, writes = 0;
    for (const Placed& use : work.uses) reads += use.mode == Mode::update ? 1 : 0;
    writes = reads;
    std::vector<local::NdArray> tiles;
    for (const Placed& use : work.uses) {
      switch (use.mode) {
        case Mode::read:
          tiles.push_back(read_array(use, run.inputs[reads++], context));
          break;
        case Mode::write:
          tiles.push_back(written_array(use, run.outputs[writes++], context));
          break;
        case Mode::update: {
          const scheduler::BlockView& before = run.inputs[updates];
          const scheduler::BlockView& after = run.outputs[updates++];
          tiles.push_back(written_array(use, after, context));
          if (before.data != after.data) tiles.back().assign(read_array(use, before, context), context);
          break;
        }
      }
    }
    kernel_.run(tiles, work.parameters);
  }

 private:
  struct Work {
    std::vector<Placed> uses;
    tiles::Parameters parameters;
    int64_t scratch_bytes;
  };

  const Matrix& matrix_of(const Placed& use) const { return (*matrices_)[static_cast<size_t>(use.matrix)]; }
  local::NdArray written_array(const Placed& use, const scheduler::BlockView& block,
                               const local::ExecContext& context) const {
    const Matrix& matrix = matrix_of(use);
    return result_array(matrix.grid.chunk_shape(use.index), matrix.dtype, block, context);
  }
  local::NdArray read_array(const Placed& use, const scheduler::BlockView& block,
                            const local::ExecContext& context) const {
    const Matrix& matrix = matrix_of(use);
    if (!use.is_argument) return written_array(use, block, context).as_read_only();
    const op::Need need{matrix.argument, matrix.grid.chunk(use.index)};
    return argument_array(stage_, need, access_of(stage_, need, rank_, owners_), block, context);
  }

  const plan::Applied& stage_;
  const std::string& label_;
  const int rank_;
  const Ownership owners_;
  const std::shared_ptr<const std::vector<Matrix>> matrices_;
  const TileKernel& kernel_;
  std::vector<Work> works_;
};

// The tasks between which a tile is needed, by number.
struct Life {
  int64_t last_use = -1, last_change = -1;
  int64_t last_read = -1;  // by a task
};

// Counts the tasks of a loop and, where asked, finds how long its tiles are needed.
class Survey final : public tiles::Program {
 public:
  Survey(const op::Call& call, bool with_lives) : call_(call), with_lives_(with_lives) {}
  int64_t count() const { return count_; }
  // Per matrix and tile; empty where not asked for.
  std::vector<std::vector<Life>> take_lives() { return std::move(lives_); }

  Tiles argument(int number) override { return of(call_.arguments[static_cast<size_t>(number)], -1); }
  Tiles result(int output) override { return of(call_.outputs[static_cast<size_t>(output)], INT64_MAX); }
  Tiles result_from(int output, int /*argument*/) override { return result(output); }
  Tiles workspace(const op::ArraySpec& spec) override { return of(spec, -1); }
  Tiles workspace_from(int number) override { return argument(number); }
  using Program::task;
  void task(const TileKernel&, std::span<const Use> uses, tiles::Parameters, tiles::Urgency) override {
    for (const Use& use : uses) {
      if (!with_lives_) break;
      const auto matrix = static_cast<size_t>(use.tile.matrix);
      Life& life = lives_[matrix][static_cast<size_t>(use.tile.row * columns_[matrix] + use.tile.column)];
      life.last_use = std::max(life.last_use, count_);
      if (use.mode != Mode::read) life.last_change = count_;
      if (use.mode != Mode::write) life.last_read = count_;
    }
    ++count_;
  }

 private:
  Tiles of(const op::ArraySpec& spec, int64_t last_use) {
    const Dims counts = spec.grid.counts();
    if (with_lives_) {
      lives_.emplace_back(static_cast<size_t>(spec.grid.count()), Life{last_use});
      columns_.push_back(counts[1]);
    }
    return {matrices_++, counts[0], counts[1]};
  }
  const op::Call& call_;
  const bool with_lives_;
  int matrices_ = 0;
  int64_t count_ = 0;
  std::vector<std::vector<Life>> lives_;
  std::vector<int64_t> columns_;
};

class TileLowering final : public tiles::Program {
 public:
  TileLowering(Builder& builder, const plan::Applied& applied, Survey survey)
      : builder_(builder),
        applied_(applied),
        stage_(builder.stage()),
        number_of_stage_(static_cast<int>(builder.key(0, 0).stage)),
        count_(std::max<int64_t>(survey.count(), 1)),
        lives_(survey.take_lives()) {
    for (size_t i = 0; i < applied.inputs.size(); ++i) are_chunks_.push_back(has_chunks_for_tiles(i));
  }

  Tiles argument(int number) override {
    const op::ArraySpec& spec = applied_.call.arguments[static_cast<size_t>(number)];
    const plan::Input& input = applied_.inputs[static_cast<size_t>(number)];
    const Tiles tiles = add_matrix(spec, number, -1);
    // Where its chunks are, if they are tiles.
    const bool is_aligned = input.array.kind != plan::ArrayRef::Kind::dataset && input.grid == spec.grid &&
                            owners_of(input.array).kind != Owners::Kind::everywhere;
    const Owners owners = is_aligned ? owners_of(input.array) : Owners::blocks();
    for (int64_t i = 0; i < spec.grid.count(); ++i)
      states_.back()[static_cast<size_t>(i)].owner = builder_.owner(owners, spec.grid, i);
    return tiles;
  }
  Tiles result(int output) override {
    return add_matrix(applied_.call.outputs[static_cast<size_t>(output)], -1, output);
  }
  Tiles result_from(int output, int argument) override {
    return add_matrix(applied_.call.outputs[static_cast<size_t>(output)], argument, output);
  }
  Tiles workspace(const op::ArraySpec& spec) override { return add_matrix(spec, -1, -1); }
  Tiles workspace_from(int argument) override {
    const op::ArraySpec& spec = applied_.call.arguments[static_cast<size_t>(argument)];
    const Tiles tiles = add_matrix(spec, argument, -1);
    const Owners owners = builder_.context().owners.settled(Owners::cyclic(0, 0), spec.grid);
    for (int64_t i = 0; i < spec.grid.count(); ++i)
      states_.back()[static_cast<size_t>(i)].owner = builder_.owner(owners, spec.grid, i);
    return tiles;
  }

  using Program::task;
  void task(const TileKernel& kernel, std::span<const Use> uses, tiles::Parameters parameters,
            tiles::Urgency urgency) override {
    const int owner = owner_of(uses);
    if (is_done(uses)) {
      for (const Use& use : uses)
        if (use.mode != Mode::read) change(state_of(use.tile), owner, -1);
    } else {
      since_state_ += flops_of(uses);
      if (builder_.mine(owner)) {
        add(kernel, uses, parameters, urgency);
      } else {
        look_at(uses, owner);
      }
      if (builder_.has_relays()) forget_readers(uses);
    }
    ++number_;
  }

  void step() override {
    SavedStates* const states = builder_.context().states;
    if (states == nullptr || since_state_ == 0) return;
    if (!states->is_due_after(since_state_)) return;
    since_state_ = 0;
    save(*states);
  }

  // Behind the loop: names the chunks of the outputs.
  void finish() {
    for (size_t m = 0; m < states_.size(); ++m) {
      const int output = outputs_[m];
      if (output < 0) continue;
      for (int64_t i = 0; i < std::ssize(states_[m]); ++i) {
        State& state = states_[m][static_cast<size_t>(i)];
        if (!builder_.mine(state.owner)) continue;
        restore(static_cast<int>(m), i);
        QUARRY_CHECK(state.block >= 0);  // every tile of a result is written
        builder_.name_block(builder_.key(static_cast<uint32_t>(output), i), state.block);
        if (builder_.kept(output)) builder_.result().graph.keep_block(state.block);
      }
    }
  }

 private:
  // The last version of a tile.
  struct State {
    BlockId block = -1;     // on its owner, if it is this rank
    BlockId received = -1;  // what this rank has of another's, or of an argument
    int64_t version = 0;
    int32_t owner = -1;                   // -1: no task has written it
    int32_t readers = 0;                  // tasks of this rank, where it is the owner
    bool is_argument = false;             // no task has changed it
    bool is_shared = false;               // another rank has it from this one
    uint32_t turn = 0;                    // of those it is passed to, whose turn it may be next
    std::vector<int32_t> passed_to = {};  // the ranks that read it and do not own it, in order, where there are relays
  };

  // Whether the tiles of an argument are chunks of an array, each on one rank.
  bool has_chunks_for_tiles(size_t argument) const {
    const plan::Input& input = applied_.inputs[argument];
    const bool is_kept =
        input.array.kind == plan::ArrayRef::Kind::stage || input.array.kind == plan::ArrayRef::Kind::stored;
    if (!is_kept || applied_.prologue(static_cast<int>(argument)) != nullptr) return false;
    if (!input.map.fixed.empty() || !input.map.beside.empty()) return false;
    if (input.map.axes != plan::AccessMap::identity(input.shape.size()).axes) return false;
    return input.grid == applied_.call.arguments[argument].grid &&
           owners_of(input.array).kind != Owners::Kind::everywhere;
  }

  Tiles add_matrix(const op::ArraySpec& spec, int argument, int output) {
    QUARRY_CHECK(spec.grid.ndim() == 2);
    matrices_->push_back({spec.grid, spec.dtype, argument});
    outputs_.push_back(output);
    std::vector<State>& states = states_.emplace_back(static_cast<size_t>(spec.grid.count()));
    for (int64_t i = 0; i < std::ssize(states); ++i) {
      State& state = states[static_cast<size_t>(i)];
      state.is_argument = argument >= 0;
      if (output >= 0) state.owner = builder_.owner(stage_.outputs[static_cast<size_t>(output)].owners, spec.grid, i);
    }
    if (builder_.context().states != nullptr) is_kept_.emplace_back(static_cast<size_t>(spec.grid.count()), false);
    const Dims counts = spec.grid.counts();
    return {static_cast<int>(states_.size()) - 1, counts[0], counts[1]};
  }

  // --- saved states ---

  const io::SavedBlock* saved(int matrix, int64_t index) const {
    const SavedStates* const states = builder_.context().states;
    return states == nullptr ? nullptr : states->saved(number_of_stage_, matrix, index);
  }
  // Whether what the task makes was there when the state was saved. One that changes nothing was done where what it
  // reads was not needed any more.
  bool is_done(std::span<const Use> uses) {
    const SavedStates* const states = builder_.context().states;
    if (states == nullptr || !states->is_resumed()) return false;
    for (const Use& use : uses) {
      if (use.mode == Mode::read) continue;
      const io::SavedBlock* const block = saved(use.tile.matrix, index_of(use.tile));
      return block != nullptr && state_of(use.tile).version < block->version;
    }
    return std::ranges::any_of(uses, [&](const Use& use) {
      const io::SavedBlock* const block = saved(use.tile.matrix, index_of(use.tile));
      return block != nullptr && !block->has_data() && block->version == state_of(use.tile).version;
    });
  }
  // Brings a saved tile of this rank, where no task has made it.
  void restore(int matrix, int64_t index) {
    State& state = states_[static_cast<size_t>(matrix)][static_cast<size_t>(index)];
    if (state.block >= 0) return;
    const io::SavedBlock* const block = saved(matrix, index);
    QUARRY_CHECK(block != nullptr && block->has_data() && block->version == state.version);
    if (restore_body_.second == nullptr)
      restore_body_ =
          builder_.add_body<RestoreBody>(*builder_.context().states, stage_.label, builder_.context().executor);
    const auto& [number, body] = restore_body_;
    const int64_t bytes = (*matrices_)[static_cast<size_t>(matrix)].tile_bytes(index);
    QUARRY_CHECK(bytes == block->bytes);
    state.block = builder_.add_block(bytes);
    builder_.add_task(scheduler::TaskKind::read, scheduler::QueueKind::io, number, body->add(*block),
                      {progress(), kMain}, {.traffic_bytes = bytes}, {}, {state.block});
    note_state_staging(builder_, bytes);
    builder_.result().read_bytes += bytes;
  }
  // Of a task, about: as if its largest tile were a product along the shorter side of another.
  double flops_of(std::span<const Use> uses) const {
    if (builder_.context().states == nullptr) return 0;
    int64_t elements = 0, depth = 1;
    for (const Use& use : uses) {
      const Dims shape = matrix(use.tile).grid.chunk_shape(index_of(use.tile));
      elements = std::max(elements, local::element_count(shape));
      depth = std::max(depth, std::min(shape[0], shape[1]));
    }
    return 2. * static_cast<double>(elements) * static_cast<double>(depth);
  }

  // A state of this rank's tiles as they are behind the tasks so far.
  void save(SavedStates& states) {
    struct Fresh {
      int matrix;
      int64_t index;
      size_t entry;
      bool is_last;  // it does not change any more
    };
    std::vector<SavedStates::Entry> table;
    std::vector<Fresh> fresh;
    for (int m = 0; m < std::ssize(states_); ++m) {
      std::vector<State>& of_matrix = states_[static_cast<size_t>(m)];
      for (int64_t i = 0; i < std::ssize(of_matrix); ++i) {
        const State& state = of_matrix[static_cast<size_t>(i)];
        if (!builder_.mine(std::max(state.owner, 0))) continue;
        const io::SavedBlock* const before = saved(m, i);
        if (before != nullptr && before->version >= state.version) {
          table.push_back({*before});
          continue;
        }
        if (state.version == 0) continue;
        SavedStates::Entry& entry = table.emplace_back();
        entry.block.matrix = m;
        entry.block.index = i;
        entry.block.version = state.version;
        const Life& life = lives_[static_cast<size_t>(m)][static_cast<size_t>(i)];
        if (life.last_use < number_) continue;
        const bool is_last = life.last_change < number_;
        std::vector<bool>::reference is_kept = is_kept_[static_cast<size_t>(m)][static_cast<size_t>(i)];
        entry.is_kept_before = is_kept;
        if (is_kept) continue;
        is_kept = is_last;
        fresh.push_back({m, i, table.size() - 1, is_last});
      }
    }
    const int64_t state = states.add_state(number_of_stage_, std::move(table), std::ssize(fresh) + 1);
    if (save_body_.second == nullptr)
      save_body_ = builder_.add_body<SaveBody>(states, number_of_stage_, stage_.label, builder_.context().executor);
    const int32_t number = save_body_.first;
    SaveBody* const body = save_body_.second;
    const auto add_task = [&](const SaveBody::Work& work, Builder::Cost cost, const std::vector<BlockId>& inputs,
                              const std::vector<BlockId>& outputs) {
      cost.traffic_bytes = work.bytes;
      builder_.add_task(scheduler::TaskKind::write, scheduler::QueueKind::io, number, body->add(work),
                        {progress(), kMain}, cost, inputs, outputs);
      note_state_staging(builder_, work.bytes);
    };
    const bool visits = builder_.device().kind == local::DeviceKind::cpu;
    for (const auto& [m, i, entry, is_last] : fresh) {
      State& of = states_[static_cast<size_t>(m)][static_cast<size_t>(i)];
      const SaveBody::Work work{state, static_cast<int64_t>(entry), (*matrices_)[static_cast<size_t>(m)].tile_bytes(i),
                                is_last};
      if (!is_last && of.readers == 0 && !of.is_shared) {
        // It is passed on, so that the next task can change it in its memory.
        const BlockId after = builder_.add_block(work.bytes);
        add_task(work, {.in_place = 1}, {of.block}, {after});
        of.block = after;
      } else {
        const int64_t scratch = visits ? SaveBody::visit_scratch_bytes(work.bytes) : 0;
        add_task(work, {.scratch_bytes = scratch, .visits = visits}, {of.block}, {});
        ++of.readers;
      }
    }
    add_task({state}, {}, {}, {});
  }

  const Matrix& matrix(const Tile& tile) const { return (*matrices_)[static_cast<size_t>(tile.matrix)]; }
  int64_t index_of(const Tile& tile) const { return tile.row * matrix(tile).grid.axis(1).count() + tile.column; }
  State& state_of(const Tile& tile) {
    return states_[static_cast<size_t>(tile.matrix)][static_cast<size_t>(index_of(tile))];
  }
  BlockKey key_of(const Tile& tile, int64_t version) const {
    return builder_.key(kVersions + static_cast<uint32_t>(tile.matrix),
                        version * matrix(tile).grid.count() + index_of(tile));
  }

  int owner_of(std::span<const Use> uses) {
    int owner = -1;
    for (const Use& use : uses) {
      if (use.mode == Mode::read) continue;
      const int of_tile = state_of(use.tile).owner;
      QUARRY_CHECK(of_tile < 0 || owner < 0 || of_tile == owner);
      if (of_tile >= 0) owner = of_tile;
    }
    for (const Use& use : uses)
      if (owner < 0) owner = state_of(use.tile).owner;
    return std::max(owner, 0);
  }

  // What another rank's task does with the tiles.
  void look_at(std::span<const Use> uses, int owner) {
    for (const Use& use : uses) {
      State& state = state_of(use.tile);
      if (use.mode != Mode::write) bring(use.tile, state, owner);
      if (use.mode != Mode::read) change(state, owner, -1);
    }
  }
  // A rank reads the version: returns from which other one it has that, or -1 if it has it itself or had it before. The
  // rank that is to send it, if it is this one, gives it its key.
  int bring(const Tile& tile, State& state, int reader) {
    const int owner = state.is_argument ? holder_of(tile) : state.owner;
    if (owner < 0 || reader == owner) return -1;
    int from = owner;
    if (builder_.has_relays()) {
      std::vector<int32_t>& readers = state.passed_to;
      if (has_read(state, reader)) return -1;
      const size_t source = Builder::relay_source(readers.size() + 1);
      if (source > 0) from = readers[source - 1];
      readers.push_back(reader);
    }
    if (builder_.mine(from)) share(tile, state);
    return from;
  }
  // Owners take turns along rows and columns, and so do readers: most are where the last one was left.
  static bool has_read(State& state, int reader) {
    const std::vector<int32_t>& readers = state.passed_to;
    if (state.turn >= readers.size()) state.turn = 0;
    if (readers.empty() || readers[state.turn] != reader) {
      const auto found = std::ranges::find(readers, reader);
      if (found == readers.end()) return false;
      state.turn = static_cast<uint32_t>(found - readers.begin());
    }
    ++state.turn;
    return true;
  }
  // Of tiles that no later task reads: lists of all tiles would grow with the product of tiles and ranks.
  void forget_readers(std::span<const Use> uses) {
    for (const Use& use : uses) {
      const Life& life = lives_[static_cast<size_t>(use.tile.matrix)][static_cast<size_t>(index_of(use.tile))];
      if (use.mode == Mode::read && life.last_read == number_) state_of(use.tile).passed_to = {};
    }
  }
  const plan::Input& input_of(const Tile& tile) const {
    return applied_.inputs[static_cast<size_t>(matrix(tile).argument)];
  }
  // The rank whose chunk of an argument is the tile; -1 where it is none that ranks pass on.
  int holder_of(const Tile& tile) const {
    if (!builder_.has_relays() || !are_chunks_[static_cast<size_t>(matrix(tile).argument)]) return -1;
    const plan::Input& input = input_of(tile);
    return builder_.owner(owners_of(input.array), input.grid, index_of(tile));
  }
  // Gives the version its key on this rank, which owns it or passes it on.
  void share(const Tile& tile, State& state) {
    if (std::exchange(state.is_shared, true)) return;
    if (state.is_argument) {  // a chunk has its key on its owner
      if (!builder_.mine(holder_of(tile)))
        builder_.name_block(builder_.key_of(input_of(tile).array, index_of(tile)), state.received);
    } else if (builder_.mine(state.owner)) {
      restore(tile.matrix, index_of(tile));
      builder_.name_block(key_of(tile, state.version), state.block);
    } else {
      builder_.name_block(key_of(tile, state.version), state.received);
    }
  }
  static void change(State& state, int owner, BlockId block) {
    state = {.block = block, .version = state.version + 1, .owner = owner};
  }

  // The block of a tile for a task of this rank.
  BlockId block_of(const Tile& tile) {
    State& state = state_of(tile);
    if (state.is_argument) {
      if (state.received < 0) {
        const op::Need need{matrix(tile).argument, matrix(tile).grid.chunk(index_of(tile))};
        const LoweringContext& context = builder_.context();
        const Access access = access_of(applied_, need, context.rank, context.owners);
        const int from = bring(tile, state, context.rank);
        state.received = from < 0 ? builder_.prefetch(input_of(tile), access)
                                  : builder_.prefetch_from(from, input_of(tile), access, {progress(), kMain});
      }
      return state.received;
    }
    QUARRY_CHECK(state.owner >= 0);  // a tile is written before it is read
    if (builder_.mine(state.owner)) {
      restore(tile.matrix, index_of(tile));
      ++state.readers;
      return state.block;
    }
    if (state.received < 0)
      state.received = builder_.receive_whole(bring(tile, state, builder_.context().rank), key_of(tile, state.version),
                                              matrix(tile).tile_bytes(index_of(tile)), stage_.label);
    return state.received;
  }

  void add(const TileKernel& kernel, std::span<const Use> uses, const tiles::Parameters& parameters,
           tiles::Urgency urgency) {
    constexpr size_t kMostUpdates = 8;
    const auto [number, body] = body_of(kernel);
    std::vector<BlockId> inputs, reads, outputs;
    std::vector<Placed> placed;
    std::vector<op::ArraySpec> specs;
    uint8_t in_place = 0;
    for (const Use& use : uses) {
      const State& state = state_of(use.tile);
      const int64_t index = index_of(use.tile);
      placed.push_back({use.tile.matrix, use.mode, state.is_argument, index});
      specs.push_back(op::in_one_chunk(matrix(use.tile).grid.chunk_shape(index), matrix(use.tile).dtype));
      if (use.mode == Mode::write) continue;
      const bool is_alone = !state.is_argument && state.readers == 0 && !state.is_shared;
      const BlockId block = block_of(use.tile);
      if (use.mode == Mode::read) {
        reads.push_back(block);
        continue;
      }
      QUARRY_CHECK(inputs.size() < kMostUpdates);
      if (is_alone) in_place |= static_cast<uint8_t>(1U << inputs.size());
      inputs.push_back(block);
    }
    for (const Mode mode : {Mode::update, Mode::write}) {
      for (const Use& use : uses) {
        if (use.mode != mode) continue;
        outputs.push_back(builder_.add_block(matrix(use.tile).tile_bytes(index_of(use.tile))));
        change(state_of(use.tile), builder_.context().rank, outputs.back());
      }
    }
    int64_t traffic = 0;
    for (const BlockId output : outputs) traffic += builder_.result().graph.block(output).bytes;
    inputs.insert(inputs.end(), reads.begin(), reads.end());
    const int64_t scratch = scratch_bytes(kernel, specs, parameters);
    const int64_t index = body->add(std::move(placed), parameters, scratch);
    const scheduler::QueueKind queue = queue_of(urgency);
    builder_.add_task(scheduler::TaskKind::compute, queue, number, index, {progress(), kMain},
                      {.scratch_bytes = scratch, .traffic_bytes = traffic, .in_place = in_place}, inputs, outputs);
  }

  // Tasks of one kernel with tiles of the same shapes take the same.
  int64_t scratch_bytes(const TileKernel& kernel, const std::vector<op::ArraySpec>& specs,
                        const tiles::Parameters& parameters) {
    op::Hash hash;
    hash.add(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&kernel)));
    for (const int64_t parameter : parameters) hash.add(parameter);
    for (const op::ArraySpec& spec : specs) hash.add(spec.shape).add(static_cast<int>(spec.dtype));
    const auto [found, added] = scratch_.try_emplace(hash.value, 0);
    if (added) {
      const auto run = [&](std::span<const local::NdArray> tiles) {
        kernel.run(tiles, parameters);
        return std::vector<local::NdArray>();
      };
      const int64_t bytes = op::tried_peak_bytes(run, specs, /*result_bytes=*/0, builder_.device().kind);
      // Arrays as large as tiles come and go, and leave gaps where the next one does not fit.
      int64_t largest = 0;
      for (const op::ArraySpec& spec : specs) largest = std::max(largest, spec.bytes());
      const bool has_many = bytes > largest;
      found->second = local::rounded_allocation(has_many ? bytes + bytes / 4 + largest : bytes);
    }
    return found->second;
  }

  static scheduler::QueueKind queue_of(tiles::Urgency urgency) {
    switch (urgency) {
      case tiles::Urgency::bulk:
        return scheduler::QueueKind::compute;
      case tiles::Urgency::urgent:
        return scheduler::QueueKind::urgent;
      case tiles::Urgency::panel:
        return scheduler::QueueKind::panel;
    }
    return scheduler::QueueKind::compute;
  }

  int64_t progress() const { return static_cast<int64_t>(static_cast<__int128>(number_) * kProgressEnd / count_); }

  std::pair<int32_t, TileBody*> body_of(const TileKernel& kernel) {
    const auto [found, added] = bodies_.try_emplace(&kernel);
    if (added)
      found->second = builder_.add_body<TileBody>(applied_, stage_.label, builder_.context(), matrices_, kernel);
    return found->second;
  }

  Builder& builder_;
  const plan::Applied& applied_;
  const plan::Stage& stage_;
  const int number_of_stage_;
  const int64_t count_;
  const std::vector<std::vector<Life>> lives_;
  int64_t number_ = 0;      // of the next task
  double since_state_ = 0;  // additions and multiplications that are not done, of all ranks
  std::shared_ptr<std::vector<Matrix>> matrices_ = std::make_shared<std::vector<Matrix>>();
  std::vector<int> outputs_;                // per matrix; -1: none
  std::vector<bool> are_chunks_;            // per argument
  std::vector<std::vector<State>> states_;  // per matrix and tile
  std::map<const TileKernel*, std::pair<int32_t, TileBody*>> bodies_;
  std::unordered_map<uint64_t, int64_t> scratch_;
  std::vector<std::vector<bool>> is_kept_;  // per matrix and tile: saved, and it does not change any more
  std::pair<int32_t, SaveBody*> save_body_{-1, nullptr};
  std::pair<int32_t, RestoreBody*> restore_body_{-1, nullptr};
};

}  // namespace

void lower_tiles(Builder& builder, const plan::Applied& stage, const std::function<void(tiles::Program&)>& emit) {
  Survey survey(stage.call, /*with_lives=*/builder.context().states != nullptr || builder.has_relays());
  emit(survey);
  TileLowering lowering(builder, stage, std::move(survey));
  emit(lowering);
  lowering.step();
  lowering.finish();
}

}  // namespace quarry::exec
