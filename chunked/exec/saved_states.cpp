#include "quarry/chunked/exec/saved_states.h"

#include <fmt/format.h>

#include <exception>
#include <set>

#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry::exec {

SavedStates::SavedStates(comm::Communicator& communicator, std::string file, int64_t generation, double flop_rate,
                         double every, bool resumed)
    : communicator_(communicator),
      file_(std::move(file)),
      flop_rate_(flop_rate),
      every_(every),
      writer_(file_, generation, communicator.rank(), communicator.size()) {
  if (resumed) find_saved();
}

// Rank 0 reads the tables; ranks share the reading of data.
void SavedStates::find_saved() {
  std::string all;
  comm::on_rank_0(communicator_, {"store"}, [&] { all = io::read_saved_states(file_); });
  const auto ranks = static_cast<size_t>(communicator_.size());
  std::set<int32_t> found;  // stages
  for (const io::SavedState& state : io::saved_states(communicator_.broadcast_string(all, /*root=*/0))) {
    if (state.state == io::SavedFile::kKept) {
      find_values(state);
      continue;
    }
    if (found.contains(state.stage)) continue;
    int64_t damaged[] = {-1};  // a block
    comm::alone(communicator_, [&] {
      for (auto i = static_cast<size_t>(communicator_.rank()); i < state.blocks.size() && damaged[0] < 0; i += ranks)
        if (state.blocks[i].has_data() && !io::is_intact(file_, state.blocks[i])) damaged[0] = static_cast<int64_t>(i);
    });
    communicator_.all_reduce(damaged, comm::ReduceOp::max);
    if (damaged[0] >= 0) {
      if (communicator_.rank() == 0)
        local::log(
            local::LogLevel::warn,
            fmt::format("the saved state {} of run {} is damaged, and an earlier one is used where there is one: '{}' "
                        "is not what was written",
                        state.state, state.generation,
                        io::saved_path(file_, state.blocks[static_cast<size_t>(damaged[0])].file)));
      continue;
    }
    found.insert(state.stage);
    for (const io::SavedBlock& block : state.blocks) saved_[{state.stage, block.matrix, block.index}] = block;
  }
}

// Of one rank of an earlier run.
void SavedStates::find_values(const io::SavedState& values) {
  std::vector<int64_t> bad(values.blocks.size(), 0);
  comm::alone(communicator_, [&] {
    for (auto i = static_cast<size_t>(communicator_.rank()); i < bad.size();
         i += static_cast<size_t>(communicator_.size()))
      bad[i] = io::is_intact(file_, values.blocks[i]) ? 0 : 1;
  });
  communicator_.all_reduce(bad, comm::ReduceOp::max);
  for (size_t i = 0; i < bad.size(); ++i) {
    const io::SavedBlock& block = values.blocks[i];
    if (bad[i] == 0)
      saved_[{block.matrix, 0, block.index}] = block;
    else if (communicator_.rank() == 0)
      local::log(local::LogLevel::warn, fmt::format("a saved value in '{}' is damaged, and is computed again",
                                                    io::saved_path(file_, block.file)));
  }
}

const io::SavedBlock* SavedStates::saved(int stage, int matrix, int64_t index) const {
  if (saved_.empty()) return nullptr;
  const auto found = saved_.find({stage, matrix, index});
  return found == saved_.end() ? nullptr : &found->second;
}

void SavedStates::begin_lowering() { states_.clear(); }

int64_t SavedStates::add_state(int stage, std::vector<Entry> table, int64_t tasks) {
  states_.push_back({stage, std::move(table), tasks});
  return std::ssize(states_) - 1;
}

void SavedStates::put(int64_t state, size_t entry, const io::SavedBlock& written, bool is_kept) {
  const std::lock_guard lock(mutex_);
  State& of = states_[static_cast<size_t>(state)];
  io::SavedBlock& block = of.table[entry].block;
  block.offset = written.offset;
  block.bytes = written.bytes;
  block.file = written.file;
  block.sum = written.sum;
  if (is_kept) kept_[{of.stage, block.matrix, block.index}] = block;
}

bool SavedStates::is_due() const { return std::chrono::duration<double>(Clock::now() - begin_).count() >= every_; }

void SavedStates::put_value(int stage, int64_t index, io::SavedBlock written) {
  written.matrix = stage;
  written.index = index;
  std::unique_lock lock(mutex_);
  values_.push_back(written);
  if (is_committing_values_) return;  // the thread that commits looks again
  const auto since = [&] { return std::chrono::duration<double>(Clock::now() - values_committed_).count(); };
  while (values_in_table_ < values_.size() && since() >= every_) {
    const std::vector<io::SavedBlock> values = values_;
    values_committed_ = Clock::now();
    is_committing_values_ = true;
    lock.unlock();
    writer_.commit(/*stage=*/0, io::SavedFile::kKept, values);
    lock.lock();
    is_committing_values_ = false;
    values_in_table_ = values.size();
  }
}

void SavedStates::finish(int64_t state) {
  std::unique_lock lock(mutex_);
  --states_[static_cast<size_t>(state)].tasks_left;
  // In order, so that what a table names as kept before is there; by one thread at a time, which others leave theirs
  // to.
  if (is_committing_) return;
  while (committed_ < states_.size() && states_[committed_].tasks_left == 0) {
    const State& next = states_[committed_];
    std::vector<io::SavedBlock> blocks;
    for (const Entry& entry : next.table)
      blocks.push_back(entry.is_kept_before ? kept_.at({next.stage, entry.block.matrix, entry.block.index})
                                            : entry.block);
    const auto number = static_cast<int64_t>(committed_);
    is_committing_ = true;
    lock.unlock();
    writer_.commit(next.stage, number, blocks);
    lock.lock();
    is_committing_ = false;
    ++committed_;
  }
}

}  // namespace quarry::exec
