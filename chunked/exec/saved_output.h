// An output that outlives a run which ends too early (io/saved_job.h): which chunks of the computation are done.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/grid/grid.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/output.h"
#include "quarry/io/saved_job.h"

namespace quarry::exec {

// Of one run.
class SavedOutput {
 public:
  // A data set: who writes it, and the chunks in which it is computed.
  struct Item {
    std::shared_ptr<io::Writer> writer;
    Grid grid;
  };
  // Reads the journals of earlier runs, where `resumed`, compares what they name with what is in the file, and begins
  // this rank's. `output`: of rank 0, which learns of the placed chunks; null elsewhere. Collective.
  SavedOutput(comm::Communicator& communicator, std::string file, std::vector<Item> items, io::OutputFile* output,
              bool resumed);

  // By chunk of the item's grid; null where none is done.
  const std::shared_ptr<const std::vector<bool>>& done(size_t item) const { return done_[item]; }

  // Of this run among those that went on with the output.
  int64_t generation() const { return generation_; }

  // What has been written, a placed chunk of a file or a box of at least one element. Any thread; throw IoError.
  void note(size_t item, const io::PlacedChunk& placed, std::span<const std::byte> bytes);
  void note(size_t item, const Region& box, std::span<const std::byte> bytes);
  // All that was noted is on the device. Throws IoError.
  void flush();
  // After the commit: nothing can be resumed any more.
  void complete();

 private:
  io::WrittenParts parts_of_all(bool resumed);
  void drop_damaged(auto& parts, const auto& checksum) const;
  void find_done(const io::WrittenParts& parts);
  static void find_placed(const Item& item, std::vector<int64_t> numbers, std::vector<bool>& done);

  comm::Communicator& communicator_;
  const std::string file_;
  const std::vector<Item> items_;
  int64_t generation_ = 0;
  std::vector<std::shared_ptr<const std::vector<bool>>> done_;
  std::optional<io::JobJournal> journal_;
};

}  // namespace quarry::exec
