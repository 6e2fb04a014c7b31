#include "quarry/scheduler/graph.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "quarry/scheduler/executor.h"

namespace quarry::scheduler {

const char* name(QueueKind queue) {
  switch (queue) {
    case QueueKind::io:
      return "io";
    case QueueKind::compute:
      return "compute";
    case QueueKind::worker:
      return "worker";
    case QueueKind::comm:
      return "comm";
    case QueueKind::urgent:
      return "urgent";
    case QueueKind::panel:
      return "panel";
  }
  return "unknown";
}

AddressTable::Entry& AddressTable::place(const void* address) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  size_t at = (reinterpret_cast<uintptr_t>(address) * kFactor) >> 20;
  for (;; ++at) {
    Entry& entry = entries_[at & (entries_.size() - 1)];
    if (entry.address == address || entry.address == nullptr) return entry;
  }
}

int64_t AddressTable::emplace(const void* address, int64_t number) {
  if (2 * (used_ + 1) > entries_.size()) {
    std::vector<Entry> before(std::max<size_t>(2 * entries_.size(), 16));
    before.swap(entries_);
    for (const Entry& entry : before) {
      if (entry.address) place(entry.address) = entry;
    }
  }
  Entry& entry = place(address);
  if (!entry.address) {
    entry = {address, number};
    ++used_;
  }
  return entry.number;
}

int32_t Graph::add_body(std::unique_ptr<TaskBody> body) {
  QUARRY_CHECK(body != nullptr);
  bodies_.push_back(std::move(body));
  return static_cast<int32_t>(bodies_.size() - 1);
}

BlockId Graph::add_block(int64_t bytes, int32_t remote_readers, bool keep) {
  QUARRY_CHECK(bytes >= 0 && remote_readers >= 0);
  Block block{.bytes = bytes};
  block.remote_readers = remote_readers;
  block.keep = keep;
  blocks_.push_back(block);
  return block_count() - 1;
}

BlockId Graph::add_stored(std::shared_ptr<StoredBlock> stored, int32_t remote_readers) {
  QUARRY_CHECK(stored != nullptr && remote_readers >= 0);
  const BlockId id = stored_ids_.emplace(stored.get(), block_count());
  if (id == block_count()) {
    Block block{.bytes = stored->bytes()};
    block.stored = static_cast<int32_t>(stored_.size());
    stored_.push_back(std::move(stored));
    blocks_.push_back(block);
  }
  blocks_[static_cast<size_t>(id)].remote_readers += remote_readers;
  return id;
}

void Graph::release_stored() {
  stored_ids_ = {};
  for (std::shared_ptr<StoredBlock>& stored : stored_) stored.reset();
  for (size_t b = 0; b < blocks_.size(); ++b) blocks_[b].remote_readers = 0;
}

void Graph::set_stored(BlockId id, std::shared_ptr<StoredBlock> stored) {
  const Block& block = this->block(id);
  QUARRY_CHECK(stored != nullptr && block.stored >= 0 && stored->bytes() == block.bytes);
  QUARRY_CHECK(stored_ids_.emplace(stored.get(), id) == id);
  stored_[static_cast<size_t>(block.stored)] = std::move(stored);
}

const std::shared_ptr<StoredBlock>& Graph::stored(BlockId id) const {
  static const std::shared_ptr<StoredBlock> none;
  const int32_t index = block(id).stored;
  return index < 0 ? none : stored_[static_cast<size_t>(index)];
}

TaskId Graph::add_task(const TaskDecl& decl) {
  QUARRY_CHECK(decl.body >= 0 && decl.body < static_cast<int64_t>(bodies_.size()));
  QUARRY_CHECK(decl.scratch_bytes >= 0 && decl.traffic_bytes >= 0);
  const TaskId id = task_count();
  Task task{};
  task.kind = decl.kind;
  task.queue = decl.queue;
  task.visits = decl.visits;
  task.in_place = decl.in_place;
  any_in_place_ = any_in_place_ || decl.in_place != 0;
  task.body = decl.body;
  task.index = decl.index;
  task.position = decl.position;
  task.scratch_bytes = decl.scratch_bytes;
  task.traffic_bytes = decl.traffic_bytes;
  task.edges_begin = static_cast<int64_t>(edges_.size());
  task.inputs = static_cast<int32_t>(decl.inputs.size());
  task.outputs = static_cast<int32_t>(decl.outputs.size());
  for (const BlockId input : decl.inputs) {
    QUARRY_CHECK(input >= 0 && input < block_count());
    Block& block = blocks_[static_cast<size_t>(input)];
    ++block.consumers;
    in_order_ = in_order_ && (block.producer >= 0 || block.stored >= 0);
    edges_.push_back(input);
  }
  for (const BlockId output : decl.outputs) {
    QUARRY_CHECK(output >= 0 && output < block_count());
    Block& block = blocks_[static_cast<size_t>(output)];
    QUARRY_CHECK(block.producer < 0 && block.stored < 0);
    block.producer = id;
    edges_.push_back(output);
  }
  if (goes_first(task.queue)) {
    task.ends_round = true;
    for (const BlockId input : decl.inputs)
      if (const TaskId producer = block(input).producer; producer >= 0)
        tasks_[static_cast<size_t>(producer)].ends_round = true;
  }
  in_order_ = in_order_ && (id == 0 || tasks_[static_cast<size_t>(id - 1)].position <= task.position);
  traffic_bytes_ += task.traffic_bytes;
  const int64_t needed = needed_bytes(task);
  if (largest_ < 0 || needed > least_bytes_) largest_ = id;
  least_bytes_ = std::max(least_bytes_, needed);
  tasks_.push_back(task);
  return id;
}

void Graph::keep_only(const std::vector<bool>& kept) {
  QUARRY_CHECK(std::ssize(kept) == task_count());
  const Parts<Task> all = std::exchange(tasks_, {});
  for (size_t b = 0; b < blocks_.size(); ++b) {
    blocks_[b].producer = -1;
    blocks_[b].consumers = 0;
  }
  least_bytes_ = traffic_bytes_ = 0;
  largest_ = -1;
  in_order_ = false;  // it is found out again
  for (size_t i = 0; i < all.size(); ++i) {
    if (!kept[i]) continue;
    const TaskId id = task_count();
    const Task& task = all[i];
    for (const BlockId input : inputs(task)) ++blocks_[static_cast<size_t>(input)].consumers;
    for (const BlockId output : outputs(task)) blocks_[static_cast<size_t>(output)].producer = id;
    traffic_bytes_ += task.traffic_bytes;
    const int64_t needed = needed_bytes(task);
    if (largest_ < 0 || needed > least_bytes_) largest_ = id;
    least_bytes_ = std::max(least_bytes_, needed);
    tasks_.push_back(task);
  }
  if (!work_.empty()) set_work(std::move(work_));
}

void Graph::set_work(std::vector<double> seconds_of_body) {
  QUARRY_CHECK(std::ssize(seconds_of_body) == body_count());
  work_ = std::move(seconds_of_body);
  total_work_ = longest_work_ = 0;
  for (TaskId id = 0; id < task_count(); ++id) {
    const double seconds = work(task(id));
    total_work_ += seconds;
    longest_work_ = std::max(longest_work_, seconds);
  }
}

// The compute-tier bytes that the task needs: every block once.
int64_t Graph::needed_bytes(const Task& task) {
  constexpr size_t kFew = 8;
  int64_t bytes = charged_bytes(task.scratch_bytes);
  for (size_t i = 0; i < outputs(task).size(); ++i)
    if (!task.takes_over(i)) bytes += charged_bytes(block(outputs(task)[i]).bytes);
  if (task.visits) return bytes;
  std::span<const BlockId> once = inputs(task);
  if (once.size() > kFew) {
    distinct_.assign(once.begin(), once.end());
    std::ranges::sort(distinct_);
    distinct_.erase(std::unique(distinct_.begin(), distinct_.end()), distinct_.end());
    once = distinct_;
  }
  for (size_t i = 0; i < once.size(); ++i) {
    const auto before = once.first(once.size() > kFew ? 0 : i);
    if (std::ranges::find(before, once[i]) == before.end()) bytes += charged_bytes(block(once[i]).bytes);
  }
  return bytes;
}

std::vector<TaskId> Graph::changed_order() const {
  check_blocks();
  if (in_order_) return {};
  std::vector<TaskId> order(tasks_.size());
  std::iota(order.begin(), order.end(), TaskId{0});
  const auto before = [this](TaskId a, TaskId b) { return precedes(a, b); };
  const bool changed = !std::ranges::is_sorted(order, before);
  if (changed) std::ranges::sort(order, before);
  for (TaskId id = 0; id < task_count(); ++id) {
    for (const BlockId input : inputs(task(id))) {
      const Block& from = block(input);
      if (from.stored >= 0) continue;
      QUARRY_CHECK(from.producer >= 0 && precedes(from.producer, id));
    }
  }
  if (!changed) return {};
  return order;
}

void Graph::check_blocks() const {
  for (BlockId id = 0; id < block_count(); ++id) {
    const Block& b = block(id);
    QUARRY_CHECK(b.producer >= 0 || b.stored >= 0 || (b.remote_readers == 0 && !b.keep));
  }
  for (TaskId id = 0; any_in_place_ && id < task_count(); ++id) check_in_place(task(id));
}

void Graph::check_in_place(const Task& task) const {
  if (task.in_place == 0) return;
  QUARRY_CHECK(!task.visits);
  for (size_t i = 0; i < 8; ++i) {
    if (!task.takes_over(i)) continue;
    QUARRY_CHECK(i < inputs(task).size() && i < outputs(task).size());
    const Block& before = block(inputs(task)[i]);
    const Block& after = block(outputs(task)[i]);
    QUARRY_CHECK(before.bytes == after.bytes && before.consumers == 1 && before.remote_readers == 0 && !before.keep &&
                 before.stored < 0);
  }
}

std::vector<TaskId> Graph::admission_order() const {
  std::vector<TaskId> order = changed_order();
  if (order.empty()) {
    order.resize(tasks_.size());
    std::iota(order.begin(), order.end(), TaskId{0});
  }
  return order;
}

Consumers::Consumers(const Graph& graph, std::span<const TaskId> order) {
  QUARRY_CHECK(graph.task_count() <= int64_t{std::numeric_limits<uint32_t>::max()});
  ends_ = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(graph.block_count()));
  int64_t count = 0;
  for (BlockId b = 0; b < graph.block_count(); ++b) {
    ends_[static_cast<size_t>(b)] = count;  // where its first one goes
    count += graph.block(b).consumers;
  }
  orders_ = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(count));
  for (TaskId i = 0; i < graph.task_count(); ++i) {
    const Graph::Task& task = graph.task(order.empty() ? i : order[static_cast<size_t>(i)]);
    for (const BlockId input : graph.inputs(task)) {
      int64_t& next = ends_[static_cast<size_t>(input)];
      orders_[static_cast<size_t>(next++)] = static_cast<uint32_t>(i);
    }
  }
}

int64_t least_workable_bytes(const Graph& graph) { return graph.least_bytes_; }

}  // namespace quarry::scheduler
