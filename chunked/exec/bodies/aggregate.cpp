// Updating, combining and finalizing the aggregate states of a fused stage's reductions. On a GPU the tasks of a round
// are one kernel.
#include "quarry/chunked/exec/bodies/aggregate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/chunked/exec/bodies/scratch_pool.h"

namespace quarry::exec {
namespace {

constexpr int64_t kFieldAlignment = 64;  // bytes

// The fields of a state in a block, one behind the other along the kept elements.
void add_fields(std::vector<local::Operand>& operands, size_t& count, const AggregateLayout& layout, void* block,
                int reduction = -1) {
  for (const AggregateLayout::Field& field : layout.fields) {
    if (reduction >= 0 && field.reduction != reduction) continue;
    if (count == operands.size()) operands.emplace_back();
    local::Operand& operand = operands[count++];
    operand.data = static_cast<std::byte*>(block) + field.offset;
    operand.strides.resize(1);
    operand.strides[0] = local::itemsize(field.dtype);
  }
}

// The space of a launch: one axis of `elements`.
void set_space(local::Launch& launch, int64_t elements) {
  launch.shape.resize(1);
  launch.shape[0] = elements;
  launch.index_offset.resize(0);
}

// The states in blocks, each of one or several behind each other.
void append_states(std::vector<void*>& states, std::span<const scheduler::BlockView> blocks,
                   const AggregateLayout& layout) {
  for (const scheduler::BlockView& block : blocks)
    for (int64_t at = 0; at < block.bytes; at += layout.bytes)
      states.push_back(static_cast<std::byte*>(block.data) + at);
}

// Chunks whose launches are prepared before they are queued, so that one kernel takes them: few at first, so that the
// device has something to do, and twice as many each time.
constexpr size_t kFirstTogether = 64;
constexpr size_t kFirstLarge = 4;  // of chunks that each keep a device busy
constexpr int64_t kLargeElements = int64_t{1} << 20;
constexpr size_t kMostTogether = 512;
constexpr int64_t kMostMerged = 32;        // states at a time
constexpr int64_t kMostMergedFields = 32;  // and their fields: a kernel of twice as many compiles twice as long

// Recording one takes longer than running it, and runs want the same ones again and again.
std::shared_ptr<const local::Program> merging_program(std::span<const local::ProgramReduction> reductions, int states,
                                                      local::MergeOrder order) {
  using Key = std::pair<std::vector<std::pair<local::Reduction, local::DType>>, std::pair<int, local::MergeOrder>>;
  constexpr size_t kMostKept = 256;
  static std::mutex mutex;
  static std::map<Key, std::shared_ptr<const local::Program>> kept;
  Key key{{}, {states, order}};
  for (const local::ProgramReduction& r : reductions) key.first.emplace_back(r.reduction, r.accumulate);
  const std::lock_guard lock(mutex);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  auto program = std::make_shared<local::Program>(local::combine_states_program(reductions, states, order));
  program->keep_key();
  if (kept.size() == kMostKept) kept.clear();
  return kept.emplace(std::move(key), std::move(program)).first->second;
}

}  // namespace

AggregateLayout::AggregateLayout(const local::Program& program, int64_t elements) {
  for (size_t r = 0; r < program.reductions().size(); ++r) {
    const auto& reduction = program.reductions()[r];
    for (local::DType dtype : local::state_dtypes(reduction.reduction, reduction.accumulate)) {
      fields.push_back({static_cast<int>(r), dtype, bytes});
      bytes = align_up(bytes + elements * local::itemsize(dtype), kFieldAlignment);
    }
  }
}

std::string UpdateBody::name(int64_t index) const {
  std::vector<int64_t> chunks;
  chunks_(index, chunks);
  if (chunks.size() == 1) return fused_.name(chunks[0]);
  const Grid& grid = fused_.stage().grid;
  return fmt::format("{}[{} to {}]", fused_.stage().label, local::to_string(grid.coordinates(chunks.front())),
                     local::to_string(grid.coordinates(chunks.back())));
}

void UpdateBody::run_batch(std::span<scheduler::TaskRun* const> runs) {
  Batch& batch = Batch::mine();
  std::vector<int64_t> chunks;
  size_t together = 0;
  for (const scheduler::TaskRun* run : runs) {
    chunks_(run->index, chunks);
    if (together == 0) {
      const bool large = fused_.stage().grid.chunk_elements(chunks[0]) >= kLargeElements;
      together = large ? kFirstLarge : kFirstTogether;
    }
    const size_t inputs = run->inputs.size() / chunks.size();
    const int64_t state_bytes = run->outputs[0].bytes / static_cast<int64_t>(chunks.size());
    auto* states = static_cast<std::byte*>(run->outputs[0].data);
    for (size_t i = 0; i < chunks.size(); ++i, states += state_bytes) {
      fused_.add(batch, chunks[i], run->inputs.subspan(i * inputs, inputs), {}, states, run->context);
      if (batch.size() < together) continue;
      batch.run(fused_.program());
      together = std::min(2 * together, kMostTogether);
    }
  }
  if (batch.size() > 0) batch.run(fused_.program());
}

StateMerger::StateMerger(const plan::Fused& fused, const local::Device& device, local::MergeOrder order)
    : fused_(fused),
      device_(device),
      order_(order),
      most_(std::clamp<int64_t>(
          kMostMergedFields / std::max<int64_t>(std::ssize(AggregateLayout(fused_.program, 1).fields), 1), 2,
          kMostMerged)) {
  merging_.resize(static_cast<size_t>(most_) + 1);
}

const local::Program& StateMerger::merging(int64_t states) {
  const std::lock_guard lock(mutex_);
  auto& program = merging_[static_cast<size_t>(states)];
  if (!program) program = merging_program(fused_.program.reductions(), static_cast<int>(states), order_);
  return *program;
}

int64_t StateMerger::scratch_bytes(int64_t elements, int64_t states) {
  const auto [known, added] = known_scratch_.try_emplace({elements, states}, 0);
  if (!added) return known->second;
  const AggregateLayout layout(fused_.program, elements);
  for (int64_t done = 0; done < states;) {
    const int64_t merged = done == 0 ? std::min(states, most_) : std::min(states - done, most_ - 1) + 1;
    local::Launch launch;
    set_space(launch, elements);
    size_t inputs = 0, outputs = 0;
    for (int64_t s = 0; s < merged; ++s) add_fields(launch.inputs, inputs, layout, nullptr);
    add_fields(launch.outputs, outputs, layout, nullptr);
    known->second = std::max(known->second, run_scratch_bytes(device_, merging(merged), launch));
    done += done == 0 ? merged : merged - 1;
  }
  return known->second;
}

void StateMerger::merge(std::span<const Result> results, const AggregateLayout& layout, int64_t elements,
                        const std::vector<void*>& states) {
  const size_t count = states.size() / results.size();
  QUARRY_CHECK(count >= 2 && (order_ == local::MergeOrder::chain || static_cast<int64_t>(count) <= most_));
  Batch& batch = Batch::mine();
  for (size_t done = 0; done < count;) {
    const size_t most = static_cast<size_t>(most_) - (done == 0 ? 0 : 1);
    const size_t more = std::min(count - done, most);
    for (size_t r = 0; r < results.size(); ++r) {
      void* const result = results[r].state;
      local::Launch& launch = batch.add_elementwise(*results[r].context);
      set_space(launch, elements);
      size_t inputs = 0, outputs = 0;
      if (done > 0) add_fields(launch.inputs, inputs, layout, result);
      for (size_t s = done; s < done + more; ++s) add_fields(launch.inputs, inputs, layout, states[r * count + s]);
      add_fields(launch.outputs, outputs, layout, result);
      launch.inputs.resize(inputs);
      launch.outputs.resize(outputs);
    }
    batch.run(merging(static_cast<int64_t>(done == 0 ? more : more + 1)));
    done += more;
  }
}

CombineBody::CombineBody(const plan::Stage& stage, const local::Device& device, local::MergeOrder order,
                         std::function<int64_t(int64_t)> elements)
    : stage_(stage), elements_(std::move(elements)), merger_(std::get<plan::Fused>(stage.work), device, order) {}

std::string CombineBody::name(int64_t index) const { return fmt::format("combine {}[{}]", stage_.label, index); }

void CombineBody::run_batch(std::span<scheduler::TaskRun* const> runs) {
  std::vector<scheduler::TaskRun*> left(runs.begin(), runs.end());
  std::vector<void*> states;
  std::vector<StateMerger::Result> results;
  while (!left.empty()) {
    // Those that merge as many states of one size go together: none of them needs another's result.
    const int64_t elements = elements_(left.front()->index);
    const AggregateLayout layout(std::get<plan::Fused>(stage_.work).program, elements);
    const auto bytes = [](const scheduler::TaskRun* run) {
      int64_t sum = 0;
      for (const scheduler::BlockView& input : run->inputs) sum += input.bytes;
      return sum;
    };
    const int64_t merged = bytes(left.front());
    const auto others = std::stable_partition(left.begin(), left.end(), [&](const scheduler::TaskRun* run) {
      return elements_(run->index) == elements && bytes(run) == merged;
    });
    const std::span<scheduler::TaskRun* const> together(left.begin(), others);
    states.clear();
    results.clear();
    for (const scheduler::TaskRun* run : together) {
      QUARRY_CHECK(run->outputs[0].bytes == layout.bytes);
      append_states(states, run->inputs, layout);
      results.push_back({run->outputs[0].data, &run->context});
    }
    if (!states.empty()) merger_.merge(results, layout, elements, states);
    left.erase(left.begin(), others);
  }
}

FinalizeBody::FinalizeBody(const plan::Stage& stage, const local::Device& device,
                           std::function<int64_t(int64_t)> elements)
    : stage_(stage), fused_(std::get<plan::Fused>(stage.work)), device_(device), elements_(std::move(elements)) {
  for (const auto& output : fused_.reductions) {
    const auto& reduction = fused_.program.reductions()[static_cast<size_t>(output.reduction)];
    finalize_.push_back(local::finalize_program(reduction.reduction, reduction.accumulate, output.ddof, output.dtype));
    finalize_.back().keep_key();
  }
}

std::string FinalizeBody::name(int64_t index) const { return fmt::format("finalize {}[{}]", stage_.label, index); }

void FinalizeBody::fill(local::Launch& launch, size_t output, int64_t elements, void* states, void* result) const {
  set_space(launch, elements);
  size_t inputs = 0;
  add_fields(launch.inputs, inputs, AggregateLayout(fused_.program, elements), states,
             fused_.reductions[output].reduction);
  launch.inputs.resize(inputs);
  launch.outputs.assign(1, {result, Dims{local::itemsize(fused_.reductions[output].dtype)}});
}

int64_t FinalizeBody::scratch_bytes(int64_t index) const {
  int64_t bytes = 0;
  for (size_t o = 0; o < finalize_.size(); ++o) {
    local::Launch launch;
    fill(launch, o, elements_(index), nullptr, nullptr);
    bytes = std::max(bytes, run_scratch_bytes(device_, finalize_[o], launch));
  }
  return bytes;
}

void FinalizeBody::run_batch(std::span<scheduler::TaskRun* const> runs) {
  Batch& batch = Batch::mine();
  for (size_t o = 0; o < finalize_.size(); ++o) {
    for (const scheduler::TaskRun* run : runs) {
      fill(batch.add_elementwise(run->context), o, elements_(run->index), run->inputs[0].data, run->outputs[o].data);
    }
    batch.run(finalize_[o]);
  }
}

void FinalizeBody::run_on(void* states, int64_t index, std::span<const scheduler::BlockView> results,
                          const local::ExecContext& context) const {
  Batch& batch = Batch::mine();
  for (size_t o = 0; o < finalize_.size(); ++o) {
    fill(batch.add_elementwise(context), o, elements_(index), states, results[o].data);
    batch.run(finalize_[o]);
  }
}

// --- a whole tree ---

namespace {

// Nodes that one kernel merges.
int64_t nodes_together(const StateMerger& pairs) { return int64_t{1} << (std::bit_width(uint64_t(pairs.most())) - 1); }

int64_t state_slot_bytes(const AggregateLayout& layout) { return align_up(layout.bytes, local::kAllocationAlignment); }

}  // namespace

TreeBody::TreeBody(const plan::Stage& stage, const local::Device& device, const Tree& tree,
                   std::function<int64_t(int64_t)> elements)
    : stage_(stage),
      fused_(std::get<plan::Fused>(stage.work)),
      tree_(tree),
      elements_(elements),
      chain_(fused_, device, local::MergeOrder::chain),
      pairs_(fused_, device, local::MergeOrder::pairs),
      finalize_(stage, device, std::move(elements)) {}

std::string TreeBody::name(int64_t index) const { return fmt::format("combine all {}[{}]", stage_.label, index); }

int64_t TreeBody::scratch_bytes(int64_t index) {
  const int64_t elements = elements_(index), segments = tree_.segments();
  int64_t running = finalize_.scratch_bytes(index);
  for (const int64_t leaves : {tree_.leaves / segments, tree_.leaves / segments + 1})
    if (leaves > 1) running = std::max(running, chain_.scratch_bytes(elements, leaves));
  int64_t slots = segments;
  for (int64_t nodes = segments; nodes > 1;) {
    const int64_t most = nodes_together(pairs_), rest = nodes % most;
    if (nodes >= most) running = std::max(running, pairs_.scratch_bytes(elements, most));
    if (rest > 1) running = std::max(running, pairs_.scratch_bytes(elements, rest));
    nodes = (nodes + most - 1) / most;
    slots += nodes;
  }
  return slots * state_slot_bytes(AggregateLayout(fused_.program, elements)) + local::rounded_allocation(running);
}

// Level by level; of a level, what merges as many states goes together.
void TreeBody::run(scheduler::TaskRun& run) {
  const int64_t elements = elements_(run.index);
  const AggregateLayout layout(fused_.program, elements);
  const int64_t slot_bytes = state_slot_bytes(layout);
  ScratchPool scratch(run.context, scratch_bytes(run.index));
  const local::ExecContext context = scratch.context();
  std::vector<void*> kept;  // of the scratch
  std::vector<void*> nodes;
  append_states(nodes, run.inputs, layout);
  QUARRY_CHECK(std::ssize(nodes) == tree_.leaves);

  // Node i of the next level merges those from begins[i] to before begins[i + 1].
  const auto merge_level = [&](StateMerger& merger, const std::vector<int64_t>& begins) {
    std::vector<void*> next(begins.size() - 1);
    std::map<int64_t, std::vector<size_t>> by_count;
    for (size_t i = 0; i < next.size(); ++i) by_count[begins[i + 1] - begins[i]].push_back(i);
    for (const auto& [count, numbers] : by_count) {
      std::vector<StateMerger::Result> results;
      std::vector<void*> states;
      for (const size_t i : numbers) {
        const auto first = nodes.begin() + begins[i];
        if (count == 1) {
          next[i] = *first;
          continue;
        }
        kept.push_back(next[i] = scratch.allocate(slot_bytes, run.context.stream));
        results.push_back({next[i], &context});
        states.insert(states.end(), first, first + count);
      }
      if (!results.empty()) merger.merge(results, layout, elements, states);
    }
    nodes = std::move(next);
  };
  std::vector<int64_t> begins;
  for (int64_t segment = 0; segment <= tree_.segments(); ++segment) begins.push_back(tree_.first(segment));
  merge_level(chain_, begins);
  while (nodes.size() > 1) {
    const auto count = std::ssize(nodes);
    begins.clear();
    for (int64_t i = 0; i < count; i += nodes_together(pairs_)) begins.push_back(i);
    begins.push_back(count);
    merge_level(pairs_, begins);
  }
  finalize_.run_on(nodes[0], run.index, run.outputs, context);
  for (void* slot : kept) scratch.deallocate(slot, slot_bytes, run.context.stream);
}

}  // namespace quarry::exec
