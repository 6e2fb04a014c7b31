// Saved states of a run (io/saved_states.h): which blocks of its tile programs earlier runs have saved, and what this
// one saves.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/io/saved_states.h"

namespace quarry::exec {

class SavedStates {
 public:
  // `flop_rate`: additions and multiplications a second of all ranks, by which states are `every` seconds apart, or a
  // little more; the same on every rank. `resumed`: whether earlier runs may have saved some: of each stage the last
  // whole one whose data are as their checksums say; one that is damaged is named in a warning. Collective.
  SavedStates(comm::Communicator& communicator, std::string file, int64_t generation, double flop_rate, double every,
              bool resumed);

  // --- what there is ---

  bool is_resumed() const { return !saved_.empty(); }
  // Null where the state that the stage goes on from has no such block, or there is none. Of reductions: matrix 0.
  const io::SavedBlock* saved(int stage, int matrix, int64_t index) const;
  const std::string& file() const { return file_; }

  // --- while tasks are made, which may be done several times ---

  void begin_lowering();
  // Whether a state is due behind so many additions and multiplications since the last one.
  bool is_due_after(double flops) const { return flops >= every_ * flop_rate_; }
  // A block in this rank's table of a state: where it is already, what a task will write, or what one of an earlier
  // state of this run writes to what is kept.
  struct Entry {
    io::SavedBlock block;
    bool is_kept_before = false;
  };
  // The next state, the same on every rank; `tasks` call finish() of it. Returns its number.
  int64_t add_state(int stage, std::vector<Entry> table, int64_t tasks);

  // --- while they run; any thread ---

  io::StateWriter::Part begin(int64_t state, bool is_kept, int64_t bytes) {
    return writer_.begin(is_kept ? io::SavedFile::kKept : state, bytes);
  }
  void put(int64_t state, size_t entry, const io::SavedBlock& written, bool is_kept);
  // Of values that can be used one by one: whether they are to be saved by now, and one of them, which is committed
  // with others as often as states are made.
  bool is_due() const;
  void put_value(int stage, int64_t index, io::SavedBlock written);
  // The last task of a state, and of all before it, commits it. Throws IoError.
  void finish(int64_t state);

 private:
  using Key = std::tuple<int, int, int64_t>;  // stage, matrix, index
  struct State {
    int stage;
    std::vector<Entry> table;
    int64_t tasks_left;
  };
  using Clock = std::chrono::steady_clock;
  void find_saved();
  void find_values(const io::SavedState& values);

  comm::Communicator& communicator_;
  const std::string file_;
  const double flop_rate_, every_;
  std::map<Key, io::SavedBlock> saved_;
  io::StateWriter writer_;
  std::mutex mutex_;
  std::vector<State> states_;
  size_t committed_ = 0;
  bool is_committing_ = false;
  std::map<Key, io::SavedBlock> kept_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point values_committed_ = begin_;
  std::vector<io::SavedBlock> values_;
  size_t values_in_table_ = 0;
  bool is_committing_values_ = false;
};

}  // namespace quarry::exec
