// One rank's graph while it is built: blocks with their keys, tasks with their places in the order, and the tasks that
// bring what others read (reads, receives, pulls, uploads, gathers), each made once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/bodies/copy.h"
#include "quarry/chunked/exec/bodies/transfer.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/lowering/order.h"

namespace quarry::exec {

// Parts of a BlockKey beside output numbers.
inline constexpr uint32_t kLeaf = 1u << 16;     // states of one chunk
inline constexpr uint32_t kSegment = 2u << 16;  // merged states of one segment
inline constexpr uint32_t kTree = 3u << 16;     // + level
inline constexpr uint32_t kRun = 4u << 16;      // of a segment's states up to that of a chunk

// How tasks that only copy read chunks of their own rank.
struct CopyRules {
  int rank = 0;
  Ownership owners;
  bool visits = false;  // in place; else parts of them, unless all is held in `room` bytes
  int64_t room = 0;
  Shares shares = {};  // where all is held: of chunks of other ranks
};

class Builder {
 public:
  Builder(const plan::Plan& plan, const std::vector<Sink>& sinks, const LoweringContext& context);

  // Tasks that are added from now on belong to this stage.
  void begin(int stage) {
    stage_ = stage;
    shares_ = {};
  }
  const plan::Stage& stage() const { return plan_.stages[static_cast<size_t>(stage_)]; }
  const LoweringContext& context() const { return context_; }
  const local::Device& device() const { return context_.device; }
  Lowered& result() { return *result_; }
  // Puts the tasks in their places. The last call.
  std::unique_ptr<Lowered> finish();

  // --- whose, and when ---

  bool mine(int owner) const { return owner == context_.rank; }
  // Of a chunk of an array that is not everywhere.
  int owner(const Owners& owners, const Grid& grid, int64_t chunk) const {
    return context_.owners.owner(owners, grid, chunk);
  }
  OwnedChunks owned(const Owners& owners, const Grid& grid) const {
    return context_.owners.owned(owners, grid, context_.rank);
  }
  // The chunks of the stage's grid whose tasks are this rank's.
  OwnedChunks owned() const { return owned(stage().owners, stage().grid); }
  // Whether a chunk of an array is on this rank.
  bool is_here(const plan::Input& input, int64_t chunk) const {
    return mine(context_.owners.source(owners_of(input.array), input.grid, chunk, context_.rank));
  }
  // Whether output `output` of the stage outlives the run.
  bool kept(int output) const { return kept_.contains({stage_, output}); }
  int64_t progress(int64_t chunk) { return order_.progress(stage_, chunk); }
  // Whether the progress of chunks increases with their numbers.
  bool waits_for_none() const { return order_.waits_for_none(stage_); }
  bool waits_for(const plan::Input& input) const { return order_.waits_for(stage_, input); }
  int64_t latest(const plan::Input& input, const Region& box) { return order_.latest(stage_, input, box); }

  // Of a stage whose outputs are complete only when all was read: chunks that are so earlier, with the progress of
  // their last task.
  void note_complete(int64_t chunk, int64_t progress) { complete_.insert_or_assign({stage_, chunk}, progress); }
  std::optional<int64_t> complete_at(int64_t chunk) const {
    const auto found = complete_.find({stage_, chunk});
    return found == complete_.end() ? std::nullopt : std::optional(found->second);
  }

  // --- blocks and tasks ---

  BlockKey key(uint32_t part, int64_t chunk) const { return {static_cast<uint32_t>(stage_), part, chunk}; }
  BlockKey key_of(const plan::ArrayRef& array, int64_t chunk) const;
  scheduler::BlockId block(const BlockKey& key) const;
  scheduler::BlockId add_block(int64_t bytes, bool keep = false) { return result_->graph.add_block(bytes, 0, keep); }
  scheduler::BlockId add_block(const BlockKey& key, int64_t bytes, bool keep = false);
  // A chunk of an output of the stage.
  scheduler::BlockId add_output(int output, int64_t chunk, int64_t bytes) {
    return add_block(key(static_cast<uint32_t>(output), chunk), bytes, kept(output));
  }
  void name_block(const BlockKey& key, scheduler::BlockId block) { result_->blocks.emplace(key, block); }

  template <class Body, class... Args>
  std::pair<int32_t, Body*> add_body(Args&&... args) {
    if constexpr (!requires { Body::kRunsAgain; }) result_->runs_again = false;
    auto made = std::make_unique<Body>(std::forward<Args>(args)...);
    Body* const pointer = made.get();
    return {result_->graph.add_body(std::move(made)), pointer};
  }

  struct Priority {  // of a task inside its stage
    int64_t progress, depth;
  };
  struct Cost {
    int64_t scratch_bytes = 0, traffic_bytes = 0;
    bool visits = false;   // its inputs cost nothing (scheduler::TaskDecl)
    uint8_t in_place = 0;  // outputs that take over the memory of inputs (the same)
  };
  // Task `index` of a body, on the compute queue.
  void add_compute(int32_t body, int64_t index, Priority priority, Cost cost,
                   const std::vector<scheduler::BlockId>& inputs, const std::vector<scheduler::BlockId>& outputs,
                   scheduler::TaskKind kind = scheduler::TaskKind::compute) {
    add_task(kind, scheduler::QueueKind::compute, body, index, priority, cost, inputs, outputs);
  }
  // Of the last task: bytes_with(host budget) of staging memory that it wants at once, on a device.
  void note_staging(const auto& bytes_with) {
    if (device().kind == local::DeviceKind::cpu) return;
    const int64_t bytes = bytes_with(context_.host_bytes);
    if (bytes <= result_->staging_bytes) return;
    result_->staging_bytes = bytes;
    result_->most_staging = result_->graph.task_count() - 1;
  }
  CopyRules copy_rules() const;
  // Whether what tasks copy of other ranks comes with all that this rank's tasks of the stage copy of the same chunk.
  bool takes_shares() const { return context_.owners.ranks() > 1 && copy_rules().room > 0; }
  // For gathers of the stage.
  void set_shares(Shares shares) { shares_ = std::move(shares); }
  // What a task costs that copies segments, found by the rules, to so many bytes.
  Cost copy_cost(const std::vector<CopySegment>& segments, int64_t bytes) const {
    if (!copy_rules().visits) return {CopyBody::scratch_bytes(segments, device()), bytes};
    return {CopyBody::visit_scratch_bytes(segments, device(), bytes), bytes, /*visits=*/true};
  }
  void add_task(scheduler::TaskKind kind, scheduler::QueueKind queue, int32_t body, int64_t index, Priority priority,
                Cost cost, const std::vector<scheduler::BlockId>& inputs,
                const std::vector<scheduler::BlockId>& outputs);

  // --- what a task reads ---

  // A chunk of an array as it lies, if this rank holds it.
  std::optional<scheduler::BlockId> whole_chunk(const plan::Input& input, int64_t chunk);
  // Where an access's data arrives; adds the tasks that bring it.
  scheduler::BlockId prefetch(const plan::Input& input, const Access& access);
  // What the task `index` of a body reads from a file.
  scheduler::BlockId prefetch_by(int32_t body, int64_t index, int64_t bytes, int64_t scratch_bytes) {
    const scheduler::BlockId block = add_block(bytes);
    add_transfer(scheduler::TaskKind::read, scheduler::QueueKind::io, body, index, {scratch_bytes, bytes}, {}, block);
    result_->read_bytes += bytes;
    return block;
  }
  // The same with one shared block for a region that many chunks read (an input that is broadcast along an axis).
  scheduler::BlockId prefetch_shared(const plan::Input& input, const Access& access);
  // The same of an input of which every chunk of the stage reads the same: what lies whole in a chunk of another rank
  // comes along a tree of all ranks, where all of them have chunks of the stage. So no rank sends it to more than a
  // few.
  scheduler::BlockId prefetch_for_all(const plan::Input& input, const Access& access);
  // What the access wants of a chunk of another rank, for a task of that place: from `from`, which owns the chunk or
  // receives the same for a task with an earlier place. Where this rank turns out to want it sooner for another stage,
  // it comes from the owner after all.
  scheduler::BlockId prefetch_from(int from, const plan::Input& input, const Access& access, Priority priority);
  // Whether ranks pass on what many of them read: where these are too many for one to serve.
  bool has_relays() const { return context_.owners.ranks() > kFewRanks; }
  // From whom reader number `number`, from 1 on, has it: from that number, where 0 is the owner.
  static constexpr size_t relay_source(size_t number) { return (number - 1) / 2; }
  // A part of a block of another rank, packed.
  scheduler::BlockId receive_part(int from, const BlockKey& key, const Hyperslab& hyperslab, const std::string& label,
                                  bool keep = false);
  // A whole one, as bytes.
  scheduler::BlockId receive_whole(int from, const BlockKey& key, int64_t bytes, const std::string& label,
                                   bool keep = false) {
    return receive_part(from, key, {Dims{bytes}, Dims{0}, Dims{bytes}, 1}, label, keep);
  }

 private:
  static constexpr int kFewRanks = 4;
  void add_transfer(scheduler::TaskKind kind, scheduler::QueueKind queue, int32_t body, int64_t index, Cost cost,
                    const std::vector<scheduler::BlockId>& inputs, scheduler::BlockId output);
  void number_stored(const plan::ArrayRef& array);
  scheduler::BlockId chunk_block(const plan::ArrayRef& array, int64_t chunk);
  scheduler::BlockId pull(const plan::Input& input, const Access& access);
  scheduler::BlockId read(const std::shared_ptr<io::Dataset>& dataset, const Access& access, local::DType dtype);
  scheduler::BlockId gather(const plan::Input& input, const Region& region);
  std::string label_of(const plan::ArrayRef& array) const;
  scheduler::BlockId receive_chunk(int from, const plan::Input& input, const Access& access);
  // The rank from which this one gets what `owner` has for all.
  int relay_of(int owner) const;

  const plan::Plan& plan_;
  const LoweringContext& context_;
  Order order_;
  std::unique_ptr<Lowered> result_;
  std::set<std::pair<int, int>> kept_;  // (stage, output)
  std::map<std::pair<int, int64_t>, int64_t> complete_;
  std::vector<bool> is_transfer_;  // by task: whether it moves to where its output is needed first
  int stage_ = 0;
  std::unordered_map<const StoredArray*, uint32_t> stored_numbers_;
  std::unordered_map<std::string, scheduler::BlockId> shared_;
  Shares shares_;
  // What does not come from its owner, by the block where it arrives.
  struct Relayed {
    int64_t part = -1;             // of the receives; -1: it comes from its owner
    int owner = -1;                // of the chunk
    int64_t position = INT64_MAX;  // where its source has it; none: where it is received for all
    int stage = -1;                // that wanted it for all last
    int64_t for_all = INT64_MAX;   // the first position where it is wanted on any rank
  };
  std::unordered_map<scheduler::BlockId, Relayed> relayed_;
  ReceiveBody* receive_body_ = nullptr;
  int32_t receive_number_ = -1;
  PullBody* pull_body_ = nullptr;
  int32_t pull_number_ = -1;
  std::unordered_map<const io::Dataset*, std::pair<int32_t, ReadBody*>> read_bodies_;
};

// A chunk of a stored array that this rank has and the graph does not know yet.
scheduler::BlockId add_stored(Lowered& lowered, const BlockKey& key);

// Of the last task, which saves so many bytes to a state or reads them: its staging memory.
void note_state_staging(Builder& builder, int64_t bytes);

// Adds the tasks of the builder's stage, which is of that kind; one file each. Formulas and orders are at the
// definitions.
void lower_work(Builder& builder, const plan::Fused& fused);
void lower_work(Builder& builder, const plan::Assemble& assemble);
void lower_work(Builder& builder, const plan::MatMul& product);
void lower_work(Builder& builder, const plan::Applied& applied);

}  // namespace quarry::exec
