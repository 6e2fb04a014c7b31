// The way of encoded chunks from the ranks that made them into an output file.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/exec/extents.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/output.h"

namespace quarry::exec {

// Where the format lets chunks lie anywhere, every rank writes its own into room that it reserved. At the end every
// rank learns where those of a range of numbers are, and writes their part of the index; of few chunks, or where some
// are missing, the creating rank learns it and writes it all. Where chunks are files there is no room and no index.
// Else the creating rank stores its own at once, and those of other ranks wait in spool files beside the output.
class EncodedChunks {
 public:
  // Takes note of a chunk that has been placed.
  using Note = std::function<void(size_t item, const io::PlacedChunk& placed, std::span<const std::byte> bytes)>;
  // `output`: of rank 0, null elsewhere; lives longer. Data sets whose writer does not encode come for their numbers.
  // Collective.
  EncodedChunks(comm::Communicator& communicator, io::OutputFile* output, const std::string& file,
                std::vector<std::shared_ptr<io::Writer>> writers, Note note = nullptr);
  ~EncodedChunks();
  EncodedChunks(const EncodedChunks&) = delete;
  EncodedChunks& operator=(const EncodedChunks&) = delete;

  // Any thread. Throws IoError, CommError.
  void put(size_t item, const local::Dims& chunk, std::span<const std::byte> bytes);
  // After the last put() of this rank. Throws IoError.
  void flush();
  // After all ranks' flush(): the output has all chunks, or rank 0's knows them. Collective; throws on a rank alone
  // where that cannot write the file.
  void hand_over();

 private:
  class Spool;
  struct IndexRange;
  std::string spool_path(size_t item, int rank) const;
  void store_spool(size_t item, int rank);
  int64_t end_of_placed() const;
  // Of all ranks' chunks those of this one's range; in order, each once.
  std::vector<io::PlacedChunk> chunks_of_range(std::deque<io::PlacedChunk> mine, const IndexRange& range) const;
  // Returns this rank's error: the others go on with the next data set.
  std::exception_ptr write_index(size_t item, const IndexRange& range, const std::vector<io::PlacedChunk>& own,
                                 int64_t end);
  // Brings every rank what is for it, by rank.
  std::vector<io::PlacedChunk> exchange(const std::map<int, std::vector<io::PlacedChunk>>& parts) const;

  comm::Communicator& communicator_;
  io::OutputFile* const output_;
  const std::string file_;
  const std::vector<std::shared_ptr<io::Writer>> writers_;
  const Note note_;
  std::optional<Extents> extents_;
  std::mutex mutex_;
  std::vector<std::deque<io::PlacedChunk>> placed_;  // by item: of this rank
  std::vector<std::unique_ptr<Spool>> spools_;       // by item; null where chunks are placed
};

}  // namespace quarry::exec
