#include "quarry/scheduler/admission/admission.h"

#include <fmt/format.h>

#include <limits>

#include "quarry/local/memory/policy.h"
#include "quarry/scheduler/blocks/error_context.h"

namespace quarry::scheduler {
namespace {

// Admitted tasks that are not done, at most: further ones would only make the queues long, and leave the caches.
constexpr int64_t kRunAhead = 1024;
constexpr int64_t kRunAheadOfDevice = 4096;
// So many of them must be done before others are admitted: what those ask other ranks for is asked for in one go.
constexpr int64_t kAdmittedTogether = 128;
// Tasks that are admitted at a time on device kinds: the first ones are queued while others are admitted.
constexpr int64_t kAdmittedAtATime = 64;
// Other ranks may be at a task that takes long before they read what they have asked for.
constexpr int kPatienceWithOthers = 20;

}  // namespace

void Admission::begin_run(const Graph& graph, std::vector<TaskId> order) {
  graph_ = &graph;
  order_ = std::move(order);
  task_count_ = graph.task_count();
  head_ = 0;
  has_more_ = far_ahead_ = false;
  patience_.begin();
}

void Admission::end_run() {
  graph_ = nullptr;
  std::vector<TaskId>().swap(order_);
}

bool Admission::may_admit() {
  if (head_ >= task_count_) return false;
  // Reads that no thread has begun would hold device memory in vain: fresh one, which takes time to get.
  if (on_device_ && live_.has_enough_ready(QueueKind::io) && graph_->task(task_at(head_)).queue == QueueKind::io)
    return false;
  const int64_t most = on_device_ ? kRunAheadOfDevice : kRunAhead;
  if (live_.count() >= most) far_ahead_ = true;
  if (live_.count() <= most - kAdmittedTogether) far_ahead_ = false;
  return !far_ahead_;
}

std::exception_ptr Admission::admit_tasks() {
  has_more_ = false;
  const int64_t enough = on_device_ ? head_ + kAdmittedAtATime : std::numeric_limits<int64_t>::max();
  while (may_admit()) {
    if (head_ >= enough) {
      has_more_ = true;
      return nullptr;
    }
    const TaskId task = task_at(head_);
    try {
      if (!try_admit(task, head_)) return may_get_memory() ? nullptr : out_of_memory(task);
    } catch (...) {  // the device does not have what the budget allows, or has failed
      return with_context(graph_->task_name(task), std::current_exception());
    }
    patience_.begin();
    ++head_;
  }
  return nullptr;
}

// By waiting.
bool Admission::may_get_memory() const {
  return live_.count() > 0 || blocks_.is_in_use_outside() || (on_device_ && tiers_.segments().is_recalling());
}

bool Admission::try_admit(TaskId id, int64_t order) {
  const Graph::Task& task = graph_->task(id);
  for (;;) {
    int64_t need = charged_bytes(task.scratch_bytes);
    const std::span<const BlockId> inputs = graph_->inputs(task), outputs = graph_->outputs(task);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!task.takes_over(i)) {
        need += charged_bytes(graph_->block(outputs[i]).bytes);
      } else if (blocks_.table.of(inputs[i]).spilling) {
        return false;  // its memory is read until that ends
      }
    }
    ++stamp_;
    for (const BlockId input : pinned_inputs(task)) {
      BlockRecord& r = blocks_.table.of(input);
      if (r.resident || r.stamp == stamp_) continue;
      r.stamp = stamp_;
      need += r.charge();
    }
    head_need_ = need;
    if (!blocks_.reserve(need)) {
      // What it visits itself may go too, after all else.
      if (!blocks_.evict_for(need, task.visits ? order - 1 : order, load())) return false;
      continue;
    }
    void* scratch = nullptr;
    if (!on_device_ || try_place(task, need, &scratch)) {
      admit(id, order, scratch);
      return true;
    }
    // The bytes are free, but in pieces: wait for what runs, then move blocks out of the segments one by one, last the
    // task's own inputs. When nothing lies in them there is room for a segment in which everything fits.
    blocks_.unreserve(need);
    if (!is_worth_growing()) return false;
    // What nothing in this run reads any more; rather than that the threads run out of work, also what is not needed
    // for long: its copy below may be there already.
    const int64_t after = load() < Blocks::Load::busy ? order + Blocks::kFarAhead : BlockTable::kNever - 1;
    if (blocks_.spilling_bytes() == 0 && blocks_.evict_farthest(after)) continue;
    if (may_get_memory()) return false;
    if (!blocks_.evict_farthest(order) && !blocks_.evict_one_of(graph_->inputs(task))) return false;
  }
}

bool Admission::try_place(const Graph::Task& task, int64_t bytes, void** scratch) {
  try {
    const bool may_grow = is_worth_growing();
    return place(task, may_grow, scratch) ||
           (may_grow && tiers_.segments().make_room(bytes) && place(task, may_grow, scratch));
  } catch (...) {
    blocks_.unreserve(bytes);
    throw;
  }
}

bool Admission::is_worth_growing() const {
  return load() != Blocks::Load::ample ||
         tiers_.segments().taken_bytes() < local::memory_policy::ample_bytes(tiers_.memory_budget.limit_bytes());
}

bool Admission::place(const Graph::Task& task, bool may_grow, void** scratch) {
  placed_.clear();
  const std::span<const BlockId> outputs = graph_->outputs(task);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!task.takes_over(i)) placed_.emplace_back(nullptr, charged_bytes(graph_->block(outputs[i]).bytes));
  ++stamp_;
  for (const BlockId input : pinned_inputs(task)) {
    BlockRecord& r = blocks_.table.of(input);
    if (r.resident || r.stamp == stamp_) continue;
    r.stamp = stamp_;
    placed_.emplace_back(nullptr, r.charge());
  }
  placed_.emplace_back(nullptr, charged_bytes(task.scratch_bytes));
  // Large pieces come first, and small ones then lie in the shortest gap: one of them in a gap that a large block left
  // would be in the way of the next one. Large scratch goes to the top.
  DeviceSegments& segments = tiers_.segments();
  const int64_t small = segments.limit_bytes() / local::memory_policy::kSmallBlockPart;
  const auto take_back = [&] {
    for (const auto& [data, charge] : placed_) {
      if (data && charge > 0) segments.deallocate(data, charge);
    }
  };
  bool fits = true;
  try {
    for (const bool large : {true, false}) {
      for (size_t i = 0; i < placed_.size() && fits; ++i) {
        auto& [data, charge] = placed_[i];
        if ((charge > small) != large) continue;
        const bool at_top = large && i + 1 == placed_.size();
        data = charge == 0 ? tiers_.nothing() : segments.allocate(charge, at_top, may_grow);
        fits = data != nullptr;
      }
    }
  } catch (...) {
    take_back();
    throw;
  }
  if (!fits) {
    take_back();
    return false;
  }
  *scratch = placed_.back().second > 0 ? placed_.back().first : nullptr;
  placed_.pop_back();
  return true;
}

// What the task needs is reserved: every piece of it goes to the scratch or to a block here.
void Admission::admit(TaskId id, int64_t order, void* scratch) {
  const Graph::Task& task = graph_->task(id);
  const int32_t index = live_.add(id, task, order);
  LiveTask& live = live_[index];
  live.scratch_bytes = charged_bytes(task.scratch_bytes);
  live.scratch_data = scratch;
  blocks_.add_freed_soon(live.scratch_bytes);

  BlockTable& table = blocks_.table;
  const Consumers& consumers = table.consumers();
  size_t placed = 0;
  const std::span<const BlockId> outputs = graph_->outputs(task);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const BlockId output = outputs[i];
    const Graph::Block& block = graph_->block(output);
    const int32_t made = table.add();
    table.set_index(output, made);
    BlockRecord& r = table[made];
    r.block = output;
    r.bytes = block.bytes;
    r.resident = true;
    if (on_device_ && !task.takes_over(i)) r.data = placed_[placed++].first;
    r.cursor = consumers.begin(output);
    r.end = consumers.end(output);
    r.remote = block.remote_readers;
    r.keep = block.keep;
    blocks_.note_last_use(r);
    if (task.takes_over(i)) table.of(graph_->inputs(task)[i]).given = true;
  }
  for (const BlockId input : graph_->inputs(task)) {
    BlockRecord& r = table.of(input);
    if (task.visits) {
      blocks_.add_visitor(r);
    } else if (!r.resident) {
      r.resident = true;
      if (on_device_) r.data = placed_[placed++].first;
      r.waiting = 0;
      blocks_.queue_restore(table.index_of(input), order);
    }
    if (!task.visits) ++r.pins;
    ++r.cursor;
    // What is in a tier below stays there for who visits it.
    if (!r.available && r.resident) {
      ++r.waiting;
      ++live.pending;
    }
    blocks_.note_last_use(r);
    if (task.visits) blocks_.release_if_unused(table.index_of(input));  // it may go before it is visited
  }
  // The reservation is the output's from now on; the memory becomes it when the task has run.
  for (size_t i = 0; i < outputs.size(); ++i)
    if (task.takes_over(i)) table.of(graph_->inputs(task)[i]).resident = false;
  if (live.pending == 0) live_.make_ready(index);
}

std::exception_ptr Admission::out_of_memory(TaskId task) {
  int64_t own = 0;
  bool remote = false;
  blocks_.table.for_each([&](int32_t, const BlockRecord& r) {
    own += r.resident ? r.charge() : 0;
    remote = remote || r.remote > 0;
  });
  const int64_t reserved = blocks_.reserved_bytes();
  // Staging memory and blocks that other ranks have still to read go away by themselves.
  const auto limit = remote ? kPatienceWithOthers * patience_limit_ : patience_limit_;
  if ((reserved > own || remote) && !patience_.is_over(blocks_.movements(), /*at_work=*/false, limit)) return nullptr;
  return std::make_exception_ptr(local::OutOfMemory(
      fmt::format("{} needs {} bytes more; {} of the budget of {} bytes are in use and nothing can be moved away{}",
                  graph_->task_name(task), head_need_, reserved, tiers_.memory_budget.limit_bytes(),
                  tiers_.spill.is_enabled() ? "" : ": there is no spill directory")));
}

std::string Admission::describe_next() const {
  if (is_at_end()) return "";
  return fmt::format(
      "next: {} needs {} bytes; {} of {} are reserved, {} are being spilled{}\n", graph_->task_name(task_at(head_)),
      head_need_, blocks_.reserved_bytes(), tiers_.memory_budget.limit_bytes(), blocks_.spilling_bytes(),
      on_device_ && tiers_.segments().is_recalling() ? ", other ranks have memory open that is to go" : "");
}

}  // namespace quarry::scheduler
