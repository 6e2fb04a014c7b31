// Saved states of a computation that outlives its run: named blocks (tiles, or values of chunks), each with a checksum,
// in files beside the unfinished output.
//
// NAME.partial.states/ holds, for every state that a rank took part in, what it wrote (data.GENERATION.STATE.RANK), and
// behind that the table of it (table.GENERATION.STATE.RANK), which is written when the data is on the device. A state
// is whole when the tables of all its ranks are there. Blocks that never change again are written once, to
// data.GENERATION.kept.RANK, and later tables name them there. Values that can be used one by one, as partial results
// of a reduction, are kept there too, and named by a table of their own (table.GENERATION.-1.RANK). Of each stage the
// last two whole states are kept, so that one may be damaged.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace quarry::io {

class ByteFile;

// Which data file: of a generation (a run of the job) and a rank of it.
struct SavedFile {
  static constexpr int64_t kKept = -1;
  int64_t generation = 0, state = kKept;
  int32_t rank = 0;
  auto operator<=>(const SavedFile&) const = default;  // NOLINT(modernize-use-nullptr): of its own code
};
// A block of matrix `matrix` of a stage at its version. No bytes are saved of what nothing reads any more.
struct SavedBlock {
  int64_t index = 0, version = 0;
  int64_t offset = -1, bytes = 0;
  SavedFile file;
  int32_t matrix = 0;
  uint32_t sum = 0;  // CRC-32
  bool has_data() const { return offset >= 0; }
};
// Or, with state kKept, the values of one rank, which are used one by one: `matrix` of a block is its stage.
struct SavedState {
  int32_t stage = 0, ranks = 0;
  int64_t generation = 0, state = 0;
  std::vector<SavedBlock> blocks;  // of all ranks
};

// What one rank saves in a run. All functions throw IoError; any thread.
class StateWriter {
 public:
  // Of the output `file`.
  StateWriter(const std::string& file, int64_t generation, int rank, int ranks);
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // A block's place in the file of a state, or of what is kept; its bytes come in parts, in order.
  class Part {
   public:
    void put(std::span<const std::byte> bytes);
    SavedBlock end() const { return block_; }  // with the place, the bytes and their checksum

   private:
    friend class StateWriter;
    std::shared_ptr<const ByteFile> file_;
    SavedBlock block_;
  };
  Part begin(int64_t state, int64_t bytes);
  // Sends what the state wrote to the device, then its table. Rank 0 takes away what no one goes on from any more.
  void commit(int32_t stage, int64_t state, std::span<const SavedBlock> blocks);

 private:
  struct Open {
    std::shared_ptr<const ByteFile> file;
    int64_t end = 0;
  };
  const std::string folder_;
  const int64_t generation_;
  const int32_t rank_, ranks_;
  std::mutex mutex_, remove_mutex_;
  std::map<int64_t, Open> open_;  // by state
};

// The whole states that the runs of a job left, the last first, and values, as bytes for other ranks. Throws IoError.
std::string read_saved_states(const std::string& file);
std::vector<SavedState> saved_states(const std::string& bytes);
// Of a run that writes states now: later than those of all that have.
int64_t next_generation(const std::string& file);
// Where the data of a block is.
std::string saved_path(const std::string& file, const SavedFile& of);
// Whether a block's data is what its checksum says.
bool is_intact(const std::string& file, const SavedBlock& block);

}  // namespace quarry::io
