#include "quarry/chunked/exec/lowering/builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "quarry/chunked/exec/lowering/copies.h"
#include "quarry/local/base/error.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {

using scheduler::BlockId;
using scheduler::QueueKind;
using scheduler::TaskKind;

namespace {

void check_runtime(const StoredArray& array, const LoweringContext& context) {
  if (context.executor != nullptr && !array.is_in(*context.executor))
    throw local::InvalidArgument("an array was persisted by another Runtime than the one that is to read it");
}

}  // namespace

Builder::Builder(const plan::Plan& plan, const std::vector<Sink>& sinks, const LoweringContext& context)
    : plan_(plan), context_(context), order_(plan, sinks), result_(std::make_unique<Lowered>()) {
  result_->first_stored = static_cast<uint32_t>(plan.stages.size());
  for (const plan::Stage& stage : plan.stages)
    for (const plan::Input* input : stage.reads()) number_stored(input->array);
  for (const Sink& sink : sinks) {
    number_stored(sink.array);
    if (sink.kind == Sink::Kind::persist) kept_.insert({sink.array.stage, sink.array.output});
  }
}

BlockId add_stored(Lowered& lowered, const BlockKey& key) {
  const uint32_t number = key.stage - lowered.first_stored;
  QUARRY_CHECK(key.stage >= lowered.first_stored && number < lowered.stored.size());
  const BlockId block = lowered.graph.add_stored(lowered.stored[number]->block(key.chunk));
  lowered.stored_chunks.push_back({block, number, key.chunk});
  lowered.blocks.emplace(key, block);
  return block;
}

void release(Lowered& lowered) {
  lowered.graph.release_stored();
  for (const auto& [body, number] : lowered.uploads) body->set_array(nullptr);
  if (lowered.receive_body != nullptr) lowered.receive_body->set_service(nullptr);
  for (std::shared_ptr<StoredArray>& array : lowered.stored) array.reset();
}

void bind(Lowered& lowered, std::vector<std::shared_ptr<StoredArray>> arrays, const LoweringContext& context) {
  QUARRY_CHECK(arrays.size() == lowered.stored.size());
  for (const std::shared_ptr<StoredArray>& array : arrays) check_runtime(*array, context);
  for (const auto& [block, number, chunk] : lowered.stored_chunks)
    lowered.graph.set_stored(block, arrays[number]->block(chunk));
  for (const auto& [body, number] : lowered.uploads) body->set_array(arrays[number]);
  if (lowered.receive_body != nullptr) lowered.receive_body->set_service(context.service);
  lowered.stored = std::move(arrays);
}

// Transfer tasks (reads, receives, pulls, uploads, gathers) move to just before the first task that needs them, since
// several may share one; but no transfer leaves its phase, at whose end it is otherwise (add_transfer): what a stage
// receives as its result other ranks may want before this one does.
std::unique_ptr<Lowered> Builder::finish() {
  scheduler::Graph& graph = result_->graph;
  if (receive_body_) receive_body_->parts().end_adding();
  if (pull_body_) pull_body_->parts().end_adding();
  std::vector<int64_t> needed(static_cast<size_t>(graph.block_count()), INT64_MAX);
  for (scheduler::TaskId id = graph.task_count() - 1; id >= 0; --id) {
    const scheduler::Graph::Task& task = graph.task(id);
    if (is_transfer_[static_cast<size_t>(id)]) {
      int64_t first = INT64_MAX;
      for (const BlockId output : graph.outputs(task)) {
        first = std::min(first, needed[static_cast<size_t>(output)]);
        const auto found = relayed_.find(output);
        if (found == relayed_.end()) continue;
        const Relayed& relayed = found->second;
        const int64_t wanted = std::min(first, relayed.for_all);
        // Where its source may not have it yet.
        const int64_t there = relayed.position == INT64_MAX ? relayed.for_all : relayed.position;
        if (relayed.part >= 0 && wanted < there) receive_body_->parts().set_owner(relayed.part, relayed.owner);
        first = wanted;
      }
      graph.set_position(id, std::min(task.position, first));
    }
    for (const BlockId input : graph.inputs(task)) {
      int64_t& position = needed[static_cast<size_t>(input)];
      position = std::min(position, task.position);
    }
  }
  return std::move(result_);
}

// --- blocks and tasks ---

BlockId Builder::add_block(const BlockKey& key, int64_t bytes, bool keep) {
  const BlockId block = add_block(bytes, keep);
  name_block(key, block);
  return block;
}

BlockId Builder::block(const BlockKey& key) const {
  const auto found = result_->blocks.find(key);
  QUARRY_CHECK(found.has_value());
  return *found;
}

void Builder::add_task(TaskKind kind, QueueKind queue, int32_t body, int64_t index, Priority priority, Cost cost,
                       const std::vector<BlockId>& inputs, const std::vector<BlockId>& outputs) {
  const int64_t position = order_.position(stage_, priority.progress, priority.depth);
  result_->graph.add_task({kind, queue, body, index, position, cost.scratch_bytes, cost.traffic_bytes, inputs, outputs,
                           cost.visits, cost.in_place});
  is_transfer_.push_back(false);
}

// No sooner than what makes it on another rank, wherever that is in the phase: a receive that precedes its producer
// holds memory, or even all tasks behind it, while it waits.
void Builder::add_transfer(TaskKind kind, QueueKind queue, int32_t body, int64_t index, Cost cost,
                           const std::vector<BlockId>& inputs, BlockId output) {
  add_task(kind, queue, body, index, {kProgressEnd, kFinalize}, cost, inputs, {output});
  is_transfer_.back() = true;
}

void Builder::number_stored(const plan::ArrayRef& array) {
  if (array.kind != plan::ArrayRef::Kind::stored) return;
  check_runtime(*array.stored, context_);
  const auto number = static_cast<uint32_t>(plan_.stages.size() + stored_numbers_.size());
  if (stored_numbers_.emplace(array.stored.get(), number).second) result_->stored.push_back(array.stored);
}

BlockKey Builder::key_of(const plan::ArrayRef& array, int64_t chunk) const {
  if (array.kind == plan::ArrayRef::Kind::stored) return {stored_numbers_.at(array.stored.get()), 0, chunk};
  return {static_cast<uint32_t>(array.stage), static_cast<uint32_t>(array.output), chunk};
}

std::string Builder::label_of(const plan::ArrayRef& array) const {
  return array.kind == plan::ArrayRef::Kind::stage ? plan_.stages[static_cast<size_t>(array.stage)].label
                                                   : "stored array";
}

void note_state_staging(Builder& builder, int64_t bytes) {
  builder.note_staging(
      [&](int64_t host_bytes) { return std::min(bytes, local::memory_policy::staging_piece_bytes(host_bytes)); });
}

// --- what a task reads ---

// On a device, one kernel more for each part costs more time than memory that is there; in less of it, or when the
// least is asked for, tasks have the parts.
CopyRules Builder::copy_rules() const {
  const bool on_cpu = device().kind == local::DeviceKind::cpu;
  return {context_.rank, context_.owners, on_cpu,
          on_cpu ? 0 : context_.memory_bytes / local::memory_policy::kTasksInBudget};
}

// A chunk that this rank holds.
BlockId Builder::chunk_block(const plan::ArrayRef& array, int64_t chunk) {
  const BlockKey key = key_of(array, chunk);
  if (array.kind == plan::ArrayRef::Kind::stage) return block(key);
  if (const auto found = result_->blocks.find(key); found) return *found;
  if (!array.stored->replicated()) return add_stored(*result_, key);
  const int64_t bytes = array.stored->value().nbytes();
  const BlockId uploaded = add_block(key, bytes);
  // On the CPU it is in memory already: who computes copies it sooner than another thread wakes up.
  const QueueKind queue = device().kind == local::DeviceKind::cpu ? QueueKind::compute : QueueKind::io;
  const auto [number, body] = add_body<UploadBody>(array.stored);
  result_->uploads.emplace_back(body, key.stage - result_->first_stored);
  add_transfer(TaskKind::copy, queue, number, 0, {0, bytes}, {}, uploaded);
  return uploaded;
}

namespace {

Hyperslab hyperslab_of(const plan::Input& input, const Access& access) {
  return {access.chunk_shape, access.cover_start, access.cover_count, local::itemsize(input.dtype)};
}

}  // namespace

BlockId Builder::receive_part(int from, const BlockKey& key, const Hyperslab& hyperslab, const std::string& label,
                              bool keep) {
  if (!receive_body_) {
    std::tie(receive_number_, receive_body_) = add_body<ReceiveBody>(context_.service);
    result_->receive_body = receive_body_;
    result_->fetches = &receive_body_->parts();
  }
  PartTable& parts = receive_body_->parts();
  const auto [part, added] = parts.emplace(key, from, hyperslab);
  if (!added) return parts[part].block;
  parts.set_source(key, label, local::DType::uint8);
  const int64_t bytes = local::element_count(hyperslab.count) * hyperslab.itemsize;
  const BlockId received = add_block(bytes, keep);
  parts.set_block(part, received);
  add_transfer(TaskKind::receive, QueueKind::comm, receive_number_, part, {0, bytes}, {}, received);
  return received;
}

// A part of a chunk of this rank, taken out of it in whichever tier it lies: the chunk itself costs the task nothing.
BlockId Builder::pull(const plan::Input& input, const Access& access) {
  const Hyperslab hyperslab = hyperslab_of(input, access);
  const BlockKey key = key_of(input.array, access.chunk);
  if (!pull_body_) std::tie(pull_number_, pull_body_) = add_body<PullBody>(context_.executor);
  PartTable& parts = pull_body_->parts();
  const auto [index, added] = parts.emplace(key, context_.rank, hyperslab);
  if (!added) return parts[index].block;
  parts.set_source(key, label_of(input.array), input.dtype);
  const int64_t bytes = local::element_count(hyperslab.count) * hyperslab.itemsize;
  const BlockId from = chunk_block(input.array, access.chunk), part = add_block(bytes);
  parts.set_block(index, part);
  add_transfer(TaskKind::copy, QueueKind::io, pull_number_, index,
               {pull_body_->scratch_bytes(index, context_.device), bytes, /*visits=*/true}, {from}, part);
  note_staging([&](int64_t host_bytes) { return PullBody::staging_bytes(bytes, host_bytes); });
  return part;
}

BlockId Builder::read(const std::shared_ptr<io::Dataset>& dataset, const Access& access, local::DType dtype) {
  auto& [number, body] = read_bodies_[dataset.get()];
  if (!body) std::tie(number, body) = add_body<ReadBody>(dataset, context_.executor, context_.decoding);
  const ReadBody::Box box{access.region, access.together};
  const int64_t bytes = box.elements() * local::itemsize(dtype);
  const BlockId packed = add_block(bytes);
  add_transfer(TaskKind::read, QueueKind::io, number, body->add(box),
               {body->scratch_bytes(box, context_.device), bytes}, {}, packed);
  note_staging([&, &body = body](int64_t host_bytes) { return body->staging_bytes(box, context_.device, host_bytes); });
  result_->read_bytes += bytes;
  return packed;
}

// A packed copy of a region of several chunks, over the array's own axes.
BlockId Builder::gather(const plan::Input& input, const Region& region) {
  if (input.array.kind == plan::ArrayRef::Kind::stored) result_->runs_again = false;  // the body holds the array
  auto gathered = std::make_shared<plan::Input>(input);
  gathered->map = plan::AccessMap::identity(input.shape.size());
  for (int d = 0; d < input.shape.size(); ++d) {
    gathered->map.axes[static_cast<size_t>(d)].start = region.start[d];
    gathered->map.axes[static_cast<size_t>(d)].step = region.step[d];
  }
  const Region box = Region::box(Dims::filled(region.ndim()), region.count);
  const int64_t itemsize = local::itemsize(input.dtype);
  CopyRules rules = copy_rules();
  if (rules.room > 0) result_->grouped = true;
  if (const Region* share = shares_.of(&input)) rules.shares.add(gathered.get(), *share);
  auto segments = [gathered, box, itemsize, rules = std::move(rules)](int64_t) {
    return copy_segments({{gathered.get(), box, 0, local::contiguous_strides(box.count, itemsize)}}, rules);
  };
  const std::vector<CopySegment> now = segments(0);
  std::vector<BlockId> inputs;
  inputs.reserve(now.size());
  for (const CopySegment& segment : now) inputs.push_back(prefetch(*gathered, segment.access));
  const int64_t bytes = box.elements() * itemsize;
  const BlockId packed = add_block(bytes);
  const int32_t number = add_body<CopyBody>(label_of(input.array), segments).first;
  add_transfer(TaskKind::copy, QueueKind::compute, number, 0, copy_cost(now, bytes), inputs, packed);
  return packed;
}

std::optional<BlockId> Builder::whole_chunk(const plan::Input& input, int64_t chunk) {
  if (!is_here(input, chunk)) return std::nullopt;
  return chunk_block(input.array, chunk);
}

BlockId Builder::prefetch(const plan::Input& input, const Access& access) {
  switch (access.kind) {
    case Access::Kind::read:
      return read(input.array.dataset, access, input.dtype);
    case Access::Kind::chunk:
      return chunk_block(input.array, access.chunk);
    case Access::Kind::box:
      if (mine(access.owner)) return pull(input, access);
      return receive_part(access.owner, key_of(input.array, access.chunk), hyperslab_of(input, access),
                          label_of(input.array));
    case Access::Kind::gather:
      break;
  }
  return gather(input, access.region);
}

// One that was there before keeps its source.
BlockId Builder::receive_chunk(int from, const plan::Input& input, const Access& access) {
  const int64_t before = receive_body_ == nullptr ? 0 : receive_body_->parts().size();
  const BlockId received =
      receive_part(from, key_of(input.array, access.chunk), hyperslab_of(input, access), label_of(input.array));
  const bool is_new = receive_body_->parts().size() > before;
  if (is_new && from != access.owner) relayed_[received] = {before, access.owner};
  return received;
}

BlockId Builder::prefetch_from(int from, const plan::Input& input, const Access& access, Priority priority) {
  const BlockId received = receive_chunk(from, input, access);
  const auto found = relayed_.find(received);
  if (found != relayed_.end() && found->second.position == INT64_MAX && found->second.stage < 0)
    found->second.position = order_.position(stage_, priority.progress, priority.depth);
  return received;
}

int Builder::relay_of(int owner) const {
  constexpr int kReaders = 4;  // of a rank
  const int ranks = context_.owners.ranks();
  const int behind = (context_.rank - owner + ranks) % ranks;
  return ((behind - 1) / kReaders + owner) % ranks;
}

// The order stays one in which producers precede consumers (ADR 2): on all ranks such a block is received behind its
// producer and before the first chunk of the stage, and what other ranks get from here they wait for at that same
// place.
BlockId Builder::prefetch_for_all(const plan::Input& input, const Access& access) {
  constexpr int64_t kMostBytes = 1 << 20;  // of what waits on every rank for as long as the stage runs
  const int ranks = context_.owners.ranks();
  const bool is_whole = access.kind == Access::Kind::box && access.cover_count == access.chunk_shape;
  const int64_t bytes = local::element_count(access.chunk_shape) * local::itemsize(input.dtype);
  const plan::Stage& reader = stage();
  const bool all_read = reader.owners.kind == Owners::Kind::blocks && reader.grid.count() >= ranks;
  if (!is_whole || !has_relays() || bytes > kMostBytes || !all_read || !context_.owners.is_equal() ||
      mine(access.owner))
    return prefetch_shared(input, access);
  const BlockKey key = key_of(input.array, access.chunk);
  const BlockId received = receive_chunk(relay_of(access.owner), input, access);
  name_block(key, received);
  Relayed& relayed = relayed_[received];
  if (std::exchange(relayed.stage, stage_) != stage_) {
    const int64_t latest = this->latest(input, reader.grid.chunk(0));
    relayed.for_all = std::min(relayed.for_all, order_.position(stage_, latest, kTransfer));
  }
  return received;
}

BlockId Builder::prefetch_shared(const plan::Input& input, const Access& access) {
  if (access.kind == Access::Kind::chunk || access.kind == Access::Kind::box) return prefetch(input, access);
  const void* array = input.array.dataset.get();
  if (input.array.kind == plan::ArrayRef::Kind::stored) array = input.array.stored.get();
  // Not with other stages: what a later phase wants is read again rather than kept until then.
  const std::string memo = fmt::format("{}/{}/{}/{}/{}/{}/{}/{}", stage_, array, input.array.stage, input.array.output,
                                       local::to_string(access.region.start), local::to_string(access.region.count),
                                       local::to_string(access.region.step), fmt::join(access.strides, ","));
  if (const auto found = shared_.find(memo); found != shared_.end()) return found->second;
  return shared_.emplace(memo, prefetch(input, access)).first->second;
}

}  // namespace quarry::exec
