// Updating, combining and finalizing the aggregate states of a fused stage's reductions. On a GPU the tasks of a round
// are one kernel.
#include "quarry/chunked/exec/bodies/aggregate.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/exec/bodies/operand.h"

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

// Makes what a batch hands out an elementwise launch over `elements`.
void clear(local::Launch& launch, int64_t elements) {
  launch.shape.resize(1);
  launch.shape[0] = elements;
  launch.index_offset.resize(0);
  launch.reduce_axes = 0;
  launch.states.clear();
}

// Chunks whose launches are prepared before they are queued, so that one kernel takes them: few at first, so that the
// device has something to do, and twice as many each time.
constexpr size_t kFirstTogether = 64;
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
  size_t together = kFirstTogether;
  for (const scheduler::TaskRun* run : runs) {
    chunks_(run->index, chunks);
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

CombineBody::CombineBody(const plan::Stage& stage, const local::Device& device, local::MergeOrder order,
                         std::function<int64_t(int64_t)> elements)
    : stage_(stage),
      fused_(std::get<plan::Fused>(stage.work)),
      device_(device),
      elements_(std::move(elements)),
      order_(order),
      most_(std::clamp<int64_t>(
          kMostMergedFields / std::max<int64_t>(std::ssize(AggregateLayout(fused_.program, 1).fields), 1), 2,
          kMostMerged)) {
  merging_.resize(static_cast<size_t>(most_) + 1);
}

std::string CombineBody::name(int64_t index) const { return fmt::format("combine {}[{}]", stage_.label, index); }

const local::Program& CombineBody::merging(int64_t states) {
  const std::lock_guard lock(mutex_);
  auto& program = merging_[static_cast<size_t>(states)];
  if (!program) program = merging_program(fused_.program.reductions(), static_cast<int>(states), order_);
  return *program;
}

int64_t CombineBody::scratch_bytes(int64_t index, int64_t states) {
  const int64_t elements = elements_(index);
  const auto [known, added] = known_scratch_.try_emplace({elements, states}, 0);
  if (!added) return known->second;
  const AggregateLayout layout(fused_.program, elements);
  for (int64_t done = 0; done < states;) {
    const int64_t merged = done == 0 ? std::min(states, most_) : std::min(states - done, most_ - 1) + 1;
    local::Launch launch;
    clear(launch, elements);
    size_t inputs = 0, outputs = 0;
    for (int64_t s = 0; s < merged; ++s) add_fields(launch.inputs, inputs, layout, nullptr);
    add_fields(launch.outputs, outputs, layout, nullptr);
    known->second = std::max(known->second, run_scratch_bytes(device_, merging(merged), launch));
    done += done == 0 ? merged : merged - 1;
  }
  return known->second;
}

void CombineBody::run_batch(std::span<scheduler::TaskRun* const> runs) {
  std::vector<scheduler::TaskRun*> left(runs.begin(), runs.end());
  std::vector<void*> states;
  while (!left.empty()) {
    // Those that merge as many states of one size go together: none of them needs another's result.
    const int64_t elements = elements_(left.front()->index);
    const AggregateLayout layout(fused_.program, elements);
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
    for (const scheduler::TaskRun* run : together) {
      QUARRY_CHECK(run->outputs[0].bytes == layout.bytes);
      for (const scheduler::BlockView& input : run->inputs) {
        for (int64_t at = 0; at < input.bytes; at += layout.bytes) {
          states.push_back(static_cast<std::byte*>(input.data) + at);
        }
      }
    }
    if (!states.empty()) merge(together, layout, elements, states);
    left.erase(left.begin(), others);
  }
}

// `states` of all tasks, one task after the other. Every task's first states become its result, which the next ones are
// merged into.
void CombineBody::merge(std::span<scheduler::TaskRun* const> runs, const AggregateLayout& layout, int64_t elements,
                        const std::vector<void*>& states) {
  const size_t count = states.size() / runs.size();
  QUARRY_CHECK(count >= 2 && (order_ == local::MergeOrder::chain || static_cast<int64_t>(count) <= most_));
  Batch& batch = Batch::mine();
  for (size_t done = 0; done < count;) {
    const size_t most = static_cast<size_t>(most_) - (done == 0 ? 0 : 1);
    const size_t more = std::min(count - done, most);
    for (size_t r = 0; r < runs.size(); ++r) {
      void* const result = runs[r]->outputs[0].data;
      local::Launch& launch = batch.add(runs[r]->context);
      clear(launch, elements);
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
  clear(launch, elements);
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
      fill(batch.add(run->context), o, elements_(run->index), run->inputs[0].data, run->outputs[o].data);
    }
    batch.run(finalize_[o]);
  }
}

}  // namespace quarry::exec
